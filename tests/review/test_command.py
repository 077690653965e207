"""`stageguard review` as it is typed, and what its reviews are worth to `fit`."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line
from messages import mentions
from review_nights import FREE, STRICT, TOKEN, asked, do, write_probabilities
from stageguard.review.review import ReviewSession

COMMAND = [sys.executable, "-c", "import sys; from stageguard.cli import main; sys.exit(main())", "review"]


class Started:
    """The command in a process of its own, its first lines read."""

    def __init__(self, *arguments: object) -> None:
        words = [*COMMAND, *map(str, arguments), "--no-open"]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith("Ctrl-C"):
                break
        self.url = re.search(r"http://127\.0\.0\.1:\d+/#token=\S+", self.lines[0])[0]  # type: ignore[index]
        address, _, token = self.url.partition("/#token=")
        self.client = httpx.Client(base_url=address, timeout=30, headers={TOKEN: token})

    def act(self, **action: object) -> dict:
        revision = self.client.get("/api/nights/0/revision").json()["revision"]
        answer = self.client.post("/api/nights/0/actions", json={"revision": revision, "action": action})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def end(self, how: int) -> tuple[int, str, str]:
        self.client.close()
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


def test_a_killed_server_goes_on_where_it_was_and_ctrl_c_ends_it_cleanly(tmp_path):
    write_probabilities(tmp_path / "night.csv")
    words = (tmp_path / "night.csv", "--profile", STRICT, "--scorer", "anna")
    first = Started(*words)
    first.act(do="set", first=10, last=14, stage=2)
    before = first.act(do="set", first=1, last=2, stage=0)
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    journal = tmp_path / "night.anna.review.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"when": "20')  # a line that was being written
    second = Started(*words)
    assert "Resumed: night.anna.review.jsonl, 2 actions" in second.lines
    assert mentions(second.lines, "12 bytes", "completed")
    state = second.client.get("/api/nights/0").json()
    assert {key: state[key] for key in ("revision", "pinned", "guard", "agreed")} == {
        key: before[key] for key in ("revision", "pinned", "guard", "agreed")
    }
    third = subprocess.run(
        [*COMMAND, *map(str, words), "--no-open"], capture_output=True, text=True, check=False
    )
    assert third.returncode == 1
    assert third.stderr.count("\n") == 1
    assert mentions(third.stderr, "server has this", "open")
    code, out, err = second.end(signal.SIGINT)
    assert (code, out, err) == (0, "Closed.\n", "")


def test_what_cannot_be_reviewed_is_one_line(run, tmp_path):
    path = write_probabilities(tmp_path / "night.csv")
    assert mentions(error_line(run("review", path)), "come without", "profile")
    assert "No such file" in error_line(run("review", tmp_path / "none.csv", "--profile", STRICT))
    assert mentions(error_line(run("review", tmp_path)), "holds no outputs", "decode")
    (tmp_path / "torn.edf").write_bytes(b"0       ")
    assert "torn.edf" in error_line(run("review", path, "--profile", STRICT, "--edf", tmp_path / "torn.edf"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["night.csv", "torn.edf"]
    assert run("review", path, "-p", STRICT, "-o", tmp_path / "a.csv").code == 2


def test_a_folder_of_outputs_and_one_of_probabilities(run, tmp_path):
    from stageguard.cli.nights import find_reviewed
    from stageguard.runner.decode_one import DecodeOptions

    for name in ("one", "two"):
        write_probabilities(tmp_path / f"{name}.csv", seed=len(name))
    assert run("decode", tmp_path, "--profile", STRICT, "--output", tmp_path / "out").code == 0
    options = DecodeOptions()
    found = find_reviewed([tmp_path], None, sg.Profile.load(STRICT), options)
    names = [night.path.name for night in found.nights]
    assert names == ["one.csv", "two.csv"]
    names = [night.path.name for night in find_reviewed([tmp_path / "out"], None, None, options).nights]
    assert names == ["one.hypnogram.tsv", "two.hypnogram.tsv"]
    session = ReviewSession([asked(tmp_path / "one.csv")], "anna", output=tmp_path / "kept")
    do(session.review(0), do="agree", first=0, last=0)
    session.close()
    assert (tmp_path / "kept" / "one.anna.review.jsonl").exists()


def test_nights_that_would_share_a_journal_are_refused(run, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_probabilities(tmp_path / name / "night.csv")
    nights = [tmp_path / name / "night.csv" for name in ("a", "b")]
    line = error_line(
        run("review", *nights, "--profile", STRICT, "-o", tmp_path / "kept", "--scorer", "anna")
    )
    assert mentions(line, nights[0], nights[1], "night.anna.review.jsonl")
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("scorer", ["an\x1b[31mna", "anna\nben", "\udcff", " ", "a" * 101])
def test_a_scorer_is_named_in_one_readable_line(run, tmp_path, scorer):
    path = write_probabilities(tmp_path / "night.csv")
    line = error_line(run("review", path, "--profile", STRICT, "--scorer", scorer))
    assert line.startswith("scorer is ")
    assert [each.name for each in tmp_path.iterdir()] == ["night.csv"]


def finish(folder: Path, name: str, scorer: str, *, blind: bool, seed: int) -> np.ndarray:
    """Review a night to its end; returns the stages it has then."""
    path = folder / f"{name}.csv"
    if not path.exists():
        write_probabilities(path, FREE, n_epochs=120, seed=seed)
    session = ReviewSession([asked(path, FREE)], scorer, is_blind=blind)
    review = session.review(0)
    if blind:
        bouts = np.repeat(np.random.default_rng(seed).integers(0, 5, 20), 6)
        for first in range(0, 120, 6):
            do(review, do="set", first=first, last=first + 5, stage=int(bouts[first]))
    while not blind and (left := review.queue().stretches):
        do(review, do="agree", first=left[0].first, last=left[0].last)
    labels = review.stages(review.now).labels
    session.close()
    return labels


def test_a_reviewed_cohort_feeds_fit_with_its_provenance(run, tmp_path):
    nights = tmp_path / "nights"
    nights.mkdir()
    for number in range(3):
        finish(nights, f"n{number}", "anna", blind=number == 0, seed=number)
    finish(nights, "n0", "ben", blind=True, seed=9)
    output = tmp_path / "lab.toml"
    ran = run("fit", "--reviewed", nights, "--base", FREE, "--output", output)
    assert ran.code == 0, ran.err
    reviews = tomllib.loads(output.read_text())["provenance"]["reviews"]
    assert [(one["night"], one["scorer"], one["how"]) for one in reviews] == [
        ("n0", "anna", "every epoch scored blind"),
        ("n0", "ben", "every epoch scored blind"),
        ("n1", "anna", "queue finished"),
        ("n2", "anna", "queue finished"),
    ]
    assert reviews[0]["epochs_set"] == 120
    assert reviews[2]["epochs_set"] == 0
    assert reviews[2]["epochs_agreed_with"] > 0


def test_the_stages_that_fit_gets_are_those_of_the_review(tmp_path):
    from stageguard.review.scorings import find_reviews, read_reviewed

    expected = finish(tmp_path, "night", "anna", blind=False, seed=2)
    found = read_reviewed(find_reviews(tmp_path)["night"])
    assert (found.experts[0].labels == expected).all()
    assert found.experts[0].scorer == "anna"
    assert found.density == sg.read_density(tmp_path / "night.csv")


def test_a_night_that_was_reviewed_in_part_is_refused_by_fit(run, tmp_path):
    path = write_probabilities(tmp_path / "night.csv", FREE, n_epochs=120)
    session = ReviewSession([asked(path, FREE)], "anna")
    do(session.review(0), do="set", first=5, last=6, stage=2)
    session.close()
    ran = run("fit", "--reviewed", tmp_path, "--base", FREE, "--output", tmp_path / "lab.toml")
    assert mentions(error_line(ran), "worth", "not looked at")
    assert not (tmp_path / "lab.toml").exists()
    write_probabilities(path, FREE, n_epochs=120, seed=7)  # another night by the same name
    ran = run("fit", "--reviewed", tmp_path, "--base", FREE, "--output", tmp_path / "lab.toml")
    assert mentions(error_line(ran), "that was reviewed")
    ran = run("fit", tmp_path, "--reviewed", tmp_path, "--base", FREE, "--output", tmp_path / "lab.toml")
    assert ran.code == 2
    assert "holds no reviews" in error_line(
        run("fit", "--reviewed", tmp_path.parent, "--base", FREE, "--output", tmp_path / "lab.toml")
    )
