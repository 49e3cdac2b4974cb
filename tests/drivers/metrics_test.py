# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Metrics against a loop over single steps."""

import json
import math

import gin
import numpy as np
import pytest

from alf.data_structures import FIRST, LAST, MID, LogRecord
from alf.drivers.episode_statistics import EpisodeStatistics
from alf.drivers.log_thread import call_observers
from alf.drivers.metrics import EnvironmentSteps, NumberOfEpisodes, read_number
from alf.errors import ConfigError

NAMES = [
    "AverageReturn",
    "AverageDiscountedReturn",
    "AverageReward",
    "AverageStepDiscountedReturn",
    "AverageEpisodeLength",
    "MinReturn",
    "MaxReturn",
    "BalancedReturn",
    "MinEpisodeLength",
    "MaxEpisodeLength",
]
COMPONENTS = ["AverageReturn", "AverageDiscountedReturn", "AverageReward", "AverageStepDiscountedReturn"]
KINDS = ("info", "info_last", "info_sum")
KEYS = ("speed", "deep/goal")


class StepByStep:
    """What the metrics should be, computed one step of one environment at a time."""

    def __init__(self, window=100, discount=0.99):
        self._window, self._discount = window, discount
        self._under_way = {}  # env id -> list of (reward, infos) of its steps
        self.steps, self.rows = 0, set()  # and the environments that have made steps
        self.episodes = []  # pairs of env id and dict of figures, in the order in which they ended

    def __call__(self, record):
        for t in range(record.step_type.shape[0]):
            for b, env_id in enumerate(record.env_id.tolist()):
                infos = {key: float(x[t, b]) for key, x in dict(record.env_info).items()}
                self._step(env_id, record.step_type[t, b], np.float64(record.reward[t, b]), infos)

    def _step(self, env_id, step_type, reward, infos):
        if step_type == FIRST:
            self._under_way[env_id] = []
            return
        self.steps += 1
        self.rows.add(env_id)
        self._under_way[env_id].append((reward, infos))
        if step_type == LAST:
            self.episodes.append((env_id, self._describe(self._under_way.pop(env_id))))

    def _describe(self, steps):
        figures = {"AverageEpisodeLength": len(steps)}
        figures |= self._describe_rewards("", [float(np.sum(reward)) for reward, _ in steps])
        for i in range(np.size(steps[0][0])):
            figures |= self._describe_rewards(f"_{i}", [float(np.ravel(reward)[i]) for reward, _ in steps])
        for key in KEYS:
            values = [infos.get(key, math.nan) for _, infos in steps]
            figures[f"info_last/{key}"] = values[-1]
            values = [x for x in values if not math.isnan(x)]
            figures[f"info/{key}"] = np.mean(values) if values else math.nan
            figures[f"info_sum/{key}"] = sum(values) if values else math.nan
        return figures

    def _describe_rewards(self, suffix, rewards):
        def discounted(rewards):
            return sum(self._discount**k * r for k, r in enumerate(rewards))

        figures = [
            sum(rewards),
            discounted(rewards),
            np.mean(rewards),
            np.mean([discounted(rewards[t:]) for t in range(len(rewards))]),
        ]
        return {f"{name}{suffix}": value for name, value in zip(COMPONENTS, figures, strict=True)}

    def values(self, name):
        """A figure of the last episodes that have it."""
        name = name.replace("Min", "Average").replace("Max", "Average")
        values = [figures[name] for _, figures in self.episodes]
        return [x for x in values if not math.isnan(x)][-self._window :]

    def last_returns(self, num_rows):
        """The last returns of each environment: as many of each as fill the window together."""
        number = math.ceil(self._window / num_rows)
        found = [[x["AverageReturn"] for i, x in self.episodes if i == row] for row in range(num_rows)]
        return [values[-number:] for values in found], number

    def result(self, name):
        values = self.values(name) or [math.nan]
        return {"Min": np.min, "Max": np.max}.get(name[:3], np.mean)(values)


class Worlds:
    """Random steps of `num_groups` batched environments, in order for each."""

    def __init__(self, rng, num_groups, batch_size, p_end, reward_shape=(), with_info=False):
        self._rng = rng
        self._ids = np.arange(num_groups * batch_size, dtype=np.int32).reshape(num_groups, batch_size)
        self._step_type = np.full((num_groups, batch_size), LAST, np.int32)
        self._p_end = p_end
        self._reward_shape = reward_shape
        self._with_info = with_info

    def record(self, env, length):
        step_types = []
        for _ in range(length):
            ends = self._rng.random(self._ids.shape[1]) < self._p_end
            broken_off = self._rng.random(self._ids.shape[1]) < 0.03
            after = np.where(ends, LAST, MID)
            begins = broken_off | (self._step_type[env] == LAST)
            self._step_type[env] = np.where(begins, FIRST, after)
            step_types.append(self._step_type[env].copy())
        step_type = np.stack(step_types).astype(np.int32)
        # Not even the reward and the info of a reset may count.
        reward = self._draw((*step_type.shape, *self._reward_shape))
        record = LogRecord(step_type, reward, np.ones(step_type.shape, np.float32), self._ids[env])
        if not self._with_info:
            return record
        infos = [np.where(self._rng.random(step_type.shape) < p, np.nan, self._draw(step_type.shape))
                 for p in (0.2, 0.9)]  # fmt: skip
        return record._replace(env_info=dict(zip(KEYS, infos)))

    def _draw(self, shape):
        return self._rng.normal(size=shape).astype(np.float32)


def record_of(step_types, rewards, env_id=(0,)):
    """A record of one column, or of several."""
    step_type = np.array(step_types, np.int32).reshape(len(step_types), -1)
    reward = np.array(rewards, np.float32).reshape(step_type.shape)
    return LogRecord(step_type, reward, np.ones_like(reward), np.array(env_id, np.int32))


def feed(*records, **kwargs):
    """The metrics, by name, of statistics that have seen records."""
    statistics = EpisodeStatistics(**kwargs)
    for record in records:
        statistics(record)
    return {metric.name: metric for metric in statistics.metrics}


# Every length with every probability, each of them with all shapes, and with infos and without.
@pytest.mark.parametrize(
    "p_end, length, reward_shape, with_info",
    [
        (p_end, length, [(), (3,), (1,)][(i + j) % 3], (i + j // 2) % 2 == 1)
        for i, p_end in enumerate((0.0, 0.05, 0.5, 1.0))
        for j, length in enumerate((1, 2, 13))
    ],
)
def test_metrics_equal_the_loop_over_steps(p_end, length, reward_shape, with_info):
    """From episodes that never end to records that hold several, envs and rows in any order."""
    rng = np.random.default_rng(length)
    num_groups, window = 3, 30
    worlds = Worlds(rng, num_groups, 4, p_end, reward_shape, with_info)
    expected = StepByStep(window, discount=0.9)
    kwargs = dict(info_keys=KEYS) if with_info else {}
    rows = dict(num_groups=num_groups, batch_size=4)
    statistics = EpisodeStatistics(reward_shape, window=window, discount=0.9, **rows, **kwargs)
    counts = EnvironmentSteps(), NumberOfEpisodes()
    for _ in range(25):
        record = worlds.record(rng.integers(num_groups), length)
        for observer in (expected, statistics, *counts):
            observer(record)
        assert [metric.result() for metric in counts] == [expected.steps, len(expected.episodes)]
        figures = [metric for metric in statistics.metrics if metric.name != "BalancedReturn"]
        for metric in figures:
            np.testing.assert_allclose(
                metric.result(), expected.result(metric.name), rtol=1e-6, atol=1e-6, err_msg=metric.name
            )
            np.testing.assert_allclose(
                metric.get_state(), expected.values(metric.name), rtol=1e-6, atol=1e-6, err_msg=metric.name
            )
        (balanced,) = [metric for metric in statistics.metrics if metric not in figures]
        last, number = expected.last_returns(num_rows=12)
        for row, values in zip(balanced.get_state(), last, strict=True):
            np.testing.assert_allclose(row or [], values, rtol=1e-6, atol=1e-6)
        has_begun = len({row // 4 for row in expected.rows}) == num_groups
        count = min(len(last[row]) for row in expected.rows) if has_begun else 0
        mean = np.mean([last[row][-count:] for row in expected.rows]) if count else math.nan
        np.testing.assert_allclose(balanced.result(), mean, rtol=1e-6, atol=1e-6)
        assert balanced.is_full == (count == number)


def test_an_info_key_that_never_comes_is_told_once(caplog):
    """Ten episodes are enough; a key that only the last step of one of them has is there."""

    def play(num_episodes, values):
        records = []
        for i in range(num_episodes):
            record = record_of([FIRST, MID, LAST], [9, 1, 2])
            infos = {
                "speed": [math.nan, 1, 1],
                "is_success": [math.nan, math.nan, values[i]],
                "is_sucess": [3, math.nan, math.nan],
            }
            env_info = {key: np.array(x, np.float32)[:, np.newaxis] for key, x in infos.items()}
            records.append(record._replace(env_info=env_info))
        caplog.clear()
        feed(*records, info_keys=tuple(infos))
        return [record.getMessage() for record in caplog.records]

    assert play(9, [math.nan] * 9) == []
    assert play(25, [math.nan] * 8 + [1.0] + [math.nan] * 16) == [
        "info_keys has 'is_sucess': no step of 10 episodes had it in its info, so metrics/info/is_sucess has "
        "no value; is it misspelt?"
    ]


def test_names():
    assert list(feed()) == NAMES
    components = [f"{name}_{i}" for name in COMPONENTS for i in (0, 1)]
    assert list(feed(reward_shape=(2,))) == NAMES + components
    infos = [f"{kind}/{key}" for key in KEYS for kind in KINDS]
    assert list(feed(reward_shape=(2,), info_keys=KEYS)) == NAMES + components + infos
    undiscounted = [name for name in NAMES if name != "AverageStepDiscountedReturn"]
    assert list(feed(discount=1.0)) == undiscounted


def test_a_metric_shows_its_name_and_its_value():
    record = record_of([[FIRST], [MID], [LAST]], [[0], [1], [3]])
    assert repr(feed(record)["AverageReturn"]) == "<Metric AverageReturn: 4>"
    assert repr(feed()["MinReturn"]) == "<Metric MinReturn: nan>"
    assert repr(EnvironmentSteps()) == "<Metric EnvironmentSteps: 0>"


def test_the_returns_of_each_agent_are_those_of_its_rows():
    """The agent of an environment is its id modulo the number of agents, whichever batch it is in."""
    worlds = Worlds(np.random.default_rng(0), 3, 6, 0.3)
    agents, window = ("a", "b", "c"), 20
    statistics = EpisodeStatistics(window=window, agents=agents, num_groups=3, batch_size=6)
    expected = {agent: StepByStep(window) for agent in agents}
    for i in range(30):
        record = worlds.record(i % 3, 4)
        statistics(record)
        for k, agent in enumerate(agents):
            names = ("step_type", "reward", "discount", "env_id")
            own = {name: getattr(record, name)[..., k::3] for name in names}
            expected[agent](record._replace(**own))
    metrics = {metric.name: metric for metric in statistics.metrics}
    kinds = "Average", "Min", "Max"
    shown = [f"{kind}{figure}" for figure in ("Return", "EpisodeLength") for kind in kinds]
    assert list(metrics) == NAMES + [f"agents/{agent}/{name}" for agent in agents for name in shown]
    for agent in agents:
        values = metrics[f"agents/{agent}/AverageReturn"].get_state()
        assert len(values) == window
        np.testing.assert_allclose(values, expected[agent].values("AverageReturn"), rtol=1e-6, atol=1e-6)
        for name in shown:
            result = metrics[f"agents/{agent}/{name}"].result()
            np.testing.assert_allclose(result, expected[agent].result(name), rtol=1e-6, err_msg=name)


def test_the_episodes_and_steps_of_each_policy():
    """A policy has the steps that its actions led to; the reset of an environment is none."""
    record = record_of(
        [[FIRST, FIRST], [MID, LAST], [LAST, FIRST], [FIRST, MID]],
        [[0, 0], [1, 5], [1, 0], [0, 1]],
        env_id=(0, 1),
    )
    owner = np.array([[0, 1], [0, 1], [0, 0], [1, 0]], np.int32)
    metrics = feed(*[record._replace(owner=owner)] * 2, policies=("a", "b", "idle"), batch_size=2)
    results = {name: metrics[f"policies/{name}/EnvironmentSteps"].result() for name in ("a", "b", "idle")}
    assert results == {"a": 6, "b": 2, "idle": 0}
    assert metrics["policies/a/MaxReturn"].result() == 2 and metrics["policies/b/MinReturn"].result() == 5
    assert metrics["policies/a/MaxEpisodeLength"].result() == 2
    state = metrics["policies/a/EnvironmentSteps"].get_state()
    fresh = feed(policies=("a", "b", "idle"))["policies/a/EnvironmentSteps"]
    fresh.set_state(state)
    assert fresh.result() == 6


@pytest.mark.parametrize("setting, value", [("window", 0), ("discount", 1.5)])
def test_settings_are_checked_and_can_be_bound(setting, value):
    with pytest.raises(ConfigError, match=rf"EpisodeStatistics\.{setting} is {value}"):
        EpisodeStatistics(**{setting: value})
    gin.clear_config()
    try:
        gin.bind_parameter(f"alf.drivers.EpisodeStatistics.{setting}", value)
        with pytest.raises(ConfigError, match=setting):
            EpisodeStatistics()
    finally:
        gin.clear_config()


def test_episodes_of_a_record_are_kept_in_the_order_of_time():
    record = record_of(
        [[FIRST, FIRST], [MID, LAST], [LAST, FIRST], [FIRST, MID]],
        [[0, 0], [1, 5], [1, 0], [0, 1]],
        env_id=(0, 1),
    )
    # The first environment's ended later.
    assert feed(record, window=1, batch_size=2)["AverageReturn"].get_state() == [5.0, 2.0]


@pytest.mark.parametrize(
    "records, returns, lengths",
    [
        ([([FIRST, LAST], [0, 3])], [3], [1]),
        ([([FIRST, MID, FIRST, LAST], [0, 5, 0, 2])], [2], [1]),  # broken off
        ([([FIRST, MID], [0, 5]), ([FIRST, LAST, FIRST], [9, 2, 9])], [2], [1]),
        ([([FIRST], [0]), ([LAST], [3])], [3], [1]),
        ([([FIRST, MID], [0, 1]), ([LAST, FIRST], [3, 9])], [4], [2]),  # ends at row 0
        ([([FIRST, MID, LAST], [9, 1, 3]), ([FIRST, LAST, FIRST], [0, 7, 0])], [4, 7], [2, 1]),
        ([([FIRST, LAST, FIRST, LAST, FIRST], [0, 1, 0, 2, 0]), ([LAST], [3])], [1, 2, 3], [1] * 3),
        ([([FIRST, MID, MID], [0, 1, 1])], [], []),
    ],
)
def test_episodes_by_hand(records, returns, lengths):
    records = [record_of(*record) for record in records]
    metrics = feed(*records)
    assert metrics["AverageReturn"].get_state() == returns
    assert metrics["AverageEpisodeLength"].get_state() == lengths
    counts = EnvironmentSteps(), NumberOfEpisodes()
    for record in records:
        for count in counts:
            count(record)
    assert counts[0].result() == sum(np.count_nonzero(record.step_type != FIRST) for record in records)
    assert counts[1].result() == len(returns)


def test_an_episode_over_three_records_by_hand():
    nan = math.nan
    records = [
        (record_of([FIRST, MID, MID], [0, 1, 2]), [9, 0.5, nan]),
        (record_of([MID, MID], [4, 8]), [nan, 1.5]),
        (record_of([LAST, FIRST], [16, 0]), [4, 9]),
    ]
    records = [r._replace(env_info={"x": np.array(x, np.float32)[:, np.newaxis]}) for r, x in records]
    metrics = feed(*records, info_keys=("x",), discount=0.5, window=1)
    found = {name: metric.result() for name, metric in metrics.items()}
    assert found == {
        "AverageReturn": 31.0,
        "AverageStepDiscountedReturn": (5 + 8 + 12 + 16 + 16) / 5,
        "AverageEpisodeLength": 5.0,
        "MinReturn": 31.0,
        "MaxReturn": 31.0,
        "MinEpisodeLength": 5.0,
        "MaxEpisodeLength": 5.0,
        "AverageDiscountedReturn": 5.0,
        "AverageReward": 6.2,
        "BalancedReturn": 31.0,
        "info/x": 2.0,
        "info_last/x": 4.0,
        "info_sum/x": 6.0,
    }


def test_an_episode_without_a_value_does_not_count():
    record = record_of([FIRST, LAST, FIRST, LAST], [0, 1, 0, 1])
    info = np.array([[5], [math.nan], [5], [3]], np.float32)
    metrics = feed(record._replace(env_info={"x": info}), info_keys=("x",))
    assert metrics["info/x"].get_state() == metrics["info_last/x"].get_state() == [3.0]
    assert len(metrics["AverageReturn"].get_state()) == 2


def test_integer_rewards_are_exact_over_long_episodes():
    """float32 would stop counting at 2**24."""
    records = [record_of([MID], [1]) for _ in range(10)]
    metrics = feed(record_of([FIRST, MID], [0, 2**24]), *records, record_of([LAST], [1]))
    assert metrics["AverageReturn"].result() == 2**24 + 11


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_spoils_its_own_episode_alone(bad):
    records = [record_of([FIRST, LAST, FIRST, LAST, FIRST, LAST], [0, bad, 0, 1, 0, 2])]
    assert feed(*records, window=2)["AverageReturn"].result() == 1.5
    records += [
        record_of([FIRST, MID], [0, bad]),
        record_of([LAST, FIRST, MID], [1, 0, 1]),
        record_of([LAST, FIRST, LAST], [1, 0, 4]),
    ]
    for name in ("AverageReturn", "AverageReward"):
        found = feed(*records, window=2)[name].get_state()
        assert found == ([2.0, 4.0] if name == "AverageReturn" else [1.0, 4.0])


def test_without_episodes():
    assert [metric().result() for metric in (EnvironmentSteps, NumberOfEpisodes)] == [0, 0]
    assert all(math.isnan(metric.result()) for metric in feed(info_keys=KEYS).values())
    assert all(metric.name == type(metric).__name__ for metric in (EnvironmentSteps(), NumberOfEpisodes()))


def test_state_makes_a_round_trip_through_json():
    rng = np.random.default_rng(1)
    worlds = Worlds(rng, num_groups=1, batch_size=3, p_end=0.3, with_info=True)
    record = worlds.record(0, 40)
    make = lambda: EpisodeStatistics(info_keys=KEYS, window=9, batch_size=3)  # noqa: E731
    statistics, restored = make(), make()
    counts, restored_counts = (
        [EnvironmentSteps(), NumberOfEpisodes()],
        [EnvironmentSteps(), NumberOfEpisodes()],
    )
    for observer in (statistics, *counts):
        observer(record)
    pairs = list(zip(counts + statistics.metrics, restored_counts + restored.metrics, strict=True))
    for metric, other in pairs:
        assert metric.get_state() and math.isfinite(metric.result())
        other.set_state(json.loads(json.dumps(metric.get_state())))
        assert other.result() == metric.result()
        assert other.get_state() == metric.get_state()
    # It goes on counting. The environments start anew, so do their episodes.
    after = record_of([[FIRST] * 3, [MID] * 3, [LAST] * 3], np.arange(9), env_id=(0, 1, 2))
    after = after._replace(env_info={key: np.ones((3, 3), np.float32) for key in KEYS})
    for observer in (statistics, restored, *counts, *restored_counts):
        observer(after)
    for metric, other in pairs:
        assert other.result() == pytest.approx(metric.result())


def test_a_state_of_a_longer_window_is_cut_to_the_newest():
    metrics = feed(window=2)
    metrics["AverageReturn"].set_state([1.0, 2.0, 3.0])
    assert metrics["AverageReturn"].get_state() == [2.0, 3.0]
    assert metrics["MinReturn"].result() == 2.0


def play_metrics(lengths, num_steps, num_groups=1, reward=-1.0, window=100, drawn=False, **kwargs):
    """Statistics of steps of `reward`: row b plays episodes of length `lengths[b]`, or of drawn lengths.

    Length 0 is of a row that never acts.
    """
    rng, lengths = np.random.default_rng(0), np.array(lengths)
    batch_size = len(lengths) // num_groups
    statistics = EpisodeStatistics(window=window, num_groups=num_groups, batch_size=batch_size, **kwargs)
    now, length = np.zeros(len(lengths), np.int64), rng.permutation(lengths) if drawn else lengths
    rows = []
    for _ in range(num_steps + 1):
        acts = lengths > 0
        rows.append(np.where((now == 0) | ~acts, FIRST, np.where(now == length, LAST, MID)))
        length = np.where((now == length) & drawn, rng.permutation(lengths), length)
        now = np.where(rows[-1] == LAST, 0, now + 1)
    step_type = np.stack(rows).astype(np.int32)
    for ids in np.arange(len(lengths), dtype=np.int32).reshape(num_groups, batch_size):
        part = step_type[:, ids]
        rewards = np.where(part == FIRST, 0.0, reward).astype(np.float32)
        statistics(LogRecord(part, rewards, np.ones_like(rewards), ids))
    return {metric.name: metric for metric in statistics.metrics}


def play(*args, **kwargs):
    return {name: metric.result() for name, metric in play_metrics(*args, **kwargs).items()}


@pytest.mark.parametrize("num_groups", [1, 4])
def test_the_window_holds_an_episode_of_each_environment(num_groups):
    """256 environments of one length: the last 100 to be logged would be the ones without a return."""
    statistics = EpisodeStatistics(num_groups=num_groups, batch_size=256 // num_groups)
    returns = np.where(np.arange(256) < 156, 5.0, 0.0).reshape(num_groups, -1)
    ids = np.arange(256, dtype=np.int32).reshape(num_groups, -1)
    for env in range(num_groups):
        step_types = np.repeat([[FIRST], [MID], [LAST]], 256 // num_groups, axis=1)
        statistics(record_of(step_types, [0 * returns[env], 0 * returns[env], returns[env]], ids[env]))
    metrics = {metric.name: metric.result() for metric in statistics.metrics}
    assert metrics["AverageReturn"] == metrics["BalancedReturn"] == 5.0 * 156 / 256
    assert metrics["MinReturn"] == 0.0 and metrics["MaxReturn"] == 5.0


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("num_groups", [1, 8])
def test_short_episodes_do_not_count_more(num_groups, drawn):
    """1,024 environments with -1 a step and lengths of 1 to 200, each its own or drawn anew."""
    lengths = np.arange(1024) % 200 + 1
    early = play(lengths, 20, num_groups, drawn=drawn)
    assert early["AverageReturn"] > -20 and math.isnan(early["BalancedReturn"])
    for num_steps in (420, 1000):
        later = play(lengths, num_steps, num_groups, drawn=drawn)
        assert later["BalancedReturn"] == pytest.approx(-lengths.mean(), abs=6.0 if drawn else 1e-6)


@pytest.mark.parametrize("num_rows, number", [(1, 100), (2, 50), (3, 34), (100, 1), (101, 1)])
def test_environments_have_equal_numbers_of_episodes_in_the_window(num_rows, number):
    """One environment has the window for itself; with several, the slowest one decides when it is full."""
    lengths = [2] * (num_rows - 1) + [3]
    expected = (2 * (num_rows - 1) + 3) / num_rows
    for num_steps, is_full in ((4 * number - 2, False), (4 * number - 1, True)):  # an episode and a reset: 4
        metric = play_metrics(lengths, num_steps)["BalancedReturn"]
        assert metric.is_full == is_full
        assert metric.result() == pytest.approx(-expected) or (number == 1 and not is_full)


def test_the_newest_episodes_of_each_environment_are_kept():
    records = [record_of([FIRST, LAST], [0, i]) for i in range(5)]
    assert feed(*records, window=2)["BalancedReturn"].result() == 3.5
    metric = feed(records[4], window=2)["BalancedReturn"]
    assert metric.result() == 4 and not metric.is_full
    assert math.isnan(feed(window=2)["BalancedReturn"].result()) and not feed()["BalancedReturn"].is_full


def test_environments_count_as_many_episodes_as_the_slowest_one_has_ended():
    fast = [record_of([FIRST, LAST], [0, i]) for i in range(5)]
    slow = [record_of([FIRST, MID], [0, 0], env_id=(1,)), record_of([LAST], [100], env_id=(1,))]
    rows = dict(num_groups=2, window=6)
    assert math.isnan(feed(*fast, slow[0], **rows)["BalancedReturn"].result())
    metric = feed(*fast, *slow, **rows)["BalancedReturn"]
    assert metric.result() == (4 + 100) / 2 and not metric.is_full
    assert feed(*fast, *slow, *2 * [record_of([FIRST, LAST], [0, 7], (1,))], **rows)["BalancedReturn"].is_full


def test_each_policy_has_a_balanced_return_of_the_rows_in_which_it_acts():
    """Row 0 of each of 2 batches is of policy "a", of short episodes, and row 1 of "b" in the first batch."""

    def record(env_id, rewards, owner):
        step_types = np.repeat([[FIRST], [LAST]], 2, axis=1)
        given = record_of(step_types, [[0, 0], rewards], env_id)
        return given._replace(owner=np.array(owner).repeat(2, 0))

    records = [record((0, 1), [i, 10 * i], [[0, 1]]) for i in range(4)]
    records += [record((2, 3), [100, 7], [[0, 2]])]
    kwargs = dict(policies=("a", "b", "c", "d"), num_groups=2, batch_size=2, window=4)
    metrics = feed(*records, **kwargs)
    balanced = {name: metrics[f"policies/{name}/BalancedReturn"] for name in "abcd"}
    assert balanced["a"].result() == (3 + 100) / 2
    assert balanced["b"].result() == (0 + 10 + 20 + 30) / 4 and balanced["b"].is_full
    assert balanced["c"].result() == 7
    assert math.isnan(balanced["d"].result())
    assert metrics["BalancedReturn"].result() == (3 + 30 + 100 + 7) / 4
    # A policy that takes what another one has learned acts in its own rows as before.
    balanced["a"].set_state(balanced["b"].get_state())
    assert balanced["a"].result() == 15
    balanced["a"].add(np.array([0, 2]), np.array([5.0, 5.0]))
    assert balanced["a"].result() == (2 * 5 + 2 * (10 + 20 + 30)) / 8


def test_rows_that_never_act_do_not_count():
    """The rows of agents that take no part in a game: they have only FIRST steps."""
    assert play([2, 0, 4, 0], 30, window=1)["BalancedReturn"] == -3
    # An environment that has not begun is another matter: its records have one row, of a reset, at first.
    begun, waits = record_of([FIRST, LAST], [0, 1]), record_of([FIRST], [0], env_id=(1,))
    metric = feed(begun, waits, num_groups=2, window=1)["BalancedReturn"]
    assert math.isnan(metric.result())
    metric = feed(begun, waits, record_of([LAST], [3], env_id=(1,)), num_groups=2, window=1)["BalancedReturn"]
    assert metric.result() == 2.0


def test_a_long_first_episode_is_waited_for_after_a_restart():
    """Nor does a checkpoint forget which rows act."""
    both = record_of([[FIRST, FIRST], [LAST, MID]], [[0, 0], [1, 0]], env_id=(0, 1))
    state = json.loads(json.dumps(feed(both, batch_size=2, window=1)["BalancedReturn"].get_state()))
    restored = feed(batch_size=2, window=1)["BalancedReturn"]
    restored.set_state(state)
    assert state == [[1.0], []] and math.isnan(restored.result())


@pytest.mark.parametrize("num_rows", [1, 2, 3])
def test_a_state_of_another_number_of_environments(num_rows):
    metric = feed(batch_size=num_rows, window=2)["BalancedReturn"]
    metric.set_state([[1.0, 2.0, 3.0], [5.0]])
    expected = {1: [[2.0, 3.0]], 2: [[3.0], [5.0]], 3: [[3.0], [5.0], None]}[num_rows]
    assert metric.get_state() == expected


WRONG_RESULTS = {
    "array": (np.zeros(2), r"a result of shape \(2,\)"),
    "list": ([1.0], r"a result of shape \(1,\)"),
    "text": ("many", "the result 'many'"),
    "None": (None, "the result None"),
}


@pytest.mark.parametrize("case", WRONG_RESULTS)
def test_a_metric_whose_result_is_no_number_is_one_line(case):
    value, message = WRONG_RESULTS[case]
    metric = EnvironmentSteps()
    metric.result = lambda: value
    assert str(value) in repr(metric)  # logs and gin's configuration have it
    with pytest.raises(ConfigError, match=f"EnvironmentSteps' has {message}: .* one number$"):
        read_number(metric)


@pytest.mark.parametrize("value", [3, 0.5, True, np.float32(0.5), np.zeros(()), float("nan")])
def test_numbers_of_all_kinds_are_results(value):
    metric = EnvironmentSteps()
    metric.result = lambda: value
    assert read_number(metric) is value and "<Metric EnvironmentSteps: " in repr(metric)


def test_an_observer_of_trajectories_is_one_line():
    record = LogRecord(*np.zeros([4, 1, 1]))

    def observe(trajectory):
        trajectory.is_last()

    def fail(_):
        np.no_such_function  # noqa: B018

    with pytest.raises(
        ConfigError, match="the observer observe reads 'is_last' of a LogRecord, which has step_type, "
    ):
        call_observers([observe], record)
    with pytest.raises(AttributeError, match="no_such_function"):
        call_observers([fail], record)
