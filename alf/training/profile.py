# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Profile: a trace of some train iterations, for TensorBoard's tab Profile."""

from typing import Annotated

import tensorflow as tf
from absl import logging

from alf.config.kinds import Matches
from alf.errors import ConfigError

Iterations = Annotated[str, Matches(r"\d+:\d+", "a text FROM:TO of two train iterations, such as '100:110'")]


class Profile:
    """Traces train iterations with TensorFlow's profiler. `Summaries` calls it.

    If the trace cannot be written, a warning says so, and training goes on.

    Args:
        iterations: text, "FROM:TO": the first and the last iteration, counted from 1 over all runs in the
            root_dir.
    """

    def __init__(self, iterations):
        self._first, self._last = map(int, iterations.split(":"))
        if not 1 <= self._first <= self._last:
            raise ConfigError(
                f"Summaries.profile is {iterations!r}: it must be FROM:TO, where FROM is at least 1 and TO "
                "at least FROM"
            )
        self._state = "waiting"  # then "tracing", then "over"
        self._step = None  # the context of the present iteration, which names it in the trace

    def begin(self, path, num_iterations):
        """Begins an iteration, the first one of the profile with a new trace; `num_iterations` are over.

        `path`: the folder of the run's summaries, in which TensorBoard looks for traces.
        """
        number = num_iterations + 1
        if self._state == "waiting" and self._first <= number <= self._last:
            self._state = "tracing" if self._call(tf.profiler.experimental.start, path) else "over"
        if self._state == "tracing":
            self._step = tf.profiler.experimental.Trace("train iteration", step_num=number, _r=1)
            self._step.__enter__()

    def end(self, num_iterations):
        """Ends an iteration, and writes the trace after the last one."""
        self._end_step()
        if num_iterations >= self._last:
            self.close()

    def close(self):
        """Writes the trace of a run that ends before the last iteration."""
        self._end_step()
        if self._state == "tracing":
            self._state = "over"
            self._call(tf.profiler.experimental.stop)

    def warn_of_none(self, num_iterations):
        """Warns at the end of a run that has had none of the iterations."""
        if self._state == "waiting":
            logging.warning(
                "no profile is written: Summaries.profile begins with train iteration %s, and the run has "
                "ended after %s",
                f"{self._first:,}",
                f"{num_iterations:,}",
            )

    def _end_step(self):
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _call(self, function, *args):
        """Calls a function of the profiler; returns False, with a warning, if it fails."""
        try:
            function(*args)
        except (OSError, tf.errors.OpError) as error:  # a full disk; another profiler of this process
            logging.warning("no profile is written: %s", error)
            return False
        return True
