# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Summaries: the scalars of a run, for TensorBoard and as a table."""

import contextlib
import os
import time

import tensorflow as tf
from absl import logging

from alf.training.progress_file import PROGRESS_FILE, ProgressFile

# Columns of the table that are no curves in TensorBoard: they would repeat its x axis.
_TABLE_ONLY = "metrics/EnvironmentSteps", "train/iterations"
_WARNING_SECONDS = 300.0  # between two warnings that a file cannot be written


class Summaries:
    """Writes scalars into event files in the directory `path`, and into `progress.csv` beside it.

    What cannot be written, because the disk is full for instance, is lost with a warning: training goes on.

    Args:
        path: of the event files.
        env_steps: those of the checkpoint that the run continues from, or None, see `ProgressFile`.
    """

    def __init__(self, path, env_steps=None):
        self._path = path
        self._table = os.path.join(os.path.dirname(path), PROGRESS_FILE)
        self._progress_file = ProgressFile(self._table, env_steps)
        self._writer = None
        self._warned = {}  # when, by path

    def write(self, step, seconds, values):
        """Writes a dict of scalars by name. A text goes to TensorBoard alone, a count of steps to the table.

        Args:
            step: int, the x axis: environment steps learned from.
            seconds: since the first train step of this run.
            values: the dict.
        """
        with self._warn_of_errors(self._path):
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(self._path)
            with self._writer.as_default(step=step):
                for name, value in values.items():
                    if isinstance(value, str):
                        tf.summary.text(name, value)
                    elif name not in _TABLE_ONLY:
                        tf.summary.scalar(name, value)
            self._writer.flush()
        with self._warn_of_errors(self._table, ValueError):  # ValueError: the rows before are damaged
            numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
            self._progress_file.write(step, seconds, numbers)

    def close(self):
        """Closes the event file."""
        with self._warn_of_errors(self._path):
            if self._writer is not None:
                self._writer.close()

    @contextlib.contextmanager
    def _warn_of_errors(self, path, *kinds):
        try:
            yield
        except (OSError, tf.errors.OpError, *kinds) as error:
            if time.monotonic() - self._warned.get(path, float("-inf")) >= _WARNING_SECONDS:
                self._warned[path] = time.monotonic()
                logging.warning("no summaries can be written to %s: %s", path, error)
