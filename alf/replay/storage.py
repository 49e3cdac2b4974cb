# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Large variables that are read and written in place, along their first dimension."""

import math
import os

import tensorflow as tf

from alf.core.devices import HOST
from alf.core.nest_utils import add_leading_dims, find_mismatch
from alf.errors import ConfigError


class TooLittleMemory(ConfigError):
    """Variables would take more memory than this machine, or the container, has."""


def allocate(setting, size, spec):
    """Makes a nest of variables [size, *shape] in main memory, one for each spec, with arbitrary content.

    The operating system provides each page of memory when it is first written. (`tf.zeros` would take all
    memory at once, and 2 seconds for 7 GB.)

    Args:
        setting: text for errors, such as "capacity is 10".
        size: int, the first dimension.
        spec: nest of tensor specs [*shape].

    Raises:
        TooLittleMemory: if the machine has less memory than that, or a container may take less.
    """
    needed = size * sum(s.shape.num_elements() * s.dtype.size for s in tf.nest.flatten(spec))
    machine, limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), read_cgroup_limit()
    if needed > min(machine, limit):
        has = "this machine has" if machine <= limit else "the limit of this container (cgroup) is"
        gigabytes = f"{needed / 1e9:.1f} GB, {has} {min(machine, limit) / 1e9:.1f} GB"
        raise TooLittleMemory(f"{setting}: that takes {gigabytes} of memory")

    def make(s):
        # The variable takes over this tensor with its memory. A copy would write every page.
        value = tf.raw_ops.Empty(shape=(size, *s.shape), dtype=s.dtype, init=False)
        return tf.Variable(value, trainable=False)

    with tf.device(HOST):
        return tf.nest.map_structure(make, spec)


def read_cgroup_limit(proc="/proc/self/cgroup", root="/sys/fs/cgroup"):
    """Returns the least memory limit of this process's cgroup and those around it, in bytes, or infinity."""
    limits = [math.inf]
    for line in _read_text(proc).splitlines():
        # "0::/PATH" in version 2, "4:memory:/PATH" in version 1. In a container the path may be the host's,
        # which is not there: then the files at the root are the container's.
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, name = (f"{root}/memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        parts = path.strip("/").split("/")
        for i in range(len(parts) + 1):
            text = _read_text(os.path.join(top, *parts[:i], name)).strip()
            limits += [int(text)] if text.isdigit() else []  # "max": none
    return min(limits)


def _read_text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


# Methods of tf.Variable may read, and so copy, the whole variable of several GB. These operations do not.


def write_at(variables, indices, values):
    """Writes a nest of values [..., *shape] to variables at int64 indices [...]. Returns the operations."""
    # TensorFlow takes no exclusive lock for them: a read in another thread may return a row that is half old
    # and half new. `BufferReplayer` says how its readers find out.
    pairs = zip(tf.nest.flatten(variables), tf.nest.flatten(values), strict=True)
    return [tf.raw_ops.ResourceScatterUpdate(resource=v.handle, indices=indices, updates=x) for v, x in pairs]


def read_at(variables, indices):
    """Reads a nest of variables [size, *shape] at int64 indices [...]. Returns tensors [..., *shape]."""

    def read(variable):
        values = tf.raw_ops.ResourceGather(resource=variable.handle, indices=indices, dtype=variable.dtype)
        values.set_shape([*indices.shape, *variable.shape[1:]])
        return values

    return tf.nest.map_structure(read, variables)


def check_unroll_spec(name, ours, needed):
    """Raises ConfigError unless the replayer `name`, made for the spec `ours`, fits the spec `needed`."""
    mismatch = find_mismatch(needed, ours)
    if mismatch:
        made = f"exp_replayer is a {name!r} replayer that was made for another unroll_spec"
        raise ConfigError(f"{made} than the environments have: {mismatch}")


def check_experience(experience, unroll_spec):
    """Raises ConfigError unless an `Experience` of [Q, T+1, B, ...] holds unrolls of the spec."""
    mismatch = find_mismatch(experience, add_leading_dims(unroll_spec, None))
    if mismatch:
        raise ConfigError(f"the experience does not fit unroll_spec: {mismatch}")
