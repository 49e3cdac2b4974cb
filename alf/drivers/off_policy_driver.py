# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the asynchronous and the synchronous driver share."""

import abc
import math
from fractions import Fraction

import tensorflow as tf

from alf.data_structures import Experience, LogRecord, PolicyStep
from alf.drivers.env_specs import EnvSpecs
from alf.drivers.metrics import AverageEpisodeLength, AverageReturn, EnvironmentSteps, NumberOfEpisodes
from alf.drivers.policy import BatchedPolicy
from alf.errors import ConfigError, check_bool, check_int, check_number
from alf.nest_utils import add_leading_dims


class OffPolicyDriver(abc.ABC):
    """Environments and an algorithm, brought together.

    Args:
        envs: list of batched environments that agree on batch size and specs. The driver closes them.
        algorithm: an `Algorithm`; it gets its replayer here.
        unroll_length: T, transitions per unroll. Below 1, for replayers to sample from: T is 1, and a
            fraction f collects at one of 1 / f calls only; 0 takes what is there, see
            `AsyncOffPolicyDriver`.
        observers: callables of one `LogRecord` of NumPy arrays, called for every T steps of every
            environment, in order per environment.
        metrics: further metrics, see `alf.drivers.metrics`; observers with a result.
        exp_replayer: name of the replayer, see `alf.replay`.
        overwrite_policy_output: whether the environments say which actions were taken in place of the
            policy's, by `taken_action()` -> nest of [B, ...], of their last step; a person's or a script's,
            for instance. `Experience.action` and `prev_action` are these then. For algorithms that learn
            from them rather than from `info`.
        actor: the `Algorithm` that acts, `algorithm` itself by default.

    Raises:
        ConfigError: if an argument is out of range or the specs do not fit together.
    """

    def __init__(
        self,
        envs,
        algorithm,
        unroll_length,
        observers,
        metrics,
        exp_replayer,
        overwrite_policy_output,
        actor=None,
    ):
        _check_unroll_length(unroll_length)
        self._collections_per_call = (
            Fraction(unroll_length).limit_denominator(1000) if unroll_length < 1 else 1
        )
        self._collections_due = 0
        unroll_length = max(unroll_length, 1)
        self._envs = list(envs)
        self._specs = EnvSpecs(self._envs)
        check_bool("overwrite_policy_output", overwrite_policy_output)
        if overwrite_policy_output and not all(hasattr(env, "taken_action") for env in self._envs):
            raise ConfigError("overwrite_policy_output is True, but an environment has no taken_action()")
        self._algorithm = algorithm
        self._unroll_length = unroll_length
        self._policy_step_spec = PolicyStep(
            self._specs.action, algorithm.policy_state_spec, algorithm.rollout_info_spec
        )
        self._policy = BatchedPolicy(actor or algorithm, self._specs, self._policy_step_spec)
        self._step_metrics = [EnvironmentSteps(), NumberOfEpisodes()]
        self._metrics = [*self._step_metrics, AverageReturn(), AverageEpisodeLength(), *metrics]
        self._observers = [*self._metrics, *observers]
        algorithm.set_exp_replayer(exp_replayer, self._unroll_spec(keep_bounds=True), self.num_envs)
        if self._collections_per_call < 1 and not algorithm.has_buffer:
            raise ConfigError(
                f"unroll_length is {float(self._collections_per_call):g}, less than 1: exp_replayer must be "
                f"one to sample from then, such as 'uniform', not {exp_replayer!r}"
            )

    @property
    def num_envs(self):
        """Number of batched environments."""
        return len(self._envs)

    @property
    def batch_size(self):
        """B, sub-environments of each."""
        return self._specs.batch_size

    @abc.abstractmethod
    def start(self):
        """Gets the environments going. Once."""

    @abc.abstractmethod
    def get_training_exps(self):
        """Returns an `Experience` of [Q, T+1, B, ...], and how many environment steps it holds (int64)."""

    @abc.abstractmethod
    def run(self):
        """Collects one batch of unrolls synchronously and lets the algorithm observe it; returns steps."""

    @abc.abstractmethod
    def stop(self):
        """Ends everything and closes the environments; may be repeated."""

    def get_step_metrics(self):
        """The metrics that count: environment steps and episodes."""
        return self._step_metrics

    def get_metrics(self):
        """All metrics: the step metrics, the average return and length, and the user's."""
        return self._metrics

    def queue_sizes(self):
        """Items that wait in the queues, a dict of ints; empty without queues."""
        return {}

    def _collects_now(self):
        """Whether this call collects, as every one does unless `unroll_length` is a fraction."""
        self._collections_due += self._collections_per_call
        if self._collections_due < 1:
            return False
        self._collections_due -= 1
        return True

    def _observe_training_exps(self):
        experience, steps = self.get_training_exps()
        self._algorithm.observe(experience)
        if tf.summary.should_record_summaries():
            self.summarize_metrics()
        return int(steps)

    def summarize_metrics(self):
        """Writes the metrics' results, and worker restarts, to the default summary writer."""
        for metric in self._metrics:
            result = metric.result()
            if not math.isnan(result):  # there is none before the first episode has ended
                tf.summary.scalar(f"metrics/{metric.name}", result)
        tf.summary.scalar("environments/worker_restarts", self._num_restarts())

    def _num_restarts(self):
        return sum(getattr(env, "num_restarts", 0) for env in self._envs)

    def _unroll_spec(self, keep_bounds=False):
        length, batch_size = self._unroll_length + 1, self.batch_size
        signal = tf.TensorSpec((), tf.float32)
        index = tf.TensorSpec((), tf.int32)
        rows = Experience(
            step_type=index,
            reward=self._specs.reward,
            discount=signal,
            observation=self._specs.observation,
            prev_action=self._specs.action,
            env_id=index,
            action=self._specs.action,
            info=self._policy_step_spec.info,
            policy_version=tf.TensorSpec((), tf.int64),
        )
        state = add_leading_dims(self._policy_step_spec.state, batch_size)
        rows = add_leading_dims(rows, length, batch_size, keep_bounds=keep_bounds)
        return rows._replace(state=state)

    def _log_spec(self):
        unroll = self._unroll_spec()
        shorten = lambda s: tf.TensorSpec((self._unroll_length, *s.shape[1:]), s.dtype)  # noqa: E731
        return LogRecord(
            step_type=shorten(unroll.step_type),
            reward=shorten(unroll.reward),
            discount=shorten(unroll.discount),
            env_id=tf.TensorSpec((self.batch_size,), tf.int32),
        )

    def _close_envs(self):
        for env in self._envs:
            env.close()


def _check_unroll_length(unroll_length):
    check_number("unroll_length", unroll_length, at_least=0)
    if unroll_length >= 1:
        check_int("unroll_length", unroll_length)
