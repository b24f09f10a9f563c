"""The local channel: relocatable interpreters, wheels under their conda names, an index that clients read."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from envkit import channel as channels
from envkit.channel import interpreter, wheel
from envkit.channel.wheel import Target, conda_version
from envkit.errors import DamagedPackageError, EnvkitError, InputError


def _index(folder: Path, subdir: str) -> dict:
    return json.loads((folder / subdir / "repodata.json").read_text())["packages.conda"]


def _target() -> Target:
    markers = {"python_version": "3.10", "python_full_version": "3.10.13", "sys_platform": "linux", "extra": ""}
    return Target(minor="3.10", subdir="linux-64", markers=markers)


def _wheel(
    folder: Path, name: str, *, tag: str = "py3-none-any", metadata: str = "", files: dict | None = None
) -> Path:
    path = folder / f"{name}-1.0-{tag}.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "value = 1\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}")
        archive.writestr(f"{info}/RECORD", "")
        for inner, text in (files or {}).items():
            archive.writestr(inner, text)
    return path


def test_the_channel_has_an_interpreter_for_each_version_found(channel, pythons):
    versions = {record["version"] for record in _index(channel, "linux-64").values() if record["name"] == "python"}
    assert {".".join(version.split(".")[:2]) for version in versions} == set(pythons)


def test_wheels_stand_under_their_conda_names_with_translated_dependencies(channel, pythons):
    if "3.11" not in pythons:
        pytest.skip("NO PYTHON 3.11 HERE")
    records = list(_index(channel, "linux-64").values())
    torch = next(record for record in records if record["name"] == "pytorch")
    assert torch["version"] == "2.13.0"
    assert torch["build"].startswith("cpu_py311")
    assert "typing_extensions >=4.10.0" in torch["depends"]
    assert "python >=3.11,<3.12.0a0" in torch["depends"]
    assert not [spec for spec in torch["depends"] if spec.startswith("nvidia")]


def test_an_interpreter_works_after_it_was_moved_and_has_forgotten_its_home(small_project, envkit, tmp_path):
    envkit("lock", small_project / "environment.yml")
    envkit("build", small_project / "environment.yml", "-p", tmp_path / "moved here")
    code = "import sys, ssl, ctypes, sqlite3, sysconfig; print(sys.prefix, sysconfig.get_config_var('prefix'))"
    python = tmp_path / "moved here" / "bin" / "python"
    told = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True, env={})
    assert told.stdout.split("\n")[0] == f"{tmp_path / 'moved here'} {tmp_path / 'moved here'}"
    loaded = subprocess.run(
        [python, "-I", "-c", "print(open('/proc/self/maps').read())"],
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    libraries = [line.split(None, 5)[5] for line in loaded.stdout.splitlines() if "libpython" in line]
    assert all(path.startswith(str(tmp_path)) for path in libraries)


@pytest.mark.parametrize(
    ("pep440", "conda"),
    [
        (">=1.0,<2", "<2,>=1.0"),
        ("~=1.4", ">=1.4,==1.*"),
        ("~=1.4.2", ">=1.4.2,==1.4.*"),
        ("==2.13.0+cpu", "==2.13.0"),
        ("==1.*", "==1.*"),
        ("!=8.3.*,>=5.3", "!=8.3.*,>=5.3"),
        ("===1.0", "==1.0"),
        ("", ""),
    ],
)
def test_version_specifiers_are_translated(pep440, conda):
    assert conda_version(pep440) == conda


def test_markers_are_evaluated_for_the_target_and_extras_left_out(tmp_path):
    metadata = (
        "Requires-Dist: tomli>=2; python_version < '3.11'\n"
        "Requires-Dist: never; python_version >= '3.11'\n"
        "Requires-Dist: winonly; sys_platform == 'win32'\n"
        "Requires-Dist: extra1; extra == 'more'\n"
        "Requires-Dist: torch[opt]>=2\n"
        "Requires-Python: >=3.8\n"
    )
    made = wheel.package(_wheel(tmp_path, "thing", metadata=metadata), _target(), tmp_path / "c")
    index = _read(made, "index.json")
    assert index["depends"] == ["python >=3.8", "tomli >=2", "pytorch >=2"]
    assert (index["subdir"], index["noarch"], index["name"]) == ("noarch", "python", "thing")


def _read(path: Path, name: str) -> dict:
    import asyncio

    from rattler.package_streaming import PackageArchive

    async def read() -> bytes | None:
        return await (await PackageArchive.from_path(path)).read_file(f"info/{name}")

    return json.loads(asyncio.run(read()) or b"null")


def test_entry_points_of_a_pure_wheel_are_left_to_the_installer(tmp_path):
    points = {"thing-1.0.dist-info/entry_points.txt": "[console_scripts]\nthing = thing:main [extra]\n"}
    made = wheel.package(_wheel(tmp_path, "thing", files=points), _target(), tmp_path / "c")
    assert _read(made, "link.json")["noarch"]["entry_points"] == ["thing = thing:main"]


def test_a_compiled_wheel_is_tied_to_its_python_and_gets_its_scripts(tmp_path):
    points = {"fast-1.0.dist-info/entry_points.txt": "[console_scripts]\nfast = fast:main\n"}
    tag = "cp310-cp310-manylinux_2_17_x86_64"
    made = wheel.package(_wheel(tmp_path, "fast", tag=tag, files=points), _target(), tmp_path / "c")
    assert made.name == "fast-1.0-py310_0.conda"
    paths = {entry["_path"]: entry for entry in _read(made, "paths.json")["paths"]}
    assert paths["bin/fast"]["prefix_placeholder"].startswith("/opt/")
    assert "lib/python3.10/site-packages/fast/__init__.py" in paths


def test_a_path_that_leaves_the_wheel_is_refused(tmp_path):
    bad = _wheel(tmp_path, "evil", files={"../../outside.py": "x"})
    with pytest.raises(DamagedPackageError, match="leaves the wheel"):
        wheel.package(bad, _target(), tmp_path / "c")
    assert not (tmp_path / "c").exists() or not list((tmp_path / "c").rglob("*.conda"))


def test_what_is_no_wheel_is_refused_by_name(tmp_path):
    path = tmp_path / "broken-1.0-py3-none-any.whl"
    path.write_bytes(b"not a zip")
    with pytest.raises(DamagedPackageError, match=r"broken-1\.0"):
        wheel.package(path, _target(), tmp_path / "c")


def test_a_channel_grows_and_a_replaced_package_is_indexed_anew(tmp_path):
    from envkit import engine

    folder = tmp_path / "c"
    wheel.package(_wheel(tmp_path, "thing"), _target(), folder)
    engine.index(folder)
    first = _index(folder, "noarch")["thing-1.0-py_0.conda"]["sha256"]
    wheel.package(_wheel(tmp_path, "thing", metadata="Requires-Dist: more\n"), _target(), folder)
    wheel.package(_wheel(tmp_path, "other"), _target(), folder)
    engine.index(folder)
    index = _index(folder, "noarch")
    assert set(index) == {"thing-1.0-py_0.conda", "other-1.0-py_0.conda"}
    assert index["thing-1.0-py_0.conda"]["sha256"] != first
    assert "more" in index["thing-1.0-py_0.conda"]["depends"]


def test_the_same_wheel_gives_the_same_bytes(tmp_path):
    source = _wheel(tmp_path, "thing")
    one = wheel.package(source, _target(), tmp_path / "a").read_bytes()
    two = wheel.package(source, _target(), tmp_path / "b").read_bytes()
    with zipfile.ZipFile(tmp_path / "a/noarch/thing-1.0-py_0.conda") as archive:
        names = archive.namelist()
        contents = [archive.read(name) for name in names]
    with zipfile.ZipFile(tmp_path / "b/noarch/thing-1.0-py_0.conda") as archive:
        assert [archive.read(name) for name in names] == contents
    assert len(one) == len(two)


def test_a_requirement_that_does_not_exist_is_an_error_with_its_name(tmp_path, pythons):
    python = Path(next(iter(pythons.values())))
    with pytest.raises(EnvkitError, match="no-such-project-of-envkit"):
        channels.make(tmp_path, pythons=[python], wheels=["no-such-project-of-envkit==99"])


def test_wheels_for_a_python_that_was_not_given_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"2\.6"):
        channels.make(tmp_path, pythons=[Path(sys.executable)], wheels=["pip"], wheel_pythons=["2.6"])


def test_a_distribution_s_interpreter_is_refused_with_the_reason(tmp_path):
    told = interpreter.inspect(Path(sys.executable))
    import msgspec

    debian = msgspec.structs.replace(told, scheme="posix_local")
    with pytest.raises(InputError, match="posix_local"):
        interpreter.package(debian, tmp_path)
