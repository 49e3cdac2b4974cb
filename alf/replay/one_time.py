# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""OneTimeReplayer: experience is learned from once."""

import tensorflow as tf


class OneTimeReplayer:
    """Keeps what was observed until `replay_all` hands it out, once."""

    def __init__(self):
        self._observed = []

    def observe(self, experience):
        """Adds an `Experience` of [Q, T+1, B, ...]."""
        self._observed.append(experience)

    def replay_all(self):
        """Returns all that was added since the last call, as one `Experience` of [Q', T+1, B, ...].

        Raises:
            RuntimeError: if nothing was added.
        """
        if not self._observed:
            raise RuntimeError("there is nothing to train on: observe() must come before train()")
        observed, self._observed = self._observed, []
        if len(observed) == 1:
            return observed[0]
        return tf.nest.map_structure(lambda *x: tf.concat(x, axis=0), *observed)
