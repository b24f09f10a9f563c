"""The user's own Dataset or DataLoader, looked at step by step in child processes: findings, and cells to compare."""

import supervisor
from checks import STEPS
from recorder import brief
from subject import Subject

MOST_DEATHS = 4
"""A dataset that hangs everywhere is told in so many time limits."""


def run(question, limits, say):
    """Do all steps; one that hangs or dies is a finding, and the others are still done."""
    unit = supervisor.Unit(
        "data", None, {"tasks": ["data-step"], "data": question}, question["timeout_s"], most_deaths=MOST_DEATHS
    )
    unit.done = list(question.get("skip", ()))
    unit.work = lambda tell, done: serve(question, done, frozenset(unit.died), tell)

    def on_event(unit, event):
        say(**event)

    def on_death(unit, step, kind, detail):
        if step is not None:
            say(event="finding", finding=_death(step, kind, detail))

    # Steps are done one after the other: they share what the dataset keeps.
    supervisor.run([unit], limits, on_event, on_death)
    if len(unit.died) >= MOST_DEATHS:
        message = "the checks were given up after %d steps that hung or died" % MOST_DEATHS
        say(event="finding", finding={"code": "given-up", "severity": "error", "message": message})


def serve(question, done, died, say):
    """In the child: make the dataset, and do each step that is not done yet."""
    tell = _Tell(say)
    subject = Subject(question, died)
    if "data/make" in died:
        return
    if not tell.step("data/make", lambda: subject.make(tell), quiet="data/make" in done):
        return
    for name, work in STEPS(subject):
        if name not in done:
            tell.step(name, lambda work=work: work(subject, tell))


_KINDS = {
    "timeout": ("hangs", "hangs: %s", "see what it waits for: a lock, a queue, a download, input()"),
    "out-of-memory": ("eats-memory", "needs too much memory: %s", "read less at once, or free it"),
    "exit": ("exits", "ends the process: %s", "raise an exception instead of sys.exit or os._exit"),
    "signal": ("dies", "kills the process: %s", "a compiled library crashed: see the last words above"),
}


_STEPS = {
    "make": "the factory",
    "length": "len(dataset)",
    "batches.w0": "loading without workers",
    "batches.w2": "loading with 2 workers",
    "spawn": "a worker started by spawn",
    "forkserver": "a worker started by forkserver",
    "augmentation": "reading one sample in 2 workers",
    "shards": "reading the stream in 2 workers",
    "descriptors": "loading with 2 workers",
}


def _death(step, kind, detail):
    code, sentence, following = _KINDS[kind]
    name = step.split("/", 1)[1]
    what = name.replace("sample.", "sample ") if name.startswith("sample.") else _STEPS.get(name, "the step " + name)
    message = "%s %s" % (what, sentence % detail)
    return {"code": "data-" + code, "severity": "error", "message": message, "item": step, "next": following}


class _Tell:
    """How a step says what it found."""

    def __init__(self, say):
        self.say = say

    def step(self, name, work, quiet=False):
        """Do one step; whatever it raises is a finding. Whether it went through."""
        if not quiet:
            self.say(event="start", id=name)
        try:
            went = work() is not False
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.find("data-error", "error", "%s: %s" % (name, brief(error)))
            went = False
        if not quiet:
            self.say(event="done", id=name)
        return went

    def find(self, code, severity, message, following="", index=None):
        """One finding in one sentence, with what to do.

        `{is}` or `{has}` in the message stands for the sample of this `index`: findings that say the same become one.
        """
        finding = {"code": code, "severity": severity, "message": message, "next": following}
        self.say(event="finding", finding=finding, index=index)

    def cell(self, name, cell):
        """One outcome to compare with another machine's."""
        self.say(event="cell", id=name, cell=cell)
