# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replayers: where observed experience waits until it is trained on."""

from alf.errors import ConfigError
from alf.replay.cyclic_one_time import CyclicOneTimeReplayer
from alf.replay.hybrid import HybridReplayer, check_same_rows
from alf.replay.mix_in import MixInReplayer
from alf.replay.offline import load_replayer, read_row_spec
from alf.replay.one_time import OneTimeReplayer
from alf.replay.prioritized import PrioritizedReplayer
from alf.replay.replayer import Replayer, Sample, Sequences
from alf.replay.uniform import UniformReplayer

__all__ = [
    "CyclicOneTimeReplayer",
    "HybridReplayer",
    "MixInReplayer",
    "OneTimeReplayer",
    "PrioritizedReplayer",
    "Replayer",
    "Sample",
    "Sequences",
    "UniformReplayer",
    "check_same_rows",
    "load_replayer",
    "make_replayer",
    "read_row_spec",
]

_KINDS = (OneTimeReplayer, CyclicOneTimeReplayer, MixInReplayer, UniformReplayer, PrioritizedReplayer)
_REPLAYERS = {kind.name: kind for kind in _KINDS}


def make_replayer(name, unroll_spec, num_envs, context=0):
    """Makes the replayer called `name`.

    Args:
        name: "one_time", "cyclic_one_time", "mix_in", "uniform" or "prioritized".
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...]. A spec may be
            bounded: files of the buffer keep the bounds.
        num_envs: int; batched environments, whose `env_id`s are index * B + column.
        context: int; rows before a sampled sequence that data transformers need.

    Raises:
        ConfigError: if there is none of that name, or a setting of it is wrong.
    """
    if name not in _REPLAYERS:
        raise ConfigError(f"exp_replayer is {name!r}: it must be one of {sorted(_REPLAYERS)}")
    return _REPLAYERS[name](unroll_spec, num_envs, context)
