# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The mathematics, as functions of tensors: returns, losses, recurrent cells, and random draws."""

from alf.ops import losses, returns, td_losses

__all__ = ["losses", "returns", "td_losses"]
