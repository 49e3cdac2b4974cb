# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyGroup: several policies that act in different rows of the same environments."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from alf.core.annotations import Array, NestedSpec
from alf.core.nest_utils import find_mismatch, zeros_from_spec
from alf.data_structures import OBSERVATION, OWNER, PolicyState, PolicyStep, TimeStep
from alf.networks.copying import CopyableModule
from alf.ops import draws
from alf.ops.gather import gather
from alf.policies.policy import Policy
from alf.schedules import Progress


class PolicyGroup(CopyableModule):
    """Several policies in the place of one `Policy`: in each row the owner of the row acts.

    The observation comes from a `MappedEnvironment`: "owner" is the policy that acts in a row, "observation"
    is its own observation. Each policy is called once for all of its rows. States and infos of the group are
    dicts with an entry for each kind of specs. A row fills the entry of its policy; its other entries are
    zeros.

    Args:
        policies: dict of `Policy` by name; the order gives the numbers in "owner".
        observation_spec, action_spec: nests of unbatched tensor specs of the environment.
        spaces: dict from each name to the entry of the environment's observation and action that the policy
            uses, or to None if it uses all entries. None if all agents have the same spaces, without entries.
        frozen: names of policies that do not learn; `progress` does not count their updates.

    Attributes:
        policies, observation_spec, action_spec, spaces: as above.
        names: tuple of texts.
        info_spec: as in `Policy`.
        info_keys: tuple of texts; the keys of the environment's info that data transformers need.
    """

    def __init__(
        self,
        policies: dict[str, Policy],
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        spaces: dict[str, str] | None = None,
        frozen: Sequence[str] = (),
        name: str = "policy_group",
    ) -> None:
        super().__init__(name=name)
        self.names = tuple(policies)
        self.policies = dict(policies)
        self.observation_spec, self.action_spec = observation_spec, action_spec
        self.spaces = spaces
        self._learning = tuple(name for name in self.names if name not in frozen)
        self._slots = _find_slots(self.policies)
        self.info_spec = {slot: self.policies[slot].info_spec for slot in self._slots.values()}
        self.info_keys = tuple(dict.fromkeys(key for p in policies.values() for key in p.info_keys))

    @property
    def progress(self) -> Progress:
        """`Progress` of the sums over the policies that learn, int64 scalars."""
        # Without the frozen ones: `League` sets their counters to the numbers of the versions that they play,
        # so the sum would go back and forth.
        counts = zip(*(self.policies[name].progress for name in self._learning), strict=True)
        return Progress(*(tf.add_n([count.read_value() for count in same]) for same in counts))

    @property
    def time_step_spec(self) -> TimeStep:
        """`TimeStep` of unbatched specs, as `Policy.time_step_spec`."""
        one = self.policies[self.names[0]].time_step_spec
        return one._replace(observation=self.observation_spec, prev_action=self.action_spec)

    @property
    def policy_step_spec(self) -> PolicyStep:
        """`PolicyStep` of unbatched specs; state and info are dicts. `predict` returns no info."""
        states = {slot: self.policies[slot].state_spec for slot in self._slots.values()}
        return PolicyStep(self.action_spec, states, self.info_spec)

    def version_spec(self, batch_size: int) -> tf.TensorSpec:
        """Returns the spec of `read_version` for `batch_size` rows."""
        # A version for each row, because the policies count their updates by themselves.
        return tf.TensorSpec((batch_size,), tf.int64)

    def read_version(self, time_step: TimeStep) -> Array:
        """Returns the version of the weights of each row's policy, its number of updates, int64 [B]."""
        # Of all policies, before any of them acts: as with one policy, weights can be newer than this, never
        # older.
        updates = [policy.progress.updates.read_value() for policy in self.policies.values()]
        return tf.gather(tf.stack(updates), time_step.observation[OWNER])

    def rollout(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Chooses actions to collect experience, as `Policy.rollout` does."""
        return self._act("rollout", time_step, state, self.policy_step_spec)

    def predict(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Chooses the best actions, as `Policy.predict` does."""
        return self._act("predict", time_step, state, self.policy_step_spec._replace(info=()))

    def view_specs(self, name: str) -> tuple[NestedSpec, NestedSpec]:
        """Returns the specs of the observation and the action of one policy, nests of unbatched specs."""
        return self._pick(name, self.observation_spec[OBSERVATION]), self._pick(name, self.action_spec)

    def view(self, name: str, rows: Any) -> Any:
        """Returns rows with only the data of one policy.

        Args:
            name: the policy's name.
            rows: `TimeStep` or `Experience`. The result has the policy's part of `observation`, `prev_action`
                and, in an `Experience`, of `action`, `info` and `state`. It has all rows.
        """
        parts = {
            "observation": self._pick(name, rows.observation[OBSERVATION]),
            "prev_action": self._pick(name, rows.prev_action),
        }
        if "info" in rows._fields:
            slot = self._slots[name]
            parts["action"] = self._pick(name, rows.action)
            parts["info"] = rows.info[slot]
            parts["state"] = rows.state[slot] if rows.state else rows.state
        return rows._replace(**parts)

    def _find_entry(self, name):
        """Returns the entry of observation and action that a policy uses; None if it uses all."""
        return None if self.spaces is None else self.spaces[name]

    def _pick(self, name, nest):
        """Returns the policy's part of an action, or of an observation without owners."""
        entry = self._find_entry(name)
        return nest if entry is None else nest[entry]

    def _act(self, method, time_step, state, spec):
        # The number of rows of a policy changes from call to call, so its batch has no static size; the
        # stitched answers have one again.
        owner = time_step.observation[OWNER]
        indices, answers = [], []
        for number, (name, policy) in enumerate(self.policies.items()):
            # Each policy is called, even for no row at all: whose rows they are is known only when the graph
            # runs.
            index = tf.where(tf.equal(owner, number))[:, 0]
            # A row may still hold the state of the policy that acted in it before. Its owner changes only at
            # a FIRST step, where `Policy` sets the state to zeros.
            own = self.view(name, time_step), state[self._slots[name]]
            own = tf.nest.map_structure(lambda x, index=index: gather(x, index), own)
            with draws.of_rows(index, owner.shape[0]):
                answer = getattr(policy, method)(*own)
            answers.append(self._widen(name, answer, spec, tf.size(index)))
            indices.append(tf.cast(index, tf.int32))
        num_rows = owner.shape[0]

        def merge(*parts):
            merged = tf.dynamic_stitch(indices, parts)
            return tf.ensure_shape(merged, (num_rows, *parts[0].shape[1:]))

        return tf.nest.map_structure(merge, *answers)

    def _widen(self, name, policy_step, spec, num_rows):
        """Turns the `PolicyStep` of a policy into one of the group, with zeros in the entries of others."""
        # The answers of all policies get one structure, so that `dynamic_stitch` can join their rows leaf by
        # leaf.
        zeros = zeros_from_spec(spec, num_rows)
        slot = self._slots[name]
        action, entry = policy_step.action, self._find_entry(name)
        if entry is not None:
            action = {**zeros.action, entry: action}
        info = {**zeros.info, slot: policy_step.info} if zeros.info else ()
        return PolicyStep(action, {**zeros.state, slot: policy_step.state}, info)


def _find_slots(policies):
    """Returns a dict from each policy to the first policy with the same specs of state and info."""
    # Policies of one kind share an entry: with K opponents like "main", each row carries one state through
    # the queues, not K + 1.
    slots = {}
    for name, policy in policies.items():
        same = (
            slot for slot in slots.values() if find_mismatch(_kind(policies[slot]), _kind(policy)) is None
        )
        slots[name] = next(same, name)
    return slots


def _kind(policy):
    return policy.state_spec, policy.info_spec
