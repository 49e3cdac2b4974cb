# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LearnerGroup: several learners, one for each policy that learns, in the place of one."""

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from alf.core.annotations import Array
from alf.core.tf_runtime import GraphFunction, single_threaded
from alf.data_structures import FIRST, OWNER, Experience
from alf.errors import DivergedError
from alf.games.group import PolicyGroup
from alf.learner.learner import Learner
from alf.learner.minibatches import merge_unrolls
from alf.learner.peers import Peers
from alf.replay import SequenceReplayer
from alf.schedules import Progress


class BatchShape(NamedTuple):
    """The shape of the batches of one policy.

    A sequence is one row of an unroll: T+1 steps of one sub-environment or agent.
    """

    num_sequences: int  # of a batch
    # Whether each sequence is an unroll of one row, [num_sequences, T+1, 1, ...]: replay buffers need that,
    # because they keep the steps of each row apart. If not, they are side by side, [1, T+1, num_sequences,
    # ...].
    splits_rows: bool


class LearnerGroup(tf.Module):
    """The learners of several policies. A driver and a trainer use it like a `Learner`.

    `observe` splits the rows of unrolls among the policies that acted in them. When a policy has enough
    sequences for a batch, `train` lets its learner observe the batch and train; until then its sequences wait
    for the next unrolls. Policies without a learner act, but do not change.

    Args:
        policy: `PolicyGroup` that acts.
        learners: dict from a policy's name to its `Learner`; at least one.
        num_sequences: dict from each name to the sequences of a batch.
        metrics: list of `Metric`s that a driver adds to its own.
        callbacks: list of `Callback`s that a trainer calls before the user's own.

    Attributes:
        policy, learners, metrics, callbacks: as above.
        shapes: dict from each name to its `BatchShape`.
        needs_fresh_experience, needs_own_actions, uses_env_info: bools, True if the attribute of any learner
            is True.
        device: text, the device of the first learner; actors are there, or have copies of all policies.
        peers: `Peers` of only this process.
        on_diverged: callable (name, DivergedError) that `train` calls when a policy has diverged. Before the
            next `train` the policy must have copied another one. None: `train` raises the error.
    """

    def __init__(
        self,
        policy: PolicyGroup,
        learners: dict[str, Learner],
        num_sequences: dict[str, int],
        metrics: Sequence[Any] = (),
        callbacks: Sequence[Any] = (),
    ) -> None:
        super().__init__(name="learner_group")
        self.metrics, self.callbacks = tuple(metrics), tuple(callbacks)
        self.policy = policy
        # Checkpoints find the variables of the learners through this attribute, by the names of the policies.
        self.learners = dict(learners)
        self.shapes = {
            name: BatchShape(num_sequences[name], isinstance(learner.replayer, SequenceReplayer))
            for name, learner in learners.items()
        }
        self.needs_fresh_experience = any(learner.needs_fresh_experience for learner in learners.values())
        self.needs_own_actions = any(learner.needs_own_actions for learner in learners.values())
        self.uses_env_info = any(learner.uses_env_info for learner in learners.values())
        self.device = next(learner.device for learner in learners.values())
        # Each process would fill its batches at its own time, and wait in updates that the others do not
        # make.
        self.peers = Peers(None)
        self.on_diverged = None
        self._inbox = _Inbox(self)

    @property
    def progress(self) -> Progress:
        """`Progress` of the sums over the policies that learn, int64 scalars."""
        return self.policy.progress

    @property
    def train_step_counter(self) -> Array:
        """int64 scalar, the updates of all policies that learn."""
        return self.progress.updates

    @property
    def counters(self) -> list[tf.Variable]:
        """A list of the counters of all learners."""
        return [counter for learner in self.learners.values() for counter in learner.counters]

    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        """Raises ConfigError if the batches of a policy do not fit the settings of its learner.

        Only `unroll_length` matters: `num_sequences` decides about the other dimensions.
        """
        for name, learner in self.learners.items():
            count, splits = self.shapes[name]
            learner.check_batch(*((count, unroll_length, 1) if splits else (1, unroll_length, count)))

    def synchronize(self) -> None:
        """Does nothing: a group runs in one learner process."""

    @property
    def rollout(self) -> dict[str, Any]:
        """A dict by policy of the last `Experience` of each that learns, as `Learner.rollout`."""
        return {name: learner.rollout for name, learner in self.learners.items()}

    def keep_rollout(self) -> None:
        """Makes each learner keep its last experience in `rollout`."""
        for learner in self.learners.values():
            learner.keep_rollout()

    def observe(self, experience: Experience) -> None:
        """Splits an `Experience` of [Q, T+1, B, ...] by the owners of the rows in its observation."""
        self._inbox.add(experience)

    def train(self) -> dict[str, Array]:
        """Lets each learner train on its complete batches.

        Returns:
            dict of float32 scalars to show: the last results of `Learner.train` of each policy, with names
            such as "POLICY/loss"; and `policy_lag_min`, `policy_lag_mean` and `policy_lag_max` of the policy
            that trained last. Empty if no update was made.
        """
        summaries = {}
        for name, batch in self._inbox.take():
            # One batch at a time: observed together, they would make one larger batch, of another size than
            # the settings say.
            self.learners[name].observe(batch)
            if summary := self._call(name, self.learners[name].train):
                summaries.pop(name, None)  # the last one that trained comes last
                summaries[name] = summary
        return self._show(summaries)

    def train_from_replay(self) -> dict[str, Array]:
        """Lets each learner make updates from its replay buffer while nothing is collected."""
        made = {name: self._call(name, one.train_from_replay) for name, one in self.learners.items()}
        return self._show({name: summary for name, summary in made.items() if summary})

    def histograms(self) -> dict[str, Any]:
        """Returns the histograms of all learners, a dict of arrays by names such as "debug/POLICY/reward"."""
        arrays = {}
        for name, learner in self.learners.items():
            for path, array in learner.histograms().items():
                kind, _, rest = path.partition("/")
                arrays[f"{kind}/{name}/{rest}"] = array
        return arrays

    @property
    def compiles_later(self) -> bool:
        """Whether `Learner.compiles_later` of any learner."""
        return any(learner.compiles_later for learner in self.learners.values())

    def replay_counts(self) -> dict[str, int]:
        """Returns the counts of all replayers, a dict of ints by names such as "POLICY/dropped_steps"."""
        counts = {name: learner.replay_counts() for name, learner in self.learners.items()}
        return {f"{name}/{key}": n for name, found in counts.items() for key, n in found.items()}

    def copy_policy(self, parent: str, child: str) -> None:
        """Copies all learned variables of one policy's learner to another policy's learner.

        Args:
            parent, child: names of policies that learn; `child` changes.
        """
        self.learners[child].copy_from(self.learners[parent])

    def note_copied_weights(self) -> None:
        """Tells each learner that its weights were copied from elsewhere."""
        for learner in self.learners.values():
            learner.note_copied_weights()

    def get_state(self) -> Any:
        """Returns the states of all learners that are not in variables, a dict by policy of JSON types."""
        return {name: learner.get_state() for name, learner in self.learners.items()}

    def set_state(self, state: Any) -> None:
        """Restores the states that `get_state` returned. A new learner keeps its initial state."""
        for name, learner in self.learners.items():
            if name in state:
                learner.set_state(state[name])

    def _call(self, name, train):
        """Calls `train`, a method of a learner; returns its summary, empty if the policy diverged."""
        try:
            return train()
        except DivergedError as error:
            error = DivergedError(f"{name}: {error}")
            if self.on_diverged is None:
                raise error from None
            self.on_diverged(name, error)
            return {}

    def _show(self, summaries):
        """Makes the dict that `train` returns, from the summaries of the learners that made updates."""
        if not summaries:
            return {}
        # Learners train in different iterations. The last values of the others are shown, too: curves have no
        # gaps.
        shown = self._inbox.summaries
        shown |= {name: {f"{name}/{k}": x for k, x in summary.items()} for name, summary in summaries.items()}
        last = summaries[list(summaries)[-1]]
        values = {key: x for summary in shown.values() for key, x in summary.items()}
        return {**values, **{key: x for key, x in last.items() if key.startswith("policy_lag_")}}


class _Inbox:
    """Experience of a `LearnerGroup` that no learner has observed yet. Checkpoints do not hold it.

    An unroll has B sequences. A sequence goes to each policy that acted in it; there are several if an
    episode ended and another policy acts in the next one. For each of them, steps of other policies become
    FIRST steps, which are not transitions, so only one policy learns from a transition. The other fields of
    these steps repeat a step of the policy itself, so data transformers and losses never see data of another
    policy.

    Attributes:
        summaries: dict from a policy to the dict of its last updates.
    """

    def __init__(self, group):
        # The group does not hold these attributes itself: it is a `tf.Module` and would track the variables,
        # so checkpoints would hold them.
        self.summaries = {}
        self._policy, self._learners, self._shapes = group.policy, group.learners, group.shapes
        self._batches = []  # pairs of a name and an `Experience`, in the order in which they were complete
        # For each policy the sequences that wait, an `Experience` of [T+1, N, ...] in variables, and N. The
        # graph reads and writes the variables; Python counts, so that it need not ask for their shapes.
        self._waiting, self._num_waiting = {}, collections.Counter()
        self._merge, self._split = GraphFunction(merge_unrolls), GraphFunction(self._split_unrolls)

    def add(self, experience):
        """Splits an `Experience` of [Q, T+1, B, ...] among the policies that learn."""
        with single_threaded():
            merged = self._merge(experience)  # once for all policies
            for name, (size, splits_rows) in self._shapes.items():
                if name not in self._waiting:
                    self._waiting[name] = self._make_waiting(name, merged)
                some_wait = self._num_waiting[name] > 0
                # `some_wait` is a bool of Python: one trace joins the sequences that wait, the other does not
                # copy.
                found, num_sequences = self._split(merged, name, some_wait)
                count = self._num_waiting[name] + int(num_sequences)
                num_batches, self._num_waiting[name] = divmod(count, size)
                axis = 0 if splits_rows else 2
                # Cut outside of the graph: the number of batches changes from call to call, but all batches
                # of a policy have one shape, for which its learner has a trace.
                self._batches += [(name, batch) for batch in _cut(found, num_batches, size, axis)]

    def take(self):
        """Removes the complete batches and returns them, a list of pairs of a name and an `Experience`."""
        batches, self._batches = self._batches, []
        return batches

    def _make_waiting(self, name, merged):
        """Makes the variables for sequences that wait, of N = 0 at first."""
        own = self._view(name, merged)

        def make(axis, x):
            # The number of sequences changes, so it is None in the shape of the variable.
            shape = (*x.shape[:axis], None, *x.shape[axis + 1 :])
            zeros = tf.zeros([n or 0 for n in shape], x.dtype)
            return tf.Variable(zeros, trainable=False, shape=shape)

        return _map_sequences(make, own)

    def _split_unrolls(self, merged, name, some_wait):
        """Selects a policy's sequences for whole batches, in the graph; the rest of them wait.

        Args:
            merged: `Experience` of [T+1, Q*B, ...].
            name: the policy's name.
            some_wait: whether sequences wait already; they come first.

        Returns:
            `Experience` of [1, T+1, n, ...], or of [n, T+1, 1, ...] if `BatchShape.splits_rows`, where n is a
            multiple of `num_sequences`; and the number of the policy's sequences in `merged`.
        """
        size, splits_rows = self._shapes[name]
        own = self._select(name, merged)

        def cut(axis, variable, sequences):
            if some_wait:
                # The oldest come first, so no sequence waits for ever.
                sequences = tf.concat([variable.read_value(), sequences], axis)
            # The variable is read above and written below: a graph keeps this order for one variable.
            num_whole = tf.shape(sequences)[axis] // size * size
            variable.assign(_take(sequences, axis, num_whole, None), read_value=False)
            whole = _take(sequences, axis, None, num_whole)  # copies nothing if it takes everything
            if not splits_rows:
                return whole[tf.newaxis]
            return tf.expand_dims(tf.experimental.numpy.moveaxis(whole, axis, 0), axis + 1)

        return _map_sequences(cut, self._waiting[name], own), tf.shape(own.step_type)[1]

    def _select(self, name, unroll):
        """Selects the sequences of a policy: `Experience` of [T+1, N, ...], state [N, ...]."""
        is_own = tf.equal(unroll.observation[OWNER], self._policy.names.index(name))
        # Row T repeats the answer of row T-1. If row T-1 belongs to another policy, row T begins an episode.
        # It is row 0 of the next unroll, and no transition of this unroll leads to it, so it is left out.
        is_own = tf.concat([is_own[:-1], is_own[-2:-1] & is_own[-1:]], axis=0)
        rows = tf.where(tf.reduce_any(is_own, axis=0))[:, 0]
        is_own = tf.gather(is_own, rows, axis=1)
        steps = tf.range(unroll.step_type.shape[0], dtype=tf.int64)[:, tf.newaxis]
        # In place of a step of another policy stands the first step of this one.
        step = tf.where(is_own, steps, tf.argmax(tf.cast(is_own, tf.int32), axis=0))
        index = tf.stack([step, tf.ones_like(step) * rows], axis=-1)
        own = self._view(name, unroll)
        state = tf.nest.map_structure(lambda x: tf.gather(x, rows), own.state)
        own = tf.nest.map_structure(lambda x: tf.gather_nd(x, index), own._replace(state=()))
        return own._replace(step_type=tf.where(is_own, own.step_type, FIRST), state=state)

    def _view(self, name, unroll):
        """Returns an `Experience` with only the data that a policy's learner needs."""
        own = self._policy.view(name, unroll)
        return own if self._learners[name].uses_env_info else own._replace(env_info=())


def _map_sequences(function, *parts):
    """Maps a function (axis of the sequences, *tensors) over the leaves of `Experience`s of [T+1, N, ...]."""
    rows = (part._replace(state=()) for part in parts)
    mapped = tf.nest.map_structure(lambda *x: function(1, *x), *rows)
    state = tf.nest.map_structure(lambda *x: function(0, *x), *(part.state for part in parts))
    return mapped._replace(state=state)


def _cut(experience, num_parts, size, axis):
    """Cuts an `Experience` into parts of `size` along an axis of its rows; returns them in a list."""
    # As almost always: a part of a tensor would be a copy of it.
    if num_parts == 1:
        return [experience]

    def cut(i):
        begin, end = i * size, (i + 1) * size
        rows = experience._replace(state=())
        rows = tf.nest.map_structure(lambda x: _take(x, axis, begin, end), rows)
        # A state has no time axis: axis 2 of the rows is axis 1 of the state, and axis 0 is axis 0.
        state = tf.nest.map_structure(lambda x: _take(x, axis // 2, begin, end), experience.state)
        return rows._replace(state=state)

    return [cut(i) for i in range(num_parts)]


def _take(x, axis, begin, end):
    """Returns the elements from `begin` to `end` of an axis of a tensor."""
    return x[(slice(None),) * axis + (slice(begin, end),)]  # noqa: RUF005 (needs Python 3.11)
