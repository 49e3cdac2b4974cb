# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Summaries: the scalars of a run, for TensorBoard."""

import time

import tensorflow as tf
from absl import logging

_WARNING_SECONDS = 300.0  # between two warnings that nothing can be written


class Summaries:
    """Writes scalars into event files in the directory `path`.

    What cannot be written, because the disk is full for instance, is lost with a warning: training goes on.
    """

    def __init__(self, path):
        self._path = path
        self._writer = None
        self._warned = float("-inf")

    def write(self, step, values):
        """Writes a dict of scalars by name. `step`, an int, is the x axis: environment steps learned from."""
        try:
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(self._path)
            with self._writer.as_default(step=step):
                for name, value in values.items():
                    tf.summary.scalar(name, value)
            self._writer.flush()
        except (OSError, tf.errors.OpError) as error:
            self._warn(error)

    def close(self):
        """Closes the event file."""
        try:
            if self._writer is not None:
                self._writer.close()
        except (OSError, tf.errors.OpError) as error:
            self._warn(error)

    def _warn(self, error):
        if time.monotonic() - self._warned >= _WARNING_SECONDS:
            self._warned = time.monotonic()
            logging.warning("no summaries can be written to %s: %s", self._path, error)
