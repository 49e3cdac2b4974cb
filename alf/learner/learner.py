# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learner: from observed experience to updated weights."""

import abc
import collections
import re
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from alf.algorithms import Algorithm
from alf.core.annotations import Array
from alf.core.devices import HOST, device_of
from alf.core.tf_runtime import GraphFunction, single_threaded
from alf.data_structures import Experience
from alf.errors import ConfigError, DivergedError, EnvError, check_type
from alf.learner.group_optimizer import GroupOptimizer
from alf.learner.learner_settings import LearnerSettings
from alf.learner.minibatches import merge_unrolls
from alf.learner.optimizers import OptimizerSetting
from alf.learner.update import NOT_FINITE, Update, add_scalars
from alf.learner.update_loop import CannotCompileError, UpdateLoop
from alf.ops.draws import Stream
from alf.policies.policy import ONLY_POLICY

_NUM_WATCHED = 50  # calls of `train` that drop most steps before the log says so


class Learner(tf.Module, abc.ABC):
    """Updates the weights of a policy from experience. The base of `UnrollLearner` and `ReplayLearner`.

    It has the optimizers, the counters and the replayer. The training loop calls `observe` with the
    experience that a driver collects, and `train`.

    Args:
        algorithm: `Algorithm`.
        optimizer: optimizer such as `Adam`, optimizer of `keras.optimizers` or the name of one, such as
            "Lion"; or a dict with an optimizer for each of `Algorithm.parameter_groups`. None if the
            algorithm has its own `update_with_gradient`.
        replayer: `Replayer` that keeps the experience between `observe` and `train`.
        settings: `LearnerSettings`; None takes the defaults.
        strategy: `tf.distribute.Strategy` whose replicas share the work of each update. None: one device
            makes the updates.

    Attributes:
        algorithm, replayer, settings: as the arguments.
        policy: the algorithm's policy.
        device: text such as "GPU:0", where the updates are made: where the algorithm's weights are.
        needs_fresh_experience: whether `train` learns only from experience observed since its last call.
        needs_own_actions, uses_env_info: `Algorithm.needs_own_actions`, `Algorithm.needs_env_info`.
        progress: `Progress` of int64 variables: environment steps learned from, and updates.
        peers: `Peers`, the learner processes that make each update together; in most runs only this process.
        stream: `alf.ops.draws.Stream` of the updates and of the replayer. Another one may be set before the
            first update.
        dropped_steps: int64 variable, the number of steps older than `max_policy_lag`.
        rollout: the last `Experience` of [Q, T+1, B, ...] that was observed, not transformed; () before, or
            if nobody needs it (`keep_rollout`).
        metrics, callbacks: empty tuples; a `LearnerGroup` may have some.
    """

    metrics = callbacks = ()
    needs_fresh_experience: bool
    # The losses of unrolls are one chain of operations.
    _executor: Any = staticmethod(single_threaded)

    def __init__(
        self,
        algorithm: Algorithm,
        optimizer: OptimizerSetting | Mapping[str, OptimizerSetting] | None,
        replayer: Any,
        settings: LearnerSettings | None,
        strategy: tf.distribute.Strategy | None,
    ) -> None:
        super().__init__(name="learner")
        name = type(self).__name__
        self.algorithm = check_type(f"{name}.algorithm", algorithm, Algorithm)
        self.settings = settings = settings or LearnerSettings()
        self.policy = algorithm.policy
        self.progress = algorithm.progress
        self.stream = Stream()
        self.uses_env_info = algorithm.needs_env_info
        self.needs_own_actions = algorithm.needs_own_actions
        self.device = device_of(algorithm)
        with tf.device(HOST):
            self.dropped_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="dropped_steps")
        # An attribute here, and not only in `_update`: checkpoints find it by this name, and `Update` is not
        # a `tf.Module`.
        self._optimizer = None
        if optimizer is not None:
            setting, groups = f"{name}.optimizer", algorithm.parameter_groups()
            with tf.device(self.device):  # beside the weights
                limits = settings.max_grad_norm, setting, settings.update_periods
                self._optimizer = GroupOptimizer(optimizer, groups, self.progress, *limits)
        elif type(algorithm).update_with_gradient is Algorithm.update_with_gradient:
            raise ConfigError(
                f"{name}.optimizer is None: {type(algorithm).__name__} needs an optimizer; in gin, "
                f"{name}.optimizer = @Adam(); in Python, "
                f"**{{'{name}.optimizer': alf.learner.optimizers.Adam()}}"
            )
        else:
            for given in ("max_grad_norm", "update_periods"):
                if (value := getattr(settings, given)) is not None:
                    raise ConfigError(
                        f"LearnerSettings.{given} is {value}: it has no effect without an optimizer"
                    )
        # An attribute, so that checkpoints hold the counter.
        self._own_counter = _check_counter(settings.train_step_counter)
        self.replayer = replayer
        # The learner holds them: a replayer is not a `tf.Module`, and checkpoints must find the variables.
        self._tunables = replayer.list_tunables()
        self._update = Update(algorithm, self._optimizer, self.dropped_steps, settings, strategy)
        self._loop = UpdateLoop(
            self._update, settings, algorithm.stops_early, self.device, self.progress.updates
        )
        # Two, because one that could not be traced cannot make variables for histograms any more.
        self._graph, self._compiled = (GraphFunction(self._trace_updates) for _ in range(2))
        self._last_count = 0  # of the updates of a call
        self._graphs_run: set[Any] = set()  # the static arguments of graphs that have run to their end
        self.peers = self._update.peers
        # An algorithm without `summarize_rollout` of its own does not pay for the call at each batch.
        summarizes = type(algorithm).summarize_rollout is not Algorithm.summarize_rollout
        self._summarizes_rollout, self._rollout_summary = summarizes, {}
        self._keeps_rollout = settings.rollout_summaries
        self._dropped_fractions = collections.deque(maxlen=_NUM_WATCHED)
        self._has_warned = False
        # After `note_copied_weights`: experience of versions below this one is dropped.
        self._oldest_version: int | None = None
        self._has_dropped = False  # whether `observe` has dropped a batch since the last call of `train`
        self._update_statistics = GraphFunction(self._observe_statistics)
        self._summarize_rollout = GraphFunction(self._describe_rollout, reduce_retracing=True)

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
    def compiles_later(self) -> bool:
        """Whether XLA will compile updates like the last ones, which takes seconds, and has not yet."""
        return self._loop.compiles_later(self._last_count)

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

    @abc.abstractmethod
    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        """Raises ConfigError if the experience between two calls of `train` does not fit the settings.

        Args:
            num_unrolls: int, unrolls between two calls.
            unroll_length: int, T, transitions of an unroll.
            batch_size: int, B, columns of an unroll.
        """

    def synchronize(self) -> None:
        """Copies the variables of the first learner process to all others.

        A `Trainer` calls it before the driver starts.

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
        if experience.env_info and not self.uses_env_info:
            experience = experience._replace(env_info=())
        # One old step is enough to drop the batch: the learner takes only whole batches of the shape it
        # checked.
        oldest = self._oldest_version
        if oldest is not None and int(tf.reduce_min(experience.policy_version)) < oldest:
            self._has_dropped = True
            return
        # A graph with a loop runs only in the context in which it was traced: `_run`, whose context may be
        # another one, calls none of these graphs.
        with self.peers.watch(), single_threaded():
            if self.policy.data_transformer.has_statistics:
                self._update_statistics(experience)
            if self._summarizes_rollout:
                self._rollout_summary = self._summarize_rollout(experience)
            if self._keeps_rollout:
                self._update.rollout = experience
            self.replayer.observe(experience)

    def train(self) -> dict[str, Array]:
        """Makes the updates that are due. An update that is not finite is an error.

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
        return self._run(self._make_due_updates)

    @abc.abstractmethod
    def _make_due_updates(self):
        """Makes the updates of one call of `train`.

        Returns the mean of the summaries of the updates, a dict of float32 scalars, empty without updates;
        and the `Experience` of [Q, T+1, B, ...] for `Algorithm.after_train_iter`, or ().
        """

    def _train_on(self, inputs, count, *static):
        """Makes `count` updates by `_make_updates`; returns its result."""
        self._last_count = count
        if not self._loop.compiles(count, self.progress.updates):
            return self._graph(inputs, False, *static)
        if static in self._graphs_run:
            return self._compiled(inputs, True, *static)
        dropped, start = int(self.dropped_steps), time.monotonic()
        self._loop.make_copies(self)
        try:
            result = self._compiled(inputs, True, *static)
        except (CannotCompileError, tf.errors.OpError) as error:
            self._loop.fall_back(error)
            self.dropped_steps.assign(dropped)  # which were counted before the program was compiled
            return self._graph(inputs, False, *static)
        self._graphs_run.add(static)
        logging.info("XLA compiled the updates, %d in a call, in %.1f s", count, time.monotonic() - start)
        return result

    def _trace_updates(self, *args):
        """Calls `_make_updates` of a learner in the graph; its draws are `stream` at the count of updates."""
        # The variable, which each draw reads: a loop of updates is traced once.
        with self.stream.at([(0, self.progress.updates)]):
            return self._make_updates(*args)

    @abc.abstractmethod
    def _make_updates(self, inputs, compiles, *static):
        """Makes updates in the graph with a nest of tensors. Returns a dict of scalars to show.

        XLA compiles the updates if `compiles`. Each `static`, hashable, has its own trace.
        """

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
        return {"replayer": self.replayer.get_state()}

    def set_state(self, state: Any) -> None:
        """Restores the state that `get_state` returned."""
        self.replayer.set_state(state["replayer"])

    def _run(self, make_updates):
        """Calls `_make_due_updates`, or a method like it; returns the dict of `train`."""
        # All waits for other processes are inside `watch`, which turns their errors into LostPeerError.
        with self.peers.watch(), self._executor(), tf.device(self.device):
            try:
                summary, experience = make_updates()
            except tf.errors.InvalidArgumentError as error:
                # An error in a graph keeps its type and text, but no Python object, so the text has the
                # cause.
                found = re.search(f"{NOT_FINITE}(reward|observation|learning_rate)?", str(error))
                if not found:
                    raise
                if found[1] == "learning_rate":
                    raise DivergedError(
                        f"the learning_rate is not finite after {int(self.progress.updates)} updates: its "
                        "schedule, or the optimizer's setting, must give a number"
                    ) from None
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
            if self.settings.max_policy_lag is not None:
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
            "LearnerSettings.max_policy_lag = %d drops %.0f %% of the steps, whose policies are %.3g updates "
            "old: raise it, or lower DriverSettings.max_waiting_batches or the updates of each batch",
            self.settings.max_policy_lag,
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
            f"LearnerSettings.train_step_counter is {counter!r}: it must be an int64 scalar tf.Variable"
        )
    return counter
