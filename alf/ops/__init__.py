# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Returns and losses, as pure functions of tensors."""

from alf.ops import losses, returns, td_losses

__all__ = ["losses", "returns", "td_losses"]
