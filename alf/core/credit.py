# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Credit: earns whole units at a fractional rate."""

from fractions import Fraction


class Credit:
    """Counts whole units that were earned at a fractional rate and not taken yet.

    At a `rate` of 0.3, for example, every 10 counts earn exactly 3 units. The arithmetic is exact, because
    floats would lose a unit now and then; a float stands for its decimal digits, so 0.1 is 1/10.
    """

    def __init__(self, rate):
        self._rate = rate if isinstance(rate, Fraction) else Fraction(str(rate))
        self._credit = Fraction(0)

    def earn(self, count=1):
        """Adds `count` times the rate."""
        self._credit += self._rate * count

    def take(self):
        """Takes all whole units and returns their number, an int. The rest, a fraction, stays."""
        units = int(self._credit)  # rounded down
        self._credit -= units
        return units

    def get_state(self):
        """Returns the state for `set_state`, as JSON types."""
        return [self._credit.numerator, self._credit.denominator]

    def set_state(self, state):
        """Restores what `get_state` returned."""
        self._credit = Fraction(*state)
