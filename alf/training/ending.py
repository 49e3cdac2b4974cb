# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How a run ends at a signal in a Python program, and what its user is told."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from absl import logging

from alf.core.signals import are_handled, on_signal
from alf.errors import is_notebook

SignalName = Literal["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]


@contextlib.contextmanager
def ending_at_signals(
    names: Sequence[str], end: Callable[[str, int], Any], describe: Callable[[str], str]
) -> Iterator[None]:
    """Context in which the first of some signals makes training save and end.

    It has no effect in a command, which handles signals itself, and outside of the main thread, where Python
    delivers none. A program that handles or ignores SIGINT keeps it.

    Args:
        names: names of signals.
        end: callable (cause, signum) that makes the block save and end soon. Another thread calls it.
        describe: callable (cause) -> text, which says where the results are, and how the training goes on.

    Raises:
        KeyboardInterrupt: at the end of the block, after SIGINT, with the text of `describe`.
        SystemExit: the same after another signal; its code is 128 plus the signal's number.
    """
    taken = _find_signals(names)
    came: list[int] = []

    def handle(signum):
        came.append(signum)
        end(f"stopped by {signal.Signals(signum).name}", signum)

    try:
        with on_signal(taken, handle) if taken else contextlib.nullcontext():
            yield
    except KeyboardInterrupt as error:
        # A second Ctrl-C, which does not wait for the end of the iteration, or one of the callbacks.
        if not taken or error.args:
            raise
        raise KeyboardInterrupt(describe("stopped by SIGINT")) from error
    if came:
        text = describe(f"stopped by {signal.Signals(came[0]).name}")
        if came[0] == signal.SIGINT:
            raise KeyboardInterrupt(text)
        logging.warning("%s", text)
        raise SystemExit(128 + came[0])


def _find_signals(names):
    """Returns the list of the signals of some names that `ending_at_signals` may handle."""
    if are_handled():
        return []
    if threading.current_thread() is not threading.main_thread():
        if set(names) - {"SIGINT"}:
            logging.warning(
                "Trainer.signals is %s: it has no effect, because only the main thread gets signals", names
            )
        return []
    # In a notebook the kernel has a handler of its own, which raises KeyboardInterrupt.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler or is_notebook()
    return [signal.Signals[name] for name in names if name != "SIGINT" or is_default]


def describe_end(trainer: Any, cause: str) -> str:
    """Returns a text that says what ended a run, what is saved, and how the run goes on."""
    checkpointer, env_steps = trainer.checkpoints.checkpointer, trainer.counters["env_steps"]
    if checkpointer.newest is None:
        saved = "it has no checkpoint"
    else:
        saved = f"{'it is saved in' if checkpointer.is_saved else 'it goes on from'} {checkpointer.newest}"
    return (
        f"{cause} after {env_steps:,} environment steps of the run in {trainer.root_dir}; {saved}. The same "
        "call goes on with the run"
    )
