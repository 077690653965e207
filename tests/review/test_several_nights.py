"""Several nights in one launch: their recordings and scorings in folders or a list, and their progress."""

from __future__ import annotations

from pathlib import Path

import pytest

import stageguard as sg
from browser import violations
from messages import mentions
from recording_files import channel, write_edf
from review_nights import FREE, asked, do, running, served, write_probabilities
from stageguard.review.review import ReviewSession
from stageguard.review.server import ReviewServer

N_EPOCHS = 40


@pytest.fixture
def opened(monkeypatch) -> list[ReviewSession]:
    """The sessions that commands open; their servers end at once."""
    sessions: list[ReviewSession] = []

    def end_at_once(server: ReviewServer) -> None:
        sessions.append(server.session)
        server._socket.close()

    monkeypatch.setattr(ReviewServer, "run", end_at_once)
    return sessions


@pytest.fixture
def nights(tmp_path) -> Path:
    """Three nights, two recordings and two scorings, in folders."""
    for name in ("nights", "edfs", "experts"):
        (tmp_path / name).mkdir()
    for number in range(3):
        write_probabilities(tmp_path / f"nights/n{number}.csv", FREE, n_epochs=N_EPOCHS, seed=number)
    for number in range(2):
        write_edf(tmp_path / f"edfs/n{number}.edf", [channel("EEG C4-M1", N_EPOCHS * 30, 16)])
        (tmp_path / f"experts/n{number + 1}.txt").write_text("N2\n" * N_EPOCHS)
    return tmp_path


def test_recordings_and_scorings_of_folders_are_matched_by_name(run, nights, opened):
    ran = run(
        *("review", nights / "nights", "--profile", FREE, "--no-open"),
        *("--edf", nights / "edfs", "--scoring", nights / "experts"),
    )
    assert ran.code == 0, ran.err
    assert mentions(ran.out.splitlines(), "without --edf", "n2")
    assert mentions(ran.out.splitlines(), "without --scoring", "n0")
    rows = opened[0].overview()["nights"]
    assert [(row["name"], row["has_signals"], row["has_scoring"], row["error"]) for row in rows] == [
        ("n0", True, False, None),
        ("n1", True, True, None),
        ("n2", False, True, None),
    ]


def test_a_list_names_nights_with_their_files_lights_and_ids(run, nights, opened):
    table = nights / "samples.tsv"
    rows = [
        "id\tprobabilities\tedf\tscoring\tlights_off",
        "anna-1\tnights/n1.csv\tedfs/n1.edf\texperts/n1.txt\t120",
        "anna-2\tnights/n2.csv\tn/a\tmissing.txt\tn/a",
    ]
    table.write_text("\n".join(rows) + "\n")
    for words in (["--list", table], [table]):
        ran = run("review", *words, "--profile", FREE, "--no-open")
        assert ran.code == 0, ran.err
        assert mentions(ran.err, "missing.txt", "not there")
        first, second = opened[-1].requests
        assert (first.name, first.options.lights_off) == ("anna-1", 120.0)
        assert opened[-1].journal_path(0).name.startswith("anna-1.")
        assert [error is None for error in opened[-1].errors] == [True, False]
        assert second.name == "anna-2"


def test_a_list_describes_files_that_are_named(run, nights, opened):
    table = nights / "samples.tsv"
    table.write_text("id\tscoring\nn1\texperts/n1.txt\n")
    ran = run("review", nights / "nights/n1.csv", "--list", table, "--profile", FREE, "--no-open")
    assert ran.code == 0, ran.err
    assert opened[0].requests[0].scoring == nights / "experts/n1.txt"


def test_outputs_of_decode_come_with_their_recordings(run, nights, opened):
    decoded = nights / "decoded"
    assert run("decode", nights / "nights", "--profile", FREE, "--output", decoded).code == 0
    ran = run("review", decoded, "--edf", nights / "edfs", "--no-open")
    assert ran.code == 0, ran.err
    assert [request.edf is not None for request in opened[0].requests] == [True, True, False]


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["nights", "--edf", "edfs/n0.edf"], 2, "one file for 3 nights"),
        (["nights", "--edf", "nights"], 1, "holds no recording"),
        (["nights/n2.csv", "--edf", "edfs"], 1, "named like a night"),
        (["nights/n0.csv", "--scoring", "experts"], 1, "named like a night"),
        ([], 2, "Missing argument NIGHT"),
    ],
)
def test_files_that_belong_to_no_night_are_one_line(run, nights, opened, words, code, expected):
    paths = [word if word.startswith("--") else nights / word for word in words]
    ran = run("review", *paths, "--profile", FREE, "--no-open")
    assert (ran.code, opened) == (code, [])
    assert expected in ran.err
    assert ran.err.count("\n") == 1


def test_the_list_of_nights_tells_progress_without_opening_them(nights):
    requests = [asked(nights / f"nights/n{number}.csv", FREE) for number in range(3)]
    session = ReviewSession(requests, "anna", is_blind=True)
    for number, n_scored in ((0, N_EPOCHS), (1, 10)):
        do(session.review(number), do="set", first=0, last=n_scored - 1, stage=2)
    do(session.review(1), do="set", first=10, last=12, stage=1)
    do(session.review(1), do="undo")
    live = [progress(row) for row in session.overview()["nights"]]
    session.close()
    session = ReviewSession(requests, "anna", is_blind=True)
    with served(session) as (_, client):
        told = [progress(row) for row in client.get("/api/nights").json()["nights"]]
    assert told == live == [(40, 1, 0, True), (10, 1, 30, True), (0, 0, 40, False)]


def test_a_night_is_found_by_its_number_or_name(scorer, nights):
    requests = [asked(nights / f"nights/n{number}.csv", FREE) for number in range(3)]
    session = ReviewSession(requests, "anna", is_blind=True)
    do(session.review(0), do="set", first=0, last=9, stage=2)
    with running(session) as server:
        page = scorer.open(server.url).page
        page.keyboard.press("Shift+N")
        page.wait_for_selector("#night-search:focus")
        rows = [row.split("\t") for row in page.locator(".nights tbody").inner_text().splitlines()]
        assert [row[1:] for row in rows] == [
            ["10 of 40", "1", "30"],
            ["0 of 40", "0", "40"],
            ["0 of 40", "0", "40"],
        ]
        assert violations(page) == []
        page.keyboard.type("3")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.title.startsWith('n2 ')")
        page.keyboard.press("PageUp")
        page.wait_for_function("() => document.title.startsWith('n1 ')")
        page.click("#nights")
        page.fill("#night-search", "N0")
        page.wait_for_selector("#dialog [role=status]:has-text('1 night of 3')")
        page.get_by_role("button", name="1 n0").click()
        page.wait_for_function("() => document.title.startsWith('n0 ')")
        assert not page.locator("#dialog").is_visible()


def progress(row: dict) -> tuple[int, int, int, bool]:
    return row["scored"], row["looks"], row["left"], row["begun"]


def test_a_log_that_cannot_be_read_hides_no_other_night(nights):
    requests = [asked(nights / f"nights/n{number}.csv", FREE) for number in range(2)]
    (nights / "nights/n0.anna.review.jsonl").write_text('{"layout": 2, "x": 1}\n')
    rows = ReviewSession(requests, "anna").overview()["nights"]
    assert [row["scored"] for row in rows] == [None, 0]
    assert sg.read_density(requests[1].path).n_epochs == rows[1]["epochs"]
