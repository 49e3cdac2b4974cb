# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replayers keep the experience that a learner observes until it trains on it."""

import inspect
from typing import Any

from alf.data_structures import Experience
from alf.errors import ConfigError
from alf.replay.buffer_replayer import UniformReplayer
from alf.replay.hybrid import HybridReplayer, check_offline
from alf.replay.minari_data import from_minari, to_minari
from alf.replay.offline_buffer import find_files, load_replayer, read_row_spec
from alf.replay.prioritized import PrioritizedReplayer
from alf.replay.replayer import Replayer, SequenceReplayer, Sequences, UnrollReplayer
from alf.replay.unroll_replayers import (
    CyclicOneTimeReplayer,
    MixInReplayer,
    MultiPassReplayer,
    OneTimeReplayer,
)

_KINDS: Any = (
    OneTimeReplayer,
    CyclicOneTimeReplayer,
    MixInReplayer,
    MultiPassReplayer,
    UniformReplayer,
    PrioritizedReplayer,
)
_KIND_OF_NAME = {kind.name: kind for kind in _KINDS}


def make_replayer(
    name: Any, unroll_spec: Experience, num_groups: int, context: int = 0
) -> UnrollReplayer | SequenceReplayer:
    """Makes a replayer for a driver. Gin can bind its other settings.

    Args:
        name: "one_time", "cyclic_one_time", "mix_in", "multi_pass", "uniform" or "prioritized". Or a class or
            function that makes a replayer: it gets the other arguments that it accepts, as keywords. Or an
            `UnrollReplayer` or `SequenceReplayer` that was made for the other arguments; it is returned.
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...]. Bounds of
            specs are kept in the files of the buffer.
        num_groups: int, the number of batched environments. Their `env_id`s are index * B + column.
        context: int, the number of time steps in front of a sequence that data transformers need.

    Raises:
        ConfigError: if there is no such replayer, or it does not fit the other arguments.
    """
    settings: dict[str, Any] = dict(unroll_spec=unroll_spec, num_groups=num_groups, context=context)
    replayer = _KIND_OF_NAME.get(name) if isinstance(name, str) else name
    if callable(replayer):
        replayer = replayer(**{key: settings[key] for key in _list_arguments(replayer, settings)})
    if not isinstance(replayer, (UnrollReplayer, SequenceReplayer)):
        made = f", which makes {replayer!r}" if callable(name) else ""
        raise ConfigError(
            f"exp_replayer is {name!r}{made}: it must be one of {sorted(_KIND_OF_NAME)}, a replayer, or a "
            "class or function that makes one"
        )
    # Also a replayer that was just made: the user's own function may have ignored the arguments.
    replayer.check_fits(**settings)
    return replayer


def is_of_sequences(name: Any) -> bool:
    """Returns whether `make_replayer(name, ...)` makes a `SequenceReplayer`."""
    kind = _KIND_OF_NAME.get(name) if isinstance(name, str) else name
    return issubclass(kind, SequenceReplayer) if inspect.isclass(kind) else isinstance(kind, SequenceReplayer)


def _list_arguments(make, names):
    """Lists the `names` that a callable accepts as arguments."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):  # some of Python's own classes have no signature
        return []
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return [name for name in names if takes_all or name in parameters]
