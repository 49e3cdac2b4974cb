# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Pages in headless Chromium; where it is missing, tests that need it are skipped."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
from websockets.sync.client import connect

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_CHROMIUM = pytest.mark.skipif(PROGRAM is None, reason="there is no program chromium")
START_SECONDS, STOP_SECONDS, PAGE_SECONDS = 300, 20, 300

# Of Chrome's DevTools protocol.
READ = {
    "id": 1,
    "method": "Runtime.evaluate",
    "params": {"expression": "document.readyState == 'complete' ? document.documentElement.outerHTML : ''"},
}


def browse(url, profile, *flags, is_complete):
    """Opens a page and returns its HTML.

    The page is read again and again, because its scripts go on after it is loaded.

    Args:
        url: of the page.
        profile: folder for Chromium.
        *flags: more flags of Chromium.
        is_complete: function of the HTML, true once all is there that a test looks for. After `PAGE_SECONDS`
            the page is returned as it is.
    """
    with _start(profile, flags) as address:
        request = urllib.request.Request(f"{address}/json/new?{urllib.parse.quote(url)}", method="PUT")
        with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
            tab = json.load(answer)
        with connect(tab["webSocketDebuggerUrl"], max_size=None) as socket:
            deadline = time.monotonic() + PAGE_SECONDS
            while True:
                socket.send(json.dumps(READ))
                page = json.loads(socket.recv(PAGE_SECONDS))["result"]["result"]["value"]
                if is_complete(page) or time.monotonic() > deadline:
                    break
                time.sleep(0.2)
            socket.send(json.dumps({"id": 2, "method": "Browser.close"}))  # it writes its logs then
    return page


@contextlib.contextmanager
def _start(profile, flags):
    """Context that gives the address where Chromium takes commands."""
    command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # no page waits for the internet
    command += [f"--user-data-dir={profile}", "--window-size=1600,4000", "--remote-debugging-port=0"]
    port = profile / "DevToolsActivePort"
    port.unlink(missing_ok=True)  # of an earlier page
    process = subprocess.Popen([*command, *flags], stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield f"http://127.0.0.1:{_wait_for_port(process, port)}"
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it has children
        process.wait()


def _wait_for_port(process, path):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and (lines := path.read_text().splitlines()):
            return int(lines[0])
        time.sleep(0.1)
    raise AssertionError(f"Chromium does not start; its status is {process.poll()}")
