# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replayers: where observed experience waits until it is trained on."""

from alf.errors import ConfigError
from alf.replay.one_time import OneTimeReplayer

_REPLAYERS = {"one_time": OneTimeReplayer}


def make_replayer(name):
    """Makes the replayer called `name`.

    Raises:
        ConfigError: if there is none of that name.
    """
    if name not in _REPLAYERS:
        raise ConfigError(f"exp_replayer is {name!r}: it must be one of {sorted(_REPLAYERS)}")
    return _REPLAYERS[name]()
