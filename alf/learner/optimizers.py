# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optimizers: Adam, AdamW, RMSprop and SGD with PyTorch's formulas, and those of Keras.

`epsilon` is always added outside of the root and after the bias is corrected, as in PyTorch. So settings of
PyTorch, Stable-Baselines3 or CleanRL mean the same here. In each formula g is the gradient, w the variable, a
the learning rate and t the number of updates, from 1 on.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

import tensorflow as tf

from alf.config.kinds import AtLeast, AtMost, Fraction, NonNegativeFloat, PositiveFloat
from alf.config.settings import configurable
from alf.core.annotations import Array
from alf.core.devices import HOST
from alf.errors import ConfigError
from alf.networks.user_models import check_backend, loaded_libraries
from alf.schedules import Progress, Schedule, ScheduledFloat

LearningRate: TypeAlias = Annotated[ScheduledFloat, AtLeast(0), AtMost(float(tf.float32.max))]
# The greatest float32 below 1; with 1, Adam divides by zero.
DecayRate = Annotated[float, AtLeast(0), AtMost(1 - 2**-24)]


class Optimizer(tf.Module):
    """Base class of optimizers. Each belongs to one learner, or to one group of its variables.

    Subclasses make the averages of each variable in `_make_slots` and change the variable in `_apply`.

    Args:
        learning_rate: number or `Schedule`.
    """

    def __init__(self, learning_rate: ScheduledFloat) -> None:
        super().__init__()
        self._learning_rate = learning_rate
        self._variables: Any = None

    @property
    def is_built(self) -> bool:
        """Whether `build` was called."""
        return self._variables is not None

    def build(self, variables: Sequence[tf.Variable], progress: Progress) -> None:
        """Makes the optimizer's own variables, all zeros, beside the `variables` that it will change.

        A `Schedule` of the learning rate follows `progress`.
        """
        self._variables, self._progress = list(variables), progress
        with tf.device(HOST):
            self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._slots = [self._make_slots(variable) for variable in variables]

    def learning_rate(self) -> Array:
        """Computes the present learning rate, float32 scalar."""
        rate = self._learning_rate
        return rate(self._progress) if isinstance(rate, Schedule) else tf.constant(rate, tf.float32)

    def apply(self, gradients: Sequence[Any]) -> None:
        """Makes one update. `gradients` has a gradient, or None, for each variable of `build`, in order.

        The constraint of a variable, an argument of `tf.Variable`, holds after it.
        """
        with tf.device(HOST):  # scalars; the weights may be on a GPU
            settings = self._prepare(self.learning_rate(), self._step.assign_add(1))
        for variable, slots, gradient in zip(self._variables, self._slots, gradients, strict=True):
            if gradient is not None:
                # An embedding has gradients of some rows: the others count as zeros, as in PyTorch.
                self._apply(variable, slots, tf.convert_to_tensor(gradient), *settings)
                if variable.constraint is not None:
                    variable.assign(variable.constraint(variable))

    def _make_slots(self, variable):
        """Returns a list of the variables that are kept for one variable."""
        raise NotImplementedError

    def _prepare(self, rate, step):
        """Returns a tuple of scalars that `_apply` gets, from the learning rate and t, an int64 scalar."""
        return (rate,)

    def _apply(self, variable, slots, gradient, *settings):
        raise NotImplementedError


def _zeros_like(variable, name):
    return tf.Variable(tf.zeros_like(variable), trainable=False, name=name)


@configurable("alf.optimizers")
class Adam(Optimizer):
    """Adam (arXiv 1412.6980), as `torch.optim.Adam`:

        m <- b1 m + (1 - b1) g
        v <- b2 v + (1 - b2) g^2
        w <- w - a m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon)

    Args:
        learning_rate: number or `Schedule`.
        beta_1, beta_2: decay rates b1, b2 of the averages of gradients and of their squares.
        epsilon: number.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: DecayRate = 0.9,
        beta_2: DecayRate = 0.999,
        epsilon: PositiveFloat = 1e-8,
    ) -> None:
        super().__init__(learning_rate)
        self._beta_1, self._beta_2, self._epsilon = beta_1, beta_2, epsilon

    def _make_slots(self, variable):
        return [_zeros_like(variable, name) for name in ("m", "v")]

    def _prepare(self, rate, step):
        # With the decay rates as float32 has them: by these the averages decay. In float64, because 1 - b^t
        # would lose digits.
        t, rates = tf.cast(step, tf.float64), tf.constant([self._beta_1, self._beta_2], tf.float32)
        correction_1, correction_2 = tf.unstack(1.0 - tf.cast(rates, tf.float64) ** t)
        root = tf.sqrt(correction_2)
        # w <- w - (a root / correction_1) m / (sqrt(v) + epsilon root) is the same.
        scaled = tf.cast(rate, tf.float64) * root / correction_1
        return tf.cast(scaled, tf.float32), tf.cast(self._epsilon * root, tf.float32)

    def _apply(self, variable, slots, gradient, rate, epsilon):
        # One operation. With powers of 0 it corrects nothing by itself.
        zero = tf.zeros([])
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            beta1_power=zero,
            beta2_power=zero,
            lr=rate,
            beta1=self._beta_1,
            beta2=self._beta_2,
            epsilon=epsilon,
            grad=gradient,
        )


@configurable("alf.optimizers")
class AdamW(Adam):
    """Adam with decoupled weight decay (arXiv 1711.05101), as `torch.optim.AdamW`.

    Before the step of `Adam`, w <- w - a d w with the weight decay d, for all variables.

    Args:
        learning_rate, beta_1, beta_2, epsilon: as in `Adam`.
        weight_decay: number, d.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: DecayRate = 0.9,
        beta_2: DecayRate = 0.999,
        epsilon: PositiveFloat = 1e-8,
        weight_decay: NonNegativeFloat = 0.01,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon)
        self._weight_decay = weight_decay

    def _prepare(self, rate, step):
        return *super()._prepare(rate, step), rate * self._weight_decay

    def _apply(self, variable, slots, gradient, rate, epsilon, decay):
        decayed = variable.assign_sub(decay * variable, read_value=False)
        with tf.control_dependencies([] if decayed is None else [decayed]):
            super()._apply(variable, slots, gradient, rate, epsilon)


@configurable("alf.optimizers")
class RMSprop(Optimizer):
    """RMSprop, as `torch.optim.RMSprop`, whose alpha is `rho`:

        v <- rho v + (1 - rho) g^2
        b <- momentum b + g / (sqrt(v) + epsilon)
        w <- w - a b

    Args:
        learning_rate: number or `Schedule`.
        rho: decay rate of the average of squared gradients.
        momentum: number in [0, 1].
        epsilon: number.
        centered: whether v - m^2 takes the place of v, where m is the average of gradients, with the decay
            rate rho: an estimate of the variance.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        rho: DecayRate = 0.99,
        momentum: Fraction = 0.0,
        epsilon: PositiveFloat = 1e-8,
        centered: bool = False,
    ) -> None:
        super().__init__(learning_rate)
        self._rho, self._momentum, self._epsilon, self._centered = rho, momentum, epsilon, centered

    def _make_slots(self, variable):
        names = ["v", *["b"] * (self._momentum > 0), *["m"] * self._centered]
        return [_zeros_like(variable, name) for name in names]

    def _apply(self, variable, slots, gradient, rate):
        square, *others = slots
        v = square.assign(self._rho * square + (1 - self._rho) * tf.square(gradient))
        if self._centered:
            mean = others[-1]
            # Rounding may make the difference negative, where all gradients were equal.
            v = tf.nn.relu(v - tf.square(mean.assign(self._rho * mean + (1 - self._rho) * gradient)))
        step = gradient / (tf.sqrt(v) + self._epsilon)
        if self._momentum:
            step = others[0].assign(self._momentum * others[0] + step)
        variable.assign_sub(rate * step, read_value=False)


@configurable("alf.optimizers")
class SGD(Optimizer):
    """Gradient descent, as `torch.optim.SGD`:

        b <- momentum b + g
        w <- w - a b, or with Nesterov momentum w <- w - a (g + momentum b)

    Args:
        learning_rate: number or `Schedule`.
        momentum: number in [0, 1].
        nesterov: whether to use Nesterov momentum.
    """

    def __init__(
        self, learning_rate: LearningRate = 0.01, momentum: Fraction = 0.0, nesterov: bool = False
    ) -> None:
        super().__init__(learning_rate)
        self._momentum, self._nesterov = momentum, nesterov

    def _make_slots(self, variable):
        return [_zeros_like(variable, "b")] if self._momentum else []

    def _apply(self, variable, slots, gradient, rate):
        if not slots:
            variable.assign_sub(rate * gradient, read_value=False)
            return
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=slots[0].handle,
            lr=rate,
            grad=gradient,
            momentum=self._momentum,
            use_nesterov=self._nesterov,
        )


@configurable("alf.optimizers")
class KerasOptimizer(Optimizer):
    """An optimizer of Keras 3, with all of its settings.

    Args:
        optimizer: object of `keras.optimizers`, or the name of a class of it, such as "Lion".
        settings: dict of the arguments with which the optimizer of that name is made. None: its defaults.

    Raises:
        ConfigError: if there is no such optimizer or setting, or if a setting would have no effect.
    """

    def __init__(self, optimizer: str | Any, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(0.0)
        if isinstance(optimizer, str):
            optimizer = _make_by_name(optimizer, settings or {})
        elif settings is not None:
            raise ConfigError("KerasOptimizer.settings is set: it is for an optimizer that is given by name")
        _check_keras(optimizer)
        # Past `tf.Module`: checkpoints find the variables in `_slots`, by their positions.
        self.__dict__["_keras"] = optimizer

    def build(self, variables: Sequence[tf.Variable], progress: Progress) -> None:
        self._variables = list(variables)
        self._keras.build(self._variables)
        self._slots = [variable.value for variable in self._keras.variables]

    def learning_rate(self) -> Array:
        return tf.cast(tf.convert_to_tensor(self._keras.learning_rate), tf.float32)

    def apply(self, gradients: Sequence[Any]) -> None:
        pairs = [(x, y) for x, y in zip(gradients, self._variables, strict=True) if x is not None]
        if pairs:  # Keras refuses an update of nothing
            self._keras.apply_gradients(pairs)


@runtime_checkable
class OfKeras(Protocol):
    """What the optimizers of Keras have, and ALF's do not: the module of their class is not imported here."""

    apply_gradients: Any


# One optimizer; the setting `optimizer` of learners may also be a dict of them, by groups of variables.
OptimizerSetting: TypeAlias = Optimizer | Annotated[OfKeras, "keras.Optimizer"] | str


def is_of_keras(value: Any) -> bool:
    """Returns whether a value is an optimizer of Keras 3 or Keras 2."""
    return any(isinstance(value, library.optimizers.Optimizer) for library in loaded_libraries())


def _make_by_name(name, settings):
    import keras  # TensorFlow brings it along

    optimizers = {x: cls for x, cls in vars(keras.optimizers).items() if inspect.isclass(cls)}
    if name not in optimizers:
        raise ConfigError(f"KerasOptimizer.optimizer is {name!r}: Keras has {', '.join(sorted(optimizers))}")
    try:
        return optimizers[name](**settings)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"KerasOptimizer.settings is {settings!r}: {error}") from None


def _check_keras(optimizer):
    """Raises ConfigError for an optimizer of Keras that cannot do here what its settings say."""
    kind = f"KerasOptimizer.optimizer is {type(optimizer).__name__} of Keras"
    check_backend("KerasOptimizer.optimizer", optimizer)
    if type(optimizer).__module__.startswith("tf_keras"):
        raise ConfigError(f"{kind} 2: take one of Keras 3 (import keras), or one of alf.learner.optimizers")
    if not is_of_keras(optimizer):
        raise ConfigError(
            f"KerasOptimizer.optimizer is {optimizer!r}: it must be an object of keras.optimizers, or a name"
        )
    if optimizer.built:
        raise ConfigError(f"{kind}, and has updated other variables: each learner needs a new one")
    if hasattr(optimizer, "inner_optimizer") or optimizer.loss_scale_factor is not None:
        raise ConfigError(f"{kind} and expects a scaled loss: ALF scales none; bfloat16 needs no scale")
    if optimizer.use_ema and optimizer.ema_overwrite_frequency is None:
        raise ConfigError(
            f"{kind} with use_ema: set ema_overwrite_frequency, or nothing would use the averages"
        )
    try:
        optimizer.learning_rate  # noqa: B018
    except TypeError:
        raise ConfigError(
            f"{kind}: its learning_rate must be a number or a schedule of Keras; ALF's schedules are for "
            "ALF's optimizers"
        ) from None
