# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Driver: collects experience. The base of all drivers."""

import abc
import concurrent.futures
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from alf.adapters import as_metric, as_observer
from alf.core.annotations import Environment
from alf.core.credit import Credit
from alf.core.devices import device_of
from alf.core.randomness import spawn_seeds
from alf.core.states import read_states
from alf.core.user_calls import user_call
from alf.data_structures import Experience, LogRecord
from alf.drivers.collector_thread import Collectors
from alf.drivers.driver_settings import DriverSettings, Monitoring, split_unroll_length
from alf.drivers.env_making import close_all, make_envs
from alf.drivers.env_specs import EnvSpecs, to_batched_envs
from alf.drivers.log_thread import call_observers, find_log_fields
from alf.drivers.metrics import (
    BalancedReturn,
    EnvironmentSteps,
    EpisodeMetric,
    Metric,
    NumberOfEpisodes,
    check_names,
    read_number,
)
from alf.drivers.stage_clock import REST, STORE, WAIT, StageClocks
from alf.drivers.threads import QUEUE_CLOSED, DriverThreads
from alf.errors import ConfigError
from alf.networks.copying import CopyableModule
from alf.ops.draws import Stream
from alf.policies.policy import Policy

if TYPE_CHECKING:
    from typing_extensions import Self

_LOOK_SECONDS = 0.01  # the interval at which a wait for calls of environments looks whether the driver stops


class Driver(abc.ABC):
    """Steps environments with a policy, and collects what happens in them.

    A training loop uses every driver in the same way. It calls `stop` in a `finally`:

        driver.start()
        while not is_over():
            for experience in driver.collect():
                learner.observe(experience)
            learner.train()

    The constructor raises ConfigError if an argument is wrong.

    Args:
        envs: list of batched environments with the same batch size and specs. Environments of TF-Agents may
            be among them: a `TFPyEnvironment`, whose `isolation` has no effect, or any other `TFEnvironment`,
            which steps in the driver's graph, without Python. The driver closes them.
        policy: `Policy` or `PolicyGroup` that acts, with the weights that it has at the time.
        unroll_length: number, T, transitions per unroll. For learners with a replay buffer it may be a
            fraction F: T is 1, and the calls of `collect` take F batches on average, exactly. With 2.5 they
            take two and three in turn; with 0.5 every second call takes one.
        settings: `DriverSettings`; None takes the defaults. Also an attribute.
        monitoring: `Monitoring`; None takes the defaults.
        overwrite_policy_output: whether the environments replace the actions of the policy, by actions of a
            person or a script, for instance. Their method `taken_action()` returns the actions of the last
            step, a nest of [B, ...], which become `Experience.action` and `prev_action`. This is for
            algorithms that learn from actions, not from `info`.
        collectors: `Collectors` in other processes, or None.
        metrics: more `Metric`s, of a league for example, beside `Monitoring.metrics`.

    Attributes:
        policy, unroll_length, settings, monitoring: as the arguments.
        overwrites_actions: bool, `overwrite_policy_output`.
        specs: `EnvSpecs` of the environments; None without.
        stream: `alf.ops.draws.Stream`, from which the policy draws. Another one may be set before `start`.
        batch_shape: tuple of ints (Q, T, B): each batch is an `Experience` of [Q, T+1, B, ...]. None without
            environments.
        clocks: `StageClocks` of its threads.
        deterministic: bool, whether the run repeats bit for bit also if it stops and continues:
            `Experiment.deterministic`.
        actor_device: text, the device where actors compute.
        num_broadcasts: int, how often actors or collectors with a copy of the weights have got new ones.
    """

    batch_shape: Any = None
    deterministic = False

    def __init__(
        self,
        envs: Sequence[Environment],
        policy: Policy,
        unroll_length: float = 1,
        settings: DriverSettings | None = None,
        monitoring: Monitoring | None = None,
        overwrite_policy_output: bool = False,
        collectors: Collectors | None = None,
        metrics: Sequence[Metric] = (),
    ) -> None:
        self.unroll_length = unroll_length
        self._unroll_length, rate = split_unroll_length(unroll_length)
        if not isinstance(policy, CopyableModule):
            raise ConfigError(f"policy is {policy!r}: it must be a Policy or a PolicyGroup")
        self.policy, self.stream = policy, Stream()
        self.actor_device = device_of(policy)
        self.settings = settings or DriverSettings()
        self.overwrites_actions = overwrite_policy_output
        self.monitoring = monitoring = monitoring or Monitoring()
        self._collections = Credit(rate)
        self._envs = to_batched_envs(envs)
        self._collectors = collectors
        self._num_sources = len(self._envs) + (collectors.num_groups if collectors else 0)
        specs = EnvSpecs(self._envs) if self._envs else getattr(collectors, "specs", None)
        self.specs: Any = specs
        counts = EnvironmentSteps(), NumberOfEpisodes()
        statistics = monitoring.statistics(**_describe_rows(specs, self._num_sources))
        num_rows = self._num_sources * specs.batch_size if specs else 0
        for one in policy.policies.values():
            one.use_envs(0, num_rows)
        users = [as_metric(metric, num_rows) for metric in [*metrics, *monitoring.metrics]]
        self._metrics = [*counts, *statistics.metrics, *users]
        check_names(self._metrics)
        for metric in users:
            read_number(metric)  # now, and not at the first summary
        observers = [as_observer(observer, num_rows) for observer in monitoring.observers]
        # `statistics` computes all of its own metrics in one pass over a record. They are shown and saved
        # with the others, but not called.
        self._observers = [*counts, statistics, *users, *observers]
        self._log_fields = find_log_fields(self._observers) if specs else ()
        self.clocks = StageClocks()
        self._threads = DriverThreads(self._envs, collectors, monitoring, self._wake, self.queue_sizes)
        # Without a lock: `publish_soon` is for callbacks of the trainer, which run in the thread that
        # collects.
        self._publishes_next = False
        self.num_broadcasts = 0

    @classmethod
    def from_env_fn(
        cls, env_fn: Callable[..., Environment], num_groups: int, policy: Policy, **kwargs: Any
    ) -> "Self":
        """Makes environments, and a driver that uses them.

        Args:
            env_fn: callable that returns a batched environment. It is called with the index of the batched
                environment, an int, or without arguments if it needs none.
            num_groups: how many batched environments to make.
            policy, **kwargs: as in the constructor.

        Raises:
            ConfigError: if an argument is wrong, or `env_fn` raises ConfigError. The message has the index.
            EnvError: if `env_fn` raises another exception. The message has the index.
        """
        envs = make_envs(env_fn, num_groups)
        try:
            return cls(envs, policy, **kwargs)
        except BaseException:
            # Nobody else can close them: the driver that would have done it does not exist.
            close_all(envs)
            raise

    @abc.abstractmethod
    def start(self) -> None:
        """Resets the environments and starts to step them. A driver starts once.

        Raises:
            RuntimeError: if called twice, or after `stop`.
        """

    def collect(self) -> list[Experience]:
        """Waits for a batch of unrolls.

        Returns:
            list of batches, `Experience`s of [Q, T+1, B, ...] (`state` [Q, B, ...]): one, unless
            `unroll_length` is a fraction or the mode is "poll"; then there may be several or none.

        Raises:
            RuntimeError: if the driver does not run; InterruptedDriverError if it was interrupted.
            StallError: if an environment, or this call, waited for more than `Monitoring.stall_timeout`
                seconds.
            Exception: the error that ended a thread, as it was raised there.
        """
        self.clocks.learner.lap(REST, times=0)
        self._threads.check_runs()
        try:
            return self._call(self._take_batches)
        finally:
            self.clocks.learner.lap(STORE, times=0)

    def _take_batches(self):
        """Takes the batches of one call of `collect`, a list."""
        return [self.get_training_exps() for _ in range(self._count_due_batches())]

    @abc.abstractmethod
    def get_training_exps(self) -> Experience:
        """Waits for Q unrolls. `collect` calls it for each batch.

        Returns:
            `Experience` of [Q, T+1, B, ...] (`state` [Q, B, ...]).
        """

    def publish_soon(self) -> None:
        """Makes the next `collect` copy the policy's weights to actors and collectors that have copies."""
        self._publishes_next = True

    def call_envs(self, method: str, *args: Any) -> list[Any]:
        """Calls a method of each environment, in worker processes and collectors, too.

        The thread that steps an environment makes the call, between two unrolls, while this one waits. Only
        the thread that calls `collect` may use it, such as the methods of a `Callback`. The method must not
        reset or step the environment. Environments that a worker process or a collector makes anew later do
        not know of the call; they know of `set_attr`.

        Args:
            method: text, the name of a method of the single environment, or of one that it wraps.
            *args: its arguments. For workers and collectors, cloudpickle must be able to pickle them and the
                results.

        Returns:
            list of the results, one for each single environment, in the order of the rows. Environments that
            only step together have one result: vector environments in NumPy or C++, games of several agents,
            a `BatchedEnvironment` of your own.

        Raises:
            RuntimeError: after `stop` or `interrupt`; before `start` if there are collectors.
            StallError: after `Monitoring.stall_timeout` seconds.
            Exception: the error that the method raised, with its traceback; the driver goes on. It may have
                been called in other environments.
        """
        if self._collectors is not None and not self._threads.has_started:
            raise RuntimeError(
                "call_envs() reaches collectors only after start(): set_attr() works before it"
            )
        return [result for results in self._ask("call", "call_envs", method, *args) for result in results]

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute of each environment, or of one that it wraps, to the same value.

        It works as `call_envs`, also before `start`. Environments that a worker process or a collector makes
        anew later get the value, too.

        Raises:
            AttributeError: if an environment has no such attribute; also the errors of `call_envs`.
        """
        self._ask("set_attr", "set_attr", name, value)
        if self._collectors is not None and not self._threads.has_started:
            self._collectors.attributes[name] = value

    def _ask(self, of_env, of_collector, *args):
        """Calls methods of each environment and of each collector; returns the list of the results."""
        threads, num_loops = self._threads, self._threads.num_loops
        if not threads.has_started:  # no other thread has the environments yet
            return threads.in_order([threads.unroller.ask(i, of_env, *args) for i in range(num_loops)])
        threads.check_runs(of_collector)
        # The stall watch limits this wait, whatever it is that does not answer.
        with threads.waiting(self.clocks.learner, REST, before=REST):
            futures = threads.ask_envs(of_env, *args) + self._ask_collectors(of_collector, *args)
            while not all(future.done() for future in futures):
                threads.raise_if_stopping()
                self._make_room([i for i, x in enumerate(futures) if not x.running() and not x.done()])
                concurrent.futures.wait(futures, _LOOK_SECONDS)
        results = [future.result() for future in futures]
        of_envs, of_collectors = threads.in_order(results[:num_loops]), results[num_loops:]
        return of_envs + [result for answers in of_collectors for result in answers]

    def _ask_collectors(self, method, *args):
        """Makes the thread of the collectors call a method of each; returns a list of futures of lists."""
        return []

    def _make_room(self, waiting):  # noqa: B027 (a driver without a queue has nothing to do)
        """Makes sure that threads that were asked can go on. `waiting`: indices of what was not taken up."""

    def stop(self) -> None:
        """Ends all threads and closes the environments; may be repeated, or come before `start`.

        It returns or raises within `stop_timeout`. An environment that hangs in a step is closed if the step
        returns while the process lives.

        Raises:
            Exception: the error that ended a thread, unless `collect` has raised it.
            RuntimeError: if a thread or environment did not end in time, or an environment's `close` raised
                an error. The message names them.
        """
        self._threads.stop()

    def interrupt(self) -> None:
        """Makes `collect` fail soon, even if an environment hangs. From any thread; returns at once."""
        self._threads.interrupt()

    def reseed(self, iterations: int) -> bool:
        """Seeds environments and policy for what follows so many train iterations; new episodes begin.

        In the modes "lockstep" and "overlap" also while the driver runs: it drops what was collected since
        the last batch, and goes on like a driver that starts after this call. Environments whose `seed`
        raises NotImplementedError keep their seeds; returns False if there are some.

        Args:
            iterations: int, below 2^31. The seeds follow from it and from `stream.seed`.

        Raises:
            RuntimeError: if the driver has started in another mode, or with collectors.
        """
        given = spawn_seeds([self.stream.seed, iterations], len(self._envs)), iterations << 32
        if not self._threads.has_started:
            return all(self._ask("reseed", "", *given))
        if not self.repeats:
            raise RuntimeError("reseed() works before start(), or in the modes 'lockstep' and 'overlap'")
        self._call(self._drop_collected)
        taken = self._ask("reseed", "", *given)
        self._call(self._go_on)
        return all(taken)

    @property
    def repeats(self) -> bool:
        """Whether the same seed gives the same batches, as far as the environments follow from it."""
        return self.settings.is_ordered and self._collectors is None

    def _drop_collected(self):  # noqa: B027 (most drivers collect nothing ahead)
        """Drops what was collected since the last batch."""

    def _go_on(self):  # noqa: B027
        """Lets environments go on after `reseed`."""

    @property
    def num_restarts(self) -> int:
        """The number of times that worker processes and collectors were replaced after a failure, an int."""
        return sum(getattr(part, "num_restarts", 0) for part in [*self._envs, self._collectors])

    def get_step_metrics(self) -> list[Metric]:
        """Returns `EnvironmentSteps` and `NumberOfEpisodes`."""
        return self._metrics[:2]

    def get_metrics(self) -> list[Metric]:
        """Returns all metrics: the step metrics, then the metrics of `EpisodeStatistics`, then the user's."""
        return self._metrics

    def queue_sizes(self) -> dict[str, int]:
        """Returns the number of items in each queue, a dict of ints by name; empty without queues."""
        return {}

    def get_state(self) -> Any:
        """Returns the state for `set_state` as JSON types: the metrics, and the fraction of a batch left."""
        metrics = read_states({metric.name: metric for metric in self._metrics})
        return {"metrics": metrics, "collections": self._collections.get_state()}

    def set_state(self, state: Any) -> None:
        """Restores the state that `get_state` returned. A new metric begins without values."""
        for metric in self._metrics:
            if metric.name in state["metrics"]:
                metric.set_state(state["metrics"][metric.name])
        self._collections.set_state(state["collections"])

    def copy_episodes(self, state: Any) -> None:
        """Copies the figures of the last episodes from a state of another driver's `get_state`."""
        for metric in self._metrics:
            # Also while the log thread runs: an episode that ends meanwhile is one more figure among these.
            # Counters are not copied, because they count what this driver has stepped.
            if isinstance(metric, (EpisodeMetric, BalancedReturn)) and metric.name in state["metrics"]:
                metric.set_state(state["metrics"][metric.name])

    def _wake(self):  # noqa: B027 (a driver that never waits has nothing to do)
        """Ends every wait of the driver, now and later. From any thread, more than once."""

    def _call(self, function, *args):
        """Calls a function. If it fails at a closed queue, raises the error for which the driver ends."""
        try:
            return function(*args)
        except QUEUE_CLOSED as error:
            closed = error
        # Not in the handler: Python would show the closed queue as the context of the thread's error.
        self._threads.raise_if_stopping()
        raise closed

    def _waiting(self, stage=WAIT):
        """Returns the context in which `collect` waits: `StallWatch` and the clock measure it."""
        return self._threads.waiting(self.clocks.learner, stage)

    def _count_due_batches(self):
        """Counts one call of `collect`; returns the number of batches that it takes, an int."""
        self._collections.earn()
        return self._collections.take()

    def _log(self, record):
        """Calls metrics and observers with a `LogRecord`; `record` is a dict of arrays by field."""
        record = LogRecord(**record)
        # Some may be the user's, and in a synchronous driver the training thread calls them.
        with user_call("a metric or observer of Monitoring"):
            call_observers(self._observers, record)


def _describe_rows(specs, num_groups):
    """Returns the arguments of `EpisodeStatistics` that describe the environments; `specs` may be None."""
    if specs is None:
        return {}
    agents, policies = (names if len(names) > 1 else () for names in (specs.agents, specs.policies))
    shape = tuple(specs.reward.shape)
    names = {"info_keys": specs.info_keys, "agents": agents, "policies": policies}
    return {"reward_shape": shape, "num_groups": num_groups, "batch_size": specs.batch_size, **names}
