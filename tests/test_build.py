"""Builds: a true conda environment, whole or not there at all, whatever happens on the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_locker import _write

from envkit import lock as locks
from envkit import prefix as prefixes
from envkit.build import check_path
from envkit.errors import InputError

ENVKIT = str(Path(sys.executable).parent / "envkit")


@pytest.fixture
def locked(small_project, envkit) -> Path:
    envkit("lock", small_project / "environment.yml")
    return small_project


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "envkit" in path.name)


def test_the_result_is_an_environment_that_conda_knows(locked, envkit, tmp_path):
    prefix = tmp_path / "e"
    envkit("build", locked / "environment.yml", "-p", prefix)
    history = (prefix / "conda-meta/history").read_text()
    assert history.startswith("==> ")
    assert '# update specs: ["python=' in history
    assert "+file://" in history
    assert str(prefix) in (Path.home() / ".conda/environments.txt").read_text().splitlines()
    for record in prefixes.records(prefix):
        whole = json.loads((prefix / "conda-meta" / record.file).read_text())
        assert {"build_number", "depends", "files", "paths_data", "link", "url", "sha256"} <= whole.keys()
    assert json.loads((prefix / "conda-meta/state").read_text())["env_vars"] == {"GREETING": "hello"}
    assert prefixes.completion(prefix) is not None


CONDA_READS = """
import json, sys
from conda_lock._vendor.conda.core.envs_manager import _clean_environments_txt, get_user_environments_txt_file
from conda_lock._vendor.conda.core.prefix_data import PrefixData
from conda_lock._vendor.conda.history import History
prefix = sys.argv[1]
data, history = PrefixData(prefix), History(prefix)
print(json.dumps({
    "records": sorted(record.name for record in data.iter_records()),
    "state": sorted(history.get_state()) == sorted(record.dist_str() for record in data.iter_records()),
    "requested": sorted(history.get_requested_specs_map()),
    "variables": data.get_environment_env_vars(),
    "listed": prefix in _clean_environments_txt(get_user_environments_txt_file()),
}))
"""


def test_conda_s_own_code_reads_it_as_its_own(locked, envkit, tmp_path):
    prefix = tmp_path / "e"
    envkit("build", locked / "environment.yml", "-p", prefix)
    told = subprocess.run([sys.executable, "-c", CONDA_READS, prefix], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == {
        "records": ["pip", "python", "setuptools"],
        "state": True,
        "requested": ["pip", "python", "setuptools"],
        "variables": {"GREETING": "hello"},
        "listed": True,
    }


def test_noarch_entry_points_and_text_prefixes_are_those_of_the_prefix(locked, envkit, tmp_path):
    prefix = tmp_path / "a place with spaces, é and ;"
    envkit("build", locked / "environment.yml", "-p", prefix)
    told = subprocess.run([prefix / "bin/pip", "--version"], capture_output=True, text=True, check=True)
    assert str(prefix) in told.stdout
    python = subprocess.run(
        [prefix / "bin/python", "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert python.stdout.strip() == f"{prefix}/lib"
    assert not [path for path in (prefix / "bin").iterdir() if b"anaconda1anaconda2" in path.read_bytes()]


def test_building_again_finds_it_done_and_force_builds_it_anew(locked, envkit, tmp_path):
    prefix = tmp_path / "e"
    envkit("build", locked / "environment.yml", "-p", prefix)
    assert json.loads(envkit("build", locked / "environment.yml", "-p", prefix, "--json").stdout)["fresh"] is False
    (prefix / "mine.txt").write_text("x")
    assert json.loads(envkit("build", locked / "conda-lock.yml", "-p", prefix, "--force", "--json").stdout)["fresh"]
    assert not (prefix / "mine.txt").exists()
    assert _left(tmp_path) == []


def test_an_environment_of_another_lock_is_not_touched_without_force(locked, envkit, tmp_path, channel):
    prefix = tmp_path / "e"
    envkit("build", locked / "environment.yml", "-p", prefix)
    other = tmp_path / "other"
    other.mkdir()
    source = _write(other, ["python"], channel.as_uri())
    envkit("lock", source)
    told = envkit("build", source, "-p", prefix, status=5).stderr
    assert "another lock" in told
    assert (prefix / "bin/pip").exists()


@pytest.mark.parametrize("content", ["file", "folder", "foreign"])
def test_what_is_not_envkits_is_left_alone(content, locked, envkit, tmp_path):
    prefix = tmp_path / "theirs"
    if content == "file":
        prefix.write_text("precious")
    else:
        prefix.mkdir()
        (prefix / "precious").write_text("x")
        if content == "foreign":
            (prefix / "conda-meta").mkdir()
            (prefix / "conda-meta/history").touch()
    told = envkit("build", locked / "environment.yml", "-p", prefix, status=5).stderr
    assert "left alone" in told
    assert prefix.read_text() == "precious" if content == "file" else (prefix / "precious").exists()


def test_a_stale_lock_is_not_built(locked, envkit, tmp_path):
    source = locked / "environment.yml"
    source.write_text(source.read_text().replace("- pip\n", "- pip>=20\n"))
    assert "changed since" in envkit("build", source, "-p", tmp_path / "e", status=5).stderr
    assert not (tmp_path / "e").exists()


def test_kill_9_at_any_moment_leaves_nothing_that_passes_for_whole_and_the_next_run_finishes(locked, envkit, tmp_path):
    source, folder = locked / "environment.yml", tmp_path / "k"
    folder.mkdir()
    prefix = folder / "e"
    seen_unfinished = 0
    for step in range(10):
        child = subprocess.Popen([ENVKIT, "build", str(source), "-p", str(prefix), "-q"], stderr=subprocess.DEVNULL)
        time.sleep(0.08 * step)
        child.send_signal(signal.SIGKILL)
        child.wait()
        seen_unfinished += bool(_left(folder))
        if prefix.exists():
            assert prefixes.completion(prefix) is not None
            envkit("verify", source, "-p", prefix, "--no-build")
            shutil.rmtree(prefix)
        else:
            envkit("verify", source, "-p", prefix, "--no-build", status=6)
    assert seen_unfinished > 0, "no kill met a build at work: the moments must be moved"
    envkit("build", source, "-p", prefix)
    envkit("verify", source, "-p", prefix, "--no-build")
    assert _left(folder) == []


def test_a_killed_build_leaves_no_installer_that_goes_on(locked, tmp_path):
    import psutil

    child = subprocess.Popen([ENVKIT, "build", str(locked / "environment.yml"), "-p", str(tmp_path / "e"), "-q"])
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not psutil.Process(child.pid).children():
        time.sleep(0.005)
    installer = psutil.Process(child.pid).children()[0]
    child.send_signal(signal.SIGKILL)
    child.wait()
    psutil.wait_procs([installer], timeout=10)
    assert not installer.is_running() or installer.status() == psutil.STATUS_ZOMBIE


def test_a_replacement_that_was_killed_half_way_gives_the_old_environment_back(locked, envkit, tmp_path):
    prefix = tmp_path / "e"
    envkit("build", locked / "environment.yml", "-p", prefix)
    (prefix / "mine.txt").write_text("x")
    prefix.rename(tmp_path / ".e.envkit-replaced")
    envkit("build", locked / "environment.yml", "-p", prefix)
    assert (prefix / "mine.txt").read_text() == "x"


def test_two_builds_of_one_prefix_at_once_end_in_one_whole_environment(locked, envkit, tmp_path):
    prefix = tmp_path / "e"
    command = [ENVKIT, "build", str(locked / "environment.yml"), "-p", str(prefix), "--json"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0, 0], told
    assert sorted(json.loads(out)["fresh"] for out, _ in told) == [False, True]
    assert any("waiting: another build" in err for _, err in told)
    envkit("verify", locked / "environment.yml", "-p", prefix, "--no-build")


@pytest.mark.parametrize("how", ["lock", "package", "truncated"])
def test_bytes_that_are_not_the_locks_leave_nothing(how, channel, envkit, tmp_path):
    mine = tmp_path / "channel"
    shutil.copytree(channel, mine, symlinks=True)
    source = _write(tmp_path, ["python", "pip"], mine.as_uri())
    envkit("lock", source)
    package = (
        mine
        / "noarch"
        / next(one.fn for one in locks.read(tmp_path / "conda-lock.yml").conda("linux-64") if one.name == "pip")
    )
    if how == "lock":
        path = tmp_path / "conda-lock.yml"
        digest = next(line for line in path.read_text().splitlines() if "sha256:" in line)
        path.write_text(path.read_text().replace(digest, "    sha256: " + "a" * 64))
    else:
        data = bytearray(package.read_bytes())
        data[len(data) // 2] ^= 255
        package.write_bytes(data if how == "package" else data[: len(data) // 2])
    # A cache of its own: what the shared one holds under the right hash would be used, and rightly so.
    own = {"RATTLER_CACHE_DIR": str(tmp_path / "cache")} if how != "lock" else {}
    told = envkit("build", source, "-p", tmp_path / "e", status=8, environ=own).stderr
    assert "other bytes than the lock names" in told
    assert not (tmp_path / "e").exists()
    assert _left(tmp_path) == []


@pytest.mark.parametrize(
    ("answers", "status", "said"),
    [(["500"], 0, ""), (["404"] * 9, 7, "answered 404"), (["half"] * 9, 8, "truncated or damaged")],
)
def test_packages_over_http_are_tried_again_or_named(answers, status, said, channel, serve, envkit, tmp_path):
    server = serve(channel)
    source = _write(tmp_path, ["python", "pip"], server.url)
    envkit("lock", source)
    server.faults = {"/pip-": list(answers)}
    told = envkit(
        "build", source, "-p", tmp_path / "e", status=status, environ={"RATTLER_CACHE_DIR": str(tmp_path / "cache")}
    )
    assert said in told.stderr
    assert (tmp_path / "e").exists() == (status == 0)
    assert _left(tmp_path) == []


def test_a_wrong_hash_over_http_is_the_same_error(channel, serve, envkit, tmp_path):
    source = _write(tmp_path, ["python"], serve(channel).url)
    envkit("lock", source)
    path = tmp_path / "conda-lock.yml"
    digest = next(line for line in path.read_text().splitlines() if "sha256:" in line)
    path.write_text(path.read_text().replace(digest, "    sha256: " + "b" * 64))
    own = {"RATTLER_CACHE_DIR": str(tmp_path / "cache")}
    assert "other bytes" in envkit("build", source, "-p", tmp_path / "e", status=8, environ=own).stderr


def test_offline_uses_the_cache_and_names_what_it_lacks(channel, serve, envkit, tmp_path):
    server = serve(channel)
    source = _write(tmp_path, ["python", "pip"], server.url)
    envkit("lock", source)
    own = {"RATTLER_CACHE_DIR": str(tmp_path / "cache")}
    told = envkit("build", source, "-p", tmp_path / "e", "--offline", status=7, environ=own).stderr
    assert "2 package(s)" in told
    assert "pip-" in told
    envkit("build", source, "-p", tmp_path / "e", environ=own)
    asked = len(server.asked)
    envkit("build", source, "-p", tmp_path / "f", "--offline", environ=own)
    assert len(server.asked) == asked


def test_pip_entries_are_installed_as_if_the_prefix_were_there_already(channel, serve, envkit, tmp_path, tiny_index):
    server = serve(tiny_index)
    more = f"  - pip:\n      - tinypkg\npip-repositories:\n  - {server.url}/simple\nallow-pypi-requests: false\n"
    source = _write(tmp_path, ["python", "pip"], channel.as_uri(), more=more)
    envkit("lock", source)
    prefix = tmp_path / "with pip"
    envkit("build", source, "-p", prefix)
    told = subprocess.run([prefix / "bin/tinypkg"], capture_output=True, text=True, check=True).stdout.split(" ", 1)
    assert told[0] == "tiny"
    assert told[1].startswith(str(prefix))
    assert [one.source for one in prefixes.pip_records(prefix, frozenset()) if one.name == "tinypkg"] == ["index"]
    envkit("verify", source, "-p", prefix, "--no-build")


def test_a_pip_entry_with_other_bytes_is_refused(channel, serve, envkit, tmp_path, tiny_index):
    mine = tmp_path / "index"
    shutil.copytree(tiny_index, mine)
    more = f"  - pip:\n      - tinypkg\npip-repositories:\n  - {serve(mine).url}/simple\nallow-pypi-requests: false\n"
    source = _write(tmp_path, ["python", "pip"], channel.as_uri(), more=more)
    envkit("lock", source)
    wheel = next(mine.rglob("*.whl"))
    wheel.write_bytes(wheel.read_bytes() + b"x")
    own = {"ENVKIT_CACHE_DIR": str(tmp_path / "own-cache")}
    told = envkit("build", source, "-p", tmp_path / "e", status=8, environ=own).stderr
    assert "tinypkg 1.0: the index serves other bytes" in told
    assert not (tmp_path / "e").exists()


def test_variables_and_activation_scripts_take_effect_and_nothing_in_them_is_run(channel, envkit, tmp_path):
    hostile = f"$(touch {tmp_path}/pwned) `id` ' \" \\ ;"
    more = f"variables:\n  HOSTILE: {json.dumps(hostile)}\n"
    source = _write(tmp_path, ["python"], channel.as_uri(), more=more)
    envkit("lock", source)
    prefix = tmp_path / "e"
    envkit("build", source, "-p", prefix)
    scripts = prefix / "etc/conda/activate.d"
    scripts.mkdir(parents=True)
    (scripts / "a script.sh").write_text('echo noise; export FROM_SCRIPT="$CONDA_PREFIX/x"\n')
    code = "import os; print(os.environ['HOSTILE'], os.environ['FROM_SCRIPT'], sep='\\n')"
    told = envkit("run", "-p", prefix, "--", "python", "-c", code)
    assert told.stdout.splitlines() == [hostile, f"{prefix}/x"]
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a$b", "a`b", "a\\b", "a:b", "a\nb"])
def test_prefixes_that_scripts_cannot_carry_are_refused(name):
    with pytest.raises(InputError, match="cannot be a prefix"):
        check_path(Path("/somewhere") / name)


@pytest.mark.parametrize("name", ["a/b", "a;b", "a$b", "-n", "", " a", "a'b", "../x"])
def test_names_that_are_no_names_are_refused(name, locked, envkit):
    told = envkit("build", locked / "environment.yml", "-n", name, status=2).stderr
    assert "cannot be the name of an environment" in told or "No such option" in told or "requires an argument" in told


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("unshare") is None, reason="NO unshare HERE to make small disks")
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_a_disk_that_is_full_or_read_only_says_so_and_keeps_nothing(kind, locked, tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    options = "size=8m" if kind == "full" else "size=8m,ro"
    script = (
        f'mount -t tmpfs -o {options} none "{place}" && "{ENVKIT}" build "{locked}/environment.yml" -p "{place}/e"; '
    )
    script += f'status=$?; ls -A "{place}"; exit $status'
    told = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
    if "unshare" in told.stderr or "mount:" in told.stderr:
        pytest.skip(f"NO SMALL DISK can be mounted here: {told.stderr.strip()}")
    assert told.returncode == 10, told.stderr
    assert ("full" if kind == "full" else "cannot be written") in told.stderr
    assert told.stdout.strip() == ""


def test_list_and_remove_know_the_environment(locked, envkit):
    envkit("build", locked / "environment.yml", "-n", "to-remove")
    listed = json.loads(envkit("list", "--json").stdout)["environments"]
    mine = next(one for one in listed if one["name"] == "to-remove")
    assert mine["made_by"] == "envkit"
    assert mine["python"]
    envkit("remove", "to-remove", status=130)
    envkit("remove", "to-remove", "-y")
    assert not Path(mine["prefix"]).exists()
    assert mine["prefix"] not in (Path.home() / ".conda/environments.txt").read_text()


def test_remove_refuses_what_is_no_environment(envkit, tmp_path):
    (tmp_path / "precious").mkdir()
    assert "not an environment" in envkit("remove", "-p", tmp_path / "precious", "-y", status=6).stderr
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("minor", ["3.9", "3.10"])
def test_create_without_torch_stops_after_the_build(minor, channel, pythons, envkit, tmp_path):
    if minor not in pythons:
        pytest.skip(f"NO PYTHON {minor} HERE")
    words = ("create", "-n", f"t{minor}", "--cuda", "cpu", "--python", minor, "--torch", "none", "--channel", channel)
    envkit(*words, "-d", tmp_path, "--stop-after", "build")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conda-lock.yml", "environment.yml"]
    told = envkit("run", "-n", f"t{minor}", "--", "python", "-c", "import sys; print(sys.version_info[:2], sys.prefix)")
    assert told.stdout.startswith(str(tuple(map(int, minor.split(".")))))
    assert f"t{minor}" in told.stdout
