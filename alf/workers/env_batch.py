# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvBatch: steps Gymnasium environments, or single environments of TF-Agents, one after another."""

import contextlib
import os
import threading
import time

import numpy as np

from alf.core.user_calls import user_call
from alf.errors import ConfigError
from alf.workers.arrays import (
    FIRST,
    LAST,
    MID,
    NUMBERS,
    MisfitError,
    detach,
    make_action_reader,
    make_arrays,
    make_leaf_writer,
    make_writer,
    wrong_result,
)
from alf.workers.env_calls import (
    claim,
    ends_episode,
    find_owner,
    free,
    layout_of,
    make_env,
    name_error,
    reset_env,
    step_env,
)
from alf.workers.info import make_info_reader
from alf.workers.masks import sample_action
from alf.workers.py_environment import FromPyEnvironment

_calls = threading.local()  # its `batch` is the `EnvBatch` whose environments this thread calls now, if any
_HELD = "held"  # in place of a bool in `_done`: the environment waits at its FIRST step


class EnvBatch:
    """A batch of B Gymnasium environments that write their steps into arrays.

    The step after the last one of an episode resets the environment and ignores the action (Gymnasium's
    NEXT_STEP autoreset). `alf.data_structures` defines the time steps.

    Args:
        env_fns: B callables without arguments. Each returns a `gymnasium.Env`, or a TF-Agents `PyEnvironment`
            that is not batched.
        seeds: B ints, for the first reset of each environment.
        max_random_steps: int; before its first step each environment takes a random number of random actions,
            at most this many, so that episodes of equal length do not end together.
        first_index: int, the index of the first environment in errors.
        info_keys: tuple of the K keys that are read from each environment's info.
        attributes: dict by name of values for `set_attr`.

    Attributes:
        layout: `Layout` of all environments.
        arrays: `Arrays` of B.
        num_restarts: 0; `WorkerPool` counts the restarts of workers here.

    Raises:
        ConfigError: if a space is not supported, the environments differ in their spaces, or a callable does
            not return an environment, or returns one that is stepped already.
        EnvError: also from `reset` and `step`, if an environment returns something that its spaces or
            Gymnasium's interface do not allow, or raises SystemExit, StopIteration, a group of exceptions or
            the like. Its other exceptions pass through, with a note that names it and its step.
    """

    num_restarts = 0

    def __init__(self, env_fns, seeds, max_random_steps=0, first_index=0, info_keys=(), attributes=None):
        self._envs, self._first_index, self._num_steps = [], first_index, 0
        self._is_forked, self._memory = False, None
        try:
            for i, env_fn in enumerate(env_fns, start=first_index):
                self._envs.append(self._make_one(i, env_fn, info_keys))
            self.layout, *others = [layout_of(env, tuple(info_keys)) for env in self._envs]
            for i, other in enumerate(others, start=first_index + 1):
                if other != self.layout:
                    raise ConfigError(
                        f"environment {i} has other spaces than {first_index}: {other}, {self.layout}"
                    )
            for name, value in (attributes or {}).items():
                self.set_attr(name, value)
        except BaseException:  # the environments that are made already have nobody else to close them
            with contextlib.suppress(Exception):  # the first error matters more
                self.close()
            raise
        self._find_discounts()
        self.seed(seeds)
        self._max_random_steps = max_random_steps
        self._done = [False] * len(self._envs)
        shape = self.layout.reward_shape
        self._no_reward = np.zeros(shape, np.float32) if shape else 0.0
        self._quick_rewards = set() if shape else NUMBERS  # types that are written without a check
        self._read_actions = make_action_reader(self.layout.action_space)
        self._read_info = make_info_reader(info_keys) if info_keys else None
        # Memory of this process. In a worker the shared memory takes its place once it has a size.
        self.use_arrays(make_arrays(self.layout, len(self._envs)))

    def _make_one(self, index, env_fn, info_keys):
        """Makes an environment; `index` is its number in errors."""
        name = f"the constructor of environment {index}"
        with user_call(name), self._calling():
            env = make_env(env_fn, name, bool(info_keys))
        claim(self, env, f"environment {index}")
        return env

    def _find_discounts(self):
        # `unwrapped`, because the wrapper of a time limit hides the attribute.
        bases = [(i, env.unwrapped) for i, env in enumerate(self._envs)]
        self._discounted = [pair for pair in bases if isinstance(pair[1], FromPyEnvironment)]

    def use_arrays(self, arrays, memory=None):
        """Makes `reset` and `step` write into `arrays`; `memory` is their `mmap.mmap` if it is shared."""
        self.arrays, self._memory = arrays, memory
        # Made anew, because writers hold the arrays into which they write.
        self._write = make_writer(self.layout.observation_space, iter(arrays.observation), "the observation")
        self._write_reward = make_leaf_writer(arrays.reward, "the reward")

    def seed(self, seeds):
        """Sets the seeds of the next reset, B ints."""
        self._seeds = list(seeds)

    def reset(self):
        """Starts an episode in every environment, and fills the arrays with FIRST steps."""
        with self._calling():
            for i, env in enumerate(self._envs):
                try:
                    self._reset_one(i, env)
                except BaseException as error:
                    self._begin_again(i, self._name_error(i, error))
        self.arrays.step_type[:] = FIRST
        self.arrays.reward[:] = 0.0
        self.arrays.discount[:] = 1.0
        self._done = [False] * len(self._envs)

    def _reset_one(self, i, env):
        """Begins an episode of environment `i` of the batch, and writes its observation and its info."""
        # A seed counts once: later resets go on with the environment's own random numbers.
        seed, self._seeds[i] = self._seeds[i], None
        observation, info = reset_env(env, seed)
        # The number and the actions follow from the seed, so they do not depend on `num_workers`.
        if seed is not None and self._max_random_steps:
            count = np.random.default_rng(seed).integers(self._max_random_steps + 1)
            env.action_space.seed(seed)
            observation, info = _step_randomly(env, count, observation, info)
        self._write(i, observation)
        if self._read_info is not None:
            self.arrays.info[i] = self._read_info(info)

    def _begin_again(self, i, error):
        """Begins a new episode of environment `i` of the batch, which has raised `error`, or raises it."""
        raise error

    def hold(self, rows):
        """Makes the next `step` repeat the FIRST steps of some environments instead of stepping them.

        Args:
            rows: list of ints, environments that are at a FIRST step.
        """
        for i in rows:
            self._done[i] = _HELD

    def step(self):
        """Steps every environment with its action from the arrays, and fills the arrays with the results."""
        # One function, because this is where the time of cheap environments goes.
        self._num_steps += 1
        done, write, read_info = self._done, self._write, self._read_info
        step_type, discount = self.arrays.step_type, self.arrays.discount
        # In place, in memory that the owner shares: it reads none of it before the reply to this command.
        step_type.fill(MID)
        discount.fill(1.0)
        # Lists first: writing one item of an array takes five times as long.
        rewards, infos = [self._no_reward] * len(self._envs), []
        actions = self._read_actions(iter(self.arrays.action))
        rows, _calls.batch = enumerate(zip(self._envs, actions, done)), self
        i, has_stepped = 0, False
        try:
            while not has_stepped:
                try:
                    for i, (env, action, was_done) in rows:
                        if was_done:
                            step_type[i], done[i] = FIRST, False
                            if was_done is _HELD:  # the arrays still have its observation
                                infos += [self.arrays.info[i].copy()] if read_info is not None else []
                                continue
                            observation, info = reset_env(env)
                        else:
                            result = env.step(action)
                            try:
                                observation, rewards[i], terminated, truncated, info = result
                            except (TypeError, ValueError):
                                raise wrong_result("step", result) from None
                            # Most flags are the object False, which needs no check.
                            may_end = terminated is not False or truncated is not False
                            if may_end and ends_episode(terminated, truncated):
                                step_type[i], done[i] = LAST, True
                                if terminated:
                                    discount[i] = 0.0
                        write(i, observation)
                        if read_info is not None:
                            infos.append(read_info(info))
                    has_stepped = True
                except BaseException as error:
                    self._begin_again(i, self._name_error(i, error))
                    step_type[i], done[i], discount[i], rewards[i] = FIRST, False, 1.0, self._no_reward
                    infos += [self.arrays.info[i].copy()] if read_info is not None else []
            # In place of the 1 or 0 from above: TF-Agents has other discounts, too, which Gymnasium does not
            # know.
            for i, env in self._discounted:
                discount[i] = env.discount
            # After all environments have stepped: one assignment for all rows.
            if infos:
                self.arrays.info[:] = infos
            if set(map(type, rewards)) <= self._quick_rewards:
                self.arrays.reward[:] = rewards
            else:
                self._write_rewards(rewards)
        finally:
            self._end_call()

    def _write_rewards(self, rewards):
        for i, reward in enumerate(rewards):
            try:
                self._write_reward(i, reward)
            except MisfitError as error:
                self._begin_again(i, self._name_error(i, error))
                self.arrays.step_type[i], self._done[i], self.arrays.discount[i] = FIRST, False, 1.0
                self.arrays.reward[i] = self._no_reward

    def _name_error(self, i, error):
        """Returns the exception to raise in place of `error`, which names environment `i` and its step."""
        if self._is_forked and isinstance(error, SystemExit):  # as a child ends that has done its work
            os._exit(error.code if isinstance(error.code, int) else bool(error.code))
        return name_error(error, f"environment {self._first_index + i}, step {self._num_steps}")

    def measure_step(self):
        """Measures 5 random steps of environment 0. Call `reset` afterwards.

        Returns the seconds of the fastest, and those of the CPU in it: fewer, if the step waits.
        """
        # The fastest of several, because whatever else runs on the machine makes steps slower, never faster.
        env, times = self._envs[0], []
        observation, _ = env.reset()
        for _ in range(5):
            action = sample_action(env.action_space, observation)
            start, cpu = time.perf_counter(), time.process_time()
            observation, _, terminated, truncated, _ = env.step(action)
            times.append((time.perf_counter() - start, time.process_time() - cpu))
            if terminated or truncated:
                observation, _ = env.reset()
        return min(times)

    def call(self, name, *args):
        """Calls the method `name` of each environment, or of one that it wraps; returns a list of B results.

        AttributeError is raised if an environment has no such method.
        """
        with self._calling():
            return [getattr(find_owner(env, name), name)(*args) for env in self._envs]

    def set_attr(self, name, value):
        """Sets an attribute that each environment has, or one that it wraps; errors as in `call`."""
        for env in self._envs:
            setattr(find_owner(env, name), name, value)

    def render(self):
        """Returns the result of `render` of environment 0."""
        with self._calling():
            return self._envs[0].render()

    def render_fps(self):
        """Returns the frames per second of environment 0, or None if its metadata has no "render_fps"."""
        return self._envs[0].metadata.get("render_fps")

    def dump_stacks(self):
        """Does nothing: there is no other process. `WorkerPool` makes its workers print their stacks."""

    def close(self):
        """Closes all environments, then raises the first error. May be called again."""
        errors = []
        while self._envs:  # `pop` first, so that a second call does not close an environment again
            env = self._envs.pop()
            free(env)
            try:
                with self._calling():
                    env.close()
            except BaseException as error:
                index = self._first_index + len(self._envs)
                errors.append(name_error(error, f"close() of environment {index}"))
        if errors:
            raise errors[0]

    @contextlib.contextmanager
    def _calling(self):
        """Context in which environments are called; `reset` and `step` do the same at less cost."""
        _calls.batch = self
        try:
            yield
        finally:
            self._end_call()

    def _end_call(self):
        """Notes that no environment is called any more; a process that one of them has forked ends here."""
        _calls.batch = None
        if self._is_forked:
            with contextlib.suppress(OSError):
                os.write(2, b"a process that an environment has forked has returned from it: it ends here\n")
            os._exit(1)

    def leave_to_parent(self):
        """Makes this process, which an environment has forked in a call, unable to answer the call."""
        self._is_forked = True
        # They stay in memory, or this process would close what its parent uses. The loop of the call ends.
        self._kept = self._envs[:]
        self._envs.clear()
        if self._memory is not None:
            detach(self._memory)


def _leave_to_parent():
    batch = getattr(_calls, "batch", None)
    if batch is not None:
        batch.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def _step_randomly(env, count, observation, info):
    """Takes `count` random steps. Returns the last observation and info."""
    for _ in range(count):
        observation, _, terminated, truncated, info = step_env(
            env, sample_action(env.action_space, observation)
        )
        if ends_episode(terminated, truncated):
            observation, info = reset_env(env)
    return observation, info
