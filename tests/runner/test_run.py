"""One loop over many files: outcomes in order, outputs claimed once, any executor."""

from __future__ import annotations

import logging
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from messages import mentions
from stageguard.errors import (
    InputError,
    InstallationWarning,
    StageGuardWarning,
    warn,
)
from stageguard.guard.kernels import available_processors
from stageguard.runner import pool
from stageguard.runner.pool import MOST_IN_CHUNK, run_all
from stageguard.runner.run import claim_outputs, run_files, succeeded


@dataclass(frozen=True)
class Task:
    file: str
    id: str = "night"
    error: str | None = None


@dataclass(frozen=True)
class Length:
    n: int

    def to_dict(self):
        return {"n": self.n}


def length_of(task: Task) -> Length:
    if "bad" in task.file:
        raise InputError("holds nothing. Give stages.")
    if "broken" in task.file:
        raise ZeroDivisionError("oops")
    if "odd" in task.file:
        warnings.warn("looks odd", StageGuardWarning, stacklevel=1)
        warnings.warn("looks odd", StageGuardWarning, stacklevel=1)
    return Length(len(task.file))


def test_failures_are_outcomes_in_order_and_the_others_go_on(monkeypatch):
    monkeypatch.delenv("STAGEGUARD_DEBUG", raising=False)
    names = ("x/a.csv", "bad.csv", "odd.csv", "broken.csv")
    outcomes = list(run_files(length_of, [Task(name) for name in names]))
    assert [outcome.file for outcome in outcomes] == list(names)
    assert [outcome.ok for outcome in outcomes] == [True, False, True, False]
    assert [outcome.result.n for outcome in succeeded(outcomes)] == [7, 7]
    assert outcomes[1].error == "bad.csv: holds nothing. Give stages."
    assert "stages" in outcomes[1].error
    assert outcomes[2].warnings == ("looks odd",)
    assert outcomes[3].error == "broken.csv: failed with ZeroDivisionError: oops. Is it damaged?"
    assert outcomes[0].to_dict() | {"seconds": 0} == {
        **{"file": "x/a.csv", "id": "night", "ok": True, "n": 7, "warnings": [], "seconds": 0}
    }


def load_a_broken_package(task: Task) -> Length:
    warn("a format cannot be loaded", InstallationWarning)
    warn("looks odd")
    return Length(1)


def test_what_is_installed_is_no_warning_of_a_file():
    with pytest.warns(InstallationWarning, match="a format"):
        (outcome,) = run_files(load_a_broken_package, [Task("a.csv")])
    assert outcome.warnings == ("looks odd",)
    outcomes = run_files(load_a_broken_package, [Task("a.csv"), Task("b.csv")], jobs=2)
    assert [outcome.warnings for outcome in outcomes] == [("looks odd",)] * 2


def touch_late(task: Task) -> Length:
    time.sleep(0.02)
    Path(task.file).touch()
    return Length(1)


def test_long_tasks_come_back_one_by_one(tmp_path):
    tasks = [Task(str(tmp_path / str(i))) for i in range(320)]
    outcomes = run_files(touch_late, tasks, jobs=2, singly=True)
    next(outcomes)
    assert len(list(tmp_path.iterdir())) < MOST_IN_CHUNK
    outcomes.close()


@pytest.mark.parametrize("n_tasks", [1, 3, 1500])  # the last more than wait on an executor at a time
def test_any_executor_gives_the_same_outcomes(n_tasks):
    tasks = [Task("bad.csv" if i == 1 else f"{i}.csv") for i in range(n_tasks)]
    with ThreadPoolExecutor(1) as executor:
        given = list(run_files(length_of, tasks, executor=executor))
    here = list(run_files(length_of, tasks))
    assert [(one.file, one.value, one.error) for one in given] == [
        (one.file, one.value, one.error) for one in here
    ]


def test_processes_give_the_same_outcomes_as_this_one():
    tasks = [Task("a.csv"), Task("bad.csv"), Task("ccc.csv")]
    here, there = (list(run_files(length_of, tasks, jobs=jobs)) for jobs in (1, 2))
    assert [(one.value, one.error) for one in here] == [(one.value, one.error) for one in there]
    assert "stages" in there[1].error


def test_one_output_belongs_to_the_first_that_claims_it():
    tasks = [Task("x/n1.csv", "n1"), Task("gone.csv", "n1", error="is not there"), Task("y/N1.csv", "N1")]
    outcomes = list(run_files(length_of, tasks, output_of=lambda task: Path("out") / task.id))
    assert outcomes[0].ok
    assert outcomes[1].error == "is not there"
    assert mentions(outcomes[2].error, "N1.csv", "output", "x/n1.csv")
    assert claim_outputs(tasks[:1], lambda task: Path(task.id)) == {}


def test_workers_end_by_themselves_when_all_is_done(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(pool, "_end", ended.extend)  # by a signal, which may hit one that reads
    tasks = [Task(str(tmp_path / f"{i}.csv")) for i in range(6)]
    assert len(list(run_files(length_of, tasks, jobs=2))) == 6
    assert not ended


def test_an_error_about_the_whole_run_ends_it():
    with pytest.raises(InputError):
        list(run_files(length_of, [Task("bad.csv")], fatal=(InputError,)))


def test_what_a_run_does_is_logged(caplog):
    caplog.set_level(logging.INFO, logger="stageguard")
    list(run_files(length_of, [Task(name) for name in ("a.csv", "bad.csv", "odd.csv")]))
    by_level = {level: [] for level in ("INFO", "WARNING")}
    for record in caplog.records:
        assert record.name == "stageguard.runner"
        by_level[record.levelname].append(record.args)
    assert by_level["WARNING"] == [("bad.csv: holds nothing. Give stages.",), ("odd.csv", "looks odd")]
    assert [arguments[0] for arguments in by_level["INFO"]] == [3, "a.csv", "odd.csv"]


def test_a_log_escapes_what_a_file_name_may_hold(caplog):
    caplog.set_level(logging.INFO, logger="stageguard")
    list(run_files(length_of, [Task("a\udcff\n.csv")]))
    assert caplog.records[-1].args[0] == "a\\udcff\\n.csv"


def test_a_run_prints_nothing_where_no_log_is_set_up(capfd):
    list(run_files(length_of, [Task("bad.csv")]))
    assert capfd.readouterr() == ("", "")
    assert any(
        isinstance(handler, logging.NullHandler) for handler in logging.getLogger("stageguard").handlers
    )


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="only Linux lets a process choose processors"
)
def test_jobs_0_uses_the_processors_that_the_process_may_use(caplog):
    caplog.set_level(logging.INFO, logger="stageguard")
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert available_processors() == 1
        # with one processor all is done here, and not in one process more
        assert list(run_all(os.path.abspath, ["a"] * 40, 0)) == [str(Path("a").absolute())] * 40
    finally:
        os.sched_setaffinity(0, allowed)
    assert [record for record in caplog.records if "processes" in record.msg] == []
