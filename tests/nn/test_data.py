"""Feature tables and the sequences cut from them."""

from __future__ import annotations

import numpy as np
import pytest

from feature_nights import NAMES, cohort, feature_table, write_csv
from messages import mentions
from stageguard import schema
from stageguard.errors import FileFormatError, InputError
from stageguard.night.stages import AASM5, WNR3, WS2
from stageguard.nn.data import read_features, read_folder
from stageguard.nn.tables import (
    Normalisation,
    check_together,
    count_labels,
    cut_windows,
    make_batch,
    round_of_batches,
    split_subjects,
    take_subjects,
)


def message(error: type[Exception], function, *arguments, **keywords) -> str:
    with pytest.raises(error) as caught:
        function(*arguments, **keywords)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_csv_and_npz_read_back_as_they_were(tmp_path):
    table = feature_table(1, epochs=np.r_[0:40, 50:100])
    back = read_features(write_csv(tmp_path / "night1.csv", table), WNR3)
    np.savez(
        tmp_path / "night1.npz",
        features=table.values,
        names=table.names,
        subject="s1",
        epoch=table.epochs,
        labels=table.labels,
        epoch_seconds=30.0,
    )
    archived = read_features(tmp_path / "night1.npz", WNR3)
    assert archived.epoch_seconds == 30.0
    for read in (back, archived):
        assert (read.recording, read.subject, read.names) == ("night1", "s1", NAMES)
        np.testing.assert_array_equal(read.values, table.values)
        np.testing.assert_array_equal(read.labels, table.labels)
        np.testing.assert_array_equal(read.epochs, table.epochs)


def test_finer_stages_are_merged_and_unscored_ones_kept_apart(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("subject,stage,x\np,W,1\np,N2,2\np,REM,3\np,?,4\np,Sleep stage 3,5\n")
    assert read_features(path, WNR3).labels.tolist() == [0, 1, 2, -1, 1]
    assert read_features(path, WS2).labels.tolist() == [0, 1, 1, -1, 1]
    assert read_features(path).labels is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("stage,x,y\nW,1,nan\n", ("a.csv", "'y'", 0, "Fill")),
        ("stage,x,y\nW,1,inf\n", ("a.csv", "feature", "'y'", "epoch", 0)),
        ("stage,x\nW,\n", ("a.csv", "has a feature")),
        ("stage,x\nW,high\n", ("a.csv", "'x'", "'high'", 0)),
        ("stage,x\nN9,1\n", ("a.csv", 2, "'N9'", "'wnr3'", "W, N, R")),
        ("stage,x\n7,1\n", ("a.csv", 2, "'7'", "'wnr3'")),
        ("stage,x\n", ("a.csv", "has no rows")),
        ("stage,x\nW,1,2\n", ("a.csv", 2, 3, 2)),
        ("stage,epoch,x\nW,4,1\nW,3,1\n", ("a.csv", 2, "increasing")),
        ("subject,x\np,1\nq,1\n", ("a.csv", 2, "subjects")),
    ],
)
def test_a_bad_table_is_one_line_that_names_the_file(tmp_path, content, expected):
    (tmp_path / "a.csv").write_text(content)
    assert mentions(message(FileFormatError, read_features, tmp_path / "a.csv", WNR3), *expected)


def test_a_label_out_of_range_is_named():
    labels = feature_table(1).labels.copy()
    labels[7] = 3
    assert mentions(message(InputError, feature_table, 1, labels=labels), "night1", 3, 7, 0, 2, "W, N, R", -1)


def test_an_archive_cut_in_half_or_without_names_is_one_line(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, features=np.zeros((3, 2)))
    assert mentions(message(FileFormatError, read_features, path), "a.npz", "no array names")
    path.write_bytes(path.read_bytes()[:150])
    assert mentions(message(FileFormatError, read_features, path), "a.npz", "damaged or cut")


def test_a_folder_must_hold_tables_of_one_kind(tmp_path):
    assert mentions(message(InputError, read_folder, tmp_path / "none", WNR3), "not a folder")
    assert mentions(message(InputError, read_folder, tmp_path, WNR3), "no feature table")
    write_csv(tmp_path / "a.csv", feature_table(1))
    odd = feature_table(2, names=("theta", "delta", "muscle", "sigma"))
    write_csv(tmp_path / "b.csv", odd)
    assert mentions(message(InputError, read_folder, tmp_path, WNR3), "'clock'", "Compute")


def test_tables_without_subject_or_stages_cannot_train(tmp_path):
    (tmp_path / "a.csv").write_text("stage,x\nW,1\n")
    nobody = read_features(tmp_path / "a.csv", WNR3)
    assert mentions(message(InputError, check_together, [nobody]), "not say whose", "column")
    unscored = feature_table(1, labels=np.full(90, -1))
    assert mentions(message(InputError, check_together, [unscored]), "no scored epoch")
    assert mentions(message(InputError, check_together, []), "is no recording")


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


def test_subjects_are_taken_by_name():
    tables = [feature_table(seed, subject=f"p{seed // 2}") for seed in range(6)]
    others, taken = take_subjects(tables, ["p2", "p0"], "validation_subjects")
    assert (others, taken) == (tables[2:4], [*tables[:2], *tables[4:]])
    assert take_subjects(tables, [], "held_out_subjects") == (tables, [])
    assert mentions(
        message(InputError, take_subjects, tables, ["p7"], "held_out_subjects"),
        "held_out_subjects",
        "'p7'",
        "p0",
        "p1",
        "p2",
    )
    assert mentions(
        message(InputError, take_subjects, tables, ["p0", "p1", "p2"], "held_out_subjects"),
        "held_out_subjects",
        "train",
    )


def test_a_stage_absent_from_training_is_named():
    labels = feature_table(1).labels.copy()
    labels[labels == 2] = -1
    assert mentions(
        message(InputError, count_labels, [feature_table(1, labels=labels)], WNR3), "R", "occur", 1
    )
    assert count_labels([feature_table(1)], WNR3).tolist() == [30, 30, 30]


@pytest.mark.parametrize("n_epochs", [1, 19, 20, 21, 137])
def test_windows_cover_every_epoch_and_are_whole_where_they_can_be(n_epochs):
    for offset in (0, 7, 19):
        starts = cut_windows(n_epochs, 20, offset)
        covered = {t for s in starts for t in range(s, min(s + 20, n_epochs))}
        assert covered == set(range(n_epochs))
        assert all(s + 20 <= n_epochs for s in starts) or n_epochs < 20


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


def test_a_round_depends_on_seed_and_round_only():
    stretches = Normalisation().stretches(cohort(3))
    first = round_of_batches(stretches, 20, 4, seed=(42, 0))
    assert first == round_of_batches(stretches, 20, 4, seed=(42, 0))
    assert first != round_of_batches(stretches, 20, 4, seed=(42, 1))


def test_nights_are_scaled_by_themselves_and_the_clock_by_all():
    tables = cohort(3)
    shifted = feature_table(1, values=tables[1].values * 3 + 100)
    scale = Normalisation.fit(tables, ["clock"])
    ours, theirs = scale(tables[1]), scale(shifted)
    np.testing.assert_allclose(ours[..., :3], theirs[..., :3], atol=1e-4)
    assert (theirs[..., 3] == 5.0).all()  # far from any clock seen in training, clipped
    assert abs(ours[..., :3].mean()) < 1e-6
    assert np.ptp(ours[..., 3]) > 1
    assert schema.read_table(Normalisation, schema.plain_table(scale)) == scale
    assert mentions(message(InputError, Normalisation.fit, tables, ["clok"]), "'clok'", "'clock'")


def test_a_constant_feature_becomes_zero_not_nan():
    features = feature_table(1).values.copy()
    features[..., 2] = 7.0
    assert (Normalisation()(feature_table(1, values=features))[..., 2] == 0).all()


def test_tables_must_share_a_scheme():
    mixed = [feature_table(1), feature_table(2, scheme=AASM5)]
    assert mentions(message(InputError, check_together, mixed), "night2", "night1")
