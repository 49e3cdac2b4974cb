# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ALF trains agents by reinforcement learning: `alf COMMAND WHAT [--NAME=VALUE ...] [-o WHERE]`.

WHAT is an environment (CartPole-v1, ALE/Pong-v5, module:Class, FILE.py:Class), a gin file (FILE.gin), one of
ALF's tasks (alf:CartPole-v1), or the folder of a run.

    alf train CartPole-v1 --algorithm=ppo --steps=100_000 -o runs/mine
    alf evaluate runs/mine
"""

import difflib
import sys

from alf.bin.show import show
from alf.core.signals import end_at_interrupts
from alf.version import __version__

# Without an import of the subcommands: `alf` answers at once.
COMMANDS = {
    "train": "trains an agent, or continues a run",
    "sweep": "trains with many settings and seeds",
    "pbt": "trains a population, whose members copy the best",
    "evaluate": "prints the returns of a trained agent",
    "play": "shows a trained agent, or records it",
    "export": "writes a trained agent as a SavedModel, for TensorFlow Lite or ONNX",
    "plot": "draws the learning curves of runs",
    "benchmark": "measures the speed of a run",
    "check": "checks an environment",
    "replicate": "makes a deterministic run again, and compares the weights",
    "settings": "lists the settings",
}
_INTERNAL = ("run_member",)  # for the processes that other commands start


def console_main():
    """Runs the subcommand that the command line names, and ends the process."""
    end_at_interrupts()
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("help", "--help", "-h", "-?", "--helpshort"):
        show(describe())
    elif name == "--version":
        show(f"ALF {__version__}")
    elif name in COMMANDS or name in _INTERNAL:
        from alf.bin.command import start

        start(name, arguments)
    else:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean alf {close[0]} ?" if close else f"it has {', '.join(COMMANDS)}"
        print(f"error: alf has no command {name!r}; {hint}", file=sys.stderr)
        sys.exit(2)


def describe():
    """Returns the help of `alf`."""
    commands = "\n".join(f"    {name:11}{text}" for name, text in COMMANDS.items())
    return f"{__doc__}\nCommands:\n\n{commands}\n\n`alf COMMAND --help` says more of a command."
