# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluates what was trained: `python -m alf.bin.evaluate --root_dir=DIR [--num_episodes=N] [--json]`.

Prints the return and the length of exactly N episodes: mean, median, standard deviation, and the 95 %
interval of the mean. The exit status is 0, 1 after an error, 2 if a setting is wrong.
"""

import contextlib
import json

import numpy as np
from absl import flags

import alf  # noqa: F401  (before TensorFlow)
from alf.bin.command import make_main, start, wrong_calls_are_config_errors
from alf.errors import ConfigError
from alf.policies.agent import Agent
from alf.training.config import check_dead_bindings
from alf.training.evaluation import evaluate, summarize
from alf.training.saved_run import SavedRun, make_env

_ROOT_DIR = flags.DEFINE_string("root_dir", None, "Directory of the run.")
_CHECKPOINT = flags.DEFINE_string("checkpoint", "newest", "newest, best, a train iteration, or a path.")
_GIN_PARAM = flags.DEFINE_multi_string("gin_param", [], "A gin binding, NAME=VALUE; may be repeated.")
_NUM_EPISODES = flags.DEFINE_integer("num_episodes", 100, "Episodes.", lower_bound=1)
_NUM_ENVS = flags.DEFINE_integer("num_envs", 8, "Environments that step together.", lower_bound=1)
_SAMPLE = flags.DEFINE_bool("sample", False, "Explores as in training, in place of acting as well as it can.")
_SEED = flags.DEFINE_integer("seed", None, "Of the environments; without it they have another one each time.")
_JSON = flags.DEFINE_bool("json", False, "Prints JSON in place of a table.")

_COLUMNS = ("mean", "low", "high", "median", "std", "min", "max")


def run():
    """Evaluates as the flags say; returns the exit status."""
    if not _ROOT_DIR.value:
        raise ConfigError("--root_dir is missing: name the directory of a run")
    saved = SavedRun(_ROOT_DIR.value)
    saved.read_config(_GIN_PARAM.value)
    num_envs = min(_NUM_ENVS.value, _NUM_EPISODES.value)
    with wrong_calls_are_config_errors():
        policy, path = saved.load_policy(_CHECKPOINT.value)
        env = make_env(_SEED.value, num_envs)
    with contextlib.closing(env):
        check_dead_bindings(_GIN_PARAM.value)
        episodes = evaluate(Agent(policy), env, _NUM_EPISODES.value, not _SAMPLE.value)
    figures = {"return": summarize(episodes.returns), "length": summarize(episodes.lengths)}
    for name, values in episodes.info.items():
        if not np.isnan(values).all():
            figures[name] = summarize(values[~np.isnan(values)])
    if _JSON.value:
        print(json.dumps({"checkpoint": path, "num_episodes": len(episodes.returns), **figures}))
    else:
        print(f"{path}, {len(episodes.returns)} episodes")
        print(format_table(figures))
    return 0


def format_table(figures):
    """Makes a text of a dict from names to what `summarize` returns."""
    lines = [f"{'':20}" + "".join(f"{name:>12}" for name in _COLUMNS)]
    for name, values in figures.items():
        lines.append(f"{name:20}" + "".join(f"{values[column]:12.5g}" for column in _COLUMNS))
    return "\n".join(lines)


main = make_main(run)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
