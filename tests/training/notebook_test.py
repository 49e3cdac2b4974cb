# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A notebook in a kernel: what its user sees of runs, of their end by "interrupt kernel", and of errors."""

import asyncio
import threading

import pytest

pytestmark = pytest.mark.programs
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

LINES = """
import alf
class Says(alf.Callback):
    def on_train_iter(self, trainer, summary):
        if trainer.counters["iterations"] == 2:
            print("it trains", flush=True)
#
agent, run = alf.train("CartPole-v1", "impala", 10**8, "run", callbacks=[Says()], num_workers=2)
#
agent, run, run.metrics["AverageReturn"]
#
agent, run = alf.train("CartPole-v1", "impala", run.counters["env_steps"] + 1, "run", num_workers=2)
#
[len(alf.evaluate(*x, num_episodes=3).returns) for x in [(agent, "CartPole-v1"), ("run",)]]
#
alf.train("CartPole-v1", lerning_rate=1e-3)
#
import gymnasium
class Breaks(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}
    def step(self, action):
        raise ValueError("my error")
alf.train(Breaks, "impala", root_dir="breaks")
"""


class Notebook:
    """A kernel that executes cells, which are texts.

    Attributes:
        cells: list of the cells with their outputs.
    """

    def __init__(self, cells, folder):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(x) for x in cells])
        self.cells = notebook.cells
        resources = {"metadata": {"path": str(folder)}}
        self._client = nbclient.NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources=resources, allow_errors=True
        )

    def run(self, interrupt_at):
        """Executes all cells; the kernel is interrupted when the text `interrupt_at` comes out of one."""
        with self._client.setup_kernel():
            interrupts = threading.Thread(target=self._interrupt, args=[interrupt_at], daemon=True)
            interrupts.start()
            for i, cell in enumerate(self.cells):
                self._client.execute_cell(cell, i)
        return self

    def _interrupt(self, text):
        while not any(text in self.read(i, "stdout") for i in range(len(self.cells))):
            threading.Event().wait(0.05)
        asyncio.run(self._client.km.interrupt_kernel())

    def read(self, i, name):
        """The text of a stream of cell `i`, or "error" for its error and "result" for its value."""
        outputs = list(self.cells[i].get("outputs", ()))
        if name == "error":
            return "".join("\n".join(x.traceback) for x in outputs if x.output_type == "error")
        if name == "result":
            return "".join(x.data["text/plain"] for x in outputs if x.output_type == "execute_result")
        return "".join(x.text for x in outputs if x.output_type == "stream" and x.name == name)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    cells = [cell.strip() for cell in LINES.split("\n#\n")]
    return Notebook(cells, tmp_path_factory.mktemp("notebook")).run("it trains")


IMPORT, TRAIN, SHOW, GO_ON, EVALUATE, MISSPELT, BREAKS = range(7)


def test_an_interrupted_run_is_one_line_and_goes_on(notebook):
    first, *others = notebook.read(TRAIN, "stdout").splitlines()
    assert first.startswith("trains in ") and others[0] == "it trains" and len(others) == 2
    assert others[1].startswith("stopped by SIGINT after ") and "The same call goes on with" in others[1]
    lines = notebook.read(GO_ON, "stdout").splitlines()
    assert lines[0] == first and "environment steps, num_env_steps=" in lines[1] and len(lines) == 2
    for i in (IMPORT, TRAIN, SHOW, GO_ON, EVALUATE):
        assert not notebook.read(i, "error") + notebook.read(i, "stderr")


def test_results_say_what_they_are(notebook):
    agent, run, metric = notebook.read(SHOW, "result").strip("()").split(",\n ")
    assert agent == "<Agent of policy: observations float32 [4], actions int64 []>"
    assert run.startswith("<Trainer of /") and " iterations, " in run
    assert metric.startswith("<Metric AverageReturn: ")
    assert notebook.read(EVALUATE, "result") == "[3, 3]"


def test_a_wrong_setting_is_its_message_and_the_users_line(notebook):
    message, place, line = notebook.read(MISSPELT, "error").splitlines()
    assert message.startswith(
        "ConfigError: lerning_rate: there is no such setting; did you mean learning_rate"
    )
    assert place.endswith("line 1, in <module>") and line.strip() == notebook.cells[MISSPELT].source


def test_an_error_of_an_environment_comes_without_notices(notebook):
    first, last = notebook.read(BREAKS, "stdout").splitlines()
    assert first.startswith("trains in ") and last.endswith(": ended after 0 environment steps, ValueError")
    assert not notebook.read(BREAKS, "stderr")
    assert notebook.read(BREAKS, "error").endswith("my error\nraised by environment 0, step 1")
