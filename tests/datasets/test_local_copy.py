"""Fetching whole datasets, unpacking archives, checking local copies, and the list of datasets itself."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import pickle
import re
import stat
import sys
import zipfile
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dataset_files import accusleep_session, sleep_accel_subject
from file_server import serving
from messages import naming
from stageguard.datasets import (
    Dataset,
    Entry,
    RemoteFile,
    dataset,
    dataset_names,
    entries,
    recordings,
    sleep_accel,
)
from stageguard.datasets.download import Patience
from stageguard.datasets.local_copy import (
    LEDGER,
    Problem,
    check,
    get,
    list_remote,
    read_ledger,
    read_through,
    unpack_archive,
)
from stageguard.errors import (
    FileFormatError,
    InputError,
    OutputExistsError,
    StageGuardError,
)
from stageguard.night.recording import Recording, Signal
from stageguard.signals.modalities import MODALITIES

ROOT = Path(__file__).parents[2]
QUICK = Patience(tries=2, first_wait_seconds=0.001, timeout_seconds=5)
STAGES = [0, 0, 1, 2, 3, 5]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


def made_up(**facts) -> Dataset:
    told = {
        "name": "test",
        "title": "A test",
        "modality": "any",
        "access": "open",
        "how_to_get": "Ask.",
        "find": sleep_accel.find,
    }
    return Dataset(**{**told, **facts})


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# the list of datasets


@pytest.mark.parametrize("name", dataset_names())
def test_every_dataset_says_what_it_is(name):
    facts = dataset(name)
    assert facts.name == name
    assert facts.modality in (*MODALITIES, "any")
    assert facts.access in ("open", "gated", "private")
    assert facts.title
    assert facts.how_to_get
    assert (ROOT / "docs" / facts.page).is_file()
    assert all(facts.options.values())


@pytest.mark.parametrize("name", dataset_names())
def test_the_catalogue_names_the_options_of_the_reader(name):
    module = import_module(f"stageguard.datasets.{name.replace('-', '_')}")
    taken = set(inspect.signature(module.find).parameters) - {"folder"}
    if "files" in taken:  # AccuSleep: what the files do not say
        taken = taken - {"files"} | {item.name for item in fields(module.Options)}
    assert set(dataset(name).options) - {"subjects"} == taken


@pytest.mark.parametrize("name", sorted({*dataset_names()} - {"sample-list"}))
def test_a_folder_without_recordings_says_what_was_expected(tmp_path, name):
    known = dataset(name)
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match=naming(known.title, known.layout)):
        list(known.entries(tmp_path))
    (tmp_path / "Mouse01.zip").write_bytes(b"")
    with pytest.raises(InputError, match=naming(known.title, "Mouse01.zip", "unpack")):
        list(known.entries(tmp_path))


def test_names_are_forgiving_and_errors_helpful(tmp_path):
    assert dataset(" Sleep_Accel ").name == "sleep-accel"
    with pytest.raises(InputError, match=r"no dataset 'acusleep'; there are: .+ Did you mean 'accusleep'\?"):
        dataset("acusleep")
    with pytest.raises(InputError, match=naming("gone", "AccuSleep")):
        entries("accusleep", tmp_path / "gone")
    with pytest.raises(InputError, match=naming("'epochs'", "'accusleep'", "epoch_seconds")):
        entries("accusleep", tmp_path, epochs=4)


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyError("EEG"), r"^n1: cannot be read \(KeyError: 'EEG'\)\.$"),
        (OSError("truncated"), r"^n1: cannot be read \(OSError: truncated\)\.$"),
        (FileFormatError("x: is odd"), r"^x: is odd$"),
        (FileNotFoundError(2, "No such file", "x.edf"), "No such file"),
    ],
)
def test_whatever_a_library_says_becomes_one_line(error, expected):
    entry = Entry("n1", "s1", (), partial(fail, error))
    with pytest.raises((StageGuardError, FileNotFoundError), match=expected):
        entry.read()


def test_a_lack_of_memory_is_no_fault_of_the_file():
    with pytest.raises(MemoryError):
        Entry("n1", "s1", (), partial(fail, MemoryError())).read()


def test_recordings_come_one_at_a_time(tmp_path, monkeypatch):
    for subject in ("1", "2", "3"):
        sleep_accel_subject(tmp_path, subject, STAGES)
    read = []
    real = Entry.read
    monkeypatch.setattr(Entry, "read", lambda self: read.append(self.id) or real(self))
    found = recordings("sleep-accel", tmp_path)
    assert next(found).id == "1"
    assert read == ["1"]


# archives


def test_an_archive_becomes_a_folder_of_its_name(tmp_path):
    for name, inner in (("Mouse03.zip", "Day1/EEG.mat"), ("Mouse04.zip", "Mouse04/Day1/EEG.mat")):
        litter = {"__MACOSX/._EEG.mat": b"x", "Day1/.DS_Store": b"x"}
        (tmp_path / name).write_bytes(zipped(**{inner: b"signal", **litter}))
        assert unpack_archive(tmp_path / name) == (tmp_path / name[:7] / "Day1" / "EEG.mat",)
    assert (tmp_path / "Mouse03" / "Day1" / "EEG.mat").read_bytes() == b"signal"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "EEG.mat", "EEG.mat", "Mouse03.zip", "Mouse04.zip"]  # fmt: skip


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "c:evil"])
def test_nothing_is_unpacked_outside_of_the_folder(tmp_path, name):
    path = tmp_path / "in" / "Mouse01.zip"
    path.parent.mkdir()
    info = zipfile.ZipInfo("x")
    info.filename = name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fine", b"")
        archive.writestr(info, b"evil")
    with pytest.raises(FileFormatError, match=naming("Mouse01.zip", "which leads out", "folder")):
        unpack_archive(path)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["Mouse01.zip"]


def test_links_are_not_unpacked(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(FileFormatError, match=naming("leads out", "folder")):
        unpack_archive(tmp_path / "a.zip")


def named(*names: str, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive whose members have names that no program would give them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for number, name in enumerate(names):
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, kind
            archive.writestr(info, bytes(range(256)) * (number + 1))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (named("."), "which leads out of its folder"),
        (named("a", "a/b"), "cannot unpack .+ at .+/a"),
        (named("x" * 300), "cannot unpack .+ at .+/"),
        (named("x/" * 3000 + "y"), "cannot unpack .+ at .+/"),
        (named("é.mat").replace("é".encode(), b"\xc3\xff"), "cannot be unpacked .+ Fetch it again"),
        *(
            (whole[:80] + bytes([whole[80] ^ 255]) + whole[81:], "cannot be unpacked .+ Fetch it again")
            for whole in (named("x", kind=kind) for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
        ),
    ],
    ids=["dot", "file and folder", "long name", "deep", "no UTF-8", "bzip2", "lzma"],
)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other limits of names")
def test_a_strange_archive_is_one_line(tmp_path, content, error):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(StageGuardError, match=error):
        unpack_archive(tmp_path / "a.zip")


def test_a_member_without_a_name_is_left_out(tmp_path):
    (tmp_path / "a.zip").write_bytes(named("", "x"))
    assert unpack_archive(tmp_path / "a.zip") == (tmp_path / "a" / "x",)


def test_a_file_that_is_there_is_kept_if_it_is_the_same(tmp_path):
    (tmp_path / "a.zip").write_bytes(zipped(x=b"published"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"my change")
    with pytest.raises(OutputExistsError, match=naming("exists already", "differs")):
        unpack_archive(tmp_path / "a.zip")
    unpack_archive(tmp_path / "a.zip", overwrite=True)
    assert (tmp_path / "a" / "x").read_bytes() == b"published"
    before = (tmp_path / "a" / "x").stat().st_mtime_ns
    unpack_archive(tmp_path / "a.zip")
    assert (tmp_path / "a" / "x").stat().st_mtime_ns == before


@pytest.mark.parametrize("content", [b"", b"no archive", zipped(x=bytes(range(256)) * 40)[:-60]])
def test_a_broken_archive_is_named(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(FileFormatError, match=naming("a.zip", "Fetch it again")):
        unpack_archive(tmp_path / "a.zip")


# fetching


def test_closed_datasets_say_how_to_get_them():
    gated = made_up(access="gated", how_to_get="Sign the agreement at example.org.")
    with pytest.raises(InputError, match=naming("Sign the agreement", "example.org")):
        list_remote(gated)
    with pytest.raises(InputError, match="is not public"):
        list_remote(made_up(access="private"))
    with pytest.raises(InputError, match=naming("test", "fetched from here")):
        list_remote(made_up())


def test_only_some_files_can_be_asked_for_and_digests_come_along():
    paths = ("SHA256SUMS.txt", "labels/1.txt", "labels/2.txt", "motion/1.txt")
    some = made_up(files=tuple(RemoteFile(path, "") for path in paths))
    assert [file.path for file in list_remote(some)] == list(paths)
    assert [file.path for file in list_remote(some, ["labels/*"])] == ["SHA256SUMS.txt", *paths[1:3]]
    with pytest.raises(InputError, match=naming("EEG", 4, "'labels/2.txt'")):
        list_remote(some, ["EEG*"])


def test_one_failure_is_not_the_end(tmp_path):
    with serving(files={"/a": b"1", "/c": b"3"}) as site:
        files = tuple(RemoteFile(name, f"{site.url}/{name}") for name in "abc")
        got = list(get(made_up(files=files), tmp_path, patience=QUICK))
        assert [each.state for each in got] == ["fetched", "failed", "fetched"]
        assert "404" in got[1].problem
        site.files["/b"] = b"2"
        again = list(get(made_up(files=files), tmp_path, patience=QUICK))
        assert [each.state for each in again] == ["there", "fetched", "there"]
    assert sorted(read_ledger(tmp_path)) == ["a", "b", "c"]


def test_archives_are_unpacked_once_and_not_fetched_again(tmp_path):
    content = zipped(**{"Day1/EEG.mat": b"signal", "Day1/labels.mat": b"labels"})
    with serving(files={"/z": content}) as site:
        file = RemoteFile("4-hour/Mouse01.zip", f"{site.url}/z", len(content), sha256(content))
        mice = made_up(files=(file,), has_archives=True)
        assert [each.state for each in get(mice, tmp_path, patience=QUICK)] == ["unpacked"]
        assert not (tmp_path / "4-hour" / "Mouse01.zip").exists()
        eeg = tmp_path / "4-hour" / "Mouse01" / "Day1" / "EEG.mat"
        assert eeg.read_bytes() == b"signal"
        assert [each.state for each in get(mice, tmp_path, patience=QUICK)] == ["there"]
        assert len(site.log) == 1
        eeg.unlink()
        assert [each.state for each in get(mice, tmp_path, patience=QUICK)] == ["unpacked"]
        assert eeg.exists()
        assert [each.state for each in get(mice, tmp_path / "b", unpack=False, patience=QUICK)] == ["fetched"]
        assert (tmp_path / "b" / "4-hour" / "Mouse01.zip").read_bytes() == content


def test_a_damaged_ledger_is_named(tmp_path):
    (tmp_path / LEDGER).write_text("{}")
    with pytest.raises(FileFormatError, match=r"stageguard-files.json: is damaged"):
        read_ledger(tmp_path)


# checking


def published(folder: Path) -> None:
    lines = [
        f"{sha256(path.read_bytes())} {path.relative_to(folder).as_posix()}\n"
        for path in sorted(folder.rglob("*.txt"))
    ]
    (folder / "SHA256SUMS.txt").write_text("".join(lines))


@pytest.fixture
def copy(tmp_path):
    for subject in ("46343", "759667", "781756"):
        sleep_accel_subject(tmp_path, subject, STAGES)
    published(tmp_path)
    return tmp_path


def test_a_good_copy_is_fine_and_known_to_be_a_part(copy):
    result = check(dataset("sleep-accel"), copy)
    assert result.is_fine
    assert not result.is_complete
    assert (result.n_found, result.n_subjects, result.n_compared, result.n_absent) == (3, 3, 12, 0)
    assert result.recordings[0].scored_epochs == {"expert": 6}
    assert result.recordings[0].channels == ("acceleration", "heart_rate", "steps")
    assert result.hours == pytest.approx(3 * 179.5 / 3600, abs=1e-3)


def test_every_fault_is_a_row_and_none_is_the_end(copy):
    (copy / "labels" / "46343_labeled_sleep.txt").write_text("0 9\n")
    (copy / "steps" / "759667_steps.txt").unlink()
    (copy / "motion" / "781756_acceleration.txt.part").write_bytes(b"half")
    result = check(dataset("sleep-accel"), copy)
    assert [(p.what, p.kind) for p in result.problems] == [
        ("motion/781756_acceleration.txt.part", "incomplete"),
        ("759667", "missing"),
        ("46343", "unreadable"),
        ("labels/46343_labeled_sleep.txt", "changed"),
    ]
    assert result.problems[1].detail == "steps/759667_steps.txt"
    assert "stage 9 at 0 s" in result.problems[2].detail
    assert "has sha256" in result.problems[3].detail
    assert [one.id for one in result.recordings] == ["759667", "781756"]
    assert (result.n_found, result.n_absent, result.n_compared) == (3, 1, 11)


def test_digests_can_be_left_out(copy):
    (copy / "labels" / "46343_labeled_sleep.txt").write_text("0 0\n")
    assert not check(dataset("sleep-accel"), copy).is_fine
    result = check(dataset("sleep-accel"), copy, digests=False)
    assert (result.is_fine, result.n_compared) == (True, 0)


def test_what_get_has_noted_is_compared(tmp_path):
    pytest.importorskip("scipy")
    accusleep_session(tmp_path / "Mouse01" / "Day1", "mat7", labels=np.full(16, 2))
    members = {"Day1/EEG.mat": 1, "Day1/gone.mat": 1}
    files = [
        {"path": "Mouse01.zip", "url": "", "size": None, "sha256": None, "md5": None,
         "unpacked": {f"Mouse01/{name}": size for name, size in members.items()}},
        {"path": "Mouse01/Day1/EMG.mat", "url": "", "size": 5, "sha256": None, "md5": None, "unpacked": {}},
    ]  # fmt: skip
    (tmp_path / LEDGER).write_text(json.dumps({"dataset": "accusleep", "files": files}))
    result = check(dataset("accusleep"), tmp_path, rate_hz=8)
    assert [(p.what, p.kind) for p in result.problems] == [
        ("Mouse01/Day1/EEG.mat", "changed"),
        ("Mouse01/Day1/gone.mat", "missing"),
        ("Mouse01/Day1/EMG.mat", "changed"),
    ]
    assert "expected 5" in result.problems[2].detail


def test_two_recordings_of_one_name_are_told(tmp_path, monkeypatch):
    reader = partial(Recording, "n", "s", {"eeg": Signal("EEG", np.zeros(10), 1.0)})
    twice = [Entry("n", "s", (), reader), Entry("n", "s", (), reader)]
    monkeypatch.setattr(Dataset, "entries", lambda *_, **__: iter(twice))
    result = check(made_up(), tmp_path)
    assert result.problems == (Problem("n", "twice", "another recording has the same name"),)


class Short:
    """Samples that say they are more than they are, as a file that was cut short."""

    def __init__(self, there: int) -> None:
        self.there, self.slices = there, []

    def __len__(self) -> int:
        return 3_000_000

    def __getitem__(self, where: slice) -> np.ndarray:
        self.slices.append((where.start, where.stop))
        return np.zeros(max(0, min(where.stop, self.there) - where.start))


@pytest.mark.parametrize(
    ("deep", "there", "is_noticed"),
    [(False, 2_999_999, True), (False, 3_000_000, False), (False, 2_999_900, True), (True, 2_000_000, True)],
)
def test_signals_are_read_as_deep_as_asked(deep, there, is_noticed):
    samples = Short(there)
    recording = Recording("n", "s", {"eeg": Signal("EEG", samples, 100.0)})
    if is_noticed:
        with pytest.raises(StageGuardError, match="EEG: samples"):
            read_through(recording, deep=deep)
    else:
        read_through(recording, deep=deep)
    assert all(end - first <= 1 << 20 for first, end in samples.slices)


def test_entries_of_every_reader_here_can_be_pickled(copy):
    for entry in entries("sleep-accel", copy):
        assert pickle.loads(pickle.dumps(entry)).read().subject == entry.subject


# pages


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "datasets").glob("*.md")), ids=lambda page: page.name
)
def test_links_of_the_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    local = [link for link in links if not link.startswith(("https://", "mailto:"))]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_index_has_a_row_for_every_dataset():
    text = (ROOT / "docs" / "datasets" / "index.md").read_text("utf-8")
    assert [
        name for name in dataset_names() if f"| [{name}]({Path(dataset(name).page).name})" not in text
    ] == []


def test_the_mapping_on_the_radar_page_is_read(tmp_path):
    page = (ROOT / "docs" / "datasets" / "sleepbrl.md").read_text("utf-8")
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "recordings.toml").write_text(text)
    samples = np.zeros(3000)
    np.savez(tmp_path / "night-1.npz", I=samples, Q=samples, hypnogram=np.array([0, 2]))
    found = list(entries("sleepbrl", tmp_path))
    assert [(entry.id, entry.subject) for entry in found] == [("P07-1", "P07"), ("night-2", "P07")]
    assert found[1].missing == ("night-2.edf", "night-2.csv")
    recording = found[0].read()
    assert (recording.seconds, recording.covariates) == (60, {"age": 41})
    assert recording.scorings["expert"].stages.tolist() == ["W", "R"]
