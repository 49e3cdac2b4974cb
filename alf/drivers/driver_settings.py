# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""DriverSettings and Monitoring: the settings that all drivers share."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from alf.config.kinds import NonNegativeFloat, NonNegativeInt, PositiveInt
from alf.config.settings import Role, Timeout, configurable
from alf.core.devices import HOST, shorten
from alf.data_structures import LogRecord
from alf.drivers.episode_statistics import EpisodeStatistics
from alf.errors import ConfigError


@configurable("alf.drivers")
@dataclasses.dataclass(frozen=True)
class DriverSettings:
    """Settings of drivers: how environments, actors and learner work together.

    A group is one batched environment, one of the `envs` of a driver: `Experiment.num_groups`.

    `SyncOffPolicyDriver` follows `sticky` and `actor_device`, refuses `prefetch` and ignores the others: it
    steps one environment after another, in one thread and without queues.

    Args:
        mode: how collecting and learning share the time.
            "async": the environments go on while the learner trains. `collect` takes the first Q =
            `learn_queue_cap` unrolls that are ready: a batch may have two of one group and none of
            another.
            "lockstep": the environments collect while `collect` waits and stand still while the learner
            trains. A batch holds one unroll of every group, in their order, as `SyncOffPolicyDriver`
            gives it. `learn_queue_cap` and `max_waiting_batches` have no effect.
            "overlap": as "lockstep", but the environments collect the next batch while the learner trains on
            the present one (HTS-RL, arXiv 2012.09849; Cleanba, arXiv 2310.00036). They act with a copy of the
            weights before that training, so each batch is older by exactly one call of `collect`.
            "poll": like "async", but `collect` never waits: it takes all batches that are ready, perhaps
            none.
        num_env_threads: threads that step the environments; thread i steps the groups i,
            i + num_env_threads, ..., one after another, as one batch for the policy. It must divide the
            number of groups. None: each group has a thread. "auto": 1 if all environments compute in Python
            in this process (`BatchedEnvironment.computes_in_python`), where threads would wait for the GIL;
            else None, for environments that wait, or that compute outside Python.
        num_actor_queues: actors, each with a thread and a queue; environment thread i belongs to actor
            i % num_actor_queues. 0: each environment thread calls the policy itself, which saves two
            hand-overs between threads for each step. "auto": 0 if actors compute on the CPU and
            `actor_queue_cap` is 1, else 1.
        actor_queue_cap: K, environment threads that an actor answers at a time. 1 gives the quickest answer;
            more costs less for each. num_actor_queues * K is at most the number of environment threads.
        learn_queue_cap: Q, unrolls of a batch; at most the number of groups. None: as many as groups.
        max_waiting_batches: batches that may wait in the learn queue. When it is full, environments wait.
        max_unroll_length: in the mode "poll", the most steps of each environment that `collect` takes, on
            average over the environments. None: it takes all that wait.
        parameter_update_period: updates after which the actors get new weights. They act with a copy that
            changes between two answers and never within one. None: they read the learner's weights, which
            change at any time.
        actor_device: text, the TensorFlow device where actors compute, such as "GPU:1". On another device
            than the learner's they act with a copy of the weights; `parameter_update_period` is 1 then by
            default. "auto": the CPU, or the learner's device if this is a GPU and the answers of actors are
            large (`alf.core.devices`).
        sticky: whether a sub-environment whose episode ends in an unroll waits for the next unroll: the rest
            of its rows repeat the FIRST step of its next episode, and are not transitions. The environments
            must have a method `hold` for single sub-environments, like `PythonEnvironment`, or a `batch_size`
            of 1. With T above the length of every episode, each unroll begins with an episode and holds all
            of it.
        start_spread: seconds; environment thread i of E starts i / E of them later than the first one, so
            that unrolls, slow resets and ends of episodes come evenly from the beginning, not all at once. 0:
            all start at once.
        prefetch: whether a thread takes the next batch from the learn queue while the learner trains, and
            copies it to the learner's device. It helps if the device is a GPU and
            batches are large. It costs the memory of a batch there, and steps are older by up to the updates
            of a batch, as with one more of `max_waiting_batches`. Only in the mode "async", and with one
            policy and an `exp_replayer` "one_time", "mix_in" or "multi_pass".
    """

    mode: Literal["async", "lockstep", "overlap", "poll"] = "async"
    num_env_threads: PositiveInt | Literal["auto"] | None = "auto"
    num_actor_queues: NonNegativeInt | Literal["auto"] = "auto"
    actor_queue_cap: PositiveInt = 1
    learn_queue_cap: PositiveInt | None = 1
    max_waiting_batches: PositiveInt = 1
    max_unroll_length: PositiveInt | None = None
    parameter_update_period: PositiveInt | None = None
    actor_device: Annotated[str, Role.EXECUTION] = "auto"
    sticky: bool = False
    start_spread: Annotated[NonNegativeFloat, Role.EXECUTION] = 0.0
    prefetch: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether environments make an unroll only when the learner orders one of each."""
        return self.mode in ("lockstep", "overlap")

    def choose(self, envs: Sequence[Any], learner_device: str) -> "DriverSettings":
        """Returns these settings with what each "auto" of the threads means for some environments.

        Args:
            envs: batched environments of a driver.
            learner_device: text, such as "GPU:0".
        """
        threads, actors, capacity = self.num_env_threads, self.num_actor_queues, self.actor_queue_cap
        if actors == "auto":
            device = learner_device if self.actor_device == "auto" else shorten(self.actor_device)
            actors = 0 if device == HOST and capacity == 1 else 1
        if threads == "auto":
            in_python = all(getattr(env, "computes_in_python", False) for env in envs)
            # A number of actors, or of requests that wait for each other, is for as many threads.
            is_free = actors * capacity <= 1 and not self.start_spread
            threads = 1 if in_python and is_free else None
        return dataclasses.replace(self, num_env_threads=threads, num_actor_queues=actors)

    def copy_period(self, needs_copy: bool = False) -> int | None:
        """Returns the updates after which actors get new weights; None: they read the learner's.

        `needs_copy`: whether the actors are on another device than the learner.
        """
        return self.parameter_update_period or (1 if needs_copy or self.mode == "overlap" else None)

    def count_threads(self, num_groups: int) -> tuple[int, int]:
        """Returns the numbers of threads that step so many environments, and of actors, after `choose`."""
        threads, actors = self._numbers()
        return min(num_groups, threads or num_groups), actors if num_groups else 0

    def count_unrolls(self, num_sources: int) -> int:
        """Returns Q, the unrolls of a batch, for so many batched environments of all processes."""
        return num_sources if self.is_ordered else self.learn_queue_cap or num_sources

    def _numbers(self) -> tuple[Any, Any]:
        return self.num_env_threads, self.num_actor_queues

    def find_max_batches(self, num_sources: int, num_steps: int) -> int | None:
        """Returns how many batches `collect` may take in the mode "poll"; None for all that wait.

        Args:
            num_sources: batched environments of all processes.
            num_steps: steps of a batch, of batched environments.

        Raises:
            ConfigError: if it could take none.
        """
        if self.max_unroll_length is None:
            return None
        if self.max_unroll_length * num_sources < num_steps:
            raise ConfigError(
                f"DriverSettings.max_unroll_length is {self.max_unroll_length}: the steps of {num_sources} "
                f"groups would be less than a batch, learn_queue_cap * unroll_length = {num_steps}"
            )
        return self.max_unroll_length * num_sources // num_steps

    def check(self, num_groups: int, num_sources: int, stall_timeout: float | None) -> None:
        """Raises ConfigError if an actor or the learner would wait for ever, or a setting has no effect.

        Call it after `choose`.

        Args:
            num_groups: batched environments of this process.
            num_sources: batched environments of all processes.
            stall_timeout: as in `Monitoring`.
        """
        if stall_timeout is not None and self.start_spread >= stall_timeout:
            raise ConfigError(
                f"start_spread is {self.start_spread:g}: it must be less than stall_timeout = "
                f"{stall_timeout:g}, because collect may wait for the environment that starts last"
            )
        (given, num_actors), capacity = self._numbers(), self.actor_queue_cap
        if num_groups and num_groups % (given or 1):
            raise ConfigError(
                f"DriverSettings.num_env_threads is {given}: it must divide num_groups = {num_groups}"
            )
        num_threads, _ = self.count_threads(num_groups)
        threads = "num_groups" if self.num_env_threads is None else "num_env_threads"
        if num_threads and num_threads < num_actors * capacity:
            raise ConfigError(
                f"{threads} is {num_threads}, less than num_actor_queues * actor_queue_cap = {num_actors} * "
                f"{capacity}: an actor would wait for ever for more environments than it has"
            )
        if num_actors == 0 and capacity > 1:
            raise ConfigError(
                f"actor_queue_cap is {capacity}, but num_actor_queues is 0: no actor could answer several "
                "environments at a time; set it to 1"
            )
        # An environment that has made its unroll asks for no more actions, and an actor waits
        # until K environments have asked. So the K that share an actor must be all of its environments.
        if num_threads and self.is_ordered and capacity > 1 and capacity * num_actors != num_threads:
            raise ConfigError(
                f"DriverSettings.mode is {self.mode!r}: actor_queue_cap must be 1 then, or {threads} / "
                f"num_actor_queues = {num_threads} / {num_actors}, not {capacity}: an actor would wait for "
                "environments that have collected"
            )
        if self.count_unrolls(num_sources) > num_sources:
            raise ConfigError(
                f"learn_queue_cap is {self.learn_queue_cap}, more than num_groups = {num_sources}: the "
                "learner would wait for several unrolls of the same environment"
            )
        if self.max_unroll_length is not None and self.mode != "poll":
            raise ConfigError(
                f"DriverSettings.max_unroll_length is {self.max_unroll_length}: mode must be 'poll' then"
            )
        if self.prefetch and self.mode != "async":
            raise ConfigError("DriverSettings.prefetch is True: mode must be 'async' then")
        if self.mode == "overlap" and self.parameter_update_period is not None:
            raise ConfigError(
                f"DriverSettings.parameter_update_period is {self.parameter_update_period}: in the mode "
                "'overlap' the actors get new weights before each batch; leave it out"
            )


@configurable("alf.drivers", role=Role.MEASUREMENT)
@dataclasses.dataclass(frozen=True)
class Monitoring:
    """Settings of drivers: observers, metrics and time limits.

    Args:
        observers: tuple or list of callables (`LogRecord` of NumPy arrays), called for every T steps of every
            environment, for each environment in the order of time. An observer may have an attribute `needs`,
            a tuple of "observation" and "action": these fields are then filled, too. `add_batch` of a replay
            buffer of TF-Agents becomes a `TrajectoryObserver`.
        metrics: tuple or list of additional `alf.drivers.metrics.Metric`s, or metrics of TF-Agents, which
            become `TFAgentsMetric`s.
        statistics: callable (reward_shape=, info_keys=, agents=, policies=, num_groups=, batch_size=) ->
            `EpisodeStatistics`, whose metrics the driver shows.
        stop_timeout: seconds that `stop` waits for environments to return from a step and to close.
        stall_timeout: seconds after which a reset or a step of an environment, or the wait of `collect` for
            experience, is a stall; None: never. At a stall the driver logs which environments step, and for
            how long, and prints the stacks of all threads and of worker processes to the standard error
            stream.
        on_stall: "error": after a stall `collect` raises StallError. "warn": the driver goes on. A call of a
            callback, a summary or an update of the learner that lasts longer than `stall_timeout` is only
            named, with its stack: nothing can end it.
        signal_timeout: seconds that such a call has after a signal that ends the run (Ctrl-C, SIGTERM); an
            update has twice its usual time, if this is more. Then the process ends, after a checkpoint of the
            last finished train iteration. None: it waits for the call.
    """

    observers: Sequence[Callable[[LogRecord], Any]] = ()
    metrics: Sequence[Any] = ()
    statistics: Callable[..., Any] = EpisodeStatistics
    stop_timeout: Timeout = 5.0
    stall_timeout: Timeout | None = 300.0
    on_stall: Annotated[Literal["error", "warn"], Role.EXECUTION] = "error"
    signal_timeout: Annotated[Timeout | None, Role.EXECUTION] = 10.0


def split_unroll_length(value):
    """Splits `unroll_length` into T and the average number of batches that a call of `collect` takes.

    An integer above 0 is T, with one batch for each call. Any other number is the number of batches, and T is
    1.
    """
    return (int(value), 1) if value >= 1 and value == int(value) else (1, value)
