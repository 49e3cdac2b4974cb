# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer: the loop of a training run."""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import gin
from absl import logging

from alf.callback import Callback, call_back, end_callbacks
from alf.config.kinds import NonNegativeFloat, NonNegativeInt, PositiveInt
from alf.config.parsing import check_dead_bindings
from alf.config.settings import Role, check_arguments, configurable
from alf.core.annotations import FilePath
from alf.core.files import find_path
from alf.drivers.driver import Driver
from alf.drivers.stage_clock import TRAIN
from alf.errors import (
    ConfigError,
    DivergedError,
    SaveError,
    check_type,
)
from alf.evaluation.evaluator import Evaluator
from alf.learner import LearnerGroup
from alf.runs.checkpointer import Checkpointer
from alf.runs.experiment import seed_continued_run
from alf.runs.run_dir import RunDir
from alf.runs.warm_start import warm_start
from alf.training.collection import Collection
from alf.training.machine import MachineMeter
from alf.training.progress_bar import ProgressBar, Throughput
from alf.training.run_report import EpisodeFigures, RunReport
from alf.training.stages import StageMeter
from alf.training.stop_criteria import Position, StopCriteria
from alf.training.summaries import Summaries, read_hyperparameters, write_gif, write_histogram

_EVALUATION_SECONDS = 60.0  # that an evaluation may still take when a stop criterion holds


@configurable("alf.training", checks=False)  # `__init__` does, and stops the driver
class Trainer:
    """Trains until a stop criterion holds; writes checkpoints and summaries.

    It writes nothing before everything that can be wrong has been checked: a wrong setting, a gin binding
    without effect or a `root_dir` with another run raises ConfigError and stops the driver.

    Args:
        root_dir: path, where the run writes; a run that is there is continued.
        driver: `Driver`, not started; its learner is trained.
        stop_criteria_ctor: callable () -> `StopCriteria`.
        batches_per_train_iter: batches that the driver collects for each call of `Learner.train`: with
            `ImpalaAlgorithm`, learn_queue_cap * unroll_length * batch_size steps each.
        summary_interval: seconds between two summaries for TensorBoard.
        checkpoint_interval: seconds between two checkpoints; there is one at the end in any case.
        evaluator_ctor: callable () -> `Evaluator`, which evaluates while training goes on; or None.
        checkpoint_replay_buffer: bool or "compressed": whether a checkpoint holds the replay buffer, in a
            file of its own that is written while training goes on. "compressed" does, too, and makes the file
            smaller: that of Atari games 13 to 60 times. It takes a core 2 s for each GB of images; floats are
            not compressed.
        max_to_keep: checkpoints kept.
        initial_checkpoint: where the weights of a new run come from: "DIR" or "PART@DIR", see
            `alf.runs.warm_start`. A run that is continued ignores it.
        callbacks: tuple or list of `Callback`s.
        save_git_state: whether `run.json` has the commit of the git repository of the user's own code, and
            `git_diff.patch` what was changed since. It is the first repository that the folder of a gin file,
            of another module of the user's, or the current directory is in.
        collect_from_iteration: train iterations before the driver collects. They train on
            `Experiment.offline_buffer` alone, see `ReplayTraining.train_from_replay`; then collection begins.
        collect_until_env_steps: int, environment steps learned from, over all runs in a root_dir, at which
            collection ends; None: it goes on. Then the environments are closed, and training from the replay
            buffer goes on until a stop criterion holds.
        custom_summary: callable (trainer) that each summary calls, from the thread that trains; None: none.
            What it writes with `tf.summary.scalar`, `tf.summary.histogram` and so on is in TensorBoard. An
            error that it raises ends the run.

    Attributes:
        driver, learner: the `Driver` and its `Learner`.
        metrics: dict by name of the driver's metrics.
        root_dir: as above, absolute.
    """

    def __init__(
        self,
        root_dir: Annotated[FilePath, Role.EXECUTION],
        driver: Driver,
        stop_criteria_ctor: Callable[[], StopCriteria] = StopCriteria,
        batches_per_train_iter: PositiveInt = 1,
        summary_interval: Annotated[NonNegativeFloat, Role.EXECUTION] = 2.0,
        checkpoint_interval: Annotated[NonNegativeFloat, Role.EXECUTION] = 300.0,
        checkpoint_replay_buffer: Annotated[bool | Literal["compressed"], Role.EXECUTION] = False,
        evaluator_ctor: Annotated[Callable[[], Evaluator] | None, Role.MEASUREMENT] = None,
        max_to_keep: Annotated[PositiveInt, Role.EXECUTION] = 3,
        initial_checkpoint: str | None = None,
        callbacks: Annotated[Sequence[Callback], Role.ADJUSTABLE] = (),
        save_git_state: Annotated[bool, Role.EXECUTION] = True,
        collect_from_iteration: NonNegativeInt = 0,
        collect_until_env_steps: Annotated[PositiveInt | None, Role.ADJUSTABLE] = None,
        custom_summary: Annotated[Callable[[Any], None] | None, Role.EXECUTION] = None,
    ) -> None:
        given = dict(locals())
        self.root_dir = find_path(root_dir)
        self.driver = driver
        self.learner = driver.learner
        self.metrics = {metric.name: metric for metric in driver.get_metrics()}
        self._interrupted: str | None = None  # the reason
        self._stopped: str | None = None  # the reason
        self._first_trained = None  # when the first train step was over
        self._is_training = False  # whether `train` was called
        self._evaluation_x = None  # where the last evaluation began, see `_find_x`
        self._run_dir: Any = None
        self._evaluator = self._eval_return = None
        with self._stop_on_error():
            check_arguments(Trainer, given)
            if checkpoint_replay_buffer and isinstance(self.learner, LearnerGroup):
                raise ConfigError(
                    f"Trainer.checkpoint_replay_buffer is {checkpoint_replay_buffer!r}: it does not know "
                    "several policies"
                )
            self._batches_per_train_iter = batches_per_train_iter
            if driver.batch_shape is not None:
                num_unrolls, unroll_length, batch_size = driver.batch_shape
                self.learner.check_batch(batches_per_train_iter * num_unrolls, unroll_length, batch_size)
            self._summary_interval = summary_interval
            self._custom_summary = custom_summary
            self._checkpoint_interval = checkpoint_interval
            self._callbacks = [*self.learner.callbacks, *callbacks]
            self._stop_criteria = stop_criteria_ctor()
            check_type("what Trainer.stop_criteria_ctor makes", self._stop_criteria, StopCriteria)
            phases = collect_from_iteration, collect_until_env_steps
            self._collection = Collection(driver, self._stop_criteria, *phases)
            self._make_evaluator(evaluator_ctor)
            for callback in self._callbacks:
                callback.on_check(self)
            check_dead_bindings()
            self._run_dir = RunDir(self.root_dir)
            self._run_dir.lock()
            self._run_dir.check_config()
            folder = self._run_dir.checkpoints
            self._checkpointer = Checkpointer(folder, driver, checkpoint_replay_buffer, max_to_keep)
            self._restored = self._checkpointer.restore()
            self._collection.check_buffer(**self.counters)
            self._begin(initial_checkpoint)
            self._run_dir.write_config(self.learner.policy, save_git_state)
            if not gin.config_is_locked():  # it is after an earlier run in this process
                gin.finalize()

    def _make_evaluator(self, evaluator_ctor):
        if evaluator_ctor is not None:
            self._evaluator = evaluator_ctor()
            check_type("what Trainer.evaluator_ctor makes", self._evaluator, Evaluator)
            self._evaluator.open(self.learner.policy)
        elif self._stop_criteria.target_eval_return is not None:
            raise ConfigError(
                "StopCriteria.target_eval_return is set, but nothing evaluates: set Trainer.evaluator_ctor"
            )

    @property
    def counters(self) -> dict[str, int]:
        """Dict of `iterations` and `env_steps` over all runs in the root_dir."""
        env_steps = int(self.learner.progress.env_steps)
        return {"iterations": self._checkpointer.iterations, "env_steps": env_steps}

    def add_callback(self, callback: Callback) -> None:
        """Adds a `Callback` to those of the constructor; before `train`."""
        self._callbacks.append(callback)

    def save(self) -> str:
        """Writes a checkpoint, see `Checkpointer.save`; from the thread that trains. Returns its path."""
        path = self._checkpointer.save()
        self._call_back("on_checkpoint", path)
        return path

    def copy_from(self, path: str) -> None:
        """Goes on from what another run of the same parts has learned, see `Checkpointer.copy_from`.

        What this run's old weights have collected is dropped, unless it goes to a replay buffer. From the
        thread that trains, or before `train`. ConfigError is raised where several policies learn.
        """
        if isinstance(self.learner, LearnerGroup):
            raise ConfigError(
                f"Trainer.copy_from does not know several policies, here {', '.join(self.learner.learners)}"
            )
        self._checkpointer.copy_from(path)
        if self._is_training and self.learner.needs_fresh_experience:
            self.driver.drop_old_experience()

    @property
    def evaluates(self) -> bool:
        """Whether there is an `Evaluator`."""
        return self._evaluator is not None

    def close(self) -> None:
        """Ends a trainer whose `train` is not called: closes the environments, gives the root_dir back."""
        if self._evaluator is not None:
            self._evaluator.close()
        self.driver.stop()
        self._run_dir.close()

    def stop(self, reason: str) -> None:
        """Makes `train` save and return (True, reason) after the present train iteration; from any thread."""
        self._stopped = reason

    def interrupt(self, reason: str) -> None:
        """Makes `train` save and return (False, reason) soon; from any thread."""
        self._interrupted = reason
        if self.learner.peers.count == 1:  # else all learner processes end after the same train iteration
            self.driver.interrupt()

    def train(self) -> tuple[bool, str]:
        """Trains until a stop criterion holds, or `stop` or `interrupt` is called, then saves.

        Returns (finished, reason): whether a stop criterion holds or `stop` was called, and which or why, as
        a text. Any other end of the run is an exception, which leaves earlier checkpoints as they are.
        The file `done.json` says how it ended.
        """
        self._is_training = True
        if self._restored:
            logging.info("continues from %s: %s", self._restored, self.counters)
        logging.info("tensorboard --logdir %s", self._run_dir.path)
        self._episodes = EpisodeFigures(self.metrics)
        self._report = RunReport(self._count, self._episodes, self.driver.clocks)
        with self._stop_on_error():
            self._run_dir.remove_done()
            try:
                finished, reason = self._loop_and_save()
            except BaseException as error:
                end_callbacks(self._callbacks, self, _describe_error(error), raises=False)
                raise
            end_callbacks(self._callbacks, self, reason)
            if self._evaluator is not None:
                self._evaluator.close()
            # The run is saved before the driver stops, because an environment may take long to return.
            try:
                self.driver.stop()
            except Exception as error:
                logging.error("the run is saved, but the driver did not stop as it should: %s", error)
            self._report.lap("rest")
            self._checkpointer.wait_for_replay_buffer()
            self._report.lap("checkpoints")
            self._run_dir.write_done("SUCCESS" if finished else "INTERRUPTED", reason, self.counters)
            self._run_dir.close()
        logging.info("%s after %s", reason, self.counters)
        if not int(self.learner.progress.updates):
            logging.warning("no update was made: the run ended before there was enough to train on")
        logging.info("what was done, and where the time went:\n%s", self._report.format())
        return finished, reason

    def _begin(self, initial_checkpoint):
        """Gives a continued run other seeds than before, and a new one its initial weights."""
        if self._restored:
            seed_continued_run(self.driver, self._checkpointer.iterations)
            if initial_checkpoint is not None:
                logging.info("Trainer.initial_checkpoint is ignored: there is a checkpoint of the run's own")
        elif initial_checkpoint is not None:
            if isinstance(self.learner, LearnerGroup):
                raise ConfigError("Trainer.initial_checkpoint is set: it does not know several policies")
            logging.info("%s", warm_start(self.learner.algorithm, initial_checkpoint))

    def _loop_and_save(self):
        try:
            finished, reason = self._loop()
        except DivergedError as error:
            raise DivergedError(f"{error}{self._checkpointer.discard_diverged()}") from None
        self._report.lap("rest")
        self._call_back("on_checkpoint", self._checkpointer.save(is_last=True))
        self._report.lap("checkpoints")
        return finished, reason

    def _loop(self):
        """Enters the run's phase and repeats train iterations; returns (finished, reason)."""
        self._call_back("on_begin")
        try:
            self._collection.advance(**self.counters)
        except Exception:
            if self._interrupted:
                return False, self._interrupted
            raise
        env_steps = self.counters["env_steps"] if self._restored else None
        summaries = Summaries(self._run_dir.summaries, env_steps)
        self._trained, self._collected, self._machine = Throughput(), Throughput(), MachineMeter()
        self._collected.count_up_to(self.metrics["EnvironmentSteps"].result())
        # The last summary may come soon after the one before.
        shortest = 0.5 * self._summary_interval
        self._stages = StageMeter(self.driver.clocks, lambda: int(self.learner.progress.updates), shortest)
        if self._evaluator is not None:
            self._evaluator.run(self._run_dir.path, self.counters["env_steps"])
        rates = self._trained, self._collected
        bar = ProgressBar(*rates, self._stop_criteria, self._episodes, self._stages)
        with contextlib.closing(summaries), contextlib.closing(bar):
            summaries.describe(self._find_x(), read_hyperparameters())
            return self._repeat_train_iterations(bar, summaries)

    def _repeat_train_iterations(self, bar, summaries):
        now = saved = summarized = self._report.lap("rest")
        summary, is_summarized = {}, True
        while True:
            position = self._find_position(now)
            bar.update(position, summary, self._collection.phase)
            reason = self._stopped or self._stop_criteria.reached(
                *position, self.metrics["AverageReturn"], self._eval_return
            )
            end = self._find_end(reason)
            if end is not None:
                break
            # After the decision: what a run ends with is always shown, and at a place of its own.
            if not is_summarized and now - summarized >= self._summary_interval:
                self._summarize(summaries, summary)
                summarized, is_summarized = now, True
            steps = self._collect(position)
            if steps is None:
                end = False, self._interrupted
                break
            made = self._train_iter(steps)
            summary = made or summary  # the last one, where no update was due
            is_summarized = False
            self._trained.add(steps)
            self._collected.count_up_to(self.metrics["EnvironmentSteps"].result())
            self._call_back("on_train_iter", made)
            if self._evaluator is not None:
                self._report.lap("rest")
                self._evaluate_if_due(summaries)
                self._report.lap("evaluation")
            if now - saved >= self._checkpoint_interval:
                self._report.lap("rest")
                self._save_or_warn()
                self._report.lap("checkpoints")
                saved = now
            now = self._report.lap("rest")
        self._report.note_last_train_step(self._collection.phase.collects)
        bar.close()  # what is logged comes below it
        if self._evaluator is not None and end[0]:
            self._take_evaluation(summaries, _EVALUATION_SECONDS)
            self._report.lap("evaluation")
        if self._first_trained is not None:
            logging.info("%.2f s since the first train step", position.max_seconds)
        if not is_summarized:
            self._summarize(summaries, summary)
        return end

    def _summarize(self, summaries, summary):
        x, env_steps = self._find_x(), self.counters["env_steps"]
        summaries.write(x, env_steps, self._seconds_of_training(), self._values(summary))
        for name, values in self.learner.histograms().items():
            summaries.show(x, functools.partial(write_histogram, name, values))
        if self._custom_summary is not None:
            summaries.show(x, functools.partial(self._custom_summary, self))

    def _find_x(self):
        """Where TensorBoard shows what is written now.

        These are environment steps. While nothing is collected, each train iteration counts as one, too:
        TensorBoard shows one point alone of those that have the same place.
        """
        return self.counters["env_steps"] + self._checkpointer.offline_iterations

    def _find_end(self, reached):
        """Whether the run ends before this train iteration: None, or what `train` returns.

        All learner processes end together. `reached` is the stop criterion that holds here, or None.
        """
        interrupted = self._interrupted
        with self.learner.peers.watch():
            ends = self.learner.peers.sum([int(bool(reached)), int(bool(interrupted))])
        if reached or interrupted:
            return bool(reached), reached or interrupted
        if not any(ends):
            return None
        return bool(ends[0]), "another learner process has ended the run"

    def _evaluate_if_due(self, summaries):
        """Begins an evaluation if one is due, and takes the one that has ended, if any."""
        env_steps = self.counters["env_steps"]
        if self._evaluator.is_due(env_steps):
            try:
                self._evaluator.start(self._checkpointer.save_for_evaluation(), env_steps)
                self._evaluation_x = self._find_x()
            except SaveError as error:
                logging.error("%s", error)
        self._take_evaluation(summaries)

    def _take_evaluation(self, summaries, timeout=0.0):
        """Shows the `Evaluation` that has ended, if any, and keeps its checkpoint if it is the best."""
        evaluation = self._evaluator.poll(timeout)
        if evaluation is None:
            return
        x, seconds = self._evaluation_x, self._seconds_of_training()
        summaries.write(x, evaluation.env_steps, seconds, evaluation.scalars())
        if evaluation.video is not None:
            summaries.show(x, functools.partial(write_gif, "eval/video", evaluation.video))
        figures = evaluation.figures["return"]
        self._eval_return = figures["mean"]
        is_best = False
        try:
            is_best = self._checkpointer.keep_best(evaluation)
        except SaveError as error:
            logging.error("%s", error)
        logging.info(
            "evaluation at %s env steps: return %.5g (95 %% interval %.5g to %.5g)%s",
            f"{evaluation.env_steps:,}",
            *(figures[name] for name in ("mean", "low", "high")),
            ", the best so far" if is_best else "",
        )
        self._call_back("on_evaluation", evaluation)

    def _find_position(self, now):
        """How far the run is at a time of the monotonic clock."""
        return Position(*self.counters.values(), self._seconds_of_training(now))

    def _seconds_of_training(self, now=None):
        """Seconds from the first train step of this run to a time of the monotonic clock; None: to now."""
        if self._first_trained is None:
            return 0.0
        return (time.monotonic() if now is None else now) - self._first_trained

    def _collect(self, position):
        """Collects for one train iteration; returns the environment steps, None after `interrupt`."""
        try:
            self._collection.advance(position.num_iterations, position.num_env_steps)
            if not self._collection.phase.collects:
                return 0
            steps = sum(self.driver.collect() for _ in range(self._batches_per_train_iter))
        except Exception:
            if self._interrupted:
                return None
            raise
        return steps

    def _train_iter(self, steps):
        """Trains on what is due after so many steps; returns the summary."""
        collects = self._collection.phase.collects
        summary = self.learner.train() if collects else self.learner.train_from_replay()
        now = self._report.lap(TRAIN)
        self._checkpointer.iterations += 1
        self._checkpointer.offline_iterations += not collects
        if summary and self._first_trained is None:
            self._first_trained = now
            self._report.note_first_train_step()
            self._stages.restart()  # without the time to compile
        if not summary and not steps:  # nothing was collected and no update was due
            time.sleep(0.001)
        return summary

    def _save_or_warn(self):
        """Saves while training goes on. A full disk, say, must not end the run: there will be other saves."""
        try:
            self.save()
        except SaveError as error:
            logging.error("%s", error)

    def _call_back(self, name, *args):
        call_back(self._callbacks, name, self, *args)

    def _count(self):
        """What the table at the end counts."""
        progress = self.learner.progress
        return {
            "train iterations": self._checkpointer.iterations,
            "updates": int(progress.updates),
            "env steps": int(progress.env_steps),
            "episodes": self._episodes.count(),
            **{name.replace("_", " "): n for name, n in self.learner.replayer.counts().items()},
        }

    def _values(self, summary):
        """What to show, a dict by name of scalars and of a text."""
        values = {f"metrics/{name}": metric.result() for name, metric in self.metrics.items()}
        # The averages of episodes have no value before the first episode has ended.
        values = {name: value for name, value in values.items() if not math.isnan(value)}
        values |= {f"train/{name}": value for name, value in summary.items()}
        for name, steps in (("", self._trained), ("collected_", self._collected)):
            rates = steps.rates().items()
            values |= {f"throughput/{name}steps_per_second_{window}": rate for window, rate in rates}
        values |= self._stages.measure(self._collection.phase.collects)
        values |= self._machine.measure()
        values |= {f"queues/{name}": size for name, size in self.driver.queue_sizes().items()}
        values |= {f"replay/{name}": n for name, n in self.learner.replayer.counts().items()}
        values["environments/worker_restarts"] = self.driver.num_restarts
        values["train/iterations"] = self._checkpointer.iterations
        return values

    @contextlib.contextmanager
    def _stop_on_error(self):
        """Stops the driver and unlocks the run's directory after an error, which is the one to report."""
        try:
            yield
        except BaseException as error:
            if self._evaluator is not None:
                self._evaluator.close()
            try:
                self.driver.stop()
            except Exception as other:
                logging.warning("while stopping: %s", other)
            if self._run_dir is not None:
                if self._is_training:
                    status = "INTERRUPTED" if isinstance(error, KeyboardInterrupt) else "FAILURE"
                    self._run_dir.write_done(status, _describe_error(error), self.counters)
                self._run_dir.close()
            raise


def _describe_error(error):
    return f"{type(error).__name__}: {error}"
