"""Terminal, files, pages and Methods give one answer."""

import json
import re

import numpy as np

from cli_runner import write_night

W, N, R = [0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]


def write_rows(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["W,N,R", *(",".join(map(repr, row)) for row in rows.tolist())]) + "\n")
    return path


def test_ties_that_neighbours_resolve_are_no_changes_and_are_told_everywhere(run, tmp_path):
    rows = np.repeat([W, N, R, N], 60, axis=0)
    rows[[80, 81]] = [0.45, 0.45, 0.1]
    nights = [write_rows(tmp_path / "in" / f"{name}.csv", rows) for name in "ab"]
    out = tmp_path / "out"
    assert run("decode", *nights, "-p", "human-psg-3", "-o", out).code == 0
    assert "4 ties between stages resolved by neighbouring epochs." in (out / "methods.md").read_text()
    record = json.loads((out / "a.hypnogram.json").read_text())["stageguard"]
    assert (record["n_changed"], record["n_ties"]) == (0, 2)
    told = run("decode", nights[0], "-p", "human-psg-3", "--overwrite").out
    assert "2 ties between stages resolved by neighbouring epochs." in told
    assert [night["epochs_changed"] for night in run("stats", out, "--json").nights] == [0, 0]
    assert run("report", out, "-o", tmp_path / "all.html").code == 0
    assert '"changed":[0.0,0.0]' in (tmp_path / "all.html").read_text().replace(" ", "")
    assert run("report", out / "a.hypnogram.tsv", "-o", tmp_path / "a.html").code == 0
    page = (tmp_path / "a.html").read_text()
    assert "2 ties between stages resolved by neighbouring epochs" in page


def test_a_night_to_look_at_is_named_wherever_its_cohort_is_shown(run, tmp_path):
    doubtful, sure = (
        write_night(tmp_path / f"n{seed}.csv", profile="human-psg-3", hours=7, seed=seed) for seed in (1, 2)
    )
    out, look = tmp_path / "out", "Look at[^.]*n1: "
    assert re.search(look, run("decode", doubtful, sure, "-p", "human-psg-3", "-o", out).out)
    why = json.loads((out / "n1.hypnogram.json").read_text())["stageguard"]["measured"]["look_at"]
    assert re.search(look, run("report", out, "-o", tmp_path / "all.html").out)
    assert why and why in (tmp_path / "all.html").read_text()
    for command in ([out], [doubtful, sure, "-p", "human-psg-3"]):
        assert re.search(look, run("stats", *command).out)
        assert [night["look_at"] for night in run("stats", *command, "--json").nights] == [why, ""]


def test_files_beside_an_output_are_its_night_however_they_are_named(run, tmp_path):
    nights = [write_night(tmp_path / f"n{seed}.csv", hours=1, seed=seed) for seed in (1, 2)]
    assert run("decode", *nights, "-p", "human-psg-5", "--explain").code == 0
    (tmp_path / "n1.staging.json").write_text("{}")
    for files in ([tmp_path / "*"], sorted(tmp_path.glob("n*.*"))):
        told = run("stats", *files, "--json")
        assert (told.code, [night["id"] for night in told.nights]) == (0, ["n1", "n2"])
        (left,) = (
            note for note in told.cohort["notes"] if note.startswith("left out, beside outputs of decode")
        )
        assert "n1.csv" in left
    assert [night["id"] for night in run("stats", nights[0], "--json").nights] == ["n1"]
