"""`stageguard report`: one page, from probabilities or from what decode wrote."""

from __future__ import annotations

import re

import pytest

import nights
import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions
from stageguard.cli.nights import ReadOptions, read_expert
from stageguard.report.night import night_report

PROFILE = "human-psg-5"
NOTES = ("the file does not say how long an epoch is: 30 s assumed",)  # of what write_night writes


@pytest.fixture
def night(tmp_path):
    return write_night(tmp_path / "night.csv")


def test_a_page_is_written_and_announced(run, night, tmp_path):
    ran = run("report", night, "-p", PROFILE, "-o", tmp_path / "page.html")
    assert (ran.code, ran.err) == (0, "")
    page = (tmp_path / "page.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "<svg" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)  # nothing is loaded from elsewhere
    assert page == night_report(nights.decode(sg.read_density(night), PROFILE), notes=NOTES)
    assert re.search(r"TST \(min\) +\d", ran.out)
    assert "page.html" in ran.out
    assert mentions(ran.out, "trained", "any clinical decision")


def test_what_decode_wrote_is_decoded_again(run, night, tmp_path):
    assert run("decode", night, "-p", PROFILE, "--pins", "6=R", "--trained", "natural").code == 0
    for name in ("night.hypnogram.tsv", "night.hypnogram.json"):
        ran = run("report", tmp_path / name, "--overwrite")
        assert ran.code == 0, ran.err
    page = (tmp_path / "night.report.html").read_text()
    density = sg.read_density(night)
    decoding = nights.decode(density, PROFILE, pins={5: "R"}, trained="natural")
    assert page == night_report(decoding, notes=NOTES)
    assert run("report", tmp_path / "night.hypnogram.tsv", "-p", PROFILE).code == 2
    write_night(night, seed=9)
    line = error_line(run("report", tmp_path / "night.hypnogram.tsv", "--overwrite"))
    assert mentions(line, "night.hypnogram.tsv", "night.csv", "verify", "night.hypnogram.tsv")
    night.unlink()
    line = error_line(run("report", tmp_path / "night.hypnogram.tsv", "--overwrite"))
    assert mentions(line, "night.hypnogram.tsv", "comes without")


def test_expert_title_lights_and_start_reach_the_page(run, night, tmp_path):
    expert = tmp_path / "expert.txt"
    expert.write_text("W\n" * 40 + "N2\n" * 120 + "R\n" * 80)
    arguments = ("--expert", expert, "--title", "Night <1> & more", "--start", "2024-05-01T22:30",
                 "--lights-off", "22:40", "--lights-on", "0:20", "--cohort", "narcolepsy")  # fmt: skip
    ran = run("report", night, "-p", PROFILE, *arguments)
    assert ran.code == 0, ran.err
    page = (tmp_path / "night.report.html").read_text()
    assert "Night &lt;1&gt; &amp; more" in page
    assert "<1>" not in page
    assert "2024-05-01 22:30" in page
    assert "23:00" in page
    assert "narcolepsy" in ran.out
    density = sg.read_density(night)
    density = sg.Hypnodensity(density.probabilities, density.scheme, 30.0, read_start(), density.source)
    lights = {"lights_off": "22:40", "lights_on": "0:20"}
    decoding = nights.decode(density, PROFILE, cohort="narcolepsy", **lights)
    scored = read_expert(expert, decoding.hypnogram, ReadOptions())
    expected = night_report(
        decoding,
        expert=scored,
        title="Night <1> & more",
        notes=NOTES,
        **lights,
    )
    assert page == expected
    report = run("report", night, "-p", PROFILE, *arguments, "--json", "--overwrite").json
    asleep = decoding.hypnogram.labels[20:220] != 0
    assert report["indicators"]["se_percent"]["after"] == pytest.approx(100 * asleep.mean())


def read_start():
    from datetime import datetime

    return datetime(2024, 5, 1, 22, 30)


def test_nothing_is_overwritten_unasked(run, night, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    line = error_line(run("report", night, "-p", PROFILE, "-o", page))
    assert mentions(line, "page.html", "--overwrite")
    assert page.read_text() == "mine"
    assert run("report", night, "-p", PROFILE, "-o", page, "--overwrite").code == 0
    assert "<svg" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-p", "human-psg5"], ("night.csv: unknown profile 'human-psg5', expected",)),
        (
            ["-p", PROFILE, "--cohort", "newborn"],
            ("night.csv", "'human-psg-5'", "'newborn'"),
        ),
        (["-p", PROFILE, "--expert", "gone.txt"], ("night.csv", "gone.txt", "directory")),
        (["-p", PROFILE, "--lights-off", "22:30"], ("night.csv", "'22:30'")),
        (["-p", PROFILE, "--lights-off", "soon"], ("--lights-off is 'soon', expected seconds",)),
        (["-p", PROFILE, "--pins", "999=R"], ("night.csv", 999)),
        (["-p", PROFILE, "-o", "nowhere/page.html"], ("night.csv", "cannot", "nowhere/page.html")),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(run, night, arguments, expected, monkeypatch):
    monkeypatch.chdir(night.parent)
    assert mentions(error_line(run("report", night, *arguments)), *expected)
    assert [path.name for path in night.parent.iterdir()] == ["night.csv"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ("missing option --profile",)),
        (["-p", PROFILE, "--logits", "--log"], ("--logits", "--log")),
        (["-p", PROFILE, "--start", "22:30"], ("date", "time", 2024, "05", "01T22", 30)),
    ],
)
def test_wrong_usage_exits_2(run, night, arguments, expected):
    ran = run("report", night, *arguments)
    assert ran.code == 2
    assert mentions(" ".join(ran.err.split()), *expected)


def test_other_annotations_of_the_expert_s_file_are_drawn(run, night, tmp_path):
    stages = [f"Sleep stage {'N2' if i > 40 else 'W'}\t{30 * i}\t+30" for i in range(240)]
    expert = tmp_path / "expert.annot"
    expert.write_text("\n".join([*stages, "Arousal\t2975.5\t+9"]) + "\n")
    ran = run("report", night, "-p", PROFILE, "--expert", expert)
    assert ran.code == 0, ran.err
    assert ">Arousal</text>" in (tmp_path / "night.report.html").read_text()
