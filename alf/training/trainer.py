# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer: the loop of a training run. `Callback`s do all other work."""

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import gin
from absl import logging

from alf.callback import Callback, call_back, calling, check_hooks, end_callbacks
from alf.config.kinds import NonNegativeInt, PositiveInt
from alf.config.parsing import check_dead_bindings, operative_config
from alf.config.settings import Role, check_arguments, configurable
from alf.core.annotations import FilePath
from alf.core.files import find_path
from alf.core.user_calls import user_call
from alf.drivers.driver import Driver
from alf.drivers.stage_clock import REST, STORE, TRAIN
from alf.errors import ConfigError, DivergedError, InterruptedDriverError, describe_error, make_part
from alf.evaluation.evaluator import Evaluator
from alf.learner.learner import Learner
from alf.runs.checkpointer import LoopCounts
from alf.runs.run_description import check_environments
from alf.runs.run_dir import RunDir, has_checkpoints, has_succeeded
from alf.runs.seeds import seed_continued_run
from alf.runs.warm_start import warm_start
from alf.training.call_watch import watching_calls
from alf.training.checkpoints import Checkpoints
from alf.training.collection import Collection, Phase, check_parts
from alf.training.determinism import Determinism
from alf.training.ending import SignalName, describe_end, ending_at_signals
from alf.training.evaluations import Evaluations, make_evaluations
from alf.training.progress import NO_UPDATE, Progress, count_policy_steps
from alf.training.stop_criteria import Position, StopCriteria
from alf.training.summaries import Summaries


@configurable("alf.training", checks=False)  # `__init__` checks, and stops the driver
class Trainer:
    """Trains until a stop criterion holds; writes checkpoints and summaries.

    The constructor checks everything before it writes anything: a wrong setting, a gin binding without effect
    or a `root_dir` with another run raises ConfigError and stops the driver. At its end it calls
    `gin.finalize`, which runs the hooks of the program and locks gin's configuration, unless it is locked.

    Args:
        root_dir: path of the directory of the run. If it holds a run, this run is continued.
        driver: `Driver`, not started.
        learner: `Learner` of the driver's policy, or `LearnerGroup` of its policies.
        stop_criteria: `StopCriteria`, or a callable that returns them.
        batches_per_train_iter: batches that the driver collects for each call of `Learner.train`: with
            `ImpalaAlgorithm`, learn_queue_cap * unroll_length * batch_size steps each.
        checkpoints: `Checkpoints`, or a callable that returns them.
        summaries: `Summaries`, or a callable that returns them.
        evaluator: `Evaluator`, or a callable that returns one, which evaluates while training goes on; or
            None.
        callbacks: tuple or list of `Callback`s.
        initial_checkpoint: text, the source of the weights of a new run: "DIR", the directory of a run, or
            "PART@DIR", with syntax as in `alf.runs.warm_start`. A continued run ignores it.
        save_git_state: whether to save the state of the git repository of the user's code: the commit in
            `run.json`, and the changes since the commit in `git_diff.patch`. The repository is the first that
            holds the folder of a gin file or of another module of the user.
        collect_from_iteration: int, train iterations before collection begins. They train only on
            `Experiment.offline_buffer`.
        collect_until_env_steps: int, environment steps learned from, over all runs in a root_dir, at which
            collection ends. Then the environments are closed, and training from the replay buffer goes on
            until a stop criterion holds. None: collection does not end.
        signals: signals at which `train` saves and ends in a Python program, in its main thread. After SIGINT
            (Ctrl-C) it raises KeyboardInterrupt, after "SIGTERM", "SIGUSR1" (which Slurm sends with
            `--signal=USR1@60`) and others SystemExit with 128 plus the number. Commands always do this.

    Attributes:
        driver, learner: as the arguments.
        metrics: dict of the driver's metrics by name.
        root_dir: absolute path of the directory.
        operative_config: the text of `operative_config.gin`: all settings that gin has given to the parts.
        restored: path of the checkpoint from which the run continues, or None.
        now: time of the training loop in seconds of its clock. It changes only between two parts of an
            iteration.
        finished: whether the run ended by a stop criterion or `stop`; None before the end.
        signalled: the first signal that ends the run, and its time by `time.monotonic`; None before one.
        eval_return: mean return of the last evaluation, or None.
        checkpoints, summaries, progress: ALF's own callbacks.
    """

    def __init__(
        self,
        root_dir: Annotated[FilePath, Role.EXECUTION],
        driver: Driver,
        learner: Learner,
        stop_criteria: StopCriteria | Callable[[], StopCriteria] = StopCriteria,
        batches_per_train_iter: PositiveInt = 1,
        checkpoints: Annotated[Checkpoints | Callable[[], Checkpoints], Role.EXECUTION] = Checkpoints,
        summaries: Annotated[Summaries | Callable[[], Summaries], Role.EXECUTION] = Summaries,
        evaluator: Annotated[Evaluator | Callable[[], Evaluator] | None, Role.MEASUREMENT] = None,
        callbacks: Annotated[Sequence[Callback], Role.ADJUSTABLE] = (),
        initial_checkpoint: str | None = None,
        save_git_state: Annotated[bool, Role.EXECUTION] = True,
        collect_from_iteration: NonNegativeInt = 0,
        collect_until_env_steps: Annotated[PositiveInt | None, Role.ADJUSTABLE] = None,
        signals: Annotated[Sequence[SignalName], Role.EXECUTION] = ("SIGINT",),
    ) -> None:
        given = dict(locals())
        self.root_dir = find_path(root_dir)
        self.driver, self.learner = driver, learner
        self.metrics = {metric.name: metric for metric in driver.get_metrics()}
        self.now = driver.clocks.learner.lap(REST)
        self._counts = LoopCounts()
        self.finished: bool | None = None
        self.eval_return: float | None = None
        self._interrupted: str | None = None  # the reason; any thread may set it
        self.signalled: tuple[int, float] | None = None
        self._stopped: str | None = None  # the reason; any thread may set it
        self._first_trained: float | None = None  # the time at the end of the first train step
        self._is_training = self._is_saving = False  # whether `train` was called; whether `save` runs
        self._run_dir: Any = None
        self._own: list[Callback] = []
        self._users: list[Callback] = []
        with self._stop_on_error():
            check_arguments(Trainer, given)
            for callback in callbacks:
                check_hooks(callback)
            self._users = [*self.learner.callbacks, *callbacks]
            self._signals = tuple(signals)
            self._batches_per_train_iter = batches_per_train_iter
            check_parts(driver, learner, batches_per_train_iter)
            self._stop_criteria = make_part("Trainer.stop_criteria", stop_criteria, StopCriteria)
            phases = collect_from_iteration, collect_until_env_steps
            self._collection = Collection(driver, learner, self._stop_criteria, *phases)
            self.progress = Progress(self._stop_criteria)
            self.summaries = make_part("Trainer.summaries", summaries, Summaries)
            self.checkpoints = make_part("Trainer.checkpoints", checkpoints, Checkpoints)
            evaluations = make_evaluations(evaluator, self._stop_criteria)
            checks = [Determinism(self._stop_criteria)] if driver.deterministic else []
            self._own = [self.progress, *checks, *evaluations, self.summaries, self.checkpoints]
            self.call_back("on_check")
            check_dead_bindings()
            self.operative_config = operative_config()  # everything is built by now
            # All checks that need no directory are above. From here on the run has its directory.
            self._run_dir = RunDir(self.root_dir)
            # Before the directory is read: from now on no other process changes what is checked here.
            self._run_dir.lock()
            self._run_dir.check_config(self.operative_config, driver.deterministic)
            if has_checkpoints(self.root_dir):
                check_environments(self.root_dir, self.learner.policy)
            self.restored = self.checkpoints.open(self._run_dir.checkpoints, driver, learner, self._counts)
            self._checkpointer.callbacks = self._users
            self._env_steps = self.counters["env_steps"]
            self._collection.check_buffer(**self.counters)
            self._begin(initial_checkpoint)
            if not self._is_over() or not self._run_dir.has_config:
                places = {"learner": self.learner.device, "actors": driver.actor_device}
                self._run_dir.write_config(self.operative_config, self.learner.policy, save_git_state, places)
            # No thread of the run has started yet: none of them can see a binding change.
            if not gin.config_is_locked():  # it is after an earlier run in this process
                gin.finalize()

    def _begin(self, initial_checkpoint):
        """Seeds a continued run anew, so that it repeats nothing; loads the initial weights of a new one."""
        if self.restored:
            seed_continued_run(self.driver, self._counts.iterations)
            if initial_checkpoint is not None:
                logging.info("Trainer.initial_checkpoint is ignored: there is a checkpoint of the run's own")
        elif initial_checkpoint is not None:
            logging.info("%s", warm_start(self.learner, initial_checkpoint))

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in self.counters.items())
        return f"<Trainer of {self.root_dir}: {counts}>"

    @property
    def counters(self) -> dict[str, int]:
        """A dict of ints, `iterations` and `env_steps`, over all runs in the root_dir."""
        env_steps = int(self.learner.progress.env_steps)
        return {"iterations": self._counts.iterations, "env_steps": env_steps}

    @property
    def position(self) -> Position:
        """The `Position` of the run at the time `now`."""
        seconds = 0.0 if self._first_trained is None else self.now - self._first_trained
        return Position(self._counts.iterations, self._env_steps, seconds)

    @property
    def phase(self) -> Phase:
        """The part of the run: before, during or after collection."""
        return self._collection.phase

    @property
    def collects(self) -> bool:
        """Whether the driver collects now."""
        return self.phase is not None and self.phase.collects

    @property
    def summary_step(self) -> int:
        """The present x value for TensorBoard, an int: environment steps.

        While nothing is collected, each train iteration adds 1, because TensorBoard shows only one of several
        points at the same x value.
        """
        return self.counters["env_steps"] + self._counts.offline_iterations

    @property
    def summary_path(self) -> str:
        """The directory of TensorBoard's files."""
        return self._run_dir.summaries

    @property
    def is_interrupted(self) -> bool:
        """Whether `interrupt` was called."""
        return self._interrupted is not None

    @property
    def evaluates(self) -> bool:
        """Whether there is an `Evaluator`."""
        return any(isinstance(callback, Evaluations) for callback in self._own)

    @property
    def _checkpointer(self):
        return self.checkpoints.checkpointer

    def add_callback(self, callback: Callback) -> None:
        """Adds a `Callback` after the callbacks of the constructor. Call it before `train`."""
        check_hooks(callback)
        self._users.append(callback)

    def call_back(self, name: str, *args: Any) -> None:
        """Calls a method of all callbacks."""
        # Progress counts the steps, for all others; summaries and checkpoints include what the user's do.
        call_back([*self._own[:1], *self._users, *self._own[1:]], name, self, *args)

    def save(self, is_last: bool = False) -> str:
        """Writes a checkpoint and returns its path. Only the training thread may call it.

        Raises:
            ConfigError: in `Callback.on_checkpoint`, which would be called for ever.
        """
        if self._is_saving:
            raise ConfigError("on_checkpoint calls Trainer.save: the checkpoint is saved already, at `path`")
        self._is_saving = True
        try:
            path = self.checkpoints.save(self, is_last)
            self.call_back("on_checkpoint", path)
        finally:
            self._is_saving = False
        return path

    def copy_from(self, path: str) -> None:
        """Copies the learned variables of another run with the same parts.

        Experience of the old weights is dropped, except in a replay buffer. The copy counts as a train
        iteration. Call it from the training thread, or before `train`, with the path of a checkpoint.
        """
        self._checkpointer.copy_from(path)
        # The next checkpoint must not replace the one of the weights before: a kill would leave neither.
        self._counts.iterations += 1
        self.driver.publish_soon()

    def close(self) -> None:
        """Closes a trainer if `train` is not called: closes the environments and unlocks the root_dir."""
        self._close_callbacks()
        self.driver.stop()
        self._run_dir.close()

    def stop(self, reason: str) -> None:
        """Makes `train` save and return (True, reason) after this train iteration. Any thread may call it."""
        self._stopped = reason

    def interrupt(self, reason: str, signum: int | None = None) -> None:
        """Makes `train` save and return (False, reason) soon. Any thread may call it.

        `signum`: the signal that asks for it, if one does. Then `Monitoring.signal_timeout` limits the calls
        of user code until the end.
        """
        self._interrupted = reason
        if signum is not None:
            self.signalled = self.signalled or (signum, time.monotonic())
        # Several learner processes must end after the same train iteration: none is interrupted within one.
        if self.learner.peers.count == 1:
            self.driver.interrupt()

    def train(self) -> tuple[bool, str]:
        """Trains until a stop criterion holds, or `stop` or `interrupt` is called, then saves.

        Returns (finished, reason): whether a stop criterion holds or `stop` was called; and a text that names
        the criterion or the reason. Any other end of the run is an exception; earlier checkpoints stay as
        they are. The file `done.json` records the end. A run that ended at a stop criterion, and has nothing
        more to do, writes no file and calls no callback.

        Raises:
            KeyboardInterrupt, SystemExit: after a signal, once the run is saved, as `signals` says.
        """
        done = functools.partial(self._run_dir.write_done, "INTERRUPTED")
        describe = functools.partial(describe_end, self)
        with ending_at_signals(self._signals, self.interrupt, describe), watching_calls(self, done):
            return self._train()

    def _train(self):
        """Trains as `train` says; returns (finished, reason)."""
        if self._is_over():
            self.finished, reason = True, self._find_reached()
            self.close()
            logging.info("%s: the run has ended before, and nothing is written", reason)
            return True, reason
        self._is_training = True
        if self.restored:
            logging.info("continues from %s: %s", self.restored, self.counters)
        logging.info("tensorboard --logdir %s", self._run_dir.path)
        with self._stop_on_error():
            self._run_dir.remove_done()
            try:
                self.finished, reason = self._loop()
                # ALF's own come first, and save: an error in the user's `on_end` costs no checkpoint.
                with self.checkpoints.saving_after_error(self):
                    call_back(self._own, "on_end", self, reason)
            except BaseException as error:
                end_callbacks(self._users, self, describe_error(error), raises=False)
                raise
            end_callbacks(self._users, self, reason)
            self._end(reason)
        return self.finished, reason

    def _is_over(self):
        """Whether this process continues a run that has ended at a stop criterion and is saved."""
        # Several learner processes find the end together, each with a directory of its own.
        if not self.restored or self.learner.peers.count > 1:
            return False
        is_saved = self._checkpointer.is_saved  # not after `copy_from`
        return is_saved and has_succeeded(self.root_dir) and self._find_reached() is not None

    def _loop(self):
        """Repeats train iterations; returns (finished, reason)."""
        self._lap(REST)  # intervals begin now, not when the trainer was made
        self._checkpointer.restore_callbacks()
        try:
            self.call_back("on_begin")
            while True:
                end = self._find_end()
                if end is not None:
                    return end
                with self.checkpoints.saving_after_error(self):
                    self.call_back("on_iter_begin")
                    num_batches = self._collect()
                    if num_batches is None:
                        return False, self._interrupted
                    summary = self._train_iter(num_batches)
                    self.call_back("on_train_iter", summary)
                self._lap(REST)
        except InterruptedDriverError:  # in a callback that called environments
            if self._interrupted is None:
                raise
            return False, self._interrupted
        except DivergedError as error:
            # A run that continues with these weights would probably diverge again: it must begin from an
            # older checkpoint.
            raise DivergedError(f"{error}{self._checkpointer.discard_diverged()}") from None

    def _find_end(self):
        """Returns (finished, reason) if the run ends before this train iteration, else None."""
        # Read once: another thread may set it between two reads.
        interrupted = self._interrupted
        reached = self._stopped or self._find_reached()
        # All learner processes exchange this before each iteration, so they end together: a process that went
        # on would wait for the others for ever.
        with self.learner.peers.watch():
            ends = self.learner.peers.sum([int(bool(reached)), int(bool(interrupted))])
        if reached or interrupted:
            return bool(reached), reached or interrupted
        if not any(ends):
            return None
        return bool(ends[0]), "another learner process has ended the run"

    def _find_reached(self):
        """Returns a text that names the stop criterion that is reached, or None."""
        least_env_steps = min(count_policy_steps(self.learner).values(), default=self._env_steps)
        figures = self.metrics["BalancedReturn"], self.eval_return, least_env_steps
        return self._stop_criteria.reached(*self.position, *figures)

    def _collect(self):
        """Collects for one train iteration; returns the number of batches, or None after `interrupt`."""
        try:
            self._collection.advance(self._counts.iterations, self._env_steps)
            if not self.collects:
                return 0
            num_batches = 0
            for _ in range(self._batches_per_train_iter):
                for experience in self.driver.collect():
                    with user_call("Learner.observe", is_update=True):
                        self.learner.observe(experience)
                    self._lap(STORE)
                    num_batches += 1
            return num_batches
        except Exception:
            # The driver was made to fail by `interrupt`, so this is how the run ends and not an error of it.
            if self._interrupted:
                return None
            raise

    def _train_iter(self, num_batches):
        """Trains after `num_batches` batches were collected; returns the summary."""
        with user_call("an update of the learner", is_update=True):
            summary = self.learner.train() if self.collects else self.learner.train_from_replay()
        self._lap(TRAIN)
        # After the updates: a checkpoint never counts an iteration whose updates it lacks.
        self._counts.iterations += 1
        self._counts.offline_iterations += not self.collects
        self._env_steps = int(self.learner.progress.env_steps)
        if summary and self._first_trained is None:
            self._first_trained = self.now
        # Nothing was collected and no update was made, as in the mode "poll": leave the core to others.
        if not summary and not num_batches:
            time.sleep(0.001)
        return summary

    def _lap(self, stage):
        self.now = self.driver.clocks.learner.lap(stage)

    def _end(self, reason):
        """Stops the driver of a run that is saved, closes callbacks and directory, and logs the report."""
        self._close_callbacks()
        # An environment may take long to return, so the run was saved before the driver stops.
        try:
            self.driver.stop()
        except Exception as error:
            logging.error("the run is saved, but the driver did not stop as it should: %s", error)
        with self.driver.clocks.learner.stage("checkpoints"):
            # Before `done.json`, which says that everything is on the disk.
            self._checkpointer.wait_for_replay_buffer()
        self._run_dir.write_done("SUCCESS" if self.finished else "INTERRUPTED", reason, self.counters)
        self._run_dir.close()
        logging.info("%s after %s", reason, self.counters)
        if self.finished and not int(self.learner.progress.updates):  # others may have ended too soon for one
            logging.warning(NO_UPDATE, "in this run")
        logging.info("what was done, and where the time went:\n%s", self.progress.format_report())

    def _close_callbacks(self):
        for callback in [*self._own, *self._users]:
            with calling(callback, "on_close"):
                callback.on_close(self)

    @contextlib.contextmanager
    def _stop_on_error(self):
        """Context that stops the driver and unlocks the directory after an error, and raises this error."""
        try:
            yield
        except BaseException as error:
            self.finished = None  # also if the run was over, and its last save failed
            # The lock of the directory goes last, below: until then these may still write there.
            for close in (self._close_callbacks, self.driver.stop):
                try:
                    close()
                except BaseException as other:
                    logging.warning("while stopping: %s", describe_error(other))
            if self._run_dir is not None:
                if self._is_training:
                    status = "INTERRUPTED" if isinstance(error, KeyboardInterrupt) else "FAILURE"
                    self._run_dir.write_done(status, describe_error(error), self.counters)
                self._run_dir.close()
            raise
