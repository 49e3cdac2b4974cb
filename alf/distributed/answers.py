# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Joins and compresses the answers of collectors on their way. Without TensorFlow."""

import itertools
import zlib
from typing import NamedTuple

import numpy as np

_LEVEL = 1  # of zlib: the fastest


class Compressed(NamedTuple):
    """An array of integers or bools as zlib's bytes."""

    data: bytes
    dtype: str
    shape: tuple


def join(answers):
    """Makes one answer of several: lists of arrays [N, ...], which are concatenated leaf by leaf."""
    # Copies: the arrays of the answers are views of memory that Ray frees.
    return [np.concatenate(leaves) for leaves in zip(*answers, strict=True)]


def select(answer, is_kept):
    """Selects parts of a joined answer, which have equal sizes; `is_kept` is a list with a bool for each."""
    if all(is_kept):
        return answer
    return [np.concatenate(list(itertools.compress(np.split(x, len(is_kept)), is_kept))) for x in answer]


def compress(answer):
    """Replaces the arrays of integers and bools, such as images, by `Compressed`. Floats hardly shrink."""
    return [_compress(x) if x.dtype.kind in "iub" else x for x in answer]


def decompress(answer):
    """Returns the arrays that `compress` was called with."""
    return [_decompress(x) if isinstance(x, Compressed) else x for x in answer]


def _compress(array):
    return Compressed(zlib.compress(np.ascontiguousarray(array), _LEVEL), array.dtype.str, array.shape)


def _decompress(compressed):
    return np.frombuffer(zlib.decompress(compressed.data), compressed.dtype).reshape(compressed.shape)
