"""Feature tables and the sequences cut from them."""

from __future__ import annotations

import numpy as np
import pytest

from feature_nights import NAMES, cohort, feature_table, write_csv
from messages import mentions, message
from stageguard.documents import plain, read
from stageguard.errors import FileFormatError, InputError
from stageguard.night.stages import AASM5, WNR3, WS2
from stageguard.nn.data import (
    Normalisation,
    check_together,
    make_batch,
    read_features,
    round_of_batches,
    split_subjects,
)


def test_csv_and_npz_read_back_as_they_were(tmp_path):
    table = feature_table(1, epochs=np.r_[0:40, 50:100])
    back = read_features(write_csv(tmp_path / "night1.csv", table), WNR3)
    np.savez(
        tmp_path / "night1.npz",
        features=table.values,
        names=table.names,
        subject="s1",
        epoch=table.epochs,
        stage=[WNR3.names[label] for label in table.labels],
        epoch_seconds=30.0,
        recipe='{"name": "own"}',
    )
    archived = read_features(tmp_path / "night1.npz", WNR3)
    assert (archived.epoch_seconds, archived.recipe) == (30.0, {"name": "own"})
    for found in (back, archived):
        assert (found.recording, found.subject, found.names) == ("night1", "s1", NAMES)
        np.testing.assert_array_equal(found.values, table.values)
        np.testing.assert_array_equal(found.labels, table.labels)
        np.testing.assert_array_equal(found.epochs, table.epochs)


def test_finer_stages_are_merged_and_unscored_ones_kept_apart(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("subject,stage,x\np,W,1\np,N2,2\np,REM,3\np,?,4\np,Sleep stage 3,5\n")
    assert read_features(path, WNR3).labels.tolist() == [0, 1, 2, -1, 1]
    assert read_features(path, WS2).labels.tolist() == [0, 1, 1, -1, 1]
    assert read_features(path).labels is None


TABLES = {  # content of a file, and what the error says
    "half a signal": ("stage,x,y\nW,1,nan\n", ("'y'", 0)),
    "infinite": ("stage,x,y\nW,1,inf\n", ("'y'", 0)),
    "empty": ("stage,x\nW,\n", ("has a feature",)),
    "text": ("stage,x\nW,high\n", (2, "'x'", "'high'")),
    "no such stage": ("stage,x\nN9,1\n", ("'N9'", "W, N, R")),
    "no rows": ("stage,x\n", ("has no rows",)),
    "a long row": ("stage,x\nW,1,2\n", (2, 3)),
    "a column twice": ("stage,Stage,x\nW,N,1\n", ("twice",)),
    "epochs backwards": ("stage,epoch,x\nW,4,1\nW,3,1\n", ("increasing",)),
    "half epochs": ("epoch,x\n0,1\n1.5,2\n", ("epoch", "whole number")),
    "no epoch": ("epoch,x\n0,1\nfirst,2\n", ("epoch", "first")),
    "two subjects": ("subject,x\np,1\nq,1\n", (2, "subjects")),
}


@pytest.mark.parametrize(("content", "expected"), TABLES.values(), ids=TABLES)
def test_a_bad_table_is_one_line_that_names_the_file(tmp_path, content, expected):
    (tmp_path / "a.csv").write_text(content)
    text = message(FileFormatError, read_features, tmp_path / "a.csv", WNR3)
    assert mentions(text, "a.csv", *expected)


ARCHIVES = {
    "no names": ({"names": None}, ("'names'",)),
    "names scalar": ({"names": "x"}, ("'names'",)),
    "names short": ({"names": ["x"]}, (1, "different", 2)),
    "text features": ({"features": np.full((12, 2), "a")}, ("<U1", "real numbers")),
    "epoch short": ({"epoch": np.arange(3)}, ("12 increasing",)),
    "epoch nan": ({"epoch": np.full(12, np.nan)}, ("epoch", "whole number")),
    "seconds text": ({"epoch_seconds": "x"}, ("epoch_seconds",)),
    "seconds negative": ({"epoch_seconds": -1.0}, ("epoch_seconds", -1.0)),
    "stage short": ({"stage": ["W"]}, ("labels", 12)),
    "recipe no JSON": ({"recipe": "{"}, ("recipe",)),
}


@pytest.mark.parametrize(("changes", "expected"), ARCHIVES.values(), ids=ARCHIVES)
def test_a_bad_archive_is_one_line_that_names_the_file(tmp_path, changes, expected):
    held = {"features": np.ones((12, 2)), "names": ["x", "y"], "epoch": np.arange(12)} | changes
    np.savez(tmp_path / "a.npz", **{k: np.array(v) for k, v in held.items() if v is not None})
    text = message(FileFormatError, read_features, tmp_path / "a.npz", WNR3)
    assert mentions(text, "a.npz", *expected)


def test_tables_without_subject_or_stages_cannot_train(tmp_path):
    (tmp_path / "a.csv").write_text("stage,x\nW,1\n")
    nobody = read_features(tmp_path / "a.csv", WNR3)
    assert mentions(message(InputError, check_together, [nobody]), "no subject")
    unscored = feature_table(1, labels=np.full(90, -1))
    assert mentions(message(InputError, check_together, [unscored]), "no scored epoch")
    assert mentions(message(InputError, check_together, []), "no recording")
    for other in (
        feature_table(2, scheme=AASM5),
        feature_table(2, recipe={"name": "own"}),
        feature_table(2, values=np.zeros((90, 2, 4))),
    ):
        assert mentions(message(InputError, check_together, [feature_table(1), other]), "night2", "night1")


def test_a_gap_or_an_epoch_without_signal_ends_a_stretch():
    features = feature_table(1, n_epochs=30).values.copy()
    features[20] = np.nan
    table = feature_table(1, n_epochs=30, values=features, epochs=np.r_[0:10, 13:33])
    assert table.stretches() == [(0, 10), (10, 20), (21, 30)]


def test_subjects_are_wholly_on_one_side():
    tables = [feature_table(seed, subject=f"p{seed // 2}") for seed in range(10)]
    training, validation = split_subjects(tables, 0.2, seed=42)
    sides = [{t.subject for t in side} for side in (training, validation)]
    assert sides[0] | sides[1] == {f"p{k}" for k in range(5)}
    assert not sides[0] & sides[1]
    assert len(sides[1]) == 1
    assert split_subjects(tables, 0.2, seed=42)[1] == validation
    one = message(InputError, split_subjects, tables[:2], 0.2, seed=42)
    assert mentions(one, "p0", "least", 2)


def test_sequences_never_cross_recordings_or_gaps_and_padding_is_masked():
    # every feature holds 1000 * recording + epoch, so that a sequence shows where it came from
    tables = []
    for k, epochs in enumerate([np.arange(45), np.r_[0:25, 40:70], np.arange(6)]):
        features = np.repeat((1000.0 * (k + 1) + epochs)[:, None], 4, axis=1)
        labels = np.resize([0, 1, 2, -1], len(epochs))
        tables.append(feature_table(k, n_epochs=len(epochs), values=features, epochs=epochs, labels=labels))
    plain = Normalisation(NAMES, mean=(0.0,) * 4, spread=(1.0,) * 4, clip=1e6)
    stretches = plain.stretches(tables)
    assert [len(s.labels) for s in stretches] == [45, 25, 30, 6]
    n_padded, seen = 0, set()
    for windows in round_of_batches(stretches, 20, 3, seed=(42, 0)):
        features, labels, mask = make_batch(stretches, windows, 20)
        for row in range(len(windows)):
            values = features[row, :, 0, 0]
            n_real = int(np.count_nonzero(values))
            assert (np.diff(values[:n_real]) == 1).all()
            assert not mask[row, n_real:].any()
            assert (mask[row] == (labels[row] >= 0)).all()
            n_padded += n_real < 20
            seen |= set(values[:n_real].astype(int).tolist())
    assert n_padded == 1  # the stretch of six epochs
    assert seen == {int(v) for t in tables for v in t.values[:, 0, 0]}


def test_nights_are_scaled_by_themselves_and_the_clock_by_all():
    tables = cohort(3)
    shifted = feature_table(1, values=tables[1].values * 3 + 100)
    scale = Normalisation.fit(tables, ["clock"])
    ours, theirs = scale(tables[1]), scale(shifted)
    np.testing.assert_allclose(ours[..., :3], theirs[..., :3], atol=1e-4)
    assert (theirs[..., 3] == 5.0).all()  # far from any clock seen in training, clipped
    assert abs(ours[..., :3].mean()) < 1e-6
    assert np.ptp(ours[..., 3]) > 1
    assert read(Normalisation, plain(scale)) == scale
    assert mentions(message(InputError, Normalisation.fit, tables, ["clok"]), "'clok'", "'clock'")
