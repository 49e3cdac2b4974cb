# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes environments, and closes them within a time limit."""

import inspect
import threading
import time
from collections.abc import Callable

from absl import logging

from alf.config.kinds import PositiveInt
from alf.config.registry import run_in_turn
from alf.config.settings import checked
from alf.core.annotations import Environment
from alf.core.user_calls import find_user_call, format_stack
from alf.drivers.env_specs import name_env
from alf.drivers.watch import Watch
from alf.errors import ConfigError, EnvError

_TELL_SECONDS = 5.0  # between two lines about environments that start
_HANG_SECONDS = 120.0  # until a constructor's stack is shown
_CLOSE_SECONDS = 5.0  # the time for environments of which nobody has made a driver


class StartWatch(Watch):
    """Says every 5 seconds how many environments have started, and names a constructor that hangs.

    Args:
        envs: list to which the present thread adds batched environments.
        count: int, how many it will have.
    """

    def __init__(self, envs, count):
        self._envs, self._count = envs, count
        self._thread = threading.get_ident()
        self._began = self._told = time.monotonic()
        self._has_stack = False
        super().__init__("StartWatch", _TELL_SECONDS)

    def look(self, now):
        if now - self._told < _TELL_SECONDS:
            return
        self._told, call = now, find_user_call(self._thread)
        where = "" if call is None else f"; in {call.name} for {now - call.since:.0f} s"
        seconds, made = now - self._began, len(self._envs)
        logging.warning(  # a Python program shows no line of a lower level
            "%d of %d batches of environments are made after %.0f s%s", made, self._count, seconds, where
        )
        if call is not None and now - call.since > _HANG_SECONDS and not self._has_stack:
            self._has_stack = True
            logging.error("%s has not returned:\n%s", call.name, format_stack(self._thread))


@checked
def make_envs(env_fn: Callable[..., Environment], num_groups: PositiveInt) -> list[Environment]:
    """Makes environments as `Driver.from_env_fn` describes. If one fails, it closes the others."""
    takes_index, envs = _takes_index(env_fn), []
    try:
        with StartWatch(envs, num_groups):
            for index in range(num_groups):
                envs.append(env_fn(index) if takes_index else env_fn())
    except Exception as error:
        close_all(envs)
        kind = ConfigError if isinstance(error, ConfigError) else EnvError
        raise kind(f"env_fn raised for environment {index}: {error!r}") from error
    return envs


def close_all(envs):
    """Closes environments that no driver closes, such as one that was made to read its spaces.

    It waits for at most 5 seconds. The log names environments that do not close in time, or raise an error.
    """
    closers = [EnvCloser(name_env(i, env), env, None) for i, env in enumerate(envs)]
    for closer in closers:
        closer.start()
    join_all(closers, _CLOSE_SECONDS)
    complaints = filter(None, [closer.complain("close") for closer in closers])
    for complaint in complaints:
        logging.warning("%s", complaint)


class EnvCloser(threading.Thread):
    """Closes an environment once `thread`, which steps it, has ended; at once if `thread` is None.

    Args:
        name: text, the environment in messages.
        env: the environment.
        thread: the thread that steps it now, or None.

    Attributes:
        error: the exception that `env.close` raised, or None.
    """

    def __init__(self, name, env, thread):
        # A daemon: an environment that never returns must not keep the process alive.
        super().__init__(name=name, daemon=True)
        self._close = run_in_turn(lambda: env.close())
        self._thread = thread
        self.error = None

    def run(self):
        if self._thread is not None:
            self._thread.join()
        # `complain`, in another thread, tells by this whether the step or the close does not return.
        self._thread = None
        try:
            self._close()
        except BaseException as error:
            self.error = error

    def complain(self, stage):
        """Describes why the environment is not closed; None if it is closed.

        `stage`, "reset", "step" or "call", is the call that has not returned.
        """
        if self.error is not None:
            return f"{self.name} raised {self.error!r} in close()"
        if not self.is_alive():
            return None
        return f"{self.name} is still closing" if self._thread is None else f"{self.name} still {stage}s"


def join_all(threads, timeout):
    """Waits until all threads have ended, but not longer than `timeout` seconds."""
    # One deadline for all: a time-out for each thread would add up when several hang.
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _takes_index(env_fn):
    """Returns whether a callable needs an argument."""
    try:
        inspect.signature(env_fn).bind()
    except TypeError:
        return True
    except ValueError:  # Python cannot tell the signature, of a class in C for example.
        return False
    return False
