"""`check`: every kind of the corpus gets its findings, `--fix` rewrites what can be rewritten and is idempotent."""

import contextlib
import json
import shutil

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_support import SHARED

from envkit import check, codec, environment, fix, pip_line
from envkit.errors import EnvkitError

# True, and not in the corpus' lists, which name the point of each file.
MORE = {"exported-on-another-platform", "abi-unpinned"}


def _corpus():
    path = SHARED / "corpus" / "expected.yaml"
    return yaml.safe_load(path.read_text()) if path.exists() else []


def _checked(case):
    return check.check(SHARED / "corpus" / case["file"], platforms=case.get("platforms") or ["linux-64"])


@pytest.mark.shared
@pytest.mark.parametrize("case", [one for one in _corpus() if one["parse"] == "ok"], ids=lambda case: case["file"])
def test_a_file_of_the_corpus_is_read_and_judged_as_expected(case):
    checked = _checked(case)
    specs = [(one.item.raw or one.item.text, one.parsed) for one in checked.subject.specs]
    assert [" ".join(raw.split()) for raw, _ in specs] == [" ".join(one["raw"].split()) for one in case["conda"]]
    assert [(p.name, p.version, p.build, p.channel) for _, p in specs] == [
        (one["name"], one["version"], one["build"], one["channel"]) for one in case["conda"]
    ]
    lines = [one.parsed for one in checked.subject.lines]
    assert [line.kind for line in lines] == [one["kind"] for one in case["pip"]]
    for line, wanted in zip(lines, case["pip"], strict=True):
        assert {key: getattr(line, key) for key in ("name", "spec", "value") if key in wanted} == {
            key: wanted[key] for key in ("name", "spec", "value") if key in wanted
        }
    expected = {text.split(":")[0].split(" ")[0] for text in case["warnings"]}
    told = {one.code: one.severity for one in checked.findings}
    assert expected - told.keys() == set()
    assert {code for code, severity in told.items() if severity != "info"} - expected - MORE == set()
    assert {str(k): str(v) for k, v in (case.get("variables") or {}).items()} == dict(checked.environment.variables)


@pytest.mark.shared
@pytest.mark.parametrize("case", [one for one in _corpus() if one["parse"] == "error"], ids=lambda case: case["file"])
def test_a_file_of_the_corpus_is_refused_with_its_kind_and_line(case):
    errors = [(one.code, one.line) for one in _checked(case).findings if one.severity == "error"]
    assert (case["error"]["kind"], case["error"]["line"]) in errors


@pytest.mark.shared
@pytest.mark.parametrize("case", [one for one in _corpus() if one["parse"] == "ok"], ids=lambda case: case["file"])
def test_fixing_twice_gives_the_same_bytes(case, tmp_path, envkit):
    path = tmp_path / "environment.yml"
    shutil.copyfile(SHARED / "corpus" / case["file"], path)
    subject = check.check(path, platforms=["osx-arm64"]).subject
    try:
        path.write_text(fix.fix(codec.read_text(path), subject), newline="")
    except EnvkitError as error:
        assert "one item on a line" in error.message
        return
    once = path.read_bytes()
    again = check.check(path, platforms=["osx-arm64"])
    assert fix.fix(once.decode(), again.subject).encode() == once


EXPORT = """\
# our environment
name: demo
channels:
- conda-forge
dependencies:
- ld_impl_linux-64=2.38=h1
- numpy=1.26.4=py311h_0   # arrays
- python=3.11.9=h2_cpython
- python=3.11.9=h2_cpython
- pip:
  - --extra-index-url https://example.org/simple
  - tqdm==4.66.1
prefix: /home/someone/envs/demo
"""


def test_a_fix_rewrites_an_export_for_another_platform_and_shows_the_change(tmp_path, envkit):
    path = tmp_path / "environment.yml"
    path.write_text(EXPORT)
    told = envkit("check", path, "--platform", "osx-arm64", "--fix")
    assert path.read_text() == (
        "# our environment\nname: demo\nchannels:\n- conda-forge\n- nodefaults\ndependencies:\n"
        "- numpy=1.26.4   # arrays\n- python=3.11.9\n- pip\n- pip:\n  - tqdm==4.66.1\n"
        "pip-repositories:\n  - https://example.org/simple\n"
    )
    assert "-prefix: /home/someone/envs/demo" in told.stdout
    assert "+- nodefaults" in told.stdout
    before = path.read_bytes()
    envkit("check", path, "--platform", "osx-arm64", "--fix")
    assert path.read_bytes() == before


HANDWRITTEN = """\
channels:
  - conda-forge
  - nodefaults
dependencies:
  - numpy  # arrays
  - numpy>=1.20
  - numpy <2
  - scipy=1.11.4=py310hb13e2d6_0
  - pandas
  - pandas=2.1
  - cuda-version=12.9
  - pytorch-gpu=2.7
  - python=3.10
  - python=3.10
  - pywin32  # [win]
"""


def test_a_fix_for_a_platform_makes_one_spec_of_several_and_leaves_out_what_it_lacks(tmp_path, envkit):
    path = tmp_path / "environment.yml"
    path.write_text(HANDWRITTEN)
    envkit("check", path, "--platform", "osx-arm64", "--fix")
    assert path.read_text().split("dependencies:\n")[1].splitlines() == [
        "  - numpy>=1.20,<2  # arrays",
        "  - scipy=1.11.4",
        "  - pandas=2.1",
        "  - pytorch=2.7",
        "  - python=3.10",
        "  - pywin32  # [win]",
    ]
    before = path.read_bytes()
    envkit("check", path, "--platform", "osx-arm64", "--fix")
    assert path.read_bytes() == before
    # Nobody asked for a platform: what this machine lacks is not a fault of the file.
    path.write_text(HANDWRITTEN)
    envkit("check", path, "--fix")
    assert "cuda-version=12.9" in path.read_text()


def test_a_file_without_a_fault_has_nothing_to_fix(tmp_path, envkit):
    path = tmp_path / "environment.yml"
    path.write_text("name: x\nchannels: [conda-forge, nodefaults]\ndependencies: [python=3.12]\n")
    told = json.loads(envkit("check", path, "--fix", "--json").stdout)
    assert told["change"] == ""
    assert [one["code"] for one in told["findings"]] == ["nodefaults-marker"]


def test_errors_make_exit_1_and_a_missing_file_2(tmp_path, envkit):
    path = tmp_path / "environment.yml"
    path.write_text("name: x\nchannels: [conda-forge]\ndependencies:\n  - openpyxl =>3.1\n")
    told = envkit("check", path, status=1)
    assert f"{path}:4: error: openpyxl =>3.1" in told.stdout
    assert "did you mean 'openpyxl >=3.1'?" in told.stdout
    envkit("check", tmp_path / "none.yml", status=2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("channels: [conda-forge, pypi]\ndependencies: [python=3.11]\n", "unknown-channel"),
        ("channels: [pytorch]\ndependencies: [pytorch=2.6]\n", "version-not-on-channel"),
        ("channels: [conda-forge]\ndependencies: ['fastapi[all]']\n", "bad-spec"),
        ("channels: [conda-forge]\ndependencies: [pytorch=2.5.1, torchvision=0.19]\n", "torch-pairing"),
        ("channels: [conda-forge, pytorch]\ndependencies: [pytorch=2.5.1, pytorch-cuda=11.8]\n", "channel-order"),
        ("dependencies:\n  - sel(win): pywin32\n  - python\n", "sel-selector-ignored-by-conda"),
        ("dependencies:\n  - python=3.11\n  - pip - -e .\n", "pip-colon-missing"),
    ],
)
def test_more_kinds_of_the_field_reports_have_their_code(text, code, tmp_path):
    path = tmp_path / "e.yml"
    path.write_text(text)
    assert code in {one.code for one in check.check(path).findings}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("tqdm", "pep508"),
        ("--find-links=https://x/y", "option"),
        ("-e.", "editable-path"),
        ("--editable ./x", "editable-path"),
        ("-rreq.txt", "include"),
        ("--requirement=req.txt", "include"),
        ("./wheels/x-1.0-py3-none-any.whl", "path"),
        ("x @ file:///croot/x", "file-url"),
        ("hg+https://h/x", "vcs"),
        ("not a requirement at all", "INVALID"),
    ],
)
def test_pip_lines_are_told_apart(text, kind):
    assert pip_line.parse(text).kind == kind


def test_selectors_of_both_dialects_are_read_for_the_platform():
    text = "name: x\ndependencies:\n  - a  # [linux]\n  - b  # [win64]\n  - sel(osx): c\n  - d\n"
    asked = environment.parse(text, "e.yml")
    held = {platform: asked.for_platform(platform).spec_texts for platform in ("linux-64", "win-64", "osx-arm64")}
    assert held == {"linux-64": ("a", "d"), "win-64": ("b", "d"), "osx-arm64": ("c", "d")}


def test_anchors_crlf_and_a_byte_order_mark_are_read(tmp_path):
    path = tmp_path / "e.yml"
    text = (
        "\ufeffname: x\r\nchannels: &c [conda-forge]\r\ndependencies:\r\n  - python=3.11\r\n  - pip:\r\n    - tqdm\r\n"
    )
    path.write_bytes(text.encode())
    asked = environment.read(path)
    assert (asked.name, asked.spec_texts, asked.pip[0].text, asked.pip[0].line) == ("x", ("python=3.11",), "tqdm", 6)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=300), st.text(alphabet="name: -[]{}#\n\t'\"!&*|>%@`pidenchls=.<>3", max_size=400)))
def test_the_reader_never_raises_anything_but_its_own_error(text):
    with contextlib.suppress(EnvkitError):
        check.judge(environment.parse(text, "e.yml"))


SECRETS = """\
channels: [https://conda.example.org/t/tk-secret-123/team, "https://${USER}:${PASSWORD}@conda.example.org/x"]
dependencies:
  - python=3.11
  - pip
  - pip:
    - --extra-index-url https://ada:hunter2@index.example.org/simple
    - tqdm
variables: {HF_TOKEN: hf_abcdef, PLAIN: x, W_API_KEY: $W}
"""


def test_logins_in_a_file_are_found_and_not_repeated(tmp_path, envkit):
    path = tmp_path / "environment.yml"
    path.write_text(SECRETS)
    found = [one for one in check.check(path).findings if one.code == "secret-in-file"]
    assert [one.item.partition(" ")[0] for one in found] == [
        "https://conda.example.org/t/<hidden>/team",
        "HF_TOKEN",
        "--extra-index-url",
    ]
    told = "".join(envkit("check", path, *more).stdout for more in ([], ["--json"], ["--fix"], ["--fix", "--json"]))
    assert not any(secret in told for secret in ("tk-secret", "hunter2", "hf_abcdef"))


def test_what_can_be_read_of_a_broken_file_is_judged_too(tmp_path):
    path = tmp_path / "environment.yml"
    path.write_text("dependencies:\n  - 3.5\n  - openpyxl =>3.1\n  - pip\n  - pip:\n    - not a name\n")
    errors = [(one.line, one.code) for one in check.check(path).findings if one.severity == "error"]
    assert errors == [(2, "bad-dependency-type"), (3, "bad-spec"), (6, "pip-invalid-requirement")]
