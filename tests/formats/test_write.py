"""Every writer: what comes back, what is lost and said so, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stageguard as sg
from messages import each_mentions, mentions, naming
from stageguard.errors import InputError, OutputError, OutputExistsError
from stageguard.formats.convert import lost_in
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
# What a night of every stage must keep, whatever its epochs and start are.
KEEPS = {
    "parquet": {"start", "epoch", "scorer"},
    "yasa-json": {"start", "epoch", "scorer"},
    "stageguard-csv": {"start", "epoch"},
    "edf-annotations": {"start", "epoch"},
    "mne-fif": {"start", "epoch"},
    "bids-events": {"start", "epoch", "scorer"},
    "nsrr-xml": {"epoch"},
    **{name: {"epoch"} for name in ("profusion-xml", "usleep-tsv", "luna-annot")},
    **{name: set() for name in ("accusleepy-csv", "usleep-hyp", "text")},
}
STAGE_WRITERS = sorted(KEEPS)
WORDS = {"start": "start", "epoch": "epoch length", "scorer": "scorer"}


def night(
    labels: list[int] | None = None,
    scheme: str = "aasm5",
    seconds: float = 30.0,
    start: datetime | None = datetime(2024, 5, 1, 22, 30),
    scorer: str | None = "Ann",
) -> sg.Hypnogram:
    given = [0, 0, 1, 2, -1, 3, 4, 4, 0, -1] if labels is None else labels
    return sg.Hypnogram(given, sg.StageScheme.named(scheme), seconds, start, scorer)


def target(folder: Path, name: str, stem: str = "night") -> Path:
    return folder / (stem + named(name, "write").written_suffix)


def test_every_writer_is_tried_here():
    assert set(KEEPS) | {"stageguard-tsv", "npz"} == {form.name for form in formats() if form.does("write")}


SECONDS = st.sampled_from([30, 20, 4, 2.5, 5, 10, 15, 2.56, 1, 0.5, 60, 7.3])
STARTS = st.none() | st.datetimes(datetime(1986, 1, 1), datetime(2037, 1, 1))


@pytest.mark.proves("stageguard-csv")
@pytest.mark.parametrize("name", STAGE_WRITERS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seconds=SECONDS, start=STARTS, scorer=st.sampled_from([None, "Ann", "Zoë 2"]))
def test_a_night_comes_back_from_every_format(tmp_path, name, data, seconds, start, scorer):
    scheme = sg.StageScheme.named(data.draw(st.sampled_from(SCHEMES.get(name, ALL))))
    labels = data.draw(st.lists(st.integers(-1, scheme.n_stages - 1), min_size=2, max_size=30))
    labels += list(range(scheme.n_stages))  # all are there, so that names tell the scheme
    given = sg.Hypnogram(labels, scheme, seconds, start, scorer)
    written = given.save(target(tmp_path, name), name, overwrite=True)
    told = "; ".join(written.lost)
    epoch = {"epoch_seconds": seconds} if "epoch length (" in told else {}
    back = sg.read_hypnogram(written.path, format=name, **epoch)
    assert back.labels.tolist() == labels
    assert back.scheme == scheme
    assert back.epoch_seconds == pytest.approx(seconds, abs=1e-6)
    if "start" not in told:
        assert back.start == start
    if scorer is not None and "scorer" not in told:
        assert back.scorer == scorer
    for what in KEEPS[name]:
        assert WORDS[what] not in told, told


@pytest.mark.parametrize("name", STAGE_WRITERS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seconds=SECONDS | st.sampled_from([120.0, 300.0]))
def test_poor_nights_come_back_with_what_is_said_to_be_needed(tmp_path, name, data, seconds):
    """One epoch, one stage, nothing scored, long epochs: what cannot be told must be said to be lost."""
    scheme = sg.StageScheme.named(data.draw(st.sampled_from(SCHEMES.get(name, ALL))))
    kinds = data.draw(st.lists(st.integers(-1, scheme.n_stages - 1), min_size=1, max_size=2))
    labels = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=6))
    given = sg.Hypnogram(labels, scheme, seconds)
    written = given.save(target(tmp_path, name), name, overwrite=True)
    told = "; ".join(written.lost)
    if "stageguard will not read it" in told:  # nothing but NREM, or but unscored epochs
        assert name in ("luna-annot", "text") and set(labels) <= {-1, 1}
        with pytest.raises(sg.FileFormatError):
            sg.read_hypnogram(written.path, format=name, scheme=scheme, epoch_seconds=seconds)
        return
    hints = {"epoch_seconds": seconds} if "epoch length (" in told else {}
    hints |= {"scheme": scheme} if "scheme (" in told else {}
    back = sg.read_hypnogram(written.path, format=name, **hints)
    assert (back.labels.tolist(), back.scheme, back.epoch_seconds) == (labels, scheme, seconds)


def test_losses_are_named():
    """The words that people read, for the formats whose files carry least and most."""
    lost = {}
    for name in ("text", "usleep-hyp", "yasa-json", "usleep-tsv"):
        form, outgoing = named(name, "write"), outgoing_of_mouse()
        lost[name] = lost_in(form, outgoing, form.write(outgoing, target(Path(), name)))
    assert lost["yasa-json"] == ()
    assert lost["usleep-tsv"] == ("start time", "scorer")
    epochs = ("epoch length (give epoch_seconds=4 when reading)", "start time", "scorer")
    assert lost["text"] == lost["usleep-hyp"] == epochs


def outgoing_of_mouse():
    from stageguard.formats.outgoing import Outgoing

    return Outgoing(night([0, 1, 2, 3, 4], seconds=4.0))


def test_a_time_zone_is_kept_or_said_to_be_lost(tmp_path):
    start = datetime(2024, 5, 1, 22, 30, tzinfo=ZoneInfo("Europe/Paris"))
    given = night(start=start)
    for name in ("stageguard-csv", "parquet", "bids-events", "yasa-json"):
        written = given.save(target(tmp_path, name), name)
        assert "time zone" not in written.lost
        assert sg.read_hypnogram(written.path, format=name).start == start
    for name in ("edf-annotations", "mne-fif", "nsrr-xml"):
        written = given.save(target(tmp_path, name), name)
        assert "time zone" in written.lost
        assert sg.read_hypnogram(written.path, format=name).start == start.replace(tzinfo=None)
    assert (
        night(start=start.astimezone(timezone(timedelta(hours=2)))).save(tmp_path / "fixed.json").lost == ()
    )


def test_starts_that_a_header_cannot_hold_are_said_to_be_lost(tmp_path):
    early = night(start=datetime(1979, 12, 31, 23, 59, 30))
    assert early.save(tmp_path / "n.edf").lost[0] == "start time (EDF+ tells years from 1985 to 2084)"
    assert sg.read_hypnogram(tmp_path / "n.edf").start is None
    late = night(start=datetime(2050, 1, 1))
    assert "start time" in late.save(tmp_path / "n-annot.fif").lost
    fine = night(start=datetime(2024, 5, 1, 22, 30, 0, 250_000))
    assert fine.save(tmp_path / "fine.edf").lost == ("scorer",)
    assert mentions(fine.save(tmp_path / "n.xml", "nsrr-xml").lost, "fractions of a", "second")


def density(n_epochs: int = 12, scheme: str = "aasm5", seconds: float = 30.0, start=None) -> sg.Hypnodensity:
    own = sg.StageScheme.named(scheme)
    values = np.random.default_rng(3).dirichlet(np.ones(own.n_stages), n_epochs)
    values[[2, n_epochs - 1]] = np.nan
    return sg.Hypnodensity(values, own, seconds, start)


@pytest.mark.proves("npz")
@pytest.mark.parametrize("name", ["npz", "stageguard-csv", "parquet"])
@pytest.mark.parametrize("scheme", ALL)
@pytest.mark.parametrize("seconds", [30, 4, 2.56])
@pytest.mark.parametrize("start", [None, datetime(2024, 5, 1, 22, 30)])
def test_probabilities_come_back_exactly(tmp_path, name, scheme, seconds, start):
    given = density(scheme=scheme, seconds=seconds, start=start)
    written = given.save(target(tmp_path, name), name)
    assert written.lost == ()
    back = sg.read_density(written.path)
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
    assert (decoding.hypnogram.labels < 0).any() and decoding.changed.any()
    written = decoding.save(target(tmp_path, name), name)
    assert set(written.lost) <= {"profile", "scorer"}
    back = sg.read_hypnogram(written.path)
    assert back.labels.tolist() == decoding.hypnogram.labels.tolist()
    assert back.start == decoding.hypnogram.start
    probabilities = sg.read_density(written.path).probabilities
    np.testing.assert_array_equal(probabilities, decoding.density.probabilities)


@pytest.mark.proves("stageguard-tsv")
def test_a_decoding_saved_as_our_own_table(tmp_path, decoding):
    written = decoding.save(tmp_path / "n.hypnogram.tsv")
    assert [path.name for path in written.files] == ["n.hypnogram.tsv", "n.hypnogram.json"]
    assert written.lost == (OTHER_PROBABILITIES,)
    assert sg.read_hypnogram(written.path) == decoding.hypnogram
    with pytest.raises(InputError, match=naming("what decoding gives", "alone")):
        night().save(tmp_path / "m.hypnogram.tsv")


def test_the_sidecar_of_bids_says_who_and_how(tmp_path, decoding):
    import json

    written = decoding.save(tmp_path / "sub-1_events.tsv")
    own = json.loads(written.files[1].read_text())
    assert own["StageGuard"]["Profile"] == {"Name": "human-psg-5", "SHA256": decoding.profile.sha256}
    assert own["StageGuard"]["Scorer"] == "StageGuard human-psg-5"
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
    assert set(frame["scorer"]) == {"Ann"}
    with pytest.raises(sg.FileFormatError, match=naming(2, "recordings by its")):
        sg.read_hypnogram(written.path)
    one = frame[frame["id"] == "b"]
    assert sg.read_hypnogram(one, scheme="aasm5").labels.tolist() == [4, -1]
    mouse = night([0, 1, 2], "wnr3")
    with pytest.raises(InputError, match=r"different stages .* Merge them first: merge_to='wnr3'"):
        sg.convert([night(), mouse], tmp_path / "mixed.parquet")
    merged = sg.convert([night(), mouse], tmp_path / "merged.parquet", merge_to="wnr3")
    assert set(pandas.read_parquet(merged.path)["stage"]) == {"W", "N", "R", "?"}
    with pytest.raises(InputError, match=naming("called", "'a'")):
        sg.convert([tmp_path / "a.json"] * 2, tmp_path / "twice.parquet")


# ---- what else a source says


def apnoeas(path: Path) -> Path:
    """An NSRR file with an arousal and an apnoea between its stages."""
    event = "<ScoredEvent><EventType>{}</EventType><EventConcept>{}</EventConcept><Start>{}</Start>{}"
    event += "</ScoredEvent>"
    rows = [
        event.format(
            "", "Recording Start Time", 0, "<Duration>150</Duration><ClockTime>01.05.24 22.30.00</ClockTime>"
        ),
        event.format("Arousals|Arousals", "ASDA arousal|Arousal (ASDA)", 41.5, "<Duration>4.5</Duration>"),
        event.format(
            "Respiratory|Respiratory",
            "Obstructive apnea|Obstructive Apnea",
            75.25,
            "<Duration>20</Duration><SignalLocation>ABDO RES</SignalLocation><SpO2Nadir>88</SpO2Nadir>",
        ),
    ]
    for onset, lasting, stage in ((0, 60, "Wake|0"), (60, 60, "Stage 2 sleep|2"), (120, 30, "REM sleep|5")):
        rows.append(event.format("Stages|Stages", stage, onset, f"<Duration>{lasting}</Duration>"))
    body = f"<EpochLength>30</EpochLength><ScoredEvents>{''.join(rows)}</ScoredEvents>"
    path.write_text(f"<PSGAnnotation>{body}</PSGAnnotation>")
    return path


EVENT_WRITERS = ["edf-annotations", "nsrr-xml", "profusion-xml", "luna-annot", "bids-events", "mne-fif"]


@pytest.mark.parametrize("name", EVENT_WRITERS)
def test_annotations_besides_stages_survive(tmp_path, name):
    from stageguard.formats.events import read_events

    source = apnoeas(tmp_path / "source.xml")
    written = sg.convert(source, target(tmp_path, name), target_format=name)
    back = sg.read_hypnogram(written.path, format=name)
    assert back.stages.tolist() == ["W", "W", "N2", "N2", "R"]
    events = read_events(written.path, name)
    assert [(e.onset, e.seconds, e.text) for e in events] == [
        (41.5, 4.5, "ASDA arousal"),
        (75.25, 20.0, "Obstructive apnea"),
    ]
    again = sg.convert(written.path, tmp_path / "again.xml", format=name, target_format="nsrr-xml")
    assert [e.text for e in read_events(again.path)] == ["ASDA arousal", "Obstructive apnea"]
    parts = {"nsrr-xml": "", "luna-annot": "type", "profusion-xml": "type"}.get(
        name, "type and channel and details"
    )
    assert [loss for loss in written.lost if loss.endswith("other annotations")] == (
        [f"{parts} of other annotations"] if parts else []
    )


def test_numbers_that_a_json_explains_are_no_events(tmp_path):
    from stageguard.formats.events import read_events

    bids = tmp_path / "s_events.tsv"
    bids.write_text("onset\tduration\tstage\n0\t30\t0\n30\t30\t2\n")
    bids.with_suffix(".json").write_text('{"stage": {"Levels": {"0": "W", "2": "N2"}}}')
    assert sg.read_hypnogram(bids).stages.tolist() == ["W", "N2"]
    assert read_events(bids) == ()


def test_details_of_annotations_survive_where_there_is_a_place(tmp_path):
    from stageguard.formats.events import read_events

    source = apnoeas(tmp_path / "source.xml")
    (_, apnoea) = read_events(source)
    assert apnoea.details == (("SpO2Nadir", "88"),)
    same = sg.convert(source, tmp_path / "same.xml", target_format="nsrr-xml")
    assert read_events(same.path) == read_events(source)
    luna = sg.convert(source, tmp_path / "n.annot")
    assert "Obstructive apnea\t.\tABDO RES\t75.25\t+20\tSpO2Nadir=88\n" in luna.path.read_text()


def test_annotations_that_a_format_cannot_hold_are_counted(tmp_path):
    source = apnoeas(tmp_path / "source.xml")
    for place in ("n.json", "n.txt", "n.hyp", "n.parquet"):
        lost = sg.convert(source, tmp_path / place).lost
        assert "2 other annotations (ASDA arousal, Obstructive apnea)" in lost


def test_annotations_of_another_file_are_laid_beside_a_night_by_the_clock(tmp_path):
    from stageguard.formats.events import read_events

    source = apnoeas(tmp_path / "source.xml")  # begins at 22:30
    later = night(start=datetime(2024, 5, 1, 22, 30, 30))
    written = later.save(tmp_path / "n.edf", annotations_from=source)
    assert [event.onset for event in read_events(written.path)] == [41.5, 75.25]
    assert sg.read_hypnogram(written.path).labels.tolist() == [-1, *later.labels.tolist()]
    assert each_mentions(written.notes, ("source.xml", "30 s", 1))
    unknown = night(start=None).save(tmp_path / "m.edf", annotations_from=source)
    assert [event.onset for event in read_events(unknown.path)] == [41.5, 75.25]
    assert each_mentions(unknown.notes, ("source.xml", "is not known"))
    night().save(tmp_path / "n.hyp")
    with pytest.raises(InputError, match=naming("n.hyp", "no annotations besides")):
        night().save(tmp_path / "o.edf", annotations_from=tmp_path / "n.hyp")


def test_stages_stay_where_they_are_in_the_recording(tmp_path):
    """A scoring that begins 12.5 s into its recording must not be moved."""
    from stageguard.formats.events import read_events

    rows = [f"{12.5 + 30 * i}\t30\tSleep stage {stage}" for i, stage in enumerate(("W", "N1", "N2"))]
    source = tmp_path / "late_events.tsv"
    source.write_text("\n".join(["onset\tduration\ttrial_type", *rows, "50\t3\tArousal"]) + "\n")
    written = sg.convert(source, tmp_path / "late.edf")
    assert b"+12.5\x1530\x14Sleep stage W" in written.path.read_bytes()
    assert [event.onset for event in read_events(written.path)] == [50]
    assert mentions(sg.convert(source, tmp_path / "l.json").lost, "12.5 s", "start", "first")
    lines = sg.convert(source, tmp_path / "late.annot").path.read_text().split("\n")
    assert lines[1].split("\t")[3] == "12.5"


# ---- sources


def test_probabilities_alone_give_the_most_probable_stages_and_say_so(tmp_path):
    given = density()
    written = sg.convert(given, tmp_path / "n.json")
    assert each_mentions(written.notes, ("stages", "probable"))
    assert sg.read_hypnogram(written.path).labels.tolist() == given.argmax.tolist()
    np.testing.assert_array_equal(sg.read_density(written.path).probabilities, given.probabilities)


def test_stages_can_be_merged_and_epochs_changed_on_the_way(tmp_path):
    source = night([0, 1, 2, 3, 4, 4]).save(tmp_path / "n.json").path
    with pytest.raises(
        InputError,
        match=naming("AccuSleePy", "W, N, R", "W, N1, N2, N3, R", "merge_to='wnr3'"),
    ):
        sg.convert(source, tmp_path / "n.csv", target_format="accusleepy-csv")
    written = sg.convert(source, tmp_path / "n.csv", target_format="accusleepy-csv", merge_to="wnr3")
    assert written.path.read_text() == "brain_state\n2\n3\n3\n3\n1\n1\n"
    halved = sg.convert(source, tmp_path / "n.txt", reepoch_to=60)
    assert sg.read_hypnogram(halved.path, epoch_seconds=60).stages.tolist() == ["W", "N2", "R"]
    with pytest.raises(InputError, match=naming("W, N1, N2, N3, REM", "W, N, R")):
        night([0, 1, 2], "wnr3").save(tmp_path / "n.hyp")


def test_stages_of_ones_own_are_written_where_names_are_free(tmp_path):
    own = sg.StageScheme.custom(("awake", "quiet", "active"), wake="awake")
    given = sg.Hypnogram([0, 1, 2, -1], own, 10.0)
    assert each_mentions(
        given.save(tmp_path / "n.csv", "stageguard-csv").lost, ("give", "scheme when reading")
    )
    assert sg.read_hypnogram(tmp_path / "n.csv", scheme=own).labels.tolist() == [0, 1, 2, -1]
    with pytest.raises(InputError, match=naming("YASA", "quiet", "active")):
        given.save(tmp_path / "n.json")
    named_otherwise = sg.StageScheme.custom(("REM", "Wake", "NREM"), wake="Wake", rem="REM")
    written = sg.Hypnogram([0, 1, 2, -1], named_otherwise, 2.5).save(tmp_path / "m.csv", "accusleepy-csv")
    assert written.path.read_text() == "brain_state\n1\n2\n3\n-1\n"
    assert each_mentions(written.lost, ("written", "W, N, R"))
    clash = sg.StageScheme.custom(("onset", "rest"))
    with pytest.raises(InputError, match=naming("'onset'", "another")):
        sg.Hypnogram([0, 1], clash, 30).save(tmp_path / "o.csv", "stageguard-csv")


# ---- names and places


def test_the_name_tells_the_format_or_the_error_lists_them(tmp_path):
    assert night().save(tmp_path / "N.JSON").format == "yasa-json"
    assert night().save(tmp_path / "sub-01_events.tsv").format == "bids-events"
    with pytest.raises(InputError, match=naming("n.csv", "be several formats")):
        night().save(tmp_path / "n.csv")
    with pytest.raises(
        InputError,
        match=naming("n.doc", "target_format"),
    ):
        sg.convert(night(), tmp_path / "n.doc")
    with pytest.raises(
        InputError, match=r"unknown format 'yasa-jsn'\. Known for writing: .* Did you mean 'yasa-json'\?"
    ):
        night().save(tmp_path / "n.x", "yasa-jsn")
    with pytest.raises(InputError, match=naming("'dreem-json'")):
        night().save(tmp_path / "n.x", "dreem-json")
    assert density().save(tmp_path / "n.csv").format == "stageguard-csv"
    with pytest.raises(InputError, match=naming("probabilities", "has stages alone")):
        night().save(tmp_path / "n.npz")


@pytest.mark.parametrize("name", STAGE_WRITERS)
def test_nothing_is_replaced_unasked_and_names_may_be_any(tmp_path, name):
    scheme = SCHEMES.get(name, ALL)[0]
    given = night([0, 1, 2], scheme)
    place = target(tmp_path / "ein Ordner", name, "Nacht é 日本 [1]")
    written = given.save(place, name)
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
    with pytest.raises(OutputError, match=naming("same file")):
        sg.convert(source, source, overwrite=True)
    link = tmp_path / "link.edf"
    link.symlink_to(source)
    with pytest.raises(OutputError, match=naming("same file")):
        sg.convert(source, link, overwrite=True)
    with pytest.raises(OutputError, match=naming("same file")):
        night().save(source, annotations_from=source, overwrite=True)
    assert source.read_bytes() == before


def test_places_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=naming("cannot write", "folder")):
        night().save(tmp_path / "file" / "n.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(OutputError, match=naming("is a folder")):
        night().save(tmp_path / "folder.json")
    with pytest.raises(OutputError, match=r"cannot write /proc/n\.json"):
        night().save("/proc/n.json")


def test_a_writer_that_would_change_stages_writes_nothing(tmp_path, monkeypatch):
    from stageguard.formats.outgoing import Content

    wrong = replace(named("usleep-hyp", "write"), write=lambda night, path: Content({path: "W\nW\nN1\n"}))
    monkeypatch.setattr("stageguard.formats.registry.formats", lambda: (wrong,))
    with pytest.raises(OutputError, match=naming("n.hyp", "come", "U")):
        night([0, 0, 2]).save(tmp_path / "n.hyp")
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_says_so_in_one_line(tmp_path):
    written = night().save(tmp_path / "sub-1_events.tsv")
    assert str(written) == f"{tmp_path}/sub-1_events.tsv and sub-1_events.json (bids-events); nothing lost"
    assert mentions(str(night().save(tmp_path / "n.txt")), tmp_path, "n.txt", "lost")


def test_utc_is_a_zone_like_any_other(tmp_path):
    given = night(start=datetime(2024, 5, 1, 22, 30, tzinfo=UTC))
    assert sg.read_hypnogram(given.save(tmp_path / "n.json").path).start == given.start
