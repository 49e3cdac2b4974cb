# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Checkpointer: saves and restores a run."""

import concurrent.futures
import json
import os

import tensorflow as tf
from absl import logging

from alf.errors import ConfigError, DivergedError


class Checkpointer(tf.train.experimental.PythonState):
    """Saves and restores a learner with its algorithm and policy, the driver's metrics and the iterations.

    The attribute `iterations`, an int, counts the train iterations of all runs in the directory.

    Args:
        path: directory of the checkpoints.
        driver: `Driver`; its learner is saved, too.
        saves_replay_buffer: whether the experience of the replay buffer is saved, in `replay_buffer.npz`.
            ConfigError is raised if the replayer keeps nothing that could be saved.
        max_to_keep: checkpoints kept; of replay buffers there is one.
    """

    def __init__(self, path, driver, saves_replay_buffer=False, max_to_keep=3):
        self.iterations = 0
        self._driver = driver
        self._replayer = driver.learner.replayer if saves_replay_buffer else None
        if saves_replay_buffer and not hasattr(self._replayer, "save"):
            raise ConfigError(
                f"Trainer.checkpoint_replay_buffer is True, but exp_replayer is {self._replayer.name!r}, "
                "which keeps nothing"
            )
        self._replay_path = os.path.join(path, "replay_buffer.npz")
        self._background = concurrent.futures.ThreadPoolExecutor(1, "save-replay-buffer")
        self._replay_saved = None  # a future
        checkpoint = tf.train.Checkpoint(learner=driver.learner, state=self)  # see `serialize`
        self._manager = tf.train.CheckpointManager(checkpoint, path, max_to_keep)

    def save(self):
        """Writes a checkpoint of now; returns its path. One that is cut off leaves the one before in force.

        A weight that is not finite raises DivergedError, because no run could continue from it. The replay
        buffer is written in the background; OSError is raised if the one before could not be written.
        """
        for variable in self._driver.learner.trainable_variables:
            if not bool(tf.reduce_all(tf.math.is_finite(variable))):
                raise DivergedError(
                    f"{variable.name} is not finite, so no checkpoint was written: lower the "
                    "optimizer's learning_rate or set max_grad_norm"
                )
        path = self._manager.save(checkpoint_number=self.iterations)
        if self._replay_saved is not None and not self._replay_saved.done():
            logging.warning("the replay buffer of the checkpoint before is still being written")
        elif self._replayer is not None:
            self.wait_for_replay_buffer()
            self._replay_saved = self._background.submit(self._replayer.save, self._replay_path)
        return path

    def wait_for_replay_buffer(self):
        """Waits until the replay buffer's file is complete; raises OSError if it could not be written."""
        if self._replay_saved is not None:
            self._replay_saved.result()

    def restore(self):
        """Restores the newest checkpoint; returns its path or None. ConfigError if it does not fit."""
        path = self._manager.latest_checkpoint
        if path is None:
            return None
        try:
            status = self._manager.checkpoint.restore(path).assert_existing_objects_matched()
        except (AssertionError, ValueError) as error:
            raise ConfigError(f"the checkpoint {path} does not fit this algorithm: {error}") from None
        # The optimizer makes its variables at the first update, which restores them. There may be none.
        status.expect_partial()
        if self._replayer is not None and os.path.exists(self._replay_path):
            self._replayer.load(self._replay_path)
        return path

    def serialize(self):
        """What Python keeps, as JSON: TensorFlow calls this to save, and `deserialize` to restore."""
        driver, learner = self._driver.get_state(), self._driver.learner.get_state()
        return json.dumps({"iterations": self.iterations, "driver": driver, "learner": learner})

    def deserialize(self, string_value):
        state = json.loads(string_value)
        self.iterations = state["iterations"]
        self._driver.set_state(state["driver"])
        self._driver.learner.set_state(state["learner"])
