# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The site of docs/: it builds without a warning, loads nothing from elsewhere, and works in a browser."""

import functools
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse

import pytest

from tests.chromium import NEEDS_CHROMIUM, browse
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.programs

PACKAGES = "algorithms", "drivers", "environments", "learner", "networks", "policies", "training"
# Ends the build if it imports one of these: the extra `docs` alone is enough for it.
FORBID = """
import sys
for name in ("alf", "gin", "numpy", "tensorflow", "tf_agents"):
    sys.modules[name] = None
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    # Not --quiet: then --strict would not see the warnings either.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={folder}"]
    (folder.parent / "sitecustomize.py").write_text(FORBID)
    env = {**os.environ, "PYTHONPATH": str(folder.parent)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    """Where a server in this process shows the site."""
    handler = functools.partial(_QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def read_hosts(log):
    """The hosts that pages of this machine have asked, by Chromium's log; not what it asks by itself."""
    events = (event.get("params", {}) for event in json.loads(log.read_text())["events"])
    urls = [x["url"] for x in events if str(x.get("initiator")).startswith("http://127.0.0.1") and "url" in x]
    return {urllib.parse.urlsplit(url).hostname for url in urls if url.startswith("http")}


def test_pages_load_nothing_from_elsewhere(site):
    loads = re.compile(r'<(?:script|img|link rel="stylesheet")[^>]+(?:src|href)=["\']?(https?:)?//')
    wrong = [str(path.relative_to(site)) for path in site.rglob("*.html") if loads.search(path.read_text())]
    assert not wrong


def test_the_api_has_the_public_classes(site):
    text = "".join(path.read_text() for path in (site / "api").rglob("*.html"))
    described = {x.rpartition(".")[2] for x in re.findall(r'id="(alf\.[\w.]+)"', text)}
    for package in PACKAGES:
        source = (ROOT / "alf" / package / "__init__.py").read_text()
        names = re.findall(r'"(\w+)"', source[source.index("__all__") :].partition("]")[0])
        missing = [
            name for name in names if name not in described and f'id="alf.{package}.{name}' not in text
        ]
        assert names and not missing, (package, missing)
    others = {"Experience", "LossInfo", "TimeStep", "ObservationNormalizer", "FrameStacker", "check"}
    others |= {"vtrace", "policy_gradient_loss", "calc_loss", "rollout_step"}
    others |= {"OneTimeReplayer", "UniformReplayer", "PrioritizedReplayer", "HybridReplayer"}
    assert not others - described


def test_examples_and_changes_are_pages(site):
    assert '<span class="nc">Corridor</span>' in (site / "examples" / "own_env.py" / "index.html").read_text()
    index = (site / "examples" / "index.html").read_text()
    assert "selfplay_connect_four.gin" in index
    assert "<td>PPO on asynchronous data (arXiv 1707.06347) on HalfCheetah-v5 of MuJoCo</td>" in index
    assert (
        "<td>DQN (Mnih et al. 2015, Nature 518), double, dueling, prioritised, of 3 steps, on Atari" in index
    )
    assert "<td>The image for kuberay.yaml</td>" in index
    assert "unreleased" in (site / "changelog" / "index.html").read_text()


@NEEDS_CHROMIUM
def test_the_search_finds_a_setting_and_nobody_else_is_asked(address, tmp_path):
    found = re.compile(r"md-search-result__meta[^<]*>\s*\d+ matching document.*", re.DOTALL)
    log = tmp_path / "net.json"
    url = f"{address}/?q=max_waiting_batches"
    page = browse(url, tmp_path, f"--log-net-log={log}", is_complete=found.search)
    assert "Actors keep predicting while the learner keeps" in page
    assert 'class="js' in page  # its scripts have run: the file says "no-js"
    results = found.search(page)
    assert results and ("tuning/" in results[0] or "async_training/" in results[0])
    assert read_hosts(log) == {"127.0.0.1"}
