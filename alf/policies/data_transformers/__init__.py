# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers change observations and rewards before the policy and the algorithm see them.

They are part of the graphs of the policy and the learner, so training, evaluation and an exported policy see
the same data. Checkpoints hold their variables. Queues, replay buffers and metrics hold the data of the
environment, unchanged.

Each constructor takes the unbatched specs of its input: a nest of tensor specs of the observations and a
tensor spec of the rewards. It raises `ConfigError` if a spec or a setting is wrong.
"""

from alf.policies.data_transformers.data_transformer import DataTransformer
from alf.policies.data_transformers.frame_stacker import FrameStacker
from alf.policies.data_transformers.history import EpisodeStep, PreviousAction, PreviousReward
from alf.policies.data_transformers.normalizers import (
    ObservationNormalizer,
    RewardNormalizer,
    RunningStatistics,
)
from alf.policies.data_transformers.pipeline import Pipeline
from alf.policies.data_transformers.rewards import (
    RewardClipping,
    RewardScaling,
    RewardShaping,
    RewardWeighting,
)

__all__ = [
    "DataTransformer",
    "EpisodeStep",
    "FrameStacker",
    "ObservationNormalizer",
    "Pipeline",
    "PreviousAction",
    "PreviousReward",
    "RewardClipping",
    "RewardNormalizer",
    "RewardScaling",
    "RewardShaping",
    "RewardWeighting",
    "RunningStatistics",
]
