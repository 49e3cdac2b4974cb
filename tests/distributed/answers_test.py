# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How the answers of collectors are joined and compressed."""

import numpy as np
import pytest

from alf.distributed import answers
from alf.distributed.aggregator_actor import AggregatorActor


def make_answer(num_unrolls, start=0):
    shape = num_unrolls, 3, 2
    numbers = np.arange(start, start + np.prod(shape)).reshape(shape)
    return [numbers.astype(np.float32), numbers.astype(np.uint8), numbers % 2 == 0, numbers[:0]]


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


@pytest.mark.parametrize("compresses", [False, True])
def test_an_aggregator_joins_answers_along_n(compresses):
    parts = [make_answer(2), make_answer(1, start=7), make_answer(3, start=9)]
    joined = AggregatorActor(compresses).join(*parts)
    assert isinstance(joined[1], answers.Compressed) == compresses
    expected = [np.concatenate(leaves) for leaves in zip(*parts)]
    assert_equal(answers.decompress(joined), expected)


def test_parts_of_a_joined_answer_are_taken():
    parts = [make_answer(2), make_answer(2, start=7), make_answer(2, start=9)]
    joined = answers.join(parts)
    assert_equal(answers.select(joined, [True, False, True]), answers.join([parts[0], parts[2]]))
    assert_equal(answers.select(joined, [True, True, True]), joined)


def test_integers_and_bools_are_compressed():
    image = np.zeros((4, 84, 84, 1), np.uint8)
    image[:, 20:60] = 7
    reward = np.zeros((4, 9), np.float32)
    compressed = answers.compress([image, reward, image > 0, image.astype(np.int64).T])
    assert [isinstance(x, answers.Compressed) for x in compressed] == [True, False, True, True]
    assert len(compressed[0].data) < image.nbytes / 10
    assert_equal(answers.decompress(compressed), [image, reward, image > 0, image.astype(np.int64).T])
