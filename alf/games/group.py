# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyGroup: several policies, each of which acts in rows of its own."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from alf.core.annotations import Array, NestedSpec
from alf.core.nest_utils import find_mismatch, zeros_from_spec
from alf.data_structures import OBSERVATION, OWNER, PolicyState, PolicyStep, TimeStep
from alf.networks.copying import CopyableModule
from alf.policies.policy import Policy
from alf.schedules import Progress


class PolicyGroup(CopyableModule):
    """Acts as the policy whose row it is. It has the place of a `Policy` in drivers, agents and collectors.

    The observation is that of a `MappedEnvironment`: "owner" says which policy acts in a row, "observation"
    is what it sees. Each policy is called once for all of its rows. What policies keep and answer, states and
    infos, are dicts with an entry for each kind of specs; a row fills that of its policy, the others are
    zeros.

    Args:
        policies: dict of `Policy` by name; the order gives the numbers in "owner".
        observation_spec, action_spec: of the environment, nests of unbatched tensor specs.
        spaces: dict from each name to the entry of the environment's observation and action that the policy
            uses, or to None if it uses all entries; None where all agents have the same spaces, and there are
            no entries.
        frozen: names of policies that do not learn: `progress` does not count their updates.

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
        counts = zip(*(self.policies[name].progress for name in self._learning), strict=True)
        return Progress(*(tf.add_n([count.read_value() for count in same]) for same in counts))

    @property
    def time_step_spec(self) -> TimeStep:
        """As `Policy.time_step_spec`."""
        one = self.policies[self.names[0]].time_step_spec
        return one._replace(observation=self.observation_spec, prev_action=self.action_spec)

    @property
    def policy_step_spec(self) -> PolicyStep:
        """As `Policy.policy_step_spec`; state and info are dicts."""
        return PolicyStep(self.action_spec, self._gather_states("policy_step_spec"), self.info_spec)

    @property
    def predict_step_spec(self) -> PolicyStep:
        """As `Policy.predict_step_spec`; the state is a dict."""
        return PolicyStep(self.action_spec, self._gather_states("predict_step_spec"))

    def version_spec(self, batch_size: int) -> tf.TensorSpec:
        """Describes what `read_version` returns for so many rows."""
        return tf.TensorSpec((batch_size,), tf.int64)

    def read_version(self, time_step: TimeStep) -> Array:
        """How many updates the weights of each row's policy have seen, int64 [B]."""
        updates = [policy.progress.updates.read_value() for policy in self.policies.values()]
        return tf.gather(tf.stack(updates), time_step.observation[OWNER])

    def rollout(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Acts to collect experience, as `Policy.rollout` does."""
        return self._act("rollout", time_step, state, self.policy_step_spec)

    def predict(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Acts as well as it can, as `Policy.predict` does."""
        return self._act("predict", time_step, state, self.predict_step_spec)

    def view_specs(self, name: str) -> tuple[NestedSpec, NestedSpec]:
        """The specs of the observation and of the action of one policy, two nests of unbatched specs."""
        return self._pick(name, self.observation_spec[OBSERVATION]), self._pick(name, self.action_spec)

    def view(self, name: str, rows: Any) -> Any:
        """What concerns one policy: a `TimeStep`, an `Experience` or an `ActionRequest`-like tuple of it.

        Of `observation`, `prev_action` and, where there are such fields, `action`, `info` and `state`, it
        keeps the policy's part.
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
        """The entry of observation and action that a policy uses; None for all there is."""
        return None if self.spaces is None else self.spaces[name]

    def _pick(self, name, nest):
        """What a policy uses of an action, or of an observation without owners."""
        entry = self._find_entry(name)
        return nest if entry is None else nest[entry]

    def _gather_states(self, spec):
        return {slot: getattr(self.policies[slot], spec).state for slot in self._slots.values()}

    def _act(self, method, time_step, state, spec):
        owner = time_step.observation[OWNER]
        indices, answers = [], []
        for number, (name, policy) in enumerate(self.policies.items()):
            index = tf.where(tf.equal(owner, number))[:, 0]
            own = self.view(name, time_step), state[self._slots[name]]
            own = tf.nest.map_structure(lambda x, index=index: tf.gather(x, index), own)
            answers.append(self._widen(name, getattr(policy, method)(*own), spec, tf.size(index)))
            indices.append(tf.cast(index, tf.int32))
        num_rows = owner.shape[0]

        def merge(*parts):
            merged = tf.dynamic_stitch(indices, parts)
            return tf.ensure_shape(merged, (num_rows, *parts[0].shape[1:]))

        return tf.nest.map_structure(merge, *answers)

    def _widen(self, name, policy_step, spec, num_rows):
        """Makes a `PolicyStep` of the group of one of a policy: what is not the policy's is zeros."""
        zeros = zeros_from_spec(spec, num_rows)
        slot = self._slots[name]
        action, entry = policy_step.action, self._find_entry(name)
        if entry is not None:
            action = {**zeros.action, entry: action}
        info = {**zeros.info, slot: policy_step.info} if zeros.info else ()
        return PolicyStep(action, {**zeros.state, slot: policy_step.state}, info)


def _find_slots(policies):
    """The name of the first policy of the same specs of state and info, for each policy."""
    slots = {}
    for name, policy in policies.items():
        same = (
            slot for slot in slots.values() if find_mismatch(_kind(policies[slot]), _kind(policy)) is None
        )
        slots[name] = next(same, name)
    return slots


def _kind(policy):
    return policy.policy_step_spec.state, policy.predict_step_spec.state, policy.info_spec
