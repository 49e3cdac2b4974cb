# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a replay buffer should hold, in plain Python."""

import collections


class BufferModel:
    """Positions of the time steps that are held of every batched environment.

    Args:
        streams: `Streams`, from which the buffer is filled.
        capacity, context, overlap: as in `UniformReplayer`.
    """

    def __init__(self, streams, capacity, context, overlap=None):
        self._context, self._overlap = context, overlap
        self._batch_size = streams.batch_size
        self._start_stride = 1
        if streams.unroll_spec.state.train:
            self._start_stride = streams.unroll_length
        num_steps = -(-capacity // (streams.num_groups * streams.batch_size))
        self.held = [collections.deque(maxlen=num_steps + 1) for _ in range(streams.num_groups)]

    def write(self, env, first, last):
        """Adds the time steps from `first` to `last`, of which the first one may be there already."""
        if not self.held[env]:
            self.held[env].append(first)
        assert self.held[env][-1] == first
        self.held[env].extend(range(first + 1, last + 1))

    def clear(self):
        for positions in self.held:
            for _ in range(len(positions) - 1 - self._context):
                positions.popleft()

    def num_steps(self):
        return sum(max(0, len(positions) - 1) for positions in self.held) * self._batch_size

    def starts(self, length):
        """The set of (env, column, start) at which sequences may start."""
        stride = self._start_stride if self._overlap is None else length - self._overlap
        return {
            (env, column, position)
            for env, positions in enumerate(self.held)
            for i, position in enumerate(positions)
            if i >= self._context and i + length < len(positions) and position % stride == 0
            for column in range(self._batch_size)
        }
