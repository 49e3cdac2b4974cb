# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithm: the one base class of everything that learns."""

import abc

import tensorflow as tf

from alf.algorithms.minibatches import check_num_minibatches, train_in_minibatches
from alf.algorithms.schedules import Progress, Schedule, as_schedule
from alf.checks import check_int, check_number
from alf.data_structures import FIRST, LossInfo, PolicyState, PolicyStep, TimeStep, count_transitions
from alf.data_transformers import Pipeline
from alf.drivers.executor import single_threaded
from alf.errors import ConfigError, DivergedError
from alf.replay import make_replayer

_NOT_FINITE = "ALF: not finite"


class Algorithm(tf.Module, abc.ABC):
    """A policy and how it learns.

    A subclass implements `rollout_step`, `train_step` and `calc_loss`, and overrides what else it
    needs. Everything but `observe` and `train` runs inside `tf.function`s; `rollout_step` runs in actor
    threads while `train` runs in the learner.

    Variables must exist when `__init__` returns: they are checkpointed, and actors read them at once.

    Args:
        observation_spec: nest of unbatched tensor specs, of what the data transformer returns.
        action_spec: nest of unbatched tensor specs, with bounds if there are any.
        optimizer: a `tf.keras.optimizers.legacy` optimizer, or a dict of several by name, see
            `parameter_groups`; None if `update_with_gradient` needs none.
        train_state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.
        rollout_info_spec: nest of unbatched tensor specs of `PolicyStep.info`.
        max_grad_norm: the gradient is scaled down to this global norm, of each optimizer's variables; None
            does not limit it.
        max_policy_lag: steps whose action was chosen more updates ago have weight 0 in the loss, and are
            counted; None keeps all.
        num_epochs: passes over each batch.
        num_minibatches: updates of a pass: it is split by environments, which are shuffled.
        train_step_counter: int64 variable that counts updates; the algorithm makes one by default.
        name: of the module.
    """

    def __init__(
        self,
        observation_spec,
        action_spec,
        optimizer,
        train_state_spec=(),
        rollout_info_spec=(),
        max_grad_norm=None,
        max_policy_lag=None,
        num_epochs=1,
        num_minibatches=1,
        train_step_counter=None,
        name="algorithm",
    ):
        super().__init__(name=name)
        check_number("max_grad_norm", max_grad_norm, above=0, optional=True)
        if max_policy_lag is not None:
            check_int("max_policy_lag", max_policy_lag, at_least=0)
        check_int("num_epochs", num_epochs)
        check_int("num_minibatches", num_minibatches)
        self.observation_spec = observation_spec
        self.action_spec = action_spec
        self.train_state_spec = train_state_spec
        self.rollout_info_spec = rollout_info_spec
        self.optimizer = optimizer
        self.train_step_counter = (
            tf.Variable(0, dtype=tf.int64, trainable=False, name="train_step_counter")
            if train_step_counter is None
            else train_step_counter
        )
        self.env_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="env_steps")
        self.dropped_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="dropped_steps")
        for name, one in self._optimizers().items():
            _prepare_optimizer(name, one, self.progress)
        self._max_grad_norm = max_grad_norm
        self._max_policy_lag = max_policy_lag
        self._num_epochs = num_epochs
        self._num_minibatches = num_minibatches
        self._replayer = None
        self._data_transformer = Pipeline(observation_spec, reward_spec=None)

    def set_data_transformer(self, data_transformer):
        """Chooses what the algorithm sees of the environment's steps; before a driver is made with it."""
        self._data_transformer = data_transformer

    @property
    def policy_state_spec(self):
        """`PolicyState` of unbatched tensor specs."""
        return PolicyState(self._data_transformer.state_spec, self.train_state_spec)

    def rollout(self, time_step, state):
        """What the drivers call: `rollout_step` of the transformed `time_step`.

        Args:
            time_step: `TimeStep` of [B, ...] as the environment gave it.
            state: `PolicyState` of [B, ...], zeros where `time_step` is FIRST.

        Returns:
            `PolicyStep` of [B, ...] whose state is a `PolicyState`.
        """
        return self._transformed(self.rollout_step, time_step, state)

    def predict(self, time_step, state):
        """Like `rollout`, with `predict_step`."""
        return self._transformed(self.predict_step, time_step, state)

    def _transformed(self, step, time_step, state):
        time_step, transformer_state = self._data_transformer.step(time_step, state.transformer)
        policy_step = step(time_step, state.train)
        if not isinstance(policy_step, PolicyStep):
            raise ConfigError(f"{step.__name__} returned {policy_step}: its specs say a PolicyStep")
        return policy_step._replace(state=PolicyState(transformer_state, policy_step.state))

    def progress(self):
        """How far the run is, for schedules: `Progress`."""
        return Progress(self.env_steps, self.train_step_counter)

    def predict_step(self, time_step, state):
        """Acts as well as it can, e.g. greedily, for evaluation. Default: as in `rollout_step`.

        Args:
            time_step: `TimeStep` of [B, ...].
            state: nest of [B, ...].

        Returns:
            `PolicyStep` of [B, ...].
        """
        return self.rollout_step(time_step, state)

    @abc.abstractmethod
    def rollout_step(self, time_step, state):
        """Acts to collect experience.

        `state` is zeros in the rows where `time_step` is FIRST.

        Args:
            time_step: `TimeStep` of [B, ...], transformed.
            state: nest of [B, ...] like `train_state_spec`.

        Returns:
            `PolicyStep` of [B, ...]: action like `action_spec`, state like `train_state_spec`, info like
            `rollout_info_spec`.
        """

    def preprocess(self, experience, state):
        """Prepares a batch, once before its updates, e.g. computes advantages with the weights of now.

        Args:
            experience, state: as in `train_step`.

        Returns:
            `Experience` for `train_step` and `calc_loss`; every leaf has the dimensions [T+1, B].
        """
        del state
        return experience

    def stops_early(self, summary):
        """Whether to skip the updates of a batch that are left, bool scalar; `summary` is the last one's."""
        del summary
        return tf.constant(False)

    @abc.abstractmethod
    def train_step(self, experience, state):
        """Computes what `calc_loss` needs, under a gradient tape.

        Args:
            experience: time-major `Experience` of [T+1, B, ...], transformed.
            state: nest of [B, ...] that entered row 0; not yet reset where row 0 is FIRST.

        Returns:
            a nest of the algorithm's own.
        """

    @abc.abstractmethod
    def calc_loss(self, experience, train_info):
        """Computes the loss of what `train_step` returned.

        Returns:
            `LossInfo`.
        """

    def parameter_groups(self):
        """Which optimizer changes which variables: list of (optimizer, list of variables).

        Default: the one optimizer, all trainable variables.
        """
        return [(self.optimizer, self.trainable_variables)]

    def update_with_gradient(self, loss_info, tape):
        """Applies one step of every optimizer, unless the loss or the gradient is not finite.

        Args:
            loss_info: `LossInfo`.
            tape: the gradient tape that has seen the loss.

        Returns:
            the gradient's global norm before it is limited, float32 scalar.
        """
        optimizers, groups = zip(*self.parameter_groups(), strict=True)
        gradients = tape.gradient(loss_info.loss, groups)
        norms = [tf.linalg.global_norm(group) for group in gradients]
        norm = tf.linalg.global_norm(norms)
        finite = tf.debugging.Assert(
            tf.math.is_finite(loss_info.loss) & tf.math.is_finite(norm),
            [_NOT_FINITE, "loss", loss_info.loss, "gradient norm", norm],
        )
        with tf.control_dependencies([finite]):
            scales = [self._limiting_scale(group_norm) for group_norm in norms]
        with tf.control_dependencies(scales):
            gradients = [
                [None if g is None else g * scale for g in group]
                for group, scale in zip(gradients, scales, strict=True)
            ]
        for optimizer, group, variables in zip(optimizers, gradients, groups, strict=True):
            optimizer.apply_gradients(zip(group, variables, strict=True))
        with tf.control_dependencies(scales):
            return tf.identity(norm)

    def _limiting_scale(self, norm):
        if self._max_grad_norm is None:
            return tf.ones_like(norm)
        return self._max_grad_norm / tf.maximum(norm, self._max_grad_norm)

    def _optimizers(self):
        """The optimizers by the name of what they set the learning rate of."""
        if self.optimizer is None:
            return {}
        if isinstance(self.optimizer, dict):
            return {f"_{name}": optimizer for name, optimizer in self.optimizer.items()}
        return {"": self.optimizer}

    def after_update(self, experience, train_info):
        """Runs in the graph after each update, e.g. to move a target network."""

    def after_train_iter(self, experience):
        """Runs after each call of `train`, with the `Experience` [Q, T+1, B, ...] that it used."""

    def set_exp_replayer(self, name):
        """Chooses where observed experience waits until `train`: see `alf.replay`."""
        self._replayer = make_replayer(name)

    def check_batch_size(self, batch_size):
        """Raises ConfigError if a batch of so many environments cannot be split into `num_minibatches`."""
        check_num_minibatches(self._num_minibatches, batch_size)

    def observe(self, experience):
        """Hands an `Experience` of [Q, T+1, B, ...] to the replayer, and to statistics of the data."""
        if self._data_transformer.has_statistics:
            with single_threaded():
                self._update_statistics(experience)
        self._replayer.observe(experience)

    def train(self):
        """Learns from what was observed.

        Returns:
            dict of float32 scalars to show: the loss and its parts, gradient norm, learning rate, policy lag.

        Raises:
            DivergedError: if the loss or the gradient is not finite; that update was not made.
        """
        experience = self._replayer.replay_all()
        try:
            with single_threaded():
                summary = self._train_on(experience)
        except tf.errors.InvalidArgumentError as error:
            if _NOT_FINITE not in str(error):
                raise
            raise DivergedError(self._diverged(experience)) from None
        self.after_train_iter(experience)
        return summary

    @tf.function(autograph=False)
    def _update_statistics(self, experience):
        batch = merge_unrolls(experience)
        self._data_transformer.observe(batch, batch.state.transformer)

    @tf.function(autograph=False)
    def _train_on(self, experience):
        batch, age = self._prepared(merge_unrolls(experience))
        summary = train_in_minibatches(
            self._update, batch, self._num_epochs, self._num_minibatches, self.stops_early
        )
        with tf.control_dependencies(tf.nest.flatten(summary)):
            self.env_steps.assign_add(count_transitions(experience.step_type))
            return {**summary, **self._summarize_age(age)}

    def _prepared(self, batch):
        """A batch as `train_step` gets it, and of its steps: the policy lag, and how many were dropped."""
        batch = self._data_transformer.unroll(
            batch._replace(state=batch.state.train), batch.state.transformer
        )
        trains = tf.not_equal(batch.step_type[1:], FIRST)
        lag = self.train_step_counter - batch.policy_version[:-1]
        age = policy_lag(lag, trains)
        if self._max_policy_lag is not None:
            too_old = trains & (lag > self._max_policy_lag)
            trains &= ~too_old
            age["dropped_steps"] = tf.math.count_nonzero(too_old)
        batch = batch._replace(weight=tf.pad(tf.cast(trains, tf.float32), [[0, 1], [0, 0]]))
        return self.preprocess(batch, batch.state), age

    def _summarize_age(self, age):
        """What `_prepared` says of the age of a batch, with the dropped steps of all batches."""
        if self._max_policy_lag is None:
            return age
        total = self.dropped_steps.assign_add(age["dropped_steps"])
        return {**age, "dropped_steps": tf.cast(total, tf.float32)}

    def _update(self, batch):
        with tf.GradientTape() as tape:
            train_info = self.train_step(batch, batch.state)
            loss_info = self.calc_loss(batch, train_info)
        learning_rates = {
            f"learning_rate{name}": tf.cast(optimizer._decayed_lr(tf.float32), tf.float32)
            for name, optimizer in self._optimizers().items()
        }
        norm = self.update_with_gradient(loss_info, tape)
        # Without it these would run before or beside the check that the loss is finite.
        with tf.control_dependencies([norm]):
            self.after_update(batch, train_info)
            self.train_step_counter.assign_add(1)
        return {
            "loss": loss_info.loss,
            **dict(loss_info.extra or {}),
            "gradient_norm": norm,
            **learning_rates,
        }

    def _diverged(self, experience):
        for part, value in (("reward", experience.reward), ("observation", experience.observation)):
            for x in tf.nest.flatten(value):
                if x.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(x))):
                    return f"the loss is not finite, because the environment's {part} is not"
        return (
            f"the loss or its gradient is not finite after {int(self.train_step_counter)} updates: lower the "
            "optimizer's learning_rate or set max_grad_norm"
        )


def _prepare_optimizer(name, optimizer, progress):
    """Checks an optimizer, and lets a schedule of its learning rate know the progress."""
    if not isinstance(optimizer, tf.keras.optimizers.legacy.Optimizer):
        raise ConfigError(
            f"{name.lstrip('_')}{name and '_'}optimizer is {optimizer!r}: it must be an instance of a class of "
            "tf.keras.optimizers.legacy; in gin, @Adam() with parentheses"
        )
    setting = f"the {name.lstrip('_')}{name and ' '}optimizer's learning_rate"
    learning_rate = optimizer._hyper.get("learning_rate", 0.0)
    if isinstance(learning_rate, Schedule):
        schedule = as_schedule(setting, learning_rate, at_least=0)
        optimizer.learning_rate = lambda: schedule(progress())
    elif not isinstance(learning_rate, tf.keras.optimizers.schedules.LearningRateSchedule):
        check_number(setting, optimizer.get_config().get("learning_rate", 0.0), at_least=0)


def merge_unrolls(experience):
    """Makes one time-major batch of Q unrolls: [Q, T+1, B, ...] -> [T+1, Q*B, ...], state [Q*B, ...]."""

    def merge_rows(x):
        x = tf.experimental.numpy.moveaxis(x, 0, 1) if x.shape[0] != 1 else x[0][:, tf.newaxis]
        return tf.reshape(x, (x.shape[0], -1, *x.shape[3:]))

    rows = tf.nest.map_structure(merge_rows, experience._replace(state=()))
    state = tf.nest.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:])), experience.state)
    return rows._replace(state=state)


def policy_lag(lag, trains):
    """Updates between the weights that acted and the weights that learn now, over the rows that train.

    Args:
        lag: int64 [T, B].
        trains: bool [T, B].

    Returns:
        dict of float32 scalars: policy_lag_min, policy_lag_mean, policy_lag_max.
    """
    lag = tf.cast(tf.boolean_mask(lag, trains), tf.float32)
    return {
        "policy_lag_min": tf.reduce_min(lag),
        "policy_lag_mean": tf.reduce_mean(lag),
        "policy_lag_max": tf.reduce_max(lag),
    }


__all__ = ["Algorithm", "LossInfo", "PolicyStep", "TimeStep", "merge_unrolls", "policy_lag"]
