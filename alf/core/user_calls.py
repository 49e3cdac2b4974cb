# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The calls of users' code that threads make at present, for whoever watches the threads."""

import contextlib
import sys
import threading
import time
import traceback
from typing import NamedTuple


class UserCall(NamedTuple):
    """A call that has not returned.

    Attributes:
        name: text for messages, such as "Report.on_train_iter of Trainer.callbacks".
        since: its start, in seconds of `time.monotonic`.
        is_update: whether the learner may be changed half at present.
    """

    name: str
    since: float
    is_update: bool = False


_calls: dict[int, UserCall] = {}  # the innermost call of each thread, by the thread's identifier


@contextlib.contextmanager
def user_call(name, is_update=False):
    """Context of a call of user code; a call within it takes its place until it returns.

    `name` is a text, or a callable () -> text if it changes meanwhile. Another thread calls it.
    """
    thread = threading.get_ident()
    outer = _calls.get(thread)
    is_update = is_update or (outer is not None and outer.is_update)
    _calls[thread] = UserCall(name, time.monotonic(), is_update)
    try:
        yield
    finally:
        if outer is None:
            del _calls[thread]
        else:
            _calls[thread] = outer


def find_user_call(thread):
    """Returns the innermost `UserCall` of a thread, whose identifier is given; None without one."""
    call = _calls.get(thread)
    return call._replace(name=call.name()) if call is not None and callable(call.name) else call


def format_stack(thread):
    """Returns the present stack of a thread, whose identifier is given, as a text."""
    return "".join(traceback.format_stack(sys._current_frames().get(thread)))
