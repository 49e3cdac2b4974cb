# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SummaryWriter: writes event files for TensorBoard and the table `progress.csv`."""

import ast
import contextlib
import os
import re
import time

import numpy as np
import tensorflow as tf
from absl import logging
from tensorboard.compat.proto import summary_pb2
from tensorboard.plugins.histogram import metadata as histogram_metadata

# Not `api`, which imports Keras.
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb

from alf.config.comparison import parse_settings
from alf.config.settings import Role, find_role
from alf.errors import describe_error
from alf.runs.progress_file import PROGRESS_FILE, ProgressFile

# Columns of the table that are not curves in TensorBoard, because they would repeat its x axis.
_TABLE_ONLY = "metrics/EnvironmentSteps", "train/iterations"
_WARNING_SECONDS = 300.0  # between two warnings that a file cannot be written
_BUCKETS = 30  # of a histogram, as many as `tf.summary.histogram` makes
_MOST_NUMBERS = 1_000_000  # of a histogram: 256 stacks of 84 x 84 pixels would take 0.3 s at each summary
# Scalars that are also under "Overview/". TensorBoard's HPARAMS page shows a run's first five scalars in the
# order of ASCII, in which capitals come first: so these are its columns, and the return is the first one. The
# page of charts opens with this group: return, length, speed and loss on one screen.
_COMPARED = re.compile(
    r"metrics/(policies/\w+/)?AverageReturn|metrics/AverageEpisodeLength|metrics/league/Elo|eval/return_mean"
    r"|throughput/steps_per_second_5min|train/(\w+/)?loss"
)


class SummaryWriter:
    """Writes event files for TensorBoard, and `progress.csv` beside their directory.

    If values cannot be written, for example because the disk is full, they are lost with a warning, and
    training goes on. If another program removes the event file, a new one begins, with a warning.

    Args:
        path: directory of the event file.
        env_steps: int, the environment steps of the checkpoint from which the run continues, or None.
            `ProgressFile` removes later rows.
    """

    def __init__(self, path, env_steps=None):
        self._path = path
        self._table = os.path.join(os.path.dirname(path), PROGRESS_FILE)
        self._progress_file = ProgressFile(self._table, env_steps)
        self._writer = None
        self._event_file = None  # the path of its file
        self._description = lambda: None  # writes what `describe` shows
        self._warned = {}  # time of the last warning, by path or source

    def describe(self, step, config):
        """Writes the configuration as a text, and the settings by which TensorBoard compares runs.

        Args:
            step: int, the x axis.
            config: text, the run's operative configuration.
        """
        # Markdown shows indented lines as they are.
        shown = "\n".join(f"    {line}" for line in config.splitlines())
        # Runs with the same name would be one to TensorBoard, which would show their averages.
        # The page shows the beginning of a name.
        folder, name = os.path.split(os.path.dirname(self._path))

        def write():
            tf.summary.text("config/operative_config", shown)
            hparams.hparams(read_hyperparameters(config), trial_id=f"{name} in {folder}")

        self._description = write
        self.show(step, write)

    def write(self, step, env_steps, seconds, values):
        """Writes a dict of values by name. Texts go only to TensorBoard, counts of steps only to the table.

        Args:
            step: int, the x axis.
            env_steps: int, environment steps learned from.
            seconds: float, seconds since the first train step of this run.
            values: dict of scalars and texts by name.
        """
        overview = {_name_overview(name): x for name, x in values.items() if _COMPARED.fullmatch(name)}
        self.show(step, lambda: _write_values(values | overview))
        with self._warn_of_errors(self._table):
            numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
            self._progress_file.write(env_steps, seconds, numbers)

    def show(self, step, write, source=None):
        """Calls `write` (), which may use `tf.summary.scalar` and so on; `step` is the x axis.

        `source`: text, the setting that `write` is, if it is the user's code. Its errors name it.
        """
        with self._warn_of_errors(self._path):
            # Made at the first write, within the context: a directory that cannot be made is a warning, too.
            if self._writer is None:
                self._open()
            elif not os.path.exists(self._event_file):
                # TensorFlow would go on writing into the file that has no name any more.
                logging.warning("%s was removed: a new file of events begins", self._event_file)
                self._writer = None
                self._open()
                with self._writer.as_default(step=step):
                    self._description()
            with self._writer.as_default(step=step), self._warn_of_errors(self._path, source):
                write()
            # TensorFlow would write after ten values or two minutes: TensorBoard would lag behind, a kill
            # would lose them, and the error of a full disk would come outside of the context.
            self._writer.flush()

    def close(self):
        """Closes the event file."""
        if self._writer is not None:
            with self._warn_of_errors(self._path):
                self._writer.close()

    def _open(self):
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._path)  # not its parent: if somebody has removed or renamed a root_dir, it stays so
        before = os.listdir(self._path)
        self._writer = tf.summary.create_file_writer(self._path)
        (name,) = set(os.listdir(self._path)).difference(before)
        self._event_file = os.path.join(self._path, name)

    @contextlib.contextmanager
    def _warn_of_errors(self, path, source=None):
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            if time.monotonic() - self._warned.get(source or path, float("-inf")) < _WARNING_SECONDS:
                return
            self._warned[source or path] = time.monotonic()
            if source is None:
                logging.warning("no summaries can be written to %s: %s", path, error)
            else:
                fault = f"{source} raised {describe_error(error)}"
                logging.warning("%s: this summary lacks what it writes", fault, exc_info=error)


def _name_overview(name):
    # Without "Average", so that the length comes after the return.
    return "Overview/" + name.removeprefix("metrics/").replace("AverageEpisodeLength", "EpisodeLength")


def _write_values(values):
    """Writes scalars and texts by name in one operation; `tf.summary.scalar` needs one for each."""
    summary = summary_pb2.Summary()
    for name, value in values.items():
        if isinstance(value, str):
            summary.MergeFrom(text_pb(name, value))
        elif name not in _TABLE_ONLY:
            summary.MergeFrom(scalar_pb(name, value))
    tf.summary.experimental.write_raw_pb(summary.SerializeToString())


def write_histogram(name, values):
    """Writes a histogram of an array of any shape. Numbers that are not finite do not count.

    If there are more than a million numbers, a million of them, drawn at random, count, because
    `tf.summary.histogram` takes all, with 240 bytes of memory for each.
    """
    # Drawn by a generator of its own below: the random numbers of training do not depend on what is shown.
    values = np.asarray(values).ravel()
    if values.size > _MOST_NUMBERS:  # every k-th number would be from a few columns of an image
        values = values[np.random.default_rng(0).integers(values.size, size=_MOST_NUMBERS)]
    values = values.astype(np.float64)
    counts, edges = np.histogram(values[np.isfinite(values)], _BUCKETS)
    buckets = np.stack([edges[:-1], edges[1:], counts], axis=1)
    metadata = histogram_metadata.create_summary_metadata(display_name=None, description=None)
    tf.summary.write(name, buckets, metadata=metadata)


def write_gif(name, gif):
    """Writes an animation, a `Gif` of `alf.evaluation.video`."""
    metadata = image_metadata.create_summary_metadata(display_name=None, description=None)
    tf.summary.write(name, [str(gif.width), str(gif.height), gif.content], metadata=metadata)


def read_hyperparameters(config):
    """Returns the settings by which TensorBoard compares runs, a dict of numbers, bools and texts by name.

    `config` is the text of a run's operative configuration. Settings that do not define the experiment, such
    as `StopCriteria.num_env_steps`, are left out, except seeds. Values of other types become texts, as gin
    writes them.
    """
    settings = parse_settings(config)
    roles = {name: find_role(name) for name in settings}
    shown = [name for name, role in roles.items() if role.tells_apart or role is Role.SEED]
    return {name: _read_value(settings[name]) for name in shown}


def _read_value(text):
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):  # such as "@Adam()"
        return text
    return value if isinstance(value, (bool, int, float, str)) else text
