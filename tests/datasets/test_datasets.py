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
from stageguard.datasets.local_copy import SUMS, Problem, check, fetch
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
    with pytest.raises(InputError, match=naming(known.title, known.layout, "Unpack Mouse01.zip")):
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


@pytest.fixture
def physionet(monkeypatch):
    """A dataset of three files on a server, of which the second is not there."""
    source = replace(dataset("slpdb"), physionet="x")
    with serving(files={"/files/x/labels/1.txt": b"1", "/files/x/motion/1.txt": b"3"}) as site:
        monkeypatch.setattr(local_copy, "PHYSIONET", site.url)
        sums = {"labels/1.txt": b"1", "labels/2 b.txt": b"2", "motion/1.txt": b"3"}
        lines = "".join(f"{sha256(content)}  {name}\n" for name, content in sums.items())
        site.files[f"/files/x/{SUMS}"] = lines.encode()
        yield source, site


def test_only_physionet_is_fetched_and_the_others_say_how_to_get_them(tmp_path):
    for name in ("shhs", "accusleep", "dod"):
        with pytest.raises(InputError, match=naming("not fetched from here", dataset(name).how_to_get)):
            list(fetch(dataset(name), tmp_path))


def test_one_failure_is_not_the_end_and_what_is_there_is_kept(tmp_path, physionet):
    source, site = physionet
    (first, failed, last) = fetch(source, tmp_path)
    assert (first, last) == (("labels/1.txt", ""), ("motion/1.txt", "")) and "404" in failed[1]
    site.files["/files/x/labels/2%20b.txt"] = b"2"
    site.log.clear()
    assert [problem for _, problem in fetch(source, tmp_path, ["labels/*"])] == ["", ""]
    assert site.log == ["/files/x/labels/2%20b.txt"]
    assert [path.read_bytes() for path in sorted((tmp_path / "labels").iterdir())] == [b"1", b"2"]
    with pytest.raises(InputError, match=naming("EEG", "'labels/1.txt'")):
        list(fetch(source, tmp_path, ["EEG*"]))


@pytest.mark.parametrize("sums", [f"{'0' * 64} ../x", f"{'0' * 64} /x", "<html>"])
def test_a_list_that_leads_out_of_the_folder_is_refused(tmp_path, physionet, sums):
    source, site = physionet
    site.files[f"/files/x/{SUMS}"] = sums.encode()
    with pytest.raises(FileFormatError, match="line 1"):
        list(fetch(source, tmp_path))


def test_a_broken_or_damaged_file_is_fetched_again_and_never_kept(tmp_path, physionet):
    source, site = physionet
    site.files |= {"/files/x/labels/1.txt": b"x" * 5000, "/files/x/motion/1.txt": b"damaged"}
    sums = {"labels/1.txt": b"x" * 5000, "motion/1.txt": b"3"}
    site.files[f"/files/x/{SUMS}"] = "".join(f"{sha256(c)} {name}\n" for name, c in sums.items()).encode()
    site.drop_after[:] = [10**6, 100, 4999]  # the list of digests is whole
    assert [not problem for _, problem in fetch(source, tmp_path)] == [True, False]
    assert (tmp_path / "labels/1.txt").read_bytes() == b"x" * 5000
    assert not list((tmp_path / "motion").iterdir())


def test_a_file_that_differs_is_replaced_only_when_asked(tmp_path, physionet):
    source, _ = physionet
    mine = tmp_path / "motion" / "1.txt"
    mine.parent.mkdir()
    mine.write_bytes(b"mine")
    ((_, problem),) = fetch(source, tmp_path, ["motion/*"])
    assert mine.read_bytes() == b"mine" and "exists already and differs" in problem
    assert list(fetch(source, tmp_path, ["motion/*"], overwrite=True)) == [("motion/1.txt", "")]
    assert mine.read_bytes() == b"3"


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
