"""Reading environment.yml with the right sentence for each fault, and editing it with its comments."""

import msgspec
import pytest
import yaml
from tests_support import SHARED

from envkit import environment, lockable
from envkit.environment import Item
from envkit.errors import InputError

GOOD = """\
# the team's environment
name: demo
channels:
  - conda-forge   # ours
  - nodefaults
dependencies:
  - python=3.11
  - numpy   # arrays
  - pip:
      - tqdm==4.66.1
variables:
  OMP_NUM_THREADS: 2
"""


def test_every_item_keeps_its_line():
    told = environment.parse(GOOD, "environment.yml")
    assert [(item.text, item.line) for item in told.specs] == [("python=3.11", 7), ("numpy", 8)]
    assert [(item.text, item.line) for item in told.pip] == [("tqdm==4.66.1", 10)]
    assert told.channels == ("conda-forge", "nodefaults")
    assert told.variables == {"OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("hello\n", "a text, not a mapping"),
        ("- a\n", "a list, not a mapping"),
        ("a: [1\nb: 2\n", "e.yml:2"),
        ("name: x\ndependencies:\n\t- python\n", "e.yml:3: a tab"),
        ("name: x\ndependencies: python\n", "'dependencies' must be a list"),
        ("name: 3.10\ndependencies: []\n", "quote it"),
        ("dependencies:\n  - 3.10\n", "e.yml:2: 3.10 is a number"),
        ("dependencies:\n  - python: 3.10\n", "is a mapping here"),
        ("dependencies:\n  - [a]\n", "a list inside the list, not a spec"),
        ("dependencies:\n  - pip\n    - -e .\n", "':' is missing after 'pip'"),
        ("dependencies:\n  - pip: einops\n", "'pip:' must be a list"),
        ("dependencies: []\nvariables:\n  'a b': 1\n", "cannot be the name of a variable"),
    ],
)
def test_each_fault_has_its_sentence_and_line(text, said):
    with pytest.raises(InputError) as caught:
        environment.parse(text, "e.yml")
    assert said in "\n".join([caught.value.message, *caught.value.details])


def test_all_misspelt_keys_are_told_at_once():
    with pytest.raises(InputError) as caught:
        environment.parse("names: x\nchanels: [a]\ndependecies: [python]\n", "e.yml")
    assert [detail.partition(": did")[2] for detail in caught.value.details[:3]] == [
        " you mean 'name'?",
        " you mean 'channels'?",
        " you mean 'dependencies'?",
    ]
    assert "missing" in caught.value.details[3]


def test_utf_16_with_a_mark_is_read_and_latin_1_is_refused_with_its_line(tmp_path):
    path = tmp_path / "e.yml"
    path.write_bytes(GOOD.encode("utf-16"))
    assert environment.read(path).name == "demo"
    path.write_bytes("name: x\n# caf\xe9\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"e\.yml:2: byte 0xe9"):
        environment.read(path)


def test_an_edit_keeps_comments_and_order_and_changes_only_what_changed():
    asked = environment.parse(GOOD.replace("numpy ", "numpy<2 "), "e.yml")
    edited = environment.apply(GOOD, asked)
    before, after = GOOD.splitlines(), edited.splitlines()
    assert [line.split("#")[0].rstrip() for line in after] == [
        line.split("#")[0].rstrip().replace("- numpy", "- numpy<2") for line in before
    ]
    assert [line.partition("#")[2] for line in after] == [line.partition("#")[2] for line in before]


def test_an_edit_adds_new_specs_before_the_pip_section_and_drops_old_ones():
    asked = environment.parse(GOOD, "e.yml")
    specs = (Item(text="python=3.12"), Item(text="scipy"))
    edited = environment.parse(environment.apply(GOOD, msgspec.structs.replace(asked, specs=specs)), "e.yml")
    assert edited.spec_texts == ("python=3.12", "scipy")
    assert [item.text for item in edited.pip] == ["tqdm==4.66.1"]


def test_reading_what_was_written_gives_the_same():
    asked = environment.parse(GOOD, "e.yml")
    again = environment.parse(environment.apply("", asked), "e.yml")
    assert (again.name, again.channels, again.spec_texts, again.variables) == (
        asked.name,
        asked.channels,
        asked.spec_texts,
        asked.variables,
    )


def _corpus():
    path = SHARED / "corpus" / "expected.yaml"
    return yaml.safe_load(path.read_text()) if path.exists() else []


@pytest.mark.shared
@pytest.mark.parametrize("case", _corpus(), ids=lambda case: case["file"])
def test_files_of_the_corpus_are_read_or_refused_as_expected(case):
    path = SHARED / "corpus" / case["file"]
    if case["parse"] == "error":
        with pytest.raises(InputError) as caught:
            lockable.check_readable(environment.read(path), path)
        if case["error"]["kind"] == "bad-spec":
            assert f"{path}:{case['error']['line']}:" in "\n".join(caught.value.details)
    else:
        told = environment.read(path)
        assert told.name == case["name"]
        assert [one for one in told.channels if one != "nodefaults"] == case["channels"]
