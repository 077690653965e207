"""The list of datasets, what every reader has in common, fetching, and checking local copies."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dataset_files import sleep_accel_subject
from file_server import serving
from messages import naming
from stageguard.datasets import Dataset, Entry, dataset, dataset_names, entries, local_copy, recordings
from stageguard.datasets.local_copy import SUMS, Problem, RemoteFile, check, get, list_remote
from stageguard.errors import FileFormatError, InputError, StageGuardError
from stageguard.night.recording import Recording, Signal

ROOT = Path(__file__).parents[2]
STAGES = [0, 0, 1, 2, 3, 5]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", dataset_names())
def test_the_catalogue_names_the_options_of_the_reader(name):
    module = import_module(f"stageguard.datasets.{name.replace('-', '_')}")
    taken = set(inspect.signature(module.find).parameters) - {"folder"}
    assert set(dataset(name).options) - {"subjects"} == taken


@pytest.mark.parametrize(
    ("name", "files", "missing", "subject"),
    [
        ("accusleep", "Mouse01/Day1/EEG.mat", "Mouse01/Day1/EMG.mat Mouse01/Day1/labels.mat", ""),
        (
            "sleep-accel",
            "a_acceleration.txt a_heartrate.txt",
            "steps/a_steps.txt labels/a_labeled_sleep.txt",
            "",
        ),
        ("sleepbrl", "sbj01.edf", "sbj01.edf.atr", ""),
        (
            "shhs",
            "shhs1-200001.edf",
            "polysomnography/annotations-events-nsrr/shhs1/shhs1-200001-nsrr.xml",
            "200001",
        ),
        ("sleep-edf", "SC4002E0-PSG.edf", "SC4002E?-Hypnogram.edf", "sc400"),
        ("slpdb", "slp03.dat slp03.hea", "slp03.ecg slp03.st", "SLP03"),
        ("dod", "a1.h5", "", "A1"),
    ],
)
def test_files_that_are_missing_are_named_and_subjects_chosen(tmp_path, name, files, missing, subject):
    for file in files.split():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    (entry,) = entries(name, tmp_path, **({"subjects": f"x, {subject}"} if subject else {}))
    assert entry.missing == tuple(missing.split())
    assert sorted(entry.files) == [tmp_path / file for file in files.split()]
    if subject:
        assert not list(entries(name, tmp_path, subjects=["somebody"]))
        with pytest.raises(InputError, match="subjects is empty"):
            list(entries(name, tmp_path, subjects=" , "))
    failed = []
    assert not list(recordings(name, tmp_path, on_error=lambda entry, error: failed.append(str(error))))
    assert len(failed) == 1 and "\n" not in failed[0]


@pytest.mark.parametrize("name", sorted({*dataset_names()} - {"sample-list"}))
def test_a_folder_without_recordings_says_what_was_expected(tmp_path, name):
    known = dataset(name)
    (tmp_path / "Mouse01.zip").write_bytes(b"")
    with pytest.raises(InputError, match=naming(known.title, known.layout, "Mouse01.zip", "unpack")):
        list(known.entries(tmp_path))


def test_names_are_forgiving_and_errors_helpful(tmp_path):
    assert dataset(" Sleep_Accel ").name == "sleep-accel"
    with pytest.raises(InputError, match=r"no dataset 'acusleep'; there are: .+ Did you mean 'accusleep'\?"):
        dataset("acusleep")
    with pytest.raises(InputError, match=naming("gone", "AccuSleep")):
        entries("accusleep", tmp_path / "gone")
    with pytest.raises(InputError, match=naming("'accusleep'", "'epochs'", "epoch_seconds")):
        entries("accusleep", tmp_path, epochs=4)


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyError("EEG"), r"^n1: cannot be read \(KeyError: 'EEG'\)"),
        (OSError("truncated"), r"^n1: cannot be read \(OSError: truncated\)"),
        (FileFormatError("x: is odd"), r"^x: is odd$"),
        (FileNotFoundError(2, "No such file", "x.edf"), "No such file"),
    ],
)
def test_whatever_a_library_says_becomes_one_line(error, expected):
    entry = Entry("n1", "s1", (), partial(fail, error))
    with pytest.raises((StageGuardError, FileNotFoundError), match=expected):
        entry.read()


def test_recordings_come_one_at_a_time_and_can_be_sent_to_other_processes(tmp_path, monkeypatch):
    for subject in ("1", "2", "3"):
        sleep_accel_subject(tmp_path, subject, STAGES)
    for entry in entries("sleep-accel", tmp_path):
        assert pickle.loads(pickle.dumps(entry)).read().subject == entry.subject
    read = []
    real = Entry.read
    monkeypatch.setattr(Entry, "read", lambda self: read.append(self.id) or real(self))
    assert next(recordings("sleep-accel", tmp_path)).id == "1"
    assert read == ["1"]


# fetching


def test_only_physionet_is_fetched_and_the_others_say_how_to_get_them():
    for name in ("shhs", "accusleep", "dod"):
        with pytest.raises(InputError, match=naming("not fetched from here", dataset(name).how_to_get)):
            list_remote(dataset(name))


def test_only_some_files_can_be_asked_for_and_digests_come_along():
    sums = "".join(f"{'0' * 64}  {name}\n" for name in ("labels/1.txt", "labels/2 b.txt", "motion/1.txt"))
    asked = []
    fetch = lambda url: asked.append(url) or sums.encode()  # noqa: E731
    source = dataset("sleep-accel")
    files = list_remote(source, ["labels/*"], fetch=fetch)
    assert [file.path for file in files] == [SUMS, "labels/1.txt", "labels/2 b.txt"]
    assert asked == ["https://physionet.org/files/sleep-accel/1.0.0/SHA256SUMS.txt"]
    assert (files[2].url[-14:], files[2].sha256) == ("labels/2%20b.txt"[-14:], "0" * 64)
    assert len(list_remote(source, fetch=fetch)) == 4
    with pytest.raises(InputError, match=naming("EEG", "'labels/1.txt'")):
        list_remote(source, ["EEG*"], fetch=fetch)


@pytest.mark.parametrize(
    ("sums", "told"), [(f"{'0' * 64} ../x", "line 1"), (f"{'0' * 64} /x", "line 1"), ("<html>", "line 1")]
)
def test_a_list_that_leads_out_of_the_folder_is_refused(sums, told):
    with pytest.raises(FileFormatError, match=told):
        list_remote(dataset("slpdb"), fetch=lambda url: sums.encode())


def test_one_failure_is_not_the_end(tmp_path):
    with serving(files={"/a": b"1", "/c": b"3"}) as site:
        files = [RemoteFile(f"x/{name}", f"{site.url}/{name}", None) for name in "abc"]
        got = list(get(tmp_path, files))
        assert [each.state for each in got] == ["fetched", "failed", "fetched"]
        assert "404" in got[1].problem
        site.files["/b"] = b"2"
        assert [each.state for each in get(tmp_path, files)] == ["there", "fetched", "there"]
    assert [path.read_bytes() for path in sorted((tmp_path / "x").iterdir())] == [b"1", b"2", b"3"]


def test_a_broken_or_damaged_file_is_fetched_again_and_never_kept(tmp_path):
    content = b"x" * 5000
    with serving(files={"/a": content, "/b": b"damaged"}, drop_after=[100, 4999]) as site:
        files = [RemoteFile(name, f"{site.url}/{name}", sha256(content)) for name in "ab"]
        got = list(get(tmp_path, files))
    assert [each.state for each in got] == ["fetched", "failed"]
    assert (tmp_path / "a").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_that_differs_is_replaced_only_when_asked(tmp_path):
    (tmp_path / "a").write_bytes(b"mine")
    with serving(files={"/a": b"theirs"}) as site:
        files = [RemoteFile("a", f"{site.url}/a", sha256(b"theirs"))]
        (got,) = get(tmp_path, files)
        assert (got.state, (tmp_path / "a").read_bytes(), site.log) == ("failed", b"mine", [])
        assert "exists already and differs" in got.problem
        (got,) = get(tmp_path, files, overwrite=True)
    assert (got.state, (tmp_path / "a").read_bytes()) == ("fetched", b"theirs")


# checking


@pytest.fixture
def copy(tmp_path):
    for subject in ("46343", "759667", "781756"):
        sleep_accel_subject(tmp_path, subject, STAGES)
    files = sorted(tmp_path.rglob("*.txt"))
    lines = [f"{sha256(path.read_bytes())} {path.relative_to(tmp_path).as_posix()}\n" for path in files]
    (tmp_path / SUMS).write_text("".join(lines))
    return tmp_path


def test_every_fault_is_a_row_and_none_is_the_end(copy):
    fine = check(dataset("sleep-accel"), copy)
    assert (fine.problems, fine.n_found, fine.n_compared, fine.n_absent) == ((), 3, 12, 0)
    assert fine.recordings[0]["scored_epochs"] == {"expert": 6}
    (copy / "labels" / "46343_labeled_sleep.txt").write_text("0 9\n")
    (copy / "steps" / "759667_steps.txt").unlink()
    result = check(dataset("sleep-accel"), copy)
    assert [(p.what, p.kind) for p in result.problems] == [
        ("759667", "missing"),
        ("46343", "unreadable"),
        ("labels/46343_labeled_sleep.txt", "changed"),
    ]
    assert result.problems[0].detail == "steps/759667_steps.txt"
    assert "stage 9 at 0 s" in result.problems[1].detail
    assert [one["id"] for one in result.recordings] == ["759667", "781756"]
    assert (result.n_found, result.n_absent, result.n_compared) == (3, 1, 11)
    kinds = [problem.kind for problem in check(dataset("sleep-accel"), copy, digests=False).problems]
    assert kinds == ["missing", "unreadable"]


def test_two_recordings_of_one_name_are_told(tmp_path, monkeypatch):
    reader = partial(Recording, "n", "s", {"eeg": Signal("EEG", np.zeros(10), 1.0)})
    twice = [Entry("n", "s", (), reader), Entry("n", "s", (), reader)]
    monkeypatch.setattr(Dataset, "entries", lambda *_, **__: iter(twice))
    result = check(replace(dataset("slpdb"), name="test"), tmp_path)
    assert result.problems == (Problem("n", "twice", "another recording has the same name"),)


class Short:
    """Samples that say they are more than they are, as a file that was cut short."""

    def __init__(self, there: int) -> None:
        self.there = there

    def __len__(self) -> int:
        return 30_000

    def __getitem__(self, where: slice) -> np.ndarray:
        return np.zeros(max(0, min(where.stop, self.there) - where.start))


@pytest.mark.parametrize(
    ("deep", "there", "is_noticed"),
    [(False, 29_999, True), (False, 30_000, False), (False, 29_900, True), (True, 20_000, True)],
)
def test_signals_are_read_as_deep_as_asked(tmp_path, monkeypatch, deep, there, is_noticed):
    recording = Recording("n", "s", {"eeg": Signal("EEG", Short(there), 100.0)})
    entry = Entry("n", "s", (), lambda: recording)
    monkeypatch.setattr(Dataset, "entries", lambda *_, **__: iter([entry]))
    problems = local_copy.check(dataset("slpdb"), tmp_path, deep=deep).problems
    assert [problem.kind for problem in problems] == ["unreadable"] * is_noticed


# pages
