# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Handles signals at once, also while the main thread waits inside TensorFlow."""

import contextlib
import os
import signal
import sys
import threading


def end_at_interrupts():
    """Lets Ctrl-C end a command at once, without a traceback, while it imports modules.

    Nothing can be lost so early. In a user's own program that imports ALF this does nothing.
    """
    is_command = sys.argv[0] == "-m" or os.path.basename(sys.argv[0]).startswith("alf-")
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts():
    """Makes Ctrl-C a KeyboardInterrupt again, after `end_at_interrupts`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def on_signal(signums, callback):
    """Calls `callback(signum)` in a separate thread when the first of the signals `signums` arrives.

    Python runs signal handlers between two instructions of the main thread, which may wait for a queue for a
    long time. But the interpreter's C handler writes to a file descriptor at once, and a thread reads it. A
    second signal goes to the handler that was installed before.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # `set_wakeup_fd` needs it: a signal handler must not wait.
    previous = {signum: signal.getsignal(signum) for signum in signums}

    def restore(*_):
        """Installs the handlers from before. As a handler it does only that: the thread calls `callback`."""
        for signum, handler in previous.items():
            signal.signal(signum, handler)

    def watch():
        # Python writes the number of every signal that it handles, also of others than `signums`.
        while received := os.read(reader, 1):
            if received[0] in previous:
                callback(received[0])
                return

    for signum in signums:
        signal.signal(signum, restore)
    old_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread = threading.Thread(target=watch, name="SignalThread", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_fd)
        restore()
        os.close(writer)  # This ends the thread: `os.read` returns nothing.
        thread.join()
        os.close(reader)


def list_hangups():
    """Returns a list with SIGHUP, or an empty one if it is ignored, which `nohup` does."""
    return [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
