"""Feature tables as files: what is recognised, and what is refused in one line that says where."""

from __future__ import annotations

import numpy as np
import pytest

from feature_nights import NAMES, feature_table, write_csv
from messages import mentions
from stageguard.errors import FileFormatError, InputError
from stageguard.night.stages import WNR3
from stageguard.nn.data import feature_files, read_features, read_folder

N_EPOCHS = 12


def message(function, *arguments, **keywords) -> str:
    with pytest.raises((FileFormatError, InputError)) as caught:
        function(*arguments, **keywords)
    text = str(caught.value)
    assert "\n" not in text
    return text


def read_csv(tmp_path, content: str):
    (tmp_path / "a.csv").write_text(content)
    return read_features(tmp_path / "a.csv", WNR3)


def archive(tmp_path, **changes):
    """Read an archive that is right but for the changes."""
    labels = np.arange(N_EPOCHS) % 3
    held = {
        "features": np.ones((N_EPOCHS, 2)),
        "names": np.array(["x", "y"]),
        "subject": np.array("s"),
        "labels": labels,
        "epoch": np.arange(N_EPOCHS),
        "epoch_seconds": np.array(30.0),
    }
    np.savez(tmp_path / "a.npz", **{k: v for k, v in (held | changes).items() if v is not None})
    return read_features(tmp_path / "a.npz", WNR3)


def test_columns_of_ours_are_recognised_however_they_are_capitalised(tmp_path):
    table = read_csv(tmp_path, "Subject,EPOCH,Stage,x\np,3,W,1\np,4,R,2\n")
    assert (table.subject, table.names) == ("p", ("x",))
    assert table.epochs.tolist() == [3, 4]
    assert table.labels.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("stage,Stage,x\nW,N,1\n", ("a.csv", "'stage'", "'Stage'")),
        ("subject,x,subject\np,1,q\n", ("a.csv", "'subject'", "'subject'")),
        ("stage,x\nW,1\n\nQ,2\n", ("a.csv", 4, "'Q'", "'wnr3'")),
        ("epoch,x\n0,1\n\n1.5,2\n", ("a.csv", 4, "1.5")),
        ("epoch,x\n0,1\ninf,2\n", ("a.csv", "line", 3, "whole")),
        ("epoch,x\n0,1\n1e300,2\n", ("a.csv", 3, "1e300")),
        ("epoch,x\n0,1\nfirst,2\n", ("a.csv", "line", 3, "whole")),
        ("epoch,x\n0,1\n100000000000,2\n", ("a.csv", "99,999,999,999", "100,000")),
        ("x\n1e39\n", ("a.csv", "'x'", "1e+39", 0)),
    ],
)
def test_a_bad_table_is_one_line_that_says_where(tmp_path, content, expected):
    assert mentions(message(read_csv, tmp_path, content), *expected)


def test_whole_numbers_may_be_written_with_a_point_and_gaps_of_a_day_are_fine(tmp_path):
    assert read_csv(tmp_path, "epoch,x\n2.0,1\n3.0,1\n90000,1\n").epochs.tolist() == [2, 3, 90_000]


def test_an_archive_that_is_right_reads(tmp_path):
    assert archive(tmp_path).epoch_seconds == 30.0
    assert archive(tmp_path, epoch=np.arange(5.0, 17.0)).epochs[0] == 5
    assert archive(tmp_path, epoch=np.arange(N_EPOCHS).astype(str)).epochs[-1] == 11
    assert archive(tmp_path, subject=np.array([b"s\xc3\xb8"])).subject == "sø"
    stages = np.array([b"W", b"N2", b"R"] * 4)
    assert archive(tmp_path, labels=None, stage=stages).labels[:3].tolist() == [0, 1, 2]
    assert archive(tmp_path, stage=stages).labels[:3].tolist() == [0, 1, 2]  # given twice, and agreeing


FULL = np.full((N_EPOCHS, 2), "a")
WRONG = {
    "names scalar": ({"names": np.array("x")}, "array 'names' has shape (), expected a list of names."),
    "names short": ({"names": np.array(["x"])}, "1 different feature names for 2 features."),
    "subject long": (
        {"subject": np.array(["s", "s"])},
        "array 'subject' has shape (2,), expected one name, or one for each of its 12 epochs.",
    ),
    "subject square": ({"subject": np.array([["s"]])}, "array 'subject' has shape (1, 1), expected one name"),
    "text features": ({"features": FULL}, "features are <U1, expected real numbers."),
    "complex features": (
        {"features": np.ones((N_EPOCHS, 2)) * 1j},
        "features are complex128, expected real numbers.",
    ),
    "epoch scalar": (
        {"epoch": np.array(3)},
        "array 'epoch' has shape (), expected one for each of its 12 epochs.",
    ),
    "epoch square": ({"epoch": np.arange(N_EPOCHS)[:, None]}, "array 'epoch' has shape (12, 1), expected"),
    "epoch short": ({"epoch": np.arange(3)}, "array 'epoch' has shape (3,), expected one for each"),
    "epoch halves": (
        {"epoch": np.arange(N_EPOCHS) + 0.5},
        "row 0: epoch is 0.5, expected a whole number.",
    ),
    "epoch huge": ({"epoch": np.arange(N_EPOCHS) * 1e300}, "row 1: epoch is 1e+300, expected a whole"),
    "epoch nan": ({"epoch": np.full(N_EPOCHS, np.nan)}, "row 0: epoch is nan, expected a whole number."),
    "epoch of times": (
        {"epoch": np.arange(N_EPOCHS).astype("datetime64[s]")},
        "row 0: epoch is 1970-01-01",
    ),
    "epoch backwards": (
        {"epoch": np.arange(N_EPOCHS, dtype=np.uint64)[::-1]},
        "epoch indices are not 12 increasing whole numbers.",
    ),
    "seconds list": (
        {"epoch_seconds": np.array([30.0, 30.0])},
        "array 'epoch_seconds' has shape (2,) of float64, expected one number of seconds.",
    ),
    "seconds text": ({"epoch_seconds": np.array("x")}, "array 'epoch_seconds' has shape () of <U1, expected"),
    "seconds negative": ({"epoch_seconds": np.array(-1.0)}, "epoch_seconds is -1.0, expected a number from"),
    "seconds nan": ({"epoch_seconds": np.array(np.nan)}, "epoch_seconds is nan, expected a finite number."),
    "stage short": ({"stage": np.array(["W"]), "labels": None}, "array 'stage' has shape (1,), expected"),
    "stage and labels": (
        {"stage": np.array(["W"] * N_EPOCHS)},
        "arrays 'stage' and 'labels' contradict each other. Keep one of them.",
    ),
    "recipe without name": (
        {"recipe": np.array("{}")},
        "array 'recipe' holds {}, expected a recipe with its",
    ),
}


@pytest.mark.parametrize(("changes", "expected"), WRONG.values(), ids=WRONG)
def test_a_bad_archive_is_one_line(tmp_path, changes, expected):
    assert message(archive, tmp_path, **changes).startswith(f"a.npz: {expected}")


def test_a_single_array_renamed_is_no_archive(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    assert mentions(message(read_features, tmp_path / "a.npz"), "a.npz", "'features'", "'names'")


def test_only_what_is_chosen_has_to_be_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("note,x,y\nhello,1,\nbye,2,\n")
    table = read_features(tmp_path / "a.csv", choose=lambda names: [names.index("x")])
    assert table.names == ("x",)
    assert table.values[:, 0, 0].tolist() == [1.0, 2.0]
    assert "feature 'note' is 'hello'" in message(read_features, tmp_path / "a.csv")
    np.savez(tmp_path / "b.npz", features=[[np.nan, 1.0], [2.0, 3.0]], names=["z", "x"])
    assert read_features(tmp_path / "b.npz", choose=lambda names: [names.index("x")]).names == ("x",)


def test_what_was_written_from_a_folders_tables_is_not_taken_for_one(tmp_path):
    for seed in (1, 2):
        write_csv(tmp_path / f"night{seed}.csv", feature_table(seed))
    for ending in ("hypnodensity.csv", "hypnogram.tsv", "changes.tsv"):
        (tmp_path / f"night1.{ending}").write_text("W\n1\n")
    assert [path.name for path in feature_files(tmp_path)] == ["night1.csv", "night2.csv"]
    assert [table.names for table in read_folder(tmp_path, WNR3)] == [NAMES, NAMES]
