# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Handles signals at once, also while the main thread waits inside TensorFlow."""

import contextlib
import os
import signal
import threading


@contextlib.contextmanager
def on_signal(signums, callback):
    """Calls `callback(signum)` in a separate thread when the first of `signums` arrives.

    Python runs signal handlers between two instructions of the main thread, which may wait for a queue for a
    long time. The interpreter's C handler writes to a file descriptor at once, and a thread reads it. The
    second signal goes to the handler that was installed before.

    Args:
        signums: numbers of the signals.
        callback: callable (signum), called at most once.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous = {signum: signal.getsignal(signum) for signum in signums}

    def handler(signum, frame):
        # The thread calls `callback`; the handler from before gets the next signal.
        _restore(previous)

    def watch():
        # Python writes the number of every signal that it handles, also of others than `signums`.
        while received := os.read(reader, 1):
            if received[0] in previous:
                callback(received[0])
                return

    for signum in signums:
        signal.signal(signum, handler)
    old_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread = threading.Thread(target=watch, name="SignalThread", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_fd)
        _restore(previous)
        os.close(writer)  # ends the thread: `os.read` returns nothing
        thread.join()
        os.close(reader)


def _restore(handlers):
    for signum, handler in handlers.items():
        signal.signal(signum, handler)
