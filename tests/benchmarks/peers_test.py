# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.peers: the table, the choice of a variant, the reading of results; stand-ins measure nothing."""

import sys

import pytest

from benchmarks.limits import alf_presets as limits
from benchmarks.peers import running, scores, setups, table
from benchmarks.peers.running import PEERS, SCRIPTS, alf_command, alf_figures, best_variant, read_line, run
from benchmarks.series import read_rows
from benchmarks.workloads import WORKLOADS
from tests.benchmarks.conftest import import_program, parsed_flags

pytestmark = pytest.mark.programs

peers = import_program("benchmarks.peers.__main__")


def row(library, i, speed, workload="pong", memory=100.0):
    figures = {"steps_per_second": speed, "updates_per_second": speed / 512, "peak_memory_mb": memory}
    extra = {"limit_steps_per_second": 2 * speed} if library == "ALF" else {}
    return {
        "round": i,
        "workload": workload,
        "library": library,
        "variant": "2 threads",
        **figures,
        **extra,
    }


ROWS = [row("ALF", 0, 900.0), row("ALF", 1, 1200.0), row("ALF", 2, 1000.0, memory=300.0)]
ROWS += [row("torch", 0, 300.0, memory=50.0), row("torch", 1, 300.0), row("torch", 2, 200.0)]
ROWS += [row("sb3", i, 100.0) for i in range(3)]


def test_the_table_has_the_fastest_peer_and_the_ratios_of_each_round():
    *_, line = table.format_table(ROWS).splitlines()
    assert line == (
        "| pong | ALE/Pong-v5 | 1,000 | torch (2 threads) | 300 | 4.00 (3.00 to 5.00) | 0.50 | 100 / 100 |"
    )


def test_a_round_that_lacks_one_of_both_has_no_ratio():
    assert table.ratios(ROWS[1:], "pong", "torch") == [4.0, 5.0]
    header, line = table.format_table(ROWS[:3]).splitlines()  # no peer
    assert header.count("|") == line.count("|")


def test_the_ratios_to_each_library():
    rows = [*ROWS, row("ALF", 0, 5.0, "dqn_pong"), row("sbx", 0, 4.0, "dqn_pong")]
    rows.append(row("ALF", 0, 5.0, "pong_bfloat16"))  # has no column
    header, _, torch, sb3, sbx = table.format_ratios(rows).splitlines()
    assert header == "| library | Pong | DQN, Pong |"
    assert torch == "| a loop of one file in PyTorch (PPO, SAC, DQN) | 4.00 (3.00 to 5.00) |  |"
    assert sb3 == "| Stable-Baselines3 (PPO, SAC, DQN) | 10.00 (9.00 to 12.00) |  |"
    assert sbx == "| SBX (PPO, SAC, DQN) |  | 1.25 (1.25 to 1.25) |"


def test_each_machine_has_its_tables():
    rows = [{**x, "machine": "A", "date": f"2026-11-0{1 + x['round']}"} for x in ROWS]
    rows += [{"search": "torch", "machine": "A", "date": "2026-12-01"}]
    rows += [{**x, "machine": "B", "date": "2026-11-09"} for x in ROWS[:2] + ROWS[6:8]]
    captions = [x for x in table.format_tables(rows).splitlines() if "`python" in x]
    command = "`python -m benchmarks.peers --machine=NAME`"
    (a, a_ratios), (b, b_ratios) = captions[:2], captions[2:]
    assert (a, b) == (f"A, 2026-11-03, {command}:", f"B, 2026-11-09, {command}:")
    assert a_ratios.startswith(f"{a[:-1]}, ") and b_ratios.startswith(f"{b[:-1]}, ")
    *_, line = table.format_last_ratios(rows).splitlines()
    assert line == "| Stable-Baselines3 (PPO, SAC, DQN) | 10.50 |"


def test_the_picture_has_a_bar_for_each_library():
    figure = table.draw([*ROWS, row("ALF", 0, 5.0, "dqn_pong")])
    pong, dqn = figure.axes
    assert [text.get_text() for text in pong.get_yticklabels()] == ["ALF", "torch", "sb3"]
    assert [bar.get_width() for bar in pong.patches] == [1000.0, 300.0, 100.0]
    assert len(dqn.patches) == 1


def test_the_variant_with_most_updates_is_best():
    results = [{"updates_per_second": x, "arguments": [f"--threads={x}"]} for x in (1, 3, 2)]
    assert best_variant(results) == ["--threads=3"]


def test_the_search_is_kept(tmp_path, monkeypatch):
    tried = []

    def measure(peer, workload, seconds, arguments):
        tried.append(arguments)
        return {"updates_per_second": len(tried), "arguments": arguments}

    monkeypatch.setattr(peers, "measure_peer", measure)
    path = tmp_path / "file.jsonl"
    with parsed_flags(peers, f"--file={path}", "--machine=A"):
        found = [peers.find_variant(path, "torch", "dqn_pong") for _ in range(2)]
    assert found == [["--vector=envpool", "--threads=2"]] * 2
    assert len(tried) == 4 and not table.select_measurements(read_rows(path))
    with parsed_flags(peers, f"--file={path}", "--machine=B"):
        peers.find_variant(path, "torch", "dqn_pong")
    assert len(tried) == 8


def test_a_peer_that_fails_is_left_out_and_a_series_is_continued(tmp_path, monkeypatch, capsys):
    def measure(path, library, workload):
        if library == "sb3":
            raise RuntimeError("my own bug")
        return {"steps_per_second": 7.0}

    monkeypatch.setattr(peers, "measure", measure)
    path = tmp_path / "file.jsonl"
    peers.measure_all(path, ["pong"], ["torch", "sb3"], 1, "A")
    assert "pong sb3 is left out: my own bug" in capsys.readouterr().err
    peers.measure_all(path, ["pong"], ["torch", "sb3"], 2, "A")
    done = [(x["round"], x["library"]) for x in read_rows(path)]
    assert done == [(0, "ALF"), (0, "torch"), (1, "ALF"), (1, "torch")]
    peers.measure_all(path, ["pong"], [], 1, "B")
    assert [x["machine"] for x in read_rows(path)] == ["A"] * 4 + ["B"]


def test_reads_the_last_json_line():
    assert read_line('starts\n{"a": 1}\n{"a": 2}\nends\n') == {"a": 2}
    with pytest.raises(RuntimeError, match="no figures in 'starts'"):
        read_line("starts")


def test_run_measures_memory_and_names_what_fails():
    output, memory = run([sys.executable, "-c", "import time; x = b'1' * 2**26; time.sleep(2); print(3)"], 60)
    assert output == "3\n" and 60 < memory < 200
    with pytest.raises(RuntimeError, match="failed: my own bug"):
        run([sys.executable, "-c", "import sys; sys.exit('my own bug')"], 60)


def test_the_figures_of_alf_have_the_names_of_the_peers():
    result = {"workload": "pong", "trained_steps_per_second": 5.0, "updates_per_second": 1.0}
    result["seconds_to_first_train_step"] = 9.0
    figures = alf_figures("pong", result, 70.0)
    assert (figures["steps_per_second"], figures["peak_memory_mb"]) == (5.0, 70.0)


def test_a_row_of_a_preset_is_measured_by_alf_benchmark():
    settings = "--num_envs=8 --mini_batch_size=64"
    command = " ".join(alf_command("ppo_cartpole_8", 3.0)[1:])
    assert command == f"-m alf benchmark CartPole-v1 --algorithm=ppo --measure_seconds=3.0 {settings}"
    assert "--mini_batch_size" not in " ".join(alf_command("impala_cartpole_1", 3.0))


def test_the_limit_of_a_preset_is_a_lean_loop(monkeypatch):
    outputs = {
        "benchmark": '{"training": {"env_steps_per_second": 5.0, "updates_per_second": 1.0}}',
        "benchmarks.limits.loop": '{"steps_per_second": 20.0}',
    }

    def run(command, limit):
        return next(text for name, text in outputs.items() if name in command), 70.0

    monkeypatch.setattr(running, "run", run)
    figures = running.measure_alf("ppo_cartpole_8", 3.0)
    assert figures["limit_steps_per_second"] == 20.0
    rows = [{**row("ALF", 0, 5.0, "ppo_cartpole_8"), **figures}, row("sbx", 0, 4.0, "ppo_cartpole_8")]
    *_, line = table.format_table(rows).splitlines()
    assert line == (
        "| ppo_cartpole_8 | CartPole-v1 | 5 | sbx (2 threads) | 4 | 1.25 (1.25 to 1.25) | 0.25 | 70 / 100 |"
    )
    del rows[0]["limit_steps_per_second"]
    *_, line = table.format_table(rows).splitlines()
    assert line.endswith("| 1.25 (1.25 to 1.25) |  | 70 / 100 |")


def test_rows_of_presets_have_their_settings():
    for name in ("ppo", "impala"):
        preset = limits.Preset("CartPole-v1", name)
        given, algorithm = setups.PRESETS[name], "PPOAlgorithm" if name == "ppo" else "ImpalaAlgorithm"
        found = {**preset.read("Adam", "learning_rate"), **preset.read("LearnerSettings", "max_grad_norm")}
        found["entropy"] = preset.read(algorithm, "entropy_weight")["entropy_weight"]
        lambda_ = "lambda_" if name == "ppo" else "vtrace_lambda"
        found["gae_lambda"] = preset.read(algorithm, lambda_)[lambda_]
        assert given == {**found, "shares_layers": False, "epochs": given["epochs"]}
        assert preset.unroll_length == setups.UNROLL_LENGTHS[name]
        setup = setups.SETUPS[f"{name}_cartpole_{preset.num_envs}"]
        assert setup.settings["minibatches"] == preset.num_minibatches
    assert preset.read("UnrollLearner", "recurrence") == {"recurrence": setups.SEGMENT}
    ppo = limits.Preset("CartPole-v1", "ppo")
    assert ppo.read("UnrollLearner", "num_epochs") == {"num_epochs": setups.PRESETS["ppo"]["epochs"]}
    rows = ppo.num_envs * ppo.unroll_length // ppo.num_minibatches
    assert rows == setups.MINI_BATCH_SIZE


@pytest.mark.parametrize("name", [name for name, setup in setups.SETUPS.items() if not setup.preset])
def test_the_batches_are_those_of_the_workload(name):
    setup, workload = setups.SETUPS[name], WORKLOADS[name]
    if setup.algorithm == "ppo":
        assert (setup.batch_envs, setup.unroll_length) == (workload.batch_size, workload.unroll_length)
        network = workload.agent.policy.keywords["network"]
        assert network.keywords.get("compute_dtype", "float32") == setup.dtype
    else:
        assert setup.batch_envs == workload.num_groups * workload.batch_size
        assert setups.BATCH_SIZES[setup.algorithm] == workload.mini_batch_size


def test_each_peer_has_its_script_and_its_requirements():
    for peer in PEERS.values():
        assert (SCRIPTS / "requirements" / f"{peer.venv}.txt").is_file()
        assert all((SCRIPTS / name).is_file() for name in peer.scripts.values())
        assert all(setups.SETUPS[name].algorithm in peer.scripts for name in peer.workloads)


def test_settings_of_the_other_library():
    found = scores.sb3_settings(scores.TASKS["LunarLander-v3"].settings)
    assert found == dict(n_steps=1024, n_epochs=4, batch_size=64, gamma=0.999, gae_lambda=0.98, ent_coef=0.01)


def test_the_scores_count_the_runs_that_got_there():
    runs = [
        {"score_of": "Acrobot-v1", "library": "ALF", "seconds": x, "reached": x < 90} for x in (20, 30, 99)
    ]
    runs = [{**run, "machine": "A", "date": "2026-11-29"} for run in [*runs, row("ALF", 0, 9.0)]]
    caption, _, header, _, line = scores.format_tables(runs).splitlines()
    assert caption == "A, 2026-11-29, `python -m benchmarks.peers --scores --machine=NAME`:"
    assert header.startswith("| environment | score | ALF | a loop of one file in PyTorch |")
    assert line == "| Acrobot-v1 | -100 | 25 s (20 to 30), 2 of 3 |  |  |  |"
