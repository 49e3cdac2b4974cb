# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reads the states that users' objects keep in checkpoints."""

import json

from absl import logging

from alf.core.user_calls import user_call


def read_states(owners):
    """Returns the JSON states of objects by name, without those of None.

    A state that cannot be made, or is not JSON, is an error of the log and is left out: it must not keep the
    weights from being saved.

    Args:
        owners: dict from the name of an object to the object, which has a method `get_state`.
    """
    states = {}
    for name, owner in owners.items():
        try:
            with user_call(f"get_state of {name}"):
                state = owner.get_state()
            json.dumps(state)
        except Exception:
            logging.exception("the checkpoint is saved without the state of %s: its get_state() failed", name)
            continue
        if state is not None:
            states[name] = state
    return states
