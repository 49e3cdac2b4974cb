# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf/examples/serve_policy.py: answers as the agent acts, with a state for each client."""

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from alf.data_structures import FIRST
from alf.evaluation.exporter import export
from alf.policies.agent import Agent
from tests.evaluation.export_cases import CASES, make_case, record

pytestmark = pytest.mark.programs

PROGRAM = Path(__file__).resolve().parent.parent / "alf" / "examples" / "serve_policy.py"


@contextlib.contextmanager
def serving(folder, cwd):
    """Runs the program; yields a function that asks it."""
    command = [sys.executable, str(PROGRAM), str(folder), "0"]
    env = {k: v for k, v in os.environ.items() if k not in ("TF_USE_LEGACY_KERAS", "PYTHONPATH")}
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        port = re.search(r"at port (\d+)", process.stdout.readline())[1]

        def ask(**request):
            data = json.dumps(request).encode()
            with urllib.request.urlopen(f"http://localhost:{port}", data, timeout=300) as answer:
                return json.loads(answer.read())

        yield ask
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("case", ["lstm_stacked", "parts_gru_beta"])
def test_two_clients(case, tmp_path):
    env, policy = make_case(*CASES[case])
    steps, actions = record(env, Agent(policy), 25)
    env.close()
    export(policy, str(tmp_path / "policy"))
    signature = json.loads((tmp_path / "policy" / "signature.json").read_text())
    names = [spec["name"] for spec in signature["inputs"] if spec["name"].startswith("observation")]
    with serving(tmp_path / "policy", tmp_path) as ask:
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(client=0, observation={"wrong": 1})
        for step, expected in zip(steps, actions, strict=True):
            for client in (0, 1):
                parts = [leaf[client].tolist() for leaf in step["leaves"]]
                observation = dict(zip(names, parts, strict=True)) if len(parts) > 1 else parts[0]
                starts = bool(step["step_type"][client] == FIRST)
                answer = ask(client=client, observation=observation, episode_start=starts)
                for name, leaf in zip(sorted(answer), expected, strict=True):
                    np.testing.assert_allclose(answer[name], leaf[client], rtol=1e-4, atol=1e-5)
