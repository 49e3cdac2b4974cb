# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes `copy.deepcopy` work for networks. Keras cannot copy all of its own objects by itself."""

import copy
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tf_keras.src.engine.functional import Functional
from tf_keras.src.mixed_precision.autocast_variable import AutoCastVariable, create_autocast_variable

if TYPE_CHECKING:
    from typing_extensions import Self


class CopyableModule(tf.Module):
    """A `tf.Module` that `copy.deepcopy` can copy, with the Keras layers and models inside it.

    The copy computes the same with variables of its own, which have the same number, order, shapes, values
    and trainable flags as the original's.
    """

    def __deepcopy__(self, memo):
        # `copy.deepcopy` does not copy objects that `memo` holds: everything that it would copy wrongly is
        # copied and put there first.
        for variable in self.variables:
            if isinstance(variable, AutoCastVariable) and id(variable) not in memo:
                # An AutoCastVariable delegates __deepcopy__ to its inner variable: the copy would not cast.
                memo[id(variable)] = create_autocast_variable(copy.deepcopy(variable._variable, memo))
        _copy_layers(self, memo)
        new = memo[id(self)] = object.__new__(type(self))
        # The attributes one by one, without the constructor, which would draw new weights.
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    def copy(self) -> "Self":
        """Makes a module that computes the same, with variables of its own."""
        return copy.deepcopy(self)

    def assign(self, module: "CopyableModule") -> list[Any]:
        """Assigns the values of all variables of a copy, or of the original, to its own. Returns the ops."""
        # In pairs by position: a copy has the variables in the same order.
        pairs = zip(self.variables, module.variables, strict=True)
        return [ours.assign(theirs, read_value=False) for ours, theirs in pairs]


def _copy_layers(module, memo):
    for layer in module.submodules:
        if isinstance(layer, tf.keras.layers.Layer):
            _copy_layer(layer, memo)


def _copy_layer(layer, memo):
    """Copies a Keras layer or model into `memo`. Returns the copy."""
    if id(layer) in memo:
        return memo[id(layer)]
    # `tf.keras.Model.__deepcopy__` saves the model and loads it, which fails for classes that are not
    # registered with Keras. Here a class with a `__deepcopy__` of its own copies itself, a graph of layers is
    # cloned, and any other layer is copied by its attributes.
    own_deepcopy = getattr(type(layer), "__deepcopy__", None)
    if own_deepcopy not in (None, tf.keras.Model.__deepcopy__):
        new = memo[id(layer)] = own_deepcopy(layer, memo)
    elif isinstance(layer, Functional):  # this includes tf.keras.Sequential
        if type(layer).call not in (Functional.call, tf.keras.Sequential.call):
            raise TypeError(f"{type(layer).__name__} has a `call` of its own besides its graph of layers")
        new = tf.keras.models.clone_model(layer, clone_function=lambda inner: _copy_layer(inner, memo))
        memo[id(layer)] = new
    else:
        new = memo[id(layer)] = object.__new__(type(layer))
        _copy_layers(layer, memo)
        # Nodes refer to the neighbors in a graph of layers, whose clone makes new nodes. They are not copied.
        nodes = {"_inbound_nodes_value": [], "_outbound_nodes_value": []}
        new.__setstate__(copy.deepcopy({**layer.__getstate__(), **nodes}, memo))
    return new
