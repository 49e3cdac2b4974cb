# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluates a trained policy: `alf-evaluate --root_dir=DIR [--num_episodes=N] [--json]`.

`alf-evaluate alf:CartPole-v1` evaluates the agent that ALF brings for one of its tasks.

Prints the return and the length of exactly N episodes: mean, 95 % interval of the mean, median, standard
deviation, smallest and largest. --sample explores as in training; --gin_param changes a setting of the
environment. The exit status is 0, 1 after an error, 2 if a setting is wrong, 130 after Ctrl-C.
"""

import json

from absl import flags

from alf.bin.acting import open_run, take_run
from alf.bin.command import make_main, start
from alf.bin.flags import share

SAMPLE, NUM_EPISODES = share("sample", "num_episodes")
share("root_dir", "gin_param", "checkpoint", "policy", "seed")  # for `open_run`
_PARALLEL_ENVS = flags.DEFINE_integer("parallel_envs", 8, "Environments that step together.", lower_bound=1)
_JSON = flags.DEFINE_bool("json", False, "Prints JSON in place of a table.")

_NUM_EPISODES = 100
_COLUMNS = ("mean", "low", "high", "median", "std", "min", "max")


def run(arguments=()):
    """Evaluates as the flags say; returns the exit status."""
    take_run(arguments)
    num_episodes = NUM_EPISODES.value or _NUM_EPISODES
    # More environments than episodes would only step for nothing.
    with open_run(min(_PARALLEL_ENVS.value, num_episodes)) as (agent, env, path):
        from alf.evaluation.episodes import evaluate, summarize_episodes

        episodes = evaluate(agent, env, num_episodes, not SAMPLE.value)
        figures, count = summarize_episodes(episodes), len(episodes.returns)
        # Before `close`, which may fail.
        if _JSON.value:
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


main = make_main(run, takes_arguments=True)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
