# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Other names of settings: in older versions of ALF, and in other libraries.

The configurations of older runs, sweeps and populations have the older names. Whatever reads a saved
configuration renews it first. To rename a setting is to add a line here. The names in other libraries are in
translations.json, of which the tables of docs/migration are made, too. They are not renewed, because many
values mean something else; hints look for both kinds in `find_translations`.
"""

import collections
import functools
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

_DRIVERS = ("AsyncOffPolicyDriver", "SyncOffPolicyDriver")
# Settings that have become fields of an object: its class, the classes that had them as arguments, the names.
_MOVED = (
    (
        "DriverSettings",
        _DRIVERS,
        ("num_actor_queues", "actor_queue_cap", "learn_queue_cap", "max_waiting_batches", "actor_device")
        + ("max_unroll_length", "parameter_update_period", "sticky", "start_spread"),
    ),
    (
        "Monitoring",
        _DRIVERS,
        ("observers", "metrics", "stop_timeout", "stall_timeout", "on_stall"),
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
# Settings whose names ended in "_ctor", by their classes.
_CONSTRUCTORS = {
    "Experiment": "env policy algorithm learner driver behavior collectors strategy",
    "Trainer": "stop_criteria checkpoints summaries evaluator",
    "Evaluator": "env cluster",
    "ActorCriticPolicy": "network",
    "EpsilonGreedyPolicy": "network",
    "SacPolicy": "network recurrent_critic",
    "SacAlgorithm": "critic",
    **dict.fromkeys(
        ("ActorCriticNetwork", "PolicyNetwork", "QValueNetwork", "CriticsNetwork"), "encoder rnn"
    ),
    "ObservationEncoder": "image_encoder",
    "KerasEncoder": "model",
    **dict.fromkeys(("Population", "PolicyPopulation"), "mutation replacement"),
    "League": "elo",
}
_RENAMED = {
    f"{owner}.{name}_ctor": f"{owner}.{name}"
    for owner, names in _CONSTRUCTORS.items()
    for name in names.split()
} | {
    "ActorCriticPolicy.action_ctor": "ActorCriticPolicy.action_distribution",
    **{f"{owner}.statistics_ctor": "Monitoring.statistics" for owner in ("Monitoring", *_DRIVERS)},
    **{
        f"{owner}.one_env_at_a_time": "DriverSettings.num_env_threads"
        for owner in ("DriverSettings", *_DRIVERS)
    },
    "Trainer.checkpoint_interval": "Checkpoints.interval",
    "Trainer.max_to_keep": "Checkpoints.max_to_keep",
    "Trainer.checkpoint_replay_buffer": "Checkpoints.replay_buffer",
    "Trainer.summary_interval": "Summaries.interval",
    "Trainer.custom_summary": "Summaries.custom",
}
# Only in configurations that lack the new name: in others the old one has another meaning.
_REUSED = {"Experiment.num_envs": "Experiment.num_groups"}
_NAMES = _RENAMED | {
    f"{before}.{name}": f"{owner}.{name}"
    for owner, all_before, names in _MOVED
    for before in all_before
    for name in names
}
# Values that have become settings of their own.
_VALUES = {
    ("DriverSettings.max_waiting_batches", "0"): {"DriverSettings.mode": "'lockstep'"},
    ("DriverSettings.num_env_threads", "False"): {},
    ("DriverSettings.num_env_threads", "True"): {"DriverSettings.num_env_threads": "1"},
    ("Experiment.num_groups", "0"): {"Experiment.num_envs": "0"},
    ("Experiment.unroll_length", "0"): {"DriverSettings.mode": "'poll'", "Experiment.unroll_length": "1"},
}
# A binding begins at the beginning of a line: gin indents the lines that continue a value. The module in
# front of a class is dropped, because the class may have moved, too.
_BINDING = re.compile(r"^((?:[\w./]*/)?)(?:\w+\.)*?(\w+\.\w+)(\s*=\s*)(.*)$", re.MULTILINE)


def renew(config: dict[str, str]) -> dict[str, str]:
    """Returns a configuration, a dict from names of bindings to texts of values, with the present names."""
    renewed: dict[str, str] = {}
    names = _list_names(config)
    for name, value in config.items():
        scope, _, plain = name.rpartition("/")
        new = _renew_binding(".".join(plain.split(".")[-2:]), value, names)
        # Only what was renamed loses its module; all other names stay as the run has written them.
        renewed |= {name: value} if new is None else {f"{scope}{scope and '/'}{x}": y for x, y in new.items()}
    if renewed.get("DriverSettings.mode") == "'lockstep'":
        renewed.pop("DriverSettings.learn_queue_cap", None)  # had to be the number of environments
    return renewed


def renew_text(config: str) -> str:
    """Returns the text of a gin file with the present names."""
    names = _list_names(match[2] for match in _BINDING.finditer(config))

    def replace(match):
        scope, name, equals, value = match.groups()
        new = _renew_binding(name, value, names)
        return match[0] if new is None else "\n".join(f"{scope}{x}{equals}{y}" for x, y in new.items())

    return _BINDING.sub(replace, config)


def _list_names(bindings):
    """Returns the old names that have their old meaning in a configuration with these bindings, with the new.

    By the class and the parameter: scopes and modules in front may be any.
    """
    last = {".".join(name.rpartition("/")[2].split(".")[-2:]) for name in bindings}
    return _NAMES | {old: new for old, new in _REUSED.items() if new not in last}


def _renew_binding(name, value, names):
    """Returns the bindings that have taken the place of one, a dict by name; None if it is still the same."""
    new = names.get(name, name)
    if (new, value) in _VALUES:
        return _VALUES[new, value]
    return None if new == name else {new: value}


class Translation(NamedTuple):
    """What takes the place of a name of another library or of an older version.

    Attributes:
        library: name of the library, such as "RLlib".
        setting: name of the setting, or None if it is not exactly one.
        text: how the setting differs ("" if it does not), or what takes the place of the name.
    """

    library: str
    setting: str | None
    text: str


def find_translations(name: str) -> list[Translation]:
    """Lists what takes the place of a name, with or without its class, ignoring upper and lower case."""
    return _list_translations().get(name.lower(), [])


@functools.cache
def read_tables() -> list[dict[str, Any]]:
    """Reads translations.json: a list of dicts, one for each page of docs/migration.

    A dict has the keys "page" (the name of its file), "library" and "tables". A table is a dict with the keys
    "heading" (of the part of the page), "column" (the title of its first column) and "rows". A row is a list
    of texts in Markdown: their names in backticks, their default, the name of ALF's setting or "-", and what
    differs; or only their names and what takes their place.
    """
    path = Path(__file__).with_name("translations.json")
    tables: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return tables


def find_names(cell: str) -> list[str]:
    """Returns the names in the first cell of a row: ["use_rnn", "rnn_type"] of "`--use_rnn`, `rnn_type`"."""
    return [name for code in re.findall("`(.*?)`", cell) for name in re.findall(r"[A-Za-z_][\w.]*", code)]


@functools.cache
def _list_translations():
    """Returns a dict from names in lower case, with and without the class, to lists of `Translation`s."""
    found = collections.defaultdict(list)
    for page in read_tables():
        for row in (row for table in page["tables"] for row in table["rows"]):
            setting = row[2] if len(row) > 2 and row[2] != "-" else None
            text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row[-1]).replace("`", "")  # without Markdown
            for name in find_names(row[0]):
                found[name.lower()].append(Translation(page["library"], setting, text))
    for old, new in _NAMES.items():
        found[old.lower()].append(Translation("older versions of ALF", new, ""))
    for name in [name for name in found if "." in name]:
        found[name.rpartition(".")[2]] += found[name]
    return found
