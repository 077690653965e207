"""Damaged, mislabelled and hostile hypnograms: a typed error of one line, or the night; no other night."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stageguard as sg
from recording_files import nsrr_xml, profusion_xml, write_edf_hypnogram
from stage_files import FILES, NIGHT, lines, write
from stageguard.errors import StageGuardError
from stageguard.formats.registry import formats

FORMS = [form.name for form in formats() if form.does("hypnogram")]
LONGEST_SECONDS = 20.0  # on a loaded machine


def edf() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_edf_hypnogram(Path(folder) / "h.edf", NIGHT).read_bytes()


CODES = [{"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 5, "?": 6}[stage] for stage in NIGHT]
CASES = [
    *FILES,
    ("night.edf", edf(), "edf-annotations"),
    ("night.xml", profusion_xml(CODES).encode(), "profusion-xml"),
    ("night.xml", nsrr_xml([stage if stage != "?" else "M" for stage in NIGHT]).encode(), "nsrr-xml"),
]
settings.register_profile("files", deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)
FUZZ = settings(settings.get_profile("files"))


def outcome(folder: Path, name: str, content: bytes, **options: object) -> sg.Hypnogram | None:
    """The hypnogram, or None where there was an error of one line."""
    path = write(folder, name, content)
    before = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.StageGuardWarning)
            return sg.read_hypnogram(path, **options)
    except StageGuardError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 1200
        return None
    finally:
        assert time.monotonic() - before < LONGEST_SECONDS


def assert_same_night(found: sg.Hypnogram | None) -> None:
    """What is scored is scored as it was."""
    if found is None:
        return
    for place, stage in enumerate(found.stages.tolist()):
        epoch = int((place + 0.5) * found.epoch_seconds // 30)
        true = NIGHT[epoch] if epoch < len(NIGHT) else ""
        broader = stage == "N" and true in ("N1", "N2", "N3")  # a last word may be cut
        assert stage in ("?", true) or broader, (place, stage)


@pytest.mark.parametrize(("name", "content", "form"), CASES, ids=[form for _, _, form in CASES])
def test_a_file_that_is_cut_is_an_error_or_the_same_night(tmp_path, name, content, form):
    step = max(1, len(content) // 40)
    for length in range(0, len(content), step):
        assert_same_night(outcome(tmp_path, name, content[:length]))
        assert_same_night(outcome(tmp_path, name, content[:length], format=form))


@FUZZ
@given(st.sampled_from(CASES), st.data())
def test_changed_bytes_are_an_error_or_a_hypnogram(case, data):
    name, content, form = case
    mutated = bytearray(content)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(mutated) - 1))
        what = data.draw(st.sampled_from(["set", "cut", "insert", "copy"]))
        if what == "set":
            mutated[place] = data.draw(st.integers(0, 255))
        elif what == "cut":
            del mutated[place : place + data.draw(st.integers(1, 40))]
        elif what == "insert":
            mutated[place:place] = data.draw(st.binary(min_size=1, max_size=8))
        else:
            mutated[place:place] = mutated[max(0, place - 30) : place]
        if not mutated:
            break
    with tempfile.TemporaryDirectory() as folder:
        outcome(Path(folder), name, bytes(mutated))
        outcome(Path(folder), name, bytes(mutated), format=form)


@FUZZ
@given(st.sampled_from(FORMS), st.binary(max_size=400) | st.text(max_size=200).map(str.encode))
def test_any_content_by_any_reader(form, content):
    with tempfile.TemporaryDirectory() as folder:
        outcome(Path(folder), "night.txt", content, format=form)
        outcome(Path(folder), "night.txt", content)


@pytest.mark.parametrize("form", FORMS)
def test_every_reader_given_every_other_format(tmp_path, form):
    """A format named wrongly is refused, or the content means the same in it."""
    for name, content, own in CASES:
        found = outcome(tmp_path, name, content, format=form)
        if own == form or not form.startswith("numbers-"):
            assert_same_night(found)


def test_a_night_twice(tmp_path):
    for name, content, form in CASES:
        if form in ("text", "usleep-hyp", "luna-eannot"):
            continue  # nothing there could tell two nights from a long one
        assert_same_night(outcome(tmp_path, name, content + content))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("wide.csv", b"stage" + b",a" * 1_000_000 + b"\nW" + b",1" * 1_000_000 + b"\n"),
        ("wide.csv", b"," * 1_000_000),
        ("long.txt", b"W" * 5_000_000),
        ("deep.json", b"[" * 1_000_000),
        ("deep.json", b'{"values": [' * 100_000),
        ("deep.xml", b"<PSGAnnotation>" * 100_000),
        ("far.tsv", b"init_sec\tduration_sec\tstage\n0\t1e300\tW\n"),
        ("far.tsv", b"init_sec\tduration_sec\tstage\n1e300\t30\tW\n"),
        ("nan.tsv", b"init_sec\tduration_sec\tstage\nnan\t30\tW\n"),
        ("back.tsv", b"init_sec\tduration_sec\tstage\n-90\t30\tW\n"),
        ("night.annot", b"W\t.\t.\t0\t1e18\t.\n"),
        ("night.json", b'{"values": ["WAKE"], "freq": "99999999h", "n_stages": 5}'),
        ("night-annot.fif", b"\x00\x00\x00d\x00\x00\x00\x1f\x7f\xff\xff\xff\x00\x00\x00\x00"),
        ("night.mat", b"MATLAB 5.0 MAT-file" + b"\x00" * 600),
        ("night.mat", b"MATLAB 7.3 MAT-file" + b"\x00" * 600),
        ("night.h5", b"\x89HDF\r\n\x1a\n" + b"\xff" * 600),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_hostile_files_are_one_line(tmp_path, name, content):
    assert outcome(tmp_path, name, content) is None


def test_decimal_commas_are_no_seconds(tmp_path):
    rows = ["init_sec\tduration_sec\tstage", "0,0\t30,0\tW"]
    assert outcome(tmp_path, "night.tsv", lines(rows)) is None
