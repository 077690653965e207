"""Every writer: what comes back, what is said to be lost, where annotations lie, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import edfio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stageguard as sg
from messages import each_mentions, mentions, naming
from stageguard.errors import FileFormatError, InputError, OutputError, OutputExistsError, StageGuardWarning
from stageguard.formats.events import read_events
from stageguard.formats.file_format import OTHER_PROBABILITIES
from stageguard.formats.registry import formats, named
from stageguard.synthetic.night import simulate_night

pytestmark = pytest.mark.filterwarnings("ignore:.*read as unscored:stageguard.errors.StageGuardWarning")
ALL = ("aasm5", "wldr4", "wnr3", "ws2")
SCHEMES = {
    **dict.fromkeys(("nsrr-xml", "profusion-xml", "usleep-hyp", "usleep-tsv"), ("aasm5",)),
    "luna-annot": ("aasm5", "wnr3"),
    "accusleepy-csv": ("wnr3",),
}
STAGE_WRITERS = [form.name for form in formats() if form.does("write") and form.stages]
STAGE_WRITERS.remove("stageguard-tsv")  # of a decoding
EVENT_WRITERS = [form.name for form in formats() if form.write and form.events]
EVENING = datetime(2024, 1, 1, 22)


def night(labels=None, scheme="aasm5", seconds=30.0, start=EVENING, scorer="Ann") -> sg.Hypnogram:
    given = [0, 0, 1, 2, -1, 3, 4, 4, 0, -1] if labels is None else labels
    return sg.Hypnogram(given, sg.StageScheme.named(scheme), seconds, start, scorer)


def long_night(start: datetime | None, n_epochs: int = 120) -> sg.Hypnogram:
    return sg.Hypnogram(np.arange(n_epochs) % 5, "aasm5", 30.0, start)


def target(folder: Path, name: str, stem: str = "night") -> Path:
    return folder / (stem + named(name, "write").written_suffix)


def density(n_epochs: int = 12, scheme: str = "aasm5", seconds: float = 30.0, start=None) -> sg.Hypnodensity:
    own = sg.StageScheme.named(scheme)
    values = np.random.default_rng(3).dirichlet(np.ones(own.n_stages), n_epochs)
    values[[2, n_epochs - 1]] = np.nan
    return sg.Hypnodensity(values, own, seconds, start)


SECONDS = st.sampled_from([30, 20, 4, 2.5, 5, 10, 15, 2.56, 1, 0.5, 60, 7.3])
STARTS = st.none() | st.datetimes(datetime(1986, 1, 1), datetime(2037, 1, 1))


@pytest.mark.proves("stageguard-csv")
@pytest.mark.parametrize("name", STAGE_WRITERS)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seconds=SECONDS, start=STARTS, scorer=st.sampled_from([None, "Ann", "Zoë 2"]))
def test_a_night_comes_back_except_what_is_said_to_be_lost(tmp_path, name, data, seconds, start, scorer):
    if name == "mne-fif":
        pytest.importorskip("mne")
    scheme = sg.StageScheme.named(data.draw(st.sampled_from(SCHEMES.get(name, ALL))))
    labels = data.draw(st.lists(st.integers(-1, scheme.n_stages - 1), min_size=2, max_size=30))
    labels += list(range(scheme.n_stages))  # all are there, so that names tell the scheme
    start = start if start is None else start.replace(microsecond=0)
    given = sg.Hypnogram(labels, scheme, seconds, start, scorer)
    written = given.save(target(tmp_path, name), name, overwrite=True)
    hints = {"epoch_seconds": seconds} if "epoch length" in written.lost else {}
    back = sg.read_hypnogram(written.path, format=name, **hints)
    assert back.labels.tolist() == labels
    assert back.scheme == scheme
    assert back.epoch_seconds == pytest.approx(seconds, abs=1e-6)
    if "start time" not in written.lost:
        assert back.start == start
    if scorer is not None and "scorer" not in written.lost:
        assert back.scorer == scorer


@pytest.mark.proves("npz")
@pytest.mark.parametrize("name", ["npz", "stageguard-csv", "parquet"])
@pytest.mark.parametrize("scheme", ALL)
@pytest.mark.parametrize(("seconds", "start"), [(30, None), (4, EVENING), (2.56, EVENING)])
def test_probabilities_come_back_exactly(tmp_path, name, scheme, seconds, start):
    given = density(scheme=scheme, seconds=seconds, start=start)
    back = sg.read_density(given.save(target(tmp_path, name), name).path)
    np.testing.assert_array_equal(back.probabilities, given.probabilities)
    assert (back.scheme, back.epoch_seconds, back.start) == (given.scheme, seconds, start)


@pytest.fixture(scope="module")
def decoding() -> sg.Decoding:
    simulated = simulate_night("human-psg-5", hours=2, seed=1).density
    values = np.array(simulated.probabilities)
    values[100:130] = np.nan  # more than five minutes: left unscored
    given = sg.Hypnodensity(values, simulated.scheme, 30.0, datetime(2024, 5, 1, 22, 30), "stager")
    return sg.decode(given, "human-psg-5")


@pytest.mark.parametrize("name", ["yasa-json", "stageguard-csv", "parquet"])
def test_a_decoding_keeps_stages_and_probabilities(tmp_path, decoding, name):
    written = decoding.save(target(tmp_path, name), name)
    assert set(written.lost) <= {"profile", "scorer"}
    back = sg.read_hypnogram(written.path)
    assert (back.labels.tolist(), back.start) == (
        decoding.hypnogram.labels.tolist(),
        decoding.hypnogram.start,
    )
    np.testing.assert_array_equal(sg.read_density(written.path).probabilities, decoding.density.probabilities)
    again = sg.convert(written.path, tmp_path / "again.npz")  # both go along
    np.testing.assert_array_equal(sg.read_density(again.path).probabilities, decoding.density.probabilities)


@pytest.mark.proves("stageguard-tsv")
def test_a_decoding_saved_as_our_own_table(tmp_path, decoding):
    written = decoding.save(tmp_path / "n.hypnogram.tsv")
    assert [path.name for path in written.files] == ["n.hypnogram.tsv", "n.hypnogram.json"]
    assert written.lost == (OTHER_PROBABILITIES,)
    assert sg.read_hypnogram(written.path) == decoding.hypnogram
    with pytest.raises(InputError, match=naming("what decoding gives", "alone")):
        night().save(tmp_path / "m.hypnogram.tsv")


def test_the_sidecar_of_bids_says_who_and_how(tmp_path, decoding):
    written = decoding.save(tmp_path / "sub-1_events.tsv")
    own = json.loads(written.files[1].read_text())
    assert own["StageGuard"]["Profile"] == {"Name": "human-psg-5", "SHA256": decoding.profile.sha256}
    assert own["StageGuard"]["AnnotationMethod"] == "automatic"
    assert own["trial_type"]["Levels"]["Sleep stage ?"] == "Unscored"
    header, first, *_ = written.path.read_text().split("\n")
    assert header == "onset\tduration\ttrial_type\tconfidence"
    chosen = decoding.density.probabilities[0, decoding.hypnogram.labels[0]]
    assert float(first.split("\t")[3]) == pytest.approx(chosen, abs=1e-5)


@pytest.mark.proves("parquet")
def test_a_cohort_in_one_parquet_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    for stem, labels in (("a", [0, 1, 2]), ("b", [4, -1])):
        night(labels).save(tmp_path / f"{stem}.json")
    written = sg.convert([tmp_path / "a.json", tmp_path / "b.json"], tmp_path / "cohort.parquet")
    assert written.lost == ()
    frame = pandas.read_parquet(written.path)
    assert frame["id"].tolist() == ["a"] * 3 + ["b"] * 2
    assert frame["stage"].tolist() == ["W", "N1", "N2", "R", "?"]
    assert frame["onset"].tolist() == [0, 30, 60, 0, 30]
    with pytest.raises(FileFormatError, match=naming(2, "recordings by its")):
        sg.read_hypnogram(written.path)
    merged = sg.convert([night(), night([0, 1, 2], "wnr3")], tmp_path / "merged.parquet", merge_to="wnr3")
    assert set(pandas.read_parquet(merged.path)["stage"]) == {"W", "N", "R", "?"}


# ---- losses


def test_losses_are_what_the_format_declares_and_the_night_has(tmp_path):
    zoned = night([0, 1, 2, 3, 4], seconds=4.0, start=EVENING.replace(tzinfo=ZoneInfo("Europe/Paris")))
    lost = {name: night([0, 1, 2, 3, 4]).save(target(tmp_path, name), name).lost for name in
            ("text", "usleep-tsv", "yasa-json")}  # fmt: skip
    assert lost == {
        "text": ("start time", "epoch length", "scorer"),
        "usleep-tsv": ("start time", "scorer"),
        "yasa-json": (),
    }
    assert zoned.save(tmp_path / "n.edf").lost == ("time zone", "scorer")
    assert sg.read_hypnogram(tmp_path / "n.edf").start == EVENING
    own = sg.StageScheme.custom(("REM", "Wake", "NREM"), wake="Wake", rem="REM")
    assert (
        "stage names" in sg.Hypnogram([0, 1, 2, -1], own, 2.5).save(tmp_path / "m.csv", "accusleepy-csv").lost
    )
    assert (tmp_path / "m.csv").read_text() == "brain_state\n1\n2\n3\n-1\n"
    late = night().save(tmp_path / "late_events.tsv").path
    late.write_text("onset\tduration\ttrial_type\n12.5\t30\tSleep stage W\n42.5\t30\tSleep stage R\n")
    assert "part of an epoch before the first" in sg.convert(late, tmp_path / "late.json").lost
    assert b"+12.5\x1530\x14Sleep stage W" in sg.convert(late, tmp_path / "late.edf").path.read_bytes()


def test_a_start_that_edf_cannot_hold_is_warned_of(tmp_path):
    with pytest.warns(StageGuardWarning, match=naming("1985", "2084")):
        night(start=datetime(1979, 12, 31)).save(tmp_path / "n.edf")
    assert sg.read_hypnogram(tmp_path / "n.edf").start is None


def test_mne_is_told_of_a_clock_that_is_not_utc(tmp_path):
    pytest.importorskip("mne")
    for write in (lambda n: n.to_mne(), lambda n: n.save(tmp_path / "n-annot.fif")):
        with pytest.warns(StageGuardWarning, match=naming("UTC", "MNE", "EDF", "1 h")):
            write(night(start=EVENING.replace(tzinfo=ZoneInfo("Europe/Berlin"))))
    night(start=EVENING.replace(tzinfo=UTC)).to_mne()  # nothing to tell: warnings are errors here


# ---- other annotations

CONCEPTS = ("Wake|0", "Stage 1 sleep|1", "Stage 2 sleep|2", "REM sleep|5")


def nsrr(path: Path, *events: tuple[str, float, float]) -> Path:
    """An NSRR file of four epochs, from 22:30, with other events."""
    rows = [("Stages|Stages", each, 30 * place, 30) for place, each in enumerate(CONCEPTS)]
    rows += [("Other|Other", *event) for event in events]
    body = "".join(
        f"<ScoredEvent><EventType>{kind}</EventType><EventConcept>{concept}</EventConcept>"
        f"<Start>{start}</Start><Duration>{seconds}</Duration></ScoredEvent>"
        for kind, concept, start, seconds in rows
    )
    begin = "<ScoredEvent><EventConcept>Recording Start Time</EventConcept>"
    begin += "<ClockTime>01.01.24 22.00.00</ClockTime></ScoredEvent>"
    head = "<PSGAnnotation><EpochLength>30</EpochLength><ScoredEvents>"
    path.write_text(f"{head}{begin}{body}</ScoredEvents></PSGAnnotation>")
    return path


APNOEA = (
    "<ScoredEvent><EventType>Respiratory|Respiratory</EventType>"
    "<EventConcept>Obstructive apnea|OA</EventConcept>"
    "<Start>75.25</Start><Duration>20</Duration><SignalLocation>ABDO RES</SignalLocation>"
    "<SpO2Nadir>88</SpO2Nadir></ScoredEvent>"
)


def apnoeas(folder: Path) -> Path:
    path = nsrr(folder / "source.xml", ("ASDA arousal|Arousal", 41.5, 4.5))
    path.write_text(path.read_text().replace("</ScoredEvents>", f"{APNOEA}</ScoredEvents>"))
    return path


@pytest.mark.parametrize("name", EVENT_WRITERS)
def test_annotations_besides_stages_survive(tmp_path, name):
    written = sg.convert(apnoeas(tmp_path), target(tmp_path, name), target_format=name)
    assert sg.read_hypnogram(written.path, format=name).stages.tolist() == ["W", "N1", "N2", "R"]
    expected = [(41.5, 4.5, "ASDA arousal"), (75.25, 20.0, "Obstructive apnea")]
    assert [(e.onset, e.seconds, e.text) for e in read_events(written.path, name)] == expected
    kept = {"nsrr-xml": "", "luna-annot": "types", "profusion-xml": "types"}.get(name, "types channels")
    told = [loss.partition(" ")[0] for loss in written.lost if loss.endswith("other annotations")]
    assert told == kept.split()


def test_details_of_annotations_survive_where_there_is_a_place(tmp_path):
    source = apnoeas(tmp_path)
    same = sg.convert(source, tmp_path / "same.xml", target_format="nsrr-xml")
    assert read_events(same.path) == read_events(source)
    luna = sg.convert(source, tmp_path / "n.annot")
    assert "Obstructive apnea\t.\tABDO RES\t75.25\t+20\tSpO2Nadir=88\n" in luna.path.read_text()


def test_annotations_that_a_format_cannot_hold_are_counted(tmp_path):
    for place in ("n.json", "n.txt", "n.hyp", "n.parquet"):
        lost = sg.convert(apnoeas(tmp_path), tmp_path / place).lost
        assert "2 other annotations (ASDA arousal, Obstructive apnea)" in lost


@pytest.mark.parametrize("name", [name for name in EVENT_WRITERS if not name.endswith("xml")])
@pytest.mark.parametrize("text", ["Sleep stage N3", "sleep_stage W", "MT", "Movement time", "N3", "Unsure"])
@pytest.mark.parametrize(("onset", "seconds"), [(35, 10), (120, 30)])
def test_an_annotation_that_looks_like_a_stage_is_renamed(tmp_path, name, text, onset, seconds):
    source = nsrr(tmp_path / "n.xml", (text, onset, seconds), ("Arousal", 50, 3))
    written = sg.convert(source, target(tmp_path, name))
    assert sg.read_hypnogram(written.path).stages.tolist() == ["W", "N1", "N2", "R"]
    found = {event.onset: event.text for event in read_events(written.path)}
    assert found == {onset: f"Event {text}", 50: "Arousal"}
    assert mentions(written.lost, text, "Event ", "stage")
    xml = sg.convert(source, tmp_path / "o.xml", target_format="profusion-xml")  # which tells them apart
    assert text in [event.text for event in read_events(xml.path)]
    assert sg.read_hypnogram(xml.path).stages.tolist() == ["W", "N1", "N2", "R"]


@pytest.mark.parametrize("name", ["edf-annotations", "bids-events", "mne-fif"])
def test_a_mark_after_the_last_epoch_is_no_epoch(tmp_path, name):
    source = nsrr(tmp_path / "n.xml", ("Artifact", 120, 30), ("Artifact", 40, 10))
    written = sg.convert(source, target(tmp_path, name))
    assert sg.read_hypnogram(written.path).stages.tolist() == ["W", "N1", "N2", "R"]
    assert [event.text for event in read_events(written.path)] == ["Artifact", "Event Artifact"]


# ---- annotations of a recording, by the clock


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two hours from 22:00, with an arousal after an hour and 100 s."""
    return edf(tmp_path / "psg.edf", edfio.EdfAnnotation(3700, 10, "Arousal"), n_seconds=7200)


def edf(path: Path, *annotations: edfio.EdfAnnotation, n_seconds: int = 0, begins: time = time(22)) -> Path:
    signals = [edfio.EdfSignal(np.arange(float(n_seconds)), 1, label="EEG")] if n_seconds else []
    when = edfio.Recording(startdate=date(2024, 1, 1))
    edfio.Edf(signals, starttime=begins, recording=when, annotations=annotations).write(path)
    return path


def saved(hypnogram, folder: Path, name: str, recording: Path):
    return hypnogram.save(target(folder, name), format=name, annotations_from=recording)


@pytest.mark.parametrize("name", EVENT_WRITERS)
def test_a_night_that_begins_later_than_its_recording_stays_there(tmp_path, recording, name):
    written = saved(long_night(EVENING + timedelta(hours=1)), tmp_path, name, recording)
    back = sg.read_hypnogram(written.path, format=name)
    assert back.labels.tolist() == [-1] * 120 + (np.arange(120) % 5).tolist()
    assert back.start in (EVENING, None)
    assert [event.onset for event in read_events(written.path, name)] == [3700.0]
    assert mentions(written.notes[0], "psg.edf", "3600 s", 120)


@pytest.mark.parametrize(
    ("seconds", "n_before", "rest"), [(12.5, 0, 12.5), (30, 1, 0), (42.5, 1, 12.5), (59.9, 2, 0)]
)
def test_what_is_left_of_an_epoch_stays(tmp_path, recording, seconds, n_before, rest):
    written = saved(long_night(EVENING + timedelta(seconds=seconds)), tmp_path, "bids-events", recording)
    found = sg.read_hypnogram(written.path)
    assert (found.n_epochs, found.offset_seconds) == (120 + n_before, rest)
    assert [event.onset for event in read_events(written.path)] == [3700.0]


def test_a_decodings_own_table_is_as_it_was_decoded(tmp_path, recording):
    rows = np.eye(5)[[0, 0, 2, 2, 2, 2]] * 0.9 + 0.02
    result = sg.decode(sg.Hypnodensity(rows, "aasm5", 30.0, EVENING + timedelta(hours=1)), "human-psg-5")
    written = result.save(tmp_path / "n.hypnogram.tsv", annotations_from=recording)
    assert sg.read_hypnogram(written.path).n_epochs == 6


def test_starts_before_without_and_with_a_zone(tmp_path, recording):
    early = saved(long_night(EVENING - timedelta(seconds=60)), tmp_path, "edf-annotations", recording)
    assert [event.onset for event in read_events(early.path)] == [3760.0]
    assert each_mentions(early.notes, ("begins", "60 s", "psg.edf"))
    unknown = long_night(None).save(tmp_path / "m.edf", annotations_from=recording)
    assert [event.onset for event in read_events(unknown.path)] == [3700.0]
    assert each_mentions(unknown.notes, ("psg.edf", "is not known"))
    zoned = saved(long_night(EVENING.replace(hour=23, tzinfo=UTC)), tmp_path, "bids-events", recording)
    assert sg.read_hypnogram(zoned.path).n_epochs == 240
    assert mentions(zoned.notes[0], "psg.edf", "no time zone")


@pytest.mark.parametrize("hours", [96, -96, 2, -1])
def test_another_nights_annotations_are_refused(tmp_path, recording, hours):
    with pytest.raises(InputError, match=naming("psg.edf", "do not overlap")):
        saved(long_night(EVENING + timedelta(hours=hours)), tmp_path, "luna-annot", recording)
    assert not (tmp_path / "night.annot").exists()


def test_the_events_of_both_files_are_kept_in_the_recording(tmp_path, recording):
    stages = [edfio.EdfAnnotation(30 * k, 30, f"Sleep stage {s}") for k, s in enumerate(("W", "N1", "N2"))]
    own = edf(tmp_path / "own.edf", *stages, edfio.EdfAnnotation(5, None, "Cough"), begins=time(23))
    written = sg.convert(own, tmp_path / "both.annot", annotations_from=recording)
    found = [(event.onset, event.text) for event in read_events(written.path)]
    assert found == [(3605.0, "Cough"), (3700.0, "Arousal")]
    assert sg.read_hypnogram(written.path).n_epochs == 123


# ---- sources


def test_probabilities_alone_give_the_most_probable_stages_and_say_so(tmp_path):
    given = density()
    written = sg.convert(given, tmp_path / "n.json")
    assert each_mentions(written.notes, ("stages", "probable"))
    assert sg.read_hypnogram(written.path).labels.tolist() == given.argmax.tolist()
    np.testing.assert_array_equal(sg.read_density(written.path).probabilities, given.probabilities)


def test_stages_can_be_merged_and_epochs_changed_on_the_way(tmp_path):
    source = night([0, 1, 2, 3, 4, 4]).save(tmp_path / "n.json").path
    written = sg.convert(source, tmp_path / "n.csv", target_format="accusleepy-csv", merge_to="wnr3")
    assert written.path.read_text() == "brain_state\n2\n3\n3\n3\n1\n1\n"
    halved = sg.convert(source, tmp_path / "n.txt", reepoch_to=60)
    assert sg.read_hypnogram(halved.path, epoch_seconds=60).stages.tolist() == ["W", "N2", "R"]


# ---- names and places


def test_the_name_tells_the_format(tmp_path):
    assert night().save(tmp_path / "N.JSON").format == "yasa-json"
    assert night().save(tmp_path / "sub-01_events.tsv").format == "bids-events"
    assert density().save(tmp_path / "n.csv").format == "stageguard-csv"
    written = night().save(tmp_path / "sub-1_events.tsv")
    assert str(written) == f"{tmp_path}/sub-1_events.tsv and sub-1_events.json (bids-events); nothing lost"


MINE = sg.StageScheme.custom(("awake", "quiet", "active"), wake="awake")
CLASH = sg.StageScheme.custom(("onset", "rest"))
REFUSED = {
    "several formats": (lambda f: night().save(f / "n.csv"), ("n.csv", "be several formats")),
    "no format": (lambda f: sg.convert(night(), f / "n.doc"), ("n.doc", "target_format")),
    "a wrong name": (lambda f: night().save(f / "n.x", "yasa-jsn"), ("'yasa-jsn'", "yasa-json")),
    "only read": (lambda f: night().save(f / "n.x", "dreem-json"), ("'dreem-json'",)),
    "no probabilities": (lambda f: night().save(f / "n.npz"), ("stages alone", "probabilities")),
    "no stages": (lambda f: density().save(f / "d.json"), ("d.json", "probabilities alone")),
    "no such scheme": (lambda f: night().save(f / "a.csv", "accusleepy-csv"), ("merge_to='wnr3'",)),
    "own stages": (lambda f: sg.Hypnogram([0, 1, 2], MINE, 10).save(f / "n.json"), ("YASA", "quiet")),
    "a name of a column": (
        lambda f: sg.Hypnogram([0, 1], CLASH, 30).save(f / "o.csv", "stageguard-csv"),
        ("'onset'", "another"),
    ),
    "nanoseconds": (lambda f: night(seconds=1 / 3).save(f / "y.json"), ("nanoseconds", "reepoch_to=0.333")),
    "different stages": (
        lambda f: sg.convert([night(), night([0, 1], "wnr3")], f / "m.parquet"),
        ("different stages", "merge_to='wnr3'"),
    ),
    "two of a name": (lambda f: sg.convert([night().save(f / "a.json").path] * 2, f / "t.parquet"), ("'a'",)),
    "a list": (lambda f: sg.convert([night(), night()], f / "x.json"), (2, "Convert them one")),
    "an empty list": (lambda f: sg.convert([], f / "x.parquet"), ("an empty list", "nights")),
    "no annotations": (
        lambda f: night().save(f / "o.edf", annotations_from=night().save(f / "n.hyp").path),
        ("n.hyp", "no annotations besides"),
    ),
    "a number": (lambda f: night().save(5), ("path", "5")),
    "a NUL": (lambda f: sg.convert(night(), "nul\0.json"), ("target",)),
}  # fmt: skip


@pytest.mark.parametrize(("call", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_is_refused(tmp_path, call, told):
    with pytest.raises(InputError, match=naming(*told)):
        call(tmp_path)


@pytest.mark.parametrize("name", STAGE_WRITERS)
def test_nothing_is_replaced_unasked_and_names_may_be_any(tmp_path, name):
    scheme = SCHEMES.get(name, ALL)[0]
    place = target(tmp_path / "ein Ordner", name, "Nacht é 日本 [1]")
    written = night([0, 1, 2], scheme).save(place, name)
    before = {path: path.read_bytes() for path in written.files}
    with pytest.raises(OutputExistsError, match=r"exists already\. Use overwrite=True"):
        night([2, 2, 2], scheme).save(place, name)
    assert {path: path.read_bytes() for path in written.files} == before
    assert night([2, 2, 1, 0], scheme).save(place, name, overwrite=True).files == written.files
    assert {path: path.read_bytes() for path in written.files} != before
    assert len(list(place.parent.iterdir())) == len(written.files)  # and nothing is left behind


def test_a_file_that_was_read_is_never_written_over(tmp_path):
    source = night().save(tmp_path / "n.edf").path
    before = source.read_bytes()
    link = tmp_path / "link.edf"
    link.symlink_to(source)
    for write in (
        lambda: sg.convert(source, source, overwrite=True),
        lambda: sg.convert(source, link, overwrite=True),
        lambda: night().save(source, annotations_from=source, overwrite=True),
    ):
        with pytest.raises(OutputError, match=naming("same file")):
            write()
    assert source.read_bytes() == before
