"""Comparing reports: groups by consequence, suspects first, and four answers for speed."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from test_probe import debian_report, torch_report  # noqa: F401

from envkit import behaviour, diff, pace, report, stats
from envkit.cells import Cell
from envkit.report import Module, Report

DATA = Path(__file__).parent / "data"


@pytest.fixture
def files(torch_report, debian_report, tmp_path):  # noqa: F811
    report.write(tmp_path / "a.json", torch_report)
    report.write(tmp_path / "deb.json", debian_report)
    return tmp_path / "a.json", tmp_path / "deb.json"


def test_a_report_does_not_differ_from_itself(torch_project, envkit):
    path = torch_project / "environment.report.json"
    assert "no difference" in envkit("diff", path, path).stdout
    answer = json.loads(envkit("diff", path, path, "--format", "json").stdout)
    assert {one["change"]["answer"] for one in answer["pace"]["speeds"]} == {"same"}


def test_two_torches_differ_as_documented_with_torch_as_the_suspect(files, envkit):
    """Ground truth: the probe list, section 2."""
    told = envkit("diff", *files, "--format", "json", status=1)
    answer = json.loads(told.stdout)
    breaks = {one["id"]: one for one in answer["breaks"]}
    results = {one["id"]: one for one in answer["results"]}
    assert {"collate.numpy/arr_uint16", "collate.numpy/arr_uint32", "collate.numpy/arr_uint64"} <= breaks.keys()
    assert {"collate.mappings/counter", "collate.mappings/mydictarg", "collate.mappings/defaultdict"} <= results.keys()
    assert breaks["collate.numpy/arr_uint16"]["suspects"][0].startswith("torch 2.13.0+cpu -> 1.13")
    assert breaks["rng.numpy/generator_spawn"]["suspects"] == [f"numpy {_change(answer, 'numpy')}"]
    assert not [one for one in answer["results"] if one["kind"] == "unexplained"]
    assert answer["equal_cells"] > 600
    assert answer["unseen"] == []
    assert any("conda records of the second report" in line for line in answer["unknown"])


def _change(answer: dict, name: str) -> str:
    fact = next(one for one in answer["packages"] if one["name"] == name)
    return f"{fact['before']} -> {fact['after']}"


def test_text_and_markdown_lead_with_what_breaks(files, envkit):
    text = envkit("diff", *files, status=1).stdout
    assert text.index("breaks:") < text.index("results:") < text.index("packages") < text.index("host")
    markdown = envkit("diff", *files, "--format", "markdown", status=1).stdout
    assert "### breaks" in markdown
    assert re.search(r"\| collate\.numpy/arr_uint16 and \d+ more \|", markdown)
    assert "[uint16-tensors; probe runs of 2.0.0 and 2.4.1]" in markdown


@pytest.mark.parametrize(("fail_on", "status"), [("any", 1), ("results", 1), ("breaks", 1), ("speed", 2)])
def test_the_exit_status_follows_the_group_named(fail_on, status, files, envkit):
    envkit("diff", *files, "--fail-on", fail_on, status=status)


def test_output_goes_to_a_file(files, envkit, tmp_path):
    told = envkit("diff", *files, "-o", tmp_path / "d.md", "--format", "markdown", status=1)
    assert told.stdout == ""
    assert "### breaks" in (tmp_path / "d.md").read_text()


def _changed(one: Report, **cells: Cell) -> Report:
    return msgspec.structs.replace(one, cells=dict(one.cells) | cells)


def test_same_versions_with_another_behaviour_is_the_loudest(torch_report):  # noqa: F811
    other = Cell(kind="ok", value={"type": "int", "value": "7"})
    found = diff.diff(torch_report, _changed(torch_report, **{"num.exact/dot": other}))
    assert [one.kind for one in found.results] == ["unexplained"]
    assert found.fails("any")


def test_streams_that_depend_on_mkl_or_the_vendor_are_owed_to_the_hardware(torch_report):  # noqa: F811
    value = torch_report.cells["rng.torch/dropout"].value | {"sample": ["2.0"] * 16, "sha256": "7"}
    changed = _changed(torch_report, **{"rng.torch/dropout": Cell(kind="ok", value=value)})
    host = msgspec.structs.replace(changed.host, cpu_model="GenuineIntel Xeon")
    found = diff.diff(torch_report, msgspec.structs.replace(changed, host=host))
    assert [one.id for one in found.hardware] == ["rng.torch/dropout"]
    assert not found.fails("any")


def test_what_one_report_does_not_know_is_not_a_difference(torch_report):  # noqa: F811
    blind = msgspec.structs.replace(
        torch_report, environment=msgspec.structs.replace(torch_report.environment, conda=None, pip=None), points=()
    )
    found = diff.diff(torch_report, blind)
    assert found.packages == ()
    assert found.pace.speeds == ()
    assert len(found.unknown) == 2


def test_a_package_that_moved_is_told_with_its_records(torch_report):  # noqa: F811
    records = tuple(
        msgspec.structs.replace(one, version="9.5.0") if one.name == "pillow" else one
        for one in torch_report.environment.conda
    )
    environment = msgspec.structs.replace(torch_report.environment, conda=records)
    found = diff.diff(torch_report, msgspec.structs.replace(torch_report, environment=environment))
    assert [(one.name, one.what) for one in found.packages] == [("pillow", "conda record")]


def _error(text: str, kind: str = "ValueError", **more) -> Cell:
    return msgspec.convert({"class": "error", "error": {"type": kind, "message": text, **more}}, Cell)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (Cell(kind="ok", value={"type": "int", "value": "1"}), _error("x"), "breaks"),
        (_error("x"), Cell(kind="hang"), "breaks"),
        (Cell(kind="ok", value={"type": "a.A"}), Cell(kind="ok", value={"type": "a.B"}), "types"),
        (
            Cell(kind="ok", value={"type": "T", "dtype": "f", "shape": [1], "sha256": "1"}),
            Cell(kind="ok", value={"type": "T", "dtype": "f", "shape": [1], "sha256": "2"}),
            "results",
        ),
        (_error("x"), _error("x", "TypeError"), "types"),
        (_error("x"), _error("y"), "message"),
        (Cell(kind="ok"), Cell(kind="ok", warnings=(("UserWarning", "careful"),)), "warning"),
        (Cell(kind="ok"), Cell(kind="ok"), None),
        (_error("x", raw="/tmp/1"), _error("x", raw="/tmp/2"), None),
    ],
)
def test_the_first_level_that_differs_gives_the_kind(before, after, kind):
    found = behaviour.compare(_with("collate.x/y", before), _with("collate.x/y", after, torch="2.0.1")).differences
    assert [one.kind for one in found] == ([kind] if kind else [])


def _with(id: str, cell: Cell, torch: str = "2.0.0", python: str = "3.11.2", **details) -> Report:
    """A report with one cell and these versions."""
    told = report.read(DATA / "report-1.0.json")
    modules = {"torch": Module(state="ok", version=torch, details=details)}
    interpreter = msgspec.structs.replace(told.interpreter, python={"version": python}, modules=modules)
    return msgspec.structs.replace(told, cells={id: cell}, interpreter=interpreter)


def test_a_patch_release_of_python_is_no_suspect_beside_another_torch():
    ok, hang = Cell(kind="ok"), Cell(kind="hang")

    def suspects(**versions):
        found = behaviour.compare(_with("collate.x/y", ok), _with("collate.x/y", hang, **versions))
        return found.differences[0].suspects

    assert suspects(torch="2.0.1", python="3.11.7") == ("torch 2.0.0 -> 2.0.1",)
    assert suspects(python="3.11.7") == ("python 3.11.2 -> 3.11.7",)
    assert suspects(torch="2.0.1", python="3.12.1") == ("torch 2.0.0 -> 2.0.1", "python 3.11.2 -> 3.12.1")


def test_another_build_of_the_same_version_is_a_suspect():
    cells = Cell(kind="ok"), Cell(kind="hang")
    found = behaviour.compare(_with("collate.x/y", cells[0], mkl=True), _with("collate.x/y", cells[1], mkl=False))
    assert found.differences[0].suspects == ("torch 2.0.0, build None None True -> None None False",)


def _floats(*values: float, dtype: str = "float32", sha: str = "1") -> Cell:
    value = {"type": "T", "dtype": dtype, "shape": [len(values)], "sha256": sha, "values": [repr(v) for v in values]}
    return Cell(kind="ok", value=value)


@pytest.mark.parametrize(
    ("id", "before", "after", "kind"),
    [
        ("num.full/dot", _floats(1.0), _floats(1.000001, sha="2"), "hardware"),
        ("num.full/dot", _floats(1.0), _floats(1.1, sha="2"), "unexplained"),
        ("num.exact/dot", _floats(1.0), _floats(1.000001, sha="2"), "unexplained"),
        ("num.cpu/x", _floats(1.0, 0.0), _floats(1.0, 1e-6, sha="2"), "hardware"),
        ("num.cpu/x", _floats(1.0, dtype="bfloat16"), _floats(1.01, dtype="bfloat16", sha="2"), "hardware"),
        ("num.cpu/x", _floats(1, dtype="int64"), _floats(2, dtype="int64", sha="2"), "unexplained"),
        ("rng.torch/rand", _floats(0.5), _floats(0.6, sha="2"), "unexplained"),
    ],
)
def test_last_digits_of_floats_are_hardware_and_all_else_is_not(id, before, after, kind):
    """At equal versions. Source: the probe list, section 3."""
    found = behaviour.compare(_with(id, before), _with(id, after)).differences
    assert [one.kind for one in found] == [kind]


@pytest.mark.parametrize(
    ("id", "key", "kind"),
    [
        ("rng.torch/dropout", {"mkl": False}, "hardware"),
        ("rng.torch/rand", {"mkl": False}, "results"),
        ("tv.v2/resize_uint8", {"cpu_capability": "AVX2"}, "hardware"),
        ("num.cpu/exp", {"cpu_capability": "AVX2"}, "unexplained"),
    ],
)
def test_a_key_explains_the_cells_that_depend_on_it_alone(id, key, kind):
    base = {"mkl": True, "cpu_capability": "AVX512", "torch": "2.13.0"}
    before, after = _with(id, _floats(1.0), **base), _with(id, _floats(2.0, sha="2"), **(base | key))
    found = behaviour.compare(before, after).differences
    assert [one.kind for one in found] == [kind]


def test_a_known_change_is_told_with_sentence_and_source():
    cells = _floats(1), Cell(kind="ok", value="[]")
    one, other = (
        _with("collate.mappings/mydictarg", cells[0], "1.10.2"),
        _with("collate.mappings/mydictarg", cells[1], "2.0.0"),
    )
    found = behaviour.compare(one, other).differences
    assert found[0].transition == "collate-empties-dict-subclass"
    assert "EMPTY" in found[0].sentence
    assert found[0].source == "pytorch/pytorch#120553"
    assert found[0].suspects == ("torch 1.10.2 -> 2.0.0",)


def test_a_known_change_that_does_not_show_is_told():
    cell = _floats(1)
    found = behaviour.compare(
        _with("dataset.getitems/loader_w0", cell, "1.12.1"), _with("dataset.getitems/loader_w0", cell)
    )
    assert [one.id for one in found.unseen] == ["getitems-used"]
    assert found.differences == ()


def test_a_change_that_came_and_went_between_two_versions_is_not_expected():
    cell = _floats(1)
    id = "dataset.tensor_mismatch/one_axis"
    assert behaviour.compare(_with(id, cell, "2.9.0"), _with(id, cell, "2.13.0")).unseen == ()
    assert behaviour.compare(_with(id, cell, "2.9.0"), _with(id, cell, "2.10.0")).unseen


def test_a_flag_of_the_gpu_is_told_with_what_it_does():
    """Field reports, G1 and G2."""
    cell = _floats(1)
    ampere = _with("num.exact/dot", cell, matmul_tf32=True, gpus=[{"capability": [8, 6]}])
    pascal = _with("num.exact/dot", cell, matmul_tf32=False, gpus=[{"capability": [6, 1]}])
    host = {one.name: one for one in diff.diff(ampere, pascal).host}
    assert "TF32 rounds products" in host["torch.matmul_tf32"].what
    assert (host["gpu capabilities"].before, host["gpu capabilities"].after) == ("8.6", "6.1")
    assert "bit equality is not expected" in host["gpu capabilities"].what


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        ([100, 101, 99, 100, 100], [100, 100, 101, 99, 100], "same"),
        ([100, 101, 99, 100, 100], [150, 151, 149, 150, 150], "better"),
        ([100, 101, 99, 100, 100], [50, 51, 49, 50, 50], "worse"),
        ([100, 160, 60, 100, 90], [100, 150, 70, 120, 100], "unclear"),
        ([100], [200], "unclear"),
        ([100], [100], "same"),
    ],
)
def test_speed_has_four_answers(before, after, answer):
    assert stats.compare(before, after).answer == answer


def test_the_interval_holds_the_ratio():
    change = stats.compare([100, 110, 90], [200, 220, 180])
    assert change.ratio == pytest.approx(2.0)
    assert change.low < change.ratio < change.high


def _point(rate: float, **more) -> report.Point:
    usual = {"workload": "jpeg", "repeat": 0, "workers": 2, "batch_size": 8, "batches": 9, "persistent_workers": True}
    usual |= {
        "prefetch_factor": 2,
        "pin_memory": False,
        "start_method": "fork",
        "first_batch_s": 0.1,
        "waits_s": (0.1,),
    }
    return report.Point(restart_s=0.1, total_s=1.0, samples_per_s=rate, **(usual | more))


def _measured(told: Report, rates, **more) -> Report:
    points = tuple(_point(rate, **more) for rate in rates)
    return msgspec.structs.replace(told, points=points, reference=(100.0, 101.0, 99.0))


FAST, SLOWER = (100.0, 101.0, 99.0, 100.0), (92.0, 93.0, 91.0, 92.0)


def test_only_like_is_compared_with_like(torch_report):  # noqa: F811
    fast = _measured(torch_report, FAST)
    assert pace.compare(fast, _measured(torch_report, SLOWER)).speeds[0].change.answer == "worse"
    for other in ({"batch_size": 32}, {"prefetch_factor": 4}, {"pin_memory": True}, {"persistent_workers": False}):
        told = pace.compare(fast, _measured(torch_report, SLOWER, **other))
        assert told.speeds == ()
        assert len(told.unmatched) == 2
    consumed = msgspec.structs.replace(_measured(torch_report, SLOWER), consumer="40 ms for a batch")
    assert pace.compare(fast, consumed).speeds == ()


def test_what_could_explain_a_difference_of_speed_is_named_the_machine_first(torch_report):  # noqa: F811
    fast, slower = _measured(torch_report, FAST), _measured(torch_report, SLOWER, start_method="forkserver")
    host = msgspec.structs.replace(slower.host, cores_usable=1, data_file_system="nfs4")
    variables = {"OMP_NUM_THREADS": "1"}
    slower = msgspec.structs.replace(slower, host=host, variables=variables, reference=(50.0, 51.0, 49.0))
    told = pace.compare(fast, slower)
    assert told.unlike == (f"cores_usable {fast.host.cores_usable} -> 1",)
    assert told.suspects[0] == told.unlike[0]
    assert "start method fork -> forkserver" in told.suspects
    assert f"data_file_system {fast.host.data_file_system} -> nfs4" in told.suspects
    assert any(one.startswith("OMP_NUM_THREADS") and one.endswith("-> 1") for one in told.suspects)
    assert told.machine.answer == "worse"
    assert diff.diff(fast, slower).empty
    assert not diff.diff(fast, _measured(torch_report, SLOWER)).empty


@pytest.mark.parametrize(("gate", "status"), [("speed", 1), ("speed=10%", 0), ("speed=5%", 1), ("results", 0)])
def test_a_speed_gate_takes_a_share(gate, status, torch_report, tmp_path, envkit):  # noqa: F811
    report.write(tmp_path / "a.json", _measured(torch_report, FAST))
    report.write(tmp_path / "b.json", _measured(torch_report, SLOWER))
    told = envkit("diff", tmp_path / "a.json", tmp_path / "b.json", "--fail-on", gate, status=status)
    assert ("worse" in told.stdout) == (gate != "speed=10%")


@pytest.mark.parametrize("gate", ["speed=", "speed=10", "speed=0%", "results=5%", "nothing"])
def test_a_gate_that_says_nothing_is_refused(gate, torch_project, envkit):
    path = torch_project / "environment.report.json"
    assert "any, breaks, results, speed or speed=10%" in envkit("diff", path, path, "--fail-on", gate, status=2).stderr


def test_a_speed_gate_between_unlike_machines_or_without_figures_is_refused(torch_report, tmp_path, envkit):  # noqa: F811
    told = _measured(torch_report, FAST)
    report.write(tmp_path / "a.json", told)
    other = msgspec.structs.replace(told, host=msgspec.structs.replace(told.host, cpu_model="another"))
    report.write(tmp_path / "b.json", other)
    refused = envkit("diff", tmp_path / "a.json", tmp_path / "b.json", "--fail-on", "speed", status=2)
    assert "the machines are unlike: cpu_model" in refused.stderr
    report.write(tmp_path / "b.json", msgspec.structs.replace(told, points=()))
    refused = envkit("diff", tmp_path / "a.json", tmp_path / "b.json", "--fail-on", "speed", status=2)
    assert "no measurement in common" in refused.stderr
