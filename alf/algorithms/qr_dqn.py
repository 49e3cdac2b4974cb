# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""QR-DQN: Q-learning of the distribution of returns by quantile regression (arXiv 1710.10044)."""

import tensorflow as tf

from alf.algorithms.dqn import DqnAlgorithm
from alf.config.settings import configurable
from alf.core.annotations import Array, Nest
from alf.data_structures import Experience, LossInfo
from alf.ops import td_losses


@configurable("alf.algorithms")
class QrDqnAlgorithm(DqnAlgorithm):
    """QR-DQN from replay: `DqnAlgorithm` that learns N quantiles of the return of each action.

    The network is like `QuantileNetwork`. The value of an action is the mean of its quantiles. With the
    action a* of the greatest value at s_n, by the network that learns if `double`, else by the target
    network:

        targets_j = r_1 + gamma r_2 + ... + gamma^(n-1) r_n + gamma^n Z_target(s_n, a*)_j
        loss = sum over i of the mean over j of |tau_i - (u_ij < 0)| * Huber(u_ij) / huber_delta

    with u_ij = targets_j - Z(s_0, a_0)_i and tau_i = (i + 0.5) / N. Priorities follow from the
    TD errors of the means. All else, and all arguments, are as in `DqnAlgorithm`, without `next_value`.
    """

    learns_quantiles = True

    def calc_loss(self, experience: Experience, train_info: Nest) -> LossInfo:
        """Computes the weighted mean loss of the quantiles, and the priorities of the sequences."""
        transitions, z, next_z, next_target_z, mask = train_info
        z = _quantiles_of_action(z, self.taken_action(experience))
        chooser = next_z if self._double else next_target_z
        best = tf.argmax(self.allowed_values(tf.reduce_mean(chooser, axis=-1), mask), axis=-1)
        targets = self.target(transitions, _quantiles_of_action(next_target_z, best))
        loss = td_losses.quantile_huber_loss(z, targets, self._huber_delta)
        q, target = tf.reduce_mean(z, axis=-1), tf.reduce_mean(targets, axis=-1)
        return self.describe_loss(transitions, loss, q, target - q)


def _quantiles_of_action(z: Array, action: Array) -> Array:
    """Selects the quantiles of an action, int [R, B], from z [R, B, A, N]. Returns [R, B, N]."""
    return tf.reduce_sum(z * tf.one_hot(action, z.shape[-2])[..., tf.newaxis], axis=-2)
