"""The user's own data: each fault that field reports tell of gets its sentence, and nothing hangs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envkit import inside, owndata
from envkit.errors import InputError
from envkit.inside import Limits

CASES = Path(__file__).parent / "data" / "datasets_that_people_write.py"
SLOW = ["data/spawn", "data/forkserver"]


@pytest.fixture(scope="module")
def python(torch_project) -> Path:
    return Path(os.environ["ENVKIT_ENVS_PATH"]) / "t1" / "bin" / "python"


def _found(python: Path, factory: str, *, skip=SLOW, timeout_s: float = 20, memory: int = 1 << 30, **environ: str):
    """The findings about one dataset of the cases, as the payload tells them, and the cells."""
    findings, cells = [], {}

    def take(event):
        if event["event"] == "finding":
            findings.append(event)
        elif event["event"] == "cell":
            cells[event["id"]] = event["cell"]

    source = owndata.source(f"{CASES}:{factory}", Path.cwd(), [])
    question = {"tasks": ["data"], "preload": ["numpy", "torch"], "memory_bytes": memory}
    question["data"] = owndata.question(source, timeout_s) | {"skip": list(skip)}
    death = inside.ask(python, question, environ=dict(os.environ) | environ, on_event=take, limits=Limits())
    assert death is None
    return owndata.findings(findings), cells


def test_a_healthy_dataset_has_no_findings(python):
    found, cells = _found(python, "healthy", skip=())
    assert found == ()
    assert cells["data/batches.w0"] == cells["data/batches.w2"]
    assert cells["data/spawn"]["class"] == cells["data/forkserver"]["class"] == "ok"
    assert cells["data/length"]["value"]["value"] == "12"
    assert cells["data/sample.0"]["value"]["items"][0]["dtype"] == "float32"


@pytest.mark.parametrize(
    ("factory", "code", "severity", "said"),
    [
        # Field reports (f)
        ("unequal_sizes", "data-collate", "error", "field ['x'] has shape [3, 10] at index 0 and [3, 11] at index 1"),
        ("a_none", "data-none", "error", "sample 3 is None, which default_collate refuses"),
        ("several_nones", "data-none", "error", "samples 4, 5, 6 and 1 more are None"),
        ("a_none_in_a_field", "data-none", "error", "sample 2 is None in field ['mask']"),
        ("filtered_empty", "data-empty-batch", "error", "gives an empty list for batch 1"),
        ("unnamed_key", "data-collate", "error", "field ['a'] is torch.Tensor of float32 at index 0 and numpy.ndarray"),
        (
            "first_decides",
            "data-first-decides",
            "warning",
            "the sample becomes torch.Tensor of float32 or torch.Tensor",
        ),
        ("extra_key", "data-extra-key", "warning", "have the field ['mask'], which sample 0 has not"),
        ("missing_key", "data-collate", "error", "field ['mask'] is in sample 0 and not in sample 1"),
        ("requires_grad", "data-requires-grad", "error", "have a tensor that requires grad"),
        ("requires_grad", "data-worker-fails", "error", "it works with 0 workers and fails with 2"),
        ("images", "data-collate", "error", "field [0] is PIL.Image.Image, which default_collate does not take"),
        ("ragged", "data-collate", "error", "index 1"),
        # Field reports (e5), (e7), (e8)
        ("copy_on_write", "data-copy-on-write", "warning", "dataset.items is a list of 300000 Python objects"),
        ("lambda_collate", "data-pickle", "warning", "collate_fn (function) cannot be pickled"),
        ("connection", "data-held-connection", "warning", "dataset.inner['db'] (sqlite3.Connection)"),
        ("connection", "data-held-file", "warning", "dataset.inner['f'] (_io.TextIOWrapper) is an open file"),
        ("connection", "data-held-lock", "warning", "dataset.inner['lock'] (_thread.lock) is a lock"),
        ("connection", "data-pickle", "warning", "dataset.inner['db'] (sqlite3.Connection) cannot be pickled"),
        # Field reports (g6), and the streams
        ("own_generator", "data-same-in-workers", "error", "is the same in both workers"),
        ("module_generator", "data-same-in-workers", "error", "is the same in both workers"),
        ("seeded_workers", "data-same-in-epochs", "error", "is the same in every epoch"),
        ("changed_in_place", "data-rereads", "warning", "are different when read again with the same seeds"),
        (
            "other_in_workers",
            "data-worker-differs",
            "error",
            "with 2 workers the first batches are others than with 0",
        ),
        ("whole_stream", "data-duplicates", "error", "with 2 workers 20 of 20 samples come more than once"),
        ("lossy_stream", "data-missing", "error", "with 2 workers 10 of 20 samples never come"),
        ("unsorted_files", "data-order", "warning", "the 3 files of dataset.paths are not sorted"),
        # Whatever else happens
        ("a_broken_sample", "data-sample-fails", "error", "sample 5 raises ValueError: bad file (datasets_that_people"),
        ("broken_factory", "data-factory", "error", "NameError: name 'undefined_name' is not defined"),
        ("no_dataset", "data-factory", "error", "the factory gives int, which is no Dataset"),
        ("no_such_function", "data-factory", "error", "has no attribute 'no_such_function'"),
    ],
)
def test_each_fault_has_its_sentence(factory, code, severity, said, python):
    found, _ = _found(python, factory)
    told = [one for one in found if one.code == code]
    assert told, [one.message for one in found]
    assert any(said in one.message for one in told), [one.message for one in told]
    assert told[0].severity == severity
    assert not [one for one in found if one.code == "data-error"]


@pytest.mark.parametrize(
    ("factory", "code", "said"),
    [
        ("deadlock", "data-hangs", "sample 2 hangs: it took too long and was ended, at datasets_that_people_write.py:"),
        ("worker_deadlock", "data-hangs", "loading with 2 workers hangs: it took too long and was ended, at datasets_"),
        ("factory_hangs", "data-hangs", "the factory hangs"),
        ("leaves", "data-exits", "sample 2 ends the process: exit status 3"),
        ("system_exit", "data-sample-fails", "sample 2 raises SystemExit"),
        ("kills", "data-dies", "sample 2 kills the process: killed by SIGSEGV"),
        ("eats_memory", "data-eats-memory", "sample 1 needs too much memory: it took more than 512 MiB and was ended"),
        ("asks", "data-sample-fails", "EOFError"),
    ],
)
def test_whatever_a_dataset_does_the_answer_comes_and_the_rest_is_still_looked_at(factory, code, said, python):
    found, cells = _found(python, factory, timeout_s=4, memory=512 << 20)
    assert any(one.code == code and said in one.message for one in found), [one.message for one in found]
    assert factory == "factory_hangs" or cells["data/sample.0"]["class"] == "ok"


def test_random_augmentation_that_is_seeded_right_is_no_finding(python):
    assert _found(python, "augmented")[0] == ()
    assert _found(python, "sharded_stream")[0] == ()
    assert _found(python, "endless_stream")[0] == ()


def test_few_open_files_are_told(python):
    shell = 'ulimit -n 128; exec "$0" "$@"'
    source = f"{CASES}:healthy"
    command = ["bash", "-c", shell, str(Path(sys.executable).parent / "envkit"), "probe", "--python", python]
    told = subprocess.run([*command, "--dataset", source, "-q"], capture_output=True, text=True)
    assert "128 may be open" in told.stdout
    assert told.returncode == 0


def test_a_module_called_as_one_of_the_payload_is_the_users(python, tmp_path):
    (tmp_path / "samples.py").write_text("import facts\ndef make(): return facts.DATA\n")
    (tmp_path / "facts.py").write_text("DATA = [1, 2, 3, 4]\n")
    found = []
    source = owndata.source("samples:make", tmp_path, [])
    question = {"tasks": ["data"], "preload": ["torch"], "data": owndata.question(source, 20) | {"skip": SLOW}}
    inside.ask(python, question, environ=dict(os.environ), on_event=found.append, limits=Limits())
    assert [event for event in found if event["event"] == "finding"] == []
    cells = {event["id"]: event["cell"] for event in found if event["event"] == "cell"}
    assert cells["data/length"]["value"]["value"] == "4"


def test_the_command_prints_findings_and_the_recipe(torch_project, envkit, tmp_path):
    told = envkit("probe", "-n", "t1", "--dataset", f"{CASES}:a_none", "-o", tmp_path / "r.json", status=1)
    assert "error: sample 3 is None" in told.stdout
    assert "def robust_collate(batch):" in told.stdout
    kept = json.loads((tmp_path / "r.json").read_text())
    assert kept["data"]["findings"][0]["code"] == "data-none"
    assert kept["points"] == []
    assert all(id.startswith("data/") for id in kept["cells"])
    assert str(Path.home()) not in json.dumps(kept)


def test_two_machines_with_other_files_differ_in_their_data(torch_project, envkit, tmp_path):
    for name in ("healthy", "healthy_but_other"):
        envkit("probe", "-n", "t1", "--dataset", f"{CASES}:{name}", "-o", tmp_path / f"{name}.json", "-q")
    told = envkit("diff", tmp_path / "healthy.json", tmp_path / "healthy_but_other.json", status=1).stdout
    assert "data/sample.7" in told
    assert "data/sample.6 " not in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train.py", "names no factory"),
        ("train.py:", "names no factory"),
        ("no-such.py:make", "no such file"),
        ("a b:make", "neither a .py file nor the name of a module"),
        ("bad-name.py:make", "cannot be imported by workers"),
    ],
)
def test_what_names_no_factory_is_refused(text, said, tmp_path):
    (tmp_path / "bad-name.py").touch()
    with pytest.raises(InputError, match=said):
        owndata.source(text, tmp_path, [])


@pytest.mark.gpu
def test_samples_on_a_gpu_are_told(python):
    found, _ = _found(python, "on_gpu")
    assert any(one.code == "data-on-gpu" for one in found)
