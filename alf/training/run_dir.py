# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A run's directory: its configuration, revision and checkpoints."""

import concurrent.futures
import json
import os
import subprocess

import gin
import tensorflow as tf
from absl import logging

from alf.errors import ConfigError, DivergedError

_CONFIG_FILE = "operative_config.gin"
# A run may be continued with other limits, another log interval and so on; not with another experiment.
_MAY_CHANGE = ("StopCriteria.", "Trainer.summary_interval", "Trainer.checkpoint_interval")


class RunDir:
    """Where a run writes.

    Args:
        path: the directory; made if it does not exist.

    Raises:
        ConfigError: if it cannot be written to.
    """

    def __init__(self, path):
        self.path = os.path.abspath(os.path.expanduser(path))
        try:
            os.makedirs(self.path, exist_ok=True)
            probe = os.path.join(self.path, ".writable")
            with open(probe, "w"):
                pass
            os.remove(probe)
        except OSError as error:
            raise ConfigError(f"root_dir {path!r} cannot be written to: {error.strerror}") from None

    @property
    def summaries(self):
        """Where TensorBoard looks."""
        return os.path.join(self.path, "train")

    def check_config(self):
        """Refuses to mix two experiments.

        Raises:
            ConfigError: if the directory holds a run whose operative configuration differs; the message
                shows the settings that do.
        """
        path = os.path.join(self.path, _CONFIG_FILE)
        if not os.path.exists(path):
            return
        with open(path) as file:
            theirs, ours = _settings(file.read()), _settings(gin.operative_config_str())
        different = sorted(k for k in theirs.keys() | ours.keys() if theirs.get(k) != ours.get(k))
        if different:
            shown = "; ".join(f"{k} is {ours.get(k)} here, {theirs.get(k)} there" for k in different[:5])
            raise ConfigError(
                f"root_dir {self.path!r} holds a run of another config ({shown}): choose another root_dir"
            )

    def write_config(self):
        """Writes the operative configuration and the revision of the code."""
        self._write(_CONFIG_FILE, gin.operative_config_str())
        self._write("git_revision.txt", git_revision() + "\n")

    def _write(self, name, text):
        path = os.path.join(self.path, name)
        with open(path + ".tmp", "w") as file:
            file.write(text)
        os.replace(path + ".tmp", path)


def git_revision():
    """The commit of the code that runs, "-dirty" if it was changed since; "unknown" outside a repository."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        command = ["git", "-C", here, "describe", "--always", "--dirty", "--abbrev=40"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def check_dead_bindings():
    """Refuses bindings that nothing has read, once everything is built.

    Raises:
        ConfigError: names them.
    """
    dead = [
        f"{'/'.join(filter(None, (scope, selector)))}.{parameter}"
        for (scope, selector), parameters in gin.config._CONFIG.items()
        for parameter in parameters
        if parameter not in gin.config._OPERATIVE_CONFIG.get((scope, selector), {})
        and selector != "gin.macro"
    ]
    if dead:
        raise ConfigError(f"nothing reads the gin binding {', '.join(sorted(dead))}")


def _settings(config):
    """The bindings of a config text as a dict, without comments and what may change."""
    settings = {}
    for statement in config.replace("\\\n", " ").splitlines():
        name, separator, value = statement.partition("=")
        if separator and not name.startswith(("#", *_MAY_CHANGE)):
            settings[name.strip()] = " ".join(value.split())
    return settings


class Checkpointer:
    """Saves and restores an algorithm, the metrics and the counters.

    Args:
        path: directory of the checkpoints.
        algorithm: an `Algorithm`: weights, optimizer slots and train step counter.
        metrics: list of `Metric`.
        replayer: a `Replayer` whose experience is saved too, in `replay_buffer.npz`; None for none.
        max_to_keep: checkpoints kept; of replay buffers there is one.

    Raises:
        ConfigError: if the replayer keeps nothing that could be saved.
    """

    def __init__(self, path, algorithm, metrics, replayer=None, max_to_keep=3):
        if replayer is not None and not replayer.is_buffer:
            raise ConfigError(
                f"Trainer.checkpoint_replay_buffer is True, but exp_replayer is {replayer.name!r}, which "
                "keeps nothing"
            )
        self._replayer = replayer
        self._replay_path = os.path.join(path, "replay_buffer.npz")
        self._background = concurrent.futures.ThreadPoolExecutor(1, "save-replay-buffer")
        self._replay_saved = None  # a future
        self.counters = {"iterations": 0, "env_steps": 0}
        self._state = _JsonState(self._get, self._set)
        self._metrics = metrics
        self._algorithm = algorithm
        checkpoint = tf.train.Checkpoint(algorithm=algorithm, state=self._state)
        self._manager = tf.train.CheckpointManager(checkpoint, path, max_to_keep)

    def save(self):
        """Writes a checkpoint of now; one that is cut off leaves the one before in force.

        Raises:
            DivergedError: if a weight is not finite: nothing could be continued from that.
        """
        for variable in self._algorithm.trainable_variables:
            if not bool(tf.reduce_all(tf.math.is_finite(variable))):
                raise DivergedError(
                    f"{variable.name} is not finite, so no checkpoint was written: lower the "
                    "optimizer's learning_rate or set max_grad_norm"
                )
        path = self._manager.save(checkpoint_number=self.counters["iterations"])
        self._save_replay_buffer()
        return path

    def wait_for_replay_buffer(self):
        """Waits until the replay buffer's file is complete.

        Raises:
            OSError: if it could not be written.
        """
        if self._replay_saved is not None:
            self._replay_saved.result()

    def _save_replay_buffer(self):
        """Starts to write the replay buffer, which goes on while experience is added; one at a time."""
        if self._replayer is None:
            return
        if self._replay_saved is not None:
            if not self._replay_saved.done():
                logging.warning("the replay buffer of the checkpoint before is still being written")
                return
            self._replay_saved.result()
        self._replay_saved = self._background.submit(self._replayer.save, self._replay_path)

    def restore(self):
        """Restores the newest checkpoint, if there is one; returns its path or None.

        Raises:
            ConfigError: if it does not fit the algorithm.
        """
        path = self._manager.latest_checkpoint
        if path is None:
            return None
        try:
            status = self._manager.checkpoint.restore(path).assert_existing_objects_matched()
        except (AssertionError, ValueError) as error:
            raise ConfigError(f"the checkpoint {path} does not fit this algorithm: {error}") from None
        # The optimizer's variables are made, and restored, with the first update, which may not come.
        status.expect_partial()
        if self._replayer is not None and os.path.exists(self._replay_path):
            self._replayer.load(self._replay_path)
        return path

    def _get(self):
        return {"counters": self.counters, "metrics": [m.get_state() for m in self._metrics]}

    def _set(self, state):
        self.counters.update(state["counters"])
        for metric, metric_state in zip(self._metrics, state["metrics"], strict=True):
            metric.set_state(metric_state)


class _JsonState(tf.train.experimental.PythonState):
    """Carries a Python state through a checkpoint as JSON."""

    def __init__(self, get, put):
        self._get = get
        self._put = put

    def serialize(self):
        return json.dumps(self._get())

    def deserialize(self, string_value):
        self._put(json.loads(string_value))
