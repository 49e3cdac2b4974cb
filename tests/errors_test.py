# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A wrong setting is one error that names it; a right one passes."""

import numpy as np
import pytest

from alf.errors import ConfigError, EnvError, check_bool, check_int, check_number, contain


@pytest.mark.parametrize("value", [1, 7, np.int32(1), np.int64(3)])
def test_integers(value):
    assert check_int("size", value) is value


@pytest.mark.parametrize("value", [0, -1, 2.0, np.float32(2), "2", None, True, (1,), np.array([1])])
def test_what_is_no_integer_of_at_least_one(value):
    with pytest.raises(ConfigError, match=r"^size is .*: it must be an integer, at least 1$"):
        check_int("size", value)


@pytest.mark.parametrize("check", [check_int, check_number])
@pytest.mark.parametrize("value", [2**63, 10**400, -(2**63)])
def test_an_integer_that_tensorflow_cannot_hold(check, value):
    with pytest.raises(ConfigError, match=rf"^size is {value}: an integer must be below 2\^63$"):
        check("size", value)
    assert check("size", 2**63 - 1) == 2**63 - 1


def test_an_optional_integer_may_be_none():
    assert check_int("size", None, optional=True) is None and check_int("size", 3, optional=True) == 3
    with pytest.raises(ConfigError, match="^size is 0: it must be an integer, at least 1, or None$"):
        check_int("size", 0, optional=True)


def test_lower_bound_of_integers():
    check_int("seed", 0, at_least=0)
    with pytest.raises(ConfigError, match="seed is 2: .*at least 3"):
        check_int("seed", 2, at_least=3)


@pytest.mark.parametrize("value", [0, 0.0, 1, 1.0, 0.5, np.float32(0.5)])
def test_numbers(value):
    assert check_number("x", value, at_least=0, at_most=1) is value


@pytest.mark.parametrize("value", [-1e-9, 1.001, float("nan"), float("inf"), "0.5", None, True, (0.5,)])
def test_what_is_no_number_between_zero_and_one(value):
    with pytest.raises(ConfigError, match=r"^x is .*: it must be a number at least 0 and at most 1$"):
        check_number("x", value, at_least=0, at_most=1)


def test_above_leaves_out_its_bound():
    check_number("x", 1e-9, above=0)
    with pytest.raises(ConfigError, match="x is 0: it must be a number above 0$"):
        check_number("x", 0, above=0)


def test_none_is_right_where_a_number_is_optional():
    assert check_number("x", None, above=0, optional=True) is None
    with pytest.raises(ConfigError, match="x is -1: it must be a number above 0, or None$"):
        check_number("x", -1, above=0, optional=True)


def test_without_bounds_any_finite_number_is_right():
    check_number("x", -1e30)
    with pytest.raises(ConfigError, match="x is inf: it must be a number$"):
        check_number("x", float("inf"))


def test_booleans():
    assert check_bool("x", True) is check_bool("x", True, optional=True) is True
    assert check_bool("x", False) is check_bool("x", False, optional=True) is False
    assert check_bool("x", None, optional=True) is None


@pytest.mark.parametrize("value", [0, 1, "True", np.bool_(True), None])
def test_what_is_no_boolean(value):
    with pytest.raises(ConfigError, match=r"^x is .*: it must be True or False$"):
        check_bool("x", value)


def test_what_is_neither_a_boolean_nor_none():
    with pytest.raises(ConfigError, match="^x is 1: it must be True or False, or None$"):
        check_bool("x", 1, optional=True)


@pytest.mark.parametrize("error", [SystemExit(0), StopIteration(), StopAsyncIteration(), KeyboardInterrupt()])
def test_contain_replaces_what_means_something_to_other_code(error):
    contained = contain(error, "environment 3")
    assert isinstance(contained, EnvError)
    assert str(contained) == f"environment 3 raised {error!r}"
    assert contained.__cause__ is error


def test_contain_keeps_every_other_exception():
    error = ValueError("x")
    assert contain(error, "environment 3") is error
