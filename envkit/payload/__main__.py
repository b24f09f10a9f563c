"""Run by the target interpreter: a question as JSON on stdin, events as JSON lines on the real stdout.

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
    question = json.load(sys.stdin)

    def say(**event):
        answer.write(json.dumps(event, allow_nan=False) + "\n")
        answer.flush()

    say(event="hello", python=list(sys.version_info[:3]))
    if sys.version_info < MINIMUM:
        say(event="unsupported", minimum=list(MINIMUM))
        return
    # The payload is envkit's, not the target's: leave no compiled files of the target's version in it.
    previous, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    import tasks

    sys.dont_write_bytecode = previous
    tasks.run(question, say)
    say(event="end")


if __name__ == "__main__":
    main()
