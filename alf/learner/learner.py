# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learner: from observed experience to updated weights."""

import collections
import re
from collections.abc import Mapping
from typing import Annotated, Any

import tensorflow as tf

from alf.algorithms import Algorithm
from alf.config.kinds import NonNegativeInt, PositiveFloat
from alf.config.settings import Role, configurable
from alf.core.annotations import Array
from alf.core.nest_utils import list_leaves
from alf.core.tf_runtime import GraphFunction, check_device, on_device, single_threaded
from alf.data_structures import FIRST, Experience
from alf.errors import ConfigError, DivergedError, EnvError, check_type
from alf.learner.last_values import LastValues
from alf.learner.minibatches import merge_unrolls
from alf.learner.optimizers import GroupOptimizer, Optimizer
from alf.learner.peers import Peers
from alf.learner.replay_training import ReplayTraining
from alf.learner.replicas import Replicas
from alf.learner.unroll_training import UnrollTraining

_NOT_FINITE = "ALF: not finite: "


@configurable("alf")
class Learner(tf.Module):
    """Makes the updates: owns the optimizers, the counters and the choice of experience to train on.

    A driver calls `observe` with the experience that it collected; the training loop calls `train`. In gin
    files the name is `alf.Learner`, because TF-Agents registers a `Learner` too.

    Args:
        algorithm: `Algorithm`.
        optimizer: `tf.keras.optimizers.legacy.Optimizer` or dict with one for each of
            `Algorithm.parameter_groups`. None if the algorithm has an `update_with_gradient` of its own.
        training: `UnrollTraining` or `ReplayTraining`: which experience makes how many updates. Default: each
            batch of unrolls makes one update.
        max_grad_norm: number, limit of the gradient's global norm, of each of `Algorithm.parameter_groups` by
            itself: a value loss of large returns does not shrink the policy's gradient. None for no limit.
        max_policy_lag: steps whose action was chosen more updates ago than this get weight 0 in the loss and
            are counted in `dropped_steps`; None keeps all.
        jit_compile: whether XLA compiles the loss and its gradient. It makes dense layers faster and
            convolutions on CPUs slower. Random numbers in the loss do not follow the seed then.
        strategy: `tf.distribute.Strategy` whose replicas share each update, see `Replicas`; in gin,
            `@MirroredStrategy()`. None: one device makes the updates. For several learner processes see
            `Experiment.strategy_ctor`.
        train_step_counter: `tf.Variable`, an int64 scalar of the user's own that counts updates, too, from
            the value that it has. Checkpoints hold it. None for none.
        device: text, the TensorFlow device that makes the updates, such as "GPU:0", where the weights should
            be, too: `Experiment.learner_device` sees to both. None leaves the choice to TensorFlow.
        debug_summaries: whether TensorBoard gets histograms of the observations, actions and rewards that the
            last update was made with.
        summarize_grads_and_vars: whether it gets histograms of each variable of
            `Algorithm.parameter_groups`, and of its gradient in the last update, before `max_grad_norm`.

    Attributes:
        algorithm, policy: the algorithm and its policy.
        replayer: keeps the experience between `observe` and `train`.
        needs_fresh_experience: whether `train` learns only from what was observed since the last call.
        uses_env_info: `Algorithm.needs_env_info`.
        progress: `Progress` of int64 variables: environment steps learned from, and updates.
        peers: `Peers`, the learner processes that make each update together, in most runs this one alone.
        dropped_steps: int64 variable; steps that were older than `max_policy_lag`.
        metrics, callbacks: as in `LearnerGroup`; none.
    """

    metrics = callbacks = ()

    def __init__(
        self,
        algorithm: Algorithm,
        optimizer: Optimizer | Mapping[str, Optimizer] | None = None,
        training: UnrollTraining | ReplayTraining | None = None,
        max_grad_norm: PositiveFloat | None = None,
        max_policy_lag: NonNegativeInt | None = None,
        jit_compile: Annotated[bool, Role.EXECUTION] = False,
        strategy: Annotated[Any, Role.EXECUTION] = None,
        train_step_counter: Annotated[tf.Variable | None, Role.EXECUTION] = None,
        device: Annotated[str | None, Role.EXECUTION] = None,
        debug_summaries: Annotated[bool, Role.EXECUTION] = False,
        summarize_grads_and_vars: Annotated[bool, Role.EXECUTION] = False,
    ) -> None:
        super().__init__(name="learner")
        check_device("Learner.device", device)
        check_type("Learner.algorithm", algorithm, Algorithm)
        self._keeps_batch = debug_summaries
        self._keeps_gradients = summarize_grads_and_vars
        self._last_values = LastValues()
        self.algorithm = algorithm
        self.policy = algorithm.policy
        self.progress = algorithm.progress
        self.uses_env_info = algorithm.needs_env_info
        self.dropped_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="dropped_steps")
        is_vector = self.policy.data_transformer.reward_spec.shape.rank > 0
        self._sums_rewards = is_vector and not algorithm.uses_vector_reward
        summarizes = type(algorithm).summarize_rollout is not Algorithm.summarize_rollout
        self._summarizes_rollout, self._rollout_summary = summarizes, {}
        self._groups = algorithm.parameter_groups()
        self._optimizer = None
        if optimizer is not None:
            self._optimizer = GroupOptimizer(optimizer, self._groups, self.progress, max_grad_norm)
        elif type(algorithm).update_with_gradient is Algorithm.update_with_gradient:
            raise ConfigError(
                f"Learner.optimizer is None: {type(algorithm).__name__} needs an optimizer; in gin, "
                "alf.Learner.optimizer = @Adam()"
            )
        elif max_grad_norm is not None:
            raise ConfigError(
                f"Learner.max_grad_norm is {max_grad_norm}: it has no effect without an optimizer"
            )
        self._max_policy_lag = max_policy_lag
        self._own_counter = _check_counter(train_step_counter)
        self._device = device
        self._training = training or UnrollTraining()
        self.replayer = self._training.replayer
        self._tunables = self.replayer.list_tunables()  # here, because a replayer is not a `tf.Module`
        self.needs_fresh_experience = self._training.needs_fresh_experience
        self._replicas = None if strategy is None else Replicas(strategy, self._loss_and_gradients)
        self.peers = Peers(strategy)
        if self.peers.count > 1 and not isinstance(self._training, UnrollTraining):
            raise ConfigError(
                f"there are {self.peers.count} learner processes: they must train on fresh experience, so "
                f"exp_replayer must be one such as 'one_time', not {self.replayer.name!r}"
            )
        if jit_compile and strategy is not None:
            raise ConfigError("Learner.jit_compile is True: XLA cannot compile for a strategy of replicas")
        if jit_compile:
            compiled = tf.function(self._loss_and_gradients, autograph=False, jit_compile=True)
            self._loss_and_gradients = compiled  # type: ignore[method-assign]
        self._update_statistics = GraphFunction(self._observe_statistics)
        self._summarize_rollout = GraphFunction(self._describe_rollout, reduce_retracing=True)

    @property
    def counters(self) -> list[tf.Variable]:
        """The variables that count what this run has done, a list; all others are what it has learned."""
        own = [] if self._own_counter is None else [self._own_counter]
        return [*self.progress, self.dropped_steps, *own]

    def list_learned(self) -> list[tf.Variable]:
        """Lists the variables of what it has learned: all but `counters`, and those of the optimizers."""
        counters = {id(counter) for counter in self.counters}
        learned = [variable for variable in self.variables if id(variable) not in counters]
        return learned + (self._optimizer.list_weights() if self._optimizer else [])

    def copy_from(self, learner: "Learner") -> None:
        """Takes over what another learner of the same parts has learned.

        The copy counts as an update, because the version of the weights is a new one.
        """
        for ours, theirs in zip(self.list_learned(), learner.list_learned(), strict=True):
            ours.assign(theirs)
        # Last, so that whoever has read this version acts with the copied weights alone.
        self.progress.updates.assign_add(1)
        self.drop_experience()

    def drop_experience(self) -> None:
        """Drops what waits to be trained on, once more or for the first time; a replay buffer stays."""
        if self.needs_fresh_experience:
            self.replayer.clear()

    @property
    def train_step_counter(self) -> Array:
        """int64 variable that counts updates: `progress.updates`."""
        return self.progress.updates

    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        """Raises ConfigError if what is observed between two calls of `train` cannot be trained on.

        That is `num_unrolls` unrolls of T = `unroll_length` steps of B = `batch_size` environments each.
        """
        self._training.check_batch(self.policy, num_unrolls, unroll_length, batch_size)

    def synchronize(self) -> None:
        """Gives all learner processes the variables of the first one; a driver calls it when it starts.

        Raises:
            ConfigError: if the first one begins a run which this one continues.
            LostPeerError: if another process does not call it.
        """
        updates = int(self.progress.updates)
        with self.peers.watch():
            self.peers.copy_from_first(self.variables)
        if updates and not int(self.progress.updates):
            raise ConfigError(
                f"this learner process continues after {updates} updates, but the first one begins a run: "
                "its root_dir must hold what it has trained before"
            )

    def observe(self, experience: Experience) -> None:
        """Hands an `Experience` of [Q, T+1, B, ...] to the replayer, and to statistics of the data."""
        with self.peers.watch(), single_threaded():
            if self.policy.data_transformer.has_statistics:
                self._update_statistics(experience)
            if self._summarizes_rollout:
                self._rollout_summary = self._summarize_rollout(experience)
            self._training.observe(experience)

    def train(self) -> dict[str, Array]:
        """Makes the updates that are due; raises an error in place of one that is not finite.

        Returns:
            dict of float32 scalars to show: the loss and its parts, gradient norm, learning rate, policy lag
            and `Algorithm.summarize_train`, averaged over the updates; the number of dropped steps; the last
            `Algorithm.summarize_rollout`. Empty if no update was due.

        Raises:
            EnvError: if the loss is not finite because the reward or the observation is not.
            DivergedError: if the loss or its gradient is not finite for another reason.
            LostPeerError: if another learner process does not make the same update.
        """
        return self._train(self._training.train)

    def train_from_replay(self) -> dict[str, Array]:
        """Makes updates while nothing is collected, see `ReplayTraining.train_from_replay`.

        It returns and raises what `train` does. It is not for learners that need fresh experience.
        """
        return self._train(self._training.train_from_replay)  # type: ignore[union-attr]

    def histograms(self) -> dict[str, Any]:
        """Returns what to show as histograms: a dict of arrays by name, see docs/metrics.md.

        It is empty without `debug_summaries` and `summarize_grads_and_vars`.
        """
        arrays = self._last_values.read()
        if self._keeps_gradients:
            variables = _name_variables(self._groups).items()
            arrays |= {f"variables/{name}": variable.numpy() for name, variable in variables}
        return arrays

    def count_env_steps(self, count: Array) -> None:
        """Adds environment steps, in the graph, those of all learner processes; int64 scalar."""
        self.progress.env_steps.assign_add(self.peers.sum(count))

    def get_state(self) -> Any:
        """The part of the state that no variable holds, as JSON types."""
        return {"training": self._training.get_state(), "replayer": self.replayer.get_state()}

    def set_state(self, state: Any) -> None:
        """Restores what `get_state` returned."""
        self._training.set_state(state["training"])
        self.replayer.set_state(state["replayer"])

    def _train(self, train):
        """Calls a method of the training; returns what `train` does."""
        with self.peers.watch(), single_threaded(), on_device(self._device):
            try:
                summary, experience = train(self)
            except tf.errors.InvalidArgumentError as error:
                found = re.search(f"{_NOT_FINITE}(reward|observation)?", str(error))
                if not found:
                    raise
                if found[1]:
                    raise EnvError(
                        f"the loss is not finite, because the {found[1]} in the experience is not: an "
                        "environment or a data transformer made it"
                    ) from None
                raise DivergedError(
                    f"the loss or its gradient is not finite after {int(self.progress.updates)} updates: "
                    "lower the optimizer's learning_rate or set max_grad_norm"
                ) from None
        if summary:
            self.algorithm.after_train_iter(experience)
            if self._max_policy_lag is not None:
                summary["dropped_steps"] = tf.cast(self.dropped_steps, tf.float32)
            summary = _add_scalars(summary, self._rollout_summary, "summarize_rollout")
        return summary

    def prepare(
        self, batch: Experience, context: int = 0, weight: Array = 1.0
    ) -> tuple[Experience, dict[str, Array]]:
        """Prepares a batch for its updates, in the graph: transforms, weights and preprocesses it.

        Args:
            batch: `Experience` of [context + T + 1, B, ...] as the environments gave it.
            context: the first rows, which only the data transformer needs.
            weight: float32 scalar or [B], of each column in the loss.

        Returns:
            `Experience` of [T+1, B, ...], whose state is the policy's recurrent state; and a dict of float32
            scalars, the policy lag: the updates between the weights that acted and those that learn now.
        """
        state = batch.state.train
        batch = self.policy.data_transformer.unroll(batch._replace(state=()), batch.state.transformer)
        batch = tf.nest.map_structure(lambda x: x[context:], batch)._replace(state=state)
        if self._sums_rewards:
            batch = self.policy.data_transformer.reward_weighting.transform(batch)
        is_trained = tf.not_equal(batch.step_type[1:], FIRST)
        lag = self.progress.updates - batch.policy_version[:-1]
        shown = tf.cast(tf.boolean_mask(lag, is_trained), tf.float32)
        reductions = {"min": tf.reduce_min, "mean": tf.reduce_mean, "max": tf.reduce_max}
        summary = {f"policy_lag_{name}": reduce(shown) for name, reduce in reductions.items()}
        if self._max_policy_lag is not None:
            is_old = is_trained & (lag > self._max_policy_lag)
            is_trained &= ~is_old
            self.dropped_steps.assign_add(tf.math.count_nonzero(is_old))
        weight = tf.pad(weight * tf.cast(is_trained, tf.float32), [[0, 1], [0, 0]])
        return self.algorithm.preprocess(batch._replace(weight=weight), state), summary

    def update(self, batch: Experience) -> tuple[dict[str, Array], Array]:
        """Makes one update in the graph, with an `Experience` of [T+1, B, ...] from `prepare`.

        Returns a dict of float32 scalars to show, and `LossInfo.priority`.
        """
        compute = self._replicas.compute if self._replicas else self._loss_and_gradients
        train_info, loss_info, gradients = compute(batch)
        optimizer, loss = self._optimizer, loss_info.loss
        if optimizer is None:
            learning_rates, norms = {}, [tf.linalg.global_norm(tf.nest.flatten(gradients))]
        else:
            learning_rates, norms = optimizer.learning_rates(), optimizer.norms(gradients)
        norm = tf.linalg.global_norm(norms)
        is_checked = _check_finite(loss, norm, batch)
        summary = {"loss": loss, **dict(loss_info.extra or {}), "gradient_norm": norm, **learning_rates}
        scalars = self.algorithm.summarize_train(batch, train_info, loss_info)
        summary = _add_scalars(summary, scalars, "summarize_train")
        # The single-threaded executor runs operations that do not depend on each other in any order.
        with tf.control_dependencies([is_checked]):
            limited = optimizer.limit(gradients, norms) if optimizer else gradients
            self._keep_last(batch, gradients)
            self.algorithm.update_with_gradient(loss_info, limited, optimizer)
            self.algorithm.after_update(batch, train_info)
            self.progress.updates.assign_add(1)
            if self._own_counter is not None:
                self._own_counter.assign_add(1)
            # What the caller makes depend on these waits for the check, too.
            return tf.nest.map_structure(tf.identity, (summary, loss_info.priority))

    def _keep_last(self, batch, gradients):
        """Keeps what `histograms` shows of an update, in the graph; by default that is nothing."""
        with tf.name_scope("keep_last"):
            if self._keeps_batch:
                is_trained = batch.weight[:-1] > 0
                rows = {
                    "observation": tf.nest.map_structure(lambda x: x[:-1], batch.observation),
                    "action": tf.nest.map_structure(lambda x: x[:-1], batch.action),
                    "reward": batch.reward[1:],
                }
                for path, x in list_leaves({"debug": rows}):
                    self._last_values.keep(path, tf.boolean_mask(x, is_trained))
            if self._keeps_gradients:
                for name, gradient in _name_variables(self._groups, gradients).items():
                    self._last_values.keep(f"gradients/{name}", tf.convert_to_tensor(gradient))

    def _observe_statistics(self, experience):
        batch = merge_unrolls(experience)
        with self.peers.scope():
            self.policy.data_transformer.observe(batch, batch.state.transformer)

    def _describe_rollout(self, experience):
        return _add_scalars({}, self.algorithm.summarize_rollout(experience), "summarize_rollout")

    def _loss_and_gradients(self, batch):
        """Returns what `train_step` and `calc_loss` return, and a dict of each group's gradients."""
        with tf.GradientTape() as tape:
            train_info = self.algorithm.train_step(batch, batch.state)
            loss_info = self.algorithm.calc_loss(batch, train_info)
        return train_info, loss_info, tape.gradient(loss_info.loss, self._groups)


def _name_variables(groups, values=None):
    """Makes a dict by "GROUP/VARIABLE" of the variables of `Algorithm.parameter_groups`.

    With `values`, such as gradients, a dict from each group to a list, it is one of these; None is left out.
    Variables of the same name get numbers: "critic/dense/kernel", "critic/dense/kernel_1".
    """
    found, counts = {}, collections.Counter()
    for group, variables in groups.items():
        for variable, value in zip(variables, values[group] if values else variables, strict=True):
            name = f"{group}/{variable.name.partition(':')[0]}"
            counts[name] += 1
            if value is not None:
                found[f"{name}_{counts[name] - 1}" if counts[name] > 1 else name] = value
    return found


def _check_counter(counter):
    """Returns the user's counter; raises ConfigError unless it can count."""
    if counter is None:
        return None
    is_counter = isinstance(counter, tf.Variable) and counter.dtype == tf.int64 and counter.shape.rank == 0
    if not is_counter:
        raise ConfigError(
            f"Learner.train_step_counter is {counter!r}: it must be an int64 scalar tf.Variable"
        )
    return counter


def _add_scalars(summary, scalars, hook):
    """Adds what a hook returned to a dict, as float32; a ConfigError if it is no dict of other scalars."""
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


def _check_finite(loss, norm, batch):
    """Fails in the graph if a number is not finite; what comes after must depend on the bool it returns."""

    def all_finite(nest):
        floats = [x for x in tf.nest.flatten(nest) if x.dtype.is_floating]
        return tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in floats])

    def fail():
        culprit = tf.where(all_finite(batch.observation), "", "observation")
        culprit = tf.where(all_finite(batch.reward), culprit, "reward")
        failed = tf.raw_ops.Assert(condition=is_finite, data=[tf.strings.join([_NOT_FINITE, culprit])])
        with tf.control_dependencies([failed]):
            return tf.constant(False)

    is_finite = tf.math.is_finite(loss) & tf.math.is_finite(norm)
    return tf.cond(is_finite, lambda: tf.constant(True), fail)
