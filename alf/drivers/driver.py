# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Driver: the interface of what brings experience to a learner, and what all drivers have in common."""

import abc

from alf.credit import Credit
from alf.data_structures import LogRecord
from alf.drivers.metrics import AverageEpisodeLength, AverageReturn, EnvironmentSteps, NumberOfEpisodes
from alf.errors import ConfigError, check_int, check_number


class Driver(abc.ABC):
    """Brings experience to a learner.

    A training loop uses every driver in the same way: `start`, then `collect` and `learner.train` in turn,
    and `stop` in a `finally`. A wrong argument is a ConfigError.

    Args:
        learner: `Learner` that observes the experience; also an attribute.
        unroll_length: T, transitions per unroll. Below 1, for learners with a replay buffer: T is 1, and
            only a fraction of the calls of `collect` collects.
        observers: callables of one `LogRecord` of NumPy arrays, called for every T steps of every
            environment, in order per environment.
        metrics: further metrics, see `alf.drivers.metrics`; observers with a result.
        envs: batched environments. The driver closes them.
    """

    def __init__(self, learner, unroll_length=1, observers=(), metrics=(), envs=()):
        check_unroll_length("unroll_length", unroll_length)
        if unroll_length < 1 and learner.needs_fresh_experience:
            raise ConfigError(
                f"unroll_length is {unroll_length:g}, less than 1: exp_replayer must be one to sample from "
                f"then, such as 'uniform', not {learner.replayer.name!r}"
            )
        self.learner = learner
        self._unroll_length = max(unroll_length, 1)
        self._collections = Credit(min(unroll_length, 1))
        counts = EnvironmentSteps(), NumberOfEpisodes()
        self._metrics = [*counts, AverageReturn(), AverageEpisodeLength(), *metrics]
        self._observers = [*self._metrics, *observers]
        self._envs = list(envs)
        self._stopped = False

    @abc.abstractmethod
    def start(self):
        """Gets the environments going. Once."""

    @abc.abstractmethod
    def collect(self):
        """Lets the learner observe a batch of unrolls; returns its environment steps, an int."""

    def run(self):
        """Another name of `collect`."""
        return self.collect()

    def stop(self):
        """Ends everything and closes the environments; may be repeated."""
        if not self._stopped:
            self._stopped = True
            for env in self._envs:
                env.close()

    def interrupt(self):  # noqa: B027 (a driver that never waits has nothing to do)
        """Makes `collect` return or fail soon. From any thread; returns at once."""

    @property
    def num_restarts(self):
        """How often worker processes of the environments were restarted, an int."""
        return sum(getattr(env, "num_restarts", 0) for env in self._envs)

    def get_step_metrics(self):
        """The metrics that count: environment steps and episodes."""
        return self._metrics[:2]

    def get_metrics(self):
        """All metrics: the step metrics, the average return and length, and the user's."""
        return self._metrics

    def queue_sizes(self):
        """Items that wait in the queues, a dict of ints; empty without queues."""
        return {}

    def get_state(self):
        """What `set_state` needs, as JSON types: metrics, and the fraction of a collection that is due."""
        metrics = [metric.get_state() for metric in self._metrics]
        return {"metrics": metrics, "collections": self._collections.get_state()}

    def set_state(self, state):
        """Restores what `get_state` returned."""
        for metric, metric_state in zip(self._metrics, state["metrics"], strict=True):
            metric.set_state(metric_state)
        self._collections.set_state(state["collections"])

    def _is_collection_due(self):
        """Counts one call of `collect`; says whether it collects."""
        self._collections.earn()
        return self._collections.take() > 0

    def _log(self, record):
        """Hands a `LogRecord` of tensors to metrics and observers, as NumPy arrays."""
        record = LogRecord(*(x.numpy() for x in record))
        for observer in self._observers:
            observer(record)


class OfflineDriver(Driver):
    """Collects nothing: its learner trains from a buffer that is full, see `alf.replay.load_replayer`."""

    def start(self):
        pass

    def collect(self):
        return 0


def check_unroll_length(name, value):
    """Raises ConfigError unless the setting called `name` is an integer, or a number in [0, 1)."""
    check_number(name, value, at_least=0)
    if value >= 1:
        check_int(name, value)
