"""The tasks that a question may name: facts, probes, bench."""

import bench
import facts
import probes


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
    chosen = [probe for probe in probes.all_probes() if _wanted(probe.id, question)]
    for probe in chosen:
        say(event="start", id=probe.id)
        for name, cell in probe.run():
            say(event="cell", id=probe.id + "/" + name, cell=cell)
        say(event="done", id=probe.id)


def _wanted(name, question):
    if name in question.get("skip", ()):
        return False
    only = question.get("only") or ()
    return not only or any(name == part or name.startswith(part + ".") for part in only)


def _bench(question, say):
    bench.run(question.get("bench", {}), say)


def _list(question, say):
    say(event="probes", ids=[probe.id for probe in probes.all_probes()])


_TASKS = {"facts": _facts, "probes": _probes, "bench": _bench, "list": _list}
