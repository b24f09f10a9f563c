"""The command line as a person meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests_support import ROOT

from envkit.cli import CONTENTS, group


@pytest.mark.parametrize("name", sorted(CONTENTS))
def test_every_command_has_help_with_an_example(name, envkit):
    words = ("channel", "make") if name == "channel" else (name,)
    told = envkit(*words, "--help").stdout
    assert "Example" in told
    assert f"envkit {' '.join(words)}" in told


def test_the_table_of_contents_matches_the_commands():
    for name in CONTENTS:
        assert group.get_command(None, name) is not None


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_start_up_imports_nothing_heavy(words):
    code = f"import sys; sys.argv = ['envkit', *{words!r}]\nfrom envkit.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += "print(*sorted(sys.modules), file=sys.stderr)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(told.stderr.split())
    assert not loaded & {"rattler", "conda_lock", "rich", "msgspec", "ruamel.yaml", "yaml", "psutil", "pynvml"}


@pytest.mark.parametrize("words", [("frobnicate",), ("lock",), ("diff", "one.json"), ("lock", "x.yml", "--nope")])
def test_wrong_usage_is_exit_2(words, envkit, tmp_path):
    told = envkit(*words, status=2, cwd=tmp_path)
    assert told.stdout == ""
    assert "Usage" in told.stderr or "no such file" in told.stderr


def test_an_error_with_json_is_a_record_on_stdout(envkit, tmp_path):
    told = envkit("lock", tmp_path / "none.yml", "--json", status=2)
    assert json.loads(told.stdout)["error"]["kind"] == "input"
    assert "no such file" in told.stderr


def test_shell_completion_knows_commands_and_environments(envkit, tmp_path):
    (tmp_path / "envs" / "mine" / "conda-meta").mkdir(parents=True)
    own = {"_ENVKIT_COMPLETE": "bash_complete", "ENVKIT_ENVS_PATH": str(tmp_path / "envs")}
    commands = envkit(environ=own | {"COMP_WORDS": "envkit ver", "COMP_CWORD": "1"}).stdout
    assert "verify" in commands
    names = envkit(environ=own | {"COMP_WORDS": "envkit run -n mi", "COMP_CWORD": "3"}).stdout
    assert "mine" in names


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell, envkit):
    assert "_ENVKIT_COMPLETE" in envkit("completion", shell).stdout


def test_no_color_and_no_terminal_mean_plain_text(torch_project, envkit):
    report = torch_project / "environment.report.json"
    assert "\x1b" not in envkit("diff", report, report, environ={"NO_COLOR": "1"}).stdout


def test_every_command_has_a_section_in_the_readme():
    text = (ROOT / "README.md").read_text()
    for name in CONTENTS:
        assert f"envkit {name}" in text, name


def test_ctrl_c_says_so_and_leaves_with_130(small_project, envkit):
    envkit("lock", small_project / "environment.yml")
    command = [str(Path(sys.executable).parent / "envkit"), "build", str(small_project / "environment.yml"), "-p", "e"]
    code = (
        "import os, signal, sys, subprocess, time\n"
        # Tests that run in the background of a script inherit that Ctrl-C is ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"child = subprocess.Popen({command!r}, cwd={str(small_project)!r}, stderr=subprocess.PIPE, text=True)\n"
        "for line in child.stderr:\n"
        "    if 'installing' in line: child.send_signal(signal.SIGINT); break\n"
        "rest = child.stderr.read(); print(child.wait(), rest)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert told.stdout.startswith("130"), told.stdout + told.stderr
    assert "interrupted" in told.stdout
    assert [path.name for path in small_project.iterdir() if "envkit" in path.name or path.name == "e"] == []


def test_the_help_in_the_readme_is_the_help_of_the_program(envkit):
    told = envkit("--help", environ={"COLUMNS": "80"}).stdout
    assert told.rstrip() in (ROOT / "README.md").read_text()
