# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Shows a trained policy, or records it: `alf play DIR [--num_episodes=N] [-o FILE.mp4]`.

`alf play alf:CartPole-v1` plays the agent that ALF brings for one of its tasks.

Plays in one environment, in a window or, with -o, into an .mp4 or .gif. Prints the return and the length of
each episode; in a game of several agents, for each agent. --sample explores as in training; --NAME=VALUE
changes a setting of the environment, such as --sticky_actions=0.25. Ctrl-C ends the last episode, and keeps
the video. The exit status is 0, 1 after an error, 2 if a setting is wrong, and 128 plus its number after a
signal.
"""

import signal

from absl import flags

from alf.bin.acting import open_run
from alf.bin.flags import make_flags
from alf.bin.frames import check_path, open_window, record
from alf.bin.signals import on_signal
from alf.errors import ConfigError

FLAGS = make_flags(
    "sample",
    "overwrite",
    "checkpoint",
    "policy",
    "seed",
    output="File to record to, .mp4 or .gif, in place of the screen.",
)
flags.DEFINE_integer("num_episodes", 1, "Episodes.", flag_values=FLAGS, lower_bound=1)


def run(arguments):
    """Plays as the flags say; returns the exit status."""
    video = FLAGS.output
    if video is not None:
        check_path(video, FLAGS.overwrite)
    from alf.evaluation.video import choose_drivers, opengl_errors_are_config_errors

    # Before anything imports a graphics library, which reads these variables once.
    choose_drivers()
    with opengl_errors_are_config_errors(), open_run(arguments, FLAGS, 1, "rgb_array") as (agent, env, path):
        from alf.environments import BatchedEnvironment
        from alf.games.mapping import get_agents

        if env.batch_size != max(1, len(get_agents(env))):
            raise ConfigError(
                f"Experiment.env makes {env.batch_size} environments: to play in one it needs the "
                "argument batch_size"
            )
        print(path, flush=True)
        fps = getattr(env, "render_fps", BatchedEnvironment.render_fps)
        signals = []
        # Only a mark, which `play` looks at after each step: the frames so far become a whole video.
        with on_signal((signal.SIGINT, signal.SIGTERM), signals.append):
            with record(video, fps) if video else open_window(fps) as screen:
                play(agent, env, screen, lambda: bool(signals) or screen.is_closed)
        if video:
            print(f"{screen.num_frames} frames in {video}")
    if signals:
        print(f"stopped by {signal.Signals(signals[0]).name}")
        return 128 + signals[0]
    return 0


def play(agent, env, screen, should_stop):
    """Lets an agent act in one environment, shows each frame, and prints each episode that ends.

    In a game of several agents, each agent has an episode of its own.
    """
    from alf.evaluation.episodes import evaluate
    from alf.evaluation.video import render_frame

    for i in range(FLAGS.num_episodes):
        # One episode in each call: it is printed before the next one begins.
        episodes = evaluate(
            agent,
            env,
            1,
            deterministic=not FLAGS.sample,
            should_stop=should_stop,
            on_step=lambda: screen.show(render_frame(env)),
        )
        # The episode that was cut off has no return worth printing.
        if should_stop():
            return
        agents = [label for label in episodes.labels if label.startswith("agents/")]
        for k, (total, length) in enumerate(zip(episodes.returns, episodes.lengths, strict=True)):
            names = [f", {label.partition('/')[2]}" for label in agents if episodes.labels[label][k]]
            print(f"episode {i + 1}{''.join(names)}: return {total:.6g}, length {length}", flush=True)
