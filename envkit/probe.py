"""Interpreter in, report out: facts, behaviour and speed of the environment that it belongs to."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

import envkit
from envkit import codec, driver, host, inside, owndata, places, redact, report
from envkit import prefix as prefixes
from envkit.bench import Plan as Measurement
from envkit.bench import bench as measure
from envkit.cells import Cell
from envkit.errors import BrokenEnvironmentError, InputError
from envkit.inside import Event, Limits, Target
from envkit.progress import Step, Tell, silent
from envkit.report import EnvironmentFacts, Interpreter, Module, Problem, Report

_MOST_DEATHS = 30


TIERS = ("fast", "workers", "destructive")
_WITHOUT_TORCH = ("rng.numpy", "rng.python", "numpy", "num.numpy", "pil")
"""What can be probed where importing torch takes the interpreter with it."""
_MOST_PATIENCE = 5
"""So many times the limit of a cell may the payload be silent: some probes have more patience than others."""
_MEMORY_SHARE = 2
"""A child may take one part in so many of the memory that is free."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which probes: those named by id or family, or all of the tiers; seconds for one cell; how many at once.

    As many as there are usable cores, up to four, where `parallel` is None.
    """

    only: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ("fast", "workers")
    timeout_s: float = 30.0
    parallel: int | None = None


EVERYDAY = Plan()
"""What reports hold unless something else is asked for."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A probe, as `envkit probe --list` tells it."""

    id: str
    tier: str
    title: str
    compared: bool


class _Collected:
    """What the payload has said so far."""

    def __init__(self) -> None:
        self.findings: list[Event] = []
        self.facts: dict[str, Any] = {}
        self.cells: dict[str, Any] = {}
        self.measured = report.Measured()
        self.deaths: list[report.Death] = []
        self.done: list[str] = []


def known(python: Path, environ: Mapping[str, str]) -> tuple[Known, ...]:
    """All probes that there are; any interpreter can list them."""
    found: list[Known] = []

    def take(event: Event) -> None:
        if event["event"] == "probes":
            found.extend(codec.convert(event["probes"], list[Known], "the payload"))

    inside.ask(python, {"tasks": ["list"]}, environ=environ, on_event=take, limits=Limits())
    return tuple(found)


def check_names(only: Sequence[str], there: Sequence[Known]) -> None:
    """Refuse, all at once, what is neither a probe nor a family of probes."""
    families = {one.id.partition(".")[0] for one in there}
    unknown = [name for name in only if name not in families and name not in {one.id for one in there}]
    if unknown:
        near = [match for name in unknown for match in get_close_matches(name, [*families, *(k.id for k in there)], 2)]
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise InputError(f"no such probe: {', '.join(unknown)}", hint=f"{hint}`envkit probe --list` shows them all")


def probe(
    target: Target,
    *,
    probes: Plan | None = EVERYDAY,
    bench: Measurement | None = None,
    data: owndata.Source | None = None,
    limits: Limits | None = None,
    tell: Tell = silent,
) -> Report:
    """Ask an interpreter for its facts, its probes, its benchmark, and what is wrong with the user's own data.

    A missing or broken torch, a probe that crashes or hangs are outcomes in the report. Raises
    BrokenEnvironmentError when the interpreter cannot start or is too old.
    """
    collected = _Collected()
    _ask(target, {"tasks": ["facts"]}, collected, limits, tell)
    killed = _killed(collected)
    if probes is not None:
        _ask(target, _probe_question(probes, collected, killed), collected, limits or _patient(probes), tell)
    if data is not None:
        _ask(target, _data_question(data, probes or EVERYDAY, collected), collected, limits, tell)
    if bench is not None and not killed:
        collected.measured = measure(target, bench, host.memory_available() // _MEMORY_SHARE, tell)
    described = host.describe(_data_folder(bench))
    told = _report(target, collected, described)
    if data is None:
        return told
    found = owndata.findings(_redacted(collected.findings, _replacements(target)))
    return msgspec.structs.replace(told, data=report.OwnData(factory=data.text, findings=found))


def _data_folder(bench: Measurement | None) -> Path:
    """Where what is measured lies: the user's images, else temporary files."""
    return Path(bench.images if bench is not None and bench.images else tempfile.gettempdir())


def _probe_question(plan: Plan, collected: _Collected, killed: bool) -> dict[str, Any]:
    return _children(collected) | {
        "tasks": ["probes"],
        "only": list(plan.only or (_WITHOUT_TORCH if killed else ())),
        "tiers": list(plan.tiers),
        "timeout_s": plan.timeout_s,
        "parallel": plan.parallel or min(host.usable_cores(), 4),
    }


def _data_question(data: owndata.Source, plan: Plan, collected: _Collected) -> dict[str, Any]:
    return _children(collected) | {"tasks": ["data"], "data": owndata.question(data, plan.timeout_s)}


def _children(collected: _Collected) -> dict[str, Any]:
    """What the payload's own children may take, and the modules that they need and that import cleanly."""
    names = ("numpy", "PIL", "torch", "torchvision")
    clean = [name for name in names if collected.facts.get(f"module.{name}", {}).get("state") == "ok"]
    return {"preload": clean, "memory_bytes": host.memory_available() // _MEMORY_SHARE}


def _patient(plan: Plan) -> Limits:
    """The payload ends a cell in time; only where it cannot, the payload itself is ended."""
    return Limits(step_s=max(Limits().step_s, _MOST_PATIENCE * plan.timeout_s))


def _ask(target: Target, question: dict[str, Any], collected: _Collected, limits: Limits | None, tell: Tell) -> None:
    """Ask until all is told: a step that kills its process is noted and left out of the next try."""

    def take(event: Event) -> None:
        _take(event, collected, tell)

    for _ in range(_MOST_DEATHS):
        asked = question | {"skip": [*collected.done, *(death.at for death in collected.deaths)]}
        death = inside.ask(target.python, asked, environ=target.environ, on_event=take, limits=limits or Limits())
        if death is None:
            return
        if death.kind == "unsupported-python":
            raise BrokenEnvironmentError(f"{target.python}: {death.detail}")
        tell(Step(stage="died", item=f"{death.at}: {death.detail}"))
        collected.deaths.append(death)
        if death.at == "start":
            return


def _take(event: Event, collected: _Collected, tell: Tell) -> None:
    match event["event"]:
        case "start":
            tell(Step(stage="probe", item=event["id"]))
        case "fact":
            collected.facts[event["id"]] = event["fact"]
        case "cell":
            collected.cells[event["id"]] = event["cell"]
        case "finding":
            collected.findings.append(event)
        case "death":
            kind = msgspec.convert(event["kind"], report.DeathKind)
            tell(Step(stage="died", item=f"{event['at']}: {event['detail']}"))
            collected.deaths.append(report.Death(at=event["at"], kind=kind, detail=event["detail"]))
        case "done":
            collected.done.append(event["id"])


def _killed(collected: _Collected) -> bool:
    """Whether importing torch took the interpreter with it."""
    return any(death.at == "module.torch" for death in collected.deaths)


def _report(target: Target, collected: _Collected, described: host.Host) -> Report:
    replacements = _replacements(target)
    facts = _redacted(collected.facts, replacements)
    cells = {id: codec.convert(cell, Cell, id) for id, cell in _redacted(collected.cells, replacements).items()}
    return Report(
        envkit=envkit.__version__,
        host=described,
        driver=driver.public(driver.describe()),
        environment=_environment(target, facts, replacements),
        interpreter=_interpreter(facts, collected),
        variables=_variables(target.environ, replacements),
        cells=dict(sorted((cells | _dead_cells(collected)).items())),
        points=collected.measured.points,
        profiles=collected.measured.profiles,
        reference=collected.measured.reference,
        unmeasured=_redacted(dict(collected.measured.unmeasured), replacements),
        consumer=collected.measured.consumer,
        interrupted=collected.measured.interrupted,
        deaths=tuple(
            msgspec.structs.replace(one, said=tuple(_redacted(list(one.said), replacements)))
            for one in collected.deaths
        ),
    )


def _replacements(target: Target) -> tuple[tuple[str, str], ...]:
    """Paths that say something of the person or the machine, and what stands for them; the longest first."""
    homes = {str(Path.home()), os.path.realpath(Path.home())}
    pairs = {home: "~" for home in homes if len(home) > 1} | {str(places.payload()): "<payload>"}
    if target.prefix is not None:
        pairs |= {str(target.prefix): "<prefix>", os.path.realpath(target.prefix): "<prefix>"}
    return tuple(sorted(pairs.items(), key=lambda pair: -len(pair[0])))


def _redacted(value: Any, replacements: Sequence[tuple[str, str]]) -> Any:
    """`value` with the paths and credentials taken out of every text in it."""
    if isinstance(value, str):
        for path, sign in replacements:
            value = redact.folder(value, path, sign)
        return redact.url(value)
    if isinstance(value, dict):
        return {key: _redacted(part, replacements) for key, part in value.items()}
    if isinstance(value, list):
        return [_redacted(part, replacements) for part in value]
    return value


def _dead_cells(collected: _Collected) -> dict[str, Cell]:
    """One cell for each probe that took the whole payload with it; those that took a child only have their own."""
    ended = [one for one in collected.deaths if not one.at.startswith(("module.", "start", "data/"))]
    return {
        f"{death.at}/process": Cell(kind="hang" if death.kind == "timeout" else "crash", detail=death.detail)
        for death in ended
        if death.at not in collected.cells and f"{death.at}/setup" not in collected.cells
    }


def _interpreter(facts: dict[str, Any], collected: _Collected) -> Interpreter:
    modules = {
        name.removeprefix("module."): codec.convert(fact, Module, name)
        for name, fact in facts.items()
        if name.startswith("module.")
    }
    for death in collected.deaths:
        if death.at.startswith("module."):
            told = Problem(type=death.kind, message=death.detail)
            modules[death.at.removeprefix("module.")] = Module(state="killed", error=told)
    libraries = facts.get("libraries")
    return Interpreter(
        python=facts.get("python", {}),
        modules=modules,
        processes=facts.get("processes", {}),
        libraries=tuple(libraries) if libraries is not None else None,
    )


def _environment(target: Target, facts: dict[str, Any], replacements: Sequence[tuple[str, str]]) -> EnvironmentFacts:
    if target.prefix is None:
        seen = facts.get("distributions")
        pip = (
            tuple(prefixes.PipRecord(name=n, version=v, installer=i, source="unknown") for n, v, i in seen)
            if seen is not None
            else None
        )
        return EnvironmentFacts(name=None, prefix=_redacted(str(target.python), replacements), pip=pip)
    found = prefixes.records(target.prefix)
    owned = prefixes.owned_files(target.prefix, found)
    done = prefixes.completion(target.prefix)
    return EnvironmentFacts(
        name=target.name or target.prefix.name,
        prefix="<prefix>",
        conda=tuple(_package(one, replacements) for one in found),
        pip=prefixes.pip_records(target.prefix, owned, [path for path, sign in replacements if sign == "~"]),
        lock_digest=done.lock_digest if done else None,
    )


def _package(record: prefixes.PrefixRecord, replacements: Sequence[tuple[str, str]]) -> report.CondaPackage:
    channel = record.url.rpartition("/")[0].rpartition("/")[0] or record.channel
    return report.CondaPackage(
        name=record.name,
        version=record.version,
        build=record.build,
        channel=_redacted(channel, replacements),
        sha256=record.sha256,
        md5=record.md5,
    )


def _variables(environ: Mapping[str, str], replacements: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The variables that change behaviour; the value of one whose name sounds like a secret is hidden."""
    chosen = {name: value for name, value in environ.items() if report.BEHAVIOUR.fullmatch(name)}
    return {
        name: redact.HIDDEN if redact.secret_name(name) else _redacted(value, replacements)
        for name, value in sorted(chosen.items())
    }
