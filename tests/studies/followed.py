# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A member in a thread of this process, to which a test gives orders as a study does."""

import os
import threading
import time

from alf.studies.member import Member
from alf.studies.population_study import REPORT_FILE, write_order
from alf.studies.settings import Population
from alf.studies.state import read_json

SECONDS = 300.0


class Followed:
    """Gives orders to a member; a new one takes its place once it has ended.

    Args:
        config: text of the gin configuration.
        folder: of the members.
        index: int, of this one.
        ranges: dict from names of settings to `Range`.
        interval, objective: as in `Population`.
    """

    def __init__(self, config, folder, index, ranges, interval=40, objective="AverageReturn"):
        self.root_dir = os.path.join(folder, str(index))
        os.makedirs(self.root_dir, exist_ok=True)
        self._gin_file = f"{self.root_dir}.gin"
        with open(self._gin_file, "w", encoding="utf-8") as file:
            lines = {line.partition(" = ")[0]: line for line in config.splitlines()}  # the last one counts
            file.write("\n".join(lines.values()))
        self._population, self._seed = Population(ranges, interval, objective), [7, index]
        self._turn = time.time_ns()
        self.member = self._thread = self._error = self.has_ended = None

    @property
    def trainer(self):
        return self.member._trainer

    def give(self, order):
        """Gives an order, a dict of `number`, `settings` and `parent`, which begins a turn."""
        self._turn += 1
        write_order(self.root_dir, self._turn, order, self._population, self._seed)

    def follow(self, order):
        """Gives an order, waits for the end of the interval, and returns the report."""
        self.give(order)
        if self._thread is None or not self._thread.is_alive():
            self.member = Member(self._gin_file, self.root_dir)
            self._thread = threading.Thread(target=self._train, daemon=True)
            self._thread.start()
        deadline = time.monotonic() + SECONDS
        while True:
            is_alive = self._thread.is_alive()
            report = read_json(os.path.join(self.root_dir, REPORT_FILE))
            if report is not None and report["turn"] == self._turn:
                return report
            if self._error is not None:
                raise self._error
            assert is_alive and time.monotonic() < deadline
            time.sleep(0.01)

    def close(self):
        """Lets the member save and end."""
        if self._thread is not None:
            self.member.stop("the test is over")
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()

    def _train(self):
        try:
            self.has_ended = self.member.train()
        except BaseException as error:
            self._error = error
