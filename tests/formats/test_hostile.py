"""Damaged, mislabelled and hostile files: what the file holds, or an error of one line, soon."""

from __future__ import annotations

import io
import json
import struct
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stageguard as sg
from recording_files import (
    channel,
    nsrr_xml,
    profusion_xml,
    slpdb_record,
    stage_annotations,
    write_edf,
    write_edf_hypnogram,
)
from stage_files import FILES, NIGHT, lines
from stageguard.datasets.slpdb import read_record
from stageguard.errors import StageGuardError
from stageguard.formats.registry import formats

LONGEST_SECONDS = 20.0  # of processor time, which other processes do not prolong
FIVE = ("W", "N1", "N2", "N3", "R")
P = np.random.default_rng(11).dirichlet(np.ones(5), 20)
ROWS = [",".join(map(str, row)) for row in P]
FUZZ = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)


def written(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "night.edf"
        write(path)
        return path.read_bytes()


def array(save: Callable[..., None], *values: object, **named: object) -> bytes:
    stream = io.BytesIO()
    save(stream, *values, **named)
    return stream.getvalue()


def parquet() -> bytes:
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    return array(
        lambda stream, table: write_table(table, stream), pa.table(dict(zip(FIVE, P.T, strict=True)))
    )


def yasa_json() -> bytes:
    names = ("WAKE", "N1", "N2", "N3", "REM")
    document = {"values": [names[i] for i in P.argmax(axis=1)], "n_stages": 5, "freq": "30s", "scorer": "S"}
    proba = dict(zip(names, P.T.round(6).tolist(), strict=True))
    return json.dumps({**document, "start": None, "proba": proba}, indent=2).encode()


def luna() -> bytes:
    rows = (f"x\t{e}\t0\t" + "\t".join(map(str, row)) for e, row in enumerate(P, start=1))
    return lines(["ID\tE\tFLAG\tPP_W\tPP_N1\tPP_N2\tPP_N3\tPP_R", *rows])


def gssc() -> bytes:
    header = "Epoch,Time,Stage,Prob. W,Prob. N1,Prob. N2,Prob. N3,Prob. REM"
    return lines(["Hypnogram of n", header, *(f"{i},{30.0 * i},0,{row}" for i, row in enumerate(ROWS))])


CSV = lines(["onset,W,N1,N2,N3,R", *(f"{30 * i},{row}" for i, row in enumerate(ROWS))])
NPZ = array(np.savez_compressed, probabilities=P, stages=np.array(FIVE), epoch_seconds=30.0)
CODES = [{"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 5, "?": 6}[stage] for stage in NIGHT]
SIGNALS = [channel("EEG C4-M1", 360, 4), channel("SaO2", 360, 1, unit="%")]
HYPNOGRAMS = [
    *FILES,
    ("night.edf", written(lambda path: write_edf_hypnogram(path, NIGHT)), "edf-annotations"),
    ("night.xml", profusion_xml(CODES).encode(), "profusion-xml"),
    ("night.xml", nsrr_xml([stage if stage != "?" else "M" for stage in NIGHT]).encode(), "nsrr-xml"),
]
DENSITIES = {
    "csv": ("n.csv", CSV, {}),
    "npy": ("n.npy", array(np.save, P), {"stages": FIVE}),
    "npz": ("n.npz", NPZ, {}),
    "parquet": ("n.parquet", parquet(), {}),
    "yasa-json": ("n.json", yasa_json(), {}),
    "gssc-csv": ("n.csv", gssc(), {}),
    "luna-pops": ("n.txt", luna(), {}),
}
TEXTS = [name for name in DENSITIES if name not in {"npy", "npz", "parquet"}]
RECORDINGS = {
    "plain": written(lambda path: write_edf(path, SIGNALS, annotations=stage_annotations(NIGHT))),
    "gaps": written(
        lambda path: write_edf(
            path, [channel("EEG", 12, 4)], onsets=[*range(6), *range(100, 106)], plus="EDF+D"
        )
    ),
}


def outcome(read, folder, name, content, **options):
    """What a reader says of a file: a result, or an error of one line; anything else fails."""
    path = Path(folder) / name
    path.write_bytes(content)
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.StageGuardWarning)
            return read(path, **options)
    except StageGuardError as error:
        assert "\n" not in str(error) and len(str(error)) < 1200
        return str(error)
    finally:
        assert time.process_time() - began < LONGEST_SECONDS


def changed(data: st.DataObject, content: bytes) -> bytes:
    """Content with some bytes set, cut, inserted or repeated."""
    mutated = bytearray(content)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(0, len(mutated) - 1)))
        what = data.draw(st.sampled_from(["set", "cut", "end", "insert", "copy"]))
        if what == "set":
            mutated[at : at + 1] = bytes([data.draw(st.integers(0, 255))])
        elif what == "cut":
            del mutated[at : at + data.draw(st.integers(1, 40))]
        elif what == "end":
            del mutated[at:]
        else:
            new = data.draw(st.binary(min_size=1, max_size=8))
            mutated[at:at] = new if what == "insert" else mutated[max(0, at - 30) : at]
    return bytes(mutated)


@FUZZ
@given(st.sampled_from(HYPNOGRAMS), st.data())
def test_changed_bytes_are_a_line_or_a_hypnogram(case, data):
    name, content, form = case
    spoilt = changed(data, content)
    with tempfile.TemporaryDirectory() as folder:
        for options in ({}, {"format": form}):
            outcome(sg.read_hypnogram, folder, name, spoilt, **options)


@FUZZ
@given(st.sampled_from(sorted(DENSITIES)), st.booleans(), st.data())
def test_changed_bytes_are_a_line_or_probabilities(kind, is_named, data):
    name, content, options = DENSITIES[kind]
    named = {"format": kind} if is_named else {}
    with tempfile.TemporaryDirectory() as folder:
        found = outcome(sg.read_density, folder, name, changed(data, content), **options, **named)
    if not isinstance(found, str):
        values = found.probabilities
        assert (np.isnan(values).all(axis=1) | (np.abs(values.sum(axis=1) - 1) <= 1e-3)).all()


@FUZZ
@given(st.sampled_from(sorted(RECORDINGS)), st.data())
def test_changed_bytes_are_a_line_or_a_recording(kind, data):
    with tempfile.TemporaryDirectory() as folder:
        found = outcome(sg.read_recording, folder, "n.edf", changed(data, RECORDINGS[kind]))
        for signal in () if isinstance(found, str) else found.signals.values():
            assert len(signal.read(0, 100)) == min(100, signal.n_samples)


@FUZZ
@given(st.data())
def test_a_spoilt_wfdb_record_is_a_line_or_a_recording(data):
    with tempfile.TemporaryDirectory() as folder:
        slpdb_record(Path(folder), "slp01a", ["W", "2"], {"ECG": "200/mV"})
        for suffix in (".hea", ".dat", ".ecg", ".st"):
            path = Path(folder) / f"slp01a{suffix}"
            path.write_bytes(
                changed(data, path.read_bytes()) if data.draw(st.booleans()) else path.read_bytes()
            )
        header = (Path(folder) / "slp01a.hea").read_bytes()
        found = outcome(read_record, folder, "slp01a.hea", header)
        assert isinstance(found, str) or np.ndim(found.channel("beats").times) == 1


@FUZZ
@given(
    st.sampled_from([form for form in formats() if form.stages or form.probabilities]),
    st.sampled_from([b"", b"0       ", b"<PSGAnnotation>", b"<CMPStudyConfig>", b"\x93NUMPY", b"PK\x03\x04"]),
    st.binary(max_size=400) | st.text(max_size=200).map(str.encode),
)
def test_any_content_by_any_reader(form, start, content):
    reads = [sg.read_hypnogram] * bool(form.stages) + [sg.read_density] * bool(form.probabilities)
    with tempfile.TemporaryDirectory() as folder:
        for read in reads:
            outcome(read, folder, f"n{form.suffixes[0]}", start + content, format=form.name)
            outcome(read, folder, "night.txt", start + content)


# ---- another night is never read


def assert_same_night(found: sg.Hypnogram | str) -> None:
    """What is scored is scored as it was."""
    for place, stage in enumerate([] if isinstance(found, str) else found.stages.tolist()):
        epoch = int((place + 0.5) * found.epoch_seconds // 30)
        true = NIGHT[epoch] if epoch < len(NIGHT) else ""
        broader = stage == "N" and true in ("N1", "N2", "N3")  # a last word may be cut
        assert stage in ("?", true) or broader, (place, stage)


@pytest.mark.parametrize(("name", "content", "form"), HYPNOGRAMS, ids=[form for _, _, form in HYPNOGRAMS])
def test_a_file_that_is_cut_or_named_wrongly_is_no_other_night(tmp_path, name, content, form):
    for length in range(0, len(content), max(1, len(content) // 40)):
        for options in ({}, {"format": form}):
            assert_same_night(outcome(sg.read_hypnogram, tmp_path, name, content[:length], **options))
    for other in formats():
        if other.stages and (other.name == form or not other.name.startswith("numbers-")):
            assert_same_night(outcome(sg.read_hypnogram, tmp_path, name, content, format=other.name))
    if form not in ("text", "usleep-hyp", "luna-eannot"):  # nothing there tells two nights from a long one
        assert_same_night(outcome(sg.read_hypnogram, tmp_path, name, content + content))


@pytest.mark.parametrize("kind", [kind for kind in DENSITIES if kind != "npz"])
def test_a_file_joined_with_itself_is_refused(tmp_path, kind):
    name, content, options = DENSITIES[kind]
    found = outcome(sg.read_density, tmp_path, name, content * 2, **options)
    assert any(word in found for word in ("joined", "line", "JSON"))


@pytest.mark.parametrize("kind", DENSITIES)
def test_probabilities_under_another_name_are_refused_or_the_same(tmp_path, kind):
    name, content, options = DENSITIES[kind]
    whole = outcome(sg.read_density, tmp_path, name, content, **options)
    np.testing.assert_allclose(whole.probabilities, P, atol=1e-6)
    for other, _, _ in DENSITIES.values():
        found = outcome(sg.read_density, tmp_path, other, content, **options)
        assert isinstance(found, str) or found.probabilities.tolist() == whole.probabilities.tolist()
    if kind in TEXTS:
        for same in (
            b"\xef\xbb\xbf" + content,
            content.replace(b"\n", b"\r\n"),
            content.replace(b"\n", b"\r"),
        ):
            assert outcome(sg.read_density, tmp_path, name, same, **options) == whole
        for encoding in ("utf-16", "utf-16-le", "utf-32"):
            found = outcome(sg.read_density, tmp_path, name, content.decode().encode(encoding), **options)
            assert "UTF-16" in found or "binary" in found or "JSON" in found


def test_decimal_commas_of_every_mark(tmp_path):
    plain = lines(["W;N1;N2;N3;R", *(row.replace(",", ";") for row in ROWS)])
    expected = outcome(sg.read_density, tmp_path, "n.csv", plain)
    comma = plain.replace(b".", b",")
    for data in (comma, comma.replace(b";", b"\t")):
        assert outcome(sg.read_density, tmp_path, "n.csv", data) == expected
    assert isinstance(outcome(sg.read_density, tmp_path, "n.csv", comma.replace(b";", b",")), str)


# ---- hostile files


def lying() -> bytes:
    data = bytearray(NPZ)
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 128)  # uncompressed size in the directory
    return bytes(data)


def promising() -> bytes:
    header = {"descr": "<f8", "fortran_order": False, "shape": (200_000_000_000, 5)}
    return array(np.lib.format.write_array_header_1_0, header) + bytes(64)


MILLION = b"W,S," + b",".join(b"x%d" % i for i in range(1_000_000))
HOSTILE = [
    ("wide.csv", lambda: b"stage" + b",a" * 1_000_000 + b"\nW" + b",1" * 1_000_000 + b"\n"),
    ("wide.csv", lambda: b"," * 1_000_000),
    ("million.csv", lambda: MILLION + b"\n" + b"0.5," * 1_000_001 + b"1\n"),
    ("long.txt", lambda: b"W" * 20_000_000),
    ("words.csv", lambda: b"W,S\n" + b"x,y\n" * 200_000),
    ("deep.json", lambda: b"[" * 1_000_000),
    ("deep.json", lambda: b'{"values": [' * 100_000),
    ("deep.json", lambda: b'{"values": ' + b"[" * 200_000 + b', "n_stages": 5, "freq": "30s"'),
    ("deep.xml", lambda: b"<PSGAnnotation>" * 100_000),
    ("entities.csv", lambda: b"<lolz>&lol;</lolz>"),
    ("far.tsv", lambda: b"init_sec\tduration_sec\tstage\n0\t1e300\tW\n"),
    ("far.tsv", lambda: b"init_sec\tduration_sec\tstage\n1e300\t30\tW\n"),
    ("nan.tsv", lambda: b"init_sec\tduration_sec\tstage\nnan\t30\tW\n"),
    ("back.tsv", lambda: b"init_sec\tduration_sec\tstage\n-90\t30\tW\n"),
    ("comma.tsv", lambda: b"init_sec\tduration_sec\tstage\n0,0\t30,0\tW\n"),
    ("night.annot", lambda: b"W\t.\t.\t0\t1e18\t.\n"),
    ("night.json", lambda: b'{"values": ["WAKE"], "freq": "99999999h", "n_stages": 5}'),
    ("night-annot.fif", lambda: b"\x00\x00\x00d\x00\x00\x00\x1f\x7f\xff\xff\xff\x00\x00\x00\x00"),
    ("night.mat", lambda: b"MATLAB 5.0 MAT-file" + b"\x00" * 600),
    ("night.mat", lambda: b"MATLAB 7.3 MAT-file" + b"\x00" * 600),
    ("night.h5", lambda: b"\x89HDF\r\n\x1a\n" + b"\xff" * 600),
    ("lying.npz", lying),
    ("promising.npy", promising),
]


@pytest.mark.parametrize(
    ("name", "make"), HOSTILE, ids=[f"{n}-{name}" for n, (name, _) in enumerate(HOSTILE)]
)
def test_hostile_files_are_one_line(tmp_path, name, make):
    content = make()
    assert isinstance(outcome(sg.read_hypnogram, tmp_path, name, content), str)
    assert isinstance(outcome(sg.read_density, tmp_path, name, content), str)
    assert isinstance(outcome(sg.read_density, tmp_path, name, content, stages=FIVE), str)
