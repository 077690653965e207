"""Damaged, mislabelled and hostile files: true probabilities, or one line, soon and in little memory."""

from __future__ import annotations

import io
import json
import struct
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stageguard as sg
from messages import mentions
from stageguard.errors import StageGuardError, StageGuardWarning

FIVE = ("W", "N1", "N2", "N3", "R")
P = np.random.default_rng(11).dirichlet(np.ones(5), 20)
ROWS = [",".join(map(str, row)) for row in P]


def npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, P)
    return stream.getvalue()


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, probabilities=P, stages=np.array(FIVE), epoch_seconds=30.0)
    return stream.getvalue()


def parquet() -> bytes:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pa.table({name: P[:, i] for i, name in enumerate(FIVE)}), stream)
    return stream.getvalue()


def yasa_json() -> bytes:
    names = ("WAKE", "N1", "N2", "N3", "REM")
    proba = {name: P[:, i].round(6).tolist() for i, name in enumerate(names)}
    stages = [names[i] for i in P.argmax(axis=1)]
    document = {"values": stages, "n_stages": 5, "freq": "30s", "start": None, "scorer": "S", "proba": proba}
    return json.dumps(document, indent=2).encode()


def text(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def luna() -> bytes:
    rows = (f"x\t{e}\t0\t" + "\t".join(map(str, row)) for e, row in enumerate(P, start=1))
    return text("ID\tE\tFLAG\tPP_W\tPP_N1\tPP_N2\tPP_N3\tPP_R", *rows)


def gssc() -> bytes:
    header = "Epoch,Time,Stage,Prob. W,Prob. N1,Prob. N2,Prob. N3,Prob. REM"
    return text("Hypnogram of n", header, *(f"{i},{30.0 * i},0,{row}" for i, row in enumerate(ROWS)))


FILES: dict[str, tuple[str, Callable[[], bytes], dict[str, object]]] = {
    "csv": ("n.csv", lambda: text("onset,W,N1,N2,N3,R", *(f"{30 * i},{r}" for i, r in enumerate(ROWS))), {}),
    "npy": ("n.npy", npy, {"stages": FIVE}),
    "npz": ("n.npz", npz, {}),
    "parquet": ("n.parquet", parquet, {}),
    "yasa-json": ("n.json", yasa_json, {}),
    "gssc-csv": ("n.csv", gssc, {}),
    "luna-pops": ("n.txt", luna, {}),
    "accusleepy-csv": ("n.csv", lambda: text("brain_state,confidence_score", *["1,0.9", "2,0.5"] * 10), {}),
}
TEXTS = [name for name in FILES if name not in {"npy", "npz", "parquet"}]


def outcome(path: Path, **options: object) -> sg.Hypnodensity | str:
    """Probabilities or one line; anything else is an error of the reader."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        try:
            density = sg.read_density(path, **options)  # type: ignore[arg-type]
        except StageGuardError as error:
            message = str(error)
            assert "\n" not in message, message
            assert len(message) < 900, message
            return message
    sums = density.probabilities.sum(axis=1)
    assert (np.isnan(density.probabilities).all(axis=1) | (np.abs(sums - 1) <= 1e-3)).all()
    return density


def put(folder: str | Path, name: str, data: bytes) -> Path:
    path = Path(folder) / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", FILES)
def test_every_whole_file_is_read(tmp_path, kind):
    name, make, options = FILES[kind]
    path = put(tmp_path, name, make())
    if kind == "accusleepy-csv":
        options = options | {"format": kind}
    density = outcome(path, **options)
    assert isinstance(density, sg.Hypnodensity), density
    assert density.n_epochs == 20


edits = st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=4)


@pytest.mark.parametrize("kind", FILES)
@given(edits=edits, keep=st.just(1.0) | st.floats(0, 1), named=st.booleans())
@settings(max_examples=60)
def test_a_spoilt_file_is_a_line_or_probabilities(kind, edits, keep, named):
    name, make, options = FILES[kind]
    data = bytearray(make())
    for place, new in edits:
        at = int(place * (len(data) - 1))
        data[at : at + len(new)] = new
    with tempfile.TemporaryDirectory() as folder:
        path = put(folder, name, bytes(data[: int(keep * len(data))]))
        found = outcome(path, **options, **({"format": kind} if named else {}))
        assert isinstance(found, str) or found.n_epochs < 200_000


@pytest.mark.parametrize("kind", FILES)
@given(data=st.binary(max_size=300))
@settings(max_examples=40)
def test_any_bytes_under_any_name_and_format(kind, data):
    name, _, options = FILES[kind]
    with tempfile.TemporaryDirectory() as folder:
        outcome(put(folder, name, data), **options)
        outcome(put(folder, name, data), **options, format=kind)


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind not in ("stanford-stages", "npz")])
def test_a_file_joined_with_itself_is_refused(tmp_path, kind):
    name, make, options = FILES[kind]
    found = outcome(put(tmp_path, name, make() * 2), **options)
    assert any(word in found for word in ("joined", "line", "JSON", "not a distribution"))


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_refused(tmp_path, kind, encoding):
    name, make, options = FILES[kind]
    found = outcome(put(tmp_path, name, make().decode().encode(encoding)), **options)
    assert isinstance(found, str)
    assert "UTF-16" in found or "binary" in found or "JSON" in found


@pytest.mark.parametrize("kind", [kind for kind in TEXTS if kind != "accusleepy-csv"])
def test_byte_order_mark_and_line_ends_do_not_matter(tmp_path, kind):
    name, make, options = FILES[kind]
    plain = outcome(put(tmp_path, name, make()), **options)
    for data in (b"\xef\xbb\xbf" + make(), make().replace(b"\n", b"\r\n"), make().replace(b"\n", b"\r")):
        assert outcome(put(tmp_path, name, data), **options) == plain


def test_decimal_commas_of_every_mark(tmp_path):
    plain = text("W;N1;N2;N3;R", *(row.replace(",", ";") for row in ROWS))
    expected = outcome(put(tmp_path, "n.csv", plain))
    comma = plain.replace(b".", b",")
    for data in (comma, comma.replace(b";", b"\t")):
        assert outcome(put(tmp_path, "n.csv", data)) == expected
    assert isinstance(outcome(put(tmp_path, "n.csv", comma.replace(b";", b","))), str)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("other", FILES)
def test_mislabelled_files_are_refused_or_read_for_what_they_are(tmp_path, kind, other):
    name = FILES[other][0]
    _, make, options = FILES[kind]
    found = outcome(put(tmp_path, name, make()), **options)
    if not isinstance(found, str):
        np.testing.assert_allclose(found.probabilities, P, atol=1e-4)


def within(seconds: float, megabytes: float, action: Callable[[], object]) -> object:
    """Outcome of an action that takes little time and memory."""
    tracemalloc.start()
    began = time.process_time()
    try:
        found = action()
        assert time.process_time() - began < seconds
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1e6
    finally:
        tracemalloc.stop()
    return found


def test_a_million_columns_are_refused_at_once(tmp_path):
    row = b",".join([b"0.5"] * 1_000_000)
    data = b"W,S," + b",".join(b"x%d" % i for i in range(1_000_000)) + b"\n" + row + b"\n"
    found = within(5, 60, lambda: outcome(put(tmp_path, "n.csv", data)))
    assert mentions(str(found), "1,000,002 columns", "10,000")
    found = within(5, 60, lambda: outcome(put(tmp_path, "n.csv", row + b"\n" + row), stages=("W", "S")))
    assert mentions(str(found), "1,000,000 columns", "10,000")


def test_one_endless_line_is_refused_at_once(tmp_path):
    data = b"W" * 20_000_000
    assert isinstance(within(5, 200, lambda: outcome(put(tmp_path, "n.csv", data))), str)


def test_many_words_in_place_of_numbers_are_one_line(tmp_path):
    data = text("W,S", *["x,y"] * 200_000)
    assert "line 2, column 'W': expected a number" in str(
        within(20, 200, lambda: outcome(put(tmp_path, "n.csv", data)))
    )


def test_deep_json_is_one_line(tmp_path):
    data = b'{"values": ' + b"[" * 200_000 + b', "n_stages": 5, "freq": "30s"'
    assert "is not readable JSON" in str(within(5, 60, lambda: outcome(put(tmp_path, "n.json", data))))


def test_an_archive_that_lies_about_its_size_is_damaged(tmp_path):
    data = bytearray(npz())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 128)  # uncompressed size in the directory
    assert mentions(str(outcome(put(tmp_path, "n.npz", bytes(data)))), "damaged or cut", "short")


def test_a_header_that_promises_terabytes_allocates_nothing(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": (200_000_000_000, 5)}
    )
    found = str(outcome(put(tmp_path, "n.npy", stream.getvalue() + bytes(64)), stages=FIVE))
    assert "damaged" in found or "memory" in found


def test_objects_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (tmp_path / "exploded",)

    np.save(tmp_path / "n.npy", np.array([Bomb(), 1], dtype=object), allow_pickle=True)
    for format in ("npy", "usleep-npy", "sleepecg", "braindecode", None):
        assert "holds Python objects" in str(outcome(tmp_path / "n.npy", stages=FIVE, format=format))
    assert not (tmp_path / "exploded").exists()


def test_xml_and_unknown_json_are_named(tmp_path):
    assert "holds XML" in str(outcome(put(tmp_path, "n.csv", b"<lolz>&lol;</lolz>")))
    assert mentions(str(outcome(put(tmp_path, "n.json", b'{"a": 1}'))), "JSON", "unknown", "kind")
