# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Handles signals at once, also while the main thread waits inside TensorFlow."""

import contextlib
import os
import signal
import threading
import time

# In these seconds more signals mean the same: an impatient user, or a wrapper that forwards them.
_REPEAT_SECONDS = 1.0
_JOIN_SECONDS = 1.0  # for the thread, whose callback may still run
_forks: list = []  # for each active `on_signal` the function that a forked child calls


def end_at_interrupts():
    """Lets Ctrl-C end a command at once, without a traceback, while it imports modules.

    Nothing can be lost so early.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts():
    """Makes Ctrl-C a KeyboardInterrupt again, after `end_at_interrupts`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def on_signal(signums, callback):
    """Calls `callback(signum)` in a separate thread when the first of the signals `signums` arrives.

    Python runs signal handlers between two instructions of the main thread, which may wait for a queue for a
    long time. But the interpreter's C handler writes to a file descriptor at once, and a thread reads it.
    Further signals within a second have no effect. Later ones go to the handlers that were installed before.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # `set_wakeup_fd` needs it: a signal handler must not wait.
    previous = {signum: signal.getsignal(signum) for signum in signums}
    first = None  # when this handled the first signal

    def handle(signum, _):
        nonlocal first
        if first is None:
            first = time.monotonic()  # the thread calls `callback`
        elif time.monotonic() - first >= _REPEAT_SECONDS:
            restore()
            # To the handler from before, which most often ends the process at once.
            os.kill(os.getpid(), signum)

    def restore():
        for signum, handler in previous.items():
            signal.signal(signum, handler)

    def watch():
        # Python writes the number of every signal that it handles, also of others than `signums`. 0 is none.
        # os.read waits without the GIL, so the number arrives also while the main thread is inside
        # TensorFlow.
        while signum := os.read(reader, 1)[0]:
            if signum in previous:
                callback(signum)
                return

    def forget():
        # A forked child would write its own signals into the pipe, as if they were for this process.
        signal.set_wakeup_fd(-1)
        restore()

    for signum in signums:
        # Only the main thread may do this.
        signal.signal(signum, handle)
    # A full pipe is not a loss: only the first of the signals counts.
    old_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # A daemon: a callback that hangs must not keep the process alive.
    thread = threading.Thread(target=watch, name="SignalThread", daemon=True)
    thread.start()
    _forks.append(forget)
    try:
        yield
    finally:
        _forks.remove(forget)
        signal.set_wakeup_fd(old_fd)
        restore()
        # This ends the thread. To close the pipe would not: a process that an environment forks holds it.
        with contextlib.suppress(BlockingIOError):  # full of signals, so the thread is past its last read
            os.write(writer, b"\0")
        thread.join(_JOIN_SECONDS)
        os.close(writer)
        if not thread.is_alive():  # it would otherwise read from whatever is opened next
            os.close(reader)


def _forget_in_child():
    for forget in _forks:
        forget()


# Once for all, because Python has no way to take it back: `_forks` has what is active.
os.register_at_fork(after_in_child=_forget_in_child)


def list_endings():
    """Lists the signals that save and end the work of a command: SIGINT, SIGTERM, SIGUSR1 and SIGHUP.

    Without SIGHUP if it is ignored, which `nohup` does. Slurm sends SIGUSR1 some time before it ends a job,
    with `--signal=USR1@60`.
    """
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, *([] if is_ignored else [signal.SIGHUP])]


def are_handled():
    """Whether an `on_signal` is active, of a command for example."""
    return bool(_forks)
