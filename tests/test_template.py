"""Templates: every file is a whole environment.yml, and options change what they should and nothing else."""

import json

import pytest
import yaml
from tests_support import ROOT, SHARED

from envkit import compatibility, driver, environment, places, template
from envkit.cli import create_flow
from envkit.errors import InputError
from envkit.spec import Spec


@pytest.mark.parametrize("row", compatibility.facts().templates, ids=lambda row: row.file)
def test_every_template_is_a_whole_file_that_forces_its_build(row):
    asked = environment.read(places.templates() / row.file)
    names = {item.name: item.text for item in asked.specs}
    assert asked.channels[-1] == "nodefaults"
    assert {"python", "pytorch", "numpy", "pip"} <= names.keys()
    assert ("cuda" in names["pytorch"]) == (row.cuda != "cpu")
    assert compatibility.cuda_of(asked.spec_texts) == row.cuda


def test_options_put_versions_channels_and_packages_in():
    spec = Spec(
        name="x", cuda="11.8", python="3.10", torch="2.3", channels=("a",), add=("scipy", "numpy=1.26"), pip=("tqdm",)
    )
    asked = template.choose(spec).environment
    names = {item.name: item.text for item in asked.specs}
    assert asked.name == "x"
    assert asked.channels == ("a", "nodefaults")
    assert names["python"] == "python=3.10"
    assert names["pytorch"] == "pytorch=2.3.*=*cuda11.8*"
    assert names["numpy"] == "numpy=1.26"
    assert names["scipy"] == "scipy"
    assert [item.text for item in asked.pip] == ["tqdm"]


def test_an_old_torch_brings_the_pins_that_it_needs():
    names = {item.name: item.text for item in template.choose(Spec(cuda="11.8", torch="2.0.1")).environment.specs}
    assert names["numpy"] == "numpy<2"
    assert names["pillow"] == "pillow<10"


def test_torch_none_leaves_the_family_out():
    names = {item.name for item in template.choose(Spec(cuda="11.8", torch="none")).environment.specs}
    assert names == {"python", "numpy", "pillow", "setuptools", "pip"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cuda": "11.9"}, "nearest is --cuda 11.8"),
        ({"cuda": "10.0"}, "nearest is --cuda 11.2"),
        ({"cuda": "11.8", "python": "3.14"}, "Python 3.14: it has 3.9, 3.10, 3.11"),
        ({"cuda": "11.8", "torch": "2.6.0"}, "torch 2.6.0"),
        ({"cuda": "latest"}, "write auto, cpu or a version"),
        ({"python": "three"}, "write a version"),
    ],
)
def test_what_cannot_be_had_names_what_can(options, said):
    with pytest.raises(InputError) as caught:
        template.choose(Spec(**options))
    assert said in " ".join([caught.value.message, *caught.value.details, caught.value.hint])


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (["--driver", "520.61", "--gpu", "RTX 3090"], "11.8"),
        (["--driver", "470"], "11.8"),
        (["--driver", "580.65.06", "--gpu", "RTX 5090"], "13.0"),
        (["--driver", "580", "--gpu", "RTX 5090"], "13.0"),
        (["--driver", "550.54", "--gpu", "RTX 5090"], "12.9"),
        (["--gpu", "GTX 1080"], "12.9"),
        (["--gpu", "Tesla K80"], "11.8"),
        (["--python", "3.9"], "12.4"),
        (["--driver", "418.87"], "cpu"),
        (["--platform", "osx-arm64"], "cpu"),
        (["--platform", "win-64", "--driver", "560.76"], "12.8"),
        (["--torch", "2.0.1"], "11.8"),
        (["--torch", "1.12.1", "--python", "3.10"], "11.3"),
    ],
)
def test_the_first_choice_for_a_driver_a_gpu_and_a_python(options, first, envkit):
    told = json.loads(envkit("templates", "--platform", "linux-64", *options, "--json").stdout)["templates"]
    assert told[0]["against"] == []
    assert told[0]["row"]["cuda"] == first


def test_every_template_that_does_not_fit_says_why(envkit):
    told = envkit("templates", "--driver", "470", "--gpu", "RTX 5090", "--explain", "--platform", "linux-64").stdout
    assert "driver 470 is too old: CUDA 13 needs 580.65.06 or newer" in told
    assert "GPU of compute capability 12.0" in told
    assert "pytorch/pytorch-cpu-feedstock" in told or "pytorch-cpu-feedstock" in told


@pytest.mark.parametrize(
    ("gpu", "capability"),
    [
        ("NVIDIA GeForce RTX 4090", (8, 9)),
        ("Tesla V100-SXM2-16GB", (7, 0)),
        ("A100 80GB PCIe", (8, 0)),
        ("L40S", (8, 9)),
    ],
)
def test_gpus_are_known_by_their_names(gpu, capability):
    assert compatibility.capability_of(gpu) == capability


def test_a_gpu_that_is_not_known_is_refused():
    with pytest.raises(InputError, match="Voodoo"):
        compatibility.capability_of("Voodoo 2")


@pytest.mark.parametrize(
    ("cuda", "torch", "vision", "audio"),
    [
        ("11.8", None, "torchvision=0.20.1=*cu118", "torchaudio=2.5.1=*cu118"),
        ("12.4", "2.4.1", "torchvision=0.19.1=*cu124", "torchaudio=2.4.1=*cu124"),
        ("12.9", None, "torchvision=*=cuda129*", "torchaudio=*=cuda129*"),
        ("12.9", "2.8.0", "torchvision=0.23.0=cuda129*", "torchaudio=2.8.0=cuda129*"),
        ("cpu", "2.7", "torchvision=0.22.1=cpu*", "torchaudio=2.7.1=cpu*"),
    ],
)
def test_vision_and_audio_come_in_the_version_and_build_that_fit(cuda, torch, vision, audio):
    spec = Spec(cuda=cuda, torch=torch, variants=("vision", "audio"))
    names = {item.name: item.text for item in template.choose(spec).environment.specs}
    assert (names["torchvision"], names["torchaudio"]) == (vision, audio)


def test_other_variants_add_their_packages_and_unknown_ones_are_refused():
    names = {item.name for item in template.choose(Spec(variants=("jupyter", "hdf5-lmdb"))).environment.specs}
    assert {"jupyterlab", "h5py", "python-lmdb"} <= names
    with pytest.raises(InputError, match="--with nothing"):
        template.choose(Spec(variants=("nothing",)))


def test_a_torch_that_a_cuda_does_not_have_names_the_nearest_and_who_has_it():
    with pytest.raises(InputError) as caught:
        template.choose(Spec(cuda="11.8", torch="2.7"))
    assert "--torch 2.5.1" in caught.value.hint
    assert "CUDA 12.9 has it" in caught.value.hint


@pytest.mark.shared
def test_what_the_templates_offer_stands_in_the_facts():
    facts = yaml.safe_load((SHARED / "compatibility-facts.yaml").read_text())
    releases = {one["version"]: one for one in facts["releases"]}
    for row in compatibility.facts().templates:
        if row.channel == "pytorch":
            newest = row.torch.rpartition("<=")[2]
            offered = releases[newest]["pytorch_channel"]["linux-64"][row.cuda]
            assert set(row.python) <= set(offered["python_ge_3_9"])


def test_the_checkout_s_templates_are_read_from_the_top_level_folder():
    assert places.templates() == ROOT / "templates"


@pytest.mark.shared
@pytest.mark.parametrize("row", compatibility.facts().templates, ids=lambda row: row.file)
def test_every_template_solves_to_what_it_promises_wherever_the_snapshot_can_tell(row, monkeypatch):
    import coverage_table as coverage

    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", (SHARED / "channels").as_uri())
    found = {
        (python, platform): coverage.cell(row, python, platform, SHARED / "channels")
        for platform in row.platforms
        for python in row.python
    }
    assert {at: told for at, (outcome, told) in found.items() if outcome == coverage.WRONG} == {}
    assert [at for at, (outcome, _) in found.items() if outcome == coverage.IMPOSSIBLE] == IMPOSSIBLE.get(row.file, [])
    if row.file not in UNSEEN:
        assert any(outcome == coverage.SOLVED for outcome, _ in found.values())


IMPOSSIBLE = {"conda-forge-cuda126.yml": [("3.13", "win-64")]}
"""Cells for which the snapshot has a torch build and still no set of packages; its README calls it partial."""

UNSEEN = {"pytorch-cuda116.yml"}
"""Templates that the snapshot cannot answer at all: it holds no pytorch-cuda 11.6."""


@pytest.mark.shared
@pytest.mark.parametrize(("cuda", "python"), [("11.8", "3.11"), ("12.4", "3.10"), ("cpu", "3.11")])
def test_vision_solves_to_the_build_and_version_of_torch(cuda, python, monkeypatch):
    import coverage_table as coverage

    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", (SHARED / "channels").as_uri())
    row = compatibility.row_for(cuda, python=python, torch=None)
    outcome, told = coverage.cell(row, python, "linux-64", SHARED / "channels", variants=("vision",))
    assert outcome == coverage.SOLVED, told


@pytest.mark.shared
def test_a_cuda_template_is_refused_by_a_machine_without_cuda_where_its_builds_can_tell(monkeypatch):
    from envkit import engine
    from envkit.errors import UnsolvableError

    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", (SHARED / "channels").as_uri())
    choice = template.choose(Spec(cuda="12.9", python="3.11"))
    with pytest.raises(UnsolvableError):
        engine.solve(
            choice.environment.spec_texts,
            channels=["conda-forge"],
            platform="linux-64",
            virtual_packages=compatibility.target_packages("linux-64", "cpu"),
        )


@pytest.mark.parametrize(
    ("text", "cuda", "variants"),
    [
        ("# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic", "12.9", ("jetson",)),
        ("# R38 (release), REVISION: 2.0", "13.0", ()),
        ("# R35 (release), REVISION: 4.1", None, ()),
        ("?", None, ()),
    ],
)
def test_a_jetson_gets_the_builds_for_its_chips_or_is_refused(text, cuda, variants, monkeypatch, tmp_path):
    (tmp_path / "nv_tegra_release").write_text(text)
    monkeypatch.setattr(driver, "_JETSON", tmp_path / "nv_tegra_release")
    fields = create_flow.Wish.__struct_fields__
    wish = create_flow.Wish(
        **dict.fromkeys(fields) | {"cuda": "auto", "channels": (), "variants": (), "add": (), "pip": ()}
    )
    if cuda is None:
        with pytest.raises(InputError, match="JetPack 6"):
            create_flow._cuda(wish)
        return
    assert create_flow._cuda(wish)[0] == cuda
    made = template.choose(create_flow._spec(wish, cuda)).environment
    assert ("arm-variant=*=tegra" in made.spec_texts) == (variants == ("jetson",))
    with pytest.raises(InputError, match=r"12\.9"):
        create_flow._spec(wish, "11.8")
