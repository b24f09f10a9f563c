"""Where environments go: as conda's user expects where there is a conda, else the platform's data folder."""

import os

import pytest

from envkit import condarc, mirror, places
from envkit.errors import InputError


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path


def test_without_conda_it_is_the_data_folder(home):
    assert places.envs_directories({})[0] == home / ".local/share/envkit/envs"


def test_envs_of_an_installed_conda_come_first(home):
    (home / "miniforge3/conda-meta").mkdir(parents=True)
    assert places.envs_directories({})[0] == home / "miniforge3/envs"
    (home / "other/conda-meta").mkdir(parents=True)
    assert places.envs_directories({"CONDA_EXE": str(home / "other/bin/conda")})[0] == home / "other/envs"


def test_condarc_and_variables_are_read_as_conda_reads_them(home):
    (home / ".condarc").write_text("envs_dirs:\n  - ~/from-rc\n")
    assert places.envs_directories({})[0] == home / "from-rc"
    listed = os.pathsep.join([str(home / "a"), str(home / "b")])
    assert places.envs_directories({"CONDA_ENVS_PATH": listed})[:2] == (home / "a", home / "b")


def test_a_name_is_found_where_it_is_and_made_in_the_first_place(home):
    own = {"CONDA_ENVS_PATH": os.pathsep.join([str(home / "a"), str(home / "b")])}
    (home / "b/mine").mkdir(parents=True)
    assert places.prefix_of("mine", own) == home / "b/mine"
    assert places.prefix_of("new", own) == home / "a/new"


def test_a_condarc_that_is_no_yaml_is_named(home):
    (home / ".condarc").write_text("a: [")
    with pytest.raises(InputError, match="condarc"):
        places.envs_directories({})


@pytest.mark.parametrize("name", ["plain", "with space", "é-1.0_x"])
def test_good_names_pass(name):
    places.check_name(name)


def test_channels_are_looked_up_as_conda_does(home):
    (home / ".condarc").write_text(
        "channel_alias: https://alias.example\n"
        "custom_channels:\n  conda-forge: https://mirror.example/cloud\n  own: file:///srv\n"
        "custom_multichannels:\n  both: [conda-forge, own]\n"
        "default_channels: [https://mirror.example/pkgs/main]\n"
    )
    settings = condarc.load()
    assert settings.urls("pytorch") == ("https://alias.example/pytorch",)
    assert settings.urls("conda-forge") == ("https://mirror.example/cloud/conda-forge",)
    assert settings.urls("conda-forge/label/x") == ("https://mirror.example/cloud/conda-forge/label/x",)
    assert settings.urls("both") == ("https://mirror.example/cloud/conda-forge", "file:///srv/own")
    assert settings.urls("defaults")[0] == "https://mirror.example/pkgs/main"
    assert settings.urls("https://else.example/x") == ("https://else.example/x",)


def test_files_and_variables_of_conda_are_merged_in_its_order(home):
    (home / ".config/conda/condarc.d").mkdir(parents=True)
    (home / ".config/conda/condarc.d/a.yml").write_text(
        "channels: [low]\ncustom_channels: {a: https://a}\noffline: true\n"
    )
    (home / ".condarc").write_text("channels: [high]\ncustom_channels: {b: https://b}\noffline: false\n")
    own = {"HOME": str(home), "CONDA_CHANNEL_ALIAS": "https://env", "CONDA_CHANNEL_PRIORITY": "disabled"}
    settings = condarc.load(own)
    assert settings.channels == ("high", "low")
    assert dict(settings.custom_channels) == {"a": "https://a", "b": "https://b"}
    assert (settings.offline, settings.channel_alias, settings.channel_priority) == (False, "https://env", "disabled")


def test_a_setting_of_a_wrong_kind_is_named(home):
    (home / ".condarc").write_text("custom_channels: [a]\n")
    with pytest.raises(InputError, match="custom_channels"):
        condarc.load()


def test_a_mirror_writes_what_conda_needs_and_knows_what_it_lacks(home):
    (home / ".condarc").write_text(mirror.condarc("tuna"))
    settings = condarc.load()
    assert settings.urls("conda-forge") == ("https://mirrors.tuna.tsinghua.edu.cn/anaconda/cloud/conda-forge",)
    assert "tuna" not in settings.urls("nvidia")[0]
    assert condarc.Condarc().urls("nvidia") == ("https://conda.anaconda.org/nvidia",)
    with pytest.raises(InputError, match="not a mirror"):
        mirror.condarc("nowhere")


def test_a_channel_by_name_is_solved_from_where_condarc_puts_it(channel, envkit, tmp_path):
    settings = tmp_path / "condarc"
    settings.write_text(f"custom_channels:\n  {channel.name}: {channel.parent.as_uri()}\n")
    source = tmp_path / "environment.yml"
    source.write_text(f"name: x\nchannels: [{channel.name}]\ndependencies: [python]\n")
    envkit("lock", source, environ={"CONDARC": str(settings)})
    assert f"url: {channel.name}\n" in (tmp_path / "conda-lock.yml").read_text()
