# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LearnerGroup: the learners of several policies, each with its own replayer, optimizer and counters."""

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

    A batch has `num_sequences` sequences; a sequence is what a row did in an unroll.
    """

    num_sequences: int
    # Whether each sequence is an unroll of one row, [num_sequences, T+1, 1, ...]: replay buffers need that,
    # because they keep the steps of each row apart. Else they are side by side, [1, T+1, num_sequences, ...].
    splits_rows: bool


class LearnerGroup(tf.Module):
    """Learns with several policies: a driver and a trainer use it as they use a `Learner`.

    `observe` splits the rows of unrolls among the policies that acted in them. Once a policy has enough
    sequences for a batch, `train` lets its learner observe the batch and train. Sequences that are too few
    wait for the next unrolls. Policies without a learner act and never change.

    Args:
        policy: `PolicyGroup` that acts.
        learners: dict of `Learner` by the name of their policies; one at least.
        num_sequences: dict from each name to the sequences of a batch.
        metrics, callbacks: what watches over the policies: lists of `Metric`s, which a driver adds to its
            own, and of `Callback`s, which a trainer calls before its own.

    Attributes:
        policy, learners, metrics, callbacks: as above.
        shapes: dict from each name to its `BatchShape`.
        needs_fresh_experience, uses_env_info: whether those of any learner are True.
        peers: `Peers`, of this process alone.
        on_diverged: callable (name, error) that takes the DivergedError of a policy, and sees to it that this
            one copies another policy. None: `train` raises the error.
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
        self.learners = dict(learners)
        self.shapes = {
            name: BatchShape(num_sequences[name], isinstance(learner.replayer, SequenceReplayer))
            for name, learner in learners.items()
        }
        self.needs_fresh_experience = any(learner.needs_fresh_experience for learner in learners.values())
        self.uses_env_info = any(learner.uses_env_info for learner in learners.values())
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
        """As `Learner.counters`, of all learners."""
        return [counter for learner in self.learners.values() for counter in learner.counters]

    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        """As `Learner.check_batch`, for the batches of each policy; only `unroll_length` matters."""
        for name, learner in self.learners.items():
            count, splits = self.shapes[name]
            learner.check_batch(*((count, unroll_length, 1) if splits else (1, unroll_length, count)))

    def synchronize(self) -> None:
        """Does nothing: there are no other learner processes."""

    def observe(self, experience: Experience) -> None:
        """Splits an `Experience` of [Q, T+1, B, ...], whose observation says who owns each row."""
        self._inbox.add(experience)

    def train(self) -> dict[str, Array]:
        """Lets each learner train on each of its batches that is complete.

        Returns:
            dict of float32 scalars to show, "POLICY/loss" and so on, see `Learner.train`: the last ones of
            each policy; and `policy_lag_min`, `policy_lag_mean` and `policy_lag_max` of the policy that has
            trained last. Empty if no update was due.
        """
        summaries = {}
        for name, batch in self._inbox.take():
            self.learners[name].observe(batch)
            if summary := self._call(name, self.learners[name].train):
                summaries[name] = summary
        return self._show(summaries)

    def train_from_replay(self) -> dict[str, Array]:
        """Lets each learner make updates while nothing is collected, see `Learner.train_from_replay`."""
        made = {name: self._call(name, one.train_from_replay) for name, one in self.learners.items()}
        return self._show({name: summary for name, summary in made.items() if summary})

    def histograms(self) -> dict[str, Any]:
        """As `Learner.histograms`, by "debug/POLICY/reward" and so on."""
        arrays = {}
        for name, learner in self.learners.items():
            for path, array in learner.histograms().items():
                kind, _, rest = path.partition("/")
                arrays[f"{kind}/{name}/{rest}"] = array
        return arrays

    def replay_counts(self) -> dict[str, int]:
        """As `Learner.replay_counts`, by "POLICY/dropped_steps" and so on."""
        counts = {name: learner.replay_counts() for name, learner in self.learners.items()}
        return {f"{name}/{key}": n for name, found in counts.items() for key, n in found.items()}

    def copy_policy(self, parent: str, child: str) -> None:
        """Lets the learner of one policy take over what another one has learned, see `Learner.copy_from`.

        Args:
            parent, child: names of policies that learn; `child` is the one that changes.
        """
        self.learners[child].copy_from(self.learners[parent])

    def note_copied_weights(self) -> None:
        """As `Learner.note_copied_weights`, for each learner."""
        for learner in self.learners.values():
            learner.note_copied_weights()

    def get_state(self) -> Any:
        """As `Learner.get_state`, a dict by policy."""
        return {name: learner.get_state() for name, learner in self.learners.items()}

    def set_state(self, state: Any) -> None:
        """Restores what `get_state` returned. A learner that is new begins without."""
        for name, learner in self.learners.items():
            if name in state:
                learner.set_state(state[name])

    def _call(self, name, train):
        """Calls a method of a learner that trains; returns its summary, empty if the policy diverged."""
        try:
            return train()
        except DivergedError as error:
            error = DivergedError(f"{name}: {error}")
            if self.on_diverged is None:
                raise error from None
            self.on_diverged(name, error)
            return {}

    def _show(self, summaries):
        """Returns what `train` does, from the summaries of the learners that made updates."""
        if not summaries:
            return {}
        shown = self._inbox.summaries
        shown |= {name: {f"{name}/{k}": x for k, x in summary.items()} for name, summary in summaries.items()}
        last = summaries[list(summaries)[-1]]
        values = {key: x for summary in shown.values() for key, x in summary.items()}
        return {**values, **{key: x for key, x in last.items() if key.startswith("policy_lag_")}}


class _Inbox:
    """The experience of a `LearnerGroup` that no learner has observed yet. It is not saved in checkpoints.

    An unroll holds B sequences. Each goes to every policy that acted in it, which is more than one where an
    episode ended and the next one has another policy. Steps of others become FIRST steps, which are not
    transitions, so each transition is learned by one policy. The other fields of these steps repeat a step of
    the policy's own: data transformers and losses never see what another policy saw.

    Attributes:
        summaries: dict by policy of what its last updates showed. It is here because a `tf.Module` would
            track the tensors.
    """

    def __init__(self, group):
        self.summaries = {}
        self._policy, self._learners, self._shapes = group.policy, group.learners, group.shapes
        self._batches = []  # pairs of a name and an `Experience`, in the order in which they were complete
        # Of each policy an `Experience` of [T+1, N, ...] in variables: the sequences that wait, and N.
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
                found, num_sequences = self._split(merged, name, some_wait)
                count = self._num_waiting[name] + int(num_sequences)
                num_batches, self._num_waiting[name] = divmod(count, size)
                axis = 0 if splits_rows else 2
                self._batches += [(name, batch) for batch in _cut(found, num_batches, size, axis)]

    def take(self):
        """Returns the batches that are complete, pairs of a name and an `Experience`."""
        batches, self._batches = self._batches, []
        return batches

    def _make_waiting(self, name, merged):
        """Makes the variables, without sequences at first."""
        own = self._view(name, merged)

        def make(axis, x):
            shape = (*x.shape[:axis], None, *x.shape[axis + 1 :])
            zeros = tf.zeros([n or 0 for n in shape], x.dtype)
            return tf.Variable(zeros, trainable=False, shape=shape)

        with tf.device("CPU:0"):
            return _map_sequences(make, own)

    def _split_unrolls(self, merged, name, some_wait):
        """Returns the sequences of a policy for whole batches, in the graph; those that are left wait.

        Args:
            merged: `Experience` of [T+1, Q*B, ...].
            name: of the policy.
            some_wait: whether any sequences wait already, which come first then.

        Returns:
            `Experience` of [1, T+1, n, ...], or of [n, T+1, 1, ...] if `BatchShape.splits_rows`, where n is a
            multiple of `num_sequences`; and how many sequences of `merged` are the policy's.
        """
        size, splits_rows = self._shapes[name]
        own = self._select(name, merged)

        def cut(axis, variable, sequences):
            if some_wait:
                sequences = tf.concat([variable.read_value(), sequences], axis)
            num_whole = tf.shape(sequences)[axis] // size * size
            variable.assign(_take(sequences, axis, num_whole, None), read_value=False)
            whole = _take(sequences, axis, None, num_whole)  # copies nothing if it takes everything
            if not splits_rows:
                return whole[tf.newaxis]
            return tf.expand_dims(tf.experimental.numpy.moveaxis(whole, axis, 0), axis + 1)

        with tf.device("CPU:0"):
            return _map_sequences(cut, self._waiting[name], own), tf.shape(own.step_type)[1]

    def _select(self, name, unroll):
        """Selects the sequences of a policy: `Experience` of [T+1, N, ...], state [N, ...]."""
        is_own = tf.equal(unroll.observation[OWNER], self._policy.names.index(name))
        # Row T has the answer of row T-1. If that is another policy's, row T begins an episode: it is row 0
        # of the next unroll, and nothing leads to it here.
        is_own = tf.concat([is_own[:-1], is_own[-2:-1] & is_own[-1:]], axis=0)
        rows = tf.where(tf.reduce_any(is_own, axis=0))[:, 0]
        is_own = tf.gather(is_own, rows, axis=1)
        steps = tf.range(unroll.step_type.shape[0], dtype=tf.int64)[:, tf.newaxis]
        # Where a step is another policy's, the first own one is in its place.
        step = tf.where(is_own, steps, tf.argmax(tf.cast(is_own, tf.int32), axis=0))
        index = tf.stack([step, tf.ones_like(step) * rows], axis=-1)
        own = self._view(name, unroll)
        state = tf.nest.map_structure(lambda x: tf.gather(x, rows), own.state)
        own = tf.nest.map_structure(lambda x: tf.gather_nd(x, index), own._replace(state=()))
        return own._replace(step_type=tf.where(is_own, own.step_type, FIRST), state=state)

    def _view(self, name, unroll):
        """The fields of an `Experience` that a policy's learner needs."""
        own = self._policy.view(name, unroll)
        return own if self._learners[name].uses_env_info else own._replace(env_info=())


def _map_sequences(function, *parts):
    """Calls a function (axis of the sequences, *tensors) for each field of `Experience`s of [T+1, N, ...]."""
    rows = (part._replace(state=()) for part in parts)
    mapped = tf.nest.map_structure(lambda *x: function(1, *x), *rows)
    state = tf.nest.map_structure(lambda *x: function(0, *x), *(part.state for part in parts))
    return mapped._replace(state=state)


def _cut(experience, num_parts, size, axis):
    """Cuts an `Experience` into parts of `size` along an axis of its rows; returns them in a list."""
    if num_parts == 1:
        return [experience]

    def cut(i):
        begin, end = i * size, (i + 1) * size
        rows = experience._replace(state=())
        rows = tf.nest.map_structure(lambda x: _take(x, axis, begin, end), rows)
        # A state has no time axis.
        state = tf.nest.map_structure(lambda x: _take(x, axis // 2, begin, end), experience.state)
        return rows._replace(state=state)

    return [cut(i) for i in range(num_parts)]


def _take(x, axis, begin, end):
    """Returns the elements from `begin` to `end` of an axis of a tensor."""
    return x[(slice(None),) * axis + (slice(begin, end),)]  # noqa: RUF005 (needs Python 3.11)
