# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders that users bring: layers and models of Keras, `tf.Module`s and functions."""

import contextlib
import contextvars
import inspect
import random
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from alf.config.settings import Seed, configurable
from alf.core.annotations import Array, Nest, NestedSpec
from alf.core.nest_utils import zeros_from_spec
from alf.errors import ConfigError
from alf.networks.compute_dtype import compute_in, current_dtype
from alf.networks.copying import CopyableModule

# Keras 3, and Keras 2. Neither is imported here: who has made a layer has imported its library.
_LIBRARIES = ("keras", "tf_keras")
_POLICIES = {tf.float32: "float32", tf.bfloat16: "mixed_bfloat16"}
_policy_lock = threading.RLock()

_losses = contextvars.ContextVar("losses", default=None)


@contextlib.contextmanager
def collect_losses():
    """Context manager that yields a dict of lists, the losses of the Keras models that are called in it.

    Keras calls them `losses`: of weights that are regularized, and of `add_loss`. Only calls in training
    count, and of several calls of a model the last one.
    """
    token = _losses.set({})
    try:
        yield _losses.get()
    finally:
        _losses.reset(token)


def loaded_libraries():
    """Returns a list of the modules of Keras, 3 and 2, that this process has imported."""
    return [sys.modules[name] for name in _LIBRARIES if hasattr(sys.modules.get(name), "layers")]


def check_backend(setting, made):
    """Raises ConfigError if an object of Keras is for another backend than TensorFlow."""
    backend = getattr(sys.modules.get("keras"), "config", None)
    if type(made).__module__.partition(".")[0] == "tf_keras" or backend is None:
        return
    if (name := backend.backend()) != "tensorflow":
        raise ConfigError(
            f"{setting} is of Keras with the backend {name!r}: ALF needs 'tensorflow'; set "
            "KERAS_BACKEND=tensorflow in the environment before Keras is imported"
        )


class UserEncoder(CopyableModule):
    """An encoder that a function of the user's makes.

    It lists the variables of Keras, which `tf.Module` does not find by itself. A copy calls the function once
    more and takes over the values, because Keras cannot copy all of its models.

    Args:
        observation_spec: nest of unbatched tensor specs.
        make: callable (observation_spec) -> a Keras layer or model, a `tf.Module` or a function.
        setting: text, the name of the setting `make`, for errors.
        made: what `make` has returned, if it has been called.

    Attributes:
        size: int, F.

    Raises:
        ConfigError: if `make` makes something else, or a part of it cannot be trained.
    """

    def __init__(
        self, observation_spec: NestedSpec, make: Callable[..., Any], setting: str, made: Any = None
    ) -> None:
        super().__init__(name="user_encoder")
        self._set_up(observation_spec, make, setting, current_dtype(), made)

    def _set_up(self, observation_spec, make, setting, dtype, made=None):
        self._spec, self._make, self._setting, self._dtype = observation_spec, make, setting, dtype
        with _keras_computes_in(dtype), compute_in(dtype.name):
            made = make(observation_spec) if made is None else made
            if not callable(made) or inspect.isclass(made):
                raise ConfigError(
                    f"{setting} makes {made!r}: it must make a layer or model of Keras, a tf.Module or a "
                    "function"
                )
            self._is_keras = _is_layer(made)
            if self._is_keras:
                check_backend(setting, made)
            self._takes_training = self._is_keras or "training" in inspect.signature(made).parameters
            # Past `tf.Module`, which would follow the attributes of Keras in checkpoints, too.
            self.__dict__["_model"] = made
            # 2 observations, so that a model that drops the batch dimension is found here and not in
            # training. The first call builds a model of Keras.
            with tf.GradientTape() as tape:
                features = self._call(zeros_from_spec(observation_spec, 2), training=False)
        if not tf.is_tensor(features) or features.shape.rank != 2 or features.shape[0] != 2:
            shapes = tf.nest.map_structure(lambda x: getattr(x, "shape", x), features)
            raise ConfigError(
                f"the model that {setting} returns makes {shapes} of 2 observations: it must make one "
                "tensor of features, (2, F)"
            )
        self.size = features.shape[-1]
        self._weights = _list_variables(made)
        self._check_weights(tape.watched_variables())

    def __call__(self, observation: Nest, training: bool = False) -> Array:
        """Encodes observations, a nest of [N, *shape]. Returns float32 [N, size]."""
        features = tf.cast(self._call(observation, training), tf.float32)
        losses = _losses.get()
        # A target network is not trained, so nothing of it is regularized.
        if training and losses is not None and self._is_keras and self.trainable_variables:
            losses[id(self)] = list(self._model.losses)
        return features

    def _call(self, observation, training):
        # Keras drops `training` if `call` does not take it.
        return self._model(observation, **({"training": training} if self._takes_training else {}))

    def _check_weights(self, used):
        listed = {_identify(variable) for variable in self._weights}
        hidden = [variable.name for variable in used if _identify(variable) not in listed]
        if hidden:
            raise ConfigError(
                f"the model that {self._setting} returns uses variables that it does not list: "
                f"{', '.join(hidden)}. What owns them must be an attribute of the model; a layer of "
                "Keras makes its own by add_weight"
            )
        constrained = [x.name for x in self._model.variables if x.constraint] if self._is_keras else []
        if constrained:
            raise ConfigError(
                f"the model that {self._setting} returns constrains {', '.join(constrained)}: ALF's updates "
                "keep no constraint of Keras; use a regularizer, or constrain the value in `call`"
            )

    def __deepcopy__(self, memo):
        new = memo[id(self)] = object.__new__(type(self))
        CopyableModule.__init__(new, name=self.name)
        # It may draw initial weights, which are overwritten: what others draw must not depend on copies.
        state = random.getstate()
        new._set_up(self._spec, self._make, self._setting, self._dtype)
        random.setstate(state)
        ours, theirs = self.variables, new.variables
        shared = {_identify(x) for x in ours} & {_identify(x) for x in theirs}
        shapes = [[x.shape for x in variables] for variables in (ours, theirs)]
        if shared or shapes[0] != shapes[1]:
            reason = "the same variables again" if shared else f"{shapes[1]} in place of {shapes[0]}"
            raise ConfigError(
                f"{self._setting} made {reason} when the network was copied, as for target networks and "
                "actors: each call must make a new model, with the same variables"
            )
        for old, variable in zip(ours, theirs):
            variable.assign(old)
            memo[id(old)] = variable
        return new


@configurable("alf.networks")
class KerasEncoder(UserEncoder):
    """An encoder that is a layer or model of Keras, a `tf.Module` or a function of the user.

    Keras may be Keras 3 with TensorFlow as its backend, or Keras 2 (`tf_keras`). Layers that are made without
    a dtype compute in the dtype of the network. The learner adds `losses` of the model, such as those of
    regularized weights, to the loss. Constraints of weights are refused.

    Args:
        observation_spec: nest of unbatched tensor specs.
        model: callable (observation_spec) -> a new layer, model, module or function that computes features
            [N, F] of a nest of [N, *shape]. Copies of the network call it once more. If what it makes takes
            an argument `training`, this is False whenever the policy acts or the algorithm does not train.
        seed: ignored, because the model has its own initializers.

    Raises:
        ConfigError: if `model` makes something else; if weights are hidden or constrained; from
            `copy.deepcopy`, if `model` returns the same model once more.
    """

    def __init__(self, observation_spec: NestedSpec, model: Callable[..., Any], seed: Seed = None) -> None:
        del seed
        super().__init__(observation_spec, model, "KerasEncoder.model")


@contextlib.contextmanager
def _keras_computes_in(dtype):
    """Context manager in which Keras' layers that are made without a dtype compute in `dtype`."""
    # The policy belongs to the whole process, so one thread at a time makes models.
    with _policy_lock, contextlib.ExitStack() as stack:
        for library in loaded_libraries():
            mixed_precision = library.mixed_precision
            stack.callback(mixed_precision.set_global_policy, mixed_precision.global_policy())
            mixed_precision.set_global_policy(_POLICIES[dtype])
        yield


def _is_layer(value):
    return any(isinstance(value, library.layers.Layer) for library in loaded_libraries())


def _list_variables(model):
    """Returns a list of the `tf.Variable`s of a layer, a `tf.Module` or a function, which has none."""
    owners = [model]
    for module in (model, *getattr(model, "submodules", ())):
        if isinstance(module, tf.Module) and not _is_layer(module):  # does not look into layers of Keras 3
            owners += filter(_is_layer, _list_leaves(vars(module)))
    found = [x for owner in owners for x in getattr(owner, "variables", ())]
    # Keras 3 wraps them in variables of its own.
    found = [x if isinstance(x, tf.Variable) else x.value for x in found]
    return list({_identify(variable): variable for variable in found}.values())


def _list_leaves(value):
    """Yields what is in a dict, list or tuple, at any depth."""
    if not isinstance(value, (Mapping, list, tuple)):
        yield value
        return
    for item in value.values() if isinstance(value, Mapping) else value:
        yield from _list_leaves(item)


def _identify(variable):
    # By handle: Keras 2 wraps the same variable in several objects.
    return id(variable.handle)
