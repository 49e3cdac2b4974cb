# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The program of an `EvaluationProcess`: `python -m alf.evaluation.session_process ROOT_DIR SETTINGS FD`.

SETTINGS is JSON of the arguments of a `Session`, FD the descriptor of a pipe whose other end the run keeps
open: when it is closed, the kernel kills this process. The standard input has one path of a checkpoint in
each line. The standard output answers each with a pickle: a `Result`, or the text of an error. While the
environments step, a pickle of None comes before it each second. The process ends when its standard input
does.
"""

import json
import os
import pickle
import sys
import time

from alf.core.startup import import_tensorflow
from alf.workers.process import die_with_owner, handle_signals


def main():
    """Answers requests until the standard input ends."""
    # What environments start ends with this process. Not a session, for the reason in `alf.workers.process`.
    os.setpgrp()
    die_with_owner(int(sys.argv[3]))
    handle_signals()
    import_tensorflow()  # as commands do, before what needs it
    from alf.evaluation.session import Session
    from alf.runs.saved_run import SavedRun

    # First the copy: it keeps the pipe to the run after the next line has redirected descriptor 1.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that output of environments is not taken for an answer
    session = None
    for path in sys.stdin.buffer:
        try:
            if session is None:  # in the loop, so that an error here becomes an answer, too
                run = SavedRun(sys.argv[1])
                run.read_config()
                session = Session(run.make_policy(), **json.loads(sys.argv[2]))
            answer = session.evaluate(os.fsdecode(path.rstrip(b"\n")), _make_beat(answers))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()
    if session is not None:
        session.close()


def _make_beat(answers):
    """Returns a callable () that writes a pickle of None, unless it did so less than a second ago."""
    written_at = float("-inf")

    def beat():
        nonlocal written_at
        if time.monotonic() - written_at >= 1.0:
            written_at = time.monotonic()
            pickle.dump(None, answers)
            answers.flush()

    return beat


if __name__ == "__main__":
    main()
