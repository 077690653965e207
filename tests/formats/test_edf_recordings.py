"""EDF and EDF+ signals: the same numbers as edfio and MNE, slice by slice, with gaps, in bounded memory."""

from __future__ import annotations

import pickle
import tracemalloc
from datetime import datetime
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import each_mentions, mentions, message
from recording_files import START, Channel, channel, write_edf
from stageguard.errors import FileFormatError, InputError
from stageguard.formats.recordings import edf
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.recordings.raw import crop

complaint = partial(message, FileFormatError, read_edf_recording)


def patched(path, place, text):
    data = bytearray(path.read_bytes())
    data[place : place + len(text)] = text
    path.write_bytes(data)
    return path


@pytest.fixture
def channels():
    return [
        channel("EEG C4-M1", 7, 16),
        channel("ECG", 7, 32, unit="mV", physical=(-5, 5), digital_range=(-2048, 2047)),
        channel("EMG", 7, 4, unit="V", physical=(0.001, -0.001)),
        channel("Temp", 7, 1, unit="°C", physical=(34, 40)),
        channel("Resp", 7, 2, unit="l", physical=(-1, 1)),
    ]


def test_samples_are_in_standard_units(tmp_path, channels):
    raw = read_edf_recording(write_edf(tmp_path / "night.edf", channels))
    assert [signal.unit for signal in raw.signals.values()] == ["uV", "uV", "uV", "degC", "l"]
    assert [signal.rate_hz for signal in raw.signals.values()] == [16, 32, 4, 1, 2]
    for each, factor in zip(channels, (1, 1e3, 1e6, 1, 1), strict=True):
        signal = raw.signals[each.label]
        assert signal.n_samples == len(each.digital)
        np.testing.assert_allclose(signal.read(), each.values * factor, rtol=1e-12, atol=1e-9)
    assert raw.start == START
    assert (raw.notes, dict(raw.unreadable)) == ((), {})


def test_the_same_numbers_as_edfio(tmp_path):
    edfio = pytest.importorskip("edfio")
    rng = np.random.default_rng(1)
    signals = [
        edfio.EdfSignal(rng.normal(0, 50, 2000), 100, label="EEG Fpz-Cz", physical_dimension="uV"),
        edfio.EdfSignal(
            rng.normal(0, 1, 400), 20, label="ECG", physical_dimension="mV", physical_range=(-9, 7)
        ),
    ]
    edfio.Edf(signals, annotations=[edfio.EdfAnnotation(3, 2, "a cough")]).write(tmp_path / "night.edf")
    raw = read_edf_recording(tmp_path / "night.edf")
    for theirs, factor in zip(edfio.read_edf(tmp_path / "night.edf").signals, (1, 1000), strict=True):
        np.testing.assert_allclose(
            raw.signals[theirs.label].read(), theirs.data * factor, rtol=1e-12, atol=1e-9
        )


@given(st.integers(-3, 60), st.integers(-3, 60), st.sampled_from([1, 2, 3, 7]), st.sampled_from([1, 99]))
def test_any_slice_is_that_of_the_whole(tmp_path_factory, first, end, record_seconds, block_bytes):
    edf.BLOCK_BYTES = block_bytes  # a record or a few at a time
    path = tmp_path_factory.mktemp("slices") / "night.edf"
    each = channel("EEG", 42, 1)
    write_edf(path, [channel("ECG", 42, 4), each], record_seconds=record_seconds)
    samples = read_edf_recording(path).signals["EEG"].samples
    np.testing.assert_allclose(samples[first:end], each.values[first:end], atol=1e-9)
    np.testing.assert_allclose(samples[first:], each.values[first:], atol=1e-9)
    for place in (3, slice(0, 10, 2)):
        with pytest.raises(InputError, match="step 1"):
            samples[place]


def test_a_channel_can_be_sent_to_another_process(tmp_path, channels):
    signal = read_edf_recording(write_edf(tmp_path / "night.edf", channels)).signals["ECG"]
    copy = pickle.loads(pickle.dumps(signal))
    np.testing.assert_array_equal(copy.read(), signal.read())


def test_memory_is_that_of_a_slice(tmp_path):
    hours, rate_hz = 4, 128
    path = write_edf(
        tmp_path / "long.edf", [channel(label, hours * 3600, rate_hz) for label in ("EEG", "EMG")]
    )
    signal = read_edf_recording(path).signals["EMG"]
    tracemalloc.start()
    total = sum(signal.read(at, at + 30 * rate_hz).sum() for at in range(0, signal.n_samples, 30 * rate_hz))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(total)
    assert peak < 1e6 < path.stat().st_size / 5


def test_gaps_of_a_discontinuous_file_are_nan(tmp_path):
    each = channel("EEG", 6, 4)
    onsets = [0.25, 1.25, 2.25, 10.25, 11.25, 20.75]
    path = write_edf(tmp_path / "gaps.edf", [each, channel("SaO2", 6, 1)], onsets=onsets, plus="EDF+D")
    raw = read_edf_recording(path)
    signal = raw.signals["EEG"]
    expected = np.full(86, np.nan)
    for record, onset in enumerate(onsets):
        place = round((onset - 0.25) * 4)
        expected[place : place + 4] = each.values[record * 4 : record * 4 + 4]
    np.testing.assert_allclose(signal.read(), expected, atol=1e-9)
    np.testing.assert_allclose(signal.read(10, 50), expected[10:50], atol=1e-9)
    assert raw.start == datetime(2021, 3, 4, 22, 30, 0, 250_000)
    assert each_mentions(raw.notes, (2, "gaps", "NaN"))


def test_a_file_that_calls_itself_continuous_and_is_not(tmp_path):
    onsets = [0, 1, 2, 3, 64, 65]
    raw = read_edf_recording(write_edf(tmp_path / "lie.edf", [channel("EEG", 6, 4)], onsets=onsets))
    assert raw.signals["EEG"].n_samples == 66 * 4
    assert np.isnan(raw.signals["EEG"].read()[16:256]).all()


def test_records_that_go_back_in_time_are_refused(tmp_path):
    path = write_edf(tmp_path / "back.edf", [channel("EEG", 4, 4)], onsets=[0, 5, 2, 9], plus="EDF+D")
    assert complaint(path).startswith("back.edf: record 2 begins at 2 s, expected 6 s or later")
    path = write_edf(tmp_path / "far.edf", [channel("EEG", 4, 4)], onsets=[0, 5, 6, 9e9], plus="EDF+D")
    assert "record 3 begins at 9e+09 s" in complaint(path)


def test_records_that_the_header_does_not_count(tmp_path, channels):
    raw = read_edf_recording(write_edf(tmp_path / "crash.edf", channels, n_records=-1))
    assert raw.signals["ECG"].n_samples == 7 * 32
    assert each_mentions(raw.notes, ("records there are", 7))
    path = write_edf(tmp_path / "spare.edf", channels)
    path.write_bytes(path.read_bytes() + b"xyz")
    assert each_mentions(read_edf_recording(path).notes, ("3 bytes", "ignored"))


@pytest.mark.parametrize("n_bytes", [0, 1, 8, 100, 255, 256, 300, 1535, 1536, 2000, -1])
def test_a_truncated_file_is_refused(tmp_path, channels, n_bytes):
    path = write_edf(tmp_path / "cut.edf", channels)
    path.write_bytes(path.read_bytes()[:n_bytes])
    assert complaint(path).startswith("cut.edf: ")


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        (0, b"1       ", ("1   ", "EDF")),
        (0, b"\xffBIOSEMI", ("BDF", 24, "EDF")),
        (184, b"1234    ", ("'1234'", 5, 1536)),
        (184, b"many    ", ("'many'",)),
        (236, b"0       ", (7, 0, "records")),
        (236, b"1e999   ", ("'1e999'",)),
        (244, b"-1      ", ("'-1'", "seconds")),
        (244, b"0       ", ("lasts", "0 s")),
        (252, b"0   ", (0, 1, 4096)),
        (252, b"1.5 ", ("'1.5'",)),
        (252, b"9999", ("'9999'", 4096)),
        (256 + 5 * 216, b"99999999", ("a record holds",)),
        (256 + 5 * 216, b"-4      ", ("'-4'", "'EEG C4-M1'", 0)),
    ],
)
def test_a_damaged_header_names_its_field(tmp_path, channels, place, text, expected):
    path = patched(write_edf(tmp_path / "bad.edf", channels), place, text)
    assert mentions(complaint(path), *expected)


def test_a_spoilt_channel_spoils_no_other(tmp_path):
    broken = channel("Pleth", 3, 4, physical=("abc", 5))
    flat = channel("Position", 3, 4, digital_range=(0, 0))
    good = channel("EEG", 3, 4)
    raw = read_edf_recording(write_edf(tmp_path / "night.edf", [broken, good, flat]))
    assert list(raw.signals) == ["EEG"]
    np.testing.assert_allclose(raw.signals["EEG"].read(), good.values, atol=1e-9)
    assert list(raw.unreadable) == ["Pleth", "Position"]
    assert mentions(raw.unreadable["Pleth"], "physical nan", 5)


def test_equal_labels_are_numbered(tmp_path):
    channels = [channel("EEG", 3, 4), channel("EEG", 3, 4, seed=2), channel("", 3, 4)]
    raw = read_edf_recording(write_edf(tmp_path / "night.edf", channels))
    assert list(raw.signals) == ["EEG", "EEG (2)", "unnamed"]
    np.testing.assert_allclose(raw.signals["EEG (2)"].read(), channels[1].values, atol=1e-9)


def test_decimal_commas_are_read(tmp_path):
    each = Channel("EEG", np.arange(12), 4, physical=("-3276,8", "3276,7"))
    raw = read_edf_recording(write_edf(tmp_path / "night.edf", [each]))
    np.testing.assert_allclose(raw.signals["EEG"].read(), np.arange(12) / 10, atol=1e-9)


@pytest.mark.parametrize(
    ("stamp", "recording", "start", "note"),
    [
        ("04.03.2122.30.00", "", START, ""),
        ("04.03.8522.30.00", "", datetime(1985, 3, 4, 22, 30), ""),
        ("04.03.yy22.30.00", "Startdate 04-MAR-2121 X X X", datetime(2121, 3, 4, 22, 30), ""),
        ("00.00.0022.30.00", "", datetime(1985, 1, 1, 22, 30), "'00.00.00' as date: 1985-01-01"),
        ("31.02.2122.30.00", "Startdate X X X X", datetime(1985, 1, 1, 22, 30), "'31.02.21' as date"),
        ("04.03.2125.61.00", "", None, "'25.61.00' as starting time: it is not known"),
    ],
)
def test_when_a_recording_began(tmp_path, stamp, recording, start, note):
    recording += " SYNTHETIC"
    path = write_edf(tmp_path / "night.edf", [channel("EEG", 2, 4)], start=stamp, recording=recording)
    raw = read_edf_recording(path)
    assert (raw.start, raw.is_synthetic) == (start, True)
    assert note in "".join(raw.notes)
    assert bool(raw.notes) == bool(note)


@pytest.mark.parametrize(
    ("patient", "subject", "facts"),
    [
        ("MCH-0234 F 04-MAR-1981 Haagse_Harry", "MCH-0234", {"sex": "F", "age": 40.0}),
        ("X M X X", None, {"sex": "M"}),
        ("X X 04-MAR-2081 X", None, {}),
        ("anything", None, {}),
    ],
)
def test_what_an_edf_plus_header_says_of_the_sleeper(tmp_path, patient, subject, facts):
    path = write_edf(tmp_path / "night.edf", [channel("EEG", 2, 4)], patient=patient, annotations=[])
    raw = read_edf_recording(path)
    assert (raw.subject, dict(raw.covariates)) == (subject, facts)
    plain = read_edf_recording(write_edf(tmp_path / "plain.edf", [channel("EEG", 2, 4)], patient=patient))
    assert (plain.subject, dict(plain.covariates)) == (None, {})


def test_a_cut_is_at_the_nearest_sample(tmp_path, channels):
    signal = read_edf_recording(write_edf(tmp_path / "night.edf", channels)).signals["EEG C4-M1"]
    part = crop(signal, 1.03, 3.0)
    np.testing.assert_allclose(part.read(), channels[0].values[16:48], atol=1e-9)
    np.testing.assert_allclose(part.read(3, 9), channels[0].values[19:25], atol=1e-9)
    assert crop(signal, 0, 99) is signal
    assert crop(signal, 8, 9) is None
