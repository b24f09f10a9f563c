"""A report: what an environment on a machine is, how its data path behaves, and how fast it loads."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from envkit import codec, names
from envkit.cells import Cell
from envkit.driver import Driver
from envkit.errors import InputError
from envkit.finding import Finding
from envkit.host import Host
from envkit.loads import Usage
from envkit.prefix import PipRecord
from envkit.tuning import Machine, Profile

# History of the format. Minor versions add optional fields; a major one would mislead an older reader.
#   1.0  first version
#   1.1  cells: `compared`, notes of errors, samples of large tensors; findings about the user's own data
#   1.2  points: what the processes used, restarts without workers that stay; `waits_s` and `total_s` are of the steady
#        state only; profiles of the workloads, rates of the machine itself
FORMAT = "1.2"
KEY = "envkit-report"

BEHAVIOUR = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|VECLIB|NUMEXPR|NPY|NUMPY|ATEN|DNNL|ONEDNN|CUDA|CUDNN|CUBLAS|NCCL|NVIDIA|TORCH|PYTORCH"
    r"|PYTHON|LD|DYLD|MALLOC|TBB|JSIMD|HF|OPENCV|GLIBC)_\w+|PYTHON[A-Z]+|LC_ALL|LANG|TZ|CONDA_PREFIX|CONDA_OVERRIDE_\w+"
)
"""Names of variables that change how numerics, loaders or imports behave."""


NUMERIC_VARIABLES = (
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
)
"""Variables that choose kernels, and with them the last digits."""

_PROJECTS = {"PIL": "pillow"}


class CondaPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A conda record, by what tells it from others."""

    name: str
    version: str
    build: str
    channel: str
    sha256: str | None = None
    md5: str | None = None


class EnvironmentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed. `conda` is None where there is no conda environment to read: unknown, not empty."""

    name: str | None
    prefix: str
    conda: tuple[CondaPackage, ...] | None = None
    pip: tuple[PipRecord, ...] | None = None
    lock_digest: str | None = None


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error as type and text."""

    type: str
    message: str


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A module of the data path: whether it can be imported, which version, and from where."""

    state: Literal["ok", "absent", "broken", "killed"]
    version: str | None = None
    file: str | None = None
    details: Mapping[str, Any] = msgspec.field(default_factory=dict)
    error: Problem | None = None

    @property
    def title(self) -> str:
        """The version, or why there is none."""
        return self.version or self.state


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter, and the modules of the data path in it. An empty part could not be collected."""

    python: Mapping[str, Any] = msgspec.field(default_factory=dict)
    modules: Mapping[str, Module] = msgspec.field(default_factory=dict)
    processes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    libraries: tuple[str, ...] | None = None


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One repeat of one configuration of the benchmark, in seconds and bytes.

    `start_s` is what starting the workers takes, `first_batch_s` the time from there to the first batch; `waits_s`
    and `total_s` are of the steady state, after the first batches of all workers. `restart_s` is from the end of an
    epoch to the first batch of the next with persistent workers, `fresh_restart_s` without; None for a stream.
    """

    workload: str
    repeat: int
    workers: int
    batch_size: int
    batches: int
    persistent_workers: bool
    prefetch_factor: int | None
    pin_memory: bool
    start_method: str | None
    first_batch_s: float
    waits_s: tuple[float, ...]
    restart_s: float | None
    total_s: float
    samples_per_s: float | None
    start_s: float | None = None
    fresh_restart_s: float | None = None
    batch_bytes: int | None = None
    usage: Usage | None = None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a benchmark found. `reference` is the speed of the machine itself, in each repeat: fixed work per second."""

    points: tuple[Point, ...] = ()
    profiles: Mapping[str, Profile] = msgspec.field(default_factory=dict)
    reference: tuple[float, ...] = ()
    unmeasured: Mapping[str, str] = msgspec.field(default_factory=dict)
    consumer: str | None = None
    interrupted: bool = False


DeathKind = Literal["exit", "signal", "timeout", "out-of-memory", "unsupported-python"]


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A step that took its process with it: which one, how, and the last words."""

    at: str
    kind: DeathKind
    detail: str
    said: tuple[str, ...] = ()


class OwnData(msgspec.Struct, frozen=True, kw_only=True):
    """The user's own dataset: the factory that made it, and what was found."""

    factory: str
    findings: tuple[Finding, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether training with it would fail, or go wrong unseen."""
        return any(one.severity == "error" for one in self.findings)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report."""

    format: str = msgspec.field(name=KEY, default=FORMAT)
    envkit: str
    host: Host
    driver: Driver
    environment: EnvironmentFacts
    interpreter: Interpreter
    variables: Mapping[str, str]
    cells: Mapping[str, Cell] = msgspec.field(default_factory=dict)
    points: tuple[Point, ...] = ()
    profiles: Mapping[str, Profile] = msgspec.field(default_factory=dict)
    reference: tuple[float, ...] = ()
    unmeasured: Mapping[str, str] = msgspec.field(default_factory=dict)
    consumer: str | None = None
    interrupted: bool = False
    deaths: tuple[Death, ...] = ()
    data: OwnData | None = None

    @property
    def versions(self) -> dict[str, str]:
        """The version, or the state, of Python and of each module of the data path."""
        told = {_PROJECTS.get(name, name): module.title for name, module in self.interpreter.modules.items()}
        python = self.interpreter.python.get("version")
        return told | ({"python": str(python)} if python else {})

    @property
    def builds(self) -> dict[str, str]:
        """Which build of a version a module is: what torch says of itself, else the conda record's build string."""
        conda = {one.name: one.build for one in self.environment.conda or ()}
        told = {name: conda[names.conda_name(name)] for name in self.versions if names.conda_name(name) in conda}
        torch = self.interpreter.modules.get("torch")
        if torch is not None and torch.state == "ok":
            told["torch"] = " ".join(str(torch.details.get(name)) for name in ("git_version", "cuda", "mkl"))
        return told

    @property
    def machine(self) -> Machine:
        """What a loader could use there."""
        return Machine(
            cores=self.host.cores_usable or 1,
            memory_bytes=self.host.memory_bytes or 0,
            shm_bytes=self.host.shm_bytes,
            open_files=self.host.open_files_soft,
        )

    @property
    def keys(self) -> dict[str, str]:
        """What numerics depend on besides versions: threads, instruction sets, MKL, the JPEG library, variables."""
        details = {name: module.details for name, module in self.interpreter.modules.items()}
        torch, pillow, numpy = (details.get(name, {}) for name in ("torch", "PIL", "numpy"))
        told = {
            "mkl": torch.get("mkl"),
            "threads": torch.get("threads"),
            "cpu capability": torch.get("cpu_capability"),
            "numpy kernels": numpy.get("kernels"),
            "cpu vendor": (self.host.cpu_model or "").partition(" ")[0] or None,
            "machine": self.host.machine,
            "libjpeg": (pillow.get("libjpeg_turbo") and "turbo") or pillow.get("jpg"),
        }
        chosen = {name: self.variables.get(name, "unset") for name in NUMERIC_VARIABLES}
        return {name: str(value) for name, value in (told | chosen).items() if value is not None}


def changed_versions(before: Report, after: Report) -> dict[str, str]:
    """The modules whose version or build differs, each as `old -> new`."""
    old, new = before.versions, after.versions
    changed = {
        name: f"{old[name]} -> {new[name]}" for name in sorted(old.keys() & new.keys()) if old[name] != new[name]
    }
    one, other = before.builds, after.builds
    both = old.keys() & new.keys() & one.keys() & other.keys() - changed.keys()
    return changed | {
        name: f"{old[name]}, build {one[name]} -> {other[name]}" for name in sorted(both) if one[name] != other[name]
    }


def read(path: Path) -> Report:
    """Read a report; raises InputError for another file, for one that is newer, and for every field that is wrong."""
    document = codec.read_json(path)
    if not isinstance(document, dict) or KEY not in document:
        raise InputError(f"{path}: not an envkit report", hint="`envkit probe -o FILE` writes one")
    version = str(document[KEY])
    if not re.fullmatch(r"\d+\.\d+", version):
        raise InputError(f"{path}: {version!r} is no version of the report format")
    if int(version.partition(".")[0]) > int(FORMAT.partition(".")[0]):
        raise InputError(
            f"{path}: report format {version} is newer than this envkit, which reads up to {FORMAT}",
            hint="update envkit: pip install -U envkit",
        )
    return codec.convert(document, Report, str(path))


def schema() -> bytes:
    """The JSON Schema of the format, generated from the records."""
    return codec.encode(msgspec.json.schema(Report))


def write(path: Path, report: Report) -> None:
    """Write a report whole."""
    codec.write(path, codec.encode(report))
