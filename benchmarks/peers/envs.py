# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments of the peers. After an episode's end the next step resets, in all of them."""

import multiprocessing
import os

import gymnasium as gym
import numpy as np

CORES = os.cpu_count()


def make_env(name):
    """Makes one environment; Atari's has 4 stacked frames [4, 84, 84] and clipped rewards."""
    if not name.startswith("ALE/"):
        if name not in gym.registry:  # Gymnasium 0.29, where -v4 is the same HalfCheetah
            name = name.replace("-v5", "-v4")
        return gym.make(name, disable_env_checker=True)
    import ale_py

    if hasattr(gym, "register_envs"):
        gym.register_envs(ale_py)
    env = gym.make(name, frameskip=1, repeat_action_probability=0.0, disable_env_checker=True)
    env = gym.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4)
    env = gym.wrappers.TransformReward(env, np.sign)
    if hasattr(gym.wrappers, "FrameStackObservation"):
        return gym.wrappers.FrameStackObservation(env, 4)
    return gym.wrappers.TransformObservation(gym.wrappers.FrameStack(env, 4), np.asarray)


def make_vector(kind, name, num_envs, share=1, seed=0):
    """Makes a vector environment with `send(actions)` and `recv()`; the first `recv` returns a reset.

    Args:
        kind: "inprocess" steps Gymnasium's objects here, "workers" in processes over shared memory;
            "vector" is what Gymnasium has for the id, in NumPy or C++; "envpool" is EnvPool's.
        share: it uses this part of the cores, 1 / share.
    """
    workers = max(1, CORES // share)
    if kind == "inprocess":
        return Rows(name, num_envs, 0, seed)
    if kind == "workers":
        return Rows(name, num_envs, workers, seed)
    if kind == "envpool":
        return _make_envpool(name, num_envs, workers, seed)
    if name.startswith("ALE/"):
        from ale_py.vector_env import AtariVectorEnv

        game = name.removeprefix("ALE/").removesuffix("-v5").lower()
        return Native(AtariVectorEnv(game, num_envs, num_threads=workers), seed)
    return Native(gym.make_vec(name, num_envs, vectorization_mode="vector_entry_point"), seed)


def _make_envpool(name, num_envs, workers, seed):
    import envpool

    name = name.removeprefix("ALE/")
    clip = {"reward_clip": True} if name.startswith("Pong") else {}
    env = envpool.make_gymnasium(name, num_envs=num_envs, num_threads=workers, seed=seed, **clip)
    return Native(env, None)


class Native:
    """A vector environment of a library."""

    def __init__(self, env, seed):
        self._env, self._sends = env, hasattr(env, "send")
        self.observation_space = getattr(env, "single_observation_space", env.observation_space)
        self.action_space = getattr(env, "single_action_space", env.action_space)
        obs, _ = env.reset() if seed is None else env.reset(seed=seed)
        zeros = np.zeros(len(obs), np.float32)
        self._result = obs, zeros, zeros > 0, zeros > 0
        self._waits = False

    def send(self, actions):
        if self._sends:
            self._env.send(actions)
            self._waits = True
        else:
            self._result = self._env.step(actions)[:4]

    def recv(self):
        """Returns observation, reward, terminated and truncated, each [B, ...]."""
        if self._waits:
            self._result = self._env.recv()[:4]
            self._waits = False
        return self._result


class Rows:
    """Environments that are Python objects, in this process or in workers over shared memory."""

    def __init__(self, name, num_envs, num_workers, seed):
        env = make_env(name)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        fields = [(self.observation_space.shape, self.observation_space.dtype), ((), np.float32)]
        fields += [((), np.bool_), ((), np.bool_), (self.action_space.shape, self.action_space.dtype)]
        *self._result, self._actions = (_shared((num_envs, *shape), dtype) for shape, dtype in fields)
        self._pairs = []
        if not num_workers:
            self._envs = [make_env(name) for _ in range(num_envs)]
            self._reset(self._envs, range(num_envs), seed)
            return
        context = multiprocessing.get_context("fork")
        for rows in np.array_split(np.arange(num_envs), num_workers):
            pair = context.Semaphore(0), context.Semaphore(0)
            context.Process(target=self._work, args=(name, rows, seed, *pair), daemon=True).start()
            self._pairs.append(pair)
        self._waits = True

    def send(self, actions):
        self._actions[:] = actions
        if not self._pairs:
            self._step(self._envs, range(len(self._envs)))
            return
        for go, _ in self._pairs:
            go.release()
        self._waits = True

    def recv(self):
        """Returns views of the shared memory: they hold until the next `send`."""
        if self._pairs and self._waits:
            for _, done in self._pairs:
                done.acquire()
            self._waits = False
        return self._result

    def _work(self, name, rows, seed, go, done):
        envs, rows = [make_env(name) for _ in rows], rows.tolist()
        self._reset(envs, rows, seed)
        while True:
            done.release()
            go.acquire()
            self._step(envs, rows)

    def _reset(self, envs, rows, seed):
        for env, i in zip(envs, rows):
            self._result[0][i] = env.reset(seed=seed + i)[0]

    def _step(self, envs, rows):
        obs, reward, terminated, truncated = self._result
        actions = self._actions.tolist() if self._actions.ndim == 1 else self._actions
        for env, i in zip(envs, rows):
            if terminated[i] or truncated[i]:
                obs[i], reward[i], terminated[i], truncated[i] = env.reset()[0], 0.0, False, False
            else:
                obs[i], reward[i], terminated[i], truncated[i], _ = env.step(actions[i])


def _shared(shape, dtype):
    memory = multiprocessing.RawArray("b", int(np.prod(shape)) * np.dtype(dtype).itemsize)
    return np.frombuffer(memory, dtype).reshape(shape)
