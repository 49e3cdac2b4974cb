# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithm: the one base class of everything that learns."""

import abc

import tensorflow as tf

from alf.data_structures import FIRST, LossInfo, PolicyState, PolicyStep, TimeStep, count_transitions
from alf.errors import ConfigError, DivergedError, check_bool, check_int, check_number
from alf.learner.minibatches import check_num_minibatches, train_in_minibatches
from alf.learner.replay_training import ReplayTraining
from alf.nest_utils import zeros_from_spec
from alf.policies.data_transformers import Pipeline
from alf.replay import HybridReplayer, check_same_rows, make_replayer
from alf.schedules import Progress, Schedule, as_schedule
from alf.tf_runtime import single_threaded

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
        jit_compile: whether XLA compiles the loss and its gradient. Faster for dense layers, slower for
            convolutions on CPUs. Random numbers in the loss do not follow the seed then.
        train_step_counter: int64 variable that counts updates; the algorithm makes one by default.
        name: of the module.
    """

    _TF_MODULE_IGNORED_PROPERTIES = tf.Module._TF_MODULE_IGNORED_PROPERTIES | {"_made_with"}

    def __new__(cls, *args, **kwargs):
        algorithm = super().__new__(cls)
        object.__setattr__(algorithm, "_made_with", (args, kwargs))  # not tracked, so not in checkpoints
        return algorithm

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
        jit_compile=False,
        train_step_counter=None,
        name="algorithm",
    ):
        super().__init__(name=name)
        check_number("max_grad_norm", max_grad_norm, above=0, optional=True)
        if max_policy_lag is not None:
            check_int("max_policy_lag", max_policy_lag, at_least=0)
        check_int("num_epochs", num_epochs)
        check_int("num_minibatches", num_minibatches)
        check_bool("jit_compile", jit_compile)
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
        if jit_compile:
            self._loss_and_gradients = tf.function(
                self._loss_and_gradients, autograph=False, jit_compile=True
            )
        self._replayer = None
        self._replay_training = None
        self._offline_buffer = None
        self._fresh_steps = 0  # observed since the last call of `train`
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

    def update_with_gradient(self, loss_info, gradients):
        """Applies one step of every optimizer, unless the loss or the gradient is not finite.

        Args:
            loss_info: `LossInfo`.
            gradients: of its loss, a list for each of `parameter_groups`; None where it does not depend on a
                variable.

        Returns:
            the gradient's global norm before it is limited, float32 scalar.
        """
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
        for (optimizer, variables), group in zip(self.parameter_groups(), gradients, strict=True):
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
        """Runs after each call of `train` that learned.

        Args:
            experience: the `Experience` of [Q, T+1, B, ...] that it used, () if it came from a buffer.
        """

    def rollout_copy(self):
        """Makes another algorithm like this one, for actors, with variables of its own and the same values.

        It is constructed with the same arguments, so these must lead to the same variables.

        Raises:
            ConfigError: if they do not.
        """
        args, kwargs = self._made_with
        own = lambda x: tf.Variable(x, trainable=x.trainable) if isinstance(x, tf.Variable) else x  # noqa: E731
        actor = type(self)(*map(own, args), **{name: own(value) for name, value in kwargs.items()})
        actor.set_data_transformer(self._data_transformer.made_again())
        ours, theirs = (
            [(variable.shape, variable.dtype) for variable in algorithm.variables]
            for algorithm in (self, actor)
        )
        if ours != theirs:
            raise ConfigError(
                f"{type(self).__name__} has other variables when it is made again with the same arguments: "
                "actors cannot have a copy of it"
            )
        for target, source in zip(actor.variables, self.variables, strict=True):
            target.assign(source)
        return actor

    def set_offline_buffer(self, replayer):
        """Mixes an offline buffer into every batch, see `HybridReplayer`; before a driver is made."""
        self._offline_buffer = replayer

    def set_exp_replayer(self, replayer, unroll_spec=None, num_envs=1):
        """Chooses where observed experience waits until `train`: see `alf.replay`.

        Args:
            replayer: its name, or a `Replayer`.
            unroll_spec: `Experience` of tensor specs of an unroll; "one_time" needs none.
            num_envs: batched environments.

        Raises:
            ConfigError: if there is no such replayer, or it does not hold what the algorithm needs.
        """
        if isinstance(replayer, str):
            context = self._data_transformer.context
            replayer = make_replayer(replayer, unroll_spec, num_envs, context)
            if self._offline_buffer is not None:
                replayer = HybridReplayer(replayer, self._offline_buffer)
        else:
            self._check_offline(replayer)
        self._replayer = replayer
        self._replay_training = ReplayTraining(self, replayer) if replayer.is_buffer else None

    def _check_offline(self, replayer):
        """Checks what a driver's buffer is made for: info and recurrent state."""
        spec = replayer.row_spec
        state = PolicyState((), self.train_state_spec)
        check_same_rows(spec._replace(info=self.rollout_info_spec, state=state), spec)

    @property
    def replayer(self):
        """The `Replayer`."""
        return self._replayer

    @property
    def has_buffer(self):
        """Whether it learns from a replay buffer, and so without fresh experience too."""
        return self._replay_training is not None

    def check_batch_size(self, batch_size):
        """Raises ConfigError if a batch of so many environments cannot be split into `num_minibatches`."""
        check_num_minibatches(self._num_minibatches, batch_size)

    def observe(self, experience):
        """Hands an `Experience` of [Q, T+1, B, ...] to the replayer, and to statistics of the data."""
        with single_threaded():
            if self._data_transformer.has_statistics:
                self._update_statistics(experience)
            self._replayer.observe(experience)
        if self.has_buffer:
            self._fresh_steps += int(count_transitions(experience.step_type))

    def train(self):
        """Learns from what was observed, or from a replay buffer, see `ReplayTraining`.

        Returns:
            dict of float32 scalars to show: the loss and its parts, gradient norm, learning rate, policy
            lag, averaged over the updates; empty if no update was due.

        Raises:
            DivergedError: if the loss or the gradient is not finite; that update was not made.
        """
        with single_threaded():
            summary = self._train_from_buffer() if self.has_buffer else self._train_on_unrolls()
        if summary and self._max_policy_lag is not None:
            summary["dropped_steps"] = tf.cast(self.dropped_steps, tf.float32)
        return summary

    def _train_on_unrolls(self):
        experience, num_fresh = self._replayer.replay_all()
        try:
            summary = self._train_on(experience, num_fresh)
        except tf.errors.InvalidArgumentError as error:
            self._raise_diverged(error, experience)
        self.after_train_iter(experience)
        return summary

    def _train_from_buffer(self):
        num_steps, self._fresh_steps = self._fresh_steps, 0
        self.env_steps.assign_add(num_steps)
        try:
            summary = self._replay_training.train(num_steps)
        except tf.errors.InvalidArgumentError as error:
            self._raise_diverged(error, ())
        if summary:
            self.after_train_iter(())
        return summary

    @tf.function(autograph=False)
    def _update_statistics(self, experience):
        batch = merge_unrolls(experience)
        self._data_transformer.observe(batch, batch.state.transformer)

    @tf.function(autograph=False)
    def _train_on(self, experience, num_fresh):
        """Updates with an `Experience` of [Q, T+1, B, ...], whose first `num_fresh` unrolls are new steps."""
        batch, age = self._prepared(merge_unrolls(experience))
        summary = train_in_minibatches(
            lambda part: self._update(part)[0],
            batch,
            self._num_epochs,
            self._num_minibatches,
            self.stops_early,
        )
        with tf.control_dependencies(tf.nest.flatten(summary)):
            self.env_steps.assign_add(count_transitions(experience.step_type[:num_fresh]))
            return {**summary, **self._count_dropped(age)}

    def update_with_sequences(self, batch, weight):
        """One update with sequences from a replay buffer, in the graph.

        Args:
            batch: `Experience` of [context + L + 1, B, ...], as the environments gave it. The first rows are
                the data transformer's context.
            weight: float32 [B], of each sequence in the loss.

        Returns:
            the summary, and the sequences' priorities, float32 [B], or whatever else `LossInfo` has.
        """
        needed = PolicyState(
            zeros_from_spec(self._data_transformer.state_spec, weight.shape[0]),
            batch.state.train if tf.nest.flatten(self.train_state_spec) else (),
        )
        info = batch.info if tf.nest.flatten(self.rollout_info_spec) else ()
        batch, age = self._prepared(
            batch._replace(info=info, state=needed), self._data_transformer.context, weight
        )
        summary, priority = self._update(batch)
        with tf.control_dependencies(tf.nest.flatten(summary)):
            return {**summary, **self._count_dropped(age)}, priority

    def _prepared(self, batch, context=0, weight=1.0):
        """A batch as `train_step` gets it, and of its steps: the policy lag, and how many were dropped.

        The first `context` rows are for the data transformer alone.
        """
        state = batch.state.train
        batch = self._data_transformer.unroll(batch._replace(state=()), batch.state.transformer)
        batch = tf.nest.map_structure(lambda x: x[context:], batch)._replace(state=state)
        trains = tf.not_equal(batch.step_type[1:], FIRST)
        lag = self.train_step_counter - batch.policy_version[:-1]
        age = policy_lag(lag, trains)
        if self._max_policy_lag is not None:
            too_old = trains & (lag > self._max_policy_lag)
            trains &= ~too_old
            age["dropped_steps"] = tf.math.count_nonzero(too_old)
        weight = weight * tf.cast(trains, tf.float32)
        batch = batch._replace(weight=tf.pad(weight, [[0, 1], [0, 0]]))
        return self.preprocess(batch, batch.state), age

    def _count_dropped(self, age):
        """Counts the dropped steps that `_prepared` tells of; returns the policy lag alone."""
        if self._max_policy_lag is not None:
            self.dropped_steps.assign_add(age.pop("dropped_steps"))
        return age

    def _loss_and_gradients(self, batch):
        """What `train_step` and `calc_loss` return, and the gradients of each of `parameter_groups`."""
        with tf.GradientTape() as tape:
            train_info = self.train_step(batch, batch.state)
            loss_info = self.calc_loss(batch, train_info)
        variables = [group for _, group in self.parameter_groups()]
        return train_info, loss_info, tape.gradient(loss_info.loss, variables)

    def _update(self, batch):
        """One update; returns the summary and the priorities of the batch's sequences."""
        train_info, loss_info, gradients = self._loss_and_gradients(batch)
        learning_rates = {
            f"learning_rate{name}": tf.cast(optimizer._decayed_lr(tf.float32), tf.float32)
            for name, optimizer in self._optimizers().items()
        }
        norm = self.update_with_gradient(loss_info, gradients)
        # Without it these would run before or beside the check that the loss is finite.
        with tf.control_dependencies([norm]):
            self.after_update(batch, train_info)
            self.train_step_counter.assign_add(1)
        summary = {
            "loss": loss_info.loss,
            **dict(loss_info.extra or {}),
            "gradient_norm": norm,
            **learning_rates,
        }
        return summary, loss_info.priority

    def _raise_diverged(self, error, experience):
        """Says what was not finite, if that was the error."""
        if _NOT_FINITE not in str(error):
            raise error
        for part in ("reward", "observation"):
            for x in tf.nest.flatten(getattr(experience, part, ())):
                if x.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(x))):
                    raise DivergedError(
                        f"the loss is not finite, because the environment's {part} is not"
                    ) from None
        raise DivergedError(
            f"the loss or its gradient is not finite after {int(self.train_step_counter)} updates: lower the "
            "optimizer's learning_rate or set max_grad_norm"
        ) from None


def _prepare_optimizer(name, optimizer, progress):
    """Checks an optimizer, and lets a schedule of its learning rate know the progress."""
    if not isinstance(optimizer, tf.keras.optimizers.legacy.Optimizer):
        raise ConfigError(
            f"{name.lstrip('_')}{name and '_'}optimizer is {optimizer!r}: it must be an instance of a class "
            "of tf.keras.optimizers.legacy; in gin, @Adam() with parentheses"
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
