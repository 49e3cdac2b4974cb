# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Where tensors and variables live, in one place.

On the host (`HOST`): environments and the loops that step them, queues, semaphores, replay buffers, files,
games, metrics, counters, evaluations and exports.
On the learner's device: the weights, the statistics of data transformers, the optimizer's state, the update.
On the actors' device: the copy of the weights that the actors read, and their answers.

TensorFlow puts each queue, variable and operation that names no device on a GPU if there is one. Many
operations on queues have no kernel there, and a small operation takes longer there than on a CPU. So ALF's
threads name the host before they do anything (`alf.core.tf_runtime.single_threaded`); learner and actors name
their own devices. Only batches of experience, weights, observations and actions cross, and scalars to show.
"""

import contextlib
import functools

import tensorflow as tf

from alf.core.graphs import add_operations
from alf.core.startup import quietly
from alf.errors import ConfigError

HOST = "CPU:0"  # as devices are named in settings
# Work of a forward pass, in floating point operations, from which a GPU is worth its launches and copies: 30
# rows of the convolutions of Mnih et al. (2015) for an update, which is about three times as much work, and
# 100 rows for an answer of an actor, which waits for the copies.
_UPDATE_FLOPS, _ANSWER_FLOPS = 5e8, 2e9


@functools.cache
def list_devices():
    """Returns the names of TensorFlow's devices in this process, such as "GPU:0". It starts TensorFlow."""
    # Not hidden: with several learner processes it waits for the others, and may fail.
    names = [device.name for device in tf.config.list_logical_devices()]
    # The first transposition of integers makes oneDNN log, once in a process, that it leaves them to
    # TensorFlow. So it comes here.
    with quietly(), tf.init_scope(), tf.device(HOST):
        tf.transpose(tf.zeros([1, 1], tf.int64))
    # Devices of other learner processes come last.
    process = names[0].partition("/device:")[0]
    return [shorten(name) for name in names if name.startswith(process)]


def shorten(device):
    """Returns "CPU:0" for "/cpu:0", "/device:CPU:0" and the like, which TensorFlow takes too."""
    return device.upper().rpartition("DEVICE:")[2].lstrip("/")


def check_device(setting, device):
    """Raises ConfigError unless this process has a device. It starts TensorFlow.

    Args:
        setting: text, the name of the setting for the error.
        device: text such as "GPU:1".
    """
    known = list_devices()
    if device not in known:
        raise ConfigError(f"{setting} is {device!r}: this process has {', '.join(known)}")


def device_of(module):
    """Returns the device of a module's weights, such as "GPU:0"; the host if it has none."""
    return next((shorten(variable.device) for variable in module.trainable_variables), HOST)


def find_all_gpus():
    """Returns the GPUs that TensorFlow finds, also those that are hidden: a list of physical devices."""
    return tf.config.list_physical_devices("GPU")


def find_gpus():
    """Returns the GPUs that TensorFlow uses, or would use: a list of physical devices. It starts nothing."""
    return tf.config.get_visible_devices("GPU")


def take_memory_as_needed():
    """Makes TensorFlow take the memory of GPUs as it needs it. By default it takes all of it at its start."""
    with contextlib.suppress(RuntimeError):  # TensorFlow has started
        for gpu in find_gpus():
            tf.config.experimental.set_memory_growth(gpu, True)


def hide_gpus(keep=0):
    """Hides all GPUs but the first `keep` from TensorFlow in this process, so that it takes nothing of them.

    Returns False if TensorFlow has started before: then it has its part already.
    """
    try:
        tf.config.set_visible_devices(find_gpus()[:keep], "GPU")
    except RuntimeError:
        return False
    return True


def choose_for_updates(flops):
    """Returns the device for updates whose forward pass has so many floating point operations."""
    return "GPU:0" if find_gpus() and flops >= _UPDATE_FLOPS else HOST


def choose_for_answers(flops, learner_device):
    """Returns the device for answers of actors with so many operations: the host, or the learner's."""
    return learner_device if flops >= _ANSWER_FLOPS else HOST


def count_flops(function):
    """Counts the floating point operations of products and convolutions that a function adds to a graph.

    Args:
        function: callable (). It is called while a graph is built that nobody runs.

    Returns:
        an int. What functions within the graph, such as loops, compute does not count.
    """
    if tf.executing_eagerly():
        operations = tf.function(function, autograph=False).get_concrete_function().graph.get_operations()
    else:  # in the caller's graph: a function would start TensorFlow, and GPUs could not be hidden any more
        operations = add_operations(function)
    return count_flops_of(operations)


def count_flops_of(operations):
    """Counts as `count_flops` does, for a list of `tf.Operation`s."""
    return sum(map(_count_of, operations))


def _count_of(operation):
    if operation.type not in ("MatMul", "Conv2D", "Conv3D"):
        return 0
    weights, outputs = operation.inputs[1].shape, operation.outputs[0].shape
    if not (weights.is_fully_defined() and outputs.is_fully_defined()):
        return 0
    # Each number of an output is a sum of as many products as weights lead to it.
    return 2 * outputs.num_elements() * weights.num_elements() // max(1, outputs[-1])
