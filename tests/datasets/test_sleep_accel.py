"""Sleep-Accel: PhysioNet's text files and the feature files of Walch et al., with gaps and repetitions."""

from __future__ import annotations

import numpy as np
import pytest

from dataset_files import sleep_accel_subject
from messages import naming
from stageguard.datasets import entries, recordings
from stageguard.errors import FileFormatError, InputError

STAGES = [0, 0, 1, 2, 3, 4, 5, -1, 0, 2]


def one(folder, **options):
    (recording,) = recordings("sleep-accel", folder, **options)
    return recording


def labels_file(folder):
    return folder / "labels" / "46343_labeled_sleep.txt"


def test_a_subject_is_read_from_four_files(tmp_path):
    written = sleep_accel_subject(tmp_path, "46343", STAGES)
    recording = one(tmp_path)
    assert (recording.id, recording.subject, recording.source) == ("46343", "46343", "Sleep-Accel")
    assert list(recording.signals) == ["acceleration", "heart_rate", "steps"]
    motion = recording.channel("acceleration")
    kept = written["motion"][written["motion"][:, 0] < 300]
    np.testing.assert_allclose(motion.times, kept[:, 0])
    np.testing.assert_allclose(motion.values, kept[:, 1:], atol=1e-6)
    heart, steps = recording.channel("heart_rate"), recording.channel("steps")
    assert (motion.unit, heart.unit, steps.unit) == ("g", "bpm", "counts")
    assert (heart.times[0], heart.values[0]) == (-300.5, written["heart_rate"][0, 1])
    assert steps.values.tolist() == [40, 0, 3]
    scoring = recording.scorings["expert"]
    assert scoring.stages.tolist() == ["W", "W", "N1", "N2", "N3", "N3", "R", "?", "W", "N2"]
    assert (scoring.epoch_seconds, scoring.scorer) == (30.0, "expert")


@pytest.mark.parametrize(
    ("scheme", "stages"), [("wnr3", "W W N N N N R ? W N"), ("ws2", "W W S S S S S ? W S")]
)
def test_stages_are_merged_when_asked(tmp_path, scheme, stages):
    sleep_accel_subject(tmp_path, "46343", STAGES)
    assert one(tmp_path, scheme=scheme).scorings["expert"].stages.tolist() == stages.split()
    with pytest.raises(InputError, match=naming("scheme", "'five'", "'aasm5'", "'ws2'")):
        one(tmp_path, scheme="five")


def test_what_came_after_the_night_is_kept_only_when_asked(tmp_path):
    sleep_accel_subject(tmp_path, "46343", STAGES)
    assert one(tmp_path).channel("acceleration").seconds == 299.5
    assert one(tmp_path, whole=True).channel("acceleration").seconds == 304.5


def test_subjects_come_in_the_order_of_their_numbers_from_any_layout(tmp_path):
    for subject in ("1066528", "46343", "759667"):
        sleep_accel_subject(tmp_path / "deep", subject, STAGES)
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in sorted((tmp_path / "deep").rglob("*.txt")):
        path.rename(flat / path.name)
    (flat / "SHA256SUMS.txt").write_text("")
    found = list(entries("sleep-accel", flat))
    assert [entry.id for entry in found] == ["46343", "759667", "1066528"]
    assert [entry.missing for entry in found] == [(), (), ()]


def test_epochs_that_are_left_out_are_unscored(tmp_path):
    sleep_accel_subject(tmp_path, "46343", STAGES)
    labels_file(tmp_path).write_text("30 2\n60 2\n150 5\n")
    assert one(tmp_path).scorings["expert"].stages.tolist() == ["?", "N2", "N2", "?", "?", "R"]


def test_a_shifted_grid_moves_the_signals_with_it(tmp_path):
    sleep_accel_subject(tmp_path, "46343", STAGES)
    labels_file(tmp_path).write_text("".join(f"{30 * i + 10} {s}\n" for i, s in enumerate(STAGES)))
    recording = one(tmp_path)
    assert recording.scorings["expert"].n_epochs == len(STAGES)
    assert recording.channel("heart_rate").times[0] == pytest.approx(-310.5)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("labels/46343_labeled_sleep.txt", "0 0\n30 7\n", (7, "30 s", -1, 0, 1, 2, 3)),
        ("labels/46343_labeled_sleep.txt", "0 0\n40 0\n", ("40 s", "30 s")),
        ("labels/46343_labeled_sleep.txt", "0 0\n0 2\n", ("0 s", "30 s")),
        ("labels/46343_labeled_sleep.txt", "-600 0\n", ("epoch", "start")),
        ("labels/46343_labeled_sleep.txt", "", ("labels/46343_labeled_sleep.txt: begins with ''",)),
        ("motion/46343_acceleration.txt", "0 1 1\n", ("'0 1 1", 4)),
        ("motion/46343_acceleration.txt", "<html>\n", ("motion/46343_acceleration.txt", "'<html>", 4)),
        ("heart_rate/46343_heartrate.txt", "900,60\n", ("nothing", "300 s")),
    ],
)
def test_damaged_files_are_named(tmp_path, file, text, message):
    sleep_accel_subject(tmp_path, "46343", STAGES)
    (tmp_path / file).write_text(text)
    with pytest.raises(FileFormatError, match=naming(*message)):
        one(tmp_path)
