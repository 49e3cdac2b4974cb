# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""running_time: a clock that stands still while this process is stopped.

Ctrl-Z, `docker pause` and a frozen node stop a process together with its workers. When it goes on, nothing
has hung, so time-outs are measured with this clock.
"""

import os
import threading
import time

_TICK_SECONDS = 0.5
_MAX_SECONDS = 2.0  # between two ticks; if there are more, the process was stopped

_lock = threading.Lock()
_last_tick = _stopped = 0.0  # seconds of `time.monotonic`; seconds for which the process was stopped
_thread = None


def running_time():
    """Returns the seconds, a float, that this process has run since an arbitrary start; for any thread."""
    return time.monotonic() - stopped_time()


def stopped_time():
    """Returns the seconds, a float, for which this process was stopped; for any thread.

    The first call of this or `running_time` starts the clock.
    """
    if _thread is None:
        _start()
    with _lock:  # A thread may ask before the first tick after a stop.
        return _stopped + _find_gap(time.monotonic())


def _start():
    global _thread, _last_tick
    with _lock:
        # Asked again: the thread that held the lock before may have started the clock.
        if _thread is None:
            _last_tick = time.monotonic()
            _thread = threading.Thread(target=_tick, name="RunningTime", daemon=True)
            _thread.start()


def _tick():
    global _last_tick, _stopped
    # By ticks and not by a signal: Ctrl-Z ends with SIGCONT, but a process that was frozen is told nothing.
    while True:
        time.sleep(_TICK_SECONDS)
        with _lock:
            now = time.monotonic()
            _stopped += _find_gap(now)
            _last_tick = now


def _find_gap(now):
    # A shorter gap may only mean that other threads have held the GIL, so that much never counts as a stop.
    return max(0.0, now - _last_tick - _MAX_SECONDS)


def _forget_thread():
    """Lets a forked process, which has no copy of the thread, start its own."""
    global _thread, _lock
    # A new lock, because another thread may have held the old one during the fork. That thread is not in this
    # process, where nobody would ever release the lock.
    _thread, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_thread)
