# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Array specs: what is equal, and which bounds they have: those of TF-Agents' specs."""

import numpy as np
import pytest
from tf_agents.specs import array_spec

from alf.core.array_spec import ArraySpec, BoundedArraySpec, to_array_spec


def test_names_are_not_compared_but_all_else_is():
    spec = BoundedArraySpec((2,), np.float32, 0, [1, 2], "x")
    assert spec == BoundedArraySpec([2], "float32", [0, 0], [1, 2])
    for other in (
        BoundedArraySpec((2, 1), np.float32, 0, [[1], [2]]),
        BoundedArraySpec((2,), np.float64, 0, [1, 2]),
        BoundedArraySpec((2,), np.float32, 0, 2),
        BoundedArraySpec((2,), np.float32, -1, [1, 2]),
        ArraySpec((2,), np.float32),
    ):
        assert spec != other and other != spec
    assert ArraySpec((2,), np.float32) == ArraySpec((2,), np.float32, "x")


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.uint64]
)
def test_bounds_are_those_of_tf_agents(dtype):
    cases = [(None, None), (0, None), (None, [[1], [2]]), (np.array([0, 1, 2]), 100)]
    if np.issubdtype(dtype, np.floating):
        cases += [(-np.inf, np.inf), (np.array([0, -np.inf, 1]), 5)]
    for bounds in cases:
        spec = BoundedArraySpec((2, 3), dtype, *bounds, "x")
        theirs = array_spec.BoundedArraySpec((2, 3), dtype, *bounds, "x")
        for bound in ("minimum", "maximum"):
            np.testing.assert_array_equal(getattr(spec, bound), getattr(theirs, bound), strict=True)
        assert to_array_spec(theirs) == spec and to_array_spec(spec) is spec
    assert to_array_spec(array_spec.ArraySpec((2,), dtype, "x")) == ArraySpec((2,), dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64])
def test_infinite_bounds_of_integers_are_the_limits_of_their_type(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for bounds in ((-np.inf, np.inf), ([-np.inf, 3.0], [5.0, np.inf])):
        spec = BoundedArraySpec((2,), dtype, *bounds)
        expected = [low if x == -np.inf else high if x == np.inf else int(x) for x in np.ravel(bounds)]
        assert [*spec.minimum.ravel().tolist(), *spec.maximum.ravel().tolist()] == expected
        assert spec.minimum.dtype == spec.maximum.dtype == dtype


def test_bool():
    spec = BoundedArraySpec((), np.bool_)
    assert (spec.minimum, spec.maximum) == (False, True)


@pytest.mark.parametrize(
    "bounds, text",
    [
        ((1, 0), "a minimum is above its maximum"),
        ((0, 256), "the bound 256 is outside of uint8"),
        ((-1, 1), "the bound -1 is outside of uint8"),
        (([0, 0, 0], 1), "broadcast"),
    ],
)
def test_wrong_bounds(bounds, text):
    with pytest.raises(ValueError, match=text):
        BoundedArraySpec((2,), np.uint8, *bounds)
