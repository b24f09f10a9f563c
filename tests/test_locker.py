"""Locks: conda-lock for real, no conda installed, and the right sentence when it cannot be."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests_support import SHARED

from envkit import compatibility, environment, lockable, locker
from envkit import lock as locks
from envkit.errors import InputError, UnsolvableError, WrongBuildError


def _write(folder: Path, specs: list[str], channel: str, *, more: str = "") -> Path:
    lines = ["name: e", "channels:", f"  - {channel}", "dependencies:", *(f"  - {spec}" for spec in specs)]
    path = folder / "environment.yml"
    path.write_text("\n".join(lines) + "\n" + more)
    return path


def test_the_lock_is_read_by_conda_lock_and_rendered_by_its_own_command(small_project, envkit):
    envkit("lock", small_project / "environment.yml")
    command = [Path(sys.executable).parent / "conda-lock", "render", "--kind", "explicit", "-p", "linux-64"]
    subprocess.run([*command, "conda-lock.yml"], cwd=small_project, check=True, capture_output=True)
    explicit = (small_project / "conda-linux-64.lock").read_text()
    assert "@EXPLICIT" in explicit
    assert "python-3" in explicit


def test_the_lock_is_sorted_and_says_what_it_was_solved_with(small_project, envkit):
    envkit("lock", small_project / "environment.yml")
    held = locks.read(small_project / "conda-lock.yml")
    names = [one.name for one in held.package]
    assert names == sorted(names)
    assert held.metadata.sources == ("environment.yml",)
    assert {one.name for one in held.virtual_packages("linux-64")} >= {"__glibc", "__unix"}
    assert all(one.hash.sha256 for one in held.package)


def test_locking_twice_writes_the_same_bytes(small_project, envkit):
    envkit("lock", small_project / "environment.yml")
    first = (small_project / "conda-lock.yml").read_bytes()
    envkit("lock", small_project / "environment.yml")
    assert (small_project / "conda-lock.yml").read_bytes() == first


def test_check_tells_fresh_from_stale_without_solving(small_project, envkit):
    source = small_project / "environment.yml"
    assert "does not exist" in envkit("lock", source, "--check", status=1).stdout
    envkit("lock", source)
    told = envkit("lock", source, "--check", "--json")
    assert json.loads(told.stdout)["fresh"] is True
    source.write_text("# a comment alone changes nothing\n" + source.read_text())
    envkit("lock", source, "--check")
    source.write_text(source.read_text().replace("  - pip\n", "  - pip>=20\n"))
    told = envkit("lock", source, "--check", "--json", status=1)
    assert json.loads(told.stdout)["stale"] == ["linux-64"]


def test_check_does_not_need_the_channel(small_project, envkit, channel, tmp_path):
    source = small_project / "environment.yml"
    envkit("lock", source)
    text = source.read_text()
    envkit("lock", source, "--check", environ={"HOME": str(tmp_path)})
    assert source.read_text() == text


def test_update_moves_one_package_and_leaves_the_others(channel, pythons, envkit, tmp_path):
    minor = "3.11" if "3.11" in pythons else next(iter(pythons))
    if minor != "3.11":
        pytest.skip("NO PYTHON 3.11 HERE: only it has two versions of a package")
    source = _write(tmp_path, ["python=3.11", "numpy=1.26", "pillow=10"], channel.as_uri())
    envkit("lock", source)
    source.write_text(source.read_text().replace("numpy=1.26", "numpy").replace("pillow=10", "pillow"))
    envkit("lock", source, "--update", "numpy")
    versions = {one.name: one.version for one in locks.read(tmp_path / "conda-lock.yml").package}
    assert versions["numpy"] == "2.2.6"
    assert versions["pillow"] == "10.4.0"


def test_a_failed_lock_leaves_the_old_one(small_project, envkit):
    source = small_project / "environment.yml"
    envkit("lock", source)
    before = (small_project / "conda-lock.yml").read_bytes()
    source.write_text(source.read_text().replace("- pip\n", "- pip>9999\n"))
    envkit("lock", source, status=3)
    assert (small_project / "conda-lock.yml").read_bytes() == before
    assert sorted(path.name for path in small_project.iterdir()) == ["conda-lock.yml", "environment.yml"]


def test_all_specs_without_a_package_are_told_at_once(channel, envkit, tmp_path):
    source = _write(tmp_path, ["python", "nada", "pip>9999", "nothing=1"], channel.as_uri())
    told = envkit("lock", source, status=3).stderr
    assert "3 spec(s)" in told
    assert "nada: not for linux-64" in told
    assert re.search(r"pip >9999.*the channels have \d", told)


def test_all_lines_that_cannot_be_read_are_told_with_their_numbers(channel, tmp_path):
    source = _write(tmp_path, ["python", "openpyxl =>3.1", "numpy[x", "pip", "pip>=20"], channel.as_uri())
    asked = environment.read(source)
    with pytest.raises(InputError) as caught:
        lockable.check_readable(asked, source)
    lines = [detail.partition(": ")[0].rpartition(":")[2] for detail in caught.value.details]
    assert lines == ["6", "7", "9"]


def test_virtual_packages_come_from_the_target_and_never_from_this_machine():
    plain = environment.parse("dependencies: [pytorch]\n", "e.yml")
    for asked, cuda in (("cpu", None), ("11.8", "11.8")):
        target = locker.target(plain, cuda=asked, platforms=["linux-64"])
        packages = {one.name: one.version for one in target.packages["linux-64"]}
        assert packages.get("__cuda") == cuda
        assert packages["__glibc"] == "2.28"


@pytest.mark.parametrize(
    ("specs", "cuda"),
    [
        (["pytorch"], "cpu"),
        (["pytorch=2.5.1=*cuda11.8*"], "11.8"),
        (["pytorch", "pytorch-cuda=12.1"], "12.1"),
        (["pytorch-gpu", "cuda-version=12.9"], "12.9"),
        (["conda-forge::pytorch=2.4.1=cuda118*"], "11.8"),
        (["cudatoolkit=11.3.1=h1_2", "pytorch=1.12.1=py3.9_cuda11.3_cudnn8.3.2_0"], "11.3"),
        (["torchvision=0.20.1=py311_cu124"], "12.4"),
        (["pytorch-gpu"], "13.0"),
    ],
)
def test_the_cuda_of_a_file_is_read_from_its_specs(specs, cuda):
    assert compatibility.cuda_of(specs) == cuda


@pytest.fixture
def snapshot(monkeypatch):
    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", (SHARED / "channels").as_uri())


def _lock(folder: Path, text: str, cuda: str):
    source = folder / "environment.yml"
    source.write_text(text)
    target = locker.target(environment.read(source), cuda=cuda, platforms=["linux-64"])
    return locker.write(source, folder / "conda-lock.yml", target)


UNPINNED = """\
channels: [pytorch, nvidia, conda-forge, nodefaults]
dependencies: [python=3.11, pytorch=2.5.1, pytorch-cuda=11.8, numpy, torchvision=0.20.1]
"""


@pytest.mark.shared
def test_a_cuda_target_that_solves_to_a_cpu_build_is_an_error_and_never_a_lock(snapshot, tmp_path):
    with pytest.raises(WrongBuildError, match=r"pytorch|CPU build") as caught:
        _lock(tmp_path, UNPINNED, "11.8")
    assert any("pytorch 2.5.1 py3.11_cpu_0" in line for line in caught.value.details)
    assert not (tmp_path / "conda-lock.yml").exists()


@pytest.mark.shared
def test_a_cpu_torchvision_beside_a_cuda_pytorch_is_the_same_error(snapshot, tmp_path):
    text = UNPINNED.replace("pytorch=2.5.1,", "'pytorch=2.5.1=*cuda12.4*',").replace("11.8", "12.4")
    with pytest.raises(WrongBuildError) as caught:
        _lock(tmp_path, text, "12.4")
    assert all("torchvision" in line for line in caught.value.details)


@pytest.mark.shared
@pytest.mark.parametrize("cuda", ["cpu", "11.3", "11.8", "12.1", "12.4", "12.6", "12.9", "13.0"])
def test_templates_lock_to_the_build_that_they_promise(cuda, snapshot, envkit, tmp_path):
    envkit("create", "-n", "t", "--cuda", cuda, "-d", tmp_path, "--stop-after", "lock")
    held = locks.read(tmp_path / "conda-lock.yml")
    torch = next(one for one in held.conda("linux-64") if one.name == "pytorch")
    assert ("cuda" in torch.build) == (cuda != "cpu")
    assert torch.url.startswith("https://conda.anaconda.org/")
    assert "numpy" in {one.name for one in held.package}


@pytest.mark.shared
def test_several_platforms_are_locked_in_one_file(snapshot, envkit, tmp_path):
    source = _write(tmp_path, ["python=3.11", "pytorch", "numpy"], "conda-forge")
    envkit("lock", source, "--platform", "linux-64", "--platform", "osx-arm64")
    held = locks.read(tmp_path / "conda-lock.yml")
    assert held.metadata.platforms == ("linux-64", "osx-arm64")
    assert {one.platform for one in held.package} == {"linux-64", "osx-arm64"}
    # Locking again without a choice keeps the platforms of the lock.
    envkit("lock", source)
    assert locks.read(tmp_path / "conda-lock.yml").metadata.platforms == ("linux-64", "osx-arm64")


def test_a_channel_over_http_locks_and_a_server_error_is_tried_again(channel, serve, envkit, tmp_path, pythons):
    server = serve(channel)
    server.faults = {"noarch/repodata_shards": ["500"]}
    source = _write(tmp_path, ["python"], server.url)
    envkit("lock", source, environ={"RATTLER_CACHE_DIR": str(tmp_path / "cache")})
    assert [path for path, _ in server.asked].count("/noarch/repodata_shards.msgpack.zst") == 2
    assert server.url in (tmp_path / "conda-lock.yml").read_text()


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [("404", 7, "answered 404"), ("500", 7, "answered 500"), ("half", 8, "truncated or damaged")],
)
def test_a_channel_that_fails_is_named_with_what_it_answered(answer, status, said, channel, serve, envkit, tmp_path):
    server = serve(channel)
    server.faults = {"repodata": [answer] * 40}
    source = _write(tmp_path, ["python"], server.url)
    told = envkit("lock", source, status=status, environ={"RATTLER_CACHE_DIR": str(tmp_path / "cache")}).stderr
    assert said in told
    assert not (tmp_path / "conda-lock.yml").exists()


def test_a_channel_that_does_not_exist_is_named(channel, serve, envkit, tmp_path):
    source = _write(tmp_path, ["python"], f"{serve(channel).url}/nowhere")
    told = envkit("lock", source, status=7).stderr
    assert "/nowhere/ answered 404" in told


def test_no_login_of_a_channel_reaches_the_lock(channel, serve, envkit, tmp_path):
    server = serve(channel)
    login = server.url.replace("http://", "http://ada:hunter2@")
    source = _write(tmp_path, ["python"], f"{login}/t/tk-123-secret/")
    envkit("lock", source)
    text = (tmp_path / "conda-lock.yml").read_text()
    assert "hunter2" not in text
    assert "tk-123-secret" not in text
    envkit("lock", source, "--check")


def test_a_login_by_variable_is_kept_by_its_name(channel, serve, envkit, tmp_path):
    server = serve(channel)
    source = _write(tmp_path, ["python"], f"{server.url}/t/${{MY_REPO_TOKEN}}/")
    own = {"MY_REPO_TOKEN": "tk-456-secret"}
    envkit("lock", source, environ=own)
    text = (tmp_path / "conda-lock.yml").read_text()
    assert "tk-456-secret" not in text
    assert "${MY_REPO_TOKEN}" in text
    told = envkit("build", source, "-p", tmp_path / "e", status=2).stderr
    assert "needs the environment variable MY_REPO_TOKEN" in told
    envkit("build", source, "-p", tmp_path / "e", environ=own)
    assert "tk-456-secret" not in "".join(path.read_text() for path in (tmp_path / "e/conda-meta").glob("*.json"))


@pytest.mark.parametrize("way", ["netrc", "rattler-store"])
def test_a_login_of_netrc_or_of_the_engine_s_store_is_used_and_kept_out_of_every_file(
    way, channel, serve, envkit, tmp_path
):
    server = serve(channel)
    server.login = "Basic " + base64.b64encode(b"ada:hunter2").decode()
    source = _write(tmp_path, ["python", "pip"], server.url)
    own = {"HOME": str(tmp_path / "home"), "RATTLER_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "home").mkdir()
    assert "401" in envkit("lock", source, status=7, environ=own).stderr
    if way == "netrc":
        (tmp_path / "home/.netrc").write_text("machine 127.0.0.1 login ada password hunter2\n")
        (tmp_path / "home/.netrc").chmod(0o600)
    else:
        (tmp_path / "home/.rattler").mkdir()
        held = {"127.0.0.1": {"BasicHTTP": {"username": "ada", "password": "hunter2"}}}
        (tmp_path / "home/.rattler/credentials.json").write_text(json.dumps(held))
    envkit("lock", source, environ=own)
    envkit("build", source, "-p", tmp_path / "e", environ=own)
    told = [tmp_path / "conda-lock.yml", *(tmp_path / "e/conda-meta").glob("*.json")]
    assert "hunter2" not in "".join(path.read_text() for path in told)


def test_a_channel_in_the_home_folder_is_written_without_it(channel, envkit, tmp_path):
    home = channel.parent
    envkit(
        *("create", "-n", "t", "--cuda", "cpu", "--torch", "none", "-d", tmp_path, "--stop-after", "lock"),
        *("--channel", channel, "--python", _newest(channel)),
        environ={"HOME": str(home)},
    )
    for name in ("environment.yml", "conda-lock.yml"):
        text = (tmp_path / name).read_text()
        assert "file://${HOME}/" in text
        assert str(home) not in text
    envkit("lock", tmp_path / "environment.yml", "--check", environ={"HOME": str(home)})


def _newest(channel: Path) -> str:
    index = json.loads((channel / "linux-64/repodata.json").read_text())["packages.conda"]
    versions = [one["version"] for one in index.values() if one["name"] == "python"]
    return ".".join(max(versions, key=lambda text: [int(part) for part in text.split(".")]).split(".")[:2])


def test_pip_entries_come_from_a_private_index_with_hashes_and_without_its_login(
    channel, serve, envkit, tmp_path, tiny_index
):
    server = serve(tiny_index)
    server.login = "Basic YWRhOmh1bnRlcjI="
    address = server.url.replace("http://", "http://ada:hunter2@") + "/simple"
    more = f"  - pip:\n      - tinypkg\npip-repositories:\n  - {address}\nallow-pypi-requests: false\n"
    source = _write(tmp_path, ["python", "pip"], channel.as_uri(), more=more)
    envkit("lock", source)
    text = (tmp_path / "conda-lock.yml").read_text()
    assert "hunter2" not in text
    entry = next(one for one in locks.read(tmp_path / "conda-lock.yml").package if one.manager == "pip")
    assert (entry.name, entry.version) == ("tinypkg", "1.0")
    assert entry.hash.sha256


def test_a_pip_package_that_no_index_has_is_named(channel, serve, envkit, tmp_path, tiny_index):
    more = f"  - pip:\n      - nosuchpkg\npip-repositories:\n  - {serve(tiny_index).url}/simple\n"
    more += "allow-pypi-requests: false\n"
    source = _write(tmp_path, ["python", "pip"], channel.as_uri(), more=more)
    told = envkit("lock", source, status=3).stderr
    assert "nosuchpkg" in told


def test_a_real_conda_can_be_named_and_what_it_says_is_shown(channel, envkit, tmp_path):
    fake = tmp_path / "mamba"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo 1.0 && exit\necho \'{"message": "nothing provides x"}\'\nexit 1\n'
    )
    fake.chmod(0o755)
    source = _write(tmp_path, ["python"], channel.as_uri())
    told = envkit("lock", source, "--conda", fake, status=3).stderr
    assert "mamba could not solve" in told
    assert "nothing provides x" in told


def test_the_front_answers_as_conda_lock_asks(channel):
    front = locker.front()
    version = subprocess.run([front, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("conda ")
    told = subprocess.run(
        [
            front,
            "create",
            "--prefix",
            "p",
            "--dry-run",
            "--json",
            "--override-channels",
            "--channel",
            channel.as_uri(),
            "pip",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(told.stdout)
    assert answer["success"]
    names = [one["name"] for one in answer["actions"]["FETCH"]]
    assert names.index("python") < names.index("pip")
    assert {"url", "md5", "sha256", "depends", "constrains", "fn", "subdir", "channel"} <= answer["actions"]["FETCH"][
        0
    ].keys()


def test_unsolvable_specs_say_why(channel, tmp_path, pythons):
    if "3.11" not in pythons:
        pytest.skip("NO PYTHON 3.11 HERE")
    text = f"channels: [{channel.as_uri()}]\ndependencies: [python=3.9, pytorch]\n"
    with pytest.raises(UnsolvableError) as caught:
        _lock(tmp_path, text, "cpu")
    assert any("python" in line for line in caught.value.details)
