"""Run by the target interpreter: a question as a line of JSON on stdin, events as JSON lines on the real stdout.

Runs under Python 3.8 to 3.14 with the standard library and torch alone, and imports nothing of envkit.
"""

import json
import os
import sys

MINIMUM = (3, 8)


def main():
    """Answer the question; whatever libraries print goes to stderr."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked = os.fdopen(os.dup(0))
    question = json.loads(asked.readline())
    # Code that asks for input gets an end of file, not this question's pipe.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def say(**event):
        answer.write(json.dumps(event, allow_nan=False) + "\n")
        answer.flush()

    def more():
        say(event="next")
        line = asked.readline()
        return json.loads(line) if line.strip() else None

    say(event="hello", python=list(sys.version_info[:3]))
    if sys.version_info < MINIMUM:
        say(event="unsupported", minimum=list(MINIMUM))
        return
    import tasks

    tasks.run(dict(question, more=more), say)
    say(event="end")


if __name__ == "__main__":
    main()
