# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Checkpointer: saves and restores a run.

Checkpoint N, of train iteration N, is these files in the directory `checkpoints`:

    ckpt-N.index, ckpt-N.data-00000-of-00001: TensorFlow's checkpoint; `tf.train.load_checkpoint` reads it.
    ckpt-N.complete: JSON; the number of updates, and the CRC-32 of each of TensorFlow's files. It is written
        last. A checkpoint without it was cut off; one with a file that does not fit it is damaged.

The replay buffer has one file for all checkpoints, `replay_buffer.npz`, see `alf.replay.buffer_file`.
"""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import zlib

import tensorflow as tf
from absl import logging

from alf.errors import ConfigError, DivergedError, SaveError
from alf.files import replace_file

_COMPLETE = ".complete"
_CHUNK_BYTES = 1 << 24


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
        self._path = path
        self._driver = driver
        self._max_to_keep = max_to_keep
        self._replayer = driver.learner.replayer if saves_replay_buffer else None
        if saves_replay_buffer and not hasattr(self._replayer, "save"):
            raise ConfigError(
                f"Trainer.checkpoint_replay_buffer is True, but exp_replayer is {self._replayer.name!r}, "
                "which keeps nothing"
            )
        self._replay_path = os.path.join(path, "replay_buffer.npz")
        self._background = concurrent.futures.ThreadPoolExecutor(1, "save-replay-buffer")
        self._replay_saved = None  # a future
        self._newest = None  # the path of the checkpoint that holds the present state of the learner, if any
        self._checkpoint = tf.train.Checkpoint(learner=driver.learner, state=self)  # see `serialize`

    def save(self, is_last=False):
        """Writes a checkpoint of now; returns its path. One that is cut off leaves the one before in force.

        The replay buffer is written in the background, and not while the one before is being written, unless
        `is_last`. What goes wrong there is a warning, or the error of `wait_for_replay_buffer`.

        Raises:
            DivergedError: if a variable is not finite, because no run could continue from it.
            SaveError: if the files cannot be written.
        """
        if self._newest != self._prefix(self.iterations):
            try:
                self._save_learner()
            except (OSError, tf.errors.OpError) as error:
                raise SaveError(f"no checkpoint was saved: {error}") from error
        if self._replayer is not None:
            self._save_replay_buffer(is_last)
        return self._newest

    def wait_for_replay_buffer(self):
        """Waits until the replay buffer's file is complete; raises SaveError if it could not be written."""
        try:
            if self._replay_saved is not None:
                self._replay_saved.result()
        except OSError as error:
            raise SaveError(f"the replay buffer could not be saved: {error}") from error

    def restore(self):
        """Restores the newest checkpoint that is not damaged; returns its path, or None if there is none.

        The log tells of those that are damaged. ConfigError is raised if the checkpoint does not fit the
        algorithm, or if there are damaged checkpoints alone: a run that began anew would replace them.
        """
        damages = []
        for number in reversed(self._numbers()):
            path = self._prefix(number)
            damage = _find_damage(path)
            if damage is None:
                break
            damages.append(f"{path} is damaged: {damage}")
        else:
            if damages:
                raise ConfigError(f"no checkpoint is whole: {'; '.join(damages)}")
            return None
        for damage in damages:
            logging.error("%s; %s is restored in its place", damage, path)
        try:
            status = self._checkpoint.read(path).assert_existing_objects_matched()
        except (AssertionError, ValueError) as error:
            raise ConfigError(f"the checkpoint {path} does not fit this algorithm: {error}") from None
        status.expect_partial()
        self._newest = path
        if self._replayer is not None:
            self._load_replay_buffer()
        return path

    def discard_diverged(self):
        """Sets aside the checkpoints of the present weights, with which the update was not finite.

        Their files ".complete" become ".diverged". Returns a text that says so, or "" if there is none.
        """
        updates, aside = int(self._driver.learner.progress.updates), []
        for number in self._numbers():
            path = self._prefix(number)
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                if _read_complete(path)["updates"] == updates:
                    os.replace(path + _COMPLETE, path + ".diverged")
                    aside.append(os.path.basename(path))
        self._newest = None
        return f"; {', '.join(aside)} has these weights and is set aside" if aside else ""

    def serialize(self):
        """What Python keeps, as JSON: TensorFlow calls this to save, and `deserialize` to restore."""
        driver, learner = self._driver.get_state(), self._driver.learner.get_state()
        return json.dumps({"iterations": self.iterations, "driver": driver, "learner": learner})

    def deserialize(self, string_value):
        state = json.loads(string_value)
        self.iterations = state["iterations"]
        self._driver.set_state(state["driver"])
        self._driver.learner.set_state(state["learner"])

    def _prefix(self, number):
        return os.path.join(self._path, f"ckpt-{number}")

    def _numbers(self, pattern=r"\.complete"):
        """The numbers of the checkpoints that have a file whose name goes on with `pattern`; ascending."""
        names = os.listdir(self._path) if os.path.isdir(self._path) else []
        found = (re.fullmatch(rf"ckpt-(\d+){pattern}", name) for name in names)
        return sorted({int(match[1]) for match in found if match})

    def _save_learner(self):
        learner = self._driver.learner
        for variable in learner.variables:
            if variable.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(variable))):
                raise DivergedError(
                    f"{variable.name} is not finite, so no checkpoint was written: lower the "
                    "optimizer's learning_rate or set max_grad_norm"
                )
        path = self._prefix(self.iterations)
        os.makedirs(self._path, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # one that is damaged or older
            os.remove(path + _COMPLETE)
        self._remove(self.iterations)  # What a kill has left of it would count as a part.
        try:
            self._checkpoint.write(path)
            names = [name for name in os.listdir(self._path) if name.startswith(os.path.basename(path) + ".")]
            checksums = {name: _checksum(os.path.join(self._path, name)) for name in names}
            complete = {"updates": int(learner.progress.updates), "crc32": checksums}
            with replace_file(path + _COMPLETE) as file:
                file.write(json.dumps(complete).encode())
        except BaseException:
            self._remove(self.iterations)
            raise
        self._newest = path
        numbers = self._numbers()
        kept = numbers[-self._max_to_keep :]
        for number in self._numbers(r"[._].*"):
            was_cut_off = number not in {*numbers, *self._numbers(r"\.diverged")}
            if number < kept[0] or was_cut_off:
                self._remove(number)
        # ALF does not read this file; `tf.train.latest_checkpoint` does.
        paths = [self._prefix(number) for number in kept]
        state = tf.compat.v1.train.generate_checkpoint_state_proto(self._path, path, paths)
        with replace_file(os.path.join(self._path, "checkpoint")) as file:
            file.write(str(state).encode())

    def _remove(self, number):
        """Removes all files of a checkpoint, and the folder in which TensorFlow writes."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._path):
                if re.match(rf"ckpt-{number}[._]", name):
                    path = os.path.join(self._path, name)
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def _load_replay_buffer(self):
        if not os.path.exists(self._replay_path):
            logging.warning("there is no %s: the replay buffer is empty", self._replay_path)
            return
        try:
            self._replayer.load(self._replay_path)
        except ConfigError as error:
            hint = "remove the file to continue with an empty replay buffer"
            raise ConfigError(f"{error}; {hint}") from None

    def _save_replay_buffer(self, is_last):
        before = self._replay_saved
        if before is not None and before.done() and before.exception() is not None:
            logging.error("the replay buffer before could not be saved: %r", before.exception())
        if before is not None and not before.done() and not is_last:
            logging.warning("the replay buffer of the checkpoint before is still being written")
        else:
            self._replay_saved = self._background.submit(self._replayer.save, self._replay_path)


def _checksum(path):
    """Returns the CRC-32 of a file, which is on the disk then."""
    checksum = 0
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        while chunk := file.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _read_complete(path):
    with open(path + _COMPLETE, "rb") as file:
        return json.loads(file.read())


def _find_damage(path):
    """Returns None if a checkpoint is whole, or a text that says what is wrong with it."""
    try:
        for name, checksum in _read_complete(path)["crc32"].items():
            if _checksum(os.path.join(os.path.dirname(path), name)) != checksum:
                return f"{name} has another checksum"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return repr(error)
    return None
