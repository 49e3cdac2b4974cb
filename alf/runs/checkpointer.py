# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Checkpointer: saves and restores a run. `alf.runs.checkpoint_files` describes the files.

All checkpoints share one file of the replay buffer, `replay_buffer.npz`, in the format of
`alf.replay.buffer_archive`: it may have many GB, and is written while training goes on. With several policies
each has a file of its own, `replay_buffer_NAME.npz`. In a run with `Experiment.deterministic` each checkpoint
has its own in its folder.
"""

import concurrent.futures
import contextlib
import dataclasses
import math
import os

import tensorflow as tf
from absl import logging

from alf.core.files import clear_unfinished, remove_folder
from alf.core.states import read_states
from alf.core.user_calls import user_call
from alf.errors import ConfigError, DivergedError, SaveError
from alf.runs import checkpoint_files as files
from alf.runs.checkpoint_variables import assign_values


@dataclasses.dataclass
class LoopCounts:
    """What a training loop counts since the run first began, over all its processes.

    Attributes:
        iterations: train iterations.
        offline_iterations: those among them that collected nothing.
    """

    iterations: int = 0
    offline_iterations: int = 0


class Checkpointer:
    """Saves and restores a learner with its algorithm and policy, the driver's metrics and the loop's counts.

    The attribute `callbacks` is the list of the `Callback`s whose state is saved.

    Args:
        path: directory of the checkpoints.
        driver: `Driver`, whose metrics are saved.
        learner: `Learner` or `LearnerGroup`.
        counts: `LoopCounts` of the loop that trains. The number of a checkpoint is its iterations.
        saves_replay_buffer: whether the experience of the replay buffer is saved, in `replay_buffer.npz`:
            True, False, or "compressed". ConfigError is raised if the replayer keeps no experience.
        max_to_keep: how many checkpoints are kept. The replay buffer has only one file.
    """

    def __init__(self, path, driver, learner, counts, saves_replay_buffer=False, max_to_keep=3):
        self._counts = counts
        self.callbacks, self._callback_states = [], {}
        self._path = path
        self._driver, self._learner = driver, learner
        self._max_to_keep = max_to_keep
        self._replayers = _find_replayers(learner) if saves_replay_buffer else {}
        self._compresses = saves_replay_buffer == "compressed"
        # One thread: two writers of the same file would replace each other's work in any order.
        self._background = concurrent.futures.ThreadPoolExecutor(1, "save-replay-buffer")
        self._replay_saved = None  # the future of the last write in the background
        self._newest = None  # the path of the checkpoint that holds the present state of the learner, if any
        self._root = tf.train.Checkpoint(learner=learner)

    def save(self, is_last=False, asks_callbacks=True):
        """Writes a checkpoint of the present state; returns its path.

        The states of the callbacks are those of the checkpoint before, unless `asks_callbacks`.

        If the write is cut off, the checkpoint before stays the newest one. The replay buffer is written in
        the background. Unless `is_last`, it is left out while the write before is still going on. An error in
        the background is logged at the next call, and raised by `wait_for_replay_buffer`.

        Raises:
            DivergedError: if a variable is not finite, because no run could continue from it.
            SaveError: if the files cannot be written.
        """
        # The weights first: a slow or failing write of the buffer must not keep them back.
        self._save_learner(asks_callbacks)
        if self._replayers and not self._driver.deterministic:
            self._save_replay_buffers(is_last)
        return self._newest

    @property
    def newest(self):
        """The path of the newest checkpoint, from which the run would go on; None if there is none."""
        return self._newest

    @property
    def is_saved(self):
        """Whether the newest checkpoint has the present train iteration."""
        return self._newest == self._path_of(self._counts.iterations)

    def save_for_evaluation(self):
        """Saves in the folder `evaluated`, without the replay buffer; returns the path.

        It replaces the checkpoint there. No run continues from it.
        """
        path = files.path_of(os.path.join(self._path, "evaluated"), self._counts.iterations)
        with _save_errors():
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._path)  # before the first checkpoint
            self._write(path)
            files.remove_others(path)
        return path

    def keep_best(self, evaluation):
        """Keeps the checkpoint of an `Evaluation` in the directory `best`, if its score is the highest.

        Returns whether it was kept. The file `evaluation.json` in the checkpoint has the figures.
        """
        folder, weights = os.path.join(self._path, "best"), evaluation.reward_weights
        # NaN and infinity are refused first: nothing would ever be more. All count by the present weights of
        # a vector reward.
        score = evaluation.score
        if not math.isfinite(score) or any(score <= kept for kept, _ in files.list_best(folder, weights)):
            return False
        try:
            content = evaluation._asdict()
            del content["video"]
            files.keep_best(evaluation.path, folder, content)
        except OSError as error:
            raise SaveError(f"the best checkpoint could not be kept: {error}") from error
        return True

    def wait_for_replay_buffer(self):
        """Waits until the replay buffer's file is complete; raises SaveError if it could not be written."""
        try:
            if self._replay_saved is not None:
                # Raises here, in the training thread, what the write raised in the background.
                self._replay_saved.result()
        except OSError as error:
            raise SaveError(f"the replay buffer could not be saved: {error}") from error

    def restore(self):
        """Restores the newest checkpoint that is not damaged; returns its path, or None if there is none.

        Removes what a kill has left of a save before, so only the run that has locked the directory may call
        it. Damaged checkpoints are logged. ConfigError is raised if the checkpoint does not fit the
        algorithm, or if all checkpoints are damaged: a run that began anew would replace them.
        """
        for folder in (self._path, *(os.path.join(self._path, name) for name in ("best", "evaluated"))):
            if os.path.isdir(folder):
                clear_unfinished(folder)
        paths = [self._path_of(number) for number in reversed(files.list_numbers(self._path))]
        if not paths:
            return None
        path, (values, state) = files.read_first(paths, self._read)
        assign_values(values)
        self._set_state(state)
        # The learner has the state of these files now: a save before the next iteration writes nothing.
        self._newest = path
        if not self._driver.deterministic:
            for name, replayer in self._replayers.items():
                _load_replay_buffer(replayer, os.path.join(self._path, name))
        return path

    def _read(self, path):
        """Reads (values, state) of a checkpoint, and loads the replay buffer that it may have for itself."""
        content = files.read_variables(path, self._root, "algorithm"), files.read_state(path)
        if self._driver.deterministic:
            for name, replayer in self._replayers.items():
                try:
                    replayer.load(os.path.join(path, name))
                except ConfigError as error:
                    raise files.DamagedError(f"the checkpoint {path} is damaged: {error}") from None
        return content

    def restore_callbacks(self):
        """Gives the `callbacks` their states in the checkpoint that was restored, if it has any."""
        for name, callback in _name_callbacks(self.callbacks).items():
            if name in self._callback_states:
                with user_call(f"set_state of {name}"):
                    callback.set_state(self._callback_states[name])

    def copy_from(self, path):
        """Takes over the training of another run with the same parts, from the path of its checkpoint.

        This copies all variables of the other learner (weights, optimizer, statistics), and the figures of
        its last episodes, because these weights made them. This run keeps its counters, its replay buffer and
        the numbers of its checkpoints: limits, schedules and the order of its checkpoints depend on them. The
        copy counts as an update, because the weights have a new version.

        Raises `checkpoint_files.DamagedError` if it cannot be read, and ConfigError if it does not fit.
        """
        learner = self._learner
        values, theirs = files.read_variables(path, self._root, "algorithm"), files.read_state(path)
        # Actors read the counters at any moment, as the version of the weights: they never show the other
        # run's.
        counters = {id(counter) for counter in learner.counters}
        assign_values((variable, value) for variable, value in values if id(variable) not in counters)
        learner.note_copied_weights()
        self._driver.copy_episodes(theirs["driver"])

    def discard_diverged(self):
        """Sets aside the checkpoints of the present weights, because their update was not finite.

        Their names get the ending ".diverged". Returns a text that says so, or "" without such checkpoints.
        """
        # The number of updates names the weights. From exactly these the update was not finite, so a run that
        # continued from them would most likely fail again. From an older checkpoint it collects other
        # experience.
        updates, aside = int(self._learner.progress.updates), []
        for number in files.list_numbers(self._path):
            path = self._path_of(number)
            with contextlib.suppress(OSError, ConfigError):
                if files.read_state(path)["updates"] == updates:
                    if os.path.isdir(path + files.DIVERGED):  # of an earlier start of this run
                        remove_folder(path + files.DIVERGED)
                    os.rename(path, path + files.DIVERGED)
                    aside.append(os.path.basename(path))
        # A later save must not take the files for its own checkpoint, which has another name now.
        self._newest = None
        return f"; {', '.join(aside)} has these weights and is set aside" if aside else ""

    def _get_state(self):
        """Returns the state that Python keeps, a dict of JSON."""
        learner = self._learner
        return {
            **dataclasses.asdict(self._counts),
            "updates": int(learner.progress.updates),
            "driver": self._driver.get_state(),
            "learner": learner.get_state(),
            "callbacks": self._callback_states,
        }

    def _set_state(self, state):
        for field in dataclasses.fields(self._counts):
            setattr(self._counts, field.name, state[field.name])
        self._driver.set_state(state["driver"])
        self._learner.set_state(state["learner"])
        self._callback_states = state["callbacks"]

    def _path_of(self, number):
        return files.path_of(self._path, number)

    def _save_learner(self, asks_callbacks):
        """Writes a checkpoint, unless the newest one already has this state; raises the errors of `save`."""
        # An interval, an evaluation and the end of a run may come in the same iteration: one write is enough.
        if self.is_saved and os.path.isdir(self._newest):  # somebody may have removed it
            return
        path = self._path_of(self._counts.iterations)
        with _save_errors():
            self._write(path, self._replayers if self._driver.deterministic else {}, asks_callbacks)
            self._newest = path
            self._tidy()

    def _tidy(self):
        """Removes old checkpoints, when a new one is complete."""
        numbers = files.list_numbers(self._path)
        # Newer ones are damaged, or the run would have continued from them.
        kept = [n for n in numbers if n <= self._counts.iterations][-self._max_to_keep :]
        for number in set(numbers) - set(kept):
            files.remove(self._path_of(number))
        for number in files.list_numbers(self._path, files.DIVERGED):
            if number < kept[0]:
                files.remove(self._path_of(number) + files.DIVERGED)

    def _write(self, path, replayers=(), asks_callbacks=True):
        """Writes a checkpoint, with the files of `replayers`, of the form of `_replayers`."""
        for variable in self._learner.variables:
            if variable.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(variable))):
                raise DivergedError(
                    f"{variable.name} is not finite, so no checkpoint was written: lower the "
                    "optimizer's learning_rate or set max_grad_norm"
                )
        if asks_callbacks:
            self._callback_states = read_states(_name_callbacks(self.callbacks))
        state = self._get_state()
        with files.replace(path) as folder:
            files.write_weights(folder, self._root)
            files.write_state(folder, state)
            for name in replayers:
                replayers[name].save(os.path.join(folder, name), self._compresses)

    def _save_replay_buffers(self, is_last):
        # Skipped while the write before goes on: with a slow disk writes would queue up, and the run would
        # wait for all of them at its end. Only the last one waits its turn, because none follows it.
        before = self._replay_saved
        if before is not None and before.done() and before.exception() is not None:
            logging.error("the replay buffer before could not be saved: %r", before.exception())
        if before is not None and not before.done() and not is_last:
            logging.warning("the replay buffer of the checkpoint before is still being written")
        else:
            self._replay_saved = self._background.submit(self._write_replay_buffers)

    def _write_replay_buffers(self):
        for name, replayer in self._replayers.items():
            # In the thread of `_background`, while the training thread adds steps: `buffer_file.save` allows
            # it.
            replayer.save(os.path.join(self._path, name), self._compresses)


@contextlib.contextmanager
def _save_errors():
    """Raises errors of files as SaveError."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise SaveError(f"no checkpoint was saved: {files.tell(error)}") from error


def _name_callbacks(callbacks):
    """Returns a dict of callbacks: by class, and by number among those of the class."""
    names = [type(callback).__name__ for callback in callbacks]
    return {f"{name}/{names[:i].count(name)}": callbacks[i] for i, name in enumerate(names)}


def _find_replayers(learner):
    """Returns a dict from the name of a file to the replayer whose experience the file holds."""
    saved, names = {}, set()
    for name, one in learner.learners.items():
        names.add(repr(one.replayer.name))
        if hasattr(one.replayer, "save"):
            # The learner of a single policy is the only entry of its own dict; its file has no policy's name.
            file_name = "replay_buffer.npz" if one is learner else f"replay_buffer_{name}.npz"
            saved[file_name] = one.replayer
    if not saved:
        raise ConfigError(
            f"Checkpoints.replay_buffer is True, but exp_replayer is {' and '.join(sorted(names))}, "
            "which keeps nothing"
        )
    return saved


def _load_replay_buffer(replayer, path):
    # Not an error: the weights are whole, and updates wait until the new buffer is filled.
    if not os.path.exists(path):
        logging.warning("there is no %s: the replay buffer is empty", path)
        return
    try:
        replayer.load(path)
    except ConfigError as error:
        hint = "remove the file to continue with an empty replay buffer"
        raise ConfigError(f"{error}; {hint}") from None
