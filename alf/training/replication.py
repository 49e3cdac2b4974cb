# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replication: making a deterministic run again, to see whether its weights are the same."""

import os
from typing import Any

from alf.callback import Callback
from alf.config.gin_files import CONFIG_FILE
from alf.config.parsing import parse_config, wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.core.annotations import FilePath
from alf.errors import ConfigError
from alf.runs.digests import DIGESTS_FILE, compute_digest, find_split, read_digests
from alf.runs.presets import make_parts
from alf.runs.run_description import list_versions, read_description
from alf.runs.run_dir import choose_root_dir
from alf.training.trainer import Trainer


def replicate(original: FilePath, root_dir: FilePath | None = None) -> tuple[int | None, int | None]:
    """Trains with the settings and the seed of a run, as long as the digests of the weights agree.

    Args:
        original: path of the run.
        root_dir: path of the new run; a run of the same settings there is continued. None: ORIGINAL-replica.

    Returns:
        the last iteration up to which the digests agree, None if they never do; and the first one at which
        they differ, None if they do not.

    Raises:
        ConfigError: if the run has no digests.
    """
    try:
        digests = read_digests(original)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{original} has no {DIGESTS_FILE}, as runs with Experiment.deterministic = True have: {error}"
        ) from None
    if not digests:
        raise ConfigError(f"{original} has made no train iteration yet")
    last = f"StopCriteria.num_iterations = {max(digests)}"
    with own_config(), choose_root_dir(root_dir or f"{os.fspath(original).rstrip('/')}-replica") as path:
        parse_config([os.path.join(original, CONFIG_FILE)], [last])
        with wrong_calls_are_config_errors():
            trainer = Trainer(path, *make_parts())
    trainer.add_callback(_Comparison(digests))
    trainer.train()
    return find_split(digests, read_digests(trainer.root_dir))


def list_other_versions(original: FilePath) -> list[str]:
    """Lists a line for each package that has another version here than a run had."""
    before, now = read_description(original).versions, list_versions()
    return [
        f"{name} was {before.get(name)} in the run, it is {now.get(name)} here"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


class _Comparison(Callback):
    """Ends a run at the first iteration whose digest differs from that in a dict of `read_digests`."""

    def __init__(self, digests):
        self._digests = digests

    def on_train_iter(self, trainer: Any, summary: dict[str, Any]) -> None:
        expected = self._digests.get(trainer.counters["iterations"])
        if expected is not None and expected != str(compute_digest(trainer.learner.list_learned())):
            trainer.stop("the weights differ")
