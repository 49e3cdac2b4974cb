# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""MiniGrid's environments as images of the 7 x 7 fields before the agent. See minigrid.gin."""

import gin
import gymnasium as gym

from alf.errors import import_extra


@gin.configurable
def make_minigrid(id, render_mode=None):
    """Makes an environment of MiniGrid without the text of its mission, of which ALF knows nothing.

    Observations are uint8 [7, 7, 20]: which object, which colour and which state each field has, by 0 and 1.
    Numbers of objects, as MiniGrid gives them, are hard to learn from: a key is 5 and a ball is 6.
    """
    wrappers = import_extra("minigrid.wrappers", "minigrid")  # the import registers the ids, too
    env = gym.make(id, render_mode=render_mode, disable_env_checker=True)
    return wrappers.ImgObsWrapper(wrappers.OneHotPartialObsWrapper(env))
