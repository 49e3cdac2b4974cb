# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""HybridReplayer: mixes fresh experience and the experience of files."""

from typing import Annotated, Any

import numpy as np
import tensorflow as tf

from alf.config.kinds import Above, AtMost
from alf.config.settings import configurable
from alf.core.annotations import Array
from alf.core.nest_utils import concat, find_mismatch
from alf.data_structures import Experience, PolicyState
from alf.errors import ConfigError
from alf.ops.gather import gather_columns
from alf.replay.replayer import SequenceReplayer, Sequences
from alf.schedules import Progress, Tunable


@configurable("alf.replay")
class HybridReplayer(SequenceReplayer):
    """Draws a part of every batch from an offline replayer and the rest from an online one.

    Only the online replayer observes, is counted and is saved; `all_sequences` lists the sequences of both.
    A sequence (env, column, start) of the offline replayer is (-1 - env, column, start) in its `Sequences`.

    Args:
        online: `SequenceReplayer` that observes.
        offline: `SequenceReplayer` that already holds experience, for example from `load_replayer`, with the
            specs of the online one.
        offline_proportion: number in (0, 1), the offline part of each batch. Each replayer gives at least one
            sequence.
    """

    def __init__(
        self,
        online: SequenceReplayer,
        offline: SequenceReplayer,
        offline_proportion: Annotated[float, Above(0), AtMost(1)] = 0.5,
    ) -> None:
        if offline_proportion == 1:
            raise ConfigError(
                "HybridReplayer.offline_proportion is 1: to train without fresh experience, "
                "set Experiment.num_envs = 0"
            )
        if not isinstance(online, SequenceReplayer):
            kinds = "'uniform' or 'prioritized'"
            raise ConfigError(f"exp_replayer is {online.name!r}: with an offline buffer it must be {kinds}")
        if isinstance(online, HybridReplayer):
            raise ConfigError(
                "exp_replayer is a HybridReplayer, which has an offline buffer: leave "
                "Experiment.offline_buffer out"
            )
        check_same_rows(online.row_spec, offline.row_spec)
        self.name, self.row_spec = online.name, online.row_spec
        self.capacity = online.capacity
        self._online = online
        self.offline = offline
        self._proportion = offline_proportion

    def observe(self, experience: Experience) -> None:
        self._online.observe(experience)

    def check_fits(self, unroll_spec: Experience, num_groups: int, context: int) -> None:
        self._online.check_fits(unroll_spec, num_groups, context)

    def counts(self) -> dict[str, int]:
        return self._online.counts()

    def list_tunables(self) -> list[Tunable]:
        return self._online.list_tunables() + self.offline.list_tunables()

    def num_steps(self) -> Array:
        return self._online.num_steps()

    def num_sequences(self, length: int) -> Array:
        # By this number training finds out whether it may begin. The offline part is full from the beginning.
        return self._online.num_sequences(length)

    def all_sequences(self, length: int) -> Sequences:
        offline = _flip_env(self.offline.all_sequences(length))
        return concat([self._online.all_sequences(length), offline], axis=0)

    def gather(self, sequences: Sequences, length: int) -> Experience:
        # Gathers the online sequences and the offline ones, then restores the order of `sequences`.
        # (The sort is stable, so each replayer gets its sequences in the order of the caller.)
        order = tf.argsort(tf.cast(sequences.env < 0, tf.int32), stable=True)
        num_online = tf.math.count_nonzero(sequences.env >= 0)
        parts = order[:num_online], order[num_online:]
        online, offline = (Sequences(*(tf.gather(x, part) for x in sequences)) for part in parts)
        batch = _join(self._online.gather(online, length), self.offline.gather(_flip_env(offline), length))
        order = tf.math.invert_permutation(order)
        return gather_columns(batch, order, tf.gather)

    def sample(
        self, batch_size: int, length: int, progress: Progress, num_batches: int = 1
    ) -> tuple[Experience, Sequences, Array]:
        if batch_size < 2:
            raise ConfigError(
                f"mini_batch_size is {batch_size}: with an offline buffer it must be at least 2"
            )
        # The same split in every batch, so that shapes are known while tracing.
        num_offline = min(max(round(self._proportion * batch_size), 1), batch_size - 1)
        num_online = batch_size - num_offline
        online, *online_drawn = self._online.sample(num_online, length, progress, num_batches)
        offline, sequences, weight = self.offline.sample(num_offline, length, progress, num_batches)
        # The online part first, as `_join` puts it: a row of `drawn` names a column of the batch.
        drawn = concat([online_drawn, [_flip_env(sequences), weight]], axis=0)
        joined = _join(online, offline)
        if num_batches == 1:
            return joined, *drawn
        # All online parts are in front: each batch gets its own two parts.
        columns = np.arange(num_batches * batch_size)
        parts = np.split(columns, [num_batches * num_online])
        order = np.concatenate([x.reshape(num_batches, -1) for x in parts], axis=1).ravel()
        drawn = tf.nest.map_structure(lambda x: tf.gather(x, order), drawn)
        return gather_columns(joined, order, tf.gather), *drawn

    def new_sequences(self, length: int) -> Sequences:
        return self._online.new_sequences(length)

    def update_priorities(self, sequences: Sequences, priorities: Array) -> None:
        # The offline replayer's draws do not change.
        is_online = sequences.env >= 0
        online = Sequences(*(tf.boolean_mask(x, is_online) for x in sequences))
        self._online.update_priorities(online, tf.boolean_mask(priorities, is_online))

    def clear(self) -> None:
        self._online.clear()

    def get_state(self) -> Any:
        return self._online.get_state()

    def set_state(self, state: Any) -> None:
        self._online.set_state(state)

    def save(self, path: str, compress: bool = False) -> None:
        self._online.save(path, compress)

    def load(self, path: str) -> None:
        self._online.load(path)


def check_same_rows(ours, theirs):
    """Raises ConfigError unless an offline buffer has what an algorithm needs.

    Args:
        ours: `Experience` of the unbatched specs that are needed.
        theirs: `Experience` of the buffer's unbatched specs. Its info, env_info and recurrent state are
            ignored where `ours` has none.
    """
    ours, theirs = (rows._replace(state=rows.state.train, weight=()) for rows in (ours, theirs))
    for name, needed, held in zip(ours._fields, ours, theirs, strict=True):
        optional = name in ("info", "state", "env_info") and not tf.nest.flatten(needed)
        if not optional and find_mismatch(held, needed):
            raise ConfigError(f"the offline buffer does not fit: its {name} is {held}, {needed} is needed")


def check_offline(replayer, policy, with_env_info):
    """Returns the replayer of files; raises ConfigError unless a `Policy` can learn from them alone."""
    if with_env_info and not replayer.row_spec.env_info:
        raise ConfigError("the algorithm or RewardShaping uses `Experience.env_info`: the files have none")
    # The policy was made from the file's specs of observations, actions and rewards. Its own info and its
    # recurrent state, from which sequences begin, must be in the files; what it does not have is left out.
    needed = replayer.row_spec._replace(info=policy.info_spec, state=policy.state_spec)
    check_same_rows(needed, replayer.row_spec)
    return replayer


def _flip_env(sequences):
    """Converts `Sequences` of the offline replayer into `Sequences` of the `HybridReplayer`, and back."""
    # Not -env, which would leave environment 0 as it is.
    return sequences._replace(env=-1 - sequences.env)


def _join(online, offline):
    """Concatenates two batches, `Experience`s of [context + L + 1, B, ...].

    Drops info, env_info and recurrent state of the offline batch where the online batch has none. Drops the
    state of data transformers, because the run that wrote the file may have had other transformers.
    """
    # Where the online batch has an empty nest, the offline batch gets it, too, so that the structures agree.
    info = offline.info if tf.nest.flatten(online.info) else online.info
    env_info = offline.env_info if tf.nest.flatten(online.env_info) else online.env_info
    train = offline.state.train if tf.nest.flatten(online.state.train) else online.state.train
    state = concat([online.state.train, train], axis=0)
    offline = offline._replace(info=info, env_info=env_info, state=())
    time_steps = concat([online._replace(state=()), offline], axis=1)
    return time_steps._replace(state=PolicyState((), state))
