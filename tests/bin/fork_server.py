# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program that runs functions in forks of itself: a process in 0.1 s, where TensorFlow takes 4 s to import.

`fork_server.py MODULE...` imports modules, and reads jobs, a line of JSON each: [function, arguments, folder,
file for stdout, file for stderr]. A function is named as an entry point is, "alf.bin.main:console_main", and
finds its arguments in `sys.argv`. For each job it writes the exit status, negative after a signal.

For {"start": JOB} it writes the id of the process at once, for {"poll": ID} its exit status, or null.
"""

import atexit
import importlib
import json
import os
import signal
import sys
import threading
import traceback

# After which SIGALRM kills a process, which hangs: one that is waited for, and one that a test looks at.
_WAITED_SECONDS, _STARTED_SECONDS = 240, 1200


def main(*modules):
    for module in modules:
        importlib.import_module(module)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


def _answer(request):
    if isinstance(request, list):
        return _wait(_fork(request, _WAITED_SECONDS), 0)
    if "start" in request:
        return _fork(request["start"], _STARTED_SECONDS)
    return _wait(request["poll"], os.WNOHANG)


def _fork(job, max_seconds):
    child = os.fork()
    if not child:
        signal.alarm(max_seconds)
        _run(*job)
    return child


def _wait(child, options):
    found, status = os.waitpid(child, options)
    return os.waitstatus_to_exitcode(status) if found else None


def _run(function, arguments, folder, out, err):
    """Runs a job, and ends this process. Python's own end would copy the memory of the server: 0.5 s."""
    os.chdir(folder)
    for fd, path in enumerate((os.devnull, out, err)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, fd)
        os.close(file)
    module, name = function.split(":")
    sys.argv = [os.path.join(folder, name), *arguments]
    status = 1
    try:
        status = getattr(importlib.import_module(module), name)() or 0
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    # Not the folder of this file, in which no user's program is.
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    main(*sys.argv[1:])
