# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replayers: where observed experience waits until it is trained on."""

import inspect
from typing import Any

from alf.data_structures import Experience
from alf.errors import ConfigError
from alf.replay.buffer_file import find_files, read_row_spec
from alf.replay.buffer_replayer import UniformReplayer, load_replayer
from alf.replay.hybrid import HybridReplayer, check_same_rows
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
    name: Any, unroll_spec: Experience, num_envs: int, context: int = 0
) -> UnrollReplayer | SequenceReplayer:
    """Makes a replayer for a driver. Settings that are not arguments here are those that gin binds.

    ConfigError says that no replayer has that name, or that a setting is wrong.

    Args:
        name: "one_time", "cyclic_one_time", "mix_in", "multi_pass", "uniform" or "prioritized". In place of
            a name it may be a class or function that makes a replayer, which is called with those of the
            other arguments that it takes, as keywords; or an `UnrollReplayer` or `SequenceReplayer` that was
            made for the other arguments, which is returned.
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...]. A spec may be
            bounded: files of the buffer keep the bounds.
        num_envs, context: as in `BufferReplayer`.
    """
    settings: dict[str, Any] = dict(unroll_spec=unroll_spec, num_envs=num_envs, context=context)
    replayer = _KIND_OF_NAME.get(name) if isinstance(name, str) else name
    if callable(replayer):
        replayer = replayer(**{key: settings[key] for key in _list_arguments(replayer, settings)})
    if not isinstance(replayer, (UnrollReplayer, SequenceReplayer)):
        made = f", which makes {replayer!r}" if callable(name) else ""
        raise ConfigError(
            f"exp_replayer is {name!r}{made}: it must be one of {sorted(_KIND_OF_NAME)}, or a replayer, or "
            "what makes one"
        )
    replayer.check_fits(**settings)
    return replayer


def is_of_sequences(name: Any) -> bool:
    """Whether what `make_replayer` takes as a name, class or object stands for a `SequenceReplayer`."""
    kind = _KIND_OF_NAME.get(name) if isinstance(name, str) else name
    return issubclass(kind, SequenceReplayer) if inspect.isclass(kind) else isinstance(kind, SequenceReplayer)


def _list_arguments(make, names):
    """Lists those of the names that a callable takes as arguments."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):  # some of Python's own classes have no signature
        return []
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return [name for name in names if takes_all or name in parameters]
