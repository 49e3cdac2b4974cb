# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What event files hold besides scalars: text, settings, histograms, videos, a user's own; and each point."""

import errno
import functools
import io
import shutil

import gin
import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups
from tensorboard.plugins.hparams import metadata as hparams_metadata

from alf.drivers import EnvSpecs, SyncOffPolicyDriver
from alf.drivers.weights import get_weights
from alf.errors import ConfigError
from alf.evaluation.session import Session
from alf.evaluation.video import GifRecorder
from alf.learner import optimizers
from alf.runs.progress_file import read_rows
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Callback, Evaluator, Experiment, summary_writer
from alf.training.summary_writer import SummaryWriter, write_histogram
from tests.builders import build_learner, find_evaluator
from tests.training.collection_test import make_trainer as make_dqn_trainer
from tests.training.counting_parts import CountingReplayLearner
from tests.training.event_files import read_events, read_kinds, read_summaries
from tests.training.trainer_test import make_counting_trainer, make_trainer


def read_text(value):
    return tf.make_ndarray(value.tensor).item().decode()


def read_settings(root_dir):
    """The settings that TensorBoard compares a run by, and the run's name there."""
    ((_, value),) = read_summaries(root_dir / "train")["_hparams_/session_start_info"]
    content = value.metadata.plugin_data.content
    start = hparams_metadata.parse_session_start_info_plugin_data(content)
    settings = {name: getattr(x, x.WhichOneof("kind")) for name, x in start.hparams.items()}
    return settings, start.group_name


# Text and settings.


def test_the_configuration_is_a_text(tmp_path):
    gin.bind_parameter("ImpalaAlgorithm.discount", 0.875)
    make_counting_trainer(tmp_path, stop={"num_iterations": 2}).train()
    ((step, value),) = read_summaries(tmp_path / "train")["config/operative_config"]
    assert step == 0 and value.metadata.plugin_data.plugin_name == "text"
    lines = (tmp_path / "operative_config.gin").read_text().splitlines()
    assert "ImpalaAlgorithm.discount = 0.875" in lines
    # Indented, which is code in Markdown.
    assert read_text(value).splitlines() == [f"    {line}" for line in lines]


def test_runs_compare_by_their_settings(tmp_path):
    for name, discount in (("a", 0.875), ("b", 0.75)):
        with gin.unlock_config():
            gin.bind_parameter("ImpalaAlgorithm.discount", discount)
            gin.bind_parameter("StopCriteria.num_iterations", 2)
        make_counting_trainer(tmp_path / name).train()
        settings, group = read_settings(tmp_path / name)
        assert settings["ImpalaAlgorithm.discount"] == discount
        assert settings["ImpalaAlgorithm.vtrace"] is True and settings["ImpalaAlgorithm.vtrace_lambda"] == 1.0
        assert not [name for name in settings if name.startswith("StopCriteria")]
        assert group == f"{name} in {tmp_path}"
        events = read_events(tmp_path / name / "train")
        overview = {x.partition("/")[2]: points for x, points in events.items() if x.startswith("Overview/")}
        assert overview == {
            "AverageReturn": events["metrics/AverageReturn"],
            "EpisodeLength": events["metrics/AverageEpisodeLength"],
            "train/loss": events["train/loss"],
            "throughput/steps_per_second_5min": events["throughput/steps_per_second_5min"],
        }


def test_a_run_is_one_row_of_tensorboard(tmp_path):
    env = functools.partial(MatchObservationEnvironment, 2)
    for name in ("a", "b"):
        evaluator = functools.partial(Evaluator, interval_steps=1, num_episodes=2, env=env)
        make_trainer(tmp_path / name, stop={"num_iterations": 2}, evaluator=evaluator).train()
    # TensorBoard's own reading of the folder, without its server.
    runs = EventMultiplexer()
    runs.AddRunsFromDirectory(str(tmp_path))
    runs.Reload()
    assert set(runs.Runs()) == {"a/train", "b/train"}
    page = backend_context.Context(TBContext(data_provider=MultiplexerDataProvider(runs, str(tmp_path))))
    request = api_pb2.ListSessionGroupsRequest(slice_size=10, allowed_statuses=[api_pb2.STATUS_UNKNOWN])
    rows = list_session_groups.Handler(RequestContext(), page, "", request).run().session_groups
    for name, row in zip("ab", sorted(rows, key=lambda row: row.name), strict=True):
        assert [session.name for session in row.sessions] == [f"{name}/train"]
        events = read_events(tmp_path / name / "train")
        values = {metric.name.tag: metric.value for metric in row.metric_values}
        scalars = {tag: points[-1][1] for tag, points in events.items() if isinstance(points[-1][1], float)}
        assert values == pytest.approx(scalars)
    infos = (
        get_experiment.Handler(RequestContext(), page, "", api_pb2.GetExperimentRequest()).run().metric_infos
    )
    figures = ["AverageReturn", "EpisodeLength", "eval/return_mean"]
    figures += ["throughput/steps_per_second_5min", "train/loss"]
    assert [x.name.tag for x in infos][: len(figures)] == [f"Overview/{x}" for x in figures]


# Each point.


def test_no_point_is_there_twice_or_missing(tmp_path):
    """The last iteration of a run with replay has no update; what came before is shown."""
    sizes = dict(replay_ratio=1 / 40, mini_batch_size=4)
    make_learner = functools.partial(CountingReplayLearner, optimizer=optimizers.Adam(1e-3), **sizes)

    seen = []

    class See(Callback):
        def on_train_iter(self, trainer, summary):
            seen.append(bool(summary))

    experiment = {"num_groups": 1, "learner": make_learner}
    trainer = make_dqn_trainer(tmp_path, 8, experiment=experiment, summary_interval=1e6)
    trainer.add_callback(See())
    trainer.train()
    assert True in seen and not seen[-1], "this run shows nothing"
    events = read_events(tmp_path / "train")
    assert {len(points) for points in events.values()} == {1}
    assert (
        "train/loss" in events and events["metrics/NumberOfEpisodes"][0][0] == trainer.counters["env_steps"]
    )
    columns, (row,) = read_rows(tmp_path / "progress.csv")
    assert row[columns.index("train/iterations")] == "8"


def test_points_without_collection_have_places_of_their_own(tmp_path):
    phases = dict(collect_until_env_steps=60, summary_interval=0.0, checkpoint_interval=0.0)
    make_dqn_trainer(tmp_path, 20, **phases, checkpoint_replay_buffer=True).train()
    trainer = make_dqn_trainer(tmp_path, 25, **phases, checkpoint_replay_buffer=True)
    trainer.train()
    steps = [step for step, _ in read_events(tmp_path / "train")["metrics/NumberOfEpisodes"]]
    env_steps = trainer.counters["env_steps"]
    assert len(set(steps)) == 25 and steps == sorted(steps)
    still = steps.index(env_steps)  # the last iteration that collected
    assert still < 20 and steps[still:] == [env_steps + i for i in range(25 - still)]
    rows = read_rows(tmp_path / "progress.csv")[1]
    assert [int(row[0]) for row in rows][still:] == [env_steps] * (25 - still)


# On demand.


def test_histograms_are_written_with_each_point(tmp_path):
    make = functools.partial(
        build_learner,
        optimizer=optimizers.Adam(1e-3),
        debug_summaries=True,
        summarize_grads_and_vars=True,
    )
    experiment = {"learner": make, "driver": SyncOffPolicyDriver}
    make_trainer(tmp_path, stop={"num_iterations": 3}, experiment=experiment, summary_interval=0.0).train()
    kinds = read_kinds(tmp_path / "train")
    names = [name for name, kind in kinds.items() if kind == "histograms"]
    assert {name.partition("/")[0] for name in names} == {"debug", "gradients", "variables"}
    summaries = read_summaries(tmp_path / "train")
    assert all([s for s, _ in summaries[x]] == [s for s, _ in summaries["train/loss"]] for x in names)
    (_, rewards), *_ = summaries["debug/reward"]
    buckets = tf.make_ndarray(rewards.tensor)
    assert buckets.shape == (30, 3) and buckets[:, 2].sum() == 4 * 4 * 2  # unrolls of two environments


def test_a_million_of_more_numbers_make_a_histogram(tmp_path, monkeypatch):
    """Those that count are from all columns of an image, in the shares that they have."""
    monkeypatch.setattr(summary_writer, "_MOST_NUMBERS", 3000)
    images = np.tile(np.arange(30, dtype=np.uint8), (20, 10, 1))  # 6000 numbers, of which none is rare
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=0):
        write_histogram("x", images)
    ((_, value),) = read_summaries(tmp_path)["x"]
    counts = tf.make_ndarray(value.tensor)[:, 2]
    assert counts.sum() == 3000 and 60 < counts.min() <= counts.max() < 140


@pytest.mark.parametrize(
    "values, expected",
    [
        ([1.0, 2.0, 2.0, 31.0], {0: 1, 1: 2, 29: 1}),
        ([np.nan, 0.0, np.inf, 30.0], {0: 1, 29: 1}),
        (np.full((3, 4), 7, np.uint8), {15: 12}),
        ([True, False], {0: 1, 29: 1}),
        ([], {}),
    ],
    ids=["numbers", "not_finite", "equal", "bool", "none"],
)
def test_a_histogram_counts(tmp_path, values, expected):
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=1):
        write_histogram("x", values)
    ((_, value),) = read_summaries(tmp_path)["x"]
    left, right, counts = tf.make_ndarray(value.tensor).T
    assert {i: int(n) for i, n in enumerate(counts) if n} == expected
    assert (left[1:] == right[:-1]).all()


def test_a_custom_summary_is_called_at_each_summary(tmp_path):
    def summarize(trainer):
        tf.summary.scalar("my/updates", trainer.learner.progress.updates)
        tf.summary.histogram("my/values", [1.0, 2.0])

    stop = {"num_iterations": 4}
    make_counting_trainer(tmp_path, stop=stop, summary_interval=0.0, custom_summary=summarize).train()
    events = read_events(tmp_path / "train")
    steps = [step for step, _ in events["train/loss"]]
    assert events["my/updates"] == list(zip(steps, (1, 2, 3, 4), strict=True))
    assert read_kinds(tmp_path / "train")["my/values"] == "histograms"


@pytest.mark.parametrize("makes_partial", [False, True])
def test_a_custom_summary_may_take_the_last_rollout(tmp_path, makes_partial):
    seen = []

    def summarize(trainer, rollout, unit=1):
        assert rollout is trainer.learner.rollout
        seen.append(rollout.reward.shape)

    custom = functools.partial(summarize, unit=2) if makes_partial else summarize
    make_trainer(tmp_path, stop={"num_iterations": 2}, summary_interval=0.0, custom_summary=custom).train()
    assert set(seen) == {(1, 5, 4)}


def test_what_ends_the_run_during_a_summary_is_shown(tmp_path):
    """Episodes end while a summary is written: the run ends by figures that this summary has not."""

    def reach_the_target(trainer):
        if trainer.metrics["BalancedReturn"].is_full:
            trainer.metrics["BalancedReturn"].result = lambda: np.float32(1000.0)

    stop = {"num_iterations": 500, "target_return": 999.0}
    make_counting_trainer(tmp_path, stop=stop, summary_interval=0.0, custom_summary=reach_the_target).train()
    columns, rows = read_rows(tmp_path / "progress.csv")
    returns = [float(row[columns.index("metrics/BalancedReturn")] or 0.0) for row in rows]
    assert returns[-1] == 1000.0 and max(returns[:-1]) < 999.0
    steps = [int(row[0]) for row in rows]
    assert len(set(steps)) == len(steps) > 1


def test_errors_of_a_custom_summary(tmp_path, caplog):
    with pytest.raises(ConfigError, match="Summaries.custom is 3: it must be a class or function"):
        make_counting_trainer(tmp_path / "a", custom_summary=3)
    for custom in (lambda: None, lambda trainer, values: None, lambda *, rollout: None):
        with pytest.raises(ConfigError, match="Summaries.custom: .*lambda.* cannot be called .*: it gets"):
            make_counting_trainer(tmp_path / "a", custom_summary=custom)
    stop = dict(stop={"num_iterations": 3}, summary_interval=0.0)

    def fail(error, trainer):
        raise error

    with pytest.raises(ZeroDivisionError):
        make_counting_trainer(
            tmp_path / "b", custom_summary=functools.partial(fail, ZeroDivisionError()), **stop
        ).train()
    full = OSError(errno.ENOSPC, "No space left on device")
    make_counting_trainer(tmp_path / "c", custom_summary=functools.partial(fail, full), **stop).train()
    assert "No space left on device" in caplog.text
    assert len(read_events(tmp_path / "c" / "train")["train/loss"]) == 3


def test_an_error_of_a_custom_summary_that_becomes_a_warning_is_named(tmp_path, caplog):
    for error in (
        FileNotFoundError(2, "No such file", "mine.csv"),
        tf.errors.InternalError(None, None, "mine"),
    ):

        def summarize(trainer, error=error):
            tf.summary.scalar("my/updates", trainer.learner.progress.updates)
            raise error

        caplog.clear()
        folder, stop = tmp_path / type(error).__name__, dict(stop={"num_iterations": 3})
        make_counting_trainer(folder, custom_summary=summarize, summary_interval=0.0, **stop).train()
        (found,) = [x for x in caplog.records if x.levelname == "WARNING" and "mine" in x.getMessage()]
        assert found.getMessage().startswith(f"Summaries.custom raised {type(error).__name__}: ")
        assert found.exc_info[1] is error  # the log has the line where it arose
        assert len(read_events(folder / "train")["my/updates"]) == 3
        assert "no summaries can be written" not in caplog.text


# Videos.


class Drawn(MatchObservationEnvironment):
    """Frame n of an environment is all of colour n; it notes how it was made."""

    render_fps = 10
    modes = []

    def __init__(self, seed=0, batch_size=2, render_mode=None, size=(6, 8, 3)):
        super().__init__(batch_size, episode_length=5, seed=seed)
        self.modes.append(render_mode)
        self._size, self.num_frames = size, 0

    def _render(self):
        self.num_frames += 1
        return np.full(self._size, 10 * self.num_frames, np.uint8)


def read_gif(content):
    """The frames' colours, the size, and the milliseconds that a frame is shown."""
    with PIL.Image.open(io.BytesIO(content)) as image:
        colours = []
        for i in range(image.n_frames):
            image.seek(i)
            colours.append(np.array(image.convert("RGB"))[0, 0, 0])
        return colours, image.size, image.info["duration"]


def evaluating(**settings):
    return functools.partial(Evaluator, num_episodes=3, batch_size=2, **settings)


def test_every_second_evaluation_has_a_video(tmp_path):
    Drawn.modes.clear()
    evaluator = evaluating(interval_steps=1, env=Drawn, video_interval=2, video_frames=3)
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 100}, evaluator=evaluator)
    ended, poll = [], find_evaluator(trainer).poll

    def poll_and_stop(timeout=0.0):
        ended.append(evaluation := poll(60.0))
        if len(ended) == 3:
            trainer.stop("enough")
        return evaluation

    find_evaluator(trainer).poll = poll_and_stop
    trainer.train()
    assert Drawn.modes == ["rgb_array"]
    shown = [i for i, evaluation in enumerate(ended[:3]) if evaluation.video]
    assert shown == [0, 2]
    videos = read_summaries(tmp_path / "train")["eval/video"]
    means = read_events(tmp_path / "train")["eval/return_mean"]
    assert [step for step, _ in videos][: len(shown)] == [means[i][0] for i in shown]
    width, height, content = tf.make_ndarray(videos[0][1].tensor)
    assert (width, height) == (b"8", b"6")
    assert videos[0][1].metadata.plugin_data.plugin_name == "images"
    assert read_gif(content) == ([20, 30, 40], (8, 6), 100)  # the first frame was a check


def test_a_picture_is_not_large():
    recorder = GifRecorder(Drawn(size=(480, 960, 3)), 2)
    for _ in range(5):
        recorder()
    gif = recorder.make_gif()
    assert (gif.width, gif.height) == (240, 120) == read_gif(gif.content)[1]
    assert GifRecorder(Drawn(), 3).make_gif() is None


def test_environments_that_do_not_render(tmp_path):
    closed = []

    class Blind(MatchObservationEnvironment):
        def __init__(self, seed):
            super().__init__(2)

        def close(self):
            closed.append(self)

    settings = dict(interval_steps=1, env=Blind, video_interval=1)
    with pytest.raises(
        ConfigError, match="Evaluator.video_interval is 1: the environment cannot be rendered"
    ):
        make_counting_trainer(tmp_path, evaluator=evaluating(**settings))
    assert len(closed) == 1 and not (tmp_path / "train").exists()


@pytest.mark.parametrize("name", ["video_interval", "video_frames"])
def test_wrong_settings(name):
    with pytest.raises(ConfigError, match=f"Evaluator.{name} is 0: "):
        Evaluator(interval_steps=1, **{name: 0})


CONFIG = """
alf.environments.load.name = "CartPole-v1"
ActorCriticNetwork.fc_layer_params = (8,)
"""


def test_a_video_of_a_game():
    """tensorboard_test has the process itself."""
    gin.parse_config(CONFIG)
    experiment = Experiment()
    env = experiment.make_env(batch_size=1, seed=0)
    specs = EnvSpecs([env])
    env.close()
    policy = experiment.make_policy(specs.observation, specs.action, specs.reward)
    settings = dict(batch_size=1, num_episodes=1, deterministic=True, seed=0)
    session = Session(policy, **settings, video_interval=1, video_frames=5)
    result = session.evaluate_weights(get_weights(policy))
    session.close()
    check_cartpole(*result.video)


def check_cartpole(width, height, content):
    colours, size, duration = read_gif(content)
    # Frames that look the same are one.
    assert size == (240, 160) == (int(width), int(height)) and duration % 20 == 0 and 2 <= len(colours) <= 5


@pytest.mark.parametrize("what", ["train", "train/*"])
def test_events_go_on_in_a_new_file_when_somebody_removes_them(what, tmp_path, caplog):
    summaries = SummaryWriter(str(tmp_path / "train"))
    summaries.describe(0, "a = 1")
    summaries.write(1, 1, 0.5, {"x": 2.0})
    for path in tmp_path.glob(what):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for step in (2, 3):
        summaries.write(step, step, 0.5, {"x": 2.0 * step})
    summaries.close()
    events = read_events(tmp_path / "train")
    assert events["x"] == [(2, 4.0), (3, 6.0)]
    # What is shown of the whole run is there, too.
    assert [text.strip() for _, text in events["config/operative_config"]] == ["a = 1"]
    (line,) = caplog.messages
    assert "was removed: a new file of events begins" in line
    assert len(read_rows(tmp_path / "progress.csv")[1]) == 3


def test_a_run_folder_that_is_removed_is_not_made_again(tmp_path, caplog):
    summaries = SummaryWriter(str(tmp_path / "run" / "train"))
    (tmp_path / "run").mkdir()
    summaries.write(1, 1, 0.5, {"x": 2.0})
    (tmp_path / "run").rename(tmp_path / "other")
    for step in (2, 3):
        summaries.write(step, step, 0.5, {"x": 2.0})
    summaries.close()
    assert not (tmp_path / "run").exists()
    assert caplog.text.count("no summaries can be written to") == 2  # the events and the table, once each


def test_what_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "train").write_text("")
    summaries = SummaryWriter(str(tmp_path / "train"))
    summaries.describe(0, "a = 1")
    summaries.write(1, 1, 0.5, {"metrics/AverageReturn": 2.0})
    summaries.close()
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1 and "no summaries can be written to" in warnings[0]
    assert len(read_rows(tmp_path / "progress.csv")[1]) == 1
