# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LearnerGroup: the learners of several policies, each with its own replayer, optimizer and counters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from alf.core.annotations import Array
from alf.errors import DivergedError
from alf.learner.learner import Learner
from alf.learner.peers import Peers
from alf.policies.policy_group import PolicyGroup
from alf.replay import SequenceReplayer
from alf.schedules import Progress


class BatchShape(NamedTuple):
    """What the learner of one policy observes at a time: sequences, a row's steps of an unroll each."""

    num_sequences: int
    # Whether each sequence is an unroll of one row, [num_sequences, T+1, 1, ...]: replay buffers need that,
    # because they keep the steps of each row apart. Else they are side by side, [1, T+1, num_sequences, ...].
    splits_rows: bool


class PolicyBatch(NamedTuple):
    """A batch for the learner of one policy."""

    name: str  # of the policy
    experience: Any  # `Experience`, arranged as the policy's `BatchShape` says


class LearnerGroup(tf.Module):
    """Has the place of a `Learner` in drivers and trainers where several policies learn.

    `observe` hands a batch to the learner of its policy, `train` lets those train that have observed
    something. Policies without a learner act and never change.

    Args:
        policy: `PolicyGroup` that acts.
        learners: dict of `Learner` by the name of their policies; one at least.
        num_sequences: dict from each name to the sequences of a batch.
        metrics, callbacks: what watches over the policies: lists of `Metric`s, which a driver adds to its
            own, and of `Callback`s, which a trainer calls before its own.

    Attributes:
        policy, learners, metrics, callbacks: as above.
        shapes: dict from each name to its `BatchShape`.
        replayer: `GroupReplayer` of all learners' replayers.
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
        self.replayer = GroupReplayer({name: learner.replayer for name, learner in learners.items()})
        self.needs_fresh_experience = any(learner.needs_fresh_experience for learner in learners.values())
        self.uses_env_info = any(learner.uses_env_info for learner in learners.values())
        self.peers = Peers(None)
        self.on_diverged = None
        self._recent = _Recent()

    @property
    def progress(self) -> Progress:
        """`Progress` of the sums over the policies that learn, int64 scalars."""
        return self.policy.progress

    @property
    def train_step_counter(self) -> Array:
        """int64 scalar, the updates of all policies that learn."""
        return self.progress.updates

    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        """As `Learner.check_batch`, for the batches of each policy; only `unroll_length` matters."""
        for name, learner in self.learners.items():
            count, splits = self.shapes[name]
            learner.check_batch(*((count, unroll_length, 1) if splits else (1, unroll_length, count)))

    def synchronize(self) -> None:
        """Does nothing: there are no other learner processes."""

    def observe(self, batch: PolicyBatch) -> None:
        """Hands the experience of a `PolicyBatch` to the learner of its policy.

        A batch that has a step of the weights from before `copy_policy` is dropped.
        """
        oldest = self._recent.oldest_versions.get(batch.name)
        if oldest is not None and int(tf.reduce_min(batch.experience.policy_version)) < oldest:
            return
        self.learners[batch.name].observe(batch.experience)
        self._recent.observed[batch.name] = True

    def train(self) -> dict[str, Array]:
        """Lets each learner train that has observed something since the last call.

        Returns:
            dict of float32 scalars to show, "POLICY/loss" and so on, see `Learner.train`: the last ones of
            each policy; and `policy_lag_min`, `policy_lag_mean` and `policy_lag_max` of the policy that has
            trained last. Empty if no update was due.
        """
        observed, self._recent.observed = self._recent.observed, {}
        summaries = {name: self._train_one(name) for name in observed}
        summaries = {name: summary for name, summary in summaries.items() if summary}
        if not summaries:
            return {}
        self._recent.summaries |= {
            name: {f"{name}/{key}": x for key, x in summary.items()} for name, summary in summaries.items()
        }
        last = summaries[list(summaries)[-1]]
        values = {key: x for summary in self._recent.summaries.values() for key, x in summary.items()}
        return {**values, **{key: x for key, x in last.items() if key.startswith("policy_lag_")}}

    def histograms(self) -> dict[str, Any]:
        """As `Learner.histograms`, by "debug/POLICY/reward" and so on."""
        arrays = {}
        for name, learner in self.learners.items():
            for path, array in learner.histograms().items():
                kind, _, rest = path.partition("/")
                arrays[f"{kind}/{name}/{rest}"] = array
        return arrays

    def copy_policy(self, parent: str, child: str) -> None:
        """Lets one policy take over what another one has learned, see `Learner.copy_from`.

        What its old weights have collected is dropped, unless it goes to a replay buffer. Learners must have
        the same parts.

        Args:
            parent, child: names of policies that learn; `child` is the one that changes.
        """
        learner = self.learners[child]
        learner.copy_from(self.learners[parent])
        if learner.needs_fresh_experience:
            self._recent.oldest_versions[child] = int(learner.progress.updates)

    def _train_one(self, name):
        try:
            return self.learners[name].train()
        except DivergedError as error:
            error = DivergedError(f"{name}: {error}")
            if self.on_diverged is None:
                raise error from None
            self.on_diverged(name, error)
            return {}

    def get_state(self) -> Any:
        """As `Learner.get_state`, a dict by policy."""
        return {name: learner.get_state() for name, learner in self.learners.items()}

    def set_state(self, state: Any) -> None:
        """Restores what `get_state` returned. A learner that is new begins without."""
        for name, learner in self.learners.items():
            if name in state:
                learner.set_state(state[name])


class _Recent:
    """What a `LearnerGroup` remembers between two calls. A `tf.Module` would track each dict that it sets.

    Attributes:
        observed: dict whose keys name the learners that observed since the last call of `train`, in order.
        summaries: dict by policy, of each learner's last updates.
        oldest_versions: dict by policy that has copied another, the oldest version that it may learn from.
    """

    def __init__(self):
        self.observed, self.summaries, self.oldest_versions = {}, {}, {}


class GroupReplayer:
    """Has the place of a replayer where a trainer shows what one holds."""

    name = "one of each policy"

    def __init__(self, replayers):
        self._replayers = replayers

    def counts(self):
        """What to show, a dict of ints by name, "POLICY/dropped_steps" for example."""
        return {
            f"{name}/{key}": n for name, one in self._replayers.items() for key, n in one.counts().items()
        }
