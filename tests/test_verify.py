"""verify: exit 0 on the environment of the lock, exit 1 with the right finding for each way to spoil it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_build import ENVKIT  # noqa: F401


@pytest.fixture
def spoiled(torch_project, tmp_path) -> Path:
    """The project in a folder of its own, with a copy of nothing: only the environment.yml may be changed."""
    folder = tmp_path / "project"
    shutil.copytree(torch_project, folder)
    return folder


@pytest.fixture
def built(small_project, envkit, tmp_path) -> tuple[Path, Path]:
    """A small project and its environment, fresh for each test."""
    source = small_project / "environment.yml"
    envkit("lock", source)
    envkit("build", source, "-p", tmp_path / "e")
    return source, tmp_path / "e"


def _findings(told) -> list[tuple[str, str]]:
    return [(one["code"], one["item"]) for one in json.loads(told.stdout)["findings"]]


def _verify(envkit, source, prefix, status=1):
    return envkit("verify", source, "-p", prefix, "--no-build", "--json", status=status)


def test_the_environment_of_create_is_the_same_with_behaviour(torch_project, envkit):
    told = envkit("verify", torch_project / "environment.yml", "--json")
    verdict = json.loads(told.stdout)
    assert verdict["findings"] == []
    assert verdict["behaviour_cells"] > 200
    assert verdict["files"] > 10_000


def test_verify_builds_what_is_not_there(torch_project, envkit):
    other = envkit("verify", torch_project / "environment.yml", "-n", "teammate", "-q")
    assert other.stdout.startswith("the same")
    shutil.rmtree(Path(os.environ["ENVKIT_ENVS_PATH"]) / "teammate")


def test_a_spec_more_in_the_file_makes_the_lock_stale(spoiled, envkit):
    source = spoiled / "environment.yml"
    source.write_text(source.read_text() + "  - jinja2\n")
    told = envkit("verify", source, "--json", status=1)
    assert ("lock-stale", "conda-lock.yml") in _findings(told)


def test_one_changed_byte_and_one_deleted_file_are_found(built, envkit):
    source, prefix = built
    site = next(prefix.glob("lib/python3*/site-packages"))
    changed, deleted = site / "pip" / "__init__.py", site / "pip" / "__main__.py"
    data = bytearray(changed.read_bytes())
    data[0] ^= 1
    changed.chmod(0o644)
    # Written anew: the package cache may share the file with the prefix by a hard link.
    changed.unlink()
    changed.write_bytes(data)
    deleted.unlink()
    found = _findings(_verify(envkit, source, prefix))
    assert found == [
        ("file-modified", changed.relative_to(prefix).as_posix()),
        ("file-missing", deleted.relative_to(prefix).as_posix()),
    ]


def test_compiled_files_are_left_aside(built, envkit):
    source, prefix = built
    subprocess.run([prefix / "bin/python", "-c", "import pip, json, ssl"], check=True, env={})
    assert list(prefix.rglob("*.pyc"))
    _verify(envkit, source, prefix, status=0)


def test_pip_over_conda_is_one_finding_that_names_both(built, envkit, tiny_index, tmp_path):
    source, prefix = built
    wheels = tmp_path / "wheels"
    subprocess.run(
        [prefix / "bin/python", "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, "setuptools==75.3.0"],
        check=True,
    )
    subprocess.run([prefix / "bin/python", "-m", "pip", "install", "-q", "--no-index", *wheels.iterdir()], check=True)
    told = json.loads(_verify(envkit, source, prefix).stdout)["findings"]
    assert [one["code"] for one in told] == ["pip-over-conda"]
    assert told[0]["item"] == "setuptools"
    assert "75.3.0" in told[0]["found"]
    assert "conda record 8" in told[0]["expected"]


def test_a_package_that_pip_added_is_extra(built, envkit, tiny_index):
    source, prefix = built
    wheel = next(tiny_index.rglob("*.whl"))
    subprocess.run([prefix / "bin/python", "-m", "pip", "install", "-q", "--no-index", wheel], check=True)
    assert _findings(_verify(envkit, source, prefix)) == [("pip-extra", "tinypkg")]


def test_records_that_are_missing_extra_or_others_are_told(built, envkit):
    source, prefix = built
    meta = prefix / "conda-meta"
    pip, tools = next(meta.glob("pip-*.json")), next(meta.glob("setuptools-*.json"))
    record = json.loads(tools.read_text())
    tools.write_text(json.dumps(record | {"version": "1.2.3"}))
    (meta / "more-1-0.json").write_text(json.dumps(record | {"name": "more", "files": [], "paths_data": {"paths": []}}))
    pip.unlink()
    found = _findings(_verify(envkit, source, prefix))
    assert {("package-missing", "pip"), ("package-extra", "more"), ("package-version", "setuptools")} <= set(found)


@pytest.mark.parametrize(("field", "value", "code"), [
    ("build", "other_9", "package-build"),
    ("url", "https://elsewhere/noarch/x.conda", "package-channel"),
    ("sha256", "0" * 64, "package-hash"),
])  # fmt: skip
def test_a_record_of_another_build_channel_or_hash_is_told(field, value, code, built, envkit):
    source, prefix = built
    path = next((prefix / "conda-meta").glob("setuptools-*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    assert (code, "setuptools") in _findings(_verify(envkit, source, prefix))


def test_a_record_that_cannot_be_read_is_an_error_and_no_crash(built, envkit):
    source, prefix = built
    next((prefix / "conda-meta").glob("pip-*.json")).write_bytes(b"")
    told = envkit("verify", source, "-p", prefix, "--no-build", status=6).stderr
    assert "pip-" in told
    assert "cannot be read" in told


def test_an_environment_without_its_completion_record_is_told(built, envkit):
    source, prefix = built
    (prefix / "conda-meta/envkit").unlink()
    assert [code for code, _ in _findings(_verify(envkit, source, prefix))] == ["unfinished"]


def test_a_machine_that_lacks_what_the_lock_needs_is_told(built, envkit):
    source, prefix = built
    lock = source.parent / "conda-lock.yml"
    lock.write_text(lock.read_text().replace("  dependencies: {}", "  dependencies:\n    __cuda: '>=11.8'", 1))
    told = json.loads(_verify(envkit, source, prefix).stdout)["findings"]
    assert [(one["code"], one["expected"], one["found"]) for one in told] == [
        ("virtual-package", "__cuda >=11.8", "this machine has none")
    ]


def test_a_behaviour_that_differs_from_the_reference_is_told(spoiled, envkit):
    path = spoiled / "environment.report.json"
    reference = json.loads(path.read_text())
    cell = reference["cells"]["rng.python/random"]
    cell["value"]["items"][0]["value"] = "0.5"
    path.write_text(json.dumps(reference))
    told = json.loads(envkit("verify", spoiled / "environment.yml", "--json", status=1).stdout)["findings"]
    assert [(one["code"], one["item"]) for one in told] == [("behaviour", "rng.python/random")]
    assert told[0]["next"] == "same versions, different behaviour"


def test_a_torch_that_cannot_be_imported_any_more_is_told_once(torch_project, envkit, tmp_path):
    prefix = tmp_path / "spoiled"
    envkit("build", torch_project / "environment.yml", "-p", prefix)
    next(prefix.glob("lib/python3*/site-packages/torch/version.py")).unlink()
    told = envkit("verify", torch_project / "environment.yml", "-p", prefix, "--json", status=1)
    found = json.loads(told.stdout)["findings"]
    assert [one["code"] for one in found] == ["file-missing", "module", "behaviour"]
    assert found[1]["item"] == "torch"
    assert found[2]["item"].endswith("more")


def test_a_lock_of_another_platform_is_refused(built, envkit):
    source, prefix = built
    lock = source.parent / "conda-lock.yml"
    lock.write_text(lock.read_text().replace("linux-64", "osx-arm64"))
    told = envkit("verify", source, "-p", prefix, status=9).stderr
    assert "locked for osx-arm64, not for linux-64" in told


def test_without_a_lock_the_next_step_is_named(small_project, envkit):
    told = envkit("verify", small_project / "environment.yml", status=2).stderr
    assert "envkit lock" in told
