"""Where a night's first epoch lies in its recording: a field that every verb and every file keeps."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

import stageguard as sg
from messages import naming
from stageguard.errors import InputError, StageGuardWarning
from stageguard.formats import registry
from stageguard.night.stages import AASM5

OFFSETS = [0.0, 12.5, 30.0, 42.5]
SECONDS = 30.0
START = datetime(2024, 5, 1, 22, 30)
LABELS = np.repeat([0, 1, 2, 3, 2, 4, 0], 4).astype(np.int8)
WRITTEN = [form.name for form in registry.formats() if form.does("write")]
WITHOUT_ONSETS = ("yasa-json", "accusleepy-csv", "profusion-xml", "usleep-hyp", "text")
OWN = ("npz", "parquet", "stageguard-tsv", "stageguard-csv")  # formats that tell an offset as it is
LOST = "part of an epoch before the first"

pytestmark = pytest.mark.filterwarnings("ignore::stageguard.errors.StageGuardWarning")


def probabilities() -> np.ndarray:
    return np.where(LABELS[:, None] == np.arange(5), 0.96, 0.01)


def density(offset: float = 0.0, start: datetime | None = None) -> sg.Hypnodensity:
    return sg.Hypnodensity(probabilities(), "aasm5", SECONDS, start, offset_seconds=offset)


def hypnogram(offset: float = 0.0, start: datetime | None = None) -> sg.Hypnogram:
    return sg.Hypnogram(LABELS, "aasm5", SECONDS, start, offset_seconds=offset)


def write_csv(path, offset: float):
    rows = [
        f"{offset + SECONDS * i:g},{SECONDS:g},{','.join(map(str, row))}"
        for i, row in enumerate(probabilities().tolist())
    ]
    path.write_text("\n".join(["onset,duration,W,N1,N2,N3,R", *rows]) + "\n", encoding="utf-8")
    return path


def timed(night: sg.Hypnogram) -> dict[float, str]:
    """Return the stage at every onset in the recording, without unscored epochs."""
    onsets = night.offset_seconds + night.epoch_seconds * np.arange(night.n_epochs)
    return {
        round(onset, 6): str(stage) for onset, stage in zip(onsets, night.stages, strict=True) if stage != "?"
    }


def rows_of(path, delimiter: str) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


# ---- the field


# ---- verbs


def test_every_verb_keeps_it():
    night = density(12.5, START)
    decoding = sg.decode(night, "human-psg-5")
    kept = [
        decoding.hypnogram,
        decoding.density,
        sg.posterior(night, "human-psg-5"),
        night.merge("wnr3"),
        hypnogram(12.5).merge("wnr3"),
        night.reepoch(15.0),
        hypnogram(12.5).reepoch(60.0),
        sg.combine([night, night]),
        sg.consensus([hypnogram(12.5), hypnogram(12.5)]),
        sg.read_hypnogram(hypnogram(12.5)),
        *sg.align(night, hypnogram(12.5)).nights,
    ]
    assert [each.offset_seconds for each in kept] == [12.5] * len(kept)


@pytest.mark.parametrize("start", [None, START])
def test_nights_of_one_recording_are_aligned_by_time(start):
    late = sg.Hypnogram(LABELS[2:], "aasm5", SECONDS, start, offset_seconds=72.5)
    with pytest.warns(StageGuardWarning):
        one, two = sg.align(hypnogram(12.5), late).nights
    assert one.labels.tolist() == two.labels.tolist() == LABELS[2:].tolist()
    assert (one.offset_seconds, two.offset_seconds) == (72.5, 72.5)
    assert one.start == two.start == start


def test_nights_beside_each_others_epochs_are_refused():
    compared = "the expert's scoring begins 12.5 s before the night"
    with pytest.raises(InputError, match=compared):
        sg.agreement(hypnogram(), hypnogram(12.5))
    with pytest.raises(InputError, match=compared):  # of one recording, by their clocks
        sg.agreement(hypnogram(0.0, START), hypnogram(12.5, START + timedelta(seconds=12.5)))
    with pytest.raises(InputError, match=compared):
        sg.validity(sg.decode(density(12.5), "human-psg-5"), expert=hypnogram())
    with pytest.raises(InputError, match=naming("scoring begins")):
        sg.consensus([hypnogram(), hypnogram(12.5)])
    # recordings of two devices: the first epochs begin together by the clock
    assert sg.agreement(hypnogram(0.0, START), hypnogram(600.0, START)).accuracy == 1.0


# ---- files


@pytest.mark.parametrize("start", [None, START])
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", WRITTEN)
def test_stages_stay_at_their_times_in_every_format(tmp_path, name, offset, start):
    source = sg.decode(density(offset, start), "human-psg-5")
    form = registry.named(name, "write")
    target = tmp_path / f"night{form.written_suffix}"
    merge_to = "wnr3" if name == "accusleepy-csv" else None
    written = sg.convert(source, target, target_format=name, merge_to=merge_to)
    lost = [each for each in written.lost if each == LOST]
    given = source.hypnogram if merge_to is None else source.hypnogram.merge(merge_to)
    if name == "npz":
        assert sg.read_density(target).offset_seconds == offset
        return
    scheme = None if merge_to is None else "wnr3"
    back = sg.read_hypnogram(target, format=name, scheme=scheme, epoch_seconds=SECONDS)
    if name in WITHOUT_ONSETS and offset % SECONDS:
        assert lost == [LOST]
        back = replace(back, offset_seconds=offset % SECONDS)
    else:
        assert lost == []
    assert timed(back) == timed(given)
    if name in OWN:
        assert back.offset_seconds == offset
        assert back.labels.tolist() == given.labels.tolist()
    if start is not None and back.start is not None:
        first = back.offset_seconds if name not in WITHOUT_ONSETS else offset % SECONDS
        begins = back.start.replace(tzinfo=None) - timedelta(seconds=first)
        off = abs((begins - start + timedelta(seconds=offset)).total_seconds())
        assert off < (1 if name == "nsrr-xml" else 1e-6)  # NSRR tells whole seconds


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", ["stageguard-csv", "parquet", "npz"])
def test_probabilities_stay_at_their_times(tmp_path, name, offset):
    target = tmp_path / f"night{registry.named(name, 'write').written_suffix}"
    for start in (None, START):
        density(offset, start).save(target, format=name, overwrite=True)
        back = sg.read_density(target)
        assert (back.offset_seconds, back.start) == (offset, start)
        np.testing.assert_allclose(back.probabilities, probabilities())


# ---- the command line


@pytest.mark.parametrize("offset", [0.0, 12.5, 30.0])
def test_commands_keep_the_times_of_a_table(run, tmp_path, offset):
    source = write_csv(tmp_path / "night.csv", offset)
    assert run("decode", source, "-p", "human-psg-5", "-o", tmp_path / "out").code == 0
    tsv = tmp_path / "out" / "night.hypnogram.tsv"
    scored = [row for row in rows_of(tsv, "\t") if row["filled"] == "0"]  # epochs before the first row are
    assert [float(row["onset"]) for row in scored] == [offset + SECONDS * i for i in range(len(LABELS))]
    assert run("verify", tsv, "--input", source).code == 0
    assert run("convert", tsv, "--output", tmp_path / "n.annot").code == 0
    names = [AASM5.names[label] for label in LABELS]
    found = timed(sg.read_hypnogram(tmp_path / "n.annot"))
    assert [found[offset + SECONDS * i] for i in range(len(LABELS))] == names
    assert run("decode", source, "-p", "human-psg-5", "-o", tmp_path / "p", "--posterior").code == 0
    rows = rows_of(next((tmp_path / "p").glob("*posterior.csv")), ",")
    assert [float(row["onset"]) for row in rows][-len(LABELS)] == offset
    other = write_csv(tmp_path / "other.csv", offset)
    assert run("convert", "--average", source, other, "-o", tmp_path / "both.csv").code == 0
    known = [row for row in rows_of(tmp_path / "both.csv", ",") if row["W"]]
    assert float(known[0]["onset"]) == offset


def test_yasa_without_a_start_loses_the_offset_aloud():
    pytest.importorskip("yasa")
    with pytest.warns(StageGuardWarning, match=naming("loses", "60 s")):
        sg.Hypnogram([0, 1, 2], "aasm5", 30.0, offset_seconds=60.0).to_yasa()
