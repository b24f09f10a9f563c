"""Environments with older torches, to compare behaviour over releases: `python tools/drift.py FOLDER [RELEASE...]`.

The CUDA wheels of PyTorch import on a machine without a GPU once the CUDA libraries that they name are there. Those
are 2.5 GB, and nothing of them runs on a CPU: here each is a stub that exports the symbols torch asks for.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import interpreters
import msgspec

from envkit import inside, probe
from envkit.driver import Driver
from envkit.host import Host
from envkit.report import EnvironmentFacts, Interpreter, Report

_WEB = ["requests", "urllib3", "idna", "certifi", "charset_normalizer"]
_PURE = ["typing_extensions", "filelock", "sympy==1.13.3", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec"]
RELEASES = {
    "1.8.1": ("3.8", ["torch==1.8.1", "torchvision==0.9.1", "numpy==1.19.5", "pillow==8.4.0", "typing_extensions"]),
    "1.12.1": (
        "3.10",
        ["torch==1.12.1", "torchvision==0.13.1", "numpy==1.23.5", "pillow==9.1.1", "typing_extensions", *_WEB],
    ),
    "2.0.0": ("3.11", ["torch==2.0.0", "torchvision==0.15.1", "numpy==1.24.4", "pillow==9.5.0", *_PURE, *_WEB]),
    "2.4.1": ("3.11", ["torch==2.4.1", "torchvision==0.19.1", "numpy==1.26.4", "pillow==10.4.0", *_PURE]),
    "2.10.0": ("3.11", ["torch==2.10.0", "torchvision==0.25.0", "numpy==2.3.5", "pillow==12.0.0", *_PURE]),
}
"""Python's minor version and the wheels of each; 1.8.1 and 1.12.1 bring their CUDA libraries along."""

_CUDA = re.compile(r"^(?:cu|nv|nccl|__cuda|cufile|CUPTI|__nv)\w*$", re.IGNORECASE)


def main(folder: Path, names: list[str]) -> int:
    """Make the environments that are named, or the smallest that needs stubs; print each interpreter."""
    for name in names or ["2.0.0"]:
        python = environment(folder / name, name)
        if python is None:
            print(f"{name}: NO PYTHON {RELEASES[name][0]} HERE", file=sys.stderr)
            return 1
        print(python)
    return 0


def record(python: Path) -> Report:
    """A report of all tiers, without what is of this machine: what the tests keep of a release."""
    plan = probe.Plan(tiers=probe.TIERS)
    told = probe.probe(inside.Target(python=python, environ=dict(os.environ)), probes=plan)
    plain = msgspec.structs.replace
    cells = {
        id: plain(cell, error=plain(cell.error, raw="")) if cell.error else cell
        for id, cell in told.cells.items()
        if cell.compared
    }
    modules = {
        name: plain(module, file=None, details={key: module.details.get(key) for key in _KEPT})
        for name, module in told.interpreter.modules.items()
    }
    version = {"version": told.interpreter.python["version"]}
    return plain(
        told,
        host=Host(system=told.host.system, machine=told.host.machine, kernel="", cpu_model=told.host.cpu_model),
        driver=Driver(state="absent"),
        environment=EnvironmentFacts(name=None, prefix="<prefix>"),
        interpreter=Interpreter(python=version, modules=modules),
        variables={},
        cells=cells,
        deaths=(),
    )


_KEPT = ("git_version", "mkl", "threads", "cpu_capability", "kernels", "jpg", "libjpeg_turbo")


def environment(folder: Path, name: str) -> Path | None:
    """The interpreter of a virtual environment with one release; made once."""
    minor, wheels = RELEASES[name]
    python = folder / "bin" / "python"
    if (folder / "made").exists():
        return python
    base = interpreters.find(minor)
    if base is None:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([base, "-m", "venv", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *wheels], check=True)
    torch = next(folder.glob("lib/python3*/site-packages/torch"))
    stub(torch / "lib")
    (folder / "made").touch()
    return python


def stub(libraries: Path) -> list[str]:
    """Put a stub beside torch's libraries for each CUDA library that they name and that is not there."""
    present = sorted(libraries.glob("*.so*"))
    needed = {name for path in present for name in _needed(path)}
    missing = sorted(name for name in needed - {path.name for path in present} if _is_cuda(name))
    symbols = {symbol for path in present for symbol in _undefined(path)} if missing else set()
    wanted = sorted(symbol for symbol in symbols if _CUDA.match(symbol))
    versions = [version for path in present for version in _versions(path)] if missing else []
    source, script = libraries / "stub.c", libraries / "stub.map"
    source.write_text("".join(f"int {symbol}(void) {{ return 3; }}\n" for symbol in wanted))
    for name in missing:
        # The loader insists on the versions that torch asks of a library, where it asks for any.
        own = list(dict.fromkeys(version for file, version in versions if file == name))
        nodes = [f"{version} {{ {'global: *;' if one == 0 else ''} }};" for one, version in enumerate(own)]
        script.write_text("\n".join(nodes) + "\n")
        options = [f"-Wl,-soname,{name}"] + ([f"-Wl,--version-script={script}"] if own else [])
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", *options, "-o", libraries / name, source]
        subprocess.run(command, check=True)
    source.unlink(missing_ok=True)
    script.unlink(missing_ok=True)
    return missing


def _versions(path: Path) -> list[tuple[str, str]]:
    """Pairs of a library and a version that is needed of it."""
    told = subprocess.run(["readelf", "-V", "-W", path], capture_output=True, text=True, check=True).stdout
    found, file = [], ""
    for line in told.splitlines():
        if named := re.search(r"File: (\S+)", line):
            file = named[1]
        elif (version := re.search(r"Name: (\S+)\s+Flags", line)) and file:
            found.append((file, version[1]))
        elif "Version" in line and "section" in line:
            file = ""
    return found


def _needed(path: Path) -> list[str]:
    told = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", told)


def _undefined(path: Path) -> list[str]:
    told = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1].partition("@")[0] for line in told.splitlines() if line.strip()]


def _is_cuda(name: str) -> bool:
    return name.startswith(("libcu", "libnv", "libnccl", "libcupti"))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
