# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learner: from observed experience to updated weights."""

import collections
import re
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import tensorflow as tf
from absl import logging

from alf.algorithms import Algorithm
from alf.config.kinds import NonNegativeInt, PositiveFloat
from alf.config.settings import Role, configurable
from alf.core.annotations import Array
from alf.core.devices import HOST, device_of
from alf.core.tf_runtime import GraphFunction, parallel, single_threaded
from alf.data_structures import Experience
from alf.errors import ConfigError, DivergedError, EnvError, check_type
from alf.learner.group_optimizer import GroupOptimizer
from alf.learner.minibatches import merge_unrolls
from alf.learner.optimizers import OptimizerSetting
from alf.learner.replay_training import ReplayTraining
from alf.learner.unroll_training import UnrollTraining
from alf.learner.update import NOT_FINITE, Update, add_scalars
from alf.ops.draws import Stream
from alf.policies.policy import ONLY_POLICY

_NUM_WATCHED = 50  # calls of `train` that drop most steps before the log says so


@configurable("alf", claims_name=True)
class Learner(tf.Module):
    """Updates the weights of a policy from experience. It has the optimizers, counters and replayer.

    A driver calls `observe` with the experience that it collects; the training loop calls `train`.

    Args:
        algorithm: `Algorithm`.
        optimizer: optimizer such as `Adam`, optimizer of `keras.optimizers` or the name of one, such as
            "Lion"; or a dict with an optimizer for each of `Algorithm.parameter_groups`. None if the
            algorithm has its own `update_with_gradient`.
        training: `UnrollTraining` or `ReplayTraining`, which chooses the experience and number of updates.
            Default: each batch of unrolls makes one update.
        max_grad_norm: number, limit of the global norm of the gradient. It applies to each of
            `Algorithm.parameter_groups` by itself, so a value loss of large returns does not shrink the
            policy's gradient. None: no limit.
        max_policy_lag: updates. A step whose action was chosen more updates ago gets weight 0 in the loss and
            is counted in `dropped_steps`. The log says so if that happens to most steps. None keeps all
            steps.
        jit_compile: whether XLA compiles the loss and its gradient. It makes dense layers faster and
            convolutions on CPUs slower. Random numbers in the loss follow the seed, but they are other ones.
        strategy: `tf.distribute.Strategy` whose replicas share the work of each update; in gin,
            `@MirroredStrategy()`. None: one device makes the updates. A strategy of several learner processes
            is set by `Experiment.strategy`, not here.
        train_step_counter: `tf.Variable`, an int64 scalar that the user owns. Each update adds 1 to it.
            Checkpoints hold it. None: no such counter.
        debug_summaries: whether TensorBoard gets histograms of the observations, actions and rewards of the
            last update, and of the rewards before data transformers.
        rollout_summaries: whether TensorBoard gets histograms of the last experience that was observed: the
            environments' rewards, the actions and the parameters and entropy of their distributions.
        summarize_grads_and_vars: whether TensorBoard gets histograms of each variable of
            `Algorithm.parameter_groups`, and of its gradient in the last update, before `max_grad_norm`.

    Attributes:
        algorithm, policy: the algorithm and its policy.
        device: text such as "GPU:0", where the updates are made: where the algorithm's weights are.
        replayer: `Replayer` that keeps the experience between `observe` and `train`.
        needs_fresh_experience: whether `train` learns only from experience observed since its last call.
        needs_own_actions, uses_env_info: `Algorithm.needs_own_actions`, `Algorithm.needs_env_info`.
        progress: `Progress` of int64 variables: environment steps learned from, and updates.
        peers: `Peers`, the learner processes that make each update together; in most runs only this process.
        dropped_steps: int64 variable, the number of steps older than `max_policy_lag`.
        rollout: the last `Experience` of [Q, T+1, B, ...] that was observed, not transformed; () before, or
            if nobody needs it (`keep_rollout`).
        metrics, callbacks: empty tuples; a `LearnerGroup` may have some.
    """

    metrics = callbacks = ()

    def __init__(
        self,
        algorithm: Algorithm,
        optimizer: OptimizerSetting | Mapping[str, OptimizerSetting] | None = None,
        training: UnrollTraining | ReplayTraining | None = None,
        max_grad_norm: PositiveFloat | None = None,
        max_policy_lag: NonNegativeInt | None = None,
        jit_compile: Annotated[bool, Role.EXECUTION] = False,
        strategy: Annotated[Any, Role.EXECUTION] = None,
        train_step_counter: Annotated[tf.Variable | None, Role.EXECUTION] = None,
        debug_summaries: Annotated[bool, Role.EXECUTION] = False,
        rollout_summaries: Annotated[bool, Role.EXECUTION] = False,
        summarize_grads_and_vars: Annotated[bool, Role.EXECUTION] = False,
    ) -> None:
        super().__init__(name="learner")
        check_type("Learner.algorithm", algorithm, Algorithm)
        self.algorithm = algorithm
        self.policy = algorithm.policy
        self.progress = algorithm.progress
        self.uses_env_info = algorithm.needs_env_info
        self.device = device_of(algorithm)
        with tf.device(HOST):
            self.dropped_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="dropped_steps")
        summarizes = type(algorithm).summarize_rollout is not Algorithm.summarize_rollout
        # An algorithm without `summarize_rollout` of its own does not pay for the call at each batch.
        self._summarizes_rollout, self._rollout_summary = summarizes, {}
        # An attribute here, and not only in `_update`: checkpoints find it by this name, and `Update` is not
        # a `tf.Module`.
        self._optimizer = None
        if optimizer is not None:
            groups = algorithm.parameter_groups()
            with tf.device(self.device):  # beside the weights
                self._optimizer = GroupOptimizer(optimizer, groups, self.progress, max_grad_norm)
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
        self._dropped_fractions = collections.deque(maxlen=_NUM_WATCHED)
        self._has_warned = False
        # An attribute, so that checkpoints hold the counter.
        self._own_counter = _check_counter(train_step_counter)
        self._training = training or UnrollTraining()
        self.replayer = self._training.replayer
        # The learner holds them: a replayer is not a `tf.Module`, and checkpoints must find the variables.
        self._tunables = self.replayer.list_tunables()
        self.needs_fresh_experience = self._training.needs_fresh_experience
        self.needs_own_actions = algorithm.needs_own_actions
        self._update = Update(
            algorithm,
            self._optimizer,
            self.dropped_steps,
            Stream(),
            max_policy_lag,
            jit_compile,
            strategy,
            self._own_counter,
            debug_summaries,
            rollout_summaries,
            summarize_grads_and_vars,
        )
        # Nobody else pays for the memory. `UnrollTraining` has the batch of `after_train_iter` itself.
        has_hook = type(algorithm).after_train_iter is not Algorithm.after_train_iter
        is_replay = isinstance(self._training, ReplayTraining)
        # With target networks and several critics, losses from replay have passes of networks that do not
        # depend on each other. Other losses are one chain of operations.
        self._executor = parallel if is_replay else single_threaded
        self._keeps_rollout = rollout_summaries or (has_hook and is_replay)
        self.peers = self._update.peers
        # After `note_copied_weights`: experience of versions below this one is dropped.
        self._oldest_version: int | None = None
        self._has_dropped = False  # whether `observe` has dropped a batch since the last call of `train`
        if self.peers.count > 1 and not isinstance(self._training, UnrollTraining):
            raise ConfigError(
                f"there are {self.peers.count} learner processes: they must train on fresh experience, so "
                f"exp_replayer must be one such as 'one_time', not {self.replayer.name!r}"
            )
        self._update_statistics = GraphFunction(self._observe_statistics)
        self._summarize_rollout = GraphFunction(self._describe_rollout, reduce_retracing=True)

    @property
    def stream(self) -> Stream:
        """The `alf.ops.draws.Stream` of its draws. Another one may be set before the first update."""
        return self._update.stream

    @stream.setter
    def stream(self, stream: Stream) -> None:
        self._update.stream = stream

    @property
    def counters(self) -> list[tf.Variable]:
        """A list of the counters: steps and updates of this run. All other variables are learned state."""
        own = [] if self._own_counter is None else [self._own_counter]
        return [*self.progress, self.dropped_steps, *own]

    def list_learned(self) -> list[tf.Variable]:
        """Returns a list of the learned variables: all but `counters`, with the variables of optimizers."""
        counters = {id(counter) for counter in self.counters}
        return [variable for variable in self.variables if id(variable) not in counters]

    def copy_from(self, learner: "Learner") -> None:
        """Copies all learned variables from another learner with the same parts.

        The copy counts as an update, because the weights get a new version.
        """
        # By position: `tf.Module` lists variables by the names of attributes, so learners with the same parts
        # list theirs in the same order.
        for ours, theirs in zip(self.list_learned(), learner.list_learned(), strict=True):
            ours.assign(theirs)
        self.note_copied_weights()

    def note_copied_weights(self) -> None:
        """Tells the learner that its weights were copied from elsewhere.

        The copy counts as an update. Experience of older weights is dropped from now on, except in a replay
        buffer.
        """
        # After the copy: an actor that reads the new version then acts with the new weights.
        self.progress.updates.assign_add(1)
        # While the variables were copied, one after another, actors may have acted with some old and some new
        # ones. They had read an older version before that, by which `observe` knows their steps and drops
        # them. A learner with a replay buffer learns from the actions of any policy, and keeps them.
        if self.needs_fresh_experience:
            self._oldest_version = int(self.progress.updates)
            self.replayer.clear()

    @property
    def learners(self) -> dict[str, "Learner"]:
        """A dict {"policy": this learner}; a `LearnerGroup` has a learner for each policy."""
        return {ONLY_POLICY: self}

    @property
    def rollout(self) -> Any:
        return self._update.rollout

    def keep_rollout(self) -> None:
        """Makes `observe` keep its last experience in `rollout`, which takes the memory of a batch."""
        self._keeps_rollout = True

    @property
    def train_step_counter(self) -> Array:
        """int64 variable that counts updates: `progress.updates`."""
        return self.progress.updates

    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        """Raises ConfigError if the experience between two calls of `train` does not fit the settings.

        Args:
            num_unrolls: int, unrolls between two calls.
            unroll_length: int, T, transitions of an unroll.
            batch_size: int, B, columns of an unroll.
        """
        self._training.check_batch(self.policy, num_unrolls, unroll_length, batch_size)

    def synchronize(self) -> None:
        """Copies the variables of the first learner process to all others. A driver calls it at its start.

        Raises:
            ConfigError: if this process continues a run that the first one begins.
            LostPeerError: if another process does not make the same call.
        """
        updates = int(self.progress.updates)
        # The updates before the copy, because it overwrites the counters, too.
        with self.peers.watch():
            self.peers.copy_from_first([*self.counters, *self.list_learned()])
        if updates and not int(self.progress.updates):
            raise ConfigError(
                f"this learner process continues after {updates} updates, but the first one begins a run: "
                "its root_dir must hold what it has trained before"
            )

    def observe(self, experience: Experience) -> None:
        """Adds an `Experience` of [Q, T+1, B, ...] to the replayer, and to statistics of data transformers.

        After `note_copied_weights` a batch with a step of older weights is dropped.
        """
        # One old step is enough to drop the batch: the learner takes only whole batches of the shape it
        # checked.
        oldest = self._oldest_version
        if oldest is not None and int(tf.reduce_min(experience.policy_version)) < oldest:
            self._has_dropped = True
            return
        # A graph with a loop runs only in the context in which it was traced: `_train`, whose context may be
        # another one, calls none of these graphs.
        with self.peers.watch(), single_threaded():
            if self.policy.data_transformer.has_statistics:
                self._update_statistics(experience)
            if self._summarizes_rollout:
                self._rollout_summary = self._summarize_rollout(experience)
            if self._keeps_rollout:
                self._update.rollout = experience
            self._training.observe(experience)

    def train(self) -> dict[str, Array]:
        """Makes the updates that the training has to make now. An update that is not finite is an error.

        Returns:
            dict of float32 scalars to show: the loss and its parts, gradient norm, learning rate, policy lag
            and `Algorithm.summarize_train`, averaged over the updates; the number of dropped steps; the last
            `Algorithm.summarize_rollout`. Empty if no update was made.

        Raises:
            EnvError: if the loss is not finite because the reward or the observation is not.
            DivergedError: if the loss or its gradient is not finite for another reason.
            LostPeerError: if another learner process does not make the same update.
        """
        # The batches that were not dropped would make an update of another size than the settings say.
        if self._has_dropped:
            self._has_dropped = False
            self.replayer.clear()
            return {}
        return self._train(self._training.train, self.rollout)

    def train_from_replay(self) -> dict[str, Array]:
        """Makes updates from the replay buffer while nothing is collected.

        It returns the same dict as `train`, and raises the same errors. It is not for learners that need
        fresh experience.
        """
        return self._train(self._training.train_from_replay)  # type: ignore[union-attr]

    def histograms(self) -> dict[str, Any]:
        """Returns a dict of arrays by name, to show as histograms. docs/metrics.md has the names.

        It is empty without `debug_summaries`, `rollout_summaries` and `summarize_grads_and_vars`.
        """
        return self._update.histograms()

    def replay_counts(self) -> dict[str, int]:
        """Returns the counts of the replayer to show, a dict of ints by name."""
        return self.replayer.counts()

    def get_state(self) -> Any:
        """Returns the state that is not in variables, as JSON types."""
        return {"training": self._training.get_state(), "replayer": self.replayer.get_state()}

    def set_state(self, state: Any) -> None:
        """Restores the state that `get_state` returned."""
        self._training.set_state(state["training"])
        self.replayer.set_state(state["replayer"])

    def _train(self, train, rollout=()):
        """Calls a method of the training; returns the dict of `train`. `rollout` is the fresh experience."""
        # All waits for other processes are inside `watch`, which turns their errors into LostPeerError.
        with self.peers.watch(), self._executor(), tf.device(self.device):
            try:
                summary, experience = train(self._update)
            except tf.errors.InvalidArgumentError as error:
                # An error in a graph keeps its type and text, but no Python object, so the text has the
                # cause.
                found = re.search(f"{NOT_FINITE}(reward|observation)?", str(error))
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
            self.algorithm.after_train_iter(experience or rollout)
            if self._max_policy_lag is not None:
                summary["dropped_steps"] = tf.cast(self.dropped_steps, tf.float32)
                if not self._has_warned:
                    self._warn_of_drops(float(summary["dropped_fraction"]), float(summary["policy_lag_mean"]))
            summary = add_scalars(summary, self._rollout_summary, "summarize_rollout")
        return summary

    def _warn_of_drops(self, fraction, lag):
        """Warns once if most steps of the last batches were too old, which costs nearly all experience."""
        self._dropped_fractions.append(fraction)
        mean = np.mean(self._dropped_fractions)
        if len(self._dropped_fractions) < _NUM_WATCHED or mean <= 0.5:
            return
        self._has_warned = True
        logging.warning(
            "alf.Learner.max_policy_lag = %d drops %.0f %% of the steps, whose policies are %.3g updates "
            "old: raise it, or lower DriverSettings.max_waiting_batches or the updates of each batch",
            self._max_policy_lag,
            100 * mean,
            lag,
        )

    def _observe_statistics(self, experience):
        batch = merge_unrolls(experience)
        # In the scope of all processes, so that each normalizes with the statistics of the data of all.
        with self.peers.scope():
            self.policy.data_transformer.observe(batch, batch.state.transformer)

    def _describe_rollout(self, experience):
        return add_scalars({}, self.algorithm.summarize_rollout(experience), "summarize_rollout")


def _check_counter(counter):
    """Returns the user's counter or None; ConfigError unless it is an int64 scalar variable."""
    if counter is None:
        return None
    is_counter = isinstance(counter, tf.Variable) and counter.dtype == tf.int64 and counter.shape.rank == 0
    if not is_counter:
        raise ConfigError(
            f"Learner.train_step_counter is {counter!r}: it must be an int64 scalar tf.Variable"
        )
    return counter
