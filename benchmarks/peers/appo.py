# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures Sample Factory's APPO: `python benchmarks/peers/appo.py --workload=pong`. Prints one JSON line."""

import functools
import os
import sys
import tempfile

from envs import CORES, make_env
from meter import Meter
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from setups import SETUPS, make_parser


class Observer(AlgoObserver):
    """Measures from the first training step on, then stops the run."""

    def __init__(self, meter):
        self._meter = meter

    def on_training_step(self, runner, training_iteration_since_resume):
        if not self._meter.count_total(sum(runner.env_steps.values()), training_iteration_since_resume):
            runner.cfg.train_for_seconds = -1


def make_arguments(setup, folder):
    """Returns the command line of Sample Factory: each worker has two splits, as ALF has two groups."""
    steps = setup.unroll_length
    settings = dict(env="peer", experiment="peer", train_dir=folder, device="cpu", async_rl=True)
    per_worker = 2 * setup.batch_envs // CORES
    settings |= dict(num_workers=CORES, num_envs_per_worker=per_worker, worker_num_splits=2)
    settings |= dict(rollout=steps, batch_size=setup.batch_envs * steps, num_epochs=1)
    settings |= dict(num_batches_per_epoch=1, use_rnn=False, learning_rate=3e-4)
    settings |= dict(max_grad_norm=40.0, normalize_input=False, normalize_returns=False)
    settings |= dict(actor_critic_share_weights=True, adaptive_stddev=False, save_every_sec=10**6)
    settings |= dict(train_for_env_steps=10**10, decorrelate_envs_on_one_worker=False, log_to_file=False)
    settings |= dict(nonlinearity="tanh") if setup.hidden else dict(nonlinearity="relu", obs_scale=255.0)
    layers = "--encoder_mlp_layers" if setup.hidden else "--encoder_conv_mlp_layers"
    sizes = map(str, setup.hidden or (512,))
    return [*(f"--{name}={value}" for name, value in settings.items()), layers, *sizes]


def main():
    flags = make_parser(__doc__).parse_args()
    setup, meter = SETUPS[flags.workload], Meter(flags.seconds)
    register_env("peer", functools.partial(_make, setup.env))
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Sample Factory prints
    with tempfile.TemporaryDirectory() as folder:
        arguments = make_arguments(setup, folder)
        cfg, runner = make_runner(parse_full_cfg(parse_sf_args(arguments)[0], arguments))
        runner.register_observer(Observer(meter))
        runner.init()
        runner.run()
    sys.stdout = output
    meter.report(variant="APPO")


def _make(name, *_, **__):
    return make_env(name)


if __name__ == "__main__":
    main()
