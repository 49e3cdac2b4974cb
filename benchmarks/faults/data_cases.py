# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments that return what their spaces do not say, and spaces that ALF does not support."""

import numpy as np

from benchmarks.faults.case import Cases, Expected, train_with_fault
from benchmarks.faults.envs import EPISODE_STEPS

_DATA = Cases("data")
_SPACES = Cases("spaces")

# The environment and its step are named.
_REFUSED = Expected(status=1, message=r"^error: environment \d, step \d+: ", within=5.0)
_STEP_FAULTS = {
    "small_observation": "an observation with 1 number in place of 3",
    "large_observation": "an observation with 4 numbers in place of 3",
    "no_observation": "None as observation",
    "no_reward": "None as reward",
    "text_terminated": '"no" as terminated',
    "array_reward": "an array of 2 as reward",
    "four_tuple": "a tuple of 4",
    "fractions": "0.7 where observations are uint8",
}
_PLACES = {"here": ("impala", "in the training process"), "worker": ("workers", "in a worker")}


def _add_data_cases():
    for place, (config, where) in _PLACES.items():
        for kind, title in _STEP_FAULTS.items():
            params = ["alf.environments.load.dtype = 'uint8'"] if kind == "fractions" else []
            fault = {"kind": kind, "where": "step", "at": 50}
            add = _DATA.add(
                f"{kind}_{place}", f"step returns {title}, {where}", fault, _REFUSED, config, params
            )
            add(train_with_fault)
        for kind in ("small_observation", "no_observation"):
            fault = {"kind": kind, "where": "reset", "at": 3}
            title = f"a later reset returns {_STEP_FAULTS[kind]}, {where}"
            _DATA.add(f"{kind}_reset_{place}", title, fault, _REFUSED, config)(train_with_fault)


def _add_batched_cases():
    expected = Expected(1, r"^error: .*env.*discount", within=5.0, saved=True, continues=True)
    fault = {"kind": "nan_discount", "where": "step"}
    for config, name in (("batched", "impala"), ("batched_dqn", "dqn")):
        title = f"NaN as discount of a batched environment, {name.upper()}"
        _DATA.add(f"nan_discount_{name}", title, fault, expected, config, first_saved=True)(train_with_fault)
    expected = Expected(1, r"^error: .*env.*action.*not finite", within=5.0, saved=True, continues=True)
    fault = {"kind": "nan_action", "where": "behavior"}
    params = ["Experiment.behavior = @make_behavior"]
    add = _DATA.add(
        "nan_action", "NaN in the action of a behavior", fault, expected, "sac", params, first_saved=True
    )
    add(train_with_fault)


_add_batched_cases()


@_DATA.add("refilled_array", "a batched environment fills the same array with each observation")
def _refill(lab):
    outcome = Expected(0, saved=True).check(lab.run("batched_dqn", ["StopCriteria.num_iterations = 60"]))
    with np.load(lab.root_dir / "checkpoints" / "replay_buffer.npz") as file:
        numbers = np.rint(EPISODE_STEPS * file["observation"][..., 2])
        rows = numbers[file["begin"][0] : file["end"][0]]
    expected = np.where(rows[:-1] == EPISODE_STEPS, 0, rows[:-1] + 1)
    outcome.details["rows"] = len(rows)
    wrong = int(np.sum(rows[1:] != expected))
    outcome.expect(not wrong, f"{wrong} of {rows.size} observations are those of other steps")
    return outcome


_SPACE_TITLES = {
    "text": "Text",
    "sequence": "Sequence",
    "graph": "Graph",
    "one_of": "OneOf",
    "bool_box": "Box of bool",
    "empty_dict": "empty Dict",
    "empty_box": "Box of shape (0,)",
}


def _add_space_cases():
    for kind, title in _SPACE_TITLES.items():
        for part in ("action",) if kind == "bool_box" else ("observation", "action"):
            for nested in (False, True):
                fault = {"kind": kind, "part": part, "nested": nested}
                expected = Expected(status=2, message=f"(?i){part}", saved=False)
                inside = " inside a Dict" if nested else ""
                name = f"{kind}_{part}{'_nested' if nested else ''}"
                add = _SPACES.add(name, f"{title} as {part} space{inside}", fault, expected, warm=True)
                add(train_with_fault)


_add_data_cases()
_add_space_cases()
CASES = [*_DATA.cases, *_SPACES.cases]
