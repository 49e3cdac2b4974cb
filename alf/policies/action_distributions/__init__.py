# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action distributions: how network outputs become parameters, and how actions are drawn from these.

A policy stores `raw`, the number that the distribution draws, next to the parameters, and all densities are
densities of `raw`. The environment's action is computed from `raw` by scaling and squashing, which cannot be
inverted exactly in floating point: log p of the action itself would be wrong near the bounds.

Docstrings give the size of one action. The leading dimensions [...] are free, for example [B] or [T, B].
"""

from alf.policies.action_distributions.box import BetaActions, GaussianActions, TanhGaussianActions
from alf.policies.action_distributions.categorical import CategoricalActions, MultiCategoricalActions
from alf.policies.action_distributions.distribution import ActionDistribution, ActionInfo
from alf.policies.action_distributions.make import make_action_distribution
from alf.policies.action_distributions.masks import has_mask, split_mask, split_mask_spec
from alf.policies.action_distributions.nested import NestedActions

__all__ = [
    "ActionDistribution",
    "ActionInfo",
    "BetaActions",
    "CategoricalActions",
    "GaussianActions",
    "MultiCategoricalActions",
    "NestedActions",
    "TanhGaussianActions",
    "has_mask",
    "make_action_distribution",
    "split_mask",
    "split_mask_spec",
]
