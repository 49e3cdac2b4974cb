# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replicas: splits the work of an update among several devices."""

from collections.abc import Sequence

import tensorflow as tf

from alf.config.settings import Role, configurable
from alf.core.devices import check_device, shorten
from alf.core.nest_utils import split
from alf.data_structures import LossInfo, split_unroll
from alf.errors import ConfigError
from alf.ops import draws


@configurable("alf.learner", role=Role.EXECUTION)
class MirroredStrategy(tf.distribute.MirroredStrategy):
    """`tf.distribute.MirroredStrategy`: one replica for each of several devices of this process.

    Args:
        devices: tuple or list of different names, such as "GPU:1"; None: all GPUs.
        cross_device_ops: `tf.distribute.CrossDeviceOps`; None lets TensorFlow choose.
    """

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        cross_device_ops: tf.distribute.CrossDeviceOps | None = None,
    ) -> None:
        if devices is not None:
            names = [shorten(device) for device in devices]
            if not names or len(set(names)) < len(names):
                raise ConfigError(
                    f"MirroredStrategy.devices is {devices!r}: it must be a list of different names, such as "
                    "['GPU:0', 'GPU:1']"
                )
            for name in names:
                check_device("MirroredStrategy.devices", name)
        super().__init__(devices, cross_device_ops)


class Replicas:
    """Splits the batch of each update among this process's replicas, and averages their losses and gradients.

    All replicas use the variables of the learner, which stay where they were made. So there is one set of
    weights, counters and optimizer state, and checkpoints do not depend on the strategy. In an update each
    replica reads the weights once and sends its gradients. Replicas are useful for models whose computation
    takes longer than that. All other parts of an update, such as the optimizer, run once, on the learner's
    device.

    Args:
        strategy: `tf.distribute` strategy such as `tf.distribute.MirroredStrategy`, or a strategy of several
            processes from `alf.learner.peers`.
        compute_part: callable (pair of [T+1, B/R, ...]), `Update.loss_and_gradients`. It returns the same as
            `compute`, for a part of the batch. Its loss must be an average over the sequences; with
            `losses.weighted_mean` the result is exact even if parts have different numbers of transitions.
    """

    def __init__(self, strategy, compute_part):
        if not isinstance(strategy, tf.distribute.Strategy):
            raise ConfigError(f"strategy is {strategy!r}: it must be a tf.distribute.Strategy")
        self._strategy, self._compute_part = strategy, compute_part
        # With several processes, each splits only its own batch: `worker_devices` are the devices of this
        # process.
        self._num_local = len(strategy.extended.worker_devices)

    def compute(self, batch):
        """Computes the loss and gradients of a pair of [T+1, B, ...] from `Update.prepare`, in the graph.

        Returns:
            a tuple with the result of `Algorithm.train_step` in each replica of this process; the `LossInfo`
            of the batch, whose scalars are averages, and whose priorities [B] are in the order of the batch;
            a dict from each group to a list of averaged gradients.

        Raises:
            ConfigError: if the replicas cannot have equal parts.
        """
        experience, prepared = batch
        num_replicas, batch_size = self._num_local, experience.step_type.shape[1]
        if batch_size % num_replicas:
            raise ConfigError(
                f"the strategy has {num_replicas} replicas: their number must divide the "
                f"sequences of an update, {batch_size}"
            )
        # The list of all parts goes to every replica, which picks its own in `_compute_replica`.
        parts = split_unroll(experience, num_replicas)
        parts = list(zip(parts, split(prepared, num_replicas, axis=1), strict=True))
        # Replicas are threads of their own, where draws have no stream.
        arguments = [parts, draws.fork()]
        train_info, priority, averages = self._strategy.run(self._compute_replica, arguments)
        # Each replica has the priorities of its part; averages are equal in all replicas, so the first is
        # taken.
        priority = tf.nest.map_structure(lambda x: tf.concat(self._local(x), 0), priority)
        loss, extra, gradients = tf.nest.map_structure(lambda x: self._local(x)[0], averages)
        train_infos = tuple(
            tf.nest.map_structure(lambda x, i=i: self._local(x)[i], train_info) for i in range(num_replicas)
        )
        return train_infos, LossInfo(loss, extra, priority), gradients

    def _compute_replica(self, parts, draws_of):
        replica_id = int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
        # The id counts the replicas of all processes; each process has the parts of its own replicas.
        # TensorFlow traces this function once for each replica, so the id is known here, and the graph of a
        # replica has only its own part.
        part = parts[replica_id % self._num_local]
        with draws_of(replica_id):
            train_info, loss_info, gradients = self._compute_part(part)
        return train_info, loss_info.priority, _average((loss_info.loss, loss_info.extra, gradients))

    def _local(self, x):
        return self._strategy.experimental_local_results(x)


def _average(nest):
    """Averages a nest of tensors over the replicas, in one message; None stays None."""
    leaves = tf.nest.flatten(nest)
    context, tensors = tf.distribute.get_replica_context(), [x for x in leaves if x is not None]
    # A constant gets a device here, without which a strategy cannot average it.
    tensors = [x if isinstance(x, tf.IndexedSlices) else tf.identity(x) for x in tensors]
    # One call for all tensors: in each call all replicas wait for each other.
    averages = iter(context.all_reduce(tf.distribute.ReduceOp.MEAN, tensors))
    return tf.nest.pack_sequence_as(nest, [None if x is None else next(averages) for x in leaves])
