"""`stats --table`: the means, biases and limits of agreement of a cohort, for a paper."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line
from messages import mentions

PROFILE = "human-psg-3"


@pytest.fixture
def folder(tmp_path):
    for name in ("nights", "experts"):
        (tmp_path / name).mkdir()
    for seed in range(5):
        night = sg.simulate_night(PROFILE, hours=2, seed=seed)
        night.density.save(tmp_path / "nights" / f"n{seed}.csv")
        night.expert.save(tmp_path / "experts" / f"n{seed}.txt")
    return tmp_path


def arguments(folder, name, *more):
    where = ("--expert", folder / "experts", "--table", folder / name)
    return ("stats", folder / "nights", "-p", PROFILE, *where, *more)


def tst(folder):
    """Minutes of sleep after decoding and by the expert."""
    pairs = []
    for seed in range(5):
        night = sg.simulate_night(PROFILE, hours=2, seed=seed)
        scorings = sg.decode(night.density, PROFILE), night.expert
        pairs.append([sg.sleep_statistics(each).tst_minutes for each in scorings])
    return np.array(pairs).T


def test_the_table_has_means_bias_and_limits(run, folder):
    assert run(*arguments(folder, "table.tsv")).code == 0
    with (folder / "table.tsv").open() as file:
        rows = {row[""]: row for row in csv.DictReader(file, delimiter="\t")}
    row = rows["TST (min)"]
    after, expert = tst(folder)
    difference = after - expert
    bias, sd = difference.mean(), difference.std(ddof=1)
    wanted = {
        "after": after.mean(),
        "after, sd": after.std(ddof=1),
        "expert": expert.mean(),
        "bias after": bias,
        "lower limit after": bias - 1.96 * sd,
        "upper limit after": bias + 1.96 * sd,
    }
    assert {key: float(row[key]) for key in wanted} == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    assert row["nights"] == "5"


@pytest.mark.parametrize(("name", "begins", "cell"), [
    ("table.md", "## Sleep statistics of 5 nights", "| TST (min) | 5 | {mean:.1f} ± {sd:.1f} |"),
    ("table.tex", "% Sleep statistics of 5 nights", r"TST (min) & 5 & {mean:.1f} $\pm$ {sd:.1f} &"),
])  # fmt: skip
def test_markdown_and_latex_show_the_decimals_of_each_quantity(run, folder, name, begins, cell):
    ran = run(*arguments(folder, name, "--json"))
    before = [night["before"]["tst_minutes"] for night in ran.nights]
    text = (folder / name).read_text()
    assert text.startswith(begins)
    assert cell.format(mean=np.mean(before), sd=np.std(before, ddof=1)) in text
    assert mentions(text, "1.96", "deviations")
    assert str(folder / name) in ran.cohort["outputs"]


def test_a_table_is_not_replaced_and_has_a_known_suffix(run, folder):
    (folder / "table.md").write_text("mine")
    assert "table.md" in error_line(run(*arguments(folder, "table.md")))
    assert (folder / "table.md").read_text() == "mine"
    assert run(*arguments(folder, "table.docx")).code == 2
    assert run(*arguments(folder, "t.tsv", "-o", folder / "t.tsv")).code == 2


def test_nights_of_20_and_30_s_are_compared_per_hour(run, folder):
    """A pair of 20-s epochs changes stage less often than one of 30 s, whatever the sleeper."""
    sg.simulate_night(PROFILE, hours=2, seed=9).density.reepoch(20).save(folder / "nights" / "n9.csv")
    ran = run("stats", folder / "nights", "-p", PROFILE)
    assert "Fragmentation" not in ran.out
    assert "Uncommon transitions (%)" not in ran.out
    assert mentions(ran.out, "Stage", "changes per hour")
    assert mentions(" ".join(ran.out.split()), "20 s", "30 s", "shown")
    (folder / "nights" / "n9.csv").unlink()
    ran = run("stats", folder / "nights", "-p", PROFILE)
    assert "Fragmentation" in ran.out
    assert "per hour, since" not in ran.out


def test_nights_are_set_beside_the_expert_on_the_epochs_that_the_expert_scored(run, folder):
    n_scored = 100  # of 240
    compared = []
    for seed in range(5):
        night = sg.simulate_night(PROFILE, hours=2, seed=seed)
        stages = [*night.expert.stages[:n_scored], *["?"] * (night.expert.n_epochs - n_scored)]
        (folder / "experts" / f"n{seed}.txt").write_text("\n".join(stages) + "\n")
        decoded = sg.decode(night.density, PROFILE).hypnogram.labels[:n_scored]
        compared.append(
            np.count_nonzero(decoded != 0) / 2 - np.count_nonzero(night.expert.labels[:n_scored]) / 2
        )
    ran = run(*arguments(folder, "table.tsv", "--json"))
    with (folder / "table.tsv").open() as file:
        row = next(row for row in csv.DictReader(file, delimiter="\t") if row[""] == "TST (min)")
    assert float(row["bias after"]) == pytest.approx(np.mean(compared), abs=1e-4)
    assert float(row["after"]) - float(row["expert"]) == pytest.approx(np.mean(compared), abs=1e-4)
    nights = ran.nights
    assert [night["on_expert_epochs"]["after"]["tst_minutes"] for night in nights] != [
        night["after"]["tst_minutes"] for night in nights
    ]
    assert any(mentions(note, "epochs", "the expert scored") for note in ran.cohort["notes"])
    text = run(*arguments(folder, "table.md")) and (folder / "table.md").read_text()
    assert "a point for each night" not in text
    assert "t interval" not in text
    page = folder / "page.html"
    assert (
        run("report", folder / "nights", "-p", PROFILE, "--expert", folder / "experts", "-o", page).code == 0
    )
    assert f"{np.mean(compared):.1f}" in page.read_text()
