# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ActorThread: answers the environments of one actor queue with batched rollout steps."""

import tensorflow as tf

from alf.drivers.driver_thread import DriverThread

# Iterations of the graph loop per call from Python. A call costs some hundred microseconds; a loop is
# left early only when the queues close.
_ITERATIONS = 200


class ActorThread(DriverThread):
    """Serves actor queue `actor_index` for ever.

    Args:
        coord, tf_queues: as in `DriverThread`.
        actor_index: which actor queue.
        serve: traced function (actor_index, iterations) that answers that many batches of requests.
    """

    def __init__(self, coord, tf_queues, actor_index, serve):
        super().__init__(coord, tf_queues, name=f"ActorThread-{actor_index}")
        self._actor_index = tf.constant(actor_index, tf.int32)
        self._iterations = tf.constant(_ITERATIONS, tf.int32)
        self._serve = serve

    def work(self):
        self._serve(self._actor_index, self._iterations)
