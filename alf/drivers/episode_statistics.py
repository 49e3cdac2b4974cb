# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EpisodeStatistics: the figures of each episode, and the metrics that show them."""

import collections
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from absl import logging

from alf.config.kinds import Fraction, NonNegativeInt, PositiveInt
from alf.config.settings import PASSED, Role, configurable
from alf.data_structures import FIRST, LAST, LogRecord
from alf.drivers.metrics import BalancedReturn, EpisodeMetric, PolicySteps

_MISSING_EPISODES = 10  # without a value of an info key, after which the log says so


@configurable("alf.drivers", role=Role.MEASUREMENT)
class EpisodeStatistics:
    """Computes figures of each episode, in one pass over each `LogRecord`. A driver calls it as an observer.

    Args:
        reward_shape: tuple, () or (R,).
        info_keys: tuple of texts, the K keys of `LogRecord.env_info`.
        window: int, the number of last episodes that metrics average over. It is at least the number of rows,
            num_groups * batch_size.
        discount: number in [0, 1], the discount of the discounted return.
        agents: tuple of A texts, empty for one agent; column b is agent b % A. Each agent has metrics of its
            own, "agents/NAME/...".
        policies: tuple of texts, empty for one policy; `LogRecord.owner` is the policy that acts. Each policy
            has metrics of its own, "policies/NAME/...".
        num_groups, batch_size: ints, the batched environments, and the rows of each.

    Attributes:
        metrics: list of `EpisodeMetric`s, `BalancedReturn`, and the `PolicySteps` of several policies.
    """

    def __init__(
        self,
        reward_shape: Annotated[Sequence[int], PASSED] = (),
        info_keys: Annotated[Sequence[str], PASSED] = (),
        window: PositiveInt = 100,
        discount: Fraction = 0.99,
        agents: Annotated[Sequence[str], PASSED] = (),
        policies: Annotated[Sequence[str], PASSED] = (),
        num_groups: Annotated[NonNegativeInt, PASSED] = 1,
        batch_size: Annotated[NonNegativeInt, PASSED] = 1,
    ) -> None:
        self._num_rewards = reward_shape[0] if reward_shape else 1
        self._info_keys = tuple(info_keys)
        self._discount, self._powers = discount, ()
        # The rows of the sums: the R rewards, the length, the R discounted sums, the K infos, and for each
        # info the number of steps that have it.
        self._length = self._num_rewards
        self._info = self._length + 1 + self._num_rewards
        self._discounted = slice(self._length + 1, self._info)
        self._agents, self._policies = tuple(agents), tuple(policies)
        self._missing = dict.fromkeys(self._info_keys, 0)  # episodes so far, without any value of a key
        self._sums = {}  # first env id of a batched environment -> sums of its unfinished episodes, [., B]
        # With fewer episodes than rows, only the rows that ended last would be seen.
        length = max(window, num_groups * batch_size)
        self._figures = collections.defaultdict(lambda: collections.deque(maxlen=length))
        self._balanced = BalancedReturn(num_groups, batch_size, window)
        self._policy_steps = [PolicySteps(name) for name in self._policies]
        # Of one batch: a policy need not act in each. Each of P policies has one of P rows, if all are equal.
        one_batch = 1, num_groups * batch_size, window * len(self._policies)
        self._balanced_of = [
            BalancedReturn(*one_batch, f"policies/{name}/BalancedReturn") for name in self._policies
        ]
        self.metrics = self._make_metrics(len(reward_shape) > 0)

    def _make_metrics(self, has_components):
        figures = self._figures
        averages = {
            "AverageReturn": "return",
            "AverageDiscountedReturn": "discounted_return",
            "AverageReward": "reward",
        }
        if self._discount < 1:
            averages["AverageStepDiscountedReturn"] = "step_discounted_return"
        metrics = [EpisodeMetric(name, figures[key]) for name, key in averages.items()]
        metrics += [
            EpisodeMetric("AverageEpisodeLength", figures["length"]),
            EpisodeMetric("MinReturn", figures["return"], min),
            EpisodeMetric("MaxReturn", figures["return"], max),
            self._balanced,
            EpisodeMetric("MinEpisodeLength", figures["length"], min),
            EpisodeMetric("MaxEpisodeLength", figures["length"], max),
        ]
        components = range(self._num_rewards if has_components else 0)
        for name, key in averages.items():
            metrics += [EpisodeMetric(f"{name}_{i}", figures[f"{key}_{i}"]) for i in components]
        names = [f"{kind}/{key}" for key in self._info_keys for kind in ("info", "info_last", "info_sum")]
        metrics += [EpisodeMetric(name, figures[name]) for name in names]
        shown = [(name, name, np.mean) for name in names]
        for key, name in (("return", "Return"), ("length", "EpisodeLength")):
            shown += [(f"Average{name}", key, np.mean), (f"Min{name}", key, min), (f"Max{name}", key, max)]
        labels = [f"agents/{name}" for name in self._agents] + [f"policies/{name}" for name in self._policies]
        for label in labels:
            metrics += [EpisodeMetric(f"{label}/{k}", figures[f"{label}/{v}"], f) for k, v, f in shown]
        return metrics + self._balanced_of + self._policy_steps

    def __call__(self, record: LogRecord) -> None:
        key = int(record.env_id[0])
        length, batch_size = record.step_type.shape
        # Environment by environment, so that the steps of an episode are neighbours: row t of column b is at
        # b * length + t. An episode begins at a FIRST step; the episode in row 0 may have begun in another
        # record.
        is_first = record.step_type.T.ravel() == FIRST
        begins = is_first.copy()
        begins[::length] = True
        (starts,) = begins.nonzero()
        number = begins.cumsum() - 1  # of the episode of each step
        # Steps of the episode in this record before each step.
        age = np.arange(len(number)) - (starts + is_first[starts]).take(number)
        sums = np.add.reduceat(self._values(record, is_first, age), starts, axis=1)
        if key in self._sums:
            oldest = number[::length]
            # The oldest episode of each column goes on from the record before, unless row 0 is a FIRST step.
            # Its rewards here are as many steps older as it had steps before: they are discounted by so much
            # more.
            before = np.where(is_first[::length], 0.0, self._sums[key])
            here = sums.take(oldest, axis=1)
            here[self._discounted] *= self._discount ** before[self._length]
            sums[:, oldest] = before + here
        # Of the last step of each column. If that ended the episode, the next row 0 is a FIRST step, and
        # these sums are dropped.
        self._sums[key] = sums.take(number[length - 1 :: length], axis=1)
        acts = self._sums[key][self._length] > 0
        self._balanced.note_steps(record.env_id[acts])
        for i, balanced in enumerate(self._balanced_of):
            balanced.note_steps(record.env_id[acts & (record.owner[-1] == i)])
        if self._policies:
            steps = np.bincount(record.owner[record.step_type != FIRST], minlength=len(self._policies))
            for metric, count in zip(self._policy_steps, steps.tolist(), strict=True):
                metric.add(count)
        (ends,) = (record.step_type.ravel() == LAST).nonzero()  # in the order of time
        if len(ends):
            row, column = np.divmod(ends, batch_size)
            last = [record.env_info[info_key][row, column] for info_key in self._info_keys]
            labels = {
                f"agents/{name}": column % len(self._agents) == i for i, name in enumerate(self._agents)
            }
            if self._policies:
                owner = record.owner[row, column]
                labels |= {f"policies/{name}": owner == i for i, name in enumerate(self._policies)}
            sums = sums.take(number[column * length + row], axis=1)
            self._warn_of_missing(sums[self._info + len(self._info_keys) :])
            returns = sums[: self._num_rewards].sum(axis=0)
            self._balanced.add(record.env_id[column], returns)
            for i, balanced in enumerate(self._balanced_of):
                balanced.add(record.env_id[column[owner == i]], returns[owner == i])
            self._keep("", sums, last)
            for label, is_of in labels.items():
                if is_of.any():
                    self._keep(f"{label}/", sums[:, is_of], [x[is_of] for x in last])

    def _warn_of_missing(self, counts):
        """Warns of info keys, perhaps misspelt, that no step has had; `counts`, [K, E], of E episodes."""
        for key, count in zip(self._info_keys, counts, strict=True):
            if count.any():
                self._missing.pop(key, None)
            elif key in self._missing:
                self._missing[key] += len(count)
                if self._missing[key] >= _MISSING_EPISODES:
                    logging.warning(
                        "info_keys has %r: no step of %d episodes had it in its info, so metrics/info/%s has "
                        "no value; is it misspelt?",
                        *(key, self._missing.pop(key), key),
                    )

    def _values(self, record, is_first, age):
        """Returns the summands of each step, [., B * T]. A FIRST step adds nothing."""
        num_rewards, num_keys = self._num_rewards, len(self._info_keys)
        # float64, although rewards are float32: in a long episode the sum would soon be too large for small
        # rewards.
        values = np.empty((self._info + 2 * num_keys, len(age)))
        values[:num_rewards] = record.reward.T.reshape(num_rewards, -1)
        values[self._length] = 1.0
        values[: self._length + 1, is_first.nonzero()[0]] = 0.0
        # A step is at most T - 1 steps old in its record, so T powers serve all records of a driver.
        if len(self._powers) != len(record.step_type):
            self._powers = self._discount ** np.arange(len(record.step_type))
        np.multiply(values[:num_rewards], self._powers.take(age), out=values[self._discounted])
        for i, key in enumerate(self._info_keys, start=self._info):
            info = record.env_info[key].T.ravel()
            has_value = ~(np.isnan(info) | is_first)
            values[i] = np.where(has_value, info, 0.0)
            values[i + num_keys] = has_value
        return values

    def _keep(self, label, sums, last_info):
        """Keeps the figures of E episodes that ended, under names that begin with the label.

        Args:
            label: text, "" or "agents/NAME/" or "policies/NAME/".
            sums: array [., E], the sums of the episodes.
            last_info: list of K arrays [E], the info of their last steps.
        """
        lengths, figures = sums[self._length], {"length": sums[self._length]}
        by_component = {"return": sums[: self._num_rewards], "discounted_return": sums[self._discounted]}
        by_component["reward"] = by_component["return"] / lengths
        if self._discount < 1:
            # The return after each step, discounted from there, summed: r_l is in l of them, with the factors
            # 1, g, ..., g^(l-1), whose sum is (1 - g^l) / (1 - g).
            total = by_component["return"] - self._discount * by_component["discounted_return"]
            by_component["step_discounted_return"] = total / (1 - self._discount) / lengths
        for key, rows in by_component.items():
            figures[key] = rows.sum(axis=0)
            figures |= {f"{key}_{i}": x for i, x in enumerate(rows)}
        middle = self._info + len(self._info_keys)
        totals, counts = sums[self._info : middle], sums[middle:]
        for key, total, count, last in zip(self._info_keys, totals, counts, last_info, strict=True):
            # An episode without a value does not count.
            figures[f"info/{key}"] = total[count > 0] / count[count > 0]
            figures[f"info_sum/{key}"] = total[count > 0]
            figures[f"info_last/{key}"] = last[~np.isnan(last)]
        for name, values in figures.items():
            if label + name in self._figures:  # agents and policies have fewer figures
                self._figures[label + name].extend(values.tolist())
