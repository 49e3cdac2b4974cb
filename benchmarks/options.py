# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tries options of PPO and IMPALA on CartPole-v1: `python -m benchmarks.options [--seeds=1] [ALGORITHM ...]`.

Each run is the algorithm's example with the settings of one option changed, in a process of its own. Prints a
Markdown table: whether it reached the example's target within a number of environment steps, after how many,
and in what time; medians over the seeds.
"""

import os
import statistics
from typing import NamedTuple

from absl import app, flags

from benchmarks.one_run import train

_SEEDS = flags.DEFINE_integer("seeds", 1, "Runs of each option, with the seeds 0, 1, ...", lower_bound=1)
_OPTIONS = flags.DEFINE_multi_string("option", [], "Name of an option to try; may be repeated. Default: all.")
_MAX_SECONDS = flags.DEFINE_integer("max_seconds", 600, "Gives up a run after that many seconds.")

_SHARED = {
    "as the example": (),
    "layer norm": ("ActorCriticNetwork.layer_norm = True",),
    # Such layers do not enlarge small observations, and tanh makes them smaller still.
    "spectral norm": (
        "ActorCriticNetwork.spectral_norm = True",
        "ActorCriticNetwork.activation = 'relu'",
        "Experiment.data_transformers = (@ObservationNormalizer, @RewardScaling)",
    ),
    "segments of 8 steps": ("UnrollLearner.recurrence = 8",),
    "GRU": ("ActorCriticNetwork.rnn = @GRU",),
    "GRU, segments of 8 steps": ("ActorCriticNetwork.rnn = @GRU", "UnrollLearner.recurrence = 8"),
    "older unrolls mixed in": ("Experiment.exp_replayer = 'mix_in'",),
    "ring of unrolls": ("Experiment.exp_replayer = 'cyclic_one_time'",),
    "2 batches in 2 passes": ("Experiment.exp_replayer = 'multi_pass'",),
}


class Example(NamedTuple):
    """A gin file, how many environment steps a run may take, and the options: name -> lines of gin."""

    gin_file: str
    max_env_steps: int
    options: dict


EXAMPLES = {
    "PPO": Example(
        "examples/appo_cartpole.gin",
        1_000_000,
        {
            **_SHARED,
            "V-trace": ("PPOAlgorithm.use_vtrace = True",),
            "IMPACT": ("PPOAlgorithm.use_vtrace = True", "PPOAlgorithm.target_update_period = 32"),
            "symmetric KL": ("PPOAlgorithm.exploration = 'symmetric_kl'",),
            "value clipping": ("PPOAlgorithm.value_clip_range = 0.5",),
            "KL penalty": ("PPOAlgorithm.kl_weight = 0.1",),
            "KL limit": ("PPOAlgorithm.target_kl = 0.05",),
        },
    ),
    "IMPALA": Example(
        "examples/impala_cartpole.gin",
        3_000_000,
        {
            **_SHARED,
            # With the example's learning rate, 3e-3, a run of it collapsed.
            "GRU, segments of 8 steps": (
                *_SHARED["GRU, segments of 8 steps"],
                "Adam.learning_rate = 0.001",
            ),
            "without V-trace": ("ImpalaAlgorithm.vtrace = False",),
            "without the last step": ("ImpalaAlgorithm.drop_last_ts = True",),
        },
    ),
}


def make_config(example, option):
    """The text of a gin file that includes the example's, with the settings of an option."""
    included = f'include "{os.path.abspath(example.gin_file)}"'
    changes = (*example.options[option], f"StopCriteria.num_env_steps = {example.max_env_steps}")
    return "\n".join((included, *changes)) + "\n"


def row(algorithm, option, runs, settings):
    """A line of the table; `runs` is a list of `Run`s."""
    there = [run for run in runs if run.env_steps is not None]
    figures = ["-", "-"]
    if there:
        figures = [
            f"{statistics.median(run.env_steps for run in there):,.0f}",
            f"{statistics.median(run.seconds for run in there):.0f}",
        ]
    changed = ", ".join(f"`{setting}`" for setting in settings)
    cells = f"{algorithm}, {option}", changed, f"{len(there)} of {len(runs)}", *figures
    return "| " + " | ".join(cells) + " |"


def main(argv):
    print("| option | settings | reached | env steps | seconds |")
    print("| --- | --- | --- | --- | --- |")
    for algorithm in argv[1:] or EXAMPLES:
        example = EXAMPLES[algorithm]
        for option in _OPTIONS.value or example.options:
            config = make_config(example, option)
            runs = [train(config, seed, _MAX_SECONDS.value, None) for seed in range(_SEEDS.value)]
            print(row(algorithm, option, runs, example.options[option]), flush=True)


if __name__ == "__main__":
    app.run(main)
