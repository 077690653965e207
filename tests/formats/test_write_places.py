"""Where stages and other annotations lie in a written file: in their recording, by the clock."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import edfio
import numpy as np
import pytest

import stageguard as sg
from messages import each_mentions, mentions, naming
from stageguard.errors import InputError, StageGuardWarning
from stageguard.formats.events import read_events
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_hypnogram_file
from stageguard.formats.registry import named

pytestmark = pytest.mark.filterwarnings("ignore:.*read as unscored:stageguard.errors.StageGuardWarning")
EVENING = datetime(2024, 1, 1, 22)
WITH_EVENTS = (
    *("edf-annotations", "luna-annot", "bids-events", "nsrr-xml", "profusion-xml"),
    "mne-fif",
)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two hours from 22:00, with an arousal after an hour and 100 s."""
    path = tmp_path / "psg.edf"
    signal = edfio.EdfSignal(np.arange(7200.0), 1, label="EEG")
    edfio.Edf(
        [signal],
        starttime=time(22),
        recording=edfio.Recording(startdate=date(2024, 1, 1)),
        annotations=[edfio.EdfAnnotation(3700, 10, "Arousal")],
    ).write(path)
    return path


def night(start: datetime | None, n_epochs: int = 120, seconds: float = 30.0) -> sg.Hypnogram:
    return sg.Hypnogram(np.arange(n_epochs) % 5, "aasm5", seconds, start)


def saved(hypnogram, folder: Path, name: str, recording: Path):
    path = folder / ("night" + named(name, "write").written_suffix)
    return hypnogram.save(path, format=name, annotations_from=recording)


@pytest.mark.parametrize("name", WITH_EVENTS)
def test_a_night_that_begins_later_than_its_recording_stays_there(tmp_path, recording, name):
    written = saved(night(EVENING + timedelta(hours=1)), tmp_path, name, recording)
    back = sg.read_hypnogram(written.path, format=name)
    assert back.labels.tolist() == [-1] * 120 + (np.arange(120) % 5).tolist()
    assert back.start in (EVENING, None)
    assert [event.onset for event in read_events(written.path, name)] == [3700.0]
    assert mentions(written.notes[0], "psg.edf", "3600 s", 120)


@pytest.mark.parametrize("name", ["yasa-json", "usleep-hyp", "stageguard-csv", "parquet"])
def test_so_it_does_where_other_annotations_are_lost(tmp_path, recording, name):
    density = sg.Hypnodensity(np.full((4, 5), 0.2), "aasm5", 30.0, EVENING + timedelta(hours=1))
    written = saved(density, tmp_path, name, recording)
    is_stages = name == "usleep-hyp"
    back = sg.read_hypnogram(written.path, scheme="aasm5") if is_stages else sg.read_density(written.path)
    assert back.n_epochs == 124
    assert "1 other annotation (Arousal)" in written.lost
    if not is_stages:
        assert np.isnan(back.probabilities[:, 0]).tolist() == [True] * 120 + [False] * 4
        assert back.start == EVENING


def test_a_decodings_own_table_is_as_it_was_decoded(tmp_path, recording):
    rows = np.eye(5)[[0, 0, 2, 2, 2, 2]] * 0.9 + 0.02
    result = sg.decode(sg.Hypnodensity(rows, "aasm5", 30.0, EVENING + timedelta(hours=1)), "human-psg-5")
    written = result.save(tmp_path / "n.hypnogram.tsv", annotations_from=recording)
    assert sg.read_hypnogram(written.path).n_epochs == 6
    bids = result.save(tmp_path / "n_events.tsv", annotations_from=recording)
    assert sg.read_hypnogram(bids.path).n_epochs == 126
    assert "human-psg-5" in bids.files[1].read_text()


@pytest.mark.parametrize(
    ("seconds", "n_before", "rest"), [(12.5, 0, 12.5), (30, 1, 0), (42.5, 1, 12.5), (59.9, 2, 0)]
)
def test_what_is_left_of_an_epoch_stays(tmp_path, recording, seconds, n_before, rest):
    written = saved(night(EVENING + timedelta(seconds=seconds)), tmp_path, "bids-events", recording)
    found = read_hypnogram_file(written.path, FileOptions())
    assert found.hypnogram.n_epochs == 120 + n_before
    assert found.hypnogram.offset_seconds == rest
    assert [event.onset for event in read_events(written.path)] == [3700.0]
    assert (mentions(written.notes, "0.1 s", "later", "psg.edf")) == (seconds == 59.9)


def test_a_night_that_begins_before_its_recording_is_told(tmp_path, recording):
    written = saved(night(EVENING - timedelta(seconds=60)), tmp_path, "edf-annotations", recording)
    back = sg.read_hypnogram(written.path)
    assert (back.n_epochs, back.start) == (120, EVENING - timedelta(seconds=60))
    assert [event.onset for event in read_events(written.path)] == [3760.0]
    assert each_mentions(written.notes, ("begins", "60 s", "psg.edf"))


@pytest.mark.parametrize("hours", [96, -96, 2, -1])
def test_another_nights_annotations_are_refused(tmp_path, recording, hours):
    with pytest.raises(InputError, match=naming("psg.edf", 2024, "01", "01", 22, "00", "00")):
        saved(night(EVENING + timedelta(hours=hours)), tmp_path, "luna-annot", recording)
    assert not (tmp_path / "night.annot").exists()


def test_annotations_alone_may_end_before_the_night_begins(tmp_path):
    source = tmp_path / "events.edf"
    edfio.Edf(
        [],
        starttime=time(22),
        recording=edfio.Recording(startdate=date(2024, 1, 1)),
        annotations=[edfio.EdfAnnotation(100, None, "Lights off")],
    ).write(source)
    written = saved(night(EVENING + timedelta(hours=3)), tmp_path, "nsrr-xml", source)
    assert sg.read_hypnogram(written.path).n_epochs == 480
    with pytest.raises(InputError, match=naming("do not overlap")):
        saved(night(EVENING + timedelta(days=4)), tmp_path, "luna-annot", source)


def test_a_recording_without_zone_is_of_the_nights(tmp_path, recording):
    start = datetime(2024, 1, 1, 23, tzinfo=timezone(timedelta(hours=2)))
    written = saved(night(start), tmp_path, "bids-events", recording)
    back = sg.read_hypnogram(written.path)
    assert (back.n_epochs, back.start) == (240, start - timedelta(hours=1))
    assert [event.onset for event in read_events(written.path)] == [3700.0]
    assert mentions(written.notes[0], "psg.edf", "no time zone")


def test_the_events_of_both_files_are_kept_in_the_recording(tmp_path, recording):
    own = tmp_path / "own.edf"
    stages = [edfio.EdfAnnotation(30 * k, 30, f"Sleep stage {s}") for k, s in enumerate(("W", "N1", "N2"))]
    edfio.Edf(
        [],
        starttime=time(23),
        recording=edfio.Recording(startdate=date(2024, 1, 1)),
        annotations=[*stages, edfio.EdfAnnotation(5, None, "Cough")],
    ).write(own)
    written = sg.convert(own, tmp_path / "both.annot", annotations_from=recording)
    found = [(event.onset, event.text) for event in read_events(written.path)]
    assert found == [(3605.0, "Cough"), (3700.0, "Arousal")]
    assert sg.read_hypnogram(written.path).n_epochs == 123


def test_annotations_count_from_the_first_sample(tmp_path):
    path = tmp_path / "half.edf"
    edfio.Edf(
        [edfio.EdfSignal(np.arange(600.0), 1, label="EEG")],
        starttime=time(22, 0, 0, 500_000),
        recording=edfio.Recording(startdate=date(2024, 1, 1)),
        annotations=[edfio.EdfAnnotation(100, 10, "Arousal")],
    ).write(path)
    written = saved(night(EVENING + timedelta(seconds=30.5), 10), tmp_path, "luna-annot", path)
    assert each_mentions(written.notes, ("half.edf", "30 s", 1))
    assert [event.onset for event in read_events(written.path)] == [100.0]


# ---- clocks of MNE


@pytest.mark.parametrize(
    ("zone", "hours"), [(BERLIN, "1"), (timezone(timedelta(hours=-3.5)), "3.5"), (UTC, None), (None, None)]
)
def test_mne_is_told_of_a_clock_that_is_not_utc(tmp_path, zone, hours):
    written = night(EVENING.replace(tzinfo=zone)).save(tmp_path / "n-annot.fif")
    note = f"the clock time is stamped as UTC, as MNE does for EDF: {hours} h off the instant"
    assert written.notes == ((note,) if hours else ())


def test_so_are_those_who_ask_for_its_annotations():
    pytest.importorskip("mne")
    with pytest.warns(StageGuardWarning, match=naming("UTC", "MNE", "EDF", "1 h")):
        found = night(EVENING.replace(tzinfo=BERLIN)).to_mne()
    assert found.orig_time == EVENING.replace(tzinfo=UTC)
    night(EVENING).to_mne()  # nothing to tell: warnings are errors here
