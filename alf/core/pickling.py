# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Whether an object can go to another process.

A module of its own, because it imports cloudpickle, without which the help of commands is printed sooner.
"""

from typing import Any

import cloudpickle


def can_pickle(item: Any) -> bool:
    """Returns whether cloudpickle can pickle `item`, so that another process can have it."""
    try:
        cloudpickle.dumps(item)
    except Exception:  # the parts of the item may raise anything
        return False
    return True
