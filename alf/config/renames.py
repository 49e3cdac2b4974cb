# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Settings that had other names before: the configurations of older runs, sweeps and populations have these.

Whatever reads a saved configuration renews it first. To rename a setting is to add a line here.
"""

import re

_DRIVERS = ("AsyncOffPolicyDriver", "SyncOffPolicyDriver")
# Settings that have become fields of an object: its class, the classes that had them as arguments, the names.
_MOVED = (
    (
        "DriverSettings",
        _DRIVERS,
        ("num_actor_queues", "actor_queue_cap", "learn_queue_cap", "max_waiting_batches", "actor_device")
        + ("max_unroll_length", "parameter_update_period", "sticky", "one_env_at_a_time", "start_spread"),
    ),
    (
        "Monitoring",
        _DRIVERS,
        ("observers", "metrics", "statistics_ctor", "stop_timeout", "stall_timeout", "on_stall"),
    ),
    (
        "WorkerSettings",
        ("PythonEnvironment",),
        ("start_timeout", "step_timeout", "max_restarts", "restart_period", "pin_workers")
        + ("single_threaded", "worker_nice", "max_concurrent_starts", "heartbeat_interval"),
    ),
    (
        "CollectorSettings",
        ("RayCollectors",),
        ("num_cpus", "num_gpus", "resources", "placement", "learner_num_cpus", "learner_num_gpus")
        + ("max_restarts", "restart_period", "timeout", "start_timeout"),
    ),
)
_RENAMED = {
    "Trainer.checkpoint_interval": "Checkpoints.interval",
    "Trainer.max_to_keep": "Checkpoints.max_to_keep",
    "Trainer.checkpoint_replay_buffer": "Checkpoints.replay_buffer",
    "Trainer.summary_interval": "Summaries.interval",
    "Trainer.custom_summary": "Summaries.custom",
}
_NAMES = _RENAMED | {
    f"{before}.{name}": f"{owner}.{name}"
    for owner, all_before, names in _MOVED
    for before in all_before
    for name in names
}
# Values that have become settings of their own.
_VALUES = {
    ("DriverSettings.max_waiting_batches", "0"): {"DriverSettings.mode": "'lockstep'"},
    ("Experiment.unroll_length", "0"): {"DriverSettings.mode": "'poll'", "Experiment.unroll_length": "1"},
}
# A binding begins at the beginning of a line: gin indents the lines that continue a value. The module in
# front of a class is dropped, because the class may have moved, too.
_BINDING = re.compile(r"^((?:[\w./]*/)?)(?:\w+\.)*?(\w+\.\w+)(\s*=\s*)(.*)$", re.MULTILINE)


def renew(config: dict[str, str]) -> dict[str, str]:
    """Returns a configuration, a dict from names of bindings to texts of values, with the present names."""
    renewed: dict[str, str] = {}
    for name, value in config.items():
        scope, _, plain = name.rpartition("/")
        new = _renew_binding(".".join(plain.split(".")[-2:]), value)
        # Only what was renamed loses its module; all other names stay as the run has written them.
        renewed |= {name: value} if new is None else {f"{scope}{scope and '/'}{x}": y for x, y in new.items()}
    if renewed.get("DriverSettings.mode") == "'lockstep'":
        renewed.pop("DriverSettings.learn_queue_cap", None)  # had to be the number of environments
    return renewed


def renew_text(config: str) -> str:
    """Returns the text of a gin file with the present names."""

    def replace(match):
        scope, name, equals, value = match.groups()
        new = _renew_binding(name, value)
        return match[0] if new is None else "\n".join(f"{scope}{x}{equals}{y}" for x, y in new.items())

    return _BINDING.sub(replace, config)


def _renew_binding(name, value):
    """Returns the bindings that have taken the place of one, a dict by name; None if it is still the same."""
    # By the class and the parameter: scopes and modules in front may be any.
    new = _NAMES.get(name, name)
    if (new, value) in _VALUES:
        return _VALUES[new, value]
    return None if new == name else {new: value}
