# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer: the loop of a training run."""

import contextlib
import time

import gin
import numpy as np
import tensorflow as tf
from absl import logging

from alf.algorithms import ImpalaAlgorithm
from alf.drivers import AsyncOffPolicyDriver, OfflineDriver, SyncOffPolicyDriver, reserve_threads
from alf.environments import load
from alf.errors import ConfigError, check_bool, check_int, check_number
from alf.nest_utils import to_tensor_spec
from alf.policies.data_transformers import Pipeline
from alf.replay import load_replayer, read_row_spec
from alf.seeds import spawn_seeds
from alf.training.progress_bar import ProgressBar, Throughput
from alf.training.run_dir import Checkpointer, RunDir, check_dead_bindings
from alf.training.stop_criteria import StopCriteria

# How long to wait where nothing was collected and no update is due.
_IDLE_SECONDS = 0.001


@gin.configurable(module="alf.training")
class Trainer:
    """Builds a run from its parts and trains until a stop criterion holds.

    Args:
        root_dir: where the run writes; a run that is there is continued.
        env_ctor: callable (seed=int) -> batched environment.
        data_transformers: callables (observation_spec, reward_spec) -> `DataTransformer`, in their order.
        algorithm_ctor: callable (observation_spec, action_spec) -> `Algorithm`, for transformed observations.
        driver_ctor: callable (envs, algorithm) -> driver.
        num_envs: batched environments. 0 learns from `offline_buffer` alone.
        offline_buffer: file of a replay buffer, see `Trainer.checkpoint_replay_buffer` and
            `Replayer.save`: the whole experience, or a part of every batch, see `HybridReplayer`.
        batches_per_train_iter: batches of unrolls for each training: with `ImpalaAlgorithm`, so many times
            learn_queue_cap * unroll_length * batch_size steps make an update.
        seed: of the run; every environment gets one of its own from it. None draws one.
        stop_criteria_ctor: callable () -> `StopCriteria`.
        summary_interval: seconds between two summaries for TensorBoard.
        checkpoint_interval: seconds between two checkpoints; there is one at the end in any case.
        checkpoint_replay_buffer: whether a checkpoint holds the replay buffer, in a file of its own that is
            written while training goes on.

    Raises:
        ConfigError: if a setting is wrong, a gin binding has no effect, or `root_dir` holds another run.
    """

    def __init__(
        self,
        root_dir,
        env_ctor=load,
        data_transformers=(),
        algorithm_ctor=ImpalaAlgorithm,
        driver_ctor=AsyncOffPolicyDriver,
        num_envs=2,
        offline_buffer=None,
        batches_per_train_iter=1,
        seed=None,
        stop_criteria_ctor=StopCriteria,
        summary_interval=2.0,
        checkpoint_interval=300.0,
        checkpoint_replay_buffer=False,
    ):
        check_int("Trainer.num_envs", num_envs, at_least=0)
        if not num_envs and offline_buffer is None:
            raise ConfigError("Trainer.num_envs is 0: without environments there must be an offline_buffer")
        check_int("Trainer.batches_per_train_iter", batches_per_train_iter)
        check_bool("Trainer.checkpoint_replay_buffer", checkpoint_replay_buffer)
        if seed is not None:
            check_int("Trainer.seed", seed, at_least=0)
        check_number("Trainer.summary_interval", summary_interval, at_least=0)
        check_number("Trainer.checkpoint_interval", checkpoint_interval, at_least=0)
        self._batches_per_train_iter = batches_per_train_iter
        self._summary_interval = summary_interval
        self._checkpoint_replay_buffer = checkpoint_replay_buffer
        self._checkpoint_interval = checkpoint_interval
        self._stop_criteria = stop_criteria_ctor()
        # Before anything starts TensorFlow, which fixes its number of threads.
        reserve_threads(2 * num_envs + 8)
        env_seeds = seed_everything(seed, num_envs)
        parts = (data_transformers, algorithm_ctor, driver_ctor)
        if num_envs:
            self._driver = self._make_driver(env_seeds, env_ctor, offline_buffer, *parts)
        else:
            self._driver = self._make_offline_driver(offline_buffer, *parts)
        self._interrupted = None
        self._first_trained = None
        try:
            self._open(root_dir)
        except BaseException:
            self._stop_quietly()
            raise

    @property
    def counters(self):
        """Dict of `iterations` and `env_steps` over all runs in the root_dir."""
        return self._checkpointer.counters

    def interrupt(self, reason):
        """Makes `train` save and return `reason` soon; from any thread."""
        self._interrupted = reason
        self._driver.interrupt()

    def train(self):
        """Trains until a stop criterion holds or `interrupt` is called, then saves.

        Returns:
            (finished, reason): whether a stop criterion holds, and which, as a text.

        Raises:
            Exception: whatever ended the run; the checkpoints of before are left as they are.
        """
        if self._restored:
            logging.info("continues from %s: %s", self._restored, self.counters)
        logging.info("tensorboard --logdir %s", self._run_dir.summaries)
        writer = tf.summary.create_file_writer(self._run_dir.summaries)
        try:
            self._driver.start()
            self._throughput = Throughput()
            progress = ProgressBar(
                self._throughput, self._stop_criteria.num_env_steps, self.counters["env_steps"]
            )
            with contextlib.closing(progress):
                finished, reason = self._loop(progress, writer)
        except BaseException:
            self._stop_quietly()
            raise
        finally:
            writer.close()
        try:
            self._checkpointer.wait_for_replay_buffer()  # of the checkpoint before
            self._checkpointer.save()
        finally:  # after the save, since an environment may take long to return
            self._driver.stop()
            self._checkpointer.wait_for_replay_buffer()
        logging.info("%s after %s", reason, self.counters)
        return finished, reason

    def _open(self, root_dir):
        """Writes nothing before everything that can be wrong has been checked."""
        check_dead_bindings()
        self._run_dir = RunDir(root_dir)
        self._run_dir.check_config()
        self._checkpointer = Checkpointer(
            self._run_dir.path + "/checkpoints",
            self.algorithm,
            self._driver.get_metrics(),
            replayer=self.algorithm.replayer if self._checkpoint_replay_buffer else None,
        )
        self._restored = self._checkpointer.restore()
        self._run_dir.write_config()
        if not gin.config_is_locked():  # it is after an earlier run in this process
            gin.finalize()

    def _make_driver(
        self, env_seeds, env_ctor, offline_buffer, data_transformers, algorithm_ctor, driver_ctor
    ):
        envs = []
        try:
            for env_seed in env_seeds:
                envs.append(env_ctor(seed=env_seed))
            observation_spec, action_spec, reward_spec = (
                to_tensor_spec(spec)
                for spec in (envs[0].observation_spec(), envs[0].action_spec(), envs[0].reward_spec())
            )
            transformer = Pipeline(observation_spec, reward_spec, data_transformers)
            self.algorithm = self._make_algorithm(algorithm_ctor, transformer, action_spec)
            if offline_buffer is not None:
                self.algorithm.set_offline_buffer(load_replayer(offline_buffer, transformer.context))
            driver = driver_ctor(envs, self.algorithm)
        except BaseException:
            for env in envs:
                env.close()
            raise
        return self._use(driver, driver.run if isinstance(driver, SyncOffPolicyDriver) else driver.run_async)

    def _make_offline_driver(self, offline_buffer, data_transformers, algorithm_ctor, driver_ctor):
        del driver_ctor
        specs = read_row_spec(offline_buffer)
        transformer = Pipeline(specs.observation, specs.reward, data_transformers)
        self.algorithm = self._make_algorithm(algorithm_ctor, transformer, specs.action)
        driver = OfflineDriver(load_replayer(offline_buffer, transformer.context), self.algorithm)
        return self._use(driver, driver.run)

    def _make_algorithm(self, algorithm_ctor, transformer, action_spec):
        algorithm = algorithm_ctor(transformer.observation_spec, action_spec)
        algorithm.set_data_transformer(transformer)
        return algorithm

    def _use(self, driver, run):
        self._run = run
        self._metrics = {metric.name: metric for metric in driver.get_metrics()}
        return driver

    def _loop(self, progress, writer):
        started = saved = summarized = time.monotonic()
        summary = None
        while True:
            now = time.monotonic()
            reason = self._stop_criteria.reached(
                self.counters["iterations"],
                self.counters["env_steps"],
                now - started,
                self._metrics["AverageReturn"],
            )
            if reason or self._interrupted:
                if self._first_trained is not None:
                    logging.info("%.2f s since the first train step", now - self._first_trained)
                if summary is not None:
                    self._summarize_the_end(writer, summary)
                return bool(reason), reason or self._interrupted
            summarize = now - summarized >= self._summary_interval
            summary = self._iterate(writer, summarize)
            if summary is None:  # interrupted while it waited for data
                return False, self._interrupted
            progress.update(self.counters["env_steps"], self._results(), summary)
            if summarize:
                summarized = now
            if now - saved >= self._checkpoint_interval:
                self._checkpointer.save()
                saved = now

    def _iterate(self, writer, summarize):
        """One train iteration; returns what to show, or None if it was interrupted."""
        try:
            with (
                writer.as_default(step=self.counters["env_steps"]),
                tf.summary.record_if(summarize),
            ):
                steps = sum(self._run() for _ in range(self._batches_per_train_iter))
        except Exception:
            if self._interrupted:
                return None
            raise
        summary = self.algorithm.train()
        if summary and self._first_trained is None:
            self._first_trained = time.monotonic()
        if not summary and not steps:
            time.sleep(_IDLE_SECONDS)
        self.counters["iterations"] += 1
        self.counters["env_steps"] += steps
        self._throughput.add(steps)
        if summarize:
            with writer.as_default(step=self.counters["env_steps"]):
                self._summarize(summary)
        return summary

    def _summarize_the_end(self, writer, summary):
        with writer.as_default(step=self.counters["env_steps"]):
            self._driver.summarize_metrics()
            self._summarize(summary)

    def _summarize(self, summary):
        for name, value in summary.items():
            tf.summary.scalar(f"train/{name}", value)
        for window, rate in self._throughput.rates().items():
            tf.summary.scalar(f"throughput/steps_per_second_{window}", rate)
        for name, size in self._driver.queue_sizes().items():
            tf.summary.scalar(f"queues/{name}", size)
        tf.summary.scalar("train/iterations", self.counters["iterations"])

    def _results(self):
        return {name: metric.result() for name, metric in self._metrics.items()}

    def _stop_quietly(self):
        """Stops after an error, which is the one to report."""
        try:
            self._driver.stop()
        except Exception as error:
            logging.warning("while stopping: %s", error)


def seed_everything(seed, num_envs):
    """Seeds TensorFlow and NumPy, and makes a seed for each environment.

    Args:
        seed: int, or None to draw one.
        num_envs: how many seeds.

    Returns:
        list of ints, see `spawn_seeds`.
    """
    if seed is not None:
        tf.random.set_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 (environments and algorithms may draw from it)
    return spawn_seeds(seed, num_envs)
