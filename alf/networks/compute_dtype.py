# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The setting `compute_dtype`: the dtype in which layers compute. Their variables are always float32.

It is "float32", "bfloat16" or "auto". "auto" means bfloat16 if the CPU computes it faster
(`bfloat16_is_fast`), else float32, which is much faster on other CPUs. A GPU does not matter: actors on the
CPU compute with a copy of the network, and products of float32 on GPUs are fast, too (TF32). bfloat16 has 8
significant bits and the range of float32, so losses need no scaling.
"""

import contextlib
import contextvars
from typing import Literal

import tensorflow as tf

ComputeDtype = Literal["float32", "bfloat16", "auto"]
# Of the thread: another one may make networks at the same time.
_current = contextvars.ContextVar("compute_dtype", default=tf.float32)


@contextlib.contextmanager
def compute_in(compute_dtype):
    """Context manager in which layers that are made without a dtype compute in `compute_dtype`.

    None changes nothing: an outer `compute_in` counts.
    """
    token = _current.set(_find_dtype(compute_dtype))
    try:
        yield
    finally:
        _current.reset(token)


def current_dtype():
    """Returns the dtype of the innermost `compute_in`, `tf.float32` or `tf.bfloat16`."""
    return _current.get()


def _find_dtype(compute_dtype):
    if compute_dtype is None:
        return _current.get()
    if compute_dtype == "auto":
        return tf.bfloat16 if bfloat16_is_fast() else tf.float32
    return tf.as_dtype(compute_dtype)


def bfloat16_is_fast(cpuinfo="/proc/cpuinfo"):
    """Returns whether the CPU has AMX, or is AMD's with AVX512_BF16.

    Intel's CPUs compute half as many AVX512_BF16 products in a cycle: they are slower than with float32.
    False if the CPU is unknown.
    """
    # The first core is enough: all cores are alike.
    entries = {}
    with contextlib.suppress(OSError), open(cpuinfo) as lines:
        for line in lines:
            key, _, value = line.partition(":")
            entries.setdefault(key.strip(), value.split())
    flags = entries.get("flags", [])
    return "amx_bf16" in flags or ("avx512_bf16" in flags and entries.get("vendor_id") == ["AuthenticAMD"])
