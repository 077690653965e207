"""What decoding writes: complete, self-describing, both files or none."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, naming
from stageguard.errors import FileFormatError, OutputError, OutputExistsError
from stageguard.formats.outputs import read_hypnogram_tsv, read_sidecar, write_decoding
from stageguard.report.words import done_words
from stageguard.synthetic.night import simulate_night

PROFILE = "human-psg-3"


@pytest.fixture(scope="module")
def decoding():
    night = simulate_night(PROFILE, hours=2, seed=3)
    probabilities = night.density.probabilities.copy()
    probabilities[20:22] = np.nan  # filled
    probabilities[100:120] = np.nan  # a gap
    result = sg.decode(sg.Hypnodensity(probabilities, night.density.scheme, 30.0), PROFILE)
    assert result.changed.any()
    assert result.filled.any()
    assert (result.hypnogram.labels == -1).any()
    return result


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_table_holds_every_epoch_as_decoded(tmp_path, decoding):
    written = write_decoding(decoding, tmp_path / "night")
    lines = [line.split("\t") for line in written.tsv.read_text().splitlines()]
    assert lines[0] == [
        "onset", "duration", "stage", "label", "argmax_stage", "changed", "filled", "probability",
    ]  # fmt: skip
    columns = dict(zip(lines[0], zip(*lines[1:], strict=True), strict=True))
    assert columns["stage"] == tuple(decoding.stages)
    assert [int(x) for x in columns["label"]] == decoding.hypnogram.labels.tolist()
    assert [x == "1" for x in columns["changed"]] == decoding.changed.tolist()
    assert [x == "1" for x in columns["filled"]] == decoding.filled.tolist()
    assert columns["argmax_stage"][110] == "?"
    assert columns["probability"][110] == "n/a"
    assert [float(x) for x in columns["onset"][:3]] == [0, 30, 60]
    first = decoding.density.probabilities[0, decoding.hypnogram.labels[0]]
    assert float(columns["probability"][0]) == pytest.approx(first, rel=1e-5)


@pytest.mark.filterwarnings("ignore:.*scored epochs .* were changed")
@pytest.mark.parametrize("names", [("W", "N", "R"), ("wach", "n\u00e4chtlich", "R")])
def test_rows_written_at_once_are_what_python_formats(tmp_path, names):
    rng = np.random.default_rng(7)
    edges = [1.0, 0.1, 0.01, 0.001, 0.0001, 0.5, 0.25, 1e-7, 3e-300, 0.9999995, 0.99999949, 0.0999999499]
    edges += [0.1 - 2**-57, 0.0001 - 2**-67, 0.1234565, 0.1234575, 0.01234565, 0.5000005, 0.0]
    first = np.concatenate([edges, np.round(rng.random(200), 3), rng.random(600) ** rng.integers(1, 9, 600)])
    rest = rng.random(len(first))
    rows = np.column_stack([first, (1 - first) * rest, (1 - first) * (1 - rest)])
    rows[300:303] = rows[400:440] = np.nan
    moves = {a: {b: 0.9 if a == b else 0.05 for b in names} for a in names}
    document = {"name": "own", "stages": list(names), "epoch_seconds": 30.0, "transitions": moves}
    profile = sg.Profile.from_dict(document | {"transition_weight": 0.3})
    night = sg.Hypnodensity(rows, profile.scheme, 30.0, offset_seconds=12.5)
    pins = dict.fromkeys(range(len(edges)), names[0])
    quality = np.linspace(0, 1, len(rows))
    result = sg.decode(night, profile, pins=pins, quality=quality)
    labels = result.hypnogram.labels
    assert (labels[: len(edges)] == 0).all()
    assert result.changed.any()
    assert result.filled.any()
    assert (labels == -1).any()
    lines = write_decoding(result, tmp_path / "night", quality=quality).tsv.read_text("utf-8").splitlines()
    for epoch, line in enumerate(lines[1:]):
        label, before = labels[epoch], result.argmax[epoch]
        chosen = rows[epoch, label] if label >= 0 else np.nan
        assert line.split("\t") == [
            *(f"{12.5 + 30 * epoch:g}", "30", (*names, "?")[label], str(label), (*names, "?")[before]),
            *(str(int(result.changed[epoch])), str(int(result.filled[epoch]))),
            *("n/a" if np.isnan(chosen) else f"{chosen:.6g}", repr(float(quality[epoch]))),
        ]


def test_the_sidecar_explains_every_column_and_how_to_repeat(tmp_path, decoding):
    source = tmp_path / "night.csv"
    source.write_text("anything")
    written = write_decoding(
        decoding, tmp_path / "night", source_path=source, options={"trained": None}, notes=["30 s assumed"]
    )
    content = json.loads(written.sidecar.read_text())
    header = written.tsv.read_text().splitlines()[0].split("\t")
    assert set(header) == set(content) - {"stageguard"}
    assert all(content[name]["Description"] for name in header)
    assert content["onset"]["Units"] == "s"
    own = content["stageguard"]
    assert mentions(own["review"], "trained", "any clinical decision")
    assert own["input"] == {
        "file": "night.csv", "path": "night.csv", "bytes": 8,
        "sha256": hashlib.sha256(b"anything").hexdigest(),
    }  # fmt: skip
    assert own["hypnogram"]["sha256"] == hashlib.sha256(written.tsv.read_bytes()).hexdigest()
    assert sg.Profile.from_dict(own["profile"]["definition"]).sha256 == own["profile"]["sha256"]
    assert own["strength"]["why"] == done_words(decoding)
    assert own["assumptions"] == [*decoding.assumed, "30 s assumed"]
    assert own["provenance"]["stageguard"] == sg.__version__


def test_written_tables_read_back(tmp_path, decoding):
    quality = np.linspace(0, 1 / 3, decoding.hypnogram.n_epochs)
    written = write_decoding(decoding, tmp_path / "night", quality=quality)
    table = read_hypnogram_tsv(written.tsv)
    np.testing.assert_array_equal(table.labels, decoding.hypnogram.labels)
    assert table.stages == tuple(decoding.stages)
    np.testing.assert_array_equal(table.quality, quality)  # to the last bit
    assert read_sidecar(written.sidecar)["layout"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ("is empty", "header")),
        ("stage\tlabel\nW\t0\t1\n", (2, 3, "cells", 2)),
        ("stage\tlabel\nW\tx\n", ("label or quality", "number")),
        ("stage\tlabel\nW\t999\n", ("label or quality", "number")),
    ],
)
def test_foreign_tables_are_refused(tmp_path, text, message):
    path = tmp_path / "night.hypnogram.tsv"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=naming(*message)):
        read_hypnogram_tsv(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ("is not readable JSON",)),
        ("[]", ("not a sidecar",)),
        ('{"stageguard": {"layout": 99}}', (99, 1, "Upgrade")),
    ],
)
def test_foreign_sidecars_are_refused(tmp_path, text, message):
    path = tmp_path / "night.hypnogram.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=naming(*message)):
        read_sidecar(path)


def test_nothing_is_overwritten_unasked(tmp_path, decoding):
    for existing in ("night.hypnogram.tsv", "night.hypnogram.json"):
        (tmp_path / existing).write_text("mine")
        with pytest.raises(OutputExistsError, match=naming("exists", "overwrite=True")):
            write_decoding(decoding, tmp_path / "night")
        assert files_in(tmp_path) == [existing]
        assert (tmp_path / existing).read_text() == "mine"
        (tmp_path / existing).unlink()


def test_overwrite_replaces_both(tmp_path, decoding):
    (tmp_path / "night.hypnogram.tsv").write_text("old")
    (tmp_path / "night.hypnogram.json").write_text("old")
    written = write_decoding(decoding, tmp_path / "night", overwrite=True)
    assert read_sidecar(written.sidecar)
    assert read_hypnogram_tsv(written.tsv)
    assert files_in(tmp_path) == ["night.hypnogram.json", "night.hypnogram.tsv"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("failing_call", [1, 2])
@pytest.mark.parametrize("had_files", [False, True])
def test_an_interrupted_write_leaves_everything_as_it_was(
    tmp_path, decoding, monkeypatch, error, failing_call, had_files
):
    if had_files:
        (tmp_path / "night.hypnogram.tsv").write_text("old table")
        (tmp_path / "night.hypnogram.json").write_text("old sidecar")
    before = {name: (tmp_path / name).read_text() for name in files_in(tmp_path)}
    replace, calls = Path.replace, []

    def failing_replace(self, target):
        calls.append(target)
        if len(calls) == failing_call:
            raise error
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing_replace)
    expected = OutputError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        write_decoding(decoding, tmp_path / "night", overwrite=True)
    if expected is OutputError:
        assert mentions(str(caught.value), "No space left", "device")
    assert {name: (tmp_path / name).read_text() for name in files_in(tmp_path)} == before
    assert len(calls) == failing_call


KILLED = """
import os, signal, sys
from pathlib import Path
from stageguard.files import write_together
replace, calls = Path.replace, []
def dying_replace(self, target):
    calls.append(target)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
Path.replace = dying_replace
folder = Path(sys.argv[1])
write_together({folder / "a.tsv": "new" * 1000, folder / "a.json": "new" * 1000}, overwrite=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX")
@pytest.mark.parametrize("moment", [1, 2])
def test_a_killed_process_leaves_no_half_written_file(tmp_path, moment):
    (tmp_path / "a.tsv").write_text("old" * 1000)
    (tmp_path / "a.json").write_text("old" * 1000)
    result = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path, str(moment)], env=_environment(), check=False
    )
    assert result.returncode == -9
    assert (tmp_path / "a.tsv").read_text() == ("old" if moment == 1 else "new") * 1000
    assert (tmp_path / "a.json").read_text() == "old" * 1000


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(sg.__file__).parents[1])}


def test_unwritable_places_are_one_line(tmp_path, decoding):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write .*Choose a folder"):
        write_decoding(decoding, tmp_path / "file" / "night")
    (tmp_path / "night.hypnogram.tsv").mkdir()
    with pytest.raises(OutputError, match=naming("night.hypnogram.tsv", "is a folder")):
        write_decoding(decoding, tmp_path / "night", overwrite=True)


def test_missing_folders_are_made(tmp_path, decoding):
    assert write_decoding(decoding, tmp_path / "a" / "b" / "night").tsv.is_file()
