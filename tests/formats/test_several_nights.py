"""Rows that are not of one night: above the header, or of several recordings in one table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stageguard.formats.cohort_table import open_table

import stageguard as sg
from messages import mentions
from stageguard.errors import FileFormatError, StageGuardError
from stageguard.formats.companions import read_quality
from stageguard.formats.night import FileOptions

NAMES = ("W", "N1", "N2", "N3", "R")
P = np.random.default_rng(4).dirichlet(np.ones(5), 40)
STAGES = np.array(NAMES)[P.argmax(axis=1)]
ROWS = [",".join(f"{value:.6f}" for value in row) for row in P.tolist()]


def refused(read, source, **options):
    with pytest.raises(StageGuardError) as caught:
        read(source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def saved(folder, lines, name="night.csv"):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


# Rows above the header


@pytest.mark.parametrize("n_above", [1, 2, 7, 19])
def test_numbers_above_a_header_are_refused(tmp_path, n_above):
    path = saved(tmp_path, [*ROWS[:n_above], ",".join(NAMES), *ROWS[n_above:]])
    message = refused(sg.read_density, path)
    assert mentions(message, "night.csv", n_above + 1, 1)


@pytest.mark.parametrize("n_above", [1, 2, 19])
@pytest.mark.parametrize("head", ["stage", "epoch,stage", "onset,duration,stage"])
def test_stages_above_a_header_are_refused(tmp_path, n_above, head):
    lines = [
        ",".join([*([str(i)] if head.startswith("epoch") else [str(30 * i), "30"]) * ("," in head), stage])
        for i, stage in enumerate(STAGES)
    ]
    message = refused(sg.read_hypnogram, saved(tmp_path, [*lines[:n_above], head, *lines[n_above:]]))
    assert mentions(message, n_above + 1, 1, "above")


@pytest.mark.parametrize(
    "above",
    ["Hypnogram of night 3", "# version 2", "device,X100", "", "subject: 12", "30 s epochs", "a,b,c,d,e"],
)
def test_titles_above_a_header_are_no_rows(tmp_path, above):
    assert sg.read_density(saved(tmp_path, [above, ",".join(NAMES), *ROWS])).n_epochs == 40
    assert sg.read_hypnogram(saved(tmp_path, [above, "stage", *STAGES])).n_epochs == 40


# Columns that tell recordings apart


KNOWN = [
    "nsrrid",
    "pid",
    "sub",
    "ses",
    "animal",
    "fold",
    "Subject ID",
    "mouse_id",
    "subj",
    "rec",
    "edf",
    "visit",
]


def two_nights(column):
    frame = pd.DataFrame(P, columns=NAMES)
    frame.insert(0, column, ["a17"] * 20 + ["b03"] * 20)
    return frame


@pytest.mark.parametrize("column", [*KNOWN, "whatever", "box", "kennung"])
def test_two_nights_in_one_table_are_never_one(tmp_path, column):
    frame = two_nights(column)
    stages = pd.DataFrame({column: frame[column], "stage": STAGES})
    for read, table in ((sg.read_density, frame), (sg.read_hypnogram, stages)):
        table.to_csv(tmp_path / "t.csv", index=False)
        table.to_parquet(tmp_path / "t.parquet", index=False)
        for source in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
            message = refused(read, source)
            assert column.casefold() in message.casefold() and "a17, b03" in message
    assert sg.read_density(frame[:20]).n_epochs == 20


@given(
    n_nights=st.integers(2, 5),
    n_epochs=st.integers(3, 40),
    name=st.text("bcdfghjklmnp", min_size=4, max_size=8),  # no word, such as deep or clock, which is known
    is_number=st.booleans(),
)
def test_an_unknown_column_that_is_constant_in_runs_is_asked_about(n_nights, n_epochs, name, is_number):
    rows = np.resize(P, (n_nights * n_epochs, 5))
    values = np.repeat(np.arange(n_nights) + 101, n_epochs)
    frame = pd.DataFrame(rows, columns=NAMES)
    frame[name] = values if is_number else [f"n{value}" for value in values]
    message = refused(sg.read_density, frame)
    assert f"column {name}" in message and "101" in message


def test_the_question_says_how_to_go_on(tmp_path):
    two_nights("box").to_csv(tmp_path / "t.csv", index=False)
    assert mentions(
        refused(sg.read_density, tmp_path / "t.csv"), "t.csv", 2, "a17", "b03", "'box'", "'a17'", "t.csv"
    )


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("confidence", np.linspace(0, 1, 40)),
        ("predicted", STAGES),
        ("y_pred", [0] * 20 + [2] * 20),
        ("note", ["n/a"] * 40),
        ("device", ["X1"] * 40),
        ("count", range(40)),
        ("movement", [0, 1] * 10 + [0] * 20),
        ("temperature", [36.5] * 20 + [36.75] * 20),
        ("cycle", [1] * 20 + [2] * 20),
    ],
)
def test_columns_that_tell_no_recordings_apart_are_ignored(name, cells):
    frame = pd.DataFrame(P, columns=NAMES)
    frame[name] = list(cells)
    assert sg.read_density(frame).n_epochs == 40


@pytest.mark.parametrize("kind", ["onset", "clock", "dates"])
def test_times_without_a_gap_say_that_it_is_one_night(tmp_path, kind):
    frame = two_nights("box")
    clock = pd.date_range("2024-05-01 23:55", periods=40, freq="30s")
    frame["time"] = {"onset": 30 * np.arange(40), "clock": clock.strftime("%H:%M:%S"), "dates": clock}[kind]
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert sg.read_density(tmp_path / "t.csv").n_epochs == 40
    stages = frame[["box", "time"]].assign(stage=STAGES)
    stages.to_csv(tmp_path / "s.csv", index=False)
    assert sg.read_hypnogram(tmp_path / "s.csv").n_epochs == 40


def test_a_gap_where_the_column_changes_is_asked_about(tmp_path):
    frame = two_nights("box")
    first, second = (pd.date_range(f"2024-05-0{day} 22:00", periods=20, freq="30s") for day in (1, 2))
    frame["time"] = [*first, *second]
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "are these recordings?" in refused(sg.read_density, tmp_path / "t.csv")


def test_rows_of_recordings_in_turn_are_asked_about():
    frame = pd.DataFrame(P, columns=NAMES)
    frame["box"] = ["a17", "b03"] * 20
    assert "a17, b03" in refused(sg.read_density, frame)


def nights_of(path):
    table = open_table([path], FileOptions())
    read = table.reading()
    return [night for chunk in table.chunks() for night in read(chunk)]


def test_a_cohort_of_such_a_table_is_asked_about_within_each_night(tmp_path):
    frame = two_nights("box").assign(id=["x"] * 30 + ["y"] * 10)
    frame.to_csv(tmp_path / "t.csv", index=False)
    first, second = nights_of(tmp_path / "t.csv")
    assert "are these recordings?" in str(first.error) and second.error is None


def test_a_header_far_below_is_no_header(tmp_path):
    with pytest.raises(FileFormatError):
        sg.read_density(saved(tmp_path, [*ROWS[:25], ",".join(NAMES), *ROWS[25:]]))


# Times under names that say nothing

STARTS = pd.date_range("2024-01-05 22:30", periods=50, freq="30s").delete(slice(20, 30))
UNTOLD = {
    "Zeit": STARTS.strftime("%d.%m.%Y %H:%M:%S"),
    "Uhr": STARTS.strftime("%H:%M:%S"),
    "unix_time": [f"{each.timestamp():.0f}" for each in STARTS],
    "index": [str(i) for i in range(50) if not 20 <= i < 30],
}


@pytest.mark.parametrize("name", UNTOLD)
def test_times_under_an_unknown_name_are_asked_about(tmp_path, name):
    path = saved(tmp_path, [",".join((name, *NAMES)), *map(",".join, zip(UNTOLD[name], ROWS, strict=True))])
    told = refused(sg.read_density, path)
    assert f"its column {name} holds" in told and "name it time" in told
    frame = pd.DataFrame(P, columns=list(NAMES)).assign(**{name: UNTOLD[name]})
    assert f"its column {name} holds" in refused(sg.read_density, frame)
    quality = saved(tmp_path, [f"{name},quality", *(f"{cell},0" for cell in UNTOLD[name])], "quality.csv")
    assert f"its column {name} holds" in refused(read_quality, quality)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("index", range(40)),
        ("power", P[:, 0]),
        ("birthday", ["1980-05-01"] * 40),
        ("comment", ["a", "b"] * 20),
        ("score", range(40, 0, -1)),
    ],
)
def test_columns_that_tell_no_gap_stay_ignored(tmp_path, name, cells):
    rows = [f"{cell},{row}" for cell, row in zip(cells, ROWS, strict=True)]
    if name == "comment":
        rows[0] = f"c,{ROWS[0]}"
    density = sg.read_density(saved(tmp_path, [",".join((name, *NAMES)), *rows]))
    assert density.n_epochs == 40


def test_an_epoch_column_leaves_no_question(tmp_path):
    rows = [f"{i + 1},{cell},{row}" for i, (cell, row) in enumerate(zip(UNTOLD["index"], ROWS, strict=True))]
    path = saved(tmp_path, [",".join(("epoch", "index", *NAMES)), *rows])
    assert sg.read_density(path).n_epochs == 40


def test_dates_with_day_and_month_in_doubt_are_named_so(tmp_path):
    starts = pd.date_range("2024-01-05 01:30", periods=40, freq="30s").strftime("%d/%m/%Y %H:%M:%S")
    path = saved(tmp_path, [",".join(("time", *NAMES)), *map(",".join, zip(starts, ROWS, strict=True))])
    (note,) = [each for each in sg.read_density(path).assumed if "start time" in each]
    assert mentions(note, "month cannot be", "told") and "without a date" not in note


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_night_that_ends_with_a_block_of_rows_may_not_begin_again(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("stageguard.formats.cohort_text.BLOCK_ROWS", 10)
    monkeypatch.setattr("stageguard.formats.cohort_dataset.BATCH_ROWS", 10)
    path = tmp_path / f"cohort{suffix}"
    frame = pd.DataFrame(P, columns=NAMES)
    frame.insert(0, "id", [name for name in ("a", "b", "c", "a") for _ in range(10)])
    frame.to_parquet(path, row_group_size=10) if suffix == ".parquet" else frame.to_csv(path, index=False)
    with pytest.raises(FileFormatError, match="'a' begins again at row 31"):
        nights_of(path)
