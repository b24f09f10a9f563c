"""Templates: every file is a whole environment.yml, and options change what they should and nothing else."""

import pytest
import yaml
from tests_support import ROOT, SHARED

from envkit import compatibility, environment, places, template
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
        ({"cuda": "10.0"}, "nearest is --cuda 11.8"),
        ({"cuda": "11.8", "python": "3.14"}, "Python 3.14: it has 3.9"),
        ({"cuda": "11.8", "torch": "2.6.0"}, "torch 2.6.0"),
        ({"cuda": "latest"}, "write auto, cpu or a version"),
        ({"python": "three"}, "write a version"),
    ],
)
def test_what_cannot_be_had_names_what_can(options, said):
    with pytest.raises(InputError) as caught:
        template.choose(Spec(**options))
    assert said in " ".join([caught.value.message, *caught.value.details, caught.value.hint])


@pytest.mark.parametrize(("driver", "chosen"), [("11.4", "11.8"), ("12.2", "12.9"), ("13.1", "13.0"), ("10.1", "cpu")])
def test_the_newest_cuda_that_a_driver_runs(driver, chosen):
    assert compatibility.newest_for_driver(driver) == chosen


@pytest.mark.shared
def test_what_the_templates_offer_stands_in_the_facts():
    facts = yaml.safe_load((SHARED / "compatibility-facts.yaml").read_text())
    releases = {one["version"]: one for one in facts["releases"]}
    for row in compatibility.facts().templates:
        if row.cuda not in ("11.8", "12.1", "12.4"):
            continue
        offered = releases["2.5.1"]["pytorch_channel"]["linux-64"][row.cuda]
        assert set(row.python) == set(offered["python_ge_3_9"])


def test_the_checkout_s_templates_are_read_from_the_top_level_folder():
    assert places.templates() == ROOT / "templates"
