"""`stageguard stage`: what is written, what a second call does, and what goes wrong with one file."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line
from recording_files import Channel, sleep_edf_night, write_edf
from stageguard.profile.stagers import KNOWN_STAGERS
from stageguard.review.opening import ReviewRequest
from stageguard.review.review import ReviewSession
from stageguard.runner import stage_files
from stageguard.staging import Stager

pytestmark = pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")  # many changes
RATE = 100.0
N_EPOCHS = 40


def noise(seed=0, rate=RATE, seconds=N_EPOCHS * 30.0):
    return 20 * np.random.default_rng(seed).standard_normal(round(rate * seconds))


def write(path, rate=RATE, seconds=N_EPOCHS * 30.0, **channels):
    """An EDF file; by default with two derivations."""
    named = channels or {"EEG C4-M1": noise(1, rate, seconds), "EEG C3-M2": noise(2, rate, seconds)}
    return write_edf(path, [Channel(label, samples, rate) for label, samples in named.items()])


def probabilities_of(recording):
    """Probabilities that depend on the samples of the EEG alone."""
    n_epochs = int(recording.seconds // 30)
    seed = int(abs(recording.signals["eeg"].read()[:100]).sum())
    return np.random.default_rng(seed).dirichlet(np.ones(5), n_epochs)


def run_theirs(recording):
    rows = probabilities_of(recording)
    if recording.id == "lost":
        rows[:] = np.nan
    if recording.id == "fewer":
        rows = rows[:-3]
    if recording.id == "raises":
        raise RuntimeError("out of\nmemory")
    return sg.Hypnodensity(rows, "aasm5", 30.0)


def run_in_three(recording):
    rows = probabilities_of(recording)[:, :3]
    return sg.Hypnodensity(rows / rows.sum(axis=1, keepdims=True), "wnr3", 30.0)


THEIRS = Stager(KNOWN_STAGERS["gssc"], run_theirs, package="", optional=("eog",), least_hz=50.0)
IN_THREE = Stager(replace(KNOWN_STAGERS["sleepecg"], trained=None), run_in_three, package="")


@pytest.fixture(autouse=True)
def plug_ins(monkeypatch):
    """Stagers of another package, quick enough for every test."""

    class Entry:
        def __init__(self, name, stager):
            self.name, self.load, self.module, self.dist = name, lambda: stager, "theirs", None

    entries = [Entry("theirs", THEIRS), Entry("in-three", IN_THREE)]
    monkeypatch.setattr("stageguard.staging.entry_points", lambda group: entries)
    stage_files._loaded.cache_clear()
    yield
    stage_files._loaded.cache_clear()


def staging_record(folder, name="night"):
    return json.loads((folder / f"{name}.staging.json").read_text())


def test_a_recording_becomes_probabilities_stages_and_a_page(run, tmp_path):
    edf, out = write(tmp_path / "night.edf"), tmp_path / "out"
    ran = run("stage", edf, "--stager", "theirs", "-o", out)
    assert ran.code == 0 and f"stageguard review {out / 'night.hypnogram.tsv'} --edf {edf}" in ran.out
    assert {path.name for path in out.iterdir()} == {
        "night.hypnodensity.csv",
        "night.hypnogram.tsv",
        "night.hypnogram.json",
        "night.staging.json",
        "night.report.html",
    }
    assert staging_record(out)["disagreement"] is None
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert run("stage", edf, "--stager", "theirs", "-o", out).code == 0
    assert times == {path: path.stat().st_mtime_ns for path in out.iterdir()}


def test_derivations_that_disagree_are_worth_a_look(run, tmp_path):
    edf, out = write(tmp_path / "night.edf"), tmp_path / "out"
    ran = run("stage", edf, "--stager", "theirs", "-o", out, "--channels", "EEG C4-M1,EEG C3-M2")
    assert ran.code == 0
    shares = np.array(staging_record(out)["disagreement"])
    both = sg.stage(edf, THEIRS, channels=["EEG C4-M1", "EEG C3-M2"])
    np.testing.assert_array_equal(shares, both.disagreement)
    assert 0 < np.count_nonzero(shares) < N_EPOCHS
    assert "stagings disagree" in (out / "night.report.html").read_text()
    session = ReviewSession([ReviewRequest(out / "night.hypnogram.tsv")], "anna")
    assert session.errors == [None]
    review = session.review(0)
    np.testing.assert_array_equal(review.night.disagreement, shares)
    queued = {e: one.reason for one in review.queue().stretches for e in range(one.first, one.last + 1)}
    assert set(np.flatnonzero(shares)) <= queued.keys()
    assert {epoch for epoch, reason in queued.items() if reason == "disagree"} <= set(np.flatnonzero(shares))
    session.close()


@pytest.mark.parametrize("text", ["{", '{"disagreement": 3}', '{"disagreement": [2], "density_sha256": ""}'])
def test_a_damaged_record_is_named_in_one_line(run, tmp_path, text):
    edf, out = write(tmp_path / "night.edf"), tmp_path / "out"
    run("stage", edf, "--stager", "theirs", "-o", out)
    (out / "night.staging.json").write_text(text)
    assert "night.staging.json" in error_line(run("stage", edf, "--stager", "theirs", "-o", out))
    (error,) = ReviewSession([ReviewRequest(out / "night.hypnogram.tsv")], "anna").errors
    assert error is not None and "night.staging.json" in str(error)
    assert run("stage", edf, "--stager", "theirs", "-o", out, "--overwrite").code == 0


def test_a_changed_density_is_named_in_one_line(run, tmp_path):
    edf, out = write(tmp_path / "night.edf"), tmp_path / "out"
    run("stage", edf, "--stager", "theirs", "-o", out)
    with (out / "night.hypnodensity.csv").open("a") as file:
        file.write("0.2,0.2,0.2,0.2,0.2\n")
    assert "night.hypnodensity.csv" in error_line(run("stage", edf, "--stager", "theirs", "-o", out))


@pytest.mark.parametrize(
    ("stager", "first", "second"),
    [
        ("theirs", "human-psg-5", "human-psg-3"),
        ("in-three", "human-cardiorespiratory-3", "kdd2026-cardiorespiratory"),
    ],
)
def test_probabilities_for_a_profile_of_other_stages_or_rules_are_not_taken(
    run, tmp_path, stager, first, second
):
    edf, out = write(tmp_path / "night.edf"), tmp_path / "out"
    assert run("stage", edf, "--stager", stager, "-p", first, "-o", out).code == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    again = run("stage", edf, "--stager", stager, "-p", second, "-o", out)
    assert "night.hypnodensity.csv" in error_line(again)
    assert before == {path: path.read_bytes() for path in out.iterdir()}


def test_a_changed_file_of_a_dataset_is_not_taken_for_the_old_one(run, tmp_path):
    data, out = tmp_path / "edfx", tmp_path / "out"
    sleep_edf_night(data, "SC4001E0", ["W", *"12" * 10])
    asked = ("stage", data, "--dataset", "sleep-edf", "--stager", "theirs", "-o", out)
    assert run(*asked).code == 0
    (record,) = out.glob("*.staging.json")
    assert len(json.loads(record.read_text())["request"]["sha256"]) == 2  # signals and scoring
    assert run(*asked).code == 0
    sleep_edf_night(data, "SC4001E0", ["W", *"12" * 9, "3", "3"])
    line = error_line(run(*asked))
    assert "staged from this recording, but with other files beside it (scorings" in line


def test_the_same_recording_at_another_place_or_name_is_the_same(run, tmp_path, monkeypatch):
    edf, out = write(tmp_path / "night.edf"), tmp_path / "out"
    assert run("stage", edf, "--stager", "theirs", "-o", out).code == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    (tmp_path / "else").mkdir()
    moved = edf.rename(tmp_path / "else" / "night.EDF")
    (tmp_path / "night.rec").symlink_to(moved)
    monkeypatch.chdir(tmp_path / "else")
    for name in ("night.EDF", "../night.rec"):
        ran = run("stage", name, "--stager", "theirs", "-o", "../out")
        assert ran.code == 0 and "nothing to do" in ran.out, ran.err
    assert before == {path: path.read_bytes() for path in out.iterdir()}
    write(moved, **{"EEG C4-M1": noise(8)})
    assert "from another recording of that name" in error_line(
        run("stage", moved, "--stager", "theirs", "-o", out)
    )


def test_changed_signals_of_a_wfdb_record_are_staged_again(run, tmp_path):
    signals, out = tmp_path / "night.dat", tmp_path / "out"
    samples = noise(1).astype("<i2")
    signals.write_bytes(samples.tobytes())
    header = f"night 1 100 {len(samples)}\nnight.dat 16 1/uV 16 0 0 0 0 EEG C4-M1\n"
    (tmp_path / "night.hea").write_text(header)
    asked = ("stage", tmp_path / "night.hea", "--stager", "theirs", "-o", out)
    ran = run(*asked)
    assert ran.code == 0, ran.err
    assert run(*asked).code == 0
    signals.write_bytes((samples + 1).tobytes())
    assert "with other files beside it (scorings, lists or signals)" in error_line(run(*asked))


def test_files_that_fail_are_rows_and_the_others_go_on(run, tmp_path):
    nights, out = tmp_path / "nights", tmp_path / "out"
    nights.mkdir()
    for name in ("good", "lost", "fewer", "raises"):
        write(nights / f"{name}.edf")
    write(nights / "slow.edf", rate=10.0)
    write(nights / "seconds.edf", seconds=3.0)
    write(nights / "heart.edf", ECG=noise())
    (nights / "torn.edf").write_bytes((nights / "good.edf").read_bytes()[:700])
    assert run("stage", nights, "--stager", "theirs", "-o", out).code == 3
    with (out / "failures.tsv").open(newline="") as file:
        errors = {row["id"]: row["error"] for row in csv.DictReader(file, delimiter="\t")}
    told = {
        "lost": "no probabilities",
        "fewer": str(N_EPOCHS - 3),
        "raises": "out of memory",
        "slow": "10 Hz",
        "seconds": "3 s",
        "heart": "'eeg'",
        "torn": "header",
    }
    assert errors.keys() == told.keys()
    for name, part in told.items():
        assert part in errors[name] and "\n" not in errors[name], errors[name]
    assert (out / "good.hypnogram.tsv").is_file() and not (out / "lost.hypnogram.tsv").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--channel", "eeg=Fz"), "Fz"),
        (("--channels", "EEG C4-M1,Oz"), "Oz"),
        (("--stager", "luna-pops"), "luna-pops:FOLDER"),
        (("--stager", "yassa"), "yasa"),
        (("--stager", "sleepecg"), "'beats' or 'ecg'"),
    ],
)
def test_wrong_names_are_refused_in_one_line(run, tmp_path, arguments, told):
    edf = write(tmp_path / "night.edf")
    stager = () if "--stager" in arguments else ("--stager", "theirs")
    assert told in error_line(run("stage", edf, *stager, *arguments, "-o", tmp_path / "out"))


def test_stagers_with_different_stages_are_merged_into_the_coarser(run, tmp_path):
    edf, out = write(tmp_path / "night.edf"), tmp_path / "out"
    assert run("stage", edf, "--stager", "theirs", "--stager", "in-three", "-o", out).code == 0
    record = json.loads((out / "night.hypnogram.json").read_text())["stageguard"]
    assert record["profile"]["name"] == "human-cardiorespiratory-3"
    line = error_line(
        run("stage", edf, "--stager", "in-three", "-p", "human-psg-5", "-o", tmp_path / "finer")
    )
    assert "wnr3" in line and "aasm5" in line
