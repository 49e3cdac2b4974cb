# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PythonEnvironment: single Gymnasium environments as one batched environment."""

import contextlib
import functools
import hashlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import cloudpickle
import numpy as np
import tensorflow as tf

from alf.config.kinds import NonNegativeInt
from alf.config.settings import Role, Seed, configurable
from alf.core.array_spec import ArraySpec
from alf.core.pickling import can_pickle
from alf.core.randomness import spawn_seeds
from alf.core.restart_limit import RestartLimit
from alf.data_structures import EnvStep
from alf.environments.arguments import InfoKeys, NumWorkers
from alf.environments.batched_environment import BatchedEnvironment
from alf.environments.spaces import make_action_converter, map_space
from alf.errors import ConfigError
from alf.workers import EnvBatch, RestartedBatch, WorkerPool, WorkerSettings
from alf.workers.info import check_info_keys
from alf.workers.specs import spec_from_space
from alf.workers.watched_thread import WatchedThread
from alf.workers.worker import count_raise

# A batch step below this time is faster in this process than in workers. Measured in training on 2 cores with
# CartPole, 12 microseconds a step: workers overtake at 5 environments.
MESSAGE_SECONDS = 80e-6
# Workers of environments that wait: each takes some 60 MB.
_MOST_WAITING = 32

# What `EnvBatch.measure_step` returned for each environment that this process has tried, by the hash of its
# pickled constructor.
_step_costs = {}


@configurable("alf.environments")
class PythonEnvironment(BatchedEnvironment):
    """B single environments as one batched environment, in worker processes or in this process.

    `alf.data_structures` has the convention of time steps. When a worker dies, its environments begin new
    episodes, as `alf.workers.WorkerPool` describes. An environment that breaks Gymnasium's interface, for
    example by an observation of another shape, is an `EnvError` that names the environment and its step.

    Args:
        env_fns: list or tuple of B callables without arguments. Each returns a `gymnasium.Env`, or a
            TF-Agents `PyEnvironment` of one environment. For workers, cloudpickle must be able to pickle
            them.
        seed: int or None. Each environment gets its own seed from it, the same one for any `num_workers`.
        num_workers: int, "auto" or "thread": worker processes, at most B; 0 steps all environments in this
            process, in the thread that calls. "thread" makes, resets, steps and closes them in one thread of
            this process, for environments that are bound to a thread. (A worker process has one thread, too.)
            "auto" makes one environment in a worker for a trial, and steps it: if all B steps would take less
            time than a message to a worker, or if cloudpickle cannot pickle `env_fns`, the environments step
            in this process, else in workers on half of the cores, so that two batched environments use all.
            Steps that mostly wait get more workers, up to 32. Equal `env_fns` are tried once in a process.
        max_random_steps: before its first step each environment takes a random number of random actions, at
            most this many, so that episodes of equal length do not end together.
        info_keys: which numbers of each environment's info `get_info` returns: a tuple of keys, "a/b" for
            this entry or the entry "b" of the dict "a". A key may be absent in a step (docs/tensorboard.md).
        workers: `alf.workers.WorkerSettings`; None takes the defaults.

    Raises:
        ConfigError: if a setting is wrong or a space is not supported.
        EnvError: if an environment breaks Gymnasium's interface.
        WorkerError: if workers die or hang too often. Exceptions of the environments pass through, unless
            `WorkerSettings.restart_on_error` is set.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Any]],
        seed: Seed = None,
        num_workers: NumWorkers = "auto",
        max_random_steps: NonNegativeInt = 0,
        info_keys: InfoKeys = (),
        workers: Annotated[WorkerSettings | None, Role.EXECUTION] = None,
    ) -> None:
        env_fns = list(env_fns)
        if not env_fns:
            raise ConfigError("PythonEnvironment.env_fns is empty: there must be at least one environment")
        # Made here and not as a default, which would be made at the import, before gin has any bindings.
        workers = workers or WorkerSettings()
        # Before workers start, so that a wrong setting costs no time and leaves no process.
        info_keys = check_info_keys("PythonEnvironment.info_keys", info_keys)
        self._choose_num_workers = functools.partial(_choose_num_workers, num_workers, env_fns, workers)
        num_workers = self._choose_num_workers(len(env_fns))
        seeds = spawn_seeds(seed, len(env_fns))
        self.computes_in_python = num_workers in (0, "thread")
        self._batch: Any
        if num_workers in (0, "thread"):
            make_batch = functools.partial(_make_batch, env_fns, seeds, max_random_steps, info_keys, workers)
            self._batch = make_batch() if num_workers == 0 else WatchedThread(make_batch, workers)
        else:
            arguments = seeds, num_workers, max_random_steps, workers, info_keys
            try:
                self._batch = WorkerPool(env_fns, *arguments)
            except Exception as error:
                if can_pickle(env_fns):
                    raise
                raise ConfigError(
                    f"num_workers is {num_workers}, but cloudpickle cannot pickle what makes the "
                    f"environments ({error}): make what it holds inside of it, or set num_workers to "
                    "'thread' or 0"
                ) from error
        layout = self._batch.layout
        try:
            super().__init__(
                len(env_fns),
                spec_from_space(layout.observation_space, "observation"),
                spec_from_space(layout.action_space, "action"),
                ArraySpec(layout.reward_shape, np.float32, "reward"),
                info_keys,
            )
        except BaseException:  # The workers have started: nobody else would end them.
            self._batch.close()
            raise
        self._to_env = map_space(
            layout.action_space, lambda space: make_action_converter(space, self._batch_size)
        )

    def would_compute_in_python(self, batch_size: int) -> bool:
        return self._choose_num_workers(batch_size) in (0, "thread")

    @property
    def num_restarts(self) -> int:
        """How often a worker process was restarted, or an environment that raised was made again."""
        return self._batch.num_restarts

    def seed(self, seed: int | None, first_index: int = 0) -> None:
        """Seeds the next reset, as the `seed` of the constructor does; later resets go on from there."""
        # The first seeds are the same for any number of them.
        self._batch.seed(spawn_seeds(seed, first_index + self._batch_size)[first_index:])

    @property
    def render_fps(self) -> float:
        return self._batch.render_fps() or super().render_fps

    def dump_stacks(self) -> None:
        """Makes the workers print the stacks of their threads to stderr; any thread may call this."""
        self._batch.dump_stacks()

    def hold(self, rows: list[int]) -> None:
        """Makes the next `step` leave the sub-environments of these indices at their FIRST step."""
        self._batch.hold(rows)

    def get_info(self) -> dict[str, np.ndarray]:
        """Returns the info of the last reset or step: a dict with float32 [B] for each of the `info_keys`."""
        # A copy, because the next step writes into this memory.
        return dict(zip(self.info_keys, self._batch.arrays.info.T.copy(), strict=True))

    def call(self, name: str, *args: Any) -> list[Any]:
        """Calls the method `name` of each environment, or of one that it wraps; returns a list of B results.

        Workers that are restarted later do not know of the call.
        """
        return self._batch.call(name, *args)

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute that each environment has, or one that it wraps; in later workers, too."""
        self._batch.set_attr(name, value)

    def close(self) -> None:
        """Closes the environments and ends the workers; may be called again.

        In this process the first error of an environment's `close()` is raised after all are closed. In a
        worker such an error is a warning in the log.
        """
        self._batch.close()

    def _reset(self):
        self._batch.reset()
        return self._copy_time_step()

    def _step(self, action):
        # The arrays are in memory that workers share: writing into them sends the action.
        for array, x in zip(self._batch.arrays.action, tf.nest.flatten(self._to_env(action)), strict=True):
            array[...] = x
        self._batch.step()
        return self._copy_time_step()

    def _render(self):
        return self._batch.render()

    def _copy_time_step(self):
        """Returns copies of the arrays, because the next step writes into them."""
        arrays = self._batch.arrays
        observation = tf.nest.pack_sequence_as(self._observation_spec, [x.copy() for x in arrays.observation])
        return EnvStep(arrays.step_type.copy(), arrays.reward.copy(), arrays.discount.copy(), observation)


def _make_batch(env_fns, seeds, max_random_steps, info_keys, workers):
    """Makes the environments of this process."""
    if workers.restart_on_error:
        limit = RestartLimit(workers.max_restarts, workers.restart_period)
        note = functools.partial(count_raise, limit)
        return RestartedBatch(env_fns, seeds, max_random_steps, 0, info_keys, None, note)
    return EnvBatch(env_fns, seeds, max_random_steps, info_keys=info_keys)


def _choose_num_workers(num_workers, env_fns, settings, batch_size):
    if num_workers != "auto":
        if num_workers != "thread" and num_workers > batch_size:
            raise ConfigError(f"num_workers is {num_workers}, more than batch_size = {batch_size}")
        return num_workers
    # Constructors reach worker processes as pickles.
    if not can_pickle(env_fns):
        return 0
    return find_num_workers(batch_size, *_find_step_cost(env_fns[0], settings))


def waits(seconds, cpu_seconds):
    """Returns whether a step mostly waits, for a simulator or a network; `cpu_seconds`: the CPU's part."""
    return cpu_seconds < seconds / 2


def find_num_workers(batch_size, seconds, cpu_seconds):
    """Returns the number of workers for `batch_size` environments with such steps.

    Steps that wait do so at the same time in several workers, as many as the cores can serve.
    """
    if batch_size * seconds < MESSAGE_SECONDS:
        return 0
    workers = max(1, len(os.sched_getaffinity(0)) // 2)
    if waits(seconds, cpu_seconds):
        workers = min(_MOST_WAITING, math.ceil(workers * seconds / max(cpu_seconds, 1e-6)))
    return min(batch_size, workers)


def _find_step_cost(env_fn, settings):
    """Returns the seconds of a step of an environment, and of the CPU; tries each kind once in a process."""
    # By content: each call of `load` makes other callables, which are equal only when they are pickled.
    trial = hashlib.sha256(cloudpickle.dumps((env_fn, settings))).digest()
    if trial not in _step_costs:
        _step_costs[trial] = _measure_step(env_fn, settings)
    return _step_costs[trial]


def _measure_step(env_fn, settings):
    """Measures a step, infinite if it fails. A worker tries it, as environments may crash."""
    # A pool of one worker: it is watched and has time-outs, as in training.
    with contextlib.closing(WorkerPool([env_fn], [0], 1, settings=settings)) as pool:
        # Not every environment allows random actions. The workers will show other faults again.
        with contextlib.suppress(Exception):
            return pool.measure_step()
    # An environment that could not be tried counts as slow, and so steps in workers, which show its fault.
    return math.inf, math.inf
