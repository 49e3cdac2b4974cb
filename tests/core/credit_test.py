# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Whole units from fractional rates: none lost, none invented."""

import json
from fractions import Fraction

import pytest

from alf.core.credit import Credit


@pytest.mark.parametrize("rate", [0.1, 0.25, 1, 2.5, Fraction(1, 3)])
def test_units_are_exact_however_the_counts_are_cut(rate):
    credit = Credit(rate)
    taken = 0
    for count in [1, 7, 2, 90, 200] * 20:
        credit.earn(count)
        taken += credit.take()
    assert taken == int((rate if isinstance(rate, Fraction) else Fraction(str(rate))) * 300 * 20)


def test_a_unit_is_taken_once():
    credit = Credit(1)
    credit.earn()
    assert (credit.take(), credit.take()) == (1, 0)


def test_the_state_continues_elsewhere():
    first, second = Credit(0.3), Credit(0.3)
    first.earn(3)  # 0.9
    second.set_state(json.loads(json.dumps(first.get_state())))
    second.earn(1)
    assert second.take() == 1
