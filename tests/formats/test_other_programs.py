"""Tables, indexes and stage changes that other programs write and that once were read wrongly."""

from functools import partial

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, message
from stageguard.errors import FileFormatError, InputError

FIVE = ["W", "N1", "N2", "N3", "R"]
P = np.random.default_rng(3).dirichlet(np.ones(5), size=12)
STAGES = ["W", "W", "N1", "N2", "N2", "N3", "N3", "N2", "R", "R", "W", "W"]


def write(folder, name, text):
    path = folder / name
    path.write_text(text if isinstance(text, str) else "\n".join(text) + "\n", encoding="utf-8")
    return path


refusal = partial(message, (FileFormatError, InputError))


def table(rows=P, **columns):
    header = ",".join([*columns, *FIVE])
    parts = zip(*columns.values(), rows.tolist(), strict=True)
    cells = [",".join([*map(str, told), *map(repr, row)]) for *told, row in parts]
    return "\n".join([header, *cells]) + "\n"


def test_ends_at_equal_distances_are_epochs(tmp_path):
    text = table(end=range(20, 260, 20))
    density = sg.read_density(write(tmp_path, "n.csv", text))
    assert (density.epoch_seconds, density.n_epochs) == (20.0, 12)
    for rows in (["W,30", "N2,90", "R,120"], ["W,22:05:00", "N2,22:15:00", "R,22:30:00"]):
        message = refusal(sg.read_hypnogram, write(tmp_path, "n.csv", ["stage,end", *rows]))
        assert mentions(message, "expected a column onset")


def test_a_row_that_lasts_longer_is_no_epoch(tmp_path):
    path = write(tmp_path, "n.csv", ["stage,Length", "W,300", "N2,600"])
    assert "row per epoch" in refusal(sg.read_hypnogram, path, epoch_seconds=30)


def test_a_hypnogram_lists_the_columns_that_are_not_read(tmp_path):
    path = write(tmp_path, "n.csv", ["epoch,stage,heart", "0,W,60", "1,N1,61"])
    assert "columns ignored: heart" in sg.read_hypnogram(path).assumed


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_index_without_a_name_tells_the_time_in_a_file_too(tmp_path, suffix):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    times = pandas.date_range("2024-05-01 22:00", periods=12, freq="15s")
    for index, start in ((times, times[0].to_pydatetime()), (15.0 * np.arange(12), None)):
        density, stages = tmp_path / f"d.{suffix}", tmp_path / f"h.{suffix}"
        for frame, path in (
            (pandas.DataFrame(P, columns=FIVE, index=index), density),
            (pandas.DataFrame({"stage": STAGES}, index=index), stages),
        ):
            frame.to_csv(path) if suffix == "csv" else frame.to_parquet(path)
        for night in (sg.read_density(density), sg.read_hypnogram(stages)):
            assert (night.epoch_seconds, night.start, night.n_epochs) == (15.0, start, 12)


def test_an_arrow_table_keeps_the_index_of_its_frame():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(P, columns=FIVE, index=20.0 * np.arange(12))
    assert sg.read_density(arrow.Table.from_pandas(frame)).epoch_seconds == 20.0


CHANGES = [(0, "W"), (300, "N2"), (900, "R")]
UNTOLD = "nothing says when the last stage ends: read as one epoch"


def test_a_last_stage_without_an_end_is_told(tmp_path):
    bids = ["onset\tduration\ttrial_type", *(f"{at}\tn/a\tSleep stage {stage}" for at, stage in CHANGES)]
    luna = [f"{stage}\t.\t.\t{at}\t...\t." for at, stage in CHANGES]
    for name, lines in (("a_events.tsv", bids), ("a.annot", luna)):
        night = sg.read_hypnogram(write(tmp_path, name, lines))
        assert night.n_epochs == 31 and night.stages[-1] == "R"
        assert UNTOLD in night.assumed
        assert not any("left out" in note for note in night.assumed)


def test_epochs_without_durations_have_a_last_one_of_their_length(tmp_path):
    rows = [f"{30 * i}\tn/a\tSleep stage {stage}" for i, stage in enumerate(STAGES)]
    night = sg.read_hypnogram(write(tmp_path, "a_events.tsv", ["onset\tduration\ttrial_type", *rows]))
    assert night.stages.tolist() == STAGES
    assert UNTOLD not in night.assumed


def test_an_edf_with_signals_ends_its_last_stage(tmp_path):
    edfio = pytest.importorskip("edfio")
    annotations = [edfio.EdfAnnotation(at, None, f"Sleep stage {stage}") for at, stage in CHANGES]
    signal = edfio.EdfSignal(np.zeros(1800), 1, label="EEG", physical_range=(-1, 1))
    edfio.Edf([signal], annotations=annotations).write(tmp_path / "n.edf")
    night = sg.read_hypnogram(tmp_path / "n.edf")
    assert night.n_epochs == 60 and (night.stages[30:] == "R").all()
    assert mentions(night.assumed, "last", "stage lasts until")


def cropped(begin):
    mne = pytest.importorskip("mne")
    info = mne.create_info(1, 10.0, verbose="ERROR")
    raw = mne.io.RawArray(np.zeros((1, 3600)), info, verbose="ERROR")
    texts = [f"Sleep stage {stage}" for stage in STAGES]
    raw.set_annotations(mne.Annotations(30.0 * np.arange(12), 30.0, texts))
    return raw.crop(begin, 330.0, include_tmax=False)


def test_a_cropped_raw_begins_where_it_begins():
    assert sg.read_hypnogram(cropped(60.0)).stages.tolist() == STAGES[2:11]
    night = sg.read_hypnogram(cropped(75.0))
    assert night.stages.tolist() == STAGES[3:11]
    assert any(mentions(note, "15 s", "less") for note in night.assumed)
    assert night.offset_seconds == 15.0


def test_a_start_within_an_epoch_is_written_or_told_as_lost(tmp_path):
    onsets = 12.5 + 30 * np.arange(12)
    path = write(tmp_path, "d.csv", table(onset=onsets))
    lost = "part of an epoch before the first"
    assert lost not in sg.convert(path, tmp_path / "out.parquet").lost
    assert lost not in sg.read_density(path).save(tmp_path / "out.csv", format="stageguard-csv").lost
    steady = write(tmp_path, "s.csv", table(np.tile([0.96, 0.01, 0.01, 0.01, 0.01], (12, 1)), onset=onsets))
    decoding = sg.decode(sg.read_density(steady), profile="human-psg-5")
    assert lost not in decoding.save(tmp_path / "decoded.csv", format="stageguard-csv").lost
    decoding.save(tmp_path / "decoded.annot")
    assert "\t12.5\t+30\t" in (tmp_path / "decoded.annot").read_text(encoding="utf-8").splitlines()[1]
    rows = [f"{12.5 + 30 * i},30,{stage}" for i, stage in enumerate(STAGES)]
    night = sg.read_hypnogram(write(tmp_path, "h.csv", ["onset,duration,stage", *rows]))
    assert lost in night.save(tmp_path / "h.txt", format="text").lost


def test_nights_that_begin_apart_are_not_combined(tmp_path):
    one = sg.read_density(write(tmp_path, "a.csv", table(onset=30 * np.arange(12))))
    other = sg.read_density(write(tmp_path, "b.csv", table(onset=12.5 + 30 * np.arange(12))))
    assert mentions(refusal(sg.combine, [one, other]), 2, "12.5 s")
    assert sg.combine(sg.align(one, one)).n_epochs == 12


def test_jitter_of_times_is_no_other_epoch_length(tmp_path):
    rows = [f"{30 * i + 0.01 * (i % 3):.2f},{stage}" for i, stage in enumerate(STAGES)]
    assert sg.read_hypnogram(write(tmp_path, "n.csv", ["time,stage", *rows])).epoch_seconds == 30.0
    exact = [f"{30.01 * i:.2f},{stage}" for i, stage in enumerate(STAGES)]
    assert sg.read_hypnogram(write(tmp_path, "n.csv", ["time,stage", *exact])).epoch_seconds == 30.01


@pytest.mark.parametrize("delimiter", [" ", ","])
def test_arrays_that_numpy_wrote_as_text(tmp_path, delimiter):
    path = tmp_path / "d.txt"
    np.savetxt(path, P, delimiter=delimiter, header=delimiter.join(FIVE))
    np.testing.assert_allclose(sg.read_density(path).probabilities, P)
    for header in ("", "made by hand"):
        np.savetxt(path, P, delimiter=delimiter, header=header)
        np.testing.assert_allclose(sg.read_density(path, stages=FIVE).probabilities, P)


def test_digits_beside_letters_leave_no_doubt(tmp_path):
    for first in ("W", "1"):
        night = sg.read_hypnogram(write(tmp_path, "n.txt", [first, "W", "1", "2", "3", "R"]))
        assert night.stages.tolist()[1:] == ["W", "N1", "N2", "N3", "R"]
        assert "beside letters, 1 as N1, 2 as N2, 3 as N3" in night.assumed
    for doubtful in (["W", "0", "1", "R"], ["W", "1", "2"]):
        assert "is a number" in refusal(sg.read_hypnogram, write(tmp_path, "n.txt", doubtful))
