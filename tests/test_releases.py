"""How releases of torch behave: reports of real ones, compared with each other and with what this machine has."""

import gzip
import itertools
import os
import sys
from pathlib import Path

import pytest
from test_probe import debian_report, torch_report  # noqa: F401

from envkit import behaviour, codec, report, transitions
from envkit.errors import InputError
from envkit.report import Report

ROOT = Path(__file__).parent.parent
STORED = Path(__file__).parent / "data" / "releases"
RELEASES = ("1.8.1", "1.12.1", "2.0.0", "2.4.1", "2.10.0")


def _stored(release: str) -> Report:
    """A report that `tools/drift.py` recorded; see `make test-drift`."""
    return codec.convert(
        codec.decode_json(gzip.decompress((STORED / f"{release}.json.gz").read_bytes()), release), Report, release
    )


@pytest.fixture(scope="module")
def reports(torch_report, debian_report) -> dict[str, Report]:  # noqa: F811
    return {release: _stored(release) for release in RELEASES} | {"1.13.1": debian_report, "2.13.0": torch_report}


@pytest.mark.parametrize(
    ("cell", "groups"),
    [
        ("dataset.subset_override/loader_w0", ["1.8.1 1.12.1 1.13.1 2.0.0", "2.4.1 2.10.0", "2.13.0"]),
        ("dataset.tensor_mismatch/one_axis", ["1.8.1 1.12.1 1.13.1 2.0.0 2.4.1 2.13.0", "2.10.0"]),
        ("collate.strings/bytes", ["1.8.1 1.12.1 1.13.1 2.4.1 2.10.0 2.13.0", "2.0.0"]),
        ("collate.mappings/mydictarg", ["1.8.1", "1.12.1 1.13.1 2.0.0", "2.4.1 2.10.0 2.13.0"]),
        ("worker.seeding_fork/numpy_dup_across_workers", ["1.8.1", "1.12.1 1.13.1 2.0.0 2.4.1 2.10.0 2.13.0"]),
        ("sampler.order/shuffle", ["1.8.1", "1.12.1 1.13.1 2.0.0 2.4.1 2.10.0 2.13.0"]),
        ("rng.torch/dropout", ["1.8.1 1.12.1 1.13.1 2.10.0 2.13.0", "2.0.0 2.4.1"]),
        ("rng.randint_ranges/2p31", ["1.8.1 1.12.1 1.13.1 2.0.0 2.4.1", "2.10.0 2.13.0"]),
        ("pin.types/tup", ["1.8.1 1.12.1 1.13.1 2.0.0 2.4.1", "2.10.0 2.13.0"]),
        ("pil.jpeg/dec_noise420.jpg", ["1.8.1", "1.12.1 1.13.1 2.0.0 2.4.1 2.10.0 2.13.0"]),
    ],
)
def test_the_regression_table_holds(cell, groups, reports):
    """Ground truth: the probe list, section 2. Where a release deviates, it does in the way that is documented."""
    found: dict[str, list[str]] = {}
    for release in ("1.8.1", "1.12.1", "1.13.1", "2.0.0", "2.4.1", "2.10.0", "2.13.0"):
        seen = reports[release].cells[cell]
        key = repr(seen.value) if seen.error is None else seen.error.type
        found.setdefault(key, []).append(release)
    assert [" ".join(releases) for releases in found.values()] == groups


def test_what_a_counter_and_weights_only_give_over_the_releases(reports):
    counts = {r: one.cells["collate.mappings/counter"].value["items"][0][1]["values"] for r, one in reports.items()}
    assert {r for r, values in counts.items() if values == ["2", "3"]} == {"2.4.1", "2.10.0", "2.13.0"}
    loads = {r: one.cells["load.weights_only/custom"] for r, one in reports.items()}
    assert {r for r, cell in loads.items() if cell.kind == "error"} == {"2.10.0", "2.13.0"}
    assert {r for r, cell in loads.items() if cell.warnings} == {"2.4.1"}


@pytest.mark.parametrize("pair", list(itertools.combinations([*RELEASES, "1.13.1", "2.13.0"], 2)), ids="-".join)
def test_no_difference_of_two_releases_is_unexplained_and_no_known_change_is_missing(pair, reports):
    one, other = (reports[release] for release in pair)
    for before, after in ((one, other), (other, one)):
        found = behaviour.compare(before, after)
        assert [told.id for told in found.differences if told.kind == "unexplained"] == []
        assert [told.id for told in found.unseen] == []
        assert any(told.transition for told in found.differences)


def test_the_two_torches_of_this_machine_differ_as_documented(torch_report, debian_report):  # noqa: F811
    """Ground truth: the probe list, section 2: the cells that matter, with the release that changed them."""
    found = {one.id: one for one in behaviour.compare(debian_report, torch_report).differences}
    expected = {
        "collate.layouts/sparse_coo": ("breaks", "collate-sparse-refused"),
        "collate.layouts_worker/sparse_id": ("breaks", "worker-sparse-works"),
        "collate.numpy/arr_uint16": ("breaks", "uint16-tensors"),
        "collate.numbers/over_int64": ("types", "overflow-valueerror"),
        "collate.mappings/counter": ("results", "collate-counter-adds"),
        "collate.mappings/mydictarg": ("types", "collate-empties-dict-subclass"),
        "collate.mappings/defaultdict": ("types", "collate-defaultdict-kept"),
        "collate.input_mutated/mymutable": ("types", "collate-writes-into-samples"),
        "collate.input_mutated/two_epochs": ("breaks", "collate-writes-into-samples"),
        "convert.types/dd": ("types", "collate-defaultdict-kept"),
        "pin.types/tup": ("types", "pin-keeps-tuple"),
        "pin.types/custom_map": ("types", "pin-calls-own-method"),
        "pin.cpu_only/loader_w0": ("warning", "pin-warns-without-accelerator"),
        "loader.signature/prefetch_default_w0": ("types", "prefetch-default-none"),
        "loader.validation/prefetch2_w0": ("breaks", "prefetch-default-none"),
        "loader.validation/in_order": ("breaks", "loader-in-order"),
        "dataset.subset_override/loader_w0": ("breaks", "subset-override-refused"),
        "dataset.sampler_super/init": ("breaks", "sampler-super-refused"),
        "dataset.misc/iterable_iter": ("types", "iterable-abstract"),
        "dataset.misc/dist_no_init": ("types", "process-group-valueerror"),
        "worker.seeding_fork/torch_2p31": ("results", "randint-64-bit"),
        "rng.randint_ranges/2p31": ("results", "randint-64-bit"),
        "rng.torch/rand_f16": ("results", "half-precision-rand"),
        "mp.pickle_direct/gen_torch": ("breaks", "generator-picklable"),
        "num.train_step/zero_grad": ("results", "zero-grad-none"),
        "numpy.semantics/uint8_300": ("breaks", "numpy-out-of-bounds"),
        "load.weights_only/module": ("breaks", "load-weights-only-default"),
        "pil.api/ANTIALIAS": ("breaks", "pillow-constants-gone"),
    }
    seen = {id: (found[id].kind, found[id].transition) for id in expected if id in found}
    assert seen == expected
    assert found["collate.numpy/arr_uint16"].suspects[0].startswith("torch 1.13")


def test_the_last_digits_of_two_builds_are_hardware(torch_report, debian_report):  # noqa: F811
    found = {one.id: one.kind for one in behaviour.compare(debian_report, torch_report).differences}
    assert {kind for id, kind in found.items() if id.startswith(("num.full/", "num.cpu/"))} <= {"hardware", "breaks"}
    assert not [id for id in found if id.startswith(("num.exact/", "rng.python/", "sampler.order/"))]


def test_threads_and_instruction_sets_change_no_software(torch_project, envkit, tmp_path):
    """Ground truth: the probe list, section 3."""
    settings = [{"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"}, {"ATEN_CPU_CAPABILITY": "avx2"}]
    settings += [{"ATEN_CPU_CAPABILITY": "default"}]
    for number, own in enumerate(settings):
        envkit("probe", "-n", "t1", "--tier", "fast", "-o", tmp_path / f"{number}.json", "-q", environ=own)
    told = [report.read(tmp_path / f"{number}.json") for number in range(len(settings))]
    for before, after in itertools.combinations(told, 2):
        assert {one.kind for one in behaviour.compare(before, after).differences} <= {"hardware"}
    assert behaviour.compare(told[0], told[3]).differences
    said = envkit("diff", tmp_path / "0.json", tmp_path / "3.json").stdout
    assert "same up to hardware" in said


# --- the known changes themselves ---


def test_the_known_changes_are_sound(reports):
    """Each names cells that really are probed, and has everything that a person needs."""
    cells = set().union(*(one.cells for one in reports.values()))
    found = transitions.everything()
    assert len(found) >= 60
    assert len({one.id for one in found}) == len(found)
    for one in found:
        assert all(any(transitions.matches(pattern, cell) for cell in cells) for pattern in one.cells), one.id
        assert one.sentence.endswith(".") and one.before and one.after and one.source, one.id
        assert one.until is None or transitions.release(one.since) < transitions.release(one.until), one.id


def test_a_change_holds_within_its_versions_and_facts():
    one = transitions.named("mkl-random-streams")
    assert one.holds({"torch": "2.4.1"}, {"mkl": "True"})
    assert one.holds({"torch": "2.4.1"}, {"mkl": "False"}) is False
    assert one.holds({"torch": "2.6.0"}, {"mkl": "True"}) is False
    assert one.holds({"torch": "1.13.1"}, {"mkl": "True"}) is False
    assert one.holds({"torch": "broken"}, {"mkl": "True"}) is None
    halves = transitions.named("numpy2-under-old-torch")
    assert halves.holds({"torch": "2.0.0+cu117", "numpy": "2.2.6"}, {})
    assert halves.holds({"torch": "2.0.0", "numpy": "1.26.4"}, {}) is False
    assert transitions.named("floor-division").holds({"torch": "1.13.0a0+git7c98e70"}, {})


def test_explain_prints_the_whole_entry(envkit):
    told = envkit("explain", "subset-override-ignored").stdout
    assert "torch 2.1 to before 2.11" in told
    assert "pytorch/pytorch#163184" in told
    assert "dataset.subset_override/loader_w0" in told
    assert "did you mean subset-override-ignored" in envkit("explain", "subset-override-ignore", status=2).stderr
    assert envkit("explain").stdout.count("\n") > 100


def test_an_unknown_change_is_refused():
    with pytest.raises(InputError, match="no known change"):
        transitions.named("nonsense")


# --- opt-in: real older releases, downloaded ---


@pytest.mark.parametrize("release", os.environ.get("ENVKIT_DRIFT_RELEASES", "2.0.0").split())
def test_a_real_older_release_behaves_as_it_was_recorded(release):
    """CUDA wheels on this CPU, with stub libraries: `make test-drift` downloads 0.6 to 0.9 GB for each."""
    if "ENVKIT_DRIFT" not in os.environ:
        pytest.skip("NOT ASKED FOR: `make test-drift` downloads older releases of torch and probes them")
    sys.path.insert(0, str(ROOT / "tools"))
    import drift

    python = drift.environment(Path(os.environ["ENVKIT_DRIFT"]) / release, release)
    if python is None:
        pytest.skip(f"NO PYTHON {drift.RELEASES[release][0]} HERE")
    found = behaviour.compare(_stored(release), drift.record(python)).differences
    assert {one.kind for one in found} <= {"hardware"}
