# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TensorBoard in a browser: what runs write is on its pages."""

import contextlib
import html
import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import gin
import pytest
import tensorflow as tf

from alf.training import Experiment
from tests.builders import build_trainer, driver_of
from tests.chromium import NEEDS_CHROMIUM, browse
from tests.training.event_files import read_kinds, read_summaries
from tests.training.metric_names_test import run_impala, run_ppo
from tests.training.summaries_test import CONFIG, check_cartpole

pytestmark = pytest.mark.programs

START_SECONDS = 60
PINS = 10  # that a page shows


@contextlib.contextmanager
def serve(folder):
    """Context that gives the address of a TensorBoard."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--host=127.0.0.1"]
    # A port that is free; TensorBoard says which.
    with open(folder / "tensorboard.log", "w+") as log:
        process = subprocess.Popen([*command, "--port=0"], stdout=log, stderr=log)
        try:
            yield wait_for_address(process, folder / "tensorboard.log")
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_address(process, log):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+/", log.read_text()):
            return found[0]
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def open_url(url, data=None, headers=()):
    return urllib.request.urlopen(urllib.request.Request(url, data, dict(headers)), timeout=30)


def fetch(address, path, request=None):
    """The JSON that TensorBoard answers; `request` is the JSON that it gets, None for none."""
    data = None if request is None else json.dumps(request).encode()
    with open_url(address + path, data, {"Content-Type": "application/json"}) as answer:
        return json.load(answer)


def wait_until_loaded(address, kinds):
    """Waits until TensorBoard has read all scalars."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        tags = fetch(address, "data/plugin/timeseries/tags")["scalars"]["runTagInfo"]
        scalars = {run: {k for k, kind in names.items() if kind == "scalars"} for run, names in kinds.items()}
        if all(names <= set(tags.get(f"{run}/train", ())) for run, names in scalars.items()):
            return
        time.sleep(0.2)
    raise AssertionError("TensorBoard does not read the files")


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The address of a TensorBoard of two runs, and the kinds of what they wrote, dicts by name."""
    folder = tmp_path_factory.mktemp("runs")
    gin.bind_parameter("Trainer.batches_per_train_iter", 2)
    run_impala(folder / "impala")
    gin.clear_config()
    run_ppo(folder / "ppo")
    kinds = {name: read_kinds(folder / name / "train") for name in ("impala", "ppo")}
    with serve(folder) as address:
        wait_until_loaded(address, kinds)
        yield address, kinds


def find_missing(page, names):
    """The names that are on none of the page's charts, a set."""
    return set(names) - set(re.findall('title="([^"]+)"', page))


@NEEDS_CHROMIUM
def test_the_names_are_on_the_page(board, tmp_path):
    address, kinds = board
    scalars = sorted(name for name, kind in kinds["ppo"].items() if kind == "scalars")
    assert len(scalars) > 20
    for start in range(0, len(scalars), PINS):
        # Groups of charts are closed at first; charts that are pinned are not.
        names = scalars[start : start + PINS]
        query = urllib.parse.quote(json.dumps([{"plugin": "scalars", "tag": name} for name in names]))
        url = f"{address}?pinnedCards={query}#timeseries"
        page = browse(url, tmp_path, is_complete=lambda page, names=names: not find_missing(page, names))
        assert not find_missing(page, names)
    both = kinds["ppo"] | kinds["impala"]
    groups = {name.partition("/")[0] for name, kind in both.items() if kind not in ("text", "hparams")}
    assert groups > {"metrics", "train", "eval", "debug", "variables", "gradients"}
    text = html.unescape(re.sub("<[^>]*>", "\n", page)).split()
    assert not groups - set(text)


def test_runs_compare_by_settings_and_by_few_numbers(board):
    address, _ = board
    experiment = fetch(address, "data/plugin/hparams/experiment", {})
    settings = {info["name"]: info["differs"] for info in experiment["hparamInfos"]}
    assert settings["Trainer.batches_per_train_iter"] and not settings["Trainer.collect_from_iteration"]
    assert list(settings.values()) == sorted(settings.values(), reverse=True)
    metrics = [info["name"]["tag"] for info in experiment["metricInfos"]]
    figures = ["AverageReturn", "EpisodeLength", "eval/return_mean"]
    figures += ["throughput/steps_per_second_5min", "train/loss"]
    assert metrics[: len(figures)] == [f"Overview/{name}" for name in figures]
    request = {"allowedStatuses": [f"STATUS_{x}" for x in ("UNKNOWN", "SUCCESS", "FAILURE", "RUNNING")]}
    request |= {"colParams": [], "sliceSize": 10}
    groups = fetch(address, "data/plugin/hparams/session_groups", request)["sessionGroups"]
    assert sorted(group["name"].split()[0] for group in groups) == ["impala", "ppo"]


def test_the_video_is_an_animated_picture(board):
    address, kinds = board
    assert kinds["impala"]["eval/video"] == "images"
    images = fetch(address, "data/plugin/images/images?tag=eval%2Fvideo&run=impala%2Ftrain&sample=0")
    with open_url(f"{address}data/plugin/images/individualImage?{images[0]['query']}") as answer:
        assert answer.headers["Content-Type"] == "image/gif" and answer.read(6) == b"GIF89a"


def test_a_video_comes_from_the_process_of_an_evaluation(tmp_path):
    gin.parse_config(f"""{CONFIG}
        Experiment.num_envs = 4
        Experiment.num_groups = 1
        Experiment.unroll_length = 4
        UnrollLearner.optimizer = @Adam()
        Evaluator.interval_steps = 1
        Evaluator.num_episodes = 2
        Evaluator.place = "process"
        Evaluator.video_interval = 1
        Evaluator.video_frames = 5
        Trainer.evaluator = @Evaluator
        StopCriteria.num_iterations = 1  # at its end the run waits for the evaluation
    """)
    build_trainer(str(tmp_path), driver_of(Experiment())).train()
    ((_, video), *_) = read_summaries(tmp_path / "train")["eval/video"]
    check_cartpole(*tf.make_ndarray(video.tensor))
