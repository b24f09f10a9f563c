"""Activation in real shells: values arrive as they are, whatever characters they hold."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from envkit import activation
from envkit.errors import BrokenEnvironmentError

VALUES = {
    "PLAIN": "value",
    "QUOTES": """it's "quoted" ‘typographic’""",
    "SHELL": "$(touch pwned) `touch pwned` ${HOME} ; touch pwned && !!",
    "BACKSLASH": "a\\b\\",
    "UNICODE": "é 漢字",
}


@pytest.fixture
def prefix(tmp_path) -> Path:
    place = tmp_path / "envs" / "an env; é"
    (place / "conda-meta").mkdir(parents=True)
    (place / "conda-meta/history").touch()
    (place / "conda-meta/state").write_text(json.dumps({"version": 1, "env_vars": VALUES}))
    (place / "bin").mkdir()
    scripts = place / "etc/conda/activate.d"
    scripts.mkdir(parents=True)
    (scripts / "one more.sh").write_text('export FROM_SCRIPT="in $CONDA_PREFIX"\n')
    (scripts / "one more.fish").write_text('set -gx FROM_SCRIPT "in $CONDA_PREFIX"\n')
    return place


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_evaluated_code_sets_every_value_exactly(shell, prefix, tmp_path):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"NO {shell} HERE")
    code = activation.shell_code(prefix, shell, {"PATH": os.environ["PATH"]})
    (tmp_path / "code").write_text(code)
    load = "cat code | source" if shell == "fish" else 'eval "$(cat code)"'
    told = subprocess.run([program, "-c", f"{load}; env -0"], capture_output=True, cwd=tmp_path, check=True)
    environ = dict(entry.split("=", 1) for entry in told.stdout.decode().split("\0") if entry)
    assert {name: environ[name] for name in VALUES} == VALUES
    assert environ["CONDA_PREFIX"] == str(prefix)
    assert environ["CONDA_DEFAULT_ENV"] == prefix.name
    assert environ["PATH"].split(":")[0] == f"{prefix}/bin"
    assert environ["FROM_SCRIPT"] == f"in {prefix}"
    assert not (tmp_path / "pwned").exists()


def test_powershell_code_quotes_every_quote(prefix):
    code = activation.shell_code(prefix, "powershell", {"PATH": "/usr/bin"})
    line = next(line for line in code.splitlines() if "QUOTES" in line)
    assert line == "${Env:QUOTES} = 'it''s \"quoted\" ‘‘typographic’’'"


def test_a_process_gets_the_values_and_what_scripts_export(prefix):
    environ = activation.environ(prefix, {"PATH": "/usr/bin:/bin", "KEPT": "yes"})
    assert {name: environ[name] for name in VALUES} == VALUES
    assert environ["FROM_SCRIPT"] == f"in {prefix}"
    assert environ["KEPT"] == "yes"


def test_the_environment_that_was_active_leaves_the_path(prefix):
    outer = {"PATH": "/old/env/bin:/usr/bin", "CONDA_PREFIX": "/old/env"}
    assert activation.changes(prefix, outer)["PATH"] == f"{prefix}/bin:/usr/bin"


def test_a_failing_script_is_an_error_with_its_words(prefix):
    (prefix / "etc/conda/activate.d/zz.sh").write_text("echo broken things >&2; exit 3\n")
    with pytest.raises(BrokenEnvironmentError) as caught:
        activation.environ(prefix, {"PATH": "/usr/bin:/bin"})
    assert "broken things" in caught.value.details


def test_a_folder_that_is_no_environment_is_refused(tmp_path):
    with pytest.raises(BrokenEnvironmentError, match="not an environment"):
        activation.environ(tmp_path, {})


def test_a_shell_starts_activated_after_its_own_start_up_files(prefix, envkit, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("NO bash HERE")
    (tmp_path / ".bashrc").write_text("export PATH=/from/bashrc:$PATH\n")
    told = subprocess.run(
        [shutil.which("envkit"), "shell", "-p", prefix],
        input="echo $PATH; exit 7\n",
        capture_output=True,
        text=True,
        env=os.environ | {"SHELL": shutil.which("bash"), "HOME": str(tmp_path)},
    )
    assert told.returncode == 7
    assert told.stdout.splitlines()[0].startswith(f"{prefix}/bin:")


def test_activate_prints_code_for_the_shell_named(prefix, envkit):
    assert "set -gx CONDA_PREFIX" in envkit("activate", "-p", prefix, "--shell", "fish").stdout
    assert "export CONDA_PREFIX=" in envkit("activate", "-p", prefix, environ={"SHELL": "/bin/zsh"}).stdout
