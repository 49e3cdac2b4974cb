# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Credit: whole units out of a rate that is a fraction."""

from fractions import Fraction


class Credit:
    """Counts how many whole units a fractional rate has earned and nobody has taken.

    For example, at a `rate` of 0.3 every 10 counts earn exactly 3 units. A float means its decimal digits:
    0.1 is 1/10. The arithmetic is exact, because floats would lose a unit now and then.
    """

    def __init__(self, rate):
        self._rate = rate if isinstance(rate, Fraction) else Fraction(str(rate))
        self._credit = Fraction(0)

    def earn(self, count=1):
        """Adds `count` times the rate."""
        self._credit += self._rate * count

    def take(self):
        """Takes all whole units; returns how many, an int. The fraction that is left stays."""
        units = int(self._credit)
        self._credit -= units
        return units

    def get_state(self):
        """What `set_state` needs, as JSON types."""
        return [self._credit.numerator, self._credit.denominator]

    def set_state(self, state):
        """Restores what `get_state` returned."""
        self._credit = Fraction(*state)
