# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""AggregatorActor: joins answers of the collectors on its node, as a Ray actor. Without TensorFlow."""

from alf.distributed import answers


class AggregatorActor:
    """Joins answers, so that they travel to the learner and enter its queues as one.

    Args:
        compresses: whether to compress the joined answers.
    """

    def __init__(self, compresses):
        self._compresses = compresses

    def join(self, *parts):
        """Joins answers into one by `alf.distributed.answers.join`, and returns it."""
        joined = answers.join(parts)
        return answers.compress(joined) if self._compresses else joined
