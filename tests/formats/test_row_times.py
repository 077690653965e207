"""Columns and indexes that say when rows are: length, gaps and start are taken from them, or refused."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, naming
from stageguard.errors import FileFormatError, StageGuardError

P = np.random.default_rng(6).dirichlet(np.ones(5), 4)
NAMES = ("W", "N1", "N2", "N3", "R")
STAGES = ["W", "N1", "N2", "R"]
CLOCK = datetime(2024, 5, 1, 22)


def table(folder, header, *rows, name="night.csv"):
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def staged(folder, column, times, mark=","):
    rows = [f"{time}{mark}{stage}" for time, stage in zip(times, STAGES * 2, strict=False)]
    return table(folder, f"{column}{mark}stage", *rows)


def density_table(folder, column, times):
    rows = [f"{time},{','.join(map(repr, row.tolist()))}" for time, row in zip(times, P, strict=True)]
    return table(folder, f"{column},{','.join(NAMES)}", *rows)


def refused(source, read=sg.read_hypnogram, **options):
    with pytest.raises(StageGuardError) as caught:
        read(source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("column", ["time", "start", "Time (s)", "onset"])
@pytest.mark.parametrize("step", [20, 4])
def test_steps_between_rows_are_the_epoch_length(tmp_path, column, step):
    times = [step * place for place in range(4)]
    night = sg.read_hypnogram(staged(tmp_path, column, times))
    assert (night.epoch_seconds, night.stages.tolist()) == (step, STAGES)
    assert sg.read_density(density_table(tmp_path, column, times)).epoch_seconds == step


@pytest.mark.parametrize("column", ["time", "seconds", "begin", "onset"])
def test_rows_that_may_be_runs_of_epochs_are_refused(tmp_path, column):
    message = refused(staged(tmp_path, column, [0, 300, 330, 900, 1800]))
    assert mentions(message, 3, "300 s", "30 s")
    assert "200 s apart" in refused(staged(tmp_path, column, [0, 200, 600, 800, 1000]))


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        ("start,end,stage", ["0,60,W", "60,90,N2", "90,150,R"], "WW2RR"),
        ("start_time,end_time,stage",
         ["23:59:00,00:00:00,W", "00:00:00,00:00:30,N2", "00:00:30,00:01:00,R"], "WW2R"),
        ("Start Time,Duration (s),Sleep Stage",
         ["22:00:00,60,W", "22:01:00,30,N2", "22:02:00,30,R"], "WW2?R"),
        ("onset;duration;stage", ["0,0;60,0;W", "60,0;30,0;N2", "90,0;30,0;R"], "WW2R"),
    ],
)  # fmt: skip
def test_runs_with_an_end_or_a_duration(tmp_path, header, rows, expected):
    night = sg.read_hypnogram(table(tmp_path, header, *rows))
    assert "".join(stage[-1] for stage in night.stages.tolist()) == expected
    assert night.epoch_seconds == 30
    assert any("decimal commas" in note for note in night.assumed) == (";" in header)


def test_numbers_that_may_be_minutes_are_refused(tmp_path):
    path = staged(tmp_path, "time", [0, 0.5, 1, 1.5])
    assert mentions(refused(path), "0.5", "hours")
    assert "counts by 0.5" in refused(density_table(tmp_path, "time", [0, 0.5, 1, 1.5]), sg.read_density)


def test_dates_give_start_and_gaps(tmp_path):
    times = [f"2024-05-01 {clock}" for clock in ("22:00:00", "22:00:30", "22:01:00", "23:00:30")]
    night = sg.read_hypnogram(staged(tmp_path, "time", [*times, "2024-05-01 23:01:00"]))
    assert (night.start, night.n_epochs, night.epoch_seconds) == (CLOCK, 123, 30)
    assert night.stages[[0, 1, 2, 3, 121]].tolist() == ["W", "N1", "N2", "?", "R"]
    density = sg.read_density(density_table(tmp_path, "time", times))
    assert (density.start, density.n_epochs, density.epoch_seconds) == (CLOCK, 122, 30)
    assert mentions(" ".join(density.assumed), "118 epochs", "missing")


ROW = ",".join(map(str, P[0]))
HOUR = [3600, 3630, 3660]
STAGE_ROWS = [f"{onset},{stage}" for onset, stage in zip(HOUR, ("W", "N2", "R"), strict=True)]


@pytest.mark.parametrize(
    ("header", "rows", "read"),
    [
        ("onset,stage", STAGE_ROWS, sg.read_hypnogram),
        ("onset,duration,stage", [row.replace(",", ",30,") for row in STAGE_ROWS], sg.read_hypnogram),
        ("Hypnogram of x\nEpoch,Time,Stage", [f"{i},{t},{i}" for i, t in enumerate(HOUR)], sg.read_hypnogram),
        ("onset," + ",".join(NAMES), [f"{t},{ROW}" for t in HOUR], sg.read_density),
        ("Hypnogram of x\nEpoch,Time,Stage,Prob. W,Prob. N1,Prob. N2,Prob. N3,Prob. REM",
         [f"{i},{t},0,{ROW}" for i, t in enumerate(HOUR)], sg.read_density),
    ],
)  # fmt: skip
def test_onsets_count_from_the_recordings_start_in_every_reader(tmp_path, header, rows, read):
    night = read(table(tmp_path, header, *rows))
    assert night.n_epochs == 123
    empty = night.labels == -1 if read is sg.read_hypnogram else np.isnan(night.probabilities[:, 0])
    assert np.flatnonzero(~empty).tolist() == [120, 121, 122]


def test_an_epoch_column_must_tell_what_is_before_it(tmp_path):
    said = "column 'epoch': begins with 5, expected 0 or 1"
    assert said in refused(staged(tmp_path, "epoch", [5, 6, 7]))
    assert said in refused(density_table(tmp_path, "epoch", [5, 6, 7, 8]), sg.read_density)
    night = sg.read_hypnogram(staged(tmp_path, "epoch", [1, 2, 5]))
    assert night.stages.tolist() == ["W", "N1", "?", "?", "N2"]


def test_other_tables_of_several_things_are_refused(tmp_path):
    assert "has 2 columns named stage" in refused(table(tmp_path, "Stage,Stage", "W,W", "N1,N2"))
    path = table(tmp_path, f"channel,{','.join(NAMES)}", f"C3,{ROW}", f"C4,{ROW}")
    assert mentions(refused(path, sg.read_density), 2, "C3, C4")
    assert "sg.combine" in refused(path, sg.read_density)
    assert sg.read_hypnogram(table(tmp_path, "id,stage", "1,W", "2,N1", "3,R")).n_epochs == 3  # rows counted


def test_indexes_of_pandas():
    pd = pytest.importorskip("pandas")
    index = pd.date_range(CLOCK, periods=8, freq="20s", tz="Europe/Berlin")
    night = sg.read_hypnogram(pd.Series(STAGES, index=index[[0, 1, 2, 5]].append(index[[]])).iloc[:3])
    assert (night.epoch_seconds, night.start) == (20, index[0].to_pydatetime())
    night = sg.read_hypnogram(pd.Series([*STAGES, "W"], index=index[[0, 1, 2, 5, 6]]))
    assert night.stages.tolist() == ["W", "N1", "N2", "?", "?", "R", "W"]
    frame = pd.DataFrame(P, columns=NAMES, index=20.0 * np.arange(4))
    assert sg.read_density(frame).epoch_seconds == 20
    assert sg.read_density(frame.reset_index(names="time")).epoch_seconds == 20
    assert "counts by 0.5" in refused(pd.DataFrame(P, columns=NAMES, index=np.arange(4) / 2), sg.read_density)
    levels = pd.MultiIndex.from_product([["a", "b"], [0, 1]], names=["id", "epoch"])
    assert mentions(refused(pd.DataFrame(P, columns=NAMES, index=levels), sg.read_density), "its column id")
    assert mentions(refused(pd.DataFrame({"stage": STAGES}, index=levels)), "its column id")
    assert any(
        mentions(each, "does not count", 1) for each in sg.read_density(frame.set_axis([0, 1, 4, 5])).assumed
    )


def test_a_frame_of_this_package_comes_back_with_its_start():
    pytest.importorskip("pandas")
    night = sg.Hypnogram(np.array([0, 1, -1, 4], np.int8), "aasm5", 20.0, CLOCK, "me")
    again = sg.read_hypnogram(night.to_frame())
    assert (again.start, again.epoch_seconds, again.labels.tolist()) == (CLOCK, 20.0, [0, 1, -1, 4])
    part = sg.read_hypnogram(night.to_frame().iloc[1:])
    assert (part.start, part.labels.tolist()) == (CLOCK, [-1, 1, -1, 4])


def test_frames_of_polars_and_arrays_of_xarray():
    pl = pytest.importorskip("polars")
    moments = np.datetime64(CLOCK, "us") + np.arange(4) * np.timedelta64(20, "s")
    frame = pl.DataFrame({"time": moments, **dict(zip(NAMES, P.T, strict=True))})
    density = sg.read_density(frame)
    assert (density.epoch_seconds, density.start) == (20, CLOCK)
    night = sg.read_hypnogram(pl.DataFrame({"time": moments, "stage": STAGES}))
    assert (night.epoch_seconds, night.start) == (20, CLOCK)
    assert mentions(refused(pl.DataFrame({"id": ["a", "a", "b", "b"], "stage": STAGES})), "its column id")
    xr = pytest.importorskip("xarray")
    array = xr.DataArray(P, dims=("time", "stage"), coords={"stage": list(NAMES), "time": [0.0, 20, 40, 60]})
    assert sg.read_density(array).epoch_seconds == 20


def test_gssc_stages_are_where_their_times_are(tmp_path):
    rows = ["Epoch,Time,Stage", "0,0,0", "1,20,1", "3,60,2", "4,80,4"]
    night = sg.read_hypnogram(table(tmp_path, "Hypnogram of x", *rows))
    assert (night.epoch_seconds, night.stages.tolist()) == (20, ["W", "N1", "?", "N2", "R"])
    rows[3:] = ["2,60,2", "3,80,4"]
    with pytest.raises(FileFormatError, match=naming(3, "column", 2)):
        sg.read_hypnogram(table(tmp_path, "Hypnogram of x", *rows))


# ---- onsets decide how long an epoch is

SCORED = ["W", "N1", "N2", "N2", "N3", "R", "W", "N2"] * 3


def early(seconds, n=None):
    """Onsets every 30 s, and epochs that are said to last so long."""
    return [(30 * i, seconds, stage) for i, stage in enumerate(SCORED[:n])]


LAYOUTS = {
    "n.csv": lambda rows: "start,end,stage\n" + "".join(f"{o},{o + s},{n}\n" for o, s, n in rows),
    "n.tsv": lambda rows: "onset\tduration\tstage\n" + "".join(f"{o}\t{s}\t{n}\n" for o, s, n in rows),
    "sub-1_events.tsv": lambda rows: (
        "onset\tduration\ttrial_type\n" + "".join(f"{o}\t{s}\tSleep stage {n}\n" for o, s, n in rows)
    ),
    "n.annot": lambda rows: (
        "class\tinstance\tchannel\tstart\tstop\tmeta\n"
        + "".join(f"{n}\t.\t.\t{o}\t{o + s}\t.\n" for o, s, n in rows)
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(("seconds", "is_said"), [(29.75, True), (30.25, True), (29.98, False), (30, False)])
@pytest.mark.parametrize("n_rows", [2, len(SCORED)])
def test_onsets_decide_how_long_an_epoch_is(tmp_path, name, seconds, is_said, n_rows):
    path = tmp_path / name
    path.write_text(LAYOUTS[name](early(seconds, n_rows)))
    night = sg.read_hypnogram(path, scheme="aasm5")
    assert (night.epoch_seconds, night.n_epochs) == (30.0, n_rows)
    assert night.stages.tolist() == SCORED[:n_rows]
    said = [note for note in night.assumed if "but begin every 30 s: 30 s taken" in note]
    assert bool(said) == is_said, night.assumed


@pytest.mark.parametrize("name", LAYOUTS)
def test_ends_that_are_far_off_are_refused(tmp_path, name):
    path = tmp_path / name
    path.write_text(LAYOUTS[name](early(28)))
    with pytest.raises(FileFormatError):
        sg.read_hypnogram(path, scheme="aasm5")


def test_onsets_decide_in_tables_of_probabilities(tmp_path):
    path = tmp_path / "n.csv"
    rows = [f"{30 * i},{30 * i + 29.75},0.2,0.2,0.2,0.2,0.2\n" for i in range(10) if i != 4]
    path.write_text("start,end,W,N1,N2,N3,R\n" + "".join(rows))
    density = sg.read_density(path)
    assert (density.epoch_seconds, density.n_epochs) == (30.0, 10)
    assert any("begin every 30 s: 30 s taken" in note for note in density.assumed)


@pytest.mark.parametrize("column", ["time", "onset", "timestamp", "start_time"])
@pytest.mark.parametrize("cell", ["late", "1 May 22:30", "05/01/2024 22:30", "22:30"])
@pytest.mark.parametrize("options", [{}, {"epoch_seconds": 30}])
def test_times_that_cannot_be_read_are_refused_rather_than_dropped(tmp_path, column, cell, options):
    cells = [cell] * 4
    path = density_table(tmp_path, column, cells)
    message = refused(path, sg.read_density, **options)
    assert mentions(message, 2, column, f"{cell!r}")
    assert message == refused(staged(tmp_path, column, cells), **options)


def test_times_that_cannot_be_read_matter_only_if_nothing_else_tells_the_time(tmp_path):
    for header, cells in (("onset,time", "{0},soon"), ("epoch,duration,time", "{1},20,soon")):
        rows = [f"{cells.format(20 * i, i)},{','.join(map(repr, row))}" for i, row in enumerate(P.tolist())]
        night = sg.read_density(table(tmp_path, f"{header},{','.join(NAMES)}", *rows))
        assert (night.epoch_seconds, night.n_epochs) == (20.0, 4)
