# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Shows a trained policy, or records it: `alf-play --root_dir=DIR [--num_episodes=N] [--video=FILE.mp4]`.

`alf-play alf:CartPole-v1` plays the agent that ALF brings for one of its tasks.

Plays in one environment, in a window or, with --video, into an .mp4 or .gif. Prints the return and the length
of each episode; in a game of several agents, for each agent. --sample explores as in training;
--gin_param changes a setting of the environment, such as --gin_param='load_atari.sticky_actions = 0.25'.
Ctrl-C ends the last episode, and keeps the video. The exit status is 0, 1 after an error, 2 if a setting is
wrong, and 128 plus its number after a signal.
"""

import os
import signal

from absl import flags

from alf.bin.acting import open_run, take_run
from alf.bin.command import make_main, start
from alf.bin.flags import share
from alf.bin.frames import check_path, open_window, record
from alf.bin.signals import on_signal
from alf.errors import ConfigError

SAMPLE, NUM_EPISODES, OVERWRITE = share("sample", "num_episodes", "overwrite")
share("root_dir", "gin_param", "checkpoint", "policy", "seed")  # for `open_run`
_VIDEO = flags.DEFINE_string("video", None, "File to record to, .mp4 or .gif, in place of the screen.")


def run(arguments=()):
    """Plays as the flags say; returns the exit status."""
    take_run(arguments)
    video = os.path.expanduser(_VIDEO.value) if _VIDEO.value is not None else None
    if video is not None:
        check_path(video, OVERWRITE.value)
    from alf.evaluation.video import choose_drivers, opengl_errors_are_config_errors

    # Before anything imports a graphics library, which reads these variables once.
    choose_drivers()
    with opengl_errors_are_config_errors(), open_run(1, "rgb_array") as (agent, env, path):
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

    for i in range(NUM_EPISODES.value or 1):
        # One episode in each call: it is printed before the next one begins.
        episodes = evaluate(
            agent,
            env,
            1,
            deterministic=not SAMPLE.value,
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


main = make_main(run, takes_arguments=True)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
