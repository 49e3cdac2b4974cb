# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Faulty-v0: an environment that does what the variable `ALF_FAULT` says; nothing here imports TensorFlow.

The variable holds JSON, a dict with the keys:
    kind: a name in `ACTS`, `STEPS` or `SPACES`.
    where: "make", "reset", "step" or "close"; or what `calls` has.
    at: int, the first call of `where` in each object that is faulty, counted from 1. Default 1.
    when: whether the fault waits until the file `now` is in the folder. Default false.
    times: int, how many calls are faulty, over all objects and processes. None for all. Default 1.
    part, nested: for `SPACES`: "observation" or "action"; whether the space is part of a Dict.
A fault that is no part of the gin configuration is gone when the run is continued without the variable.

The folder is that of the variable `ALF_FAULT_FOLDER`. Each environment counts its steps there, in a file of
its own that survives kill -9, and appends its events to the file `events`, a line of JSON each.
"""

import asyncio
import builtins
import itertools
import json
import mmap
import multiprocessing
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces

_BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
EPISODE_STEPS = 20
_numbers = itertools.count()


def _raise_key_error():
    raise KeyError("my own bug")


def _raise_stop_iteration():
    raise StopIteration


def _raise_value_error():
    raise ValueError("x" * 100_000)


class NoTextError(Exception):
    """Its text cannot be made."""

    def __str__(self):
        raise RuntimeError("no text")


def _raise_without_text():
    raise NoTextError


def _raise_keyboard_interrupt():
    raise KeyboardInterrupt


def _raise_cancelled():
    raise asyncio.CancelledError


def _raise_group():
    raise builtins.BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError("one of them")])


def _hang():
    time.sleep(10_000)


def _change_directory():
    (_folder() / "elsewhere").mkdir(exist_ok=True)
    os.chdir(_folder() / "elsewhere")


def _fork_and_return():
    """Forks; parent and child both return, as if each were the environment."""
    pid = os.fork()
    if pid:
        record("started", child=pid)


def _start_process():
    """Starts a process that would outlive this one."""
    process = subprocess.Popen(["sleep", "10000"], stdin=subprocess.DEVNULL)
    record("started", child=process.pid)


def _fork_helper():
    """Starts a process by fork, as simulators do. It has all file descriptors of this one."""
    helper = multiprocessing.get_context("fork").Process(target=_hang, daemon=True)
    helper.start()
    record("started", child=helper.pid)


# What is done in a call.
ACTS = {
    "sys_exit": lambda: sys.exit(0),
    "end_process": lambda: os._exit(7),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": _hang,
    "sleep_1": lambda: time.sleep(1.0),
    "sleep_6": lambda: time.sleep(6.0),
    "key_error": _raise_key_error,
    "stop_iteration": _raise_stop_iteration,
    "keyboard_interrupt": _raise_keyboard_interrupt,
    "cancelled": _raise_cancelled,
    "group": _raise_group,
    "long_error": _raise_value_error,
    "error_without_text": _raise_without_text,
    "change_directory": _change_directory,
    "fork_and_return": _fork_and_return,
    "set": lambda: {1, 2},  # which JSON cannot write
    "start_process": _start_process,
    "fork_helper": _fork_helper,
}

# What an environment returns in place of (observation, reward, terminated, truncated, info).
STEPS = {
    "nan_reward": lambda step: (step[0], np.nan, *step[2:]),
    "infinite_reward": lambda step: (step[0], np.inf, *step[2:]),
    "no_reward": lambda step: (step[0], None, *step[2:]),
    "array_reward": lambda step: (step[0], np.ones(2), *step[2:]),
    "nan_observation": lambda step: (step[0] * np.nan, *step[1:]),
    "no_observation": lambda step: (None, *step[1:]),
    "small_observation": lambda step: (step[0][:1], *step[1:]),
    "large_observation": lambda step: (np.zeros(4, np.float32), *step[1:]),
    "fractions": lambda step: (np.full(3, 0.7), *step[1:]),
    "text_terminated": lambda step: (*step[:2], "no", *step[3:]),
    "four_tuple": lambda step: step[:4],
    "nan_discount": lambda step: (*step[:4], {"discount": np.nan}),  # which only `batched` reads
}

# Spaces that ALF has no spec for.
SPACES = {
    "text": lambda: spaces.Text(5),
    "sequence": lambda: spaces.Sequence(_BOX),
    "graph": lambda: spaces.Graph(_BOX, None),
    "one_of": lambda: spaces.OneOf([_BOX, spaces.Discrete(2)]),
    "bool_box": lambda: spaces.Box(0, 1, (3,), bool),
    "empty_dict": lambda: spaces.Dict({}),
    "empty_box": lambda: spaces.Box(-1.0, 1.0, (0,), np.float32),
}


def record(event, **values):
    """Appends an event to the file of events. A short line is written whole, whatever other processes do."""
    line = json.dumps({"event": event, "time": time.time(), "pid": os.getpid(), **values}) + "\n"
    with open(_folder() / "events", "ab", buffering=0) as file:
        file.write(line.encode())


def is_now():
    """Whether the file for which a fault with `when` waits is there."""
    return (_folder() / "now").exists()


def _folder():
    return pathlib.Path(os.environ["ALF_FAULT_FOLDER"])


class Fault:
    """What the variable says, for one object.

    Args:
        is_faulty: bool; False: nothing ever happens.

    Attributes:
        kind: text or None.
        given: dict of all that the variable says.
    """

    def __init__(self, is_faulty=True):
        given = json.loads(os.environ.get("ALF_FAULT", "{}")) if is_faulty else {}
        self.given = {"where": None, "at": 1, **given}
        self.kind = self.given.get("kind")
        self._calls = 0

    def is_due(self, where):
        """Counts a call of `where`; returns whether it is faulty, which is an event."""
        if where != self.given["where"]:
            return False
        self._calls += 1
        if self._calls < self.given["at"] or (self.given.get("when") and not is_now()):
            return False
        if not _claim(self.given.get("times", 1)):
            return False
        record("fault")
        return True

    def act(self, where):
        """Does what the fault says if this call of `where` is faulty; returns what that gives, or None."""
        if not self.is_due(where):
            return None
        result = ACTS[self.kind]()
        record("fault_ended")
        return result


class Faulty(gymnasium.Env):
    """Episodes of 20 steps. The action that equals the step's parity, or is near it, is rewarded.

    Args:
        continuous: bool, whether the action is continuous.
        dtype: str, of the observations.
        step_seconds: float, how long each step sleeps.
        is_faulty: bool, whether it does what the variable says.
        counts_steps: bool, whether its steps count; those of an evaluation do not.
    """

    def __init__(
        self, continuous=False, dtype="float32", step_seconds=0.0, is_faulty=True, counts_steps=True
    ):
        self.observation_space = _BOX if dtype == "float32" else spaces.Box(0, 255, (3,), dtype)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32) if continuous else spaces.Discrete(2)
        self._fault = Fault(is_faulty)
        if self._fault.kind in SPACES:
            self._replace_space(self._fault.given)
        self._step_seconds = step_seconds
        self._step_in_episode = 0
        self._closed = False
        prefix = "steps" if counts_steps else "uncounted"
        with open(_folder() / f"{prefix}-{os.getpid()}-{next(_numbers)}", "w+b") as file:
            file.truncate(8)
            self._num_steps = mmap.mmap(file.fileno(), 8)
        self._act("make")

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            record("reset", seed=int(seed))
        self._step_in_episode = 0
        return self._act("reset", (self._observe(), 0.0, False, False, {}))[0], {}

    def step(self, action):
        if self._step_seconds:
            time.sleep(self._step_seconds)
        self._step_in_episode += 1
        (num_steps,) = struct.unpack("q", self._num_steps)
        self._num_steps[:] = struct.pack("q", num_steps + 1)
        reward = float(np.max(np.abs(action - self._step_in_episode % 2)) < 0.5)
        truncated = self._step_in_episode == EPISODE_STEPS
        return self._act("step", (self._observe(), reward, False, truncated, {}))

    def close(self):
        if not self._closed:
            self._closed = True
            record("close")
            self._act("close")

    def _observe(self):
        parity = 1 - self._step_in_episode % 2
        observation = np.array([parity, 1 - parity, self._step_in_episode / EPISODE_STEPS])
        return observation.astype(self.observation_space.dtype or np.float32)

    def _act(self, where, step=None):
        """Does what the fault says, if this call is faulty; returns the step, changed or not."""
        if self._fault.kind in STEPS:
            return STEPS[self._fault.kind](step) if self._fault.is_due(where) else step
        self._fault.act(where)
        return step

    def _replace_space(self, given):
        space = SPACES[given["kind"]]()
        if given["nested"]:
            space = spaces.Dict({"fine": _BOX, "wrong": space})
        setattr(self, f"{given['part']}_space", space)


def _claim(times):
    """Counts a faulty call; returns False if there were `times` already."""
    if times is None:
        return True
    for i in range(times):
        try:
            (_folder() / f"claimed-{i}").touch(exist_ok=False)
            return True
        except FileExistsError:
            pass
    return False


_the_same = []


def make_the_same(**kwargs):
    """Returns the same environment at each call in a process."""
    if not _the_same:
        _the_same.append(Faulty(**kwargs))
    return _the_same[0]


gymnasium.register("Faulty-v0", Faulty)
gymnasium.register("Same-v0", make_the_same)
