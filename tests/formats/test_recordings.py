"""Whole recordings: roles by label or by hand, units, scorings laid over them without a shift."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

import stageguard as sg
from messages import each_mentions, mentions, naming
from recording_files import START, channel, nsrr_xml, profusion_xml, runs, write_edf, write_edf_hypnogram
from stageguard.errors import FileFormatError, InputError, StageGuardWarning
from stageguard.formats.recordings.read import crop_recording, lay_over
from stageguard.formats.recordings.roles import guess_roles
from stageguard.night.recording import Recording, Series, Signal
from stageguard.night.stages import AASM5

NIGHT = ["W", "N1", "N2", "N3", "R", "W"]
SECONDS = 180


def psg(tmp_path, *labels, name="night.edf", seconds=SECONDS, **rest):
    return write_edf(tmp_path / name, [channel(label, seconds, 8) for label in labels], **rest)


def stage_texts(stages=NIGHT, after=0.0):
    return [(onset + after, lasting, f"Sleep stage {stage}") for onset, lasting, stage in runs(stages)]


# ---- roles


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        (
            [
                "SaO2",
                "H.R.",
                "EEG(sec)",
                "ECG",
                "EMG",
                "EOG(L)",
                "EOG(R)",
                "EEG",
                "THOR RES",
                "ABDO RES",
                "NEW AIR",
            ],
            "spo2 heart_rate eeg_2 ecg emg eog eog_2 eeg thorax abdomen airflow",
        ),
        (
            ["F4-M1", "C4-M1", "O2-M1", "C3-M2", "E1-M2", "Chin1-Chin2", "Nasal Pressure", "SpO2", "Pulse"],
            "eeg_3 eeg eeg_4 eeg_2 eog emg airflow spo2 heart_rate",
        ),
        (["EEG Fpz-Cz", "EEG Pz-Oz", "EOG horizontal", "Temp rectal"], "eeg eeg_2 eog temperature"),
        (["EEG1", "EEG2", "EMG"], "eeg eeg_2 emg"),
        (["PSG_C4", "PSG_EMG", "LOC-A2", "EKG", "Thorax", "Abdomen"], "eeg emg eog ecg thorax abdomen"),
        (["C3_M2", "EOG1", "radar I", "radar Q"], "eeg eog radar_i radar_q"),
    ],
)
def test_roles_by_label(labels, roles):
    found = guess_roles(dict.fromkeys(labels, ("", 100.0)))
    assert {label: role for role, label in found.items()} == dict(zip(labels, roles.split(), strict=True))


@pytest.mark.parametrize(
    "label",
    ["Leg L", "EMG LAT", "EMG Tib-R", "Snore", "OX stat", "Position", "Light", "ECG rate", "M1", "Marker"],
)
def test_labels_that_mean_no_role(label):
    assert guess_roles({label: ("", 100.0)}) == {}


def test_unit_and_rate_tell_the_role_too():
    assert guess_roles({"EEG": ("%", 1.0), "C4": ("mV", 100.0)}) == {"eeg": "C4"}
    assert guess_roles({"EMG submental": ("uV", 1.0)}) == {"emg_envelope": "EMG submental"}


def test_channels_by_role_and_the_others_by_label(tmp_path):
    channels = [channel("EEG C4-M1", SECONDS, 32), channel("Chin", SECONDS, 32), channel("Snore", SECONDS, 8)]
    recording = sg.read_recording(write_edf(tmp_path / "night.edf", channels))
    assert list(recording.signals) == ["eeg", "emg", "Snore"]
    assert recording.channel("emg").name == "Chin"
    assert (recording.id, recording.subject, recording.source) == ("night", "night", "night.edf")
    assert (recording.start, recording.seconds) == (START, SECONDS)
    assert each_mentions(recording.notes, ("EEG", "C4-M1", "Chin"), ("'night'",))


def test_the_sleeper_and_the_simulator(tmp_path):
    path = psg(tmp_path, "EEG", patient="P-7 F 04-MAR-1981 X", annotations=[])
    read = sg.read_recording(path)
    assert (read.subject, read.covariates["age"], read.is_synthetic) == ("P-7", 40, False)
    (tmp_path / "synthetic.json").write_text("{}")
    read = sg.read_recording(path, subject="anna")
    assert (read.subject, read.is_synthetic) == ("anna", True)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("night.edf", {"channels": {"emg": "Chinn"}}, ("night.edf", "'Chinn'", "'emg'", "C4", "'Chin'")),
        ("night.edf", {"channels": {"eeg": "C4-M1"}}, ("'C4'", "8 Hz", "'M1'", "4 Hz", "night.edf")),
        ("night.edf", {"units": {"C4": "mV"}}, ("'C4'", "night.edf", "uV", "units='mV'")),
        ("night.edf", {"channels": {"emg": "Spoilt"}}, ("night.edf", "'Spoilt'", "damaged")),
        ("night.edf", {"scoring": "away.edf"}, ("away.edf", 2021, "overlap")),
        ("short.edf", {"scoring": "h.edf"}, ("lasts", "20 s", "30 s")),
        ("spoilt.edf", {}, ("spoilt.edf", "'Spoilt'")),
        ("notes.txt", {}, ("notes.txt", "begins with 'nothing'", "EDF")),
        ("empty.edf", {}, ("empty.edf", "0 bytes")),
        (".", {}, ("is a folder", "recording")),
        ("none.edf", {}, ("none.edf", "No such file")),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, name, options, expected):
    monkeypatch.chdir(tmp_path)
    spoilt = channel("Spoilt", 60, 8, physical=(1, 1))
    write_edf(
        tmp_path / "night.edf", [channel("C4", 60, 8), channel("M1", 60, 4), channel("Chin", 60), spoilt]
    )
    write_edf(tmp_path / "spoilt.edf", [spoilt])
    psg(tmp_path, "EEG", name="short.edf", seconds=20)
    write_edf_hypnogram(tmp_path / "h.edf", NIGHT)
    write_edf_hypnogram(tmp_path / "away.edf", NIGHT, start=START + timedelta(days=1, hours=3))
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "empty.edf").touch()
    with pytest.raises((InputError, FileFormatError, FileNotFoundError), match=naming(*expected)):
        sg.read_recording(tmp_path / name, **options)


def test_channels_by_hand(tmp_path):
    path = psg(tmp_path, "C4", "M1", "X1", "EEG Fz")
    recording = sg.read_recording(path, channels={"emg": "x1", "eeg": "C4-M1"})
    raw = {label: channel(label, SECONDS, 8).values for label in ("C4", "M1", "X1")}
    np.testing.assert_allclose(recording.channel("eeg").read(), raw["C4"] - raw["M1"], atol=1e-9)
    np.testing.assert_allclose(recording.channel("eeg").read(3, 9), (raw["C4"] - raw["M1"])[3:9], atol=1e-9)
    np.testing.assert_allclose(recording.channel("emg").read(), raw["X1"], atol=1e-9)
    assert recording.channel("eeg").name == "C4-M1"
    assert "X1" not in recording.signals


def test_units_that_are_not_given(tmp_path):
    blank = [channel("EEG", 60, 8, unit=""), channel("SaO2", 60, 1, unit=""), channel("H.R.", 60, 1, unit="")]
    path = write_edf(tmp_path / "night.edf", blank)
    read = sg.read_recording(path)
    found = {role: signal.unit for role, signal in read.signals.items()}
    assert found == {"eeg": "", "spo2": "%", "heart_rate": "bpm"}
    assert "channel 'SaO2' has no unit: % assumed" in read.notes
    eeg = sg.read_recording(path, units={"eeg": "mV"}).channel("eeg")
    np.testing.assert_allclose(eeg.read(), blank[0].values * 1000, atol=1e-6)
    assert eeg.unit == "uV"


# ---- scorings


def test_own_annotations_are_the_scoring(tmp_path):
    texts = [*stage_texts(), (5.0, None, "Lights off"), (170.0, None, "Lights on")]
    recording = sg.read_recording(psg(tmp_path, "EEG", annotations=texts))
    assert recording.scorings["annotations"].stages.tolist() == NIGHT
    assert (recording.lights_off_seconds, recording.lights_on_seconds) == (5, 170)


def test_damaged_annotations_do_not_hide_the_signals(tmp_path):
    path = psg(tmp_path, "EEG", annotations=stage_texts())
    path.write_bytes(path.read_bytes().replace(b"+30\x1530", b"x30\x1530"))
    with pytest.warns(StageGuardWarning, match=naming("annotations are left")):
        recording = sg.read_recording(path)
    assert dict(recording.scorings) == {}
    assert recording.channel("eeg").n_samples == SECONDS * 8


@pytest.mark.parametrize("kind", ["edf", "nsrr", "profusion", "tsv", "hypnogram"])
def test_a_scoring_of_any_format(tmp_path, kind):
    if kind == "edf":
        scoring = write_edf_hypnogram(tmp_path / "h.edf", NIGHT)
    elif kind == "hypnogram":
        scoring = sg.Hypnogram(np.array([AASM5.index(stage) for stage in NIGHT]), AASM5, 30.0)
    else:
        scoring = tmp_path / f"h.{kind}"
        codes = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 5}
        text = {
            "nsrr": nsrr_xml(NIGHT),
            "profusion": profusion_xml(codes[stage] for stage in NIGHT),
            "tsv": "stage\n" + "\n".join(NIGHT),
        }
        scoring.write_text(text[kind])
    night = sg.read_recording(psg(tmp_path, "EEG"), scoring=scoring).scorings["expert"]
    assert night.stages.tolist() == NIGHT
    assert night.start == START


def test_several_scorers(tmp_path):
    first = write_edf_hypnogram(tmp_path / "a.edf", NIGHT)
    second = write_edf_hypnogram(tmp_path / "b.edf", ["W"] * 6)
    recording = sg.read_recording(psg(tmp_path, "EEG"), scoring={"anna": first, "ben": second})
    assert {name: night.labels.sum() for name, night in recording.scorings.items()} == {"anna": 10, "ben": 0}


def test_a_scoring_that_begins_later_by_its_clock(tmp_path):
    scoring = write_edf_hypnogram(tmp_path / "h.edf", NIGHT[:3], start=START + timedelta(seconds=60))
    read = sg.read_recording(psg(tmp_path, "EEG"), scoring=scoring)
    assert read.scorings["expert"].stages.tolist() == ["?", "?", *NIGHT[:3], "?"]
    assert mentions(read.notes, "h.edf", "60 s", "clocks")


def test_a_scoring_that_begins_before_the_recording(tmp_path):
    scoring = write_edf_hypnogram(tmp_path / "h.edf", ["?", *NIGHT], start=START - timedelta(seconds=30))
    recording = sg.read_recording(psg(tmp_path, "EEG"), scoring=scoring)
    assert recording.scorings["expert"].stages.tolist() == NIGHT
    (tmp_path / "h.xml").write_text(nsrr_xml(NIGHT[:4]))
    night = sg.read_recording(psg(tmp_path, "EEG"), scoring=tmp_path / "h.xml").scorings["expert"]
    assert night.stages.tolist() == [*NIGHT[:4], "?", "?"]


def test_epochs_between_samples_cut_the_recording(tmp_path):
    path = psg(tmp_path, "EEG", "Chin", annotations=[*stage_texts(NIGHT[:5], 12.5), (20, None, "Lights off")])
    recording = sg.read_recording(path)
    assert recording.scorings["annotations"].stages.tolist() == NIGHT[:5]
    np.testing.assert_allclose(
        recording.channel("eeg").read(), channel("EEG", SECONDS, 8).values[100:], atol=1e-9
    )
    assert recording.start == START + timedelta(seconds=12.5)
    assert recording.lights_off_seconds == 7.5
    assert mentions(recording.notes, "begin", "12.5 s")


def test_dates_that_were_removed_do_not_matter(tmp_path):
    scoring = write_edf_hypnogram(tmp_path / "h.edf", NIGHT, start=datetime(1999, 1, 1, 22, 30))
    assert (
        sg.read_recording(psg(tmp_path, "EEG"), scoring=scoring).scorings["expert"].stages.tolist() == NIGHT
    )
    bare = write_edf_hypnogram(tmp_path / "h.edf", NIGHT, start="01.01.8500.00.00")
    assert sg.read_recording(psg(tmp_path, "EEG"), scoring=bare).scorings["expert"].stages.tolist() == NIGHT


def test_a_long_scoring_is_cut_and_told(tmp_path):
    (tmp_path / "h.xml").write_text(nsrr_xml([*NIGHT, "N2", "N2"]))
    with pytest.warns(StageGuardWarning) as caught:
        night = sg.read_recording(psg(tmp_path, "EEG"), scoring=tmp_path / "h.xml").scorings["expert"]
    assert night.stages.tolist() == NIGHT
    assert mentions(str(caught[0].message), 2, 8, "180 s")


def test_scorings_on_different_grids_are_refused():
    signal = Signal("EEG", np.zeros(900), 5.0)
    night = sg.Hypnogram(np.zeros(6, dtype=int), AASM5, 30.0)
    recording = Recording("a", "a", {"eeg": signal})
    with pytest.raises(FileFormatError, match=naming("0 s", "10 s")):
        lay_over(recording, {"x": (night, 0.0), "y": (night, 10.0)})


def test_a_part_of_a_recording():
    times = np.arange(0, 180, 7.0)
    recording = Recording(
        "a",
        "a",
        {"eeg": Signal("EEG", np.arange(900.0), 5.0), "beats": Series("b", times, times, "s")},
        {"x": sg.Hypnogram(np.arange(6) % 5, AASM5, 30.0)},
        start=START,
        lights_off_seconds=70.0,
    )
    part = crop_recording(recording, 60, 120)
    assert part.channel("eeg").read().tolist() == list(range(300, 600))
    assert part.channel("beats").times.tolist() == [time - 60 for time in times if 60 <= time < 120]
    assert part.scorings["x"].labels.tolist() == [2, 3]
    assert part.start == part.scorings["x"].start == START + timedelta(seconds=60)
    assert (part.lights_off_seconds, part.lights_on_seconds) == (10, None)
