# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A wrong setting is one error that names it; a right one passes."""

import re

import numpy as np
import pytest

from alf.errors import (
    ConfigError,
    EnvError,
    check_bool,
    check_choice,
    check_int,
    check_number,
    check_type,
    contain,
)

NAN, INFINITE = float("nan"), float("inf")
RIGHT = [
    *[(check_int, x, {}) for x in (1, 7, np.int32(1), np.int64(3), 2**63 - 1)],
    (check_int, 0, dict(at_least=0)),
    (check_int, 3, dict(at_least=3)),
    *[(check_int, x, dict(optional=True)) for x in (3, None)],
    *[(check_number, x, dict(at_least=0, at_most=1)) for x in (0, 0.0, 1, 1.0, 0.5, np.float32(0.5))],
    (check_number, 1e-9, dict(above=0)),
    *[(check_number, x, dict(above=0, optional=True)) for x in (1, None)],
    *[(check_number, x, {}) for x in (-1e30, 2**63 - 1)],
    *[(check_number, x, dict(whole=True)) for x in (1e6, 3)],
    *[(check_bool, x, {}) for x in (True, False)],
    *[(check_bool, x, dict(optional=True)) for x in (True, False, None)],
    (check_choice, "a", dict(choices=("a", "b"))),
    (check_type, 3, dict(kind=int)),
]
AN_INT, A_SHARE = "it must be an integer, at least 1", "it must be a number at least 0 and at most 1"
WRONG = {
    AN_INT: [(check_int, x, {}) for x in (0, -1, 2.0, np.float32(2), "2", None, True, (1,), np.array([1]))],
    f"{AN_INT}, or None": [(check_int, 0, dict(optional=True))],
    "it must be an integer, at least 3": [(check_int, 2, dict(at_least=3))],
    "an integer must be below 2^63": [
        (check, x, {}) for check in (check_int, check_number) for x in (2**63, 10**400, -(2**63))
    ],
    A_SHARE: [
        (check_number, x, dict(at_least=0, at_most=1))
        for x in (-1e-9, 1.001, NAN, INFINITE, "0.5", None, True, (0.5,))
    ],
    "it must be a number above 0": [(check_number, 0, dict(above=0))],
    "it must be a number above 0, or None": [(check_number, -1, dict(above=0, optional=True))],
    "it must be a number": [(check_number, x, {}) for x in (INFINITE, -INFINITE, NAN)],
    "it must be a whole number": [(check_number, 1.5, dict(whole=True))],
    "it must be True or False": [(check_bool, x, {}) for x in (0, 1, "True", np.bool_(True), None)],
    "it must be True or False, or None": [(check_bool, 1, dict(optional=True))],
    "it must be one of 'a', 'b'": [(check_choice, x, dict(choices=("a", "b"))) for x in ("c", 3, None)],
}


def test_what_is_right_is_returned(subtests):
    for check, value, rules in RIGHT:
        with subtests.test(check=check.__name__, value=repr(value), **rules):
            assert check("x", value, **rules) is value


def test_what_is_wrong_is_named_with_its_value_and_the_rule(subtests):
    for rule, rows in WRONG.items():
        for check, value, rules in rows:
            with subtests.test(rule, check=check.__name__, value=repr(value)[:20]):
                with pytest.raises(ConfigError, match=f"^{re.escape(f'x is {value!r}: {rule}')}$"):
                    check("x", value, **rules)
    with pytest.raises(ConfigError, match="^x is an object of str: it must be one of int$"):
        check_type("x", "3", int)


def test_contain_replaces_what_means_something_to_other_code(subtests):
    for error in (SystemExit(0), StopIteration(), StopAsyncIteration(), KeyboardInterrupt()):
        with subtests.test(error=repr(error)):
            contained = contain(error, "environment 3")
            assert isinstance(contained, EnvError)
            assert str(contained) == f"environment 3 raised {error!r}"
            assert contained.__cause__ is error


def test_contain_keeps_every_other_exception():
    error = ValueError("x")
    assert contain(error, "environment 3") is error
