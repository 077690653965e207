"""Whole recordings: roles by label or by hand, units, scorings laid over them without a shift."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta

import numpy as np
import pytest

import stageguard as sg
from messages import each_mentions, mentions, naming
from recording_files import START, channel, nsrr_xml, profusion_xml, runs, write_edf, write_edf_hypnogram
from stageguard.errors import FileFormatError, InputError, StageGuardWarning
from stageguard.formats.recordings.read import PlacedScoring, crop_recording, lay_over
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


def test_a_unit_that_does_not_fit_is_no_role():
    assert guess_roles({"EEG": ("%", 1.0), "C4": ("mV", 100.0)}) == {"eeg": "C4"}


def test_a_slow_emg_is_an_envelope():
    assert guess_roles({"EMG submental": ("uV", 1.0)}) == {"emg_envelope": "EMG submental"}


def test_channels_by_role_and_the_others_by_label(tmp_path):
    channels = [channel("EEG C4-M1", SECONDS, 32), channel("Chin", SECONDS, 32), channel("Snore", SECONDS, 8)]
    recording = sg.read_recording(write_edf(tmp_path / "night.edf", channels))
    assert list(recording.signals) == ["eeg", "emg", "Snore"]
    assert recording.channel("emg").name == "Chin"
    assert (recording.id, recording.subject, recording.source) == ("night", "night", "night.edf")
    assert (recording.start, recording.seconds) == (START, SECONDS)


def test_what_was_guessed_is_told(tmp_path):
    read = sg.read_recording(psg(tmp_path, "EEG C4-M1", "E1", "Snore"))
    assert each_mentions(read.notes, ("EEG", "C4-M1", "E1"), ("'night'",))


def test_channels_by_hand(tmp_path):
    path = psg(tmp_path, "C4", "M1", "X1", "EEG Fz")
    recording = sg.read_recording(path, channels={"emg": "x1", "eeg": "C4-M1"})
    raw = {label: channel(label, SECONDS, 8).values for label in ("C4", "M1", "X1")}
    np.testing.assert_allclose(recording.channel("eeg").read(), raw["C4"] - raw["M1"], atol=1e-9)
    np.testing.assert_allclose(recording.channel("eeg").read(3, 9), (raw["C4"] - raw["M1"])[3:9], atol=1e-9)
    np.testing.assert_allclose(recording.channel("emg").read(), raw["X1"], atol=1e-9)
    assert recording.channel("eeg").name == "C4-M1"
    assert "X1" not in recording.signals


def test_a_channel_that_is_not_there(tmp_path):
    with pytest.raises(InputError) as error:
        sg.read_recording(psg(tmp_path, "EEG C4-M1", "Chin"), channels={"emg": "Chinn"})
    assert mentions(str(error.value), "night.edf", "'Chinn'", "'emg'", "EEG", "C4-M1", "'Chin'")


def test_channels_that_cannot_be_subtracted(tmp_path):
    path = write_edf(tmp_path / "night.edf", [channel("C4", 60, 8), channel("M1", 60, 4)])
    with pytest.raises(InputError, match=naming("'C4'", "8 Hz", "'M1'", "4 Hz", "night.edf")):
        sg.read_recording(path, channels={"eeg": "C4-M1"})


def test_a_spoilt_channel_is_named_when_asked_for(tmp_path):
    path = write_edf(tmp_path / "night.edf", [channel("C4", 60, 8), channel("Chin", 60, 8, physical=(1, 1))])
    assert list(sg.read_recording(path).signals) == ["eeg"]
    with pytest.raises(FileFormatError, match=naming("'Chin'", "damaged")):
        sg.read_recording(path, channels={"emg": "Chin"})
    path = write_edf(tmp_path / "bad.edf", [channel("Chin", 60, 8, physical=(1, 1))])
    with pytest.raises(FileFormatError, match=naming("bad.edf", "'Chin'")):
        sg.read_recording(path)


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


def test_a_unit_of_the_file_is_not_overruled(tmp_path):
    with pytest.raises(InputError, match=naming("'EEG'", "night.edf", "units='mV'")):
        sg.read_recording(psg(tmp_path, "EEG"), units={"EEG": "mV"})


def test_subject_by_hand_or_from_the_header(tmp_path):
    path = psg(tmp_path, "EEG", patient="P-7 F 04-MAR-1981 X", annotations=[])
    assert sg.read_recording(path).subject == "P-7"
    assert sg.read_recording(path, subject="anna").subject == "anna"
    assert sg.read_recording(path).covariates["age"] == 40


def test_other_files_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(FileFormatError, match=r"^notes.txt: begins with 'nothing', expected EDF or EDF\+"):
        sg.read_recording(tmp_path / "notes.txt")
    with pytest.raises(FileFormatError, match=naming("is a folder", "recording")):
        sg.read_recording(tmp_path)
    (tmp_path / "empty.edf").touch()
    with pytest.raises(FileFormatError, match=r"^empty.edf: is empty \(0 bytes\)"):
        sg.read_recording(tmp_path / "empty.edf")
    with pytest.raises(FileNotFoundError):
        sg.read_recording(tmp_path / "none.edf")


def test_a_recording_can_be_sent_to_another_process(tmp_path):
    recording = sg.read_recording(psg(tmp_path, "C4", "M1"), channels={"eeg": "C4-M1"})
    copy = pickle.loads(pickle.dumps(recording.channel("eeg")))
    np.testing.assert_array_equal(copy.read(), recording.channel("eeg").read())


def test_a_simulated_cohort_is_marked(tmp_path):
    path = psg(tmp_path, "EEG")
    assert not sg.read_recording(path).is_synthetic
    (tmp_path / "synthetic.json").write_text("{}")
    assert sg.read_recording(path).is_synthetic


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


def test_another_nights_scoring_is_refused(tmp_path):
    scoring = write_edf_hypnogram(tmp_path / "h.edf", NIGHT, start=START + timedelta(days=1, hours=3))
    with pytest.raises(InputError) as error:
        sg.read_recording(psg(tmp_path, "EEG"), scoring=scoring)
    assert mentions(str(error.value), "h.edf", 2021, "03", "06", "01", 30, "00")


def test_a_short_scoring_leaves_the_rest_unscored(tmp_path):
    (tmp_path / "h.xml").write_text(nsrr_xml(NIGHT[:4]))
    night = sg.read_recording(psg(tmp_path, "EEG"), scoring=tmp_path / "h.xml").scorings["expert"]
    assert night.stages.tolist() == [*NIGHT[:4], "?", "?"]


def test_a_long_scoring_is_cut_and_told(tmp_path):
    (tmp_path / "h.xml").write_text(nsrr_xml([*NIGHT, "N2", "N2"]))
    with pytest.warns(StageGuardWarning) as caught:
        night = sg.read_recording(psg(tmp_path, "EEG"), scoring=tmp_path / "h.xml").scorings["expert"]
    assert night.stages.tolist() == NIGHT
    assert mentions(str(caught[0].message), 2, 8, "180 s")


def test_a_scoring_of_nothing_that_was_recorded_is_refused(tmp_path):
    texts = [(onset + 180, lasting, text) for onset, lasting, text in stage_texts()]
    scoring = write_edf(tmp_path / "h.edf", [], annotations=texts, record_seconds=0)
    with pytest.raises((FileFormatError, InputError), match=r"none of the 6 scored epochs|do not overlap"):
        sg.read_recording(psg(tmp_path, "EEG"), scoring=scoring)


def test_a_recording_shorter_than_an_epoch_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match=naming("lasts", "20 s", "30 s")):
        sg.read_recording(
            psg(tmp_path, "EEG", seconds=20), scoring=write_edf_hypnogram(tmp_path / "h.edf", NIGHT)
        )


def test_scorings_on_different_grids_are_refused():
    signal = Signal("EEG", np.zeros(900), 5.0)
    night = sg.Hypnogram(np.zeros(6, dtype=int), AASM5, 30.0)
    recording = Recording("a", "a", {"eeg": signal})
    with pytest.raises(FileFormatError, match=naming("0 s", "10 s")):
        lay_over(recording, {"x": PlacedScoring(night), "y": PlacedScoring(night, 10.0)})


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
