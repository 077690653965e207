"""Events in files: those of the scorer, written and read back here and by other tools, and existing ones."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

import stageguard as sg
from messages import mentions, naming
from recording_files import channel, write_edf
from review_nights import FREE, asked, do, open_review, write_probabilities
from stageguard.errors import InputError
from stageguard.formats.event_files import EVENT_FORMATS
from stageguard.formats.events import read_events
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5
from stageguard.review.annotations import event_list, existing_events, scored_event
from stageguard.review.events import KINDS, ScoredEvent
from stageguard.review.review import ReviewSession

START = datetime(2024, 5, 1, 22, 30)
BY_NAME = {form.name: form for form in EVENT_FORMATS}
WHEN = "2026-03-02T09:14:07.311+01:00"
EVENTS = {
    4: ScoredEvent("apnoea", 100.5, 117.25, "Flow", "central: short; 3=x|y", "anna", WHEN),
    2: ScoredEvent("arousal", 30.0, 33.0, "", "", "anna", WHEN),
    9: ScoredEvent("text", 600.0, 600.0, "", "Sleep stage N2?", "bob", WHEN),
    11: ScoredEvent("movement", 60.0, 90.0, "", "", "anna", WHEN),
    12: ScoredEvent("artefact", 90.0, 120.0, "EEG C4-M1", "", "anna", WHEN),
    13: ScoredEvent("k_complex", 200.123, 200.9, "EEG C4-M1", "", "anna", WHEN),
    14: ScoredEvent("spindle", 200.9, 202.0, "EEG C4-M1", "", "anna", WHEN),
}


def hypnogram(start: datetime | None = START, offset: float = 0.0, n_epochs: int = 40) -> Hypnogram:
    return Hypnogram([1] * n_epochs, AASM5, 30.0, start, offset_seconds=offset)


def written(tmp_path, name: str, events, night=None):
    form = BY_NAME[name]
    listed = event_list(events, hypnogram() if night is None else night, "anna", {"lines": 3})
    files = form.write(listed, tmp_path / f"night.anna{form.suffix}")
    for path, data in files.items():
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return next(iter(files))


@pytest.mark.parametrize("name", BY_NAME)
def test_events_come_back_from_each_format(tmp_path, name):
    path = written(tmp_path, name, EVENTS)
    back = [scored_event(event) for event in read_events(path)]
    ordered = sorted(EVENTS.values(), key=lambda event: event.begin)
    if name == "events-edf":  # which has no place for who and when
        ordered = [
            ScoredEvent(event.kind, event.begin, event.end, event.channel, event.text) for event in ordered
        ]
    assert back == ordered


@given(
    st.lists(
        st.tuples(
            st.sampled_from([kind.name for kind in KINDS]),
            st.integers(0, 1_000_000),
            st.integers(0, 60_000),
            st.text(st.characters(categories=("L", "N"), include_characters=" -_./"), max_size=20),
            st.text(
                st.characters(
                    categories=("L", "N", "P", "S"), include_characters=" ", exclude_characters='"@'
                ),
                min_size=8,
                max_size=40,
            ),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(list(BY_NAME)),
)
@example([("arousal", 0, 0, "NULL", "00000000")], "events-bids")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_event_comes_back_from_each_format(tmp_path, rows, name):
    events = {
        number: ScoredEvent(
            kind,
            begin / 1000,
            (begin + lasting) / 1000,
            " ".join(where.split()).strip(". ").replace("/", "-"),  # n/a is no channel in BIDS
            "x " + " ".join(text.split()),
            "anna",
            WHEN,
        )
        for number, (kind, begin, lasting, where, text) in enumerate(rows)
    }
    back = [scored_event(event) for event in read_events(written(tmp_path, name, events))]
    assert {*map(fields, back)} == {*map(fields, events.values())}
    assert len(back) == len(events)
    assert [one.begin for one in back] == sorted(one.begin for one in back)


def fields(event: ScoredEvent) -> tuple[str, float, float, str, str]:
    return event.kind, event.begin, event.end, event.channel, event.text


def test_mne_reads_the_events_of_an_edf(tmp_path):
    mne = pytest.importorskip("mne")
    back = mne.read_annotations(written(tmp_path, "events-edf", EVENTS))
    found = {(round(one["onset"], 3), round(one["duration"], 3), one["description"]) for one in back}
    assert (30.0, 3.0, "arousal") in found
    assert (60.0, 30.0, "body_movement") in found
    assert {text.partition("@@")[0] for _, _, text in found} >= {"apnea: central: short; 3=x|y", "spindle"}
    assert len(found) == len(EVENTS)


def test_luna_reads_the_events_of_an_annot(tmp_path):
    lunapi = pytest.importorskip("lunapi")
    edf = write_edf(tmp_path / "night.edf", [channel("EEG C4-M1", 1200, 10)])
    instance = lunapi.proj().inst("n")
    instance.attach_edf(str(edf))
    instance.attach_annot(str(written(tmp_path, "events-luna", EVENTS)))
    words = [kind.word for kind in KINDS]
    found = instance.fetch_annots(words)
    back = {(row.Class, round(row.Start, 3), round(row.Stop, 3)) for row in found.itertuples()}
    word = {kind.name: kind.word for kind in KINDS}
    assert back == {(word[one.kind], one.begin, one.end) for one in EVENTS.values()}


def test_a_bids_table_comes_with_its_meanings_annotators_and_times(tmp_path):
    path = written(tmp_path, "events-bids", EVENTS)
    assert path.name.endswith("_events.tsv")
    header, first, *_ = (line.split("\t") for line in path.read_text().splitlines())
    assert dict(zip(header, first, strict=True)) == {
        **{"onset": "30", "duration": "3", "trial_type": "arousal", "channel": "n/a"},
        **{"description": "n/a", "annotator_id": "anna", "annotated_at": WHEN},
    }
    sidecar = json.loads(path.with_suffix(".json").read_text())
    assert {*header} <= sidecar.keys()
    assert sidecar["trial_type"]["Levels"]["apnea"] == "Apnoea or hypopnoea"
    assert sidecar["StageGuard"]["Annotator"] == "anna"
    assert sidecar["StageGuard"]["Source"] == {"lines": 3}


def test_stages_and_events_are_joined_by_convert(tmp_path):
    """What a review exports apart can be put into one file."""
    night = tmp_path / "night.csv"
    write_probabilities(night, FREE)
    events = written(tmp_path, "events-luna", {2: EVENTS[2]})
    joined = sg.convert(night, tmp_path / "all.annot", annotations_from=events)
    assert [event.text for event in read_events(joined.path)] == ["arousal"]


def test_an_export_never_replaces_a_file_and_may_be_blind(tmp_path):
    session, review = open_review(tmp_path, FREE, blind=True)
    with pytest.raises(InputError, match="no event is marked"):
        review.export("events-bids")
    do(review, do="add_event", event={"kind": "spindle", "begin": 31, "end": 32.5, "channel": "C4"})
    names = [path.name for _ in range(2) for form in BY_NAME for path in review.export(form).files]
    assert names == [
        *("night.anna.events.edf", "night.anna.events.annot", "night.anna_events.tsv"),
        *("night.anna_events.json", "night.anna-2.events.edf", "night.anna-2.events.annot"),
        *("night.anna-2_events.tsv", "night.anna-2_events.json"),
    ]
    session.close()
    (event,) = read_events(tmp_path / "night.anna_events.tsv")
    assert (event.onset, event.seconds, event.text, event.channel) == (31, 1.5, "spindle", "C4")
    assert dict(event.details)["annotator_id"] == "anna"


# ---- existing annotations


def annotated(path, onset_of=lambda onset: onset, start=START):
    texts = [(30.0, 3.0, "Arousal"), (0.0, 30.0, "Sleep stage W"), (95.0, 14.0, "Obstructive Apnea@@Flow")]
    texts += [(400.0, None, "Lights off")]
    channels = [channel("EEG C4-M1", 1200, 10)]
    moved = [(onset_of(onset), seconds, text) for onset, seconds, text in sorted(texts)]
    return write_edf(path, channels, annotations=moved, start=start)


def test_annotations_of_the_recording_are_shown_without_its_stages(tmp_path):
    found = existing_events(hypnogram(), annotated(tmp_path / "night.edf"), None)
    assert [(one.kind, one.begin, one.end, one.channel, one.text) for one in found.events] == [
        ("arousal", 30.0, 33.0, "", "Arousal"),
        ("apnoea", 95.0, 109.0, "Flow", "Obstructive Apnea"),
        ("other", 400.0, 400.0, "", "Lights off"),
    ]
    assert {one.file for one in found.events} == {"night.edf"}


def test_annotations_are_aligned_by_the_clock(tmp_path):
    """The recording began a minute before the night: all of its annotations are a minute earlier in it."""
    late = hypnogram(START + timedelta(seconds=60))
    found = existing_events(late, annotated(tmp_path / "night.edf"), None)
    assert [one.begin for one in found.events] == [35.0, 340.0]
    assert mentions(found.notes, "1 annotation of night.edf outside the night")


def test_a_file_without_a_clock_counts_from_the_recording_s_start(tmp_path):
    path = written(tmp_path, "events-luna", {2: EVENTS[2]})
    found = existing_events(hypnogram(offset=12.0), None, path)
    assert [(one.kind, one.begin, one.text) for one in found.events] == [("arousal", 30.0, "Arousal")]


def test_a_file_without_annotations_is_refused_and_a_damaged_recording_is_a_remark(tmp_path):
    night = write_probabilities(tmp_path / "night.csv", FREE)
    for text, words in (("W\nN2\n", ("has no annotations",)), ("?", ("stages.txt",))):
        path = tmp_path / "stages.txt"
        path.write_text(text)
        with pytest.raises((InputError, sg.FileFormatError), match=naming(*words)) as refused:
            existing_events(hypnogram(), None, path)
        assert "\n" not in str(refused.value)
    damaged = annotated(tmp_path / "night.edf")
    damaged.write_bytes(damaged.read_bytes().replace(b"+30\x153", b"?30\x153"))
    found = existing_events(hypnogram(), damaged, None)
    assert not found.events and mentions(found.notes, "night.edf", "damaged")
    session = ReviewSession([asked(night, FREE, events=tmp_path / "missing.annot")], "anna")
    with pytest.raises((InputError, OSError)):
        session.existing_events(0)
    session.close()


def test_artefacts_of_files_are_shown_unless_they_stand_for_an_unscored_epoch(tmp_path):
    stages = [(30.0 * i, 30.0, "Sleep stage N2") for i in range(4)]
    marks = [(45.0, 5.5, "Artifact"), (120.0, 30.0, "Movement"), (63.0, 2.0, "movement")]
    edf = write_edf(
        tmp_path / "a.edf", [channel("EEG", 1200, 10)], annotations=sorted(stages + marks), start=START
    )
    rows = [
        f"{text.split()[-1].lower()}\t.\t.\t{onset}\t+{seconds}\t." for onset, seconds, text in stages + marks
    ]
    annot = tmp_path / "a.annot"
    annot.write_text("\n".join(["class\tinstance\tchannel\tstart\tstop\tmeta", *rows]) + "\n")
    for path in (edf, annot):
        found = existing_events(hypnogram(), None, path).events
        assert [(one.kind, one.begin) for one in found] == [("artefact", 45.0), ("movement", 63.0)], path


def test_an_annotation_that_lasts_forever_ends_with_the_night(tmp_path):
    path = tmp_path / "a.annot"
    path.write_text(
        "class\tinstance\tchannel\tstart\tstop\tmeta\narousal\t.\t.\t30\t+1e300\t.\nx\u202ey\t.\t.\t40\t50\t.\n"
    )
    long, hidden = existing_events(hypnogram(), None, path).events
    assert (long.begin, long.end) == (30.0, 1200.0)
    assert hidden.text.isprintable()
    json.dumps(existing_events(hypnogram(), None, path).to_dict(), allow_nan=False)
