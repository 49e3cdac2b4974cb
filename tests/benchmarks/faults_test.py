# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.faults: a case finds what is as expected and what is not, and always ends."""

import json

import pytest

from benchmarks.faults.case import Case, Expected, Outcome, train_with_fault
from benchmarks.faults.training import HungError, Server
from tests.benchmarks.conftest import import_program, parsed_flags

pytestmark = pytest.mark.programs

program = import_program("benchmarks.faults.__main__")
CASES, choose, run_case = program.CASES, program.choose, program.run_case
format_line, format_table = program.format_line, program.format_table

RAISES = {"kind": "key_error", "where": "step", "at": 3}
RAISES_AT_ONCE = {**RAISES, "where": "reset", "at": 1}  # before the first update


@pytest.fixture(scope="module")
def make_server():
    server = Server()
    yield lambda: server
    server.close()


def make_case(expected, fault=RAISES_AT_ONCE):
    run = lambda lab: train_with_fault(lab, fault, expected, warm=True)  # noqa: E731
    return Case("data", "raises", "step raises", run)


def test_names_are_unique_and_can_be_chosen():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) > 90
    assert {case.name for case in choose(CASES, [])} == set(names) - {"soak"}
    assert [case.name for case in choose(CASES, ["soak", "stall"])] == ["stall", "soak"]
    assert {case.group for case in choose(CASES, ["spaces"])} == {"spaces"}


def test_an_exception_of_an_environment_is_as_expected(tmp_path, make_server):
    expected = Expected(None, "KeyError: 'my own bug'")
    outcome = run_case(make_case(expected, RAISES), tmp_path, make_server, {})
    assert outcome.problems == []
    assert outcome.status == 1 and outcome.last_line.endswith("KeyError: 'my own bug'")
    assert 0 <= outcome.seconds < 60 and 0 < outcome.steps_lost < 1000


def test_what_is_unexpected_is_reported(tmp_path, make_server):
    expected = Expected(0, "no such line", within=0.0, saved=True, continues=True)
    outcome = run_case(make_case(expected), tmp_path, make_server, {})
    text = "; ".join(outcome.problems)
    for problem in (
        "exit status 1 instead of 0",
        "no line matches 'no such line'",
        "noticed after",
        "saved checkpoint: None",
        "no checkpoint to continue from",
    ):
        assert problem in text
    case = make_case(expected)
    assert "NOT AS EXPECTED" in format_line(case, outcome)
    assert "**not as expected**" in format_table([(case, outcome)])


def test_what_hangs_or_fails_is_a_problem(tmp_path, make_server):
    fault = {"kind": "hang", "where": "step"}
    run = lambda lab: train_with_fault(lab, fault, Expected(), warm=True, timeout=8.0)  # noqa: E731
    outcome = run_case(Case("ends", "hangs", "", run), tmp_path, make_server, {})
    assert len(outcome.problems) == 1 and "the end in vain" in outcome.problems[0]

    def fail(lab):
        raise ZeroDivisionError

    assert "ZeroDivisionError" in run_case(Case("x", "fails", "", fail), tmp_path, None, {}).problems[0]


def test_waiting_ends_with_the_training(tmp_path, make_server):
    def run(lab):
        with pytest.raises(HungError, match="waited for a checkpoint, but training ended"):
            lab.train_until_saved(fault=RAISES_AT_ONCE, warm=True)
        return Outcome()

    assert run_case(Case("x", "waits", "", run), tmp_path, make_server, {}).problems == []


def test_the_command_writes_json_and_a_table(tmp_path, make_server, monkeypatch, capsys):
    class LentServer:
        """The server of all tests, which goes on."""

        start = staticmethod(make_server().start)

        def close(self):
            pass

    monkeypatch.setattr(program, "Server", LentServer)
    path = tmp_path / "result.json"
    with parsed_flags(program, "--only=buffer_pickle", "--table", f"--output={path}"):
        status = program.main([])
    (row,) = json.loads(path.read_text())
    assert status == bool(row["problems"])
    assert row["name"] == "buffer_pickle" and row["status"] == 2
    assert capsys.readouterr().out.count("\n| ") == 3
