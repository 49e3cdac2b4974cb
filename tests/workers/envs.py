# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gymnasium environments for the tests of workers; nothing here imports TensorFlow."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np
from gymnasium import spaces

# Spaces that are not supported, and how the error goes on after "the observation space".
REFUSED_SPACES = [
    (spaces.Text(5), " is Text"),
    (spaces.Dict(a=spaces.Tuple([spaces.Sequence(spaces.Discrete(2))])), "'s 'a/0' is Sequence"),
    (spaces.Graph(spaces.Discrete(2), None), " is Graph"),
    (spaces.OneOf([spaces.Discrete(2)]), " is OneOf"),
    (spaces.Dict(), " is an empty Dict"),
    (spaces.Tuple([spaces.Discrete(2), spaces.Tuple([])]), "'s '1' is an empty Tuple"),
    (spaces.Box(0, 1, (0,)), r" is a Box of shape \(0,\), without elements"),
    (spaces.Dict(c=spaces.Box(0, 1, (2, 0, 3))), r"'s 'c' is a Box of shape \(2, 0, 3\), without elements"),
]

BOOLS = spaces.Dict(b=spaces.Box(0, 1, (2,), np.bool_))  # refused as actions only


class CountEnv(gymnasium.Env):
    """Observes (process id, seed, episode, step); every action is checked.

    Episodes take `length` steps. The first one terminates, the second is truncated, and so on in turn.

    Args:
        length: steps of an episode.
        action_space: a Gymnasium space.
        at: the step number, counted from 1 over all episodes, in which `act` is called; 0 is the constructor.
        act: callable without arguments, or None.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)

    def __init__(self, length=5, action_space=None, at=None, act=None):
        self.action_space = spaces.Discrete(3) if action_space is None else action_space
        self._length, self._at, self._act = length, at, act
        self._seed, self._episode, self._step, self._steps = -1, 0, 0, 0
        if at == 0:
            act()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._seed = seed
        self._episode += 1
        self._step = 0
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), (self.action_space, action)
        self._step += 1
        self._steps += 1
        if self._steps == self._at:
            self._act()
        ended = self._step == self._length
        terminated = ended and self._episode % 2 == 1
        return self._observe(), 0.5 * self._step, terminated, ended and not terminated, {}

    def _observe(self):
        return np.array([os.getpid(), self._seed, self._episode, self._step], np.float64)


class ResetFaultEnv(CountEnv):
    """Calls `act` in the reset that begins the second episode."""

    def reset(self, **kwargs):
        if self._episode == 1:
            self._act()
        return super().reset(**kwargs)


class InfoEnv(CountEnv):
    """Says in its info where that comes from. Observes (process id, `number`, episode, step).

    Each step has "code", 1000 * `number` + episode, and "step". Even steps have "deep/even", the step. The
    last step has "is_success", whether `number` + episode is even. A reset has -1 for numbers, and True.
    """

    def __init__(self, number, length=5):
        super().__init__(length)
        self._number = number

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset()
        return observation, {"code": -1.0, "step": -1, "deep": {"even": -1}, "is_success": True}

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        info = {"code": 1000.0 * self._number + self._episode, "step": self._step, "name": "ignored"}
        if self._step % 2 == 0:
            info["deep"] = {"even": np.int32(self._step), "other": None}
        if terminated or truncated:
            info["is_success"] = (self._number + self._episode) % 2 == 0
        return observation, reward, terminated, truncated, info

    def _observe(self):
        observation = super()._observe()
        observation[1] = self._number
        return observation


INFO_KEYS = ("code", "step", "deep/even", "is_success")


class LevelEnv(CountEnv):
    """Observes (process id, `number`, `level`, step); its methods refuse to run beside a step.

    Attributes:
        level: int, that a wrapper passes on.
    """

    def __init__(self, number=0, length=5, seconds=0.0):
        super().__init__(length)
        self.level, self._number, self._seconds, self._steps_now = 0, number, seconds, False

    def step(self, action):
        self._steps_now = True
        time.sleep(self._seconds)
        result = super().step(action)
        self._steps_now = False
        return result

    def set_level(self, level):
        assert not self._steps_now
        self.level = level
        return self._number, level

    def where(self):
        return os.getpid(), threading.get_ident()

    def fail_if(self, number):
        if self._number == number:
            raise KeyError("my own bug")

    def act(self, act):
        act()

    def act_once(self, path, act):
        act_once(path, act)
        return self._number

    def _observe(self):
        return np.array([os.getpid(), self._number, self.level, self._step], np.float64)


def make_wrapped_level_env(number, **kwargs):
    return gymnasium.wrappers.TimeLimit(LevelEnv(number, **kwargs), 1000)


class SpaceEnv(gymnasium.Env):
    """Observes random samples of `space`; the step's number seeds them, so that a test can repeat them."""

    def __init__(self, space, action_space=None):
        self.observation_space = space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self._step = 0

    def reset(self, *, seed=None, options=None):
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), (self.action_space, action)
        return self._observe(), 0.0, False, False, {}

    def _observe(self):
        self._step += 1
        self.observation_space.seed(self._step)
        return self.observation_space.sample()


class FaultEnv(CountEnv):
    """Action 0 is a step as any other, and each further one calls an item of `FAULTS`."""

    def __init__(self):
        super().__init__(action_space=spaces.Discrete(1 + len(FAULTS)))

    def step(self, action):
        result = super().step(action)
        if action > 0:
            FAULTS[action - 1]()
        return result


class SerialEnv(CountEnv):
    """Observes the numbers of its last four steps, counted over all environments of its process."""

    num_steps = 0

    def step(self, action):
        result = super().step(action)
        SerialEnv.num_steps += 1
        self._last = [*self._last[1:], SerialEnv.num_steps]
        return self._observe(), *result[1:]

    def reset(self, **kwargs):
        self._last = [0] * 4
        return super().reset(**kwargs)

    def _observe(self):
        return np.array(self._last, np.float64)


class FrameEnv(CountEnv):
    """Renders its number."""

    def __init__(self, number):
        super().__init__()
        self._number = number

    def render(self):
        return self._number


class DrawEnv(gymnasium.Env):
    """Renders the step of the episode, which has 4 of them."""

    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(1, np.float32), 0.0, self.count == 4, False, {}

    def render(self):
        return np.full((2, 3, 3), self.count, np.uint8)


class DrawModeEnv(DrawEnv):
    """Renders in one mode."""

    metadata = {"render_fps": 7}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return super().render() if self.render_mode == "rgb_array" else None


class WaitEnv(CountEnv):
    """Each step waits for a file."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    def step(self, action):
        while not os.path.exists(self._path):
            time.sleep(0.005)
        return super().step(action)


class CallCountEnv(gymnasium.Env):
    """Observes the step of the episode, the number of calls of `reset` and `step` before, and `length`."""

    observation_space = spaces.Box(0, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length):
        self._length, self._calls = length, -1

    def _observe(self):
        self._calls += 1
        return np.array([self._step, self._calls, self._length], np.float32), {"calls": self._calls}

    def reset(self, *, seed=None, options=None):
        self._step = 0
        return self._observe()

    def step(self, action):
        self._step += 1
        observation, info = self._observe()
        return observation, float(self._step), self._step == self._length, False, info


class SampleEnv(gymnasium.Env):
    """Shows random observations of its space; its reward is a hash of the action that it was given."""

    def __init__(self, observation_space, action_space, seed, episode_length=4):
        self.observation_space = observation_space
        self.action_space = action_space
        self.observation_space.seed(seed)
        self._length = episode_length

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self._steps += 1
        return self.observation_space.sample(), hash_action(action), False, self._steps == self._length, {}


def hash_action(action):
    """A number in [0, 1000) that depends on every part of an action."""
    if isinstance(action, dict):
        action = [action[key] for key in sorted(action)]
    if isinstance(action, (tuple, list)):
        return sum((7 * i + 3) * hash_action(part) for i, part in enumerate(action)) % 1000
    return float(np.sum(np.arange(1, np.size(action) + 1) * np.ravel(action)) % 1000)


class ProcessEnv(CountEnv):
    """Observes the state of its process: (TensorFlow is imported, cores, OMP_NUM_THREADS, niceness)."""

    def _observe(self):
        threads = float(os.environ.get("OMP_NUM_THREADS", 0))
        cores, nice = len(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PROCESS, 0)
        return np.array(["tensorflow" in sys.modules, cores, threads, nice], np.float64)


class GpuEnv(CountEnv):
    """Observes, in place of the seed, the GPU that its process sees, or -1; `act` as in `CountEnv`."""

    def _observe(self):
        observation = super()._observe()
        observation[1] = int(os.environ["CUDA_VISIBLE_DEVICES"] or -1)
        return observation


class StartEnv(CountEnv):
    """Its constructor takes a while. Observes, in place of the seed, how many constructors ran meanwhile."""

    def __init__(self, folder):
        super().__init__()
        path = os.path.join(folder, str(os.getpid()))
        open(path, "x").close()
        time.sleep(0.3)
        self._seed = len(os.listdir(folder))
        os.remove(path)

    def reset(self, *, seed=None, options=None):
        return super().reset()


class VectorRewardEnv(CountEnv):
    """Its reward is a vector of 2."""

    reward_space = spaces.Box(-1, 1, (2,), np.float32)

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward, -reward]), *rest


class WrongShapeEnv(CountEnv):
    """Observes 1 number where its space has 4; NumPy would broadcast it."""

    def _observe(self):
        return super()._observe()[:1]


class SlowEnv(gymnasium.Env):
    """Sleeps for `seconds` in every step."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, seconds=0.0):
        self._seconds = seconds

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if self._seconds:
            time.sleep(self._seconds)
        return np.zeros(1, np.float32), 0.0, False, False, {}


class RefusesRandomActions(SlowEnv):
    """Raises an exception in every step."""

    def step(self, action):
        raise ValueError("not now")


class StartsProcess(CountEnv):
    """Starts a process, whose id replaces the seed in the observation. `close` ends it, unless `keep`."""

    def __init__(self, keep=False, fork=False, **kwargs):
        super().__init__(**kwargs)
        self._keep = keep
        if fork:
            self._pid = os.fork()
            if self._pid == 0:
                time.sleep(1000)
        else:
            self._process = subprocess.Popen(["sleep", "1000"])
            self._pid = self._process.pid

    def close(self):
        if not self._keep:
            os.kill(self._pid, signal.SIGTERM)
            os.waitpid(self._pid, 0)

    def _observe(self):
        observation = super()._observe()
        observation[1] = self._pid
        return observation


def start_and_hang(folder):
    """A constructor that starts a process and hangs. Two files have the ids of that process and its own."""
    process = subprocess.Popen(["sleep", "1000"])
    open(os.path.join(folder, str(process.pid)), "x").close()
    hang(folder, sleep_for_long)


class CloseEnv(CountEnv):
    """Calls `act` when it is closed, and then writes a file `path`."""

    def __init__(self, act=None, path=None):
        super().__init__()
        self._act, self._path = act, path

    def close(self):
        if self._act:
            self._act()
        if self._path:
            open(self._path, "w").close()


class NotPicklable(Exception):
    """An exception that cannot be pickled."""

    def __init__(self, first, second):
        super().__init__("it holds a socket")


def raise_own_error():
    raise KeyError("my own bug")


def raise_timeout():
    raise TimeoutError("my simulator's")


def raise_not_picklable():
    raise NotPicklable(1, 2)


def exit_python():
    sys.exit(3)


def act_once(path, act):
    """Calls `act` in the first call of all processes with this `path`."""
    with contextlib.suppress(FileExistsError):
        open(path, "x").close()
        act()


def hang(folder, how):
    """Calls `how`, which hangs, and says so before: by a file with the name of the process id."""
    open(os.path.join(folder, str(os.getpid())), "x").close()
    how()


def stop_process():
    os.kill(os.getpid(), signal.SIGSTOP)


def kill_process():
    os.kill(os.getpid(), signal.SIGKILL)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def end_process():
    os._exit(7)


def sleep_for_long():
    time.sleep(1000)


FAULTS = (raise_own_error, raise_timeout, raise_not_picklable, exit_python, end_process)
