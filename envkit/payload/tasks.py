"""The tasks that a question may name: facts, probes, trials, the user's own data, and the list of probes."""

import importlib

import facts
import owndata
import probes
import supervisor
import trials
from recorder import record


def run(question, say):
    """Run each task of the question in order."""
    for task in question["tasks"]:
        _TASKS[task](question, say)


def _facts(question, say):
    for name, collect in facts.parts():
        if name not in question.get("skip", ()):
            say(event="start", id=name)
            say(event="fact", id=name, fact=collect())
            say(event="done", id=name)


def _probes(question, say):
    """Each probe in a child of its own; a cell that hangs or dies is an outcome, the other cells are still told."""
    _preload(question)
    timeout = question.get("timeout_s", 30)
    chosen = [probe for probe in probes.all_probes() if _wanted(probe, question)]
    units = [_unit(probe, timeout) for probe in chosen]

    def on_event(unit, event):
        if event["event"] == "cell":
            cell = event["cell"] if _BY_ID[unit.id].compared else dict(event["cell"], compared=False)
            say(event="cell", id=event["id"], cell=cell)
        elif event["event"] == "over":
            say(event="done", id=unit.id)
        elif event["event"] == "begin":
            say(event="start", id=unit.id)

    def on_death(unit, step, kind, detail):
        cell = {"class": "hang" if kind == "timeout" else "crash", "detail": detail}
        if not _BY_ID[unit.id].compared:
            cell["compared"] = False
        say(event="cell", id=step or unit.id + "/setup", cell=cell)
        say(event="death", at=step or unit.id, kind=kind, detail=detail)

    supervisor.run(units, _limits(question), on_event, on_death)


_BY_ID = {probe.id: probe for probe in probes.all_probes()}


def _unit(probe, timeout):
    question = {"tasks": ["one"], "probe": probe.id}
    return supervisor.Unit(probe.id, lambda say, done: _cells(probe, say, done), question, timeout * probe.patience)


def _limits(question):
    return supervisor.Limits(
        parallel=question.get("parallel", 1), method=question.get("method"), memory_bytes=question.get("memory_bytes")
    )


def _preload(question):
    """Import what every child needs once; only what is known to import cleanly."""
    for name in question.get("preload", ()):
        importlib.import_module(name)


def _cells(probe, say, done):
    """Record each cell of a probe in turn; one that cannot even be set up is one cell."""
    say(event="begin")
    setup = record(lambda: _cells_of(probe, say, done))
    if setup["class"] != "ok" and probe.id + "/setup" not in done:
        say(event="cell", id=probe.id + "/setup", cell=setup)
    say(event="over")


def _cells_of(probe, say, done):
    for name, work in probe.cells():
        id = probe.id + "/" + name
        if id not in done:
            say(event="start", id=id)
            say(event="cell", id=id, cell=record(work))
            say(event="done", id=id)


def _one(question, say):
    """One probe, in this process: where children cannot be forked, each is an interpreter that gets this task."""
    _cells(_BY_ID[question["probe"]], say, frozenset(question.get("done", ())))


def _wanted(probe, question):
    if probe.id in question.get("skip", ()):
        return False
    only = question.get("only") or ()
    if only:
        return any(probe.id == part or probe.id.startswith(part + ".") for part in only)
    return probe.tier in question.get("tiers", ("fast", "workers"))


def _data(question, say):
    _preload(question)
    owndata.run(question["data"], _limits(question), say)


def _data_step(question, say):
    owndata.serve(question["data"], frozenset(question.get("done", ())), frozenset(question.get("died", ())), say)


def _trials(question, say):
    trials.run(question["trials"], _limits(question), say, question["more"])


def _trial_step(question, say):
    trials.serve(question["trials"], question["number"], say)


def _list(question, say):
    say(
        event="probes",
        probes=[
            {"id": probe.id, "tier": probe.tier, "title": probe.title, "compared": probe.compared}
            for probe in probes.all_probes()
        ],
    )


_TASKS = {
    "facts": _facts,
    "probes": _probes,
    "one": _one,
    "data": _data,
    "data-step": _data_step,
    "trials": _trials,
    "trial-step": _trial_step,
    "list": _list,
}
