# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program: loads a run's agent, lets it act in an environment of Gymnasium, and writes down what it did.

`record_agent.py ROOT_DIR FOLDER ENV` writes FOLDER/record.pickle, the steps that `run_exported.py` reads, and
FOLDER/actions.pickle, the actions: a list of lists of arrays [1, ...].
"""

import pathlib
import pickle
import sys

import gymnasium
import numpy as np
import tree

import alf  # it imports TensorFlow when it needs it, silently

NUM_STEPS = 60  # they hold several episodes; one of more than half as many is cut off


def main():
    root_dir, folder, env_name = sys.argv[1:]
    agent = alf.load_agent(root_dir)
    own_module = sys.modules.get("uneven_env")
    assert own_module is None or not own_module.Uneven.made, "load_agent has made an environment"
    env = gymnasium.make(env_name, max_episode_steps=NUM_STEPS // 2)
    steps, actions = [], []
    is_over = True
    for _ in range(NUM_STEPS):
        if is_over:
            (observation, _), state = env.reset(seed=len(steps)), None
        steps.append(make_step(agent, observation, 0 if is_over else 1))
        action, state = agent.predict(observation, state)
        actions.append([np.asarray(x)[np.newaxis] for x in tree.flatten(action)])
        observation, _, terminated, truncated, _ = env.step(action)
        is_over = terminated or truncated
    for name, record in (("record", steps), ("actions", actions)):
        (pathlib.Path(folder) / f"{name}.pickle").write_bytes(pickle.dumps(record))


def make_step(agent, observation, step_type):
    """What an exported policy gets: a time step of one environment, with leading dimensions."""
    batch = tree.map_structure(
        lambda spec, x: np.asarray(x, spec.dtype.as_numpy_dtype)[np.newaxis],
        agent.observation_spec,
        dict(observation) if isinstance(observation, dict) else observation,
    )
    return {
        "step_type": np.array([step_type], np.int32),
        "reward": np.zeros([1], np.float32),
        "discount": np.ones([1], np.float32),
        "observation": batch,
        "leaves": tree.flatten(batch),
    }
