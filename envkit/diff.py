"""Two reports in, their differences out: by consequence, each with what most likely caused it."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

import msgspec

from envkit import behaviour, names, pace
from envkit.cells import Difference
from envkit.pace import Pace
from envkit.report import Module, Report

FailOn = Literal["any", "speed", "results", "breaks"]
"""What a comparison fails on: the group, or a graver one."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that differs. None is unknown, which is not absent."""

    name: str
    before: str | None
    after: str | None
    what: str


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """A known change that the versions predict and the reports do not show."""

    id: str
    sentence: str
    source: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All differences of two reports, grouped by consequence."""

    breaks: tuple[Difference, ...]
    results: tuple[Difference, ...]
    messages: tuple[Difference, ...]
    hardware: tuple[Difference, ...]
    pace: Pace
    packages: tuple[Fact, ...]
    host: tuple[Fact, ...]
    unseen: tuple[Unseen, ...]
    equal_cells: int
    only_before: int
    only_after: int
    unknown: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing but the hosts differs; between unlike ones, speed is the hosts' too."""
        moved = not self.pace.unlike and self.pace.has("better", "worse")
        return not (self.breaks or self.results or self.messages or self.packages or moved)

    def fails(self, on: FailOn) -> bool:
        """Whether the group that was named, or a graver one, has a difference."""
        match on:
            case "any":
                return not self.empty
            case "speed":
                return self.pace.has("worse")
            case "results":
                return bool(self.breaks or self.results)
            case "breaks":
                return bool(self.breaks)


def diff(before: Report, after: Report, *, margin: float = pace.MARGIN) -> Comparison:
    """Compare two reports; speeds within `margin` are the same."""
    behaves = behaviour.compare(before, after)
    groups: dict[str, list[Difference]] = defaultdict(list)
    for one in behaves.differences:
        groups[_GROUPS[one.kind] if one.kind != "unexplained" else "results"].append(one)
    common = before.cells.keys() & after.cells.keys()
    return Comparison(
        breaks=tuple(groups["breaks"]),
        results=tuple(groups["results"]),
        messages=tuple(groups["messages"]),
        hardware=tuple(groups["hardware"]),
        pace=pace.compare(before, after, margin=margin),
        packages=tuple(_all_packages(before, after)),
        host=_host(before, after),
        unseen=tuple(Unseen(id=one.id, sentence=one.sentence, source=one.source) for one in behaves.unseen),
        equal_cells=behaves.compared - len(behaves.differences),
        only_before=len(before.cells.keys() - common),
        only_after=len(after.cells.keys() - common),
        unknown=_unknown(before, after),
    )


_GROUPS = {
    "breaks": "breaks",
    "results": "results",
    "types": "results",
    "message": "messages",
    "warning": "messages",
    "hardware": "hardware",
}


def _all_packages(before: Report, after: Report) -> list[Fact]:
    """Records and distributions, and the imported versions that these do not already tell."""
    packages = _packages(before, after)
    told = {(one.name, _version(one.before), _version(one.after)) for one in packages if one.what == "conda record"}
    modules = [
        one for one in _modules(before, after) if (names.conda_name(one.name), one.before, one.after) not in told
    ]
    return [*modules, *packages]


def _version(text: str | None) -> str | None:
    return text.partition(" ")[0] if text else None


def _modules(before: Report, after: Report) -> list[Fact]:
    """Python and the modules of the data path, by the version that was really imported."""
    old, new = before.versions, after.versions
    return [
        Fact(name=name, before=old.get(name), after=new.get(name), what="imported version")
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _packages(before: Report, after: Report) -> list[Fact]:
    """conda records and pip distributions, where both reports know them."""
    found = []
    if before.environment.conda is not None and after.environment.conda is not None:
        old = {one.name: f"{one.version} {one.build}" for one in before.environment.conda}
        new = {one.name: f"{one.version} {one.build}" for one in after.environment.conda}
        found += _facts(old, new, "conda record")
        channels = {one.name: one.channel for one in before.environment.conda}
        moved = {one.name: one.channel for one in after.environment.conda}
        same = [name for name in old.keys() & new.keys() if old[name] == new[name]]
        found += _facts({n: channels[n] for n in same}, {n: moved[n] for n in same}, "channel")
    if before.environment.pip is not None and after.environment.pip is not None and _comparable(before, after):
        old = {one.name: one.version for one in before.environment.pip}
        new = {one.name: one.version for one in after.environment.pip}
        found += _facts(old, new, "pip distribution")
    return found


def _comparable(before: Report, after: Report) -> bool:
    """Beside conda records, `pip` holds only what conda does not own; without them, everything."""
    return (before.environment.conda is None) == (after.environment.conda is None)


def _facts(old: Mapping[str, str], new: Mapping[str, str], what: str) -> list[Fact]:
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [Fact(name=n, before=old.get(n, "absent"), after=new.get(n, "absent"), what=what) for n in names]


def _host(before: Report, after: Report) -> tuple[Fact, ...]:
    """What differs of the machines, their drivers, variables and torch's own settings."""
    old, new = _host_facts(before), _host_facts(after)
    return tuple(
        Fact(name=name, before=_or_unset(old, name), after=_or_unset(new, name), what=_EFFECTS.get(name, ""))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )


def _or_unset(facts: Mapping[str, str | None], name: str) -> str | None:
    """A variable that a report has not is not set; any other fact is not known."""
    return facts.get(name, "unset" if name.startswith("variable ") else None)


_TF32 = "TF32 rounds products to 10 bits of mantissa on GPUs of capability 8.0 and newer; switch it off to compare"
_EFFECTS = {
    "torch.matmul_tf32": _TF32,
    "torch.cudnn_tf32": _TF32,
    "torch.cudnn_benchmark": "kernels are chosen by speed at run time, so last digits differ from run to run",
    "gpu capabilities": "bit equality is not expected across GPU architectures",
    "torch.threads": "sums are split over threads, so their last digits differ",
    "torch.cpu_capability": "other vector kernels: last digits differ",
    "start method": "what a dataset holds must be picklable, except under fork",
}
"""What a difference of the host does to results, for those that are not plain from the name."""


_VOLATILE = ("shm_free_bytes", "cpu_flags")
_SETTINGS = (
    "threads",
    "cpu_capability",
    "mkl",
    "mkldnn",
    "cuda",
    "cudnn",
    "matmul_tf32",
    "cudnn_tf32",
    "cudnn_benchmark",
    "deterministic_algorithms",
    "sharing_strategy",
)


def _host_facts(report: Report) -> dict[str, str | None]:
    facts: dict[str, str | None] = {
        name: _text(getattr(report.host, name)) for name in report.host.__struct_fields__ if name not in _VOLATILE
    }
    facts["driver"] = f"{report.driver.state} {report.driver.version or ''} CUDA {report.driver.cuda or '-'}"
    facts["gpus"] = ", ".join(gpu.name for gpu in report.driver.gpus) or (
        "none" if report.driver.state in ("ok", "absent", "no-devices") else None
    )
    torch = report.interpreter.modules.get("torch", Module(state="absent"))
    facts["gpu capabilities"] = _capabilities(torch)
    facts |= {f"torch.{name}": _text(torch.details.get(name)) for name in _SETTINGS}
    facts |= {f"variable {name}": value for name, value in report.variables.items() if name not in _OWN}
    facts["start method"] = _text(report.interpreter.processes.get("default_start_method"))
    return facts


def _capabilities(torch: Module) -> str | None:
    seen = [".".join(map(str, gpu["capability"])) for gpu in torch.details.get("gpus") or () if "capability" in gpu]
    return ", ".join(seen) or None


_OWN = ("CONDA_PREFIX",)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _unknown(before: Report, after: Report) -> tuple[str, ...]:
    """What one side could not tell, so that nothing is said about it."""
    told = []
    for side, report in (("first", before), ("second", after)):
        if report.environment.conda is None:
            told.append(f"conda records of the {side} report (not a conda environment)")
        if report.driver.state in ("unreadable", "hangs", "mismatch"):
            told.append(f"the driver of the {side} report ({report.driver.reason})")
        if not report.points:
            told.append(f"speed of the {side} report (no benchmark)")
    return tuple(told)
