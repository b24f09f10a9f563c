"""The only module that imports conda_lock: environment.yml in, conda-lock.yml out, and is it still fresh?"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from envkit import codec, compatibility, environment, lock, lockable, places, redact
from envkit.conda_front import ERROR_FILE
from envkit.environment import Environment
from envkit.errors import KINDS, EnvkitError, ToolError, UnsolvableError, WrongBuildError
from envkit.lock import CUSTOM_KEY, Lock
from envkit.progress import Step, Tell, silent
from envkit.record import VirtualPackage
from envkit.rules import cpu_build

_MAPPING_TIMEOUT_S = 3.0
_NOT_FOUND = ("PackageNotFound", "PackageNotFoundError", "RepositoryError")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a lock is for: the platforms, and for each the virtual packages to solve with."""

    cuda: str
    packages: Mapping[str, tuple[VirtualPackage, ...]]

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms in order."""
        return tuple(sorted(self.packages))


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a lock is still the answer to its file; `stale` names the platforms where it is not."""

    stale: tuple[str, ...]
    missing: tuple[str, ...] = ()

    @property
    def fresh(self) -> bool:
        """Nothing stale, nothing missing."""
        return not self.stale and not self.missing


def target(wanted: Environment, *, cuda: str | None, platforms: Sequence[str], present: Lock | None = None) -> Target:
    """The target of a lock: `cuda` if given, else what the lock at hand was made for, else what the specs say."""
    recorded = _recorded(present)
    packages = {}
    asked = cuda or compatibility.cuda_of(wanted.spec_texts)
    for platform in platforms:
        if cuda is None and platform in recorded and _cuda(recorded[platform]) == asked:
            packages[platform] = recorded[platform]
        else:
            packages[platform] = compatibility.target_packages(platform, asked)
    return Target(cuda=asked, packages=packages)


def _recorded(present: Lock | None) -> dict[str, tuple[VirtualPackage, ...]]:
    if present is None:
        return {}
    found = {platform: present.virtual_packages(platform) for platform in present.metadata.platforms}
    return {platform: packages for platform, packages in found.items() if packages}


def _cuda(packages: Sequence[VirtualPackage]) -> str:
    return next((package.version for package in packages if package.name == "__cuda"), compatibility.CPU)


def write(
    source: Path,
    destination: Path,
    wanted: Target,
    *,
    update: Sequence[str] = (),
    conda: Path | None = None,
    tell: Tell = silent,
) -> Lock:
    """Lock `source` (an environment.yml) into `destination` for each platform of the target; written whole or not.

    With `update` only those packages move, as far as that can be. Raises UnsolvableError, WrongBuildError,
    NetworkError, InputError with the line of a spec or pip line that cannot be read.
    """
    asked = environment.read(source)
    lockable.check_readable(asked, source)
    tell(Step(stage="solve", item=", ".join(wanted.platforms)))
    with tempfile.TemporaryDirectory(prefix="envkit-lock-") as scratch:
        text = _lock_text(Path(scratch), asked, source, destination, wanted, update=update, conda=conda)
        made = Path(scratch) / "checked.yml"
        made.write_text(text, encoding="utf-8")
        locked = lock.read(made)
        _check_builds(locked, wanted)
        codec.write(destination, text.encode())
    return locked


def _lock_text(
    scratch: Path,
    asked: Environment,
    source: Path,
    destination: Path,
    wanted: Target,
    *,
    update: Sequence[str],
    conda: Path | None,
) -> str:
    """The text of the lock, made in a scratch folder."""
    copy = _canonical_copy(scratch, asked, source)
    half = scratch / "conda-lock.yml"
    if update:
        half.write_text(_with_logins(codec.read_text(destination), asked), encoding="utf-8")
    _run(
        environment_files=[copy],
        conda_exe=str(conda or front()),
        platforms=list(wanted.platforms),
        kinds=["lock"],
        lockfile_path=half,
        virtual_package_spec=_virtual_spec(scratch, wanted),
        update=list(update) or None,
        metadata_yamls=[_custom_metadata(scratch, wanted)],
        strip_auth=True,
        mapping_url=_mapping_url(asked),
    )
    return _shareable(half.read_text(encoding="utf-8"), copy, source, destination)


def _canonical_copy(scratch: Path, asked: Environment, source: Path) -> Path:
    """The file as conda-lock can read it: UTF-8 without a byte order mark, folders of channels absolute."""
    copy = scratch / "environment.yml"
    text = _cleaned(codec.read_text(source), asked)
    folders = {one: _absolute(one, source.parent) for one in asked.channels}
    changed = {one: url for one, url in folders.items() if url != one}
    if changed:
        text = environment.with_channels(text, [folders[one] for one in asked.channels])
    copy.write_text(text, encoding="utf-8")
    return copy


def _cleaned(text: str, asked: Environment) -> str:
    """What envkit read in another way than conda-lock would: glued comments cut off, `sel(...)` as a comment."""
    lines = text.splitlines()
    for item in asked.specs:
        line = lines[item.line - 1]
        if item.raw:
            lines[item.line - 1] = line.partition("#")[0]
        elif item.selector is not None and item.selector.dialect == "sel":
            lines[item.line - 1] = f"{line.partition('-')[0]}- {json.dumps(item.text)}  # [{item.selector.condition}]"
    return "\n".join(lines) + "\n"


def _absolute(channel: str, folder: Path) -> str:
    if not channel.startswith((".", "/", "~")):
        return channel
    return (folder / Path(channel).expanduser()).resolve().as_uri()


def _with_logins(text: str, asked: Environment) -> str:
    """A stored lock as conda-lock wants it for an update: channels as the file names them, logins included."""
    for channel in asked.channels:
        text = text.replace(f"url: {redact.url(channel)}\n", f"url: {channel}\n")
    return text


def _virtual_spec(scratch: Path, wanted: Target) -> Path:
    """conda-lock's virtual-packages.yml."""
    subdirs = {
        platform: {
            "packages": {
                one.name: one.version if one.build in ("", "0") else f"{one.version} {one.build}" for one in packages
            }
        }
        for platform, packages in wanted.packages.items()
    }
    path = scratch / "virtual-packages.yml"
    path.write_text(json.dumps({"subdirs": subdirs}), encoding="utf-8")
    return path


def _custom_metadata(scratch: Path, wanted: Target) -> Path:
    path = scratch / "metadata.yml"
    fields = {f"{CUSTOM_KEY}-{name}": compatibility.show(packages) for name, packages in wanted.packages.items()}
    path.write_text(json.dumps(fields), encoding="utf-8")
    return path


def _mapping_url(asked: Environment) -> str:
    """conda-lock's name mapping: the online one where it answers and pip entries need it, else the bundled one."""
    from conda_lock.lookup import DEFAULT_MAPPING_URL

    bundled = str(places.data("pypi-names.json"))
    if not asked.pip:
        return bundled
    try:
        request = urllib.request.Request(DEFAULT_MAPPING_URL, method="HEAD")
        with urllib.request.urlopen(request, timeout=_MAPPING_TIMEOUT_S):
            return str(DEFAULT_MAPPING_URL)
    except (OSError, ValueError):
        return bundled


def front() -> Path:
    """envkit's conda-compatible executable, beside this interpreter."""
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        found = folder / ("envkit-conda.exe" if os.name == "nt" else "envkit-conda")
        if found.exists():
            return found
    raise ToolError("envkit-conda is not installed beside this interpreter", hint="install envkit with pip")


def _run(**options: Any) -> None:
    """Run conda-lock's `run_lock`, with its talk kept back and its failures translated."""
    from conda_lock.conda_lock import run_lock

    said = io.StringIO()
    error_file = Path(options["lockfile_path"]).parent / "error.json"
    try:
        with _environment_variable(ERROR_FILE, str(error_file)), _quiet(said):
            run_lock(**{name: value for name, value in options.items() if name != "simple_index"})
    except (KeyboardInterrupt, EnvkitError):
        raise
    except (Exception, SystemExit) as problem:
        if type(problem).__name__ in _NOT_FOUND and not options.get("simple_index"):
            return _run_with_simple_index(options)
        raise _translated(problem, error_file, said.getvalue()) from problem


def _run_with_simple_index(options: dict[str, Any]) -> None:
    """Again, with the index's PEP 503 pages: mirrors often lack the JSON interface that conda-lock asks first."""
    import conda_lock.pypi_solver as solver
    from conda_lock._vendor.poetry.repositories.legacy_repository import LegacyRepository

    original = solver.PyPiRepository
    address = os.environ.get("PIP_INDEX_URL") or original()._base_url.rstrip("/") + "/simple/"
    solver.PyPiRepository = lambda: LegacyRepository("simple-index", address)
    try:
        _run(**options, simple_index=True)
    finally:
        solver.PyPiRepository = original


@contextlib.contextmanager
def _quiet(said: io.StringIO) -> Iterator[None]:
    import logging

    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            yield
    finally:
        logging.disable(previous)


@contextlib.contextmanager
def _environment_variable(name: str, value: str) -> Iterator[None]:
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def _translated(problem: BaseException, error_file: Path, said: str) -> EnvkitError:
    if error_file.exists():
        kept = json.loads(error_file.read_text(encoding="utf-8"))
        return KINDS[kept["kind"]](kept["message"], hint=kept["hint"], details=tuple(kept["details"]))
    text = redact.url(f"{problem}".strip() or type(problem).__name__)
    talk = tuple(redact.url(line) for line in said.splitlines() if line.strip())[-6:]
    kind = type(problem).__name__
    if "SolverProblem" in kind or "SolveFail" in kind:
        return UnsolvableError("the pip section cannot be solved", details=tuple(text.splitlines()))
    if kind in _NOT_FOUND:
        return UnsolvableError(f"the pip section cannot be locked: {text}", hint="check the names and the index")
    if isinstance(problem, subprocess.CalledProcessError):
        return _conda_failed(problem, text)
    if isinstance(problem, OSError) and problem.errno is not None:
        return codec.unwritable(Path(problem.filename or tempfile.gettempdir()), problem)
    if isinstance(problem, OSError) or "Connection" in kind or "Retry" in kind:
        return KINDS["network"](f"conda-lock could not reach what it needs: {text}", details=talk)
    return ToolError(f"conda-lock failed: {kind}: {text}", details=talk)


def _conda_failed(problem: subprocess.CalledProcessError, text: str) -> EnvkitError:
    """What a real conda, mamba or micromamba said when it could not solve."""
    try:
        answer = json.loads(problem.stdout or "")
    except ValueError:
        answer = {}
    message = answer.get("message") or answer.get("solver_problems") or problem.stderr or problem.stdout or text
    lines = message if isinstance(message, list) else str(message).splitlines()
    return UnsolvableError(
        f"{Path(problem.cmd[0]).name} could not solve", details=tuple(redact.url(str(line)) for line in lines[-20:])
    )


def _shareable(text: str, copy: Path, source: Path, destination: Path) -> str:
    """The lock without credentials, home paths and traces of the scratch folder."""
    relative = os.path.relpath(source.resolve(), destination.resolve().parent)
    text = re.sub(r"(?m)^(  sources:\n  - ).*$", lambda match: match[1] + relative, text, count=1)
    text = text.replace(str(copy), relative)
    text = text.replace(f"file://{urllib.parse.quote(str(Path.home()))}/", "file://${HOME}/")
    text = text.replace("-f checked.yml", f"-f {destination.name}")
    return redact.url(text)


def _check_builds(locked: Lock, wanted: Target) -> None:
    """A CUDA target whose solution holds CPU builds is an error, never a lock."""
    if wanted.cuda == compatibility.CPU:
        return
    wrong = {
        platform: cpu_build.offenders(locked.conda(platform))
        for platform in wanted.platforms
        if not platform.startswith("osx")
    }
    found = tuple(f"{platform}: {one}" for platform, several in wrong.items() for one in several)
    if found:
        raise WrongBuildError(
            f"CUDA {wanted.cuda} was asked for, but the solution holds {len(found)} CPU build(s); no lock was written",
            details=found,
            hint="pin the build, as in pytorch=2.5.1=*cuda11.8*, torchvision=0.20.1=*cu118*; or ask for --cuda cpu",
        )


def check(source: Path, locked: Lock, *, platforms: Sequence[str] = ()) -> Freshness:
    """Whether `locked` is fresh for `source`, by conda-lock's content hash, without solving.

    The virtual packages are those that the lock says it was made with.
    """
    from conda_lock.content_hash import compute_content_hashes
    from conda_lock.src_parser import make_lock_spec
    from conda_lock.virtual_package import default_virtual_package_repodata, virtual_package_repo_from_specification

    asked = environment.read(source)
    held = {one.platform for one in locked.package}
    wanted = tuple(platforms or asked.platforms or locked.metadata.platforms)
    present = tuple(platform for platform in wanted if platform in held)
    recorded = _recorded(locked)
    with tempfile.TemporaryDirectory(prefix="envkit-check-") as scratch, _quiet(io.StringIO()):
        copy = _canonical_copy(Path(scratch), asked, source)
        spec = make_lock_spec(
            src_files=[copy], platform_overrides=list(present), mapping_url=str(places.data("pypi-names.json"))
        )
        if recorded:
            path = _virtual_spec(Path(scratch), Target(cuda="", packages=recorded))
            repository = virtual_package_repo_from_specification(path)
        else:
            repository = default_virtual_package_repodata()
        hashes = compute_content_hashes(spec, repository)
    stale = tuple(name for name in present if hashes[name] != locked.metadata.content_hash.get(name))
    return Freshness(stale=stale, missing=tuple(name for name in wanted if name not in held))
