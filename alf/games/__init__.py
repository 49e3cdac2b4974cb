# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Several policies in one run: which of them acts where, how each learns, leagues and ratings."""

from alf.games.group import PolicyGroup
from alf.games.learners import LearnerGroup
from alf.games.mapping import Episode, MappedEnvironment

__all__ = ["Episode", "LearnerGroup", "MappedEnvironment", "PolicyGroup"]
