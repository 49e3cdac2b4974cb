# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluates a trained policy: `alf evaluate DIR [--num_episodes=N] [--json]`.

`alf evaluate alf:CartPole-v1` evaluates the agent that ALF brings for one of its tasks.

Prints the return and the length of exactly N episodes: mean, 95 % interval of the mean, median, standard
deviation, smallest and largest. --sample explores as in training; --NAME=VALUE changes a
setting of the environment. The exit status is 0, 1 after an error, 2 if a setting is wrong, 130 after Ctrl-C.
"""

import json

from absl import flags

from alf.bin.acting import start_acting
from alf.bin.arguments import list_settings
from alf.bin.flags import make_flags

FLAGS = make_flags("sample", "checkpoint", "policy", "seed")
flags.DEFINE_integer("num_episodes", 100, "Episodes.", flag_values=FLAGS, lower_bound=1)
flags.DEFINE_integer("parallel_envs", 8, "Environments that step together.", flag_values=FLAGS, lower_bound=1)
flags.DEFINE_bool("json", False, "Prints JSON in place of a table.", flag_values=FLAGS)

_COLUMNS = ("mean", "low", "high", "median", "std", "min", "max")


def run(arguments):
    """Evaluates as the flags say; returns the exit status."""
    # More environments than episodes would only step for nothing.
    num_envs = min(FLAGS.parallel_envs, FLAGS.num_episodes)
    run, settings = start_acting(arguments), list_settings(arguments)
    from alf.evaluation.episodes import evaluate, summarize_episodes
    from alf.evaluation.open_run import open_run

    given = FLAGS.checkpoint, FLAGS.policy, FLAGS.seed
    with open_run(run, num_envs, settings, *given) as (agent, env, path):
        episodes = evaluate(agent, env, FLAGS.num_episodes, not FLAGS.sample)
        figures, count = summarize_episodes(episodes), len(episodes.returns)
        # Before `close`, which may fail.
        if FLAGS.json:
            print(json.dumps({"checkpoint": path, "num_episodes": count, **figures}), flush=True)
        else:
            print(f"{path}, {count} episodes\n{format_table(figures)}", flush=True)
    return 0


def format_table(figures):
    """Makes the text of a table; `figures` is a dict from names to the figures of `summarize`."""
    width = max(20, *(len(name) + 1 for name in figures))
    lines = [" " * width + "".join(f"{name:>12}" for name in _COLUMNS)]
    for name, values in figures.items():
        lines.append(f"{name:{width}}" + "".join(f"{values[column]:12.5g}" for column in _COLUMNS))
    return "\n".join(lines)
