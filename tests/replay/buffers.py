# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Small replay buffers and their whole content."""

import json

import numpy as np
import tensorflow as tf

from alf.replay import (
    Sequences,
    UniformReplayer,
)
from tests.replay.streams import Streams, to_numpy


def make(kind=UniformReplayer, context=0, capacity=48, **kwargs):
    streams = Streams(**kwargs)
    return kind(streams.unroll_spec, streams.num_groups, context, capacity=capacity), streams


def everything(replayer):
    """All the time steps of each batched environment's first column, and their recurrent states."""
    content = []
    for env, (first, last) in enumerate(zip(replayer.oldest().numpy(), replayer.steps.numpy())):
        start = -(-first // replayer.start_stride) * replayer.start_stride
        at = Sequences(*(tf.constant([x], tf.int64) for x in (env, 0, start)))
        rows = to_numpy(replayer.read(at, start - first, last - start))
        states = []
        for position in range(start, last, replayer.unroll_length):
            at = at._replace(start=tf.constant([position], tf.int64))
            states.append(to_numpy(replayer.read(at, 0, 0).state))
        content.append((rows._replace(state=()), tuple(states)))
    return tuple(content)


def rewrite(path, **changes):
    """Replaces arrays of a file."""
    with np.load(path) as file:
        arrays = dict(file)
    arrays.update(changes)
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})


def change_header(path, **changes):
    with np.load(path) as file:
        header = {**json.loads(file["header"].item()), **changes}
    rewrite(path, header=np.array(json.dumps(header)))
