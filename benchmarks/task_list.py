# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What `benchmarks.tasks` trains: each task of ALF, and other algorithms beside them."""

import pathlib
import re
from typing import NamedTuple

from alf.config.gin_files import find_gin_file, list_tasks

_EXAMPLES = ("r2d2_cartpole.gin", "r2d2_minigrid.gin", "selfplay_connect_four.gin")
_MINATAR = "no table, curves of DQN after 5 million steps in arXiv 1903.03176"
# Environments, with settings of theirs; steps, algorithms and a published score.
_PRESETS = [
    ("Pendulum-v1", 20_000, ("sac", "td3"), "-150, about what the best policies reach"),
    (
        "Hopper-v5",
        300_000,
        ("sac", "td3"),
        "3,564, TD3 after 1 million steps on -v1 (arXiv 1802.09477, table 1); no table at 300,000",
    ),
    ("MinAtar/Breakout-v1", 1_000_000, ("dqn", "qr_dqn", "apex"), _MINATAR),
    ("MinAtar/Asterix-v1 --n_step=1 --mini_batch_length=1", 1_000_000, ("dqn", "qr_dqn", "apex"), _MINATAR),
    ("alf.examples.memory:Recall-v0 --load.delay=4", 60_000, ("r2d2",), "1, the best policy; 0.25 by chance"),
]


class Task(NamedTuple):
    """One row of the table."""

    arguments: str  # of `alf train`
    algorithm: str
    steps: int
    reference: str
    is_game: bool = False  # of players in turn; "main" of a league is evaluated against random play

    @property
    def environment(self):
        """Its name with "-" for "/", the same for a task and for a preset."""
        return self.arguments.split()[0].removeprefix("alf:").replace("/", "-")


def list_rows():
    """Returns all `Task`s, in the order of their environments' names."""
    rows = [_read_file(f"alf:{name}") for name in (*list_tasks(), *_EXAMPLES)]
    for environment, steps, algorithms, reference in _PRESETS:
        for algorithm in algorithms:
            arguments = f"{environment} --algorithm={algorithm} --steps={steps:_}"
            rows.append(Task(arguments, algorithm, steps, reference))
    return sorted(rows, key=lambda task: task.arguments.removeprefix("alf:").replace("/", "-"))


def _read_file(name):
    """Makes the `Task` that trains a gin file, from what the file says."""
    text = pathlib.Path(find_gin_file(name)).read_text()
    algorithm = re.search(r'algorithm = ["@](\w+?)(Algorithm)?\b', text)[1].lower()
    steps = int(re.search(r"num_env_steps = ([\d_]+)", text)[1])
    reference = re.search(r"Reference: (.*)", text)[1].rstrip(".")
    return Task(name, algorithm, steps, reference, is_game="@League()" in text)
