# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Update: one change of the weights, from a batch of experience to the step of the optimizer."""

import collections

import tensorflow as tf

from alf.core.devices import HOST
from alf.core.graphs import add_operations
from alf.core.nest_utils import list_leaves
from alf.data_structures import FIRST, NO_VERSION, LossInfo, PolicyState
from alf.errors import ConfigError
from alf.learner.peers import Peers
from alf.learner.replicas import Replicas
from alf.networks.user_models import collect_losses
from alf.policies.action_distributions import ActionInfo

NOT_FINITE = "ALF: not finite: "  # the start of an error's message; then the culprit, or nothing


class Update:
    """Makes updates of the weights, in the graph.

    A learner (`UnrollLearner`, `ReplayLearner`) chooses a batch and calls `prepare` with it. `UpdateLoop`
    calls this object with the prepared batch or with parts of it: each call is one update.

    Args:
        algorithm: `Algorithm`.
        optimizer: `GroupOptimizer`; None if the algorithm applies its gradients itself.
        dropped_steps: int64 variable that counts the steps older than `max_policy_lag`.
        settings: `LearnerSettings`.
        strategy: as in `Learner`.

    Attributes:
        peers: `Peers`.
        has_replicas: bool, whether replicas compute the loss.
        rollout: as `Learner.rollout`.
    """

    def __init__(self, algorithm, optimizer, dropped_steps, settings, strategy):
        self._algorithm, self._policy, self._progress = algorithm, algorithm.policy, algorithm.progress
        self.peers = Peers(strategy)
        self._optimizer = optimizer
        self._groups = algorithm.parameter_groups()
        self._dropped_steps = dropped_steps
        self._settings = settings
        is_vector = self._policy.data_transformer.reward_spec.shape.rank > 0
        self._sums_rewards = is_vector and not algorithm.uses_vector_reward
        self.rollout, self._last_values = (), LastValues()
        # The loss and its gradient are the part that replicas compute; the rest of an update stays the same.
        self._compute = self.loss_and_gradients
        self.has_replicas = strategy is not None
        if strategy is not None:
            self._compute = Replicas(strategy, self.loss_and_gradients).compute

    def prepare(self, batch, context=0, weight=1.0, counts_old=True):
        """Transforms, weights and preprocesses a batch, in the graph, before its updates.

        Args:
            batch: `Experience` of [context + T + 1, B, ...] with the data of the environments, not
                transformed.
            context: int, the number of rows in front that only the data transformer uses.
            weight: float32 scalar or [B], the weight of each column in the loss.
            counts_old: whether steps above `max_policy_lag` are added to `dropped_steps`.

        Returns:
            a pair of the `Experience` of [T+1, B, ...], whose state has no other part than the policy's
            recurrent state, and the result of `Algorithm.preprocess`, a nest of [T+1, B, ...]; and a dict of
            float32 scalars: the policy lag, which is the updates between the weights that acted and the
            present weights, and with `max_policy_lag` the fraction of the steps that are too old.
        """
        # The state has no rows: it stays out while the data transformer and the cut of the context go over
        # rows.
        state, original_reward = batch.state, batch.reward[context + 1 :]
        batch = self._policy.data_transformer.unroll(batch._replace(state=()), state.transformer)
        batch = tf.nest.map_structure(lambda x: x[context:], batch)
        batch = batch._replace(state=PolicyState(train=state.train))
        if self._sums_rewards:
            batch = self._policy.data_transformer.reward_weighting.transform(batch)
        # Row t with the step to row t + 1 is a transition, unless row t + 1 begins an episode.
        is_trained = tf.not_equal(batch.step_type[1:], FIRST) & (tf.convert_to_tensor(weight) > 0)
        # Actors read the version before the weights, so this is never less than the true lag. Steps of a file
        # have none.
        version = batch.policy_version[:-1]
        lag = tf.where(
            tf.equal(version, NO_VERSION), tf.constant(0, tf.int64), self._progress.updates - version
        )
        # A batch may have no transition, only rows from LAST to FIRST, and then shows the lag of these: of no
        # row the figures would be NaN and inf, and a mean over updates would keep that.
        shown = tf.cast(tf.boolean_mask(lag, is_trained | ~tf.reduce_any(is_trained)), tf.float32)
        reductions = {"min": tf.reduce_min, "mean": tf.reduce_mean, "max": tf.reduce_max}
        summary = {f"policy_lag_{name}": reduce(shown) for name, reduce in reductions.items()}
        if self._settings.max_policy_lag is not None:
            is_old = is_trained & (lag > self._settings.max_policy_lag)
            num_old, num_all = tf.math.count_nonzero(is_old), tf.math.count_nonzero(is_trained)
            summary["dropped_fraction"] = tf.cast(tf.math.divide_no_nan(num_old, num_all), tf.float32)
            is_trained &= ~is_old
            # Here and not in each update: several passes over a batch of unrolls count its old steps once.
            if counts_old:
                self._dropped_steps.assign_add(num_old)
        if self._settings.debug_summaries:
            with tf.name_scope("keep_last"):
                self._last_values.keep("debug/original_reward", tf.boolean_mask(original_reward, is_trained))
        # Row T has weight 0: it only bootstraps.
        weight = tf.pad(weight * tf.cast(is_trained, tf.float32), [[0, 1], [0, 0]])
        batch = batch._replace(weight=weight)
        return (batch, self._algorithm.preprocess(batch)), summary

    def __call__(self, batch, fails=True):
        """Makes one update in the graph with a pair from `prepare`, or with some of its columns.

        Args:
            batch: the pair.
            fails: whether an update that is not finite is an error, before it changes a variable. False: the
                caller looks at the result and takes the changes back. XLA knows no errors.

        Returns:
            dict of float32 scalars to show; `LossInfo.priority`; bool scalar, whether the update is finite.
        """
        train_info, loss_info, gradients = self._compute(batch)
        experience, _ = batch
        optimizer, loss = self._optimizer, loss_info.loss
        if optimizer is None:
            learning_rates, norms = {}, [tf.linalg.global_norm(tf.nest.flatten(gradients))]
        else:
            learning_rates, norms = optimizer.learning_rates(), optimizer.norms(gradients)
        # A norm of norms: one scalar, which is not finite if any number of a gradient is not.
        norm = tf.linalg.global_norm(norms)
        # A few scalars are tested at each update. The whole batch is searched only after a failure.
        is_finite = tf.reduce_all([tf.math.is_finite(x) for x in (loss, norm, *learning_rates.values())])
        checked = [self.check_finite(is_finite, lambda: batch)] if fails else []
        summary = {"loss": loss, "gradient_norm": norm, **learning_rates}
        summary = add_scalars(summary, loss_info.extra or {}, "calc_loss (LossInfo.extra)")
        scalars = self._algorithm.summarize_train(experience, train_info, loss_info)
        summary = add_scalars(summary, scalars, "summarize_train")
        # The single-threaded executor runs operations that do not depend on each other in any order. Weights
        # that are not finite could not be repaired, so everything that changes a variable waits for the
        # check.
        with tf.control_dependencies(checked):
            limited = optimizer.limit(gradients, norms) if optimizer else gradients
            # Before the optimizer is applied, with the gradients before `max_grad_norm`.
            self._keep_last(experience, gradients)

            def apply():
                self._algorithm.update_with_gradient(loss_info, limited, optimizer)
                self._algorithm.after_update(experience, train_info)

            # Of all operations of the two hooks, those with side effects.
            applied = [x for x in add_operations(apply) if x.op_def.is_stateful]
        # Last of all: an actor that reads the new number acts with the new weights.
        with tf.control_dependencies(applied):
            self._progress.updates.assign_add(1)
            if self._settings.train_step_counter is not None:
                self._settings.train_step_counter.assign_add(1)
            # New tensors: operations that the caller makes depend on them wait for the weights, too.
            return tf.nest.map_structure(tf.identity, (summary, loss_info.priority, is_finite))

    def check_finite(self, is_finite, find_batch):
        """Fails in the graph unless `is_finite`; the error names what is not finite.

        Args:
            is_finite: bool scalar.
            find_batch: callable () -> the pair of the update, which is called in a branch of the graph.

        Returns:
            a bool scalar. Operations that must not run after a failure must depend on it.
        """

        def fail():
            experience, _ = find_batch()
            rates = [] if self._optimizer is None else [*self._optimizer.learning_rates().values()]
            culprit = tf.where(_is_finite(rates), "", "learning_rate")
            culprit = tf.where(_is_finite(experience.observation), culprit, "observation")
            culprit = tf.where(_is_finite(experience.reward), culprit, "reward")
            failed = tf.raw_ops.Assert(condition=is_finite, data=[tf.strings.join([NOT_FINITE, culprit])])
            with tf.control_dependencies([failed]):
                return tf.constant(False)

        return tf.cond(is_finite, lambda: tf.constant(True), fail)

    def loss_and_gradients(self, batch):
        """Returns the results of `train_step` and `calc_loss`, and a dict of the gradients by group."""
        # One backward pass for all groups: the gradient of shared layers is computed once. The tape begins
        # after `prepare`, so no gradient flows into preprocessing, such as advantages.
        with tf.GradientTape() as tape, collect_losses() as losses:
            train_info = self._algorithm.train_step(*batch)
            loss_info = self._algorithm.calc_loss(batch[0], train_info)
            _check_loss(self._algorithm, loss_info)
            loss_info = _add_losses(loss_info, losses)
        _check_weights(self._algorithm, tape.watched_variables())
        return train_info, loss_info, tape.gradient(loss_info.loss, self._groups)

    def count_env_steps(self, count):
        """Adds environment steps, int64 scalar, summed over all learner processes, in the graph."""
        # Every process counts the steps of all processes: schedules then have the same value in each, without
        # which the same gradients would make different weights.
        self._progress.env_steps.assign_add(self.peers.sum(count))

    def histograms(self):
        """Returns a dict of arrays by name, for `Learner.histograms`."""
        arrays = self._last_values.read()
        if self._settings.rollout_summaries and self.rollout:
            arrays |= describe_rollout(self._policy, self.rollout)
        if self._settings.summarize_grads_and_vars:
            variables = _name_variables(self._groups).items()
            arrays |= {f"variables/{name}": variable.numpy() for name, variable in variables}
        return arrays

    def _keep_last(self, batch, gradients):
        """Keeps the tensors that `histograms` shows, in the graph; none by default."""
        with tf.name_scope("keep_last"):
            if self._settings.debug_summaries:
                is_trained = batch.weight[:-1] > 0
                rows = {
                    "observation": tf.nest.map_structure(lambda x: x[:-1], batch.observation),
                    "action": tf.nest.map_structure(lambda x: x[:-1], batch.action),
                    "reward": batch.reward[1:],
                }
                for path, x in list_leaves({"debug": rows}):
                    self._last_values.keep(path, tf.boolean_mask(x, is_trained))
            if self._settings.summarize_grads_and_vars:
                for name, gradient in _name_variables(self._groups, gradients).items():
                    self._last_values.keep(f"gradients/{name}", tf.convert_to_tensor(gradient))


def describe_rollout(policy, experience):
    """Returns what histograms show of fresh experience, a dict of arrays by name.

    These are the environments' rewards, the actions, and the distributions from which they were drawn.

    Args:
        policy: the `Policy` that acted.
        experience: `Experience` of [Q, T+1, B, ...].
    """
    rows = {"action": experience.action}
    if isinstance(experience.info, ActionInfo):
        rows |= policy.actions.describe(experience.info.params)
    rows = tf.nest.map_structure(lambda x: x[:, :-1], rows)
    reward = experience.reward[:, 1:]
    components = tf.unstack(reward, axis=-1) if reward.shape.rank > 3 else []
    rows |= {f"reward_{i}": x for i, x in enumerate(components)} or {"reward": reward}
    is_transition = experience.step_type[:, 1:] != FIRST
    return {path: tf.boolean_mask(x, is_transition).numpy() for path, x in list_leaves({"rollout": rows})}


class LastValues:
    """Keeps tensors from one update to the next, in main memory.

    It is not a `tf.Module`, so checkpoints and `Learner.variables` do not include the tensors.
    """

    def __init__(self):
        self._kept = {}

    def keep(self, name, x):
        """Replaces the tensor kept under a name, in the graph. Its shape may change."""
        # The variable is made while the graph is traced, outside of it.
        if name not in self._kept:
            # In main memory: NumPy makes the histograms, and a GPU would keep a batch for nothing between two
            # of them.
            with tf.init_scope(), tf.device(HOST):
                zero = tf.zeros([], x.dtype)
                self._kept[name] = tf.Variable(zero, trainable=False, shape=tf.TensorShape(None))
        self._kept[name].assign(x)

    def read(self):
        """Returns the tensors that were kept last, a dict of arrays by name."""
        return {name: variable.numpy() for name, variable in self._kept.items()}


def add_scalars(summary, scalars, hook):
    """Returns a dict with the scalars of a hook added, as float32.

    Raises ConfigError if `scalars` is not a dict of scalars with new names.
    """
    if not isinstance(scalars, dict):
        raise ConfigError(f"{hook} returned {scalars!r}: it must return a dict of scalars by name")
    for name, value in scalars.items():
        if not isinstance(name, str) or tf.convert_to_tensor(value).shape.rank != 0:
            raise ConfigError(f"{hook} returned {value!r} for {name!r}: it must return scalars by name")
        if name in summary:
            raise ConfigError(
                f"{hook} returned the name {name!r}, which another value has: choose another name"
            )
    return {**summary, **{name: tf.cast(value, tf.float32) for name, value in scalars.items()}}


def _check_loss(algorithm, loss_info):
    """Raises ConfigError unless `calc_loss` returned a `LossInfo` with a scalar."""
    returned = f"{type(algorithm).__name__}.calc_loss returned"
    if not isinstance(loss_info, LossInfo):
        raise ConfigError(f"{returned} {type(loss_info).__name__}: it must return an alf.LossInfo")
    if not tf.is_tensor(loss_info.loss) or not loss_info.loss.dtype.is_floating:  # None, or Python's 1.0
        raise ConfigError(
            f"{returned} the loss {loss_info.loss}: it must be a float32 scalar, a tensor, what is minimized"
        )
    shape = loss_info.loss.shape
    if shape.rank != 0:  # The tape would differentiate the sum.
        raise ConfigError(
            f"{returned} a loss of shape {shape}: it must be a scalar, for example a mean over the "
            "transitions that is weighted by experience.weight"
        )


def _add_losses(loss_info, losses):
    """Adds the losses of Keras models, a dict of lists of scalars, to a `LossInfo`."""
    losses = [tf.cast(x, tf.float32) for model in losses.values() for x in model]
    if not losses:
        return loss_info
    total = tf.add_n(losses)
    extra = add_scalars(loss_info.extra or {}, {"model_losses": total}, "a Keras model")
    return loss_info._replace(loss=loss_info.loss + total, extra=extra)


def _check_weights(algorithm, used):
    """Raises ConfigError if a loss uses weights that `tf.Module` does not find in the algorithm.

    Neither checkpoints nor optimizers would have them. So it is with layers of Keras 3 that are attributes of
    a `tf.Module`.
    """
    known = {id(variable.handle) for variable in algorithm.variables}
    hidden = [variable.name for variable in used if id(variable.handle) not in known]
    if hidden:
        raise ConfigError(
            f"the loss of {type(algorithm).__name__} uses variables that are not among its `variables`: "
            f"{', '.join(hidden)}. Make what owns them an attribute of the algorithm or of a network; "
            "layers of Keras go into a KerasEncoder"
        )


def _name_variables(groups, values=None):
    """Makes a dict of the variables of `Algorithm.parameter_groups` with names "GROUP/VARIABLE".

    Variables of the same name get numbers: "critic/dense/kernel", "critic/dense/kernel_1".

    Args:
        groups: dict from name to list of variables.
        values: dict from name to a list of values, such as gradients, that take the place of the variables.
            Values of None are left out.
    """
    found, counts = {}, collections.Counter()
    for group, variables in groups.items():
        for variable, value in zip(variables, values[group] if values else variables, strict=True):
            name = f"{group}/{variable.name.partition(':')[0]}"
            counts[name] += 1
            if value is not None:
                found[f"{name}_{counts[name] - 1}" if counts[name] > 1 else name] = value
    return found


def _is_finite(nest):
    """Returns whether all floats of a nest are finite, bool scalar."""
    floats = [x for x in tf.nest.flatten(nest) if x.dtype.is_floating]
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in floats])
