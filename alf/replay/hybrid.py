# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""HybridReplayer: fresh experience and that of a file, mixed."""

import gin
import tensorflow as tf

from alf.data_structures import PolicyState
from alf.errors import ConfigError, check_number
from alf.replay.replayer import Replayer, Sequences


@gin.configurable(module="alf.replay")
class HybridReplayer(Replayer):
    """Draws a proportion of every batch from an offline buffer, and the rest from an online one.

    Only the online buffer changes, is counted, and is saved.

    Args:
        online: the buffer that observes, a `Replayer`.
        offline: a buffer that is full, see `load_replayer`; its rows must have the online buffer's specs.
        offline_proportion: in (0, 1), of each batch; at least one sequence comes from each.

    Raises:
        ConfigError: if a setting is wrong, or the specs differ.
    """

    is_buffer = True

    def __init__(self, online, offline, offline_proportion=0.5):
        check_number("HybridReplayer.offline_proportion", offline_proportion, above=0, at_most=1)
        if offline_proportion == 1:
            raise ConfigError(
                "HybridReplayer.offline_proportion is 1: without fresh experience, set Trainer.num_envs = 0"
            )
        if not online.is_buffer:
            raise ConfigError(
                f"exp_replayer is {online.name!r}: an offline buffer can be mixed with 'uniform' or "
                "'prioritized' alone"
            )
        check_same_rows(online.row_spec, offline.row_spec)
        self.name = online.name
        self._online = online
        self._offline = offline
        self._proportion = offline_proportion

    @property
    def row_spec(self):
        return self._online.row_spec

    def observe(self, experience):
        self._online.observe(experience)

    def num_steps(self):
        return self._online.num_steps()

    def num_sequences(self, length):
        return self._online.num_sequences(length)

    def clear(self):
        self._online.clear()

    def sample(self, batch_size, length, progress):
        num_offline = self._num_offline(batch_size)
        fresh, fresh_sample = self._online.sample(batch_size - num_offline, length, progress)
        old, old_sample = self._offline.sample(num_offline, length, progress)
        fresh = fresh._replace(state=fresh.state._replace(transformer=()))
        old = like(fresh, old)
        rows = _concat(1, fresh._replace(state=()), old._replace(state=()))
        batch = rows._replace(state=_concat(0, fresh.state, old.state))
        return batch, _concat(0, fresh_sample, old_sample)

    def update_priorities(self, sequences, priorities):
        num_fresh = sequences.start.shape[0] - self._num_offline(sequences.start.shape[0])
        fresh = Sequences(*(x[:num_fresh] for x in sequences))
        self._online.update_priorities(fresh, priorities[:num_fresh])

    def save(self, path):
        self._online.save(path)

    def load(self, path):
        self._online.load(path)

    def _num_offline(self, batch_size):
        if batch_size < 2:
            raise ConfigError(
                f"mini_batch_size is {batch_size}: with an offline buffer it must be at least 2"
            )
        return min(max(round(self._proportion * batch_size), 1), batch_size - 1)


def check_same_rows(ours, theirs):
    """Checks that an offline buffer has what an algorithm needs.

    Args:
        ours, theirs: `Experience` of unbatched specs, of what is needed and of the buffer. Its info and its
            recurrent state do not matter where none is needed.

    Raises:
        ConfigError: names the part that does not fit.
    """
    for name, x, y in (
        *zip(ours._fields[:-2], ours, theirs),
        ("state", ours.state.train, theirs.state.train),
    ):
        optional = name in ("info", "state") and not tf.nest.flatten(x)
        if not optional and not _are_alike(x, y):
            raise ConfigError(f"the offline buffer does not fit: its {name} is {y}, {x} is needed")


def like(needed, batch):
    """An offline `batch` with info, recurrent and transformers' state where `needed` has some."""
    info = batch.info if tf.nest.flatten(needed.info) else needed.info
    train = batch.state.train if tf.nest.flatten(needed.state.train) else needed.state.train
    # The transformers of the file's run may have been others: what they start from is not in the file.
    return batch._replace(info=info, state=PolicyState((), train))


def _are_alike(x, y):
    try:
        tf.nest.assert_same_structure(x, y)
    except (TypeError, ValueError):
        return False
    pairs = zip(tf.nest.flatten(x), tf.nest.flatten(y), strict=True)
    return all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs)


def _concat(axis, *nests):
    return tf.nest.map_structure(lambda *x: tf.concat(x, axis), *nests)
