# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CopyableModule: the base class of policies, networks and their parts."""

import copy
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from typing_extensions import Self


class CopyableModule(tf.Module):
    """A `tf.Module` that can be copied, and that takes the values of a copy.

    `copy.deepcopy` copies it attribute by attribute, and does not call the constructor. A subclass with an
    attribute that cannot be copied so has a `__deepcopy__` of its own.
    """

    def copy(self) -> "Self":
        """Makes a module that computes the same, with variables of its own.

        Its variables have the same number, order, shapes, values and trainable flags.
        """
        return copy.deepcopy(self)

    def assign(self, module: "CopyableModule") -> list[Any]:
        """Assigns the values of all variables of a copy, or of the original, to its own. Returns the ops."""
        # In pairs by position: a copy has the variables in the same order.
        pairs = zip(self.variables, module.variables, strict=True)
        return [ours.assign(theirs, read_value=False) for ours, theirs in pairs]
