# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trackers: what Weights & Biases and MLflow get of a run. Stand-ins record it; the real ones are offline."""

import functools
import sys
import time
import types

import gin
import pytest

from alf.config.short_names import find_full_name
from alf.drivers import Monitoring
from alf.errors import ConfigError, SaveError
from alf.runs.progress_file import read_rows
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Callback, Evaluator
from alf.training.summaries import Summaries
from alf.training.trackers import MlflowTracker, WandbTracker
from tests.extras import NEEDS_MLFLOW, NEEDS_WANDB
from tests.training.small_runs import make_trainer

TRACKERS = {"wandb": WandbTracker, "mlflow": MlflowTracker}


class Service:
    """What a tracker has sent: the stand-in for both packages.

    Attributes:
        begun: list of the arguments with which runs began: a dict.
        config: dict, the settings.
        text: the operative configuration.
        points: list of (x, dict of numbers).
        end: text.
        ended: list of the states with which runs ended.
        error: an exception that each call raises after the beginning, or None.
    """

    def __init__(self):
        self.begun, self.config, self.points, self.ended = [], {}, [], []
        self.text = self.end = self.error = None

    def check(self):
        if self.error is not None:
            raise self.error


class ServiceError(Exception):
    pass


def fake_wandb(service):
    def init(project, name, id, resume, dir, config, settings):
        service.check()
        assert resume == "allow" and settings == {"finish_timeout": 60.0, "finish_timeout_raises": False}
        service.begun.append({"group": project, "name": name, "id": id, "dir": dir})
        service.text = config.pop("operative_config")
        service.config = config

        def log(values):
            service.check()
            assert steps == ["env_steps"]
            service.points.append((values.pop("env_steps"), values))

        class Summary(dict):
            def __setitem__(self, key, value):
                service.check()
                assert key == "end"
                service.end = value

        def finish(exit_code):
            service.check()
            service.ended.append(exit_code)

        steps = []
        define_metric = lambda name, step_metric: steps.append(step_metric)  # noqa: E731
        return types.SimpleNamespace(
            id="run 7", log=log, summary=Summary(), finish=finish, define_metric=define_metric
        )

    return types.SimpleNamespace(init=init, Error=ServiceError)


def fake_mlflow(service):
    def start_run(run_id, run_name):
        service.check()
        service.begun.append({"group": module.experiment, "name": run_name, "id": run_id})
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="run 7"))

    def log_metrics(values, step, synchronous):
        service.check()
        assert synchronous is False
        service.points.append((step, values))

    def set_tag(name, value):
        service.check()
        assert name == "end"
        service.end = value

    def log_text(text, path):
        assert path == "operative_config.gin"
        service.text = text

    def end_run(status):
        service.check()
        service.ended.append(status)

    module = types.SimpleNamespace(
        experiment=None,
        set_experiment=lambda name: setattr(module, "experiment", name),
        start_run=start_run,
        log_params=lambda values: service.config.update(values),
        log_metrics=log_metrics,
        log_text=log_text,
        set_tag=set_tag,
        end_run=end_run,
        MlflowException=ServiceError,
    )
    return module


@pytest.fixture(params=list(TRACKERS))
def name(request):
    return request.param


@pytest.fixture
def service(name, monkeypatch):
    service = Service()
    module = {"wandb": fake_wandb, "mlflow": fake_mlflow}[name](service)
    monkeypatch.setitem(sys.modules, name, module)
    return service


def make_tracked(root_dir, track, num_iterations=3, **kwargs):
    summaries = functools.partial(Summaries, interval=0.0, track=track)
    return make_trainer(root_dir, {"num_iterations": num_iterations}, summaries=summaries, **kwargs)


def test_it_gets_the_figures_of_the_table(tmp_path, name, service):
    env = functools.partial(MatchObservationEnvironment, 2)
    evaluator = functools.partial(Evaluator, interval_steps=1, num_episodes=2, env=env)
    make_tracked(tmp_path, name, evaluator=evaluator).train()
    columns, rows = read_rows(tmp_path / "progress.csv")
    assert len(rows) == len(service.points) > 3
    seen = set()
    for row, (step, values) in zip(rows, service.points, strict=True):
        expected = {k: x for k, x in zip(columns, row, strict=True) if x}
        assert step == int(expected.pop("env_steps")) and expected.pop("seconds")
        assert {k: float(x) for k, x in expected.items()} == pytest.approx(values, rel=1e-8)
        seen |= values.keys()
    assert {"metrics/AverageReturn", "train/loss", "eval/return_mean"} <= seen


def test_it_gets_the_settings_and_the_end(tmp_path, name, service):
    gin.bind_parameter("ImpalaAlgorithm.discount", 0.875)
    make_tracked(tmp_path / "mine", name).train()
    (begun,) = service.begun
    assert (begun["group"], begun["name"], begun["id"]) == ("alf", "mine", None)
    assert begun.get("dir", str(tmp_path / "mine")) == str(tmp_path / "mine")
    assert service.config["ImpalaAlgorithm.discount"] == 0.875
    assert service.text == (tmp_path / "mine" / "operative_config.gin").read_text()
    assert service.end == "num_iterations=3 reached"
    assert service.ended == [{"wandb": 0, "mlflow": "FINISHED"}[name]]


class Fail(Callback):
    def on_train_iter(self, trainer, summary):
        raise OSError("no more")


class Interrupt(Callback):
    def on_train_iter(self, trainer, summary):
        trainer.interrupt("stopped by SIGTERM")


def test_it_learns_how_a_run_failed_or_was_stopped(tmp_path, name, service):
    with pytest.raises(OSError):
        make_tracked(tmp_path / "a", name, callbacks=[Fail()]).train()
    assert service.end == "OSError: no more"
    make_tracked(tmp_path / "b", name, callbacks=[Interrupt()]).train()
    assert service.end == "stopped by SIGTERM"
    assert service.ended == {"wandb": [1, 1], "mlflow": ["FAILED", "KILLED"]}[name]


def test_it_learns_that_the_last_save_has_failed(tmp_path, name, service):
    def fail(is_last):
        raise SaveError("the disk is full")

    trainer = make_tracked(tmp_path, name)
    trainer.checkpoints.checkpointer.save = fail
    with pytest.raises(SaveError):
        trainer.train()
    assert trainer.finished is None
    assert service.ended == [{"wandb": 1, "mlflow": "FAILED"}[name]]


def test_a_run_that_continues_is_continued_there(tmp_path, name, service):
    make_tracked(tmp_path, name).train()
    service.config.clear()
    make_tracked(tmp_path, name, num_iterations=5).train()
    assert [x["id"] for x in service.begun] == [None, "run 7"]
    assert len(service.ended) == 2
    if name == "mlflow":  # which refuses another value
        assert not service.config


def test_a_service_that_fails_does_not_end_the_run(tmp_path, name, service, caplog):
    trainer = make_tracked(tmp_path, name)
    trainer.add_callback(
        types.new_class(
            "Break",
            (Callback,),
            exec_body=lambda body: body.update(
                on_begin=lambda self, trainer: setattr(service, "error", ServiceError("no answer\nfor long"))
            ),
        )()
    )
    assert trainer.train() == (True, "num_iterations=3 reached")
    assert f"{TRACKERS[name].__name__}: no answer for long" in caplog.text
    assert service.points == service.ended == []


def test_a_service_that_hangs_is_named(tmp_path, name, service, caplog):
    """Each call hangs until the log says so."""
    text = f"a call of {TRACKERS[name].__name__} has not returned for "
    calls = []

    def hang():
        before = caplog.text.count(text)
        while caplog.text.count(text) == before:
            time.sleep(0.01)
        calls.append(None)

    service.check = hang
    trainer = make_tracked(tmp_path, name, num_iterations=1)
    trainer.driver.monitoring = Monitoring(stall_timeout=0.05, on_stall="warn")
    assert trainer.train() == (True, "num_iterations=1 reached")
    begun, ended = 1, 2  # besides those of the summaries
    assert len(calls) == begun + len(service.points) + ended > 3


def test_a_service_that_refuses_a_run_is_one_line(tmp_path, name, service):
    service.error = ServiceError("No API key configured.\nUse `wandb login` to log in.")
    message = f"{TRACKERS[name].__name__}: No API key configured. Use `wandb login` to log in."
    with pytest.raises(ConfigError, match=f"^{message}$"):
        make_tracked(tmp_path, name).train()
    assert service.ended == []


def test_a_missing_package_is_one_line(tmp_path, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    message = rf'the package {name} is not installed: pip install "alf-tf\[{name}\]"'
    with pytest.raises(ConfigError, match=message):
        make_tracked(tmp_path / "run", name)
    assert not (tmp_path / "run").exists()


def test_gin_configures_it(tmp_path, name, service):
    group = {"wandb": "WandbTracker.project", "mlflow": "MlflowTracker.experiment"}[name]
    gin.parse_config(f"""
        Summaries.track = {name!r}
        {group} = "pendulums"
        {TRACKERS[name].__name__}.name = "first"
    """)
    make_trainer(tmp_path, {"num_iterations": 1}).train()
    (begun,) = service.begun
    assert (begun["group"], begun["name"]) == ("pendulums", "first")
    with gin.unlock_config():
        gin.bind_parameter("Summaries.track", "tensorboard")
    with pytest.raises(ConfigError, match="track is 'tensorboard': it must be one of 'wandb', 'mlflow', "):
        make_trainer(tmp_path, {"num_iterations": 1})


def test_the_short_name_is_a_flag():
    assert find_full_name("track", set()) == "Summaries.track"


def test_a_callback_of_ones_own_gets_the_same(tmp_path):
    class Mine(Callback):
        points = []

        def on_summary(self, trainer, step, values):
            self.points.append((step, values))

    make_tracked(tmp_path, Mine).train()
    assert [step for step, _ in Mine.points] == [16, 28, 40]
    assert isinstance(Mine.points[-1][1]["time/bottleneck"], str)


def test_mlflow_gets_names_that_it_takes(tmp_path, monkeypatch):
    service = Service()
    monkeypatch.setitem(sys.modules, "mlflow", fake_mlflow(service))
    tracker = MlflowTracker()
    tracker.on_summary(None, 4, {"info_sum/a[b]/c d": 1.0, "text": "x"})
    assert service.points == [(4, {"info_sum/a_b_/c d": 1.0})]


# The real packages.


@NEEDS_WANDB
def test_wandb_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    make_tracked(tmp_path, "wandb").train()
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    content = file.read_bytes()
    for text in (b"metrics/AverageReturn", b"ImpalaAlgorithm.discount", b"num_iterations=3 reached"):
        assert text in content


@NEEDS_MLFLOW
def test_mlflow_in_a_folder(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.chdir(tmp_path)  # artifacts are here
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    for num_iterations in (3, 5):
        make_tracked(tmp_path / "run", "mlflow", num_iterations).train()
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("alf").experiment_id
    (run,) = client.search_runs([experiment])
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.tags["end"] == "num_iterations=5 reached"
    points = client.get_metric_history(run.info.run_id, "metrics/NumberOfEpisodes")
    assert [x.step for x in points] == [
        int(row[0]) for row in read_rows(tmp_path / "run" / "progress.csv")[1]
    ]
