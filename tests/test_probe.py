"""Probing real interpreters: with torch, without, with one that is broken or kills; and nothing secret is kept."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envkit import inside, places, probe, report
from envkit.bench import plan
from envkit.errors import BrokenEnvironmentError
from envkit.inside import Limits
from envkit.probe import Plan

DEBIAN = Path("/usr/bin/python3")


def _venv(folder: Path, **modules: str) -> Path:
    """A bare interpreter with modules of our own in its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    return folder / "bin" / "python"


def _probe(python: Path, **options) -> report.Report:
    return probe.probe(inside.Target(python=python, environ=dict(os.environ)), **options)


@pytest.fixture(scope="module")
def torch_report(torch_project) -> report.Report:
    return report.read(torch_project / "environment.report.json")


def test_the_report_of_create_holds_facts_behaviour_and_speed(torch_report):
    assert torch_report.versions["torch"] == "2.13.0+cpu"
    assert torch_report.interpreter.modules["torch"].details["mkl"] is True
    assert torch_report.interpreter.modules["PIL"].details["jpg"]
    assert {one.name for one in torch_report.environment.conda} >= {"python", "pytorch", "numpy", "pillow"}
    assert all(one.sha256 for one in torch_report.environment.conda)
    assert torch_report.deaths == ()
    assert {point.workload for point in torch_report.points} == {"latency", "jpeg"}
    assert all(len(point.waits_s) == point.batches for point in torch_report.points)


def test_the_cells_are_what_torch_2_13_answers(torch_report):
    """Ground truth: the probe list, section 2, and field reports, group (f)."""
    cells = torch_report.cells
    assert cells["collate.mappings/counter"].value["items"][0][1]["values"] == ["2", "3"]
    assert cells["collate.mappings/missing_key"].error.type == "KeyError"
    assert cells["collate.numbers/int_float"].value["dtype"] == "float32"
    assert cells["collate.numbers/float_int"].value["dtype"] == "float64"
    assert cells["collate.numbers/over_int64"].error.message == "Overflow when unpacking long long"
    assert cells["collate.numpy/arr_uint16"].value["dtype"] == "uint16"
    assert cells["collate.none/empty"].error.type == "IndexError"
    assert cells["collate.none/later_none.w0"].error.template == "collate.not_tensor"
    assert cells["collate.none/later_none.w1"].error.worker.caught == "AttributeError"
    assert cells["worker.unequal_desc/larger_first.w1"].error.template == "collate.not_resizable"
    assert cells["collate.shapes/unequal.w0"].error.arguments == {"a": "[3, 4]", "b": "[3, 5]", "entry": "1"}
    assert cells["collate.shapes/requires_grad.w0"].kind == "ok"
    assert cells["collate.shapes/requires_grad.w1"].kind == "error"
    assert cells["worker.errors/json_error.w1"].error.worker.caught == "JSONDecodeError"
    assert cells["worker.errors/stop_iteration.w0"].value == {"type": "list", "items": []}
    assert cells["robust.filter_none/naive.w0"].error.type == "IndexError"
    assert cells["robust.filter_none/safe.w0"].value["items"][1]["type"] == "NoneType"
    assert [one["value"] for one in cells["sampler.order/random"].value["items"]] != [str(n) for n in range(10)]


def test_probing_twice_gives_equal_cells(torch_project, envkit, tmp_path, torch_report):
    envkit("probe", "-n", "t1", "--no-bench", "-o", tmp_path / "again.json", "-q")
    again = report.read(tmp_path / "again.json").cells
    assert again.keys() == torch_report.cells.keys()
    assert [id for id in again if _compared(again[id]) != _compared(torch_report.cells[id])] == []


def _compared(cell):
    import msgspec

    plain = msgspec.to_builtins(cell)
    plain.get("error", {}).pop("raw", None)
    return plain


def test_no_secret_and_no_home_path_is_kept(torch_project, envkit, tmp_path):
    own = {
        "TORCH_SECRET_TOKEN": "tok-1",
        "HF_TOKEN": "tok-2",
        "OMP_PROXY": "http://ada:hunter2@host/x",
        "PYTHONUSERBASE": f"{Path.home()}/py",
    }
    envkit("probe", "-n", "t1", "--no-bench", "-o", tmp_path / "r.json", environ=own)
    text = (tmp_path / "r.json").read_text()
    assert not [secret for secret in ("tok-1", "tok-2", "hunter2", str(Path.home())) if secret in text]
    variables = json.loads(text)["variables"]
    assert variables["HF_TOKEN"] == "<hidden>"
    assert variables["OMP_PROXY"] == "http://host/x"
    assert variables["PYTHONUSERBASE"] == "~/py"


def test_an_interpreter_without_torch_is_an_outcome(tmp_path):
    told = _probe(_venv(tmp_path / "v"))
    assert told.interpreter.modules["torch"].state == "absent"
    assert told.cells["rng.python/random"].kind == "ok"
    assert told.cells["collate.numbers/int"].kind == "absent"
    assert told.environment.conda is None


def test_a_torch_that_cannot_be_loaded_is_an_outcome(tmp_path):
    told = _probe(_venv(tmp_path / "v", torch="raise OSError('libcudart.so.11.0: cannot open shared object file')"))
    module = told.interpreter.modules["torch"]
    assert module.state == "broken"
    assert "libcudart" in module.error.message
    assert told.cells["num.exact/setup"].error.type == "OSError"
    assert told.cells["rng.python/random"].kind == "ok"


def test_a_torch_that_kills_the_interpreter_is_an_outcome(tmp_path, envkit):
    python = _venv(tmp_path / "v", torch="import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    envkit("probe", "--python", python, "-o", tmp_path / "r.json")
    told = report.read(tmp_path / "r.json")
    assert told.interpreter.modules["torch"].state == "killed"
    assert "SIGSEGV" in told.interpreter.modules["torch"].error.message
    assert told.cells["rng.python/random"].kind == "ok"


def test_a_cell_that_hangs_or_dies_costs_only_itself(tmp_path):
    numpy = (
        "import os, signal, time\n__version__ = '0'\n__file__ = 'numpy.py'\n"
        "class random:\n"
        "    @staticmethod\n"
        "    def SeedSequence(seed): time.sleep(60)\n"
        "    @staticmethod\n"
        "    def Generator(seed): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    MT19937 = PCG64 = int\n"
        "    @staticmethod\n"
        "    def RandomState(seed): raise ValueError('no state')\n"
        "def __getattr__(name): raise AttributeError(name)\n"
    )
    told = _probe(_venv(tmp_path / "v", numpy=numpy), probes=Plan(only=("rng",), timeout_s=1))
    assert told.cells["rng.numpy/seed_sequence"].kind == "hang"
    assert "numpy.py" in told.cells["rng.numpy/seed_sequence"].detail
    assert told.cells["rng.numpy/MT19937"].kind == "crash"
    assert told.cells["rng.numpy/MT19937"].detail == "killed by SIGKILL"
    assert told.cells["rng.numpy/legacy_rand"].error.message == "no state"
    assert told.cells["rng.python/random"].kind == "ok"
    assert {death.kind for death in told.deaths} == {"timeout", "signal"}


def test_probes_can_be_chosen_by_id_family_and_tier(torch_project, envkit, tmp_path):
    envkit("probe", "-n", "t1", "--only", "rng.python,sampler", "-o", tmp_path / "r.json")
    families = {id.partition("/")[0] for id in report.read(tmp_path / "r.json").cells}
    assert families == {"rng.python", "sampler.order"}
    told = envkit("probe", "-n", "t1", "--only", "rng.pyton", status=2).stderr
    assert "no such probe: rng.pyton" in told
    assert "did you mean rng.python" in told
    assert "the tiers are fast, workers, destructive" in envkit("probe", "-n", "t1", "--tier", "slow", status=2).stderr


def test_the_list_holds_every_probe_of_the_probe_list(envkit):
    listed = json.loads(envkit("probe", "--list", "--json").stdout)["probes"]
    ids = [one["id"] for one in listed]
    assert len(ids) == len(set(ids)) >= 65
    assert {one["tier"] for one in listed} == set(probe.TIERS)
    assert all(one["title"] for one in listed)
    assert "collate.none" in envkit("probe", "--list").stdout


def test_every_tier_ends_and_gives_the_same_cells_by_fork_and_by_fresh_interpreters(torch_project, envkit):
    target = Path(os.environ["ENVKIT_ENVS_PATH"]) / "t1" / "bin" / "python"
    question = {"tasks": ["probes"], "only": ["collate.none", "rng.python", "mp.worker_death"], "parallel": 2}
    forked, started = (_cells_of(target, question | {"method": method}) for method in ("fork", "spawn"))
    assert forked.keys() == started.keys()
    assert [id for id in forked if _plain(forked[id]) != _plain(started[id])] == []
    assert forked["mp.worker_death/sigkill"]["error"]["template"] == "worker.killed"


def _cells_of(python: Path, question: dict) -> dict:
    cells = {}

    def take(event):
        if event["event"] == "cell":
            cells[event["id"]] = event["cell"]

    assert inside.ask(python, question, environ=dict(os.environ), on_event=take, limits=Limits()) is None
    return cells


def _plain(cell: dict) -> dict:
    kept = {key: value for key, value in cell.items() if key != "error"}
    return kept | {key: value for key, value in cell.get("error", {}).items() if key != "raw"}


def test_no_python_leaves_compiled_files_in_the_payload(torch_project, envkit, tmp_path):
    for folder in list(places.payload().rglob("__pycache__")):
        shutil.rmtree(folder)
    envkit("probe", "-n", "t1", "--only", "mp.pickling,rng.python", "-o", tmp_path / "r.json")
    assert list(places.payload().rglob("__pycache__")) == []


@pytest.fixture(scope="session")
def bare_311(torch_project, pythons, tmp_path_factory):
    """A function that makes a virtual environment which sees t1's packages after its own."""
    site = next((Path(os.environ["ENVKIT_ENVS_PATH"]) / "t1" / "lib").glob("python3*/site-packages"))

    def make(*wheels: str, **modules: str) -> Path:
        folder = tmp_path_factory.mktemp("venv") / "v"
        subprocess.run([pythons["3.11"], "-m", "venv", "--without-pip", folder], check=True)
        own = next(folder.glob("lib/python3*/site-packages"))
        (own / "t1.pth").write_text(f"{site}\n")
        for name, text in modules.items():
            (own / f"{name}.py").write_text(text)
        if wheels:
            _install(own, *wheels)
        return folder / "bin" / "python"

    return make


def _install(site: Path, *wheels: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--python-version", "3.11"]
    subprocess.run([*command, "--only-binary=:all:", "--target", site, *wheels], check=True)


def test_a_torchvision_of_another_torch_is_an_outcome(bare_311):
    """Ground truth: the probe list, section 1.7: the CUDA wheel of torchvision beside the CPU wheel of torch."""
    told = _probe(bare_311("torchvision==0.28.0"), probes=Plan(only=("env", "tv", "collate")))
    assert told.interpreter.modules["torchvision"].state == "broken"
    assert told.cells["env.import_torchvision/import"].error.message == "operator torchvision::nms does not exist"
    assert told.cells["tv.resize/setup"].kind == "error"
    assert told.cells["collate.numbers/int"].kind == "ok"


def test_a_pillow_without_jpeg_is_an_outcome(bare_311):
    lame = "import PIL.Image\ndel PIL.Image.core.jpeg_decoder, PIL.Image.core.jpeg_encoder\n"
    told = _probe(bare_311(sitecustomize=lame), probes=Plan(only=("pil",)))
    assert told.interpreter.modules["PIL"].details["jpg"] is None
    assert told.cells["pil.jpeg/dec_gray.jpg"].error.message == "decoder jpeg not available"
    assert told.cells["pil.jpeg/dec_rgba.png"].kind == "ok"


def test_a_numpy_that_torch_was_not_built_for_is_an_outcome(tmp_path):
    """Ground truth: the probe list, section 2: torch 1.13.1 with NumPy 2.2.6."""
    if not _debian_torch():
        pytest.skip("NO SECOND TORCH HERE: apt-get install python3-torch python3-torchvision python3-pil")
    folder = tmp_path / "v"
    subprocess.run([DEBIAN, "-m", "venv", "--without-pip", "--system-site-packages", folder], check=True)
    _install(next(folder.glob("lib/python3*/site-packages")), "numpy==2.2.6")
    told = _probe(folder / "bin" / "python")
    cells = told.cells
    assert told.versions["numpy"] == "2.2.6"
    assert cells["interop.numpy_torch/from_float32"].error.template == "numpy.unavailable"
    assert cells["collate.numpy/arr_float32"].error.message == "Could not infer dtype of numpy.float32"
    assert cells["interop.numpy_torch/tensor_of_f64"].value["dtype"] == "float32"
    assert cells["rng.torch/rand"].kind == cells["worker.seeding_fork/numpy"].kind == "ok"
    assert len(cells) > 900


def test_a_benchmark_without_pillow_says_what_it_could_not_measure(tmp_path):
    told = _probe(_venv(tmp_path / "v"), probes=None, bench=plan(1))
    assert "jpeg" in told.unmeasured


@pytest.mark.parametrize(("script", "said"), [("exit 3", "exit status 3"), ("kill -9 $$", "SIGKILL")])
def test_an_interpreter_that_does_not_start_is_an_error_with_how(script, said, tmp_path):
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    with pytest.raises(BrokenEnvironmentError, match=said):
        _probe(fake)


def test_an_interpreter_of_another_architecture_is_an_error(tmp_path, envkit):
    fake = tmp_path / "python"
    fake.write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\x00\xb7\x00" + b"\0" * 100)
    fake.chmod(0o755)
    told = envkit("probe", "--python", fake, status=6).stderr
    assert "cannot start: Exec format error" in told


@pytest.mark.parametrize("minor", ["3.8", "3.12", "3.13"])
def test_the_payload_runs_on_other_pythons(minor):
    import interpreters

    found = interpreters.find(minor)
    if found is None:
        pytest.skip(f"NO PYTHON {minor} HERE")
    told = _probe(Path(found))
    assert told.versions["python"].startswith(minor)
    assert told.cells["rng.python/random"].kind == "ok"


def test_a_python_that_is_too_old_says_so():
    import interpreters

    found = interpreters.find("3.7")
    if found is None:
        pytest.skip("NO PYTHON 3.7 HERE")
    with pytest.raises(BrokenEnvironmentError, match=r"needs Python 3\.8"):
        _probe(Path(found))


def test_the_plan_reaches_the_usable_cores_and_beyond_for_waiting_samples():
    assert plan(2).workers == {"latency": (0, 1, 2, 4, 8), "jpeg": (0, 1, 2)}
    assert plan(6).workers["jpeg"] == (0, 1, 2, 4, 6)
    assert max(plan(64).workers["latency"]) == 64


def test_a_payload_that_is_left_alone_leaves_no_workers(torch_project):
    import psutil

    before = {process.pid for process in psutil.process_iter()}
    target = Path(os.environ["ENVKIT_ENVS_PATH"]) / "t1" / "bin" / "python"
    running = []

    # Of this interpreter alone: tests that run beside this one have payloads of their own.
    def payloads():
        found = psutil.process_iter(["cmdline"])
        return [one for one in found if one.pid not in before and str(target) in str(one.info["cmdline"])]

    def stop(event):
        if event.get("id", "").startswith("collate.none"):
            running.extend(payloads())
            raise KeyboardInterrupt

    question = {"tasks": ["probes"]}
    with pytest.raises(KeyboardInterrupt):
        inside.ask(target, question, environ=dict(os.environ), on_event=stop, limits=Limits())
    assert running
    assert payloads() == []


def test_an_envkit_that_is_killed_outright_leaves_no_process_behind(torch_project, tmp_path):
    import psutil

    python = Path(os.environ["ENVKIT_ENVS_PATH"]) / "t1" / "bin" / "python"
    marked = os.environ | {"ENVKIT_TEST_MARK": str(tmp_path)}
    command = [Path(sys.executable).parent / "envkit", "probe", "--python", python, "--tier", "destructive", "-q"]
    running = subprocess.Popen(command, env=marked, stdout=subprocess.DEVNULL)

    def left():
        return [one for one in psutil.process_iter() if one.pid != running.pid and _mark(one) == str(tmp_path)]

    assert _soon(lambda: len(left()) >= 3)
    running.kill()
    running.wait()
    assert _soon(lambda: not left()), [one.cmdline() for one in left()]


def _mark(process) -> str | None:
    import psutil

    try:
        return process.environ().get("ENVKIT_TEST_MARK")
    except psutil.Error:
        return None


def _soon(happened, seconds: int = 60) -> bool:
    for _ in range(seconds * 10):
        if happened():
            return True
        time.sleep(0.1)
    return False


def test_the_fixtures_decode_to_what_their_script_draws(bare_311, tmp_path):
    """Lossless ones exactly; the others were encoded once, and decoders are what is compared."""
    python = bare_311()
    script = Path(__file__).parent.parent / "tools" / "make_fixtures.py"
    subprocess.run([python, script, tmp_path / "made"], check=True)
    code = (
        "import sys; from pathlib import Path; from PIL import Image\n"
        "for made in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    one, other = Image.open(made), Image.open(Path(sys.argv[2]) / made.name)\n"
        "    print(made.name, one.mode == other.mode, one.size == other.size, one.tobytes() == other.tobytes())\n"
    )
    shipped = places.payload() / "fixtures"
    told = subprocess.run([python, "-c", code, tmp_path / "made", shipped], capture_output=True, text=True, check=True)
    lines = dict(line.split(" ", 1) for line in told.stdout.splitlines())
    assert len(lines) == 10
    assert all(line.startswith("True True") for line in lines.values())
    assert all(line.endswith("True") for name, line in lines.items() if name.endswith(".png"))


@pytest.mark.gpu
def test_on_a_gpu_machine_the_report_names_the_card_and_its_kernel_ran(torch_report):
    from envkit import driver

    told = driver.describe()
    assert told.state == "ok"
    assert told.gpus
    for gpu in torch_report.interpreter.modules["torch"].details["gpus"]:
        assert gpu["kernel"] is True


def _debian_torch() -> bool:
    return (
        shutil.which(str(DEBIAN)) is not None
        and not subprocess.run([DEBIAN, "-c", "import torch, PIL, numpy"], capture_output=True).returncode
    )


@pytest.fixture(scope="module")
def debian_report() -> report.Report:
    if not _debian_torch():
        pytest.skip("NO SECOND TORCH HERE: apt-get install python3-torch python3-torchvision python3-pil")
    return _probe(DEBIAN)


def test_torch_1_13_answers_as_documented(debian_report):
    """Ground truth: the probe list, section 2."""
    cells = debian_report.cells
    assert cells["collate.mappings/counter"].value["items"][0][1]["values"] == ["1", "2"]
    assert cells["collate.mappings/mydictarg"].value["items"] == []
    assert cells["collate.mappings/defaultdict"].value["type"] == "dict"
    assert cells["collate.mappings/attr_kept"].value["value"] == "None"
    assert cells["collate.numpy/arr_uint16"].error.template == "numpy.dtype"
    assert cells["collate.numbers/over_int64"].error.type == "RuntimeError"
    assert cells["rng.randint_ranges/2p31"].value["values"][0] == "209652396"


def test_the_anchors_are_equal_on_both_torches(torch_report, debian_report):
    anchors = (
        "collate.pil",
        "collate.none",
        "collate.shapes",
        "robust.",
        "worker.errors",
        "sampler.order",
        "num.exact",
    )
    anchors += ("rng.python",)
    ids = [id for id in torch_report.cells if id.startswith(anchors)]
    assert len(ids) > 95
    different = [id for id in ids if _compared(torch_report.cells[id]) != _compared(debian_report.cells[id])]
    assert different == []


SEMAPHORES = """
import multiprocessing, sys, time
import supervisor

def make_semaphores(say, done):
    say(event="start", id="one")
    while True:
        multiprocessing.Semaphore()

def stop(unit, event):
    time.sleep(0.02)
    raise KeyboardInterrupt

for number in range(20):
    try:
        supervisor.run([supervisor.Unit("one", make_semaphores, {}, 60)], supervisor.Limits(), stop, print)
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LINUX ONLY: semaphores are files in /dev/shm")
def test_a_child_that_is_stopped_leaves_no_semaphore_half_made(tmp_path):
    """The C library gives a semaphore a file of another name first: killed in between, it stays for ever."""
    # Ones of a few dozen µs come and go while other tests run: those that stay are meant.
    before = set(Path("/dev/shm").iterdir())
    environ = {**os.environ, "PYTHONPATH": str(places.payload()), "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run([sys.executable, "-c", SEMAPHORES], env=environ, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["stopped"] * 20
    left = set(Path("/dev/shm").glob("sem.??????")) - before
    time.sleep(0.5)
    assert not {path for path in left if path.exists()}
