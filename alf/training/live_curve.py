# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LiveCurve: shows the average return in a notebook while training goes on."""

import importlib
import importlib.util
import io
import time
from typing import Any

from alf.callback import Callback
from alf.config.kinds import NonNegativeFloat
from alf.config.settings import Role, configurable
from alf.errors import is_notebook


def can_show_curves() -> bool:
    """Returns whether this process is the kernel of a notebook, and Matplotlib is installed."""
    return is_notebook() and importlib.util.find_spec("matplotlib") is not None


@configurable("alf.training", role=Role.EXECUTION)
class LiveCurve(Callback):
    """Draws the average return over environment steps below the cell of a notebook, again and again.

    `alf.train` adds one in a notebook. Elsewhere: `Trainer(..., callbacks=[LiveCurve()])`.

    Args:
        interval: seconds between two pictures.
    """

    def __init__(self, interval: NonNegativeFloat = 2.0) -> None:
        self._interval = interval
        self._points: list[tuple[int, float]] = []
        self._next = 0.0  # seconds of `time.monotonic`
        self._handle: Any = None  # of the picture below the cell, which each new one replaces

    def on_train_iter(self, trainer: Any, summary: dict[str, Any]) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._interval
            self._show(trainer)

    def on_end(self, trainer: Any, reason: str) -> None:
        self._show(trainer)

    def _show(self, trainer):
        display = importlib.import_module("IPython.display")  # a notebook has it; ALF does not need it
        if not int(trainer.metrics["NumberOfEpisodes"].result()):
            return  # there is no return yet
        returns = float(trainer.metrics["AverageReturn"].result())
        self._points.append((trainer.counters["env_steps"], returns))
        image = display.Image(_draw(self._points))
        if self._handle is None:
            self._handle = display.display(image, display_id=True)
        else:
            self._handle.update(image)


def _draw(points):
    """Returns a picture of points (env steps, return) as the bytes of a PNG file."""
    # Not by pyplot: its figures and its backend are the user's.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*points, strict=True))
    axes.set(xlabel="environment steps", ylabel="AverageReturn")
    axes.grid(alpha=0.3)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return file.getvalue()
