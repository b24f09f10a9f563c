"""Interpreter in, report out: facts, behaviour and speed of the environment that it belongs to."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import envkit
from envkit import codec, driver, host, inside, places, redact, report
from envkit import prefix as prefixes
from envkit.bench import Plan
from envkit.cells import Cell
from envkit.errors import BrokenEnvironmentError
from envkit.inside import Event, Limits
from envkit.progress import Step, Tell, silent
from envkit.report import EnvironmentFacts, Interpreter, Module, Point, Problem, Report

_MOST_DEATHS = 30


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter to ask, the activated variables to ask it in, and its prefix if it is a conda environment's."""

    python: Path
    environ: Mapping[str, str]
    prefix: Path | None = None
    name: str | None = None


class _Collected:
    """What the payload has said so far."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.cells: dict[str, Any] = {}
        self.points: list[Any] = []
        self.unmeasured: dict[str, str] = {}
        self.deaths: list[report.Death] = []
        self.done: list[str] = []


def probe(
    target: Target,
    *,
    probes: bool = True,
    bench: Plan | None = None,
    only: Sequence[str] = (),
    limits: Limits | None = None,
    tell: Tell = silent,
) -> Report:
    """Ask an interpreter for its facts, its probes and its benchmark.

    A missing or broken torch, a probe that crashes or hangs are outcomes in the report. Raises
    BrokenEnvironmentError when the interpreter cannot start or is too old.
    """
    collected = _Collected()
    with tempfile.TemporaryDirectory(prefix="envkit-bench-") as folder:
        data_folder = Path(folder)
        _ask(target, {"tasks": ["facts"]}, collected, limits, tell)
        killed = _killed(collected)
        if probes:
            kept = ("rng.numpy", "rng.python") if killed else ()
            _ask(target, {"tasks": ["probes"], "only": list(only) or list(kept)}, collected, limits, tell)
        if bench is not None and not killed:
            asked = {"folder": folder, "workers": dict(bench.workers), "repeats": bench.repeats}
            _ask(target, {"tasks": ["bench"], "bench": asked}, collected, limits, tell)
        described = host.describe(data_folder)
    return _report(target, collected, described)


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
        if question["tasks"] == ["bench"] or death.at == "start":
            return


def _take(event: Event, collected: _Collected, tell: Tell) -> None:
    match event["event"]:
        case "start":
            tell(Step(stage="probe" if "bench." not in event["id"] else "benchmark", item=event["id"]))
        case "fact":
            collected.facts[event["id"]] = event["fact"]
        case "cell":
            collected.cells[event["id"]] = event["cell"]
        case "point":
            collected.points.append(event["point"])
        case "unmeasured":
            collected.unmeasured[event["workload"]] = event["reason"]
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
        points=tuple(codec.convert(point, Point, "benchmark") for point in collected.points),
        unmeasured=_redacted(collected.unmeasured, replacements),
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
    """One cell for each probe that took its process with it."""
    kinds = {"timeout": "hang"}
    return {
        f"{death.at}/process": Cell(kind="hang" if kinds.get(death.kind) else "crash", detail=death.detail)
        for death in collected.deaths
        if not death.at.startswith(("module.", "bench.", "start"))
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
