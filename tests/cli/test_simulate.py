"""`stageguard simulate`: from the shell, with any number of jobs."""

from __future__ import annotations

import hashlib

import pytest

from cli_runner import error_line
from messages import mentions
from stageguard.signals.modalities import MODALITIES
from stageguard.synthetic.cohort import WRITTEN


def digests(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("modality", WRITTEN)
def test_a_cohort_is_written_and_said_to_be_synthetic(run, tmp_path, modality):
    ran = run(
        "simulate",
        "--modality",
        modality,
        "--subjects",
        2,
        "--hours",
        0.05,
        "--seed",
        3,
        "-o",
        tmp_path / "c",
    )
    assert ran.code == 0, ran.err
    assert ran.out.startswith("SYNTHETIC: 2 ")
    assert mentions(ran.out, "evidence", "about real sleepers")
    assert (tmp_path / "c" / "synthetic.json").is_file()
    read = run("doctor", "--data", MODALITIES[modality].dataset, tmp_path / "c")
    assert "unreadable" not in read.out
    assert "SYNTHETIC: 2 recordings" in read.out


def test_jobs_do_not_change_a_byte(run, tmp_path):
    common = ("simulate", "--modality", "actigraphy", "--subjects", 3, "--hours", 0.05, "--seed", 1)
    assert run(*common, "-o", tmp_path / "one").code == 0
    assert run(*common, "-o", tmp_path / "two", "--jobs", 2).code == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_nothing_is_overwritten_unasked(run, tmp_path):
    common = ("simulate", "-m", "actigraphy", "-n", 1, "--hours", 0.05, "-o", tmp_path / "c")
    assert run(*common).code == 0
    before = digests(tmp_path / "c")
    assert mentions(error_line(run(*common, "--seed", 7)), "exists", "already", "--overwrite")
    assert digests(tmp_path / "c") == before
    assert run(*common, "--seed", 7, "--overwrite").code == 0
    assert digests(tmp_path / "c") != before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    line = error_line(run("simulate", "-m", "actigraphy", "-o", tmp_path / "mine", "--overwrite"))
    assert mentions(line, "files", "no simulation wrote")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "mine"
