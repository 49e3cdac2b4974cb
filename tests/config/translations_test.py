# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Names of other libraries lead to ALF's: what translations.json says is true, and messages say it."""

import re

import pytest

from alf.config import registry
from alf.config.hints import suggest_settings, translate
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.config.settings import find_setting
from alf.config.translations import find_names, find_translations, read_tables
from alf.errors import ConfigError

registry.import_settings()
TABLES = [(page["library"], table) for page in read_tables() for table in page["tables"]]
ROWS = [row for _, table in TABLES for row in table["rows"]]


@pytest.fixture(autouse=True)
def fresh_config():
    with own_config():
        yield


def test_each_row_has_two_cells_or_four():
    for _, table in TABLES:
        assert {len(row) for row in table["rows"]} in ({2}, {4}), table["heading"]
    assert len(ROWS) > 200


def test_each_name_of_alf_is_a_setting():
    names = {row[2] for row in ROWS if len(row) == 4} - {"-"}
    assert len(names) > 100
    assert [name for name in names if find_setting(name) is None] == []


def test_each_name_in_a_text_is_a_setting_or_a_class():
    texts = " ".join(row[-1] for row in ROWS)
    codes = re.findall("`(.*?)`", texts)
    settings = [x for x in codes if re.match(r"(?:alf\.)?[A-Z]\w*\.[a-z_]+(?: = |$)", x)]
    references = re.findall(r"@(?:\w+/)*([\w.]+)", texts)
    assert len(settings) > 50 and len(references) > 40
    assert [x for x in settings if find_setting(x.partition(" = ")[0]) is None] == []
    assert [x for x in references if not registry.find_matching(x)] == []


def test_each_name_of_a_library_leads_to_its_setting(subtests):
    for row in (row for row in ROWS if len(row) == 4 and row[2] != "-"):
        assert find_names(row[0]), row
        for name in find_names(row[0]):
            with subtests.test(name):
                assert row[2] in [x.setting for x in find_translations(name)]
                assert row[2] in translate(name, near=row[2])


def error_of(*params):
    with own_config(), pytest.raises(ConfigError) as caught:
        parse_config([], list(params))
    assert "\n" not in str(caught.value)
    return str(caught.value)


ANY_DISCOUNT = " or ".join(f"{x}Algorithm.discount" for x in ("PPO", "Impala", "Sac", "Dqn", "Td3", "QrDqn"))
PPO = "Experiment.algorithm = @PPOAlgorithm"
OF_PPO = (
    'PPO (RLlib, Stable-Baselines3): Experiment.algorithm = @PPOAlgorithm or Experiment.algorithm = "ppo"'
)
OF_GAMMA = (
    "gamma (Sample Factory, RLlib, Stable-Baselines3, CleanRL, the first ALF, ALF on PyTorch) is called"
)
HALF = "(of half the square here: 0.5 there is 1.0 here)"
# From the last of some bindings to the end of the error.
HINTS = {
    ("gamma = 0.9",): f"is a macro, which nothing uses; {OF_GAMMA} {ANY_DISCOUNT} here",
    (PPO, "gamma = 0.9"): f"is a macro, which nothing uses; {OF_GAMMA} PPOAlgorithm.discount here",
    (
        "SacAlgorithm.tau = 0.1",
        "gamma = 0.9",
    ): "; gamma (RLlib, Stable-Baselines3, CleanRL, ALF on PyTorch) is called SacAlgorithm.discount here "
    "(ALF on PyTorch: of DQN: DqnAlgorithm.discount)",
    ("PPOAlgorithm.gamma = 0.9",): f"; {OF_GAMMA} PPOAlgorithm.discount here",
    ("PPO.gamma = 0.9",): f"; {OF_GAMMA} PPOAlgorithm.discount here",
    ("DDPG.gamma = 0.9",): "; DDPG (Stable-Baselines3): no counterpart",
    ("Qqq.gamma = 0.9",): f"; {OF_GAMMA} {ANY_DISCOUNT} here",
    ("num_sgd_iter = 10",): "; num_sgd_iter (RLlib) is called UnrollLearner.num_epochs here",
    ("ppo_clip_ratio = 0.1",): "; ppo_clip_ratio (Sample Factory) is called PPOAlgorithm.clip_range here "
    "(the same interval, [1 / (1 + c), 1 + c])",
    ("SacAlgorithm.learning_starts = 100",): "; learning_starts (RLlib, Stable-Baselines3, CleanRL) is "
    "called ReplayLearner.initial_collect_steps here (Stable-Baselines3, CleanRL: here the policy acts "
    "at first; there random actions are taken)",
    ("PPOAlgorithm.vf_coef = 0.5",): "; vf_coef (Stable-Baselines3, CleanRL) is called "
    "PPOAlgorithm.value_loss_weight here (Stable-Baselines3: of half the square here: 0.5 there is 1.0 here; "
    "CleanRL: both weight half of the squared error)",
    ("PPOAlgorithm.value_loss_coeff = 0.5",): "; value_loss_coeff (Sample Factory) is called "
    f"PPOAlgorithm.value_loss_weight here {HALF}",
    # Nearer than PPOAlgorithm.clip_range, which is similar.
    ("PPOAlgorithm.vf_clip_param = 10.0",): "; vf_clip_param (RLlib) is called PPOAlgorithm.value_clip_range "
    "here (how far a value may move; there the largest squared error)",
    (
        "with_wandb = True",
    ): '; with_wandb (Sample Factory) is called Summaries.track here (True: "wandb" (trackers))',
    ("upload_model = True",): "; upload_model (CleanRL): no counterpart",
    ("Experiment.algorithm = @PPO",): f"; {OF_PPO}",
    (
        "Experiment.exp_replayer = PPO",
    ): ': a text needs quotation marks: write Experiment.exp_replayer = "PPO"',
    ("Experiment.algorithm = @create_ppo_algorithm",): "; create_ppo_algorithm (the first ALF): "
    "Experiment.algorithm = @PPOAlgorithm",
    (
        "TrainerConfig.num_iterations = 5",
    ): "; TrainerConfig.num_iterations (the first ALF, ALF on PyTorch) is called "
    "StopCriteria.num_iterations here (ALF on PyTorch: of all runs in a root_dir)",
    ("seed = 1",): "seed (Sample Factory, RLlib, Stable-Baselines3, CleanRL) is called Experiment.seed here; "
    "did you mean load_atari.seed = 1 or load_envpool.seed = 1 or PythonEnvironment.seed = 1 ?",
}


@pytest.mark.parametrize("params", HINTS, ids=lambda params: params[-1])
def test_an_error_says_what_a_name_is_called_here(params):
    assert error_of(*params).endswith(HINTS[params])


def test_a_setting_to_list():
    assert suggest_settings("PPO") == f"; {OF_PPO}"
    assert suggest_settings("PPO.num_sgd_iter").startswith("; num_sgd_iter (RLlib) is called")
    assert suggest_settings("num_env").startswith("; did you mean num_envs ")
