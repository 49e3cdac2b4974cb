# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What `copy.deepcopy` needs to copy networks: Keras alone cannot copy all of its own objects."""

import copy
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tf_keras.src.engine.functional import Functional
from tf_keras.src.mixed_precision.autocast_variable import AutoCastVariable, create_autocast_variable

if TYPE_CHECKING:
    from typing_extensions import Self


class CopyableModule(tf.Module):
    """A `tf.Module` that `copy.deepcopy` copies, with the Keras layers and models inside it.

    The copy computes the same with variables of its own: they agree with the original's in number, order,
    shape, value and trainable flag.
    """

    def __deepcopy__(self, memo):
        # `copy.deepcopy` takes from `memo` what is already copied.
        for variable in self.variables:
            if isinstance(variable, AutoCastVariable) and id(variable) not in memo:
                # It passes __deepcopy__ on to the variable inside, and the copy would no longer cast.
                memo[id(variable)] = create_autocast_variable(copy.deepcopy(variable._variable, memo))
        _copy_layers(self, memo)
        new = memo[id(self)] = object.__new__(type(self))
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    def copy(self) -> "Self":
        """Makes another module that computes the same, with variables of its own of the same values."""
        return copy.deepcopy(self)

    def assign(self, module: "CopyableModule") -> list[Any]:
        """Takes the values of all variables from a copy or the original, in the graph; returns the ops."""
        pairs = zip(self.variables, module.variables, strict=True)
        return [ours.assign(theirs, read_value=False) for ours, theirs in pairs]


def _copy_layers(module, memo):
    for layer in module.submodules:
        if isinstance(layer, tf.keras.layers.Layer):
            _copy_layer(layer, memo)


def _copy_layer(layer, memo):
    """Copies a Keras layer or model into `memo`, and returns the copy."""
    if id(layer) in memo:
        return memo[id(layer)]
    # `tf.keras.Model.__deepcopy__` saves the model and loads it, which fails for classes that are not
    # registered with Keras. Here a class with a `__deepcopy__` of its own copies itself, a graph of layers is
    # cloned, and any other layer is copied by its attributes.
    own_deepcopy = getattr(type(layer), "__deepcopy__", None)
    if own_deepcopy not in (None, tf.keras.Model.__deepcopy__):
        new = memo[id(layer)] = own_deepcopy(layer, memo)
    elif isinstance(layer, Functional):  # so is tf.keras.Sequential
        if type(layer).call not in (Functional.call, tf.keras.Sequential.call):
            raise TypeError(f"{type(layer).__name__} has a `call` of its own besides its graph of layers")
        new = tf.keras.models.clone_model(layer, clone_function=lambda inner: _copy_layer(inner, memo))
        memo[id(layer)] = new
    else:
        new = memo[id(layer)] = object.__new__(type(layer))
        _copy_layers(layer, memo)
        # The nodes lead to the layers before and after it in a graph, which is cloned around the copies.
        nodes = {"_inbound_nodes_value": [], "_outbound_nodes_value": []}
        new.__setstate__(copy.deepcopy({**layer.__getstate__(), **nodes}, memo))
    return new
