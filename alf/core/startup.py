# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Starts TensorFlow without the lines that its C++ writes: about CPU features, and GPUs that are not there.

`python -m alf.core.startup MODULE ARGS` is `python -m MODULE ARGS`, but TensorFlow starts first, silently.
"""

import contextlib
import os
import runpy
import sys
import tempfile


def start_tensorflow():
    """Imports TensorFlow and lets it look for GPUs; shows what that writes only if it fails.

    With TF_CPP_MIN_LOG_LEVEL=0 in the environment it shows it in any case.

    Call it before any of the user's modules is imported: what they write is not to be hidden. It does nothing
    if TensorFlow is imported already.
    """
    if "tensorflow" in sys.modules:
        return
    wants_all = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    with contextlib.nullcontext() if wants_all else hide_stderr():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def hide_stderr():
    """Context in which what this process writes to the standard error stream is held back, also by C++.

    It is shown if the context raises an exception, else dropped.
    """
    # A file and not a pipe, which nobody would read meanwhile: a full one would stop TensorFlow. And the file
    # descriptor is replaced, not `sys.stderr`, because C++ knows only the descriptor.
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        # The descriptor is the whole process's: what other threads write meanwhile is held back, too.
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:  # also Ctrl-C, of which the text may be the reason
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


if __name__ == "__main__":
    start_tensorflow()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
