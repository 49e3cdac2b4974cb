# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains an agent: `alf train CartPole-v1 --algorithm=ppo --steps=100_000 [--NAME=VALUE ...] [-o DIR]`.

In place of the environment: a gin file, `alf train FILE.gin`; one of ALF's tasks, `alf train
alf:CartPole-v1`; or the folder of a run, which goes on, `alf train DIR`.

A NAME is a setting, with or without its class: --num_envs=64, --learning_rate=1e-3, --Adam.epsilon=1e-5. It
may also be what another library calls a setting that means the same: --gamma=0.98; and a macro of the gin
file. `alf settings` lists them. Without -o, the run gets a new folder in runs/.

The exit status is 0 if training ended at a stop criterion, 1 after an error, 2 if a setting is wrong, and
128 plus its number if a signal (SIGINT, SIGTERM, SIGHUP, SIGUSR1) ended training.
"""

import signal

from alf.bin.arguments import check_says_what, find_what, read_what
from alf.bin.command import exit_after, start_work
from alf.bin.flags import make_flags
from alf.bin.show import show
from alf.core.signals import list_endings, on_signal
from alf.errors import ConfigError

FLAGS = make_flags("algorithm", "steps", "ray_address", output="Folder of the run, by default a new one.")

_BUILD_SECONDS = 2.0  # until the process ends after a signal that comes before training


def build(what, algorithm):
    """Makes the `Trainer` that gin's bindings describe; raises ConfigError if a binding is wrong.

    Args:
        what: `What`.
        algorithm: what --algorithm names, or None, for the name of a new run.
    """
    from alf.config.parsing import wrong_calls_are_config_errors
    from alf.runs.presets import make_parts
    from alf.runs.run_dir import choose_root_dir
    from alf.training import Trainer

    names = [x for x in (algorithm, what.label) if x and isinstance(x, str)]
    with choose_root_dir(FLAGS.output or what.run, *names) as root_dir, wrong_calls_are_config_errors():
        return Trainer(root_dir, *make_parts())


def run(arguments):
    """Trains as the flags say; returns the exit status."""
    check_says_what(arguments)
    what = find_what(arguments)
    if what.run and FLAGS.output:
        raise ConfigError(
            f"{what.run} is a run, which goes on where it is: leave out -o, or name {what.gin_files[-1]} to "
            "train anew"
        )
    start_work()
    signals = []
    trainer = None

    def stop(signum):
        # In the thread of `on_signal`. The mark comes first: if the trainer is made at this moment, `run`
        # looks at the mark after it, and does not train.
        signals.append(signum)
        if trainer is not None:
            trainer.interrupt(f"stopped by {signal.Signals(signum).name}", signum)
        else:  # Nothing is lost yet, and an environment's constructor may hang.
            exit_after(_BUILD_SECONDS, 128 + signum)

    with on_signal(list_endings(), stop):
        bindings = read_what(what, arguments, FLAGS)
        # Before the parts are made, some of which would else start Ray on this machine.
        if FLAGS.ray_address is not None:
            from alf.distributed.cluster import connect

            connect(FLAGS.ray_address)
        trainer = build(what, bindings.get("Experiment.algorithm"))
        if signals:
            # The trainer is not closed: its environments end with this process.
            return 128 + signals[0]
        finished, reason = trainer.train()
    show(reason)
    # Without a signal of its own, this process was ended by another learner process, which had one.
    return 0 if finished else 128 + (signals or [signal.SIGTERM])[0]
