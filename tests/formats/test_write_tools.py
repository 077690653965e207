"""What is written opens in the tool it is for, wherever that tool installs, and says the same there."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from recording_files import channel, write_edf
from stageguard.errors import MissingExtraError
from stageguard.synthetic.night import simulate_night

START = datetime(2024, 5, 1, 22, 30)
YASA_NAMES = {"W": "WAKE", "R": "REM", "?": "UNS"}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def stager_output(seed: int = 1) -> sg.Hypnodensity:
    """A noisy night with a gap of ten minutes, and a start."""
    simulated = simulate_night("human-psg-5", hours=2, seed=seed).density
    values = np.array(simulated.probabilities)
    values[100:120] = np.nan
    return sg.Hypnodensity(values, simulated.scheme, 30.0, START)


def decode(density: sg.Hypnodensity) -> sg.Decoding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        return sg.decode(density, "human-psg-5")


# ---- each tool: its own output, decoded here, opened there


def with_yasa(folder: Path) -> tuple[list[str], list[str]]:
    yasa, pandas = pytest.importorskip("yasa"), pytest.importorskip("pandas")
    given = simulate_night("human-psg-5", hours=2, seed=2).density
    columns = ["WAKE", "N1", "N2", "N3", "REM"]
    proba = pandas.DataFrame(given.probabilities, columns=columns)
    values = [columns[label] for label in given.argmax]
    yasa.Hypnogram(values, 5, start="2024-05-01 22:30", proba=proba).to_json(folder / "yasa.json")
    decoding = decode(sg.read_density(folder / "yasa.json"))
    written = decoding.save(folder / "out.json")
    back = yasa.Hypnogram.from_json(written.path)
    np.testing.assert_allclose(back.proba[columns].to_numpy(), given.probabilities, atol=1e-6)
    assert (str(back.start), back.freq, back.scorer) == (
        "2024-05-01 22:30:00", "30s", "StageGuard human-psg-5",
    )  # fmt: skip
    assert decoding.to_yasa().hypno.tolist() == back.hypno.tolist()
    return back.hypno.tolist(), [YASA_NAMES.get(s, s) for s in decoding.stages]


def with_luna(folder: Path) -> tuple[list[str], list[str]]:
    lunapi = pytest.importorskip("lunapi")
    given = stager_output()
    known = np.flatnonzero(~np.isnan(given.probabilities[:, 0]))
    rows = ["ID\tE\tPP_W\tPP_R\tPP_N1\tPP_N2\tPP_N3"]
    for epoch in known:  # Luna counts from 1, and leaves excluded epochs out
        w, n1, n2, n3, r = given.probabilities[epoch]
        rows.append(f"n\t{epoch + 1}\t{w}\t{r}\t{n1}\t{n2}\t{n3}")
    (folder / "pops.txt").write_text("\n".join(rows) + "\n")
    decoding = decode(sg.read_density(folder / "pops.txt"))
    edf = write_edf(folder / "n.edf", [channel("EEG", 30 * given.n_epochs, 10)])
    instance = lunapi.proj().inst("n")
    instance.attach_edf(str(edf))
    instance.attach_annot(str(decoding.save(folder / "out.annot").path))
    instance.eval("EPOCH len=30")
    return [str(stage) for stage in instance.stages()["STAGE"]], decoding.stages.tolist()


def with_mne(folder: Path) -> tuple[list[str], list[str]]:
    mne = pytest.importorskip("mne")
    decoding = decode(stager_output())
    texts = [f"Sleep stage {stage}" for stage in decoding.stages]
    own = mne.Annotations(np.arange(len(texts)) * 30.0, 30.0, texts, orig_time=START.replace(tzinfo=UTC))
    own.save(folder / "own-annot.fif")
    night = sg.read_hypnogram(folder / "own-annot.fif")
    written = night.save(folder / "out-annot.fif")
    back = mne.read_annotations(written.path)
    np.testing.assert_array_equal(back.onset, own.onset)
    np.testing.assert_allclose(back.duration, 30.0)
    assert back.orig_time == own.orig_time
    assert decoding.to_mne().orig_time == own.orig_time
    assert decoding.to_mne().description.tolist() == back.description.tolist()
    return [text.removeprefix("Sleep stage ") for text in back.description], decoding.stages.tolist()


def with_mne_from_edf(folder: Path) -> tuple[list[str], list[str]]:
    mne = pytest.importorskip("mne")
    decoding = decode(stager_output())
    written = decoding.save(folder / "out.edf")
    back = mne.read_annotations(written.path)
    np.testing.assert_array_equal(back.onset, np.arange(len(decoding.stages)) * 30.0)
    assert set(back.duration) == {30.0}
    return [text.removeprefix("Sleep stage ") for text in back.description], decoding.stages.tolist()


def with_edfio(folder: Path) -> tuple[list[str], list[str]]:
    import edfio

    night = sg.Hypnogram([0, 1, 2, 3, 4, -1, 0], "aasm5", 30, START, "Anne Öst")
    own = [edfio.EdfAnnotation(30 * i, 30, f"Sleep stage {stage}") for i, stage in enumerate(night.stages)]
    edfio.Edf([], annotations=own, recording=edfio.Recording(startdate=START.date())).write(
        folder / "own.edf"
    )
    assert sg.read_hypnogram(folder / "own.edf").labels.tolist() == night.labels.tolist()
    back = edfio.read_edf(night.save(folder / "out.edf").path)
    assert (back.startdate, back.starttime) == (START.date(), START.time())
    assert back.recording.investigator_technician_code == "Anne__st"
    assert [a.onset for a in back.annotations] == [30.0 * i for i in range(7)]
    return [a.text.removeprefix("Sleep stage ") for a in back.annotations], night.stages.tolist()


def with_pandas(folder: Path) -> tuple[list[str], list[str]]:
    pandas = pytest.importorskip("pandas")
    given = stager_output()
    frame = pandas.DataFrame(given.probabilities, columns=["W", "N1", "N2", "N3", "R"])
    frame.index = pandas.Timestamp(START) + pandas.to_timedelta(np.arange(len(frame)) * 30, unit="s")
    decoding = decode(sg.read_density(frame))
    assert decoding.hypnogram.start == START
    written = decoding.save(folder / "out.csv", "stageguard-csv")
    back = pandas.read_csv(written.path, float_precision="round_trip")
    np.testing.assert_array_equal(back[["W", "N1", "N2", "N3", "R"]].to_numpy(), given.probabilities)
    assert pandas.Timestamp(back["time"][1]) == pandas.Timestamp("2024-05-01 22:30:30")
    parquet = pandas.read_parquet(decoding.save(folder / "out.parquet").path)
    assert parquet["stage"].tolist() == back["stage"].tolist()
    return back["stage"].tolist(), decoding.stages.tolist()


def with_sleepecg(folder: Path) -> tuple[list[str], list[str]]:
    readers = pytest.importorskip("sleepecg.io.sleep_readers")
    codes = {"W": 5, "N1": 3, "N2": 2, "N3": 1, "R": 4, "?": 0}
    night = sg.read_hypnogram(np.array([5, 5, 3, 2, 1, 0, 4, 5]), format="numbers-sleepecg")
    started = sg.Hypnogram(night.labels, night.scheme, 30, START)
    back = readers._parse_nsrr_xml(started.save(folder / "out.xml", "nsrr-xml").path)
    assert (back.sleep_stage_duration, back.recording_start_time) == (30, START.time())
    names = {code: name for name, code in codes.items()}
    return [names[int(code)] for code in back.sleep_stages], night.stages.tolist()


@pytest.mark.parametrize(
    "tool", [with_yasa, with_luna, with_mne, with_mne_from_edf, with_edfio, with_pandas, with_sleepecg]
)
def test_a_night_of_each_tool_opens_there_again(tmp_path, tool):
    opened, given = tool(tmp_path)
    assert len(set(given)) > 3
    assert opened == given


# ---- more that tools must say the same about


def test_profusion_is_read_by_yasa(tmp_path):
    yasa = pytest.importorskip("yasa")
    night = sg.Hypnogram([0, 1, 2, 3, 4, 0], "aasm5", 30)  # YASA takes 9, unscored, for wake
    back = yasa.Hypnogram.from_profusion(night.save(tmp_path / "n.xml", "profusion-xml").path)
    assert back.hypno.tolist() == ["WAKE", "N1", "N2", "N3", "REM", "WAKE"]


@pytest.mark.parametrize(
    ("scheme", "values"),
    [
        ("wldr4", ["WAKE", "LIGHT", "DEEP", "REM"]),
        ("wnr3", ["WAKE", "NREM", "REM"]),
        ("ws2", ["WAKE", "SLEEP"]),
    ],
)
@pytest.mark.parametrize("seconds", [30, 4, 2.5])
def test_yasa_opens_every_scheme_and_epoch_length(tmp_path, scheme, values, seconds):
    yasa = pytest.importorskip("yasa")
    night = sg.Hypnogram([*range(len(values)), -1], scheme, seconds)
    back = yasa.Hypnogram.from_json(night.save(tmp_path / "n.json").path)
    assert back.hypno.tolist() == [*values, "UNS"]
    assert (back.n_stages, back.sampling_frequency) == (len(values), pytest.approx(1 / seconds))
    assert night.to_yasa().hypno.tolist() == [*values, "UNS"]


def test_epochs_without_evidence_are_unscored_for_certain_in_yasa(tmp_path):
    yasa = pytest.importorskip("yasa")
    decoding = decode(stager_output())
    gap = np.isnan(decoding.density.probabilities[:, 0])
    back = yasa.Hypnogram.from_json(decoding.save(tmp_path / "n.json").path)
    assert gap.any() and (back.proba["UNS"].to_numpy() == gap).all()


def test_luna_keeps_annotations_and_three_stages(tmp_path):
    lunapi = pytest.importorskip("lunapi")
    source = tmp_path / "sub-1_events.tsv"
    rows = [f"{30 * i}\t30\tSleep stage {stage}" for i, stage in enumerate(("W", "N", "N", "R"))]
    source.write_text("\n".join(["onset\tduration\ttrial_type", *rows, "41.5\t3\tarousal"]) + "\n")
    edf = write_edf(tmp_path / "n.edf", [channel("EEG", 120, 10)])
    instance = lunapi.proj().inst("n")
    instance.attach_edf(str(edf))
    written = sg.convert(source, tmp_path / "n.annot")
    instance.attach_annot(str(written.path))
    instance.eval("EPOCH len=30")
    assert "arousal" in instance.annots()["Annotations"].tolist()
    events = instance.fetch_annots(["arousal"])
    assert events[["Start", "Stop"]].to_numpy(dtype=float).tolist() == [[41.5, 44.5]]
    assert [str(stage) for stage in instance.stages()["STAGE"]] == ["W", "N2", "N2", "R"]


def test_mne_sees_the_other_annotations_of_an_edf(tmp_path):
    mne = pytest.importorskip("mne")
    source = tmp_path / "n.annot"
    source.write_text("W\t0\t+30\nN2\t30\t+30\nObstructive apnoea\t31.25\t+12\n")
    for name in ("n.edf", "n-annot.fif"):
        back = mne.read_annotations(sg.convert(source, tmp_path / name).path)
        assert (31.25, 12.0, "Obstructive apnoea") in zip(
            back.onset, back.duration, back.description, strict=True
        )


def test_the_header_of_an_edf_keeps_to_the_standard(tmp_path):
    """EDFbrowser opens nothing else: printable ASCII, fixed widths, numbers where numbers belong."""
    data = sg.Hypnogram([0, 1, -1], "aasm5", 30, START, "Zoë\n2").save(tmp_path / "n.edf").path.read_bytes()
    header = data[:512].decode("ascii")
    assert header.isprintable()
    assert header[:8] == "0       "
    assert header[88:168].split() == ["Startdate", "01-MAY-2024", "X", "Zo__2", "StageGuard"]
    assert header[168:184] == "01.05.2422.30.00"
    assert (int(header[184:192]), header[192:197], int(header[236:244])) == (512, "EDF+C", 1)
    assert (float(header[244:252]), int(header[252:256])) == (0, 1)
    assert header[256:272] == "EDF Annotations "
    n_samples = int(header[472:480])
    assert len(data) == 512 + 2 * n_samples
    assert data[512:].startswith(b"+0\x14\x14\x00+0\x1530\x14Sleep stage W\x14\x00")


def test_frames_of_pandas_come_back(tmp_path):
    pytest.importorskip("pandas")
    decoding = decode(stager_output())
    frame = decoding.to_frame()
    assert frame.index.name == "time" and frame.index[0].to_pydatetime() == START
    assert frame["changed"].sum() == decoding.changed.sum() and decoding.changed.any()
    assert frame["argmax_stage"][frame["changed"]].ne(frame["stage"][frame["changed"]]).all()
    density = stager_output()
    again = sg.read_density(density.to_frame())
    np.testing.assert_array_equal(again.probabilities, density.probabilities)
    assert (again.start, again.epoch_seconds) == (START, 30.0)
    bare = sg.Hypnogram([0, 4, -1], "aasm5", 4).to_frame()
    assert (bare.index.name, bare["stage"].tolist(), bare["onset"].tolist()) == (
        "epoch",
        ["W", "R", "?"],
        [0, 4, 8],
    )


@pytest.mark.parametrize(
    ("method", "library", "install"),
    [("to_yasa", "yasa", "yasa"), ("to_mne", "mne", "mne"), ("to_frame", "pandas", '"stageguard[formats]"')],
)
def test_a_missing_library_is_named(monkeypatch, method, library, install):
    monkeypatch.setitem(__import__("sys").modules, library, None)
    night = sg.Hypnogram([0, 1], "aasm5", 30)
    with pytest.raises(
        MissingExtraError, match=rf"^{method}\(\) needs '{library}'\. Install with: pip install "
    ) as told:
        getattr(night, method)()
    assert str(told.value).endswith(install)


def test_real_annotations_survive_the_way_through_an_edf(tmp_path, data_dir):
    from stageguard.formats.events import read_events

    source = data_dir / "samples" / "learn-nsrr01.xml"
    through = sg.convert(source, tmp_path / "n.edf")
    back = sg.convert(through.path, tmp_path / "n.xml", target_format="nsrr-xml")
    assert sg.read_hypnogram(back.path).labels.tolist() == sg.read_hypnogram(source).labels.tolist()
    before = [(round(e.onset, 6), e.seconds, e.text) for e in read_events(source)]
    assert len(before) > 500
    assert sorted((e.onset, e.seconds, e.text) for e in read_events(back.path)) == sorted(before)
