"""doctor: every rule speaks where it must and is quiet where it must be; files, locks, prefixes, this machine."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from test_host import nvml  # noqa: F401
from tests_support import SHARED

from envkit import doctor, situation

SNAPSHOT = {"CONDA_CHANNEL_ALIAS": (SHARED / "channels").as_uri()}
WHOLE_MACHINE = {"shm-small", "quota-below-cores", "open-files"}
"""Findings that say something of the machine that runs the tests."""


@pytest.mark.parametrize("rule", doctor.rules(), ids=lambda rule: rule.id)
def test_a_rule_speaks_where_it_must_and_only_there(rule):
    told = [one for one in doctor.examine(rule.fires.situation()) if one.code == rule.id]
    assert [one.severity for one in told] == [rule.severity]
    assert "?" not in told[0].message + told[0].next and told[0].source
    assert rule.id not in [one.code for one in doctor.examine(rule.quiet.situation())]


def test_there_are_enough_rules_and_each_has_its_own_name():
    names = [rule.id for rule in doctor.rules()]
    assert len(set(names)) == len(names) >= 45


def test_what_is_not_known_makes_no_rule_speak():
    assert doctor.examine(situation.derive(situation.Situation())) == ()


def _codes(envkit, *words, status, **environ) -> list[str]:
    told = json.loads(envkit("doctor", *words, "--json", status=status, environ=environ).stdout)
    return [one["code"] for one in told["findings"] if one["code"] not in WHOLE_MACHINE]


TROUBLED = """\
channels: [conda-forge, pytorch]
dependencies:
  - python=3.11
  - pytorch=2.2.2
  - pytorch-cuda=11.8
  - numpy=2.0
  - torchvision=0.20.1
  - pip
  - pip:
      - torch==2.3.0+cu118
      - pynvml
"""


def test_all_trouble_of_a_file_is_told_with_its_lines(envkit, tmp_path):
    path = tmp_path / "environment.yml"
    path.write_text(TROUBLED)
    told = json.loads(envkit("doctor", path, "--json", status=1).stdout)["findings"]
    lines = {one["code"]: one["line"] for one in told if one["code"] not in WHOLE_MACHINE}
    assert lines == {
        "numpy2-old-torch": 4,
        "cuda-not-forced": 4,
        "vision-pairing": 7,
        "torch-twice": 10,
        "conda-forge-first": 5,
        "nvidia-missing": 5,
        "local-pin-without-index": 10,
        "pynvml-package": 11,
    }


def test_an_option_that_is_no_index_does_not_bring_one(envkit, tmp_path):
    path = tmp_path / "environment.yml"
    text = "channels: [conda-forge]\ndependencies: [python=3.12, {pip: [OPTION, torch==2.3.0+cu118]}]\n"
    path.write_text(text.replace("OPTION", "--pre"))
    assert "local-pin-without-index" in _codes(envkit, path, status=1)
    path.write_text(text.replace("OPTION", "--extra-index-url https://download.pytorch.org/whl/cu118"))
    assert "local-pin-without-index" not in _codes(envkit, path, status=None)


def test_the_exit_status_follows_fail_on(envkit, tmp_path):
    path = tmp_path / "environment.yml"
    path.write_text("channels: [conda-forge]\ndependencies: [python=3.9]\n")
    said = envkit("doctor", path, status=1).stdout
    assert f"{path}:2: warning: Python 3.9 gets no fixes any more" in said
    envkit("doctor", path, "--fail-on", "error", status=0)
    path.write_text("channels: [conda-forge]\ndependencies: [python=3.12]\n")
    envkit("doctor", path, "--fail-on", "error", status=0)


@pytest.mark.parametrize("text", ["a: [", "dependencies: 3\n", "metadata: 1\npackage: 2\n"])
def test_what_cannot_be_read_is_exit_2(text, envkit, tmp_path):
    path = tmp_path / "environment.yml"
    path.write_text(text)
    envkit("doctor", path, status=2)
    envkit("doctor", "-p", tmp_path, status=2)


@pytest.mark.shared
@pytest.mark.parametrize(("cuda", "python"), [("cpu", "3.11"), ("11.8", "3.11"), ("12.9", "3.11"), ("13.0", None)])
def test_what_envkit_writes_itself_has_no_trouble(cuda, python, envkit, tmp_path):
    words = ["--cuda", cuda, *(["--python", python] if python else []), "--stop-after", "lock", "-d", tmp_path]
    envkit("create", "-n", "t", *words, environ=SNAPSHOT)
    expected = ["frozen-channel"] if cuda == "11.8" else []
    for name in ("environment.yml", "conda-lock.yml"):
        assert _codes(envkit, tmp_path / name, status=0) == expected


@pytest.mark.shared
def test_a_lock_with_the_traps_of_mkl_and_numpy(envkit, tmp_path):
    source, lock = tmp_path / "environment.yml", tmp_path / "conda-lock.yml"
    source.write_text(
        "channels: [pytorch, conda-forge, nodefaults]\ndependencies: [python=3.11, 'pytorch=2.2.2=*cpu*', numpy]\n"
    )
    envkit("lock", source, "--platform", "linux-64", environ=SNAPSHOT)
    assert _codes(envkit, lock, "--platform", "linux-64", status=1) == ["numpy2-old-torch", "frozen-channel"]
    # Today's index holds mkl back for these builds; locks from before it did do not.
    text = lock.read_text()
    before, name, after = text.partition("name: mkl\n  version: ")
    lock.write_text(before + name + "2024.1.0" + after[after.index("\n") :])
    told = _codes(envkit, lock, "--platform", "linux-64", status=1)
    assert told == ["numpy2-old-torch", "mkl-ijit", "frozen-channel"]


@pytest.mark.shared
def test_a_cuda_12_lock_on_a_driver_450_and_on_one_that_runs_it(nvml, envkit, tmp_path):  # noqa: F811
    envkit("create", "-n", "t", "--cuda", "12.9", "--stop-after", "lock", "-d", tmp_path, environ=SNAPSHOT)
    lock = tmp_path / "conda-lock.yml"
    assert _codes(envkit, lock, status=1, **nvml("RTX 3090", driver="450.80.02", cuda=11000)) == ["driver-too-old"]
    # Minor-version compatibility: a driver of CUDA 12.0 runs builds for 12.9.
    assert _codes(envkit, lock, status=0, **nvml("RTX 3090", driver="525.60.13", cuda=12000)) == []


@pytest.mark.shared
def test_a_gpu_that_the_builds_have_no_code_for(nvml, envkit, tmp_path):  # noqa: F811
    words = ["--cuda", "11.8", "--python", "3.11", "--stop-after", "lock", "-d", tmp_path]
    envkit("create", "-n", "t", *words, environ=SNAPSHOT)
    lock = tmp_path / "conda-lock.yml"
    assert "gpu-not-in-build" in _codes(envkit, lock, status=1, **nvml("RTX 5090", driver="580.65.06", cuda=13000))
    assert "gpu-not-in-build" not in _codes(envkit, lock, status=0, **nvml("RTX 4090"))


def _wheel(folder: Path, name: str, version: str) -> Path:
    """A real, tiny wheel."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"__version__ = '{version}'\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "".join(f"{one},,\n" for one in [*archive.namelist(), f"{info}/RECORD"]))
    return path


def test_a_prefix_is_clean_until_pip_puts_another_torch_over_conda_s(torch_project, envkit, tmp_path):
    prefix = tmp_path / "e"
    envkit("build", torch_project / "environment.yml", "-p", prefix)
    assert _codes(envkit, "-p", prefix, status=0) == []
    pip = [prefix / "bin/python", "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, _wheel(tmp_path, "torch", "2.0.1")], check=True)
    assert _codes(envkit, "-p", prefix, status=1) == ["numpy2-old-torch-pip", "torch-twice"]
    assert _codes(envkit, prefix, status=1) == ["numpy2-old-torch-pip", "torch-twice"]


def test_variables_and_folders_that_come_before_the_environment(envkit, tmp_path):
    libraries, base = tmp_path / "cuda-11.1/lib64", tmp_path / "user"
    libraries.mkdir(parents=True)
    (libraries / "libcudart.so.11.0").touch()
    (base / "lib/python3.11/site-packages/torch").mkdir(parents=True)
    path = tmp_path / "environment.yml"
    path.write_text("channels: [conda-forge]\ndependencies: [python=3.11, pytorch-gpu=2.7, numpy]\n")
    assert _codes(envkit, path, status=0) == []
    spoiled = {
        "LD_LIBRARY_PATH": str(libraries),
        "PYTHONUSERBASE": str(base),
        "PYTHONPATH": str(tmp_path),
        "KMP_DUPLICATE_LIB_OK": "TRUE",
    }
    assert set(_codes(envkit, path, status=1, **spoiled)) == {
        "library-path-cuda",
        "user-site",
        "pythonpath",
        "kmp-duplicate",
    }
    assert _codes(envkit, path, status=0, PYTHONUSERBASE=str(base), PYTHONNOUSERSITE="1") == []
    # What is for another platform does not run here.
    assert _codes(envkit, path, "--platform", "win-64", status=0, **spoiled) == []


def test_a_wheel_that_brings_a_second_openmp_runtime(tmp_path):
    site = tmp_path / "lib/python3.11/site-packages"
    (tmp_path / "conda-meta").mkdir(parents=True)
    (tmp_path / "conda-meta/history").touch()
    (site / "sklearn/.dylibs").mkdir(parents=True)
    (tmp_path / "lib/libomp.dylib").touch()
    assert situation.of_prefix(tmp_path).facts["openmp_runtimes"] == 1
    (site / "sklearn/.dylibs/libomp.dylib").touch()
    told = situation.derive(situation.of_prefix(tmp_path))
    assert [one.code for one in doctor.examine(told)] == ["two-openmp"]


def test_the_installed_torch_says_itself_what_it_was_built_for(tmp_path):
    site = tmp_path / "lib/python3.11/site-packages"
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta/history").touch()
    (site / "torch").mkdir(parents=True)
    (site / "torch/version.py").write_text("__version__ = '2.13.0'\ncuda: Optional[str] = None\n")
    assert situation.of_prefix(tmp_path).facts["torch_flavour"] == "cpu"
    (site / "torch/version.py").write_text("__version__ = '2.7.0+cu126'\ncuda = '12.6'\n")
    assert situation.of_prefix(tmp_path).facts["torch_cuda"] == "12.6"


def test_variables_of_the_file_itself_count_too(envkit, tmp_path):
    path = tmp_path / "environment.yml"
    text = "channels: [conda-forge]\ndependencies: [python=3.12]\nvariables: "
    path.write_text(text + "{LD_LIBRARY_PATH: /usr/local/cuda/lib64, KMP_DUPLICATE_LIB_OK: 'TRUE'}\n")
    assert _codes(envkit, path, status=1) == ["kmp-duplicate", "library-path-in-environment"]
    path.write_text(text + "{OMP_NUM_THREADS: '4', KMP_DUPLICATE_LIB_OK: 'FALSE'}\n")
    assert _codes(envkit, path, status=0) == []
