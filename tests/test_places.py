"""Where environments go: as conda's user expects where there is a conda, else the platform's data folder."""

import os

import pytest

from envkit import places
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
