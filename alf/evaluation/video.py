# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Renders frames of an environment and makes animations of them for TensorBoard."""

import contextlib
import io
import os
import re
from typing import Any, NamedTuple

import numpy as np
import PIL.Image  # a dependency of TensorBoard

from alf.config.parsing import first_line
from alf.errors import ConfigError
from alf.workers.arrays import describe

_LONGEST_SIDE = 240  # the largest width and height of a Gif in pixels
_SHORTEST_FRAME = 20  # ms; browsers slow faster animations down to 10 frames a second
_OPENGL_ERROR = r"OpenGL|MUJOCO_GL|OSMesa|EGL|\be?gl[A-Z]\w+"


class Gif(NamedTuple):
    """An animation."""

    width: int  # pixels
    height: int
    content: Any  # bytes of the file


class GifRecorder:
    """Records the first frames of sub-environment 0, one in each call.

    Args:
        env: batched environment that renders.
        num_frames: int, how many frames it records.
    """

    def __init__(self, env, num_frames):
        self._env, self._num_frames, self._frames = env, num_frames, []

    def __call__(self):
        if len(self._frames) < self._num_frames:
            image = PIL.Image.fromarray(render_frame(self._env))
            # At once, and not in `make_gif`: 200 frames in full size may take more than 100 MB.
            image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
            self._frames.append(image)

    def make_gif(self):
        """Makes a `Gif` of at most 240 x 240 pixels; None without frames."""
        if not self._frames:
            return None
        first, *others = self._frames
        content, fps = io.BytesIO(), getattr(self._env, "render_fps", 30)
        duration = max(_SHORTEST_FRAME, 1000 / fps)
        # Pillow writes a loop of 0 as "for ever". TensorBoard shows the bytes of the file as they are.
        first.save(content, "GIF", save_all=True, append_images=others, duration=duration, loop=0)
        return Gif(*first.size, content.getvalue())


def choose_drivers():
    """Sets environment variables of graphics libraries, except those that the user has set.

    Call it before the libraries are loaded.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame would complain without a sound card
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo's default, GLFW, needs a screen


def render_frame(env):
    """Renders a frame of sub-environment 0, uint8 [height, width, 3]. Raises ConfigError if there is none."""
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
            f"the environment cannot be rendered: its render() returns {describe(frame)} instead of a frame, "
            "uint8 [height, width, 3]; Experiment.env or the constructor may lack `render_mode`"
        )
    return frame


@contextlib.contextmanager
def opengl_errors_are_config_errors():
    """Context manager that raises ConfigError if MuJoCo finds no OpenGL. Other errors pass through."""
    try:
        yield
    except Exception as error:
        # By its text: MuJoCo and its OpenGL libraries raise ImportError, AttributeError or RuntimeError,
        # whatever the missing part causes first.
        if not re.search(_OPENGL_ERROR, str(error)):
            raise
        raise ConfigError(
            f"MuJoCo cannot render here: {first_line(error)}; set the environment variable MUJOCO_GL to egl, "
            "osmesa or glfw"
        ) from None
