# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""MiniGrid's environments as images of the 7 x 7 fields before the agent. See minigrid.gin."""

import gin
import gymnasium as gym

from alf.errors import import_extra


@gin.configurable
def make_minigrid(id, render_mode=None):
    """Makes an environment of MiniGrid without the text of its mission, of which ALF knows nothing.

    Observations are uint8 [7, 7, 3]: the object on each field, its colour and its state.
    """
    wrappers = import_extra("minigrid.wrappers", "minigrid")  # the import registers the ids, too
    return wrappers.ImgObsWrapper(gym.make(id, render_mode=render_mode, disable_env_checker=True))
