"""Rows that are not of one night: above the header, or of several recordings in one table."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

import stageguard as sg
from messages import mentions, message
from stageguard.errors import FileFormatError, StageGuardError
from stageguard.formats.cohort import open_cohort
from stageguard.formats.night import FileOptions

NAMES = ("W", "N1", "N2", "N3", "R")
P = np.random.default_rng(4).dirichlet(np.ones(5), 40)
STAGES = np.array(NAMES)[P.argmax(axis=1)]
ROWS = [",".join(f"{value:.6f}" for value in row) for row in P.tolist()]


refused = partial(message, StageGuardError)


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

KNOWN = ["nsrrid", "pid", "sub", "ses", "animal", "fold", "Subject ID", "mouse_id", "subj", "rec", "edf"]


def two_nights(column):
    frame = pd.DataFrame(P, columns=NAMES)
    frame.insert(0, column, ["a17"] * 20 + ["b03"] * 20)
    return frame


@pytest.mark.parametrize("column", KNOWN)
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


@pytest.mark.parametrize("cells", [["a17"] * 20 + ["b03"] * 20, np.linspace(0, 1, 40), STAGES, range(40)])
@pytest.mark.parametrize("name", ["box", "Zeit", "cycle"])
def test_an_unknown_column_is_ignored_and_named(tmp_path, name, cells):
    frame = pd.DataFrame(P, columns=NAMES).assign(**{name: list(cells)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, tmp_path / "t.csv"):
        night = sg.read_density(source)
        assert night.n_epochs == 40 and f"columns ignored: {name}" in night.assumed


def nights_of(path):
    table = open_cohort([path], FileOptions())
    return [table.read(rows) for rows in table.nights()]


def test_a_session_of_a_cohort_is_one_night(tmp_path):
    two_nights("session").assign(id=["x"] * 30 + ["y"] * 10).to_csv(tmp_path / "t.csv", index=False)
    first, second = nights_of(tmp_path / "t.csv")
    assert "its column session" in str(first.error) and second.error is None


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_night_that_ends_with_a_block_of_rows_may_not_begin_again(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("stageguard.formats.cohort.BLOCK_ROWS", 10)
    path = tmp_path / f"cohort{suffix}"
    frame = pd.DataFrame(P, columns=NAMES)
    frame.insert(0, "id", [name for name in ("a", "b", "c", "a") for _ in range(10)])
    frame.to_parquet(path, row_group_size=10) if suffix == ".parquet" else frame.to_csv(path, index=False)
    with pytest.raises(FileFormatError, match="'a' begins again at row 31"):
        nights_of(path)
