"""Recording one cell: what a piece of code gave, in a form that compares across versions and machines.

class    ok | error | hang | absent        (crash, and hangs that only a kill ends, are seen from outside)
ok       structure with type, dtype, shape and layout; sha256 of the raw bytes; the values when they are few
error    type with two bases, the message with what varies taken out, its template, its cause
"""

import re
import warnings

from messages import normalise, template
from values import describe, type_name, type_name_of


def record(work):
    """Run `work` and describe its outcome; warnings are kept apart and sorted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            cell = {"class": "ok", "value": describe(work())}
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            cell = {"class": _class_of(error), "error": describe_error(error)}
    told = sorted({(w.category.__name__, normalise(str(w.message))[:400]) for w in caught if _kept(w)})
    if told:
        cell["warnings"] = [list(pair) for pair in told]
    return cell


def _class_of(error):
    """A module or a name that is not there is `absent`; one that cannot be loaded is an error."""
    if isinstance(error, ModuleNotFoundError):
        return "absent"
    if isinstance(error, ImportError) and "cannot import name" in str(error):
        return "absent"
    if isinstance(error, RuntimeError) and "DataLoader timed out after" in str(error):
        return "hang"
    return "error"


def _kept(warning):
    # The fork warning of Python 3.12 depends on timing; ResourceWarnings on the garbage collector.
    if issubclass(warning.category, ResourceWarning):
        return False
    return "multi-threaded, use of fork()" not in str(warning.message)


_CAUGHT = re.compile(r"Caught (?P<caught>[\w.]+) in (?:DataLoader worker|pin memory thread)")


def describe_error(error):
    """An exception: type, bases, normalised message and its template; a worker's error by what it caught."""
    message = str(error)
    if "exited unexpectedly" in message and error.__cause__ is not None:
        # Which of the two comes out is a race between a signal handler and a queue.
        return describe_error(error.__cause__)
    told = {
        "type": type_name(error),
        "bases": [type_name_of(base) for base in type(error).__mro__[1:3]],
        "message": normalise(message)[:1000],
        "raw": message[:4000],
    }
    worker = _CAUGHT.match(message)
    if worker:
        told["worker"] = {"caught": worker.group("caught"), "tail": normalise(_tail(message))[:1000]}
        told["message"] = "Caught %s in DataLoader worker process N." % worker.group("caught")
    told["template"], told["arguments"] = template(told["worker"]["tail"] if worker else told["message"])
    if error.__cause__ is not None:
        told["cause"] = {"type": type_name(error.__cause__), "message": normalise(str(error.__cause__))[:400]}
    if getattr(error, "__notes__", None):
        told["notes"] = [normalise(str(note))[:400] for note in error.__notes__]
    return told


_LAST_LINE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Iteration|Exit|Interrupt|Warning)\b|[A-Za-z_][\w.]*: ")


def _tail(message):
    """The last part of a worker's traceback: its exception line, with the lines that belong to it."""
    lines = message.strip().splitlines()
    starts = [index for index, line in enumerate(lines) if _LAST_LINE.match(line)]
    return "\n".join(lines[starts[-1] if starts else -1 :])


def brief(error):
    """`ValueError: bad file`: an exception for people; a worker's error by what it caught, not by its traceback."""
    message = str(error)
    told = _tail(message) if _CAUGHT.match(message) else "%s: %s" % (type(error).__name__, message)
    return told[:300]
