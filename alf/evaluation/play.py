# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""play: shows a trained agent on the screen, or records it."""

from collections.abc import Callable
from typing import Any

from alf.config.kinds import NonNegativeInt, PositiveInt
from alf.config.settings import checked
from alf.core.annotations import FilePath
from alf.core.files import find_path
from alf.environments import BatchedEnvironment
from alf.errors import ConfigError, rendered_shortly
from alf.evaluation.episodes import Episodes, evaluate, join_episodes
from alf.evaluation.frames import check_path, open_window, record
from alf.evaluation.open_run import open_run
from alf.evaluation.video import choose_drivers, opengl_errors_are_config_errors, render_frame
from alf.games.mapping import get_agents


@checked
@rendered_shortly()
def play(
    run: FilePath,
    num_episodes: PositiveInt = 1,
    output: FilePath | None = None,
    deterministic: bool = True,
    checkpoint: str | int = "newest",
    policy: str | None = None,
    seed: NonNegativeInt | None = None,
    overwrite: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> Episodes:
    """Lets the trained agent of a run play, in a window or into a video, as `alf play` does.

        alf.play("runs/cartpole", output="cartpole.mp4", seed=1)

    There is one environment. The return and the length of each episode are printed, in a game of several
    agents for each of them.

    Args:
        run: path of a run, or "alf:TASK" for the agent that ALF brings for one of its tasks.
        num_episodes: int, how many episodes, or games.
        output: path of a video, .mp4 or .gif; None: a window on the screen.
        deterministic: bool, whether the agent acts as well as it can, or explores like in training.
        checkpoint: "newest", "best", a train iteration, or a path.
        policy: text, who acts if the run has several policies or the game several agents: a player, or
            "AGENT=PLAYER,...". A player is the name of a policy, "NAME@CHECKPOINT" or "random".
        seed: int, seed of the environment; None: another one each time.
        overwrite: bool, whether a file at `output` is replaced.
        should_stop: callable () -> bool, called before every step. If it returns True, the episode ends, and
            the video has the frames so far.
        **settings: settings of the environment, such as `sticky_actions=0.25`.

    Returns:
        the `Episodes` that have ended.

    Raises:
        ConfigError: if there is no such run, a setting is wrong, the environment cannot be rendered, or there
            is no screen.
        SaveError: if the video cannot be written.
    """
    path = None if output is None else find_path(output)
    if path is not None:
        check_path(path, overwrite)
    # Before anything imports a graphics library, which reads these variables once.
    choose_drivers()
    given = checkpoint, policy, seed, "rgb_array"
    with opengl_errors_are_config_errors(), open_run(run, 1, settings, *given) as (agent, env, weights):
        if env.batch_size != max(1, len(get_agents(env))):
            raise ConfigError(
                f"Experiment.env makes {env.batch_size} environments: to play in one it needs the "
                "argument batch_size"
            )
        print(weights, flush=True)
        fps = getattr(env, "render_fps", BatchedEnvironment.render_fps)
        with record(path, fps) if path else open_window(fps) as screen:

            def is_over():
                return should_stop() or screen.is_closed

            def show_frame():
                screen.show(render_frame(env))

            parts = []
            # One episode in each call: it is printed before the next one begins.
            while len(parts) < num_episodes and not (parts and is_over()):
                parts.append(evaluate(agent, env, 1, deterministic, is_over, show_frame))
                # The episode that was cut off has no return worth printing.
                if not is_over():
                    _print_episode(len(parts), parts[-1])
        if path:
            print(f"{screen.num_frames} frames in {path}", flush=True)
    return join_episodes(parts)


def _print_episode(number, episodes):
    """Prints an episode; in a game of several agents that of each agent."""
    agents = [label for label in episodes.labels if label.startswith("agents/")]
    for k, (total, length) in enumerate(zip(episodes.returns, episodes.lengths, strict=True)):
        names = [f", {label.partition('/')[2]}" for label in agents if episodes.labels[label][k]]
        print(f"episode {number}{''.join(names)}: return {total:.6g}, length {length}", flush=True)
