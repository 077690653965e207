"""The paper for a journal: its form, and every number of its text held to the results it comes from."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "paper"
pytestmark = pytest.mark.skipif(not PAPER.is_dir(), reason="the paper is not in the source distribution")
# The journal's sections, in its order.
SECTIONS = (
    *("Summary", "Statement of need", "State of the field", "Software design", "Research impact statement"),
    *("Acknowledgements", "References"),
)
# Numbers that were not measured: seconds of an epoch.
PLAIN = {"30"}


def text() -> str:
    """The paper after its front matter, on one line."""
    return " ".join((PAPER / "paper.md").read_text("utf-8").split("---", 2)[2].split())


def figure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paper_figure", PAPER / "figure.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(page: str, heading: str) -> list[dict[str, str]]:
    """The rows of the first table of a page whose header begins so, by the names of their columns."""
    lines = (ROOT / page).read_text("utf-8").partition(f"| {heading}")
    body = (lines[1] + lines[2]).split("\n\n")[0].split("\n<!--")[0].splitlines()
    header, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in body]
    return [dict(zip(header, row, strict=True)) for row in rows]


def measured(name: str, what: str) -> float:
    rows = json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text("utf-8"))["rows"]
    (row,) = [row for row in rows if row["what"] == what]
    return row["value"]


def short(value: float | str) -> str:
    """A number as the text has it: without a zero before the point."""
    return str(value).removeprefix("0")


def errors(method: str) -> list[str]:
    """The errors of one method over argmax's: good, flickering, other stagers."""
    rows = {row["stagers (tasks): method"]: row for row in table("docs/real-nights.md", "stagers (tasks)")}
    groups = ("good (11)", "flickering (8)", "neither (11)")
    return [short(rows[f"{group}: `{method}`"]["errors (worst)"].split()[0]) for group in groups]


def expert_units(statistic: str, network: str) -> tuple[str, str]:
    lines = (
        (ROOT / "docs" / "real-nights.md")
        .read_text("utf-8")
        .partition("<!-- expert units -->")[2]
        .splitlines()
    )
    names, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    (row,) = [row for row in rows if row[0] == statistic]
    before, _, after = row[names.index(network)].partition(" → ")
    return before, after.split()[0].strip("*")


def shares_of_experts() -> list[str]:
    """REM bouts that end in NREM, and NREM bouts of one epoch: lowest and highest of the adult cohorts."""
    page = (ROOT / "studies" / "expert-scorings" / "results.md").read_text("utf-8")
    cohort = r"^\| (?:dod-h|dod-o|sleep-edf|sleep-accel|slpdb) \| "
    into_nrem = re.findall(cohort + r"R \| [\d.]+ \[\d+\] \| ([\d.]+) \[\d+\] \| - \|", page, re.MULTILINE)
    single = re.findall(cohort + r"wnr3 \| N \| \d+ \| ([\d.]+) \|", page, re.MULTILINE)
    assert len(into_nrem) == len(single) == 5
    return [f"{float(pick(shares, key=float)):.0f}" for shares in (into_nrem, single) for pick in (min, max)]


def phrases() -> list[str]:
    """What the text must say, made from the results."""
    low, high, single_low, single_high = shares_of_experts()
    built_in, fitted, printed = errors("clock + target"), errors("fit"), errors("paper")
    latency = {row["stagers (tasks): method"]: row for row in table("docs/real-nights.md", "stagers (tasks)")}
    good, flickering = (
        short(latency[f"{group}: `clock + target`"]["REM latency's"])
        for group in ("good (11)", "flickering (8)")
    )
    holm = [row["by Holm"] for name, row in latency.items() if "clock + target" in name]
    assert all(cell.endswith("/ 0") for cell in holm)  # "on none"
    rem = expert_units("REM latency", "DeepSleepNet")
    peers = [measured("peers", f"T = 1,000, K = 5: hmmlearn, {n} states") for n in (50, 12)]
    night = "one night, T = 960, human-psg-5: sg.decode, "
    fixed, flickers = (
        measured("goals", night + "fixed weight"),
        measured("goals", night + "night that flickers"),
    )
    return [
        f"experts end {low} to {high} % of REM bouts in non-REM sleep",
        f"and score {single_low} to {single_high} % of non-REM bouts as a single epoch",
        f"on the 50 states of the published settings, hmmlearn takes {peers[0]:.0f} times as long",
        f"on the smallest equivalent chain (12 states) {peers[1]:.1f} times",
        f"a night of 960 epochs takes {fixed:.2f} times as long",
        f"and {flickers:.1f} times as long if the night flickers",
        f"On {11 + 8 + 11} tasks",
        f"falls to {built_in[0]} of that of the likeliest stages for good stagers, "
        f"{built_in[1]} for flickering ones and {built_in[2]} for the rest",
        f"the fitted profiles reach {fitted[0]}, {fitted[1]} and {fitted[2]}",
        f"give {printed[0]}, {printed[1]} and {printed[2]}",
        f"REM latency is {good} of that of the likeliest stages for good stagers "
        f"and {flickering} for flickering ones",
        "The line at 1 is no change",
        "five experts who scored the same 25 nights",
        f"REM latency of DeepSleepNet, which gives labels alone, falls from {rem[0]} to {rem[1]}",
    ]


def test_every_number_of_the_text_follows_from_results():
    said = text()
    missing = [phrase for phrase in phrases() if phrase not in said]
    assert missing == []
    number = re.compile(r"(?<![\w.])\d*\.?\d+(?!\w)")
    held = {found for phrase in phrases() for found in number.findall(phrase)} | PLAIN
    assert [found for found in number.findall(said) if found not in held] == []


def test_the_form_is_the_journals():
    page = (PAPER / "paper.md").read_text("utf-8")
    assert tuple(re.findall(r"^# (.+)$", page, re.MULTILINE)) == SECTIONS
    n_words = len(re.sub(r"!\[.*?\]\(.*?\)", "", text()).split())
    assert 750 <= n_words <= 1750
    cited = set(re.findall(r"@(\w+)", text()))
    entries = set(re.findall(r"^@\w+\{(\w+),", (PAPER / "paper.bib").read_text("utf-8"), re.MULTILINE))
    assert cited == entries


def test_the_authors_are_those_of_the_citation():
    names = re.findall(r"^  - name: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    front = (PAPER / "paper.md").read_text("utf-8").split("---", 2)[1]
    assert re.findall(r"^  - name: (.+)$", front.partition("affiliations:")[0], re.MULTILINE) == names


def test_the_figure_shows_the_results():
    drawing = figure()
    assert f"Source\0{drawing.digest()}".encode() in (PAPER / "figure.png").read_bytes()  # else draw it again
    for group, place in {"good": 0, "flickering": 1, "neither": 2}.items():
        for method, values in drawing.ratios()[group].items():
            mean = sum(values) / len(values)
            assert short(f"{mean:.2f}") == errors(method)[place]
