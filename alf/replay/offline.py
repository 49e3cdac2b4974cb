# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replay of a file alone, without environments."""

from alf.errors import check_int
from alf.replay import buffer_file
from alf.replay.ring_buffer import make_row_spec
from alf.replay.uniform import UniformReplayer


def read_row_spec(path):
    """The specs of what a buffer's file holds, an `Experience` of unbatched tensor specs with their bounds.

    Raises:
        ConfigError: if the file is damaged, or no such file.
    """
    return make_row_spec(buffer_file.read_layout(path)[0])


def load_replayer(path, context=0):
    """Makes a uniform replayer that holds all that a buffer's file does.

    Its `row_spec` has the specs of observations, actions, rewards and info. Every `policy_version` is 0:
    those of the file count the updates of another run.

    Args:
        path: of a file that a replayer's `save` wrote.
        context: int; rows before a sampled sequence that data transformers need.

    Raises:
        ConfigError: if the file is damaged, or no such file.
    """
    check_int("context", context, at_least=0)
    unroll_spec, num_envs, num_steps = buffer_file.read_layout(path)
    rows, batch_size = unroll_spec.step_type.shape
    capacity = max(num_steps, rows - 1) * num_envs * batch_size
    replayer = UniformReplayer(unroll_spec, num_envs, context, capacity)
    replayer.load(path)
    replayer.forget_versions()
    return replayer
