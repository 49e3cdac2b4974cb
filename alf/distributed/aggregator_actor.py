# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""AggregatorActor: joins answers of the collectors on its node, as a Ray actor. Without TensorFlow."""

from alf.distributed import answers


class AggregatorActor:
    """Joins answers, so that they travel to the learner and enter its queues as one.

    Args:
        compresses: whether to compress what it joined.
    """

    def __init__(self, compresses):
        self._compresses = compresses

    def join(self, *parts):
        """Returns one answer of several, see `alf.distributed.answers.join`."""
        joined = answers.join(parts)
        return answers.compress(joined) if self._compresses else joined
