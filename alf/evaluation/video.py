# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Frames of an environment, and an animated picture of them for TensorBoard."""

import contextlib
import io
import os
import re
from typing import Any, NamedTuple

import numpy as np
import PIL.Image  # TensorBoard brings it.

from alf.config.parsing import first_line
from alf.errors import ConfigError
from alf.workers.arrays import describe

_LONGEST_SIDE = 240  # pixels of a Gif
_SHORTEST_FRAME = 20  # ms; browsers show faster ones with 10 frames a second
_OPENGL_ERROR = r"OpenGL|MUJOCO_GL|OSMesa|EGL|\be?gl[A-Z]\w+"


class Gif(NamedTuple):
    """An animated picture."""

    width: int  # pixels
    height: int
    content: Any  # bytes, the file


class GifRecorder:
    """Keeps the first frames of sub-environment 0: one for each call, until there are enough.

    Args:
        env: batched environment that renders.
        num_frames: int.
    """

    def __init__(self, env, num_frames):
        self._env, self._num_frames, self._frames = env, num_frames, []

    def __call__(self):
        if len(self._frames) < self._num_frames:
            image = PIL.Image.fromarray(render_frame(self._env))
            image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
            self._frames.append(image)

    def make_gif(self):
        """Returns the `Gif`, at most 240 pixels wide and high; None without a frame."""
        if not self._frames:
            return None
        first, *others = self._frames
        content, fps = io.BytesIO(), getattr(self._env, "render_fps", 30)
        duration = max(_SHORTEST_FRAME, 1000 / fps)
        first.save(content, "GIF", save_all=True, append_images=others, duration=duration, loop=0)
        return Gif(*first.size, content.getvalue())


def choose_drivers():
    """Sets the environment variables of graphics libraries that the user has not set, before they start."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame would complain where there is no sound card.
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo takes GLFW by itself, which needs a screen.


def render_frame(env):
    """Returns a frame of a batched environment of one; raises ConfigError if it gives none."""
    try:
        frame = env.render()
    except NotImplementedError as error:
        reason = str(error) or "it has no render()"
        raise ConfigError(f"the environment cannot be rendered: {reason}") from None
    if isinstance(frame, np.ndarray) and frame.ndim == 4 and len(frame) == 1:
        frame = frame[0]  # TF-Agents' `BatchedPyEnvironment` returns a batch
    is_frame = isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.shape[2:] == (3,)
    if not is_frame:
        raise ConfigError(
            f"the environment cannot be rendered: its render() returns {describe(frame)} and no frame, uint8 "
            "[height, width, 3]; Experiment.env_ctor and its constructor may lack the argument render_mode"
        )
    return frame


@contextlib.contextmanager
def opengl_errors_are_config_errors():
    """Context that raises ConfigError where MuJoCo finds nothing to draw with. Other errors pass through."""
    try:
        yield
    except Exception as error:
        if not re.search(_OPENGL_ERROR, str(error)):
            raise
        raise ConfigError(
            f"MuJoCo cannot render here: {first_line(error)}; the environment variable MUJOCO_GL says what "
            "draws: egl, osmesa or glfw"
        ) from None
