"""An expert who scored coarser stages than the profile's is compared in those."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, write_night
from nights import decode
from stageguard.measures.bouts import hypnogram_before
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.stages import WNR3, WS2
from stageguard.report import night_report
from stageguard.report.tables import align_expert, measure
from stageguard.synthetic.night import simulate_night

NO_LIGHTS = StatisticsOptions()


@pytest.fixture(scope="module")
def night():
    simulated = simulate_night("human-psg-5", hours=4, seed=3)
    return decode(simulated.density, "human-psg-5"), replace(simulated.expert, scorer="anna")


@pytest.mark.parametrize("scheme", [WNR3, WS2], ids=lambda scheme: scheme.name)
def test_agreement_is_that_of_both_merged(night, scheme):
    decoding, expert = night
    coarse = expert.merge(scheme)
    measured = measure(decoding, align_expert(coarse, decoding), NO_LIGHTS)
    for found, own in zip(measured.agreement, (hypnogram_before(decoding), decoding.hypnogram), strict=True):
        merged = own.merge(scheme)
        assert found.scheme == scheme
        assert found.accuracy == np.mean(merged.labels == coarse.labels)
    assert measured.agreement[0].accuracy != measured.agreement[1].accuracy


def test_the_page_says_in_which_stages_and_leaves_out_what_cannot_be_compared(night):
    decoding, expert = night
    page = unescape(night_report(decoding, expert=expert.merge(WNR3)))
    assert "Compared in W, N, R." in page
    assert "Expert: scored in W, N, R, too coarse for the profile's bands." in page
    share = 100 * np.mean(decoding.hypnogram.merge(WNR3).labels == expert.merge(WNR3).labels)
    assert f"{share:.1f} % as the expert" in page
    assert f"{sg.sleep_statistics(expert).tst_minutes:.1f}" in page
    same = night_report(decoding, expert=expert)
    assert "Compared in" not in same
    assert "too coarse" not in same


def test_the_expert_is_drawn_in_its_own_lanes(night):
    decoding, expert = night
    page = night_report(decoding, expert=expert.merge(WNR3))
    picture = page[page.index("<svg") : page.index("</svg>")]
    lanes = re.findall(r'text-anchor="end"[^>]*>(W|R|N[123]?)<', picture)
    assert lanes == ["W", "R", "N", *2 * ["W", "R", "N1", "N2", "N3"]]


def test_the_command_takes_a_coarser_expert(capsys, tmp_path, night):
    run = Runner(capsys)
    path = write_night(tmp_path / "night.csv", hours=4, seed=3)
    expert = tmp_path / "expert.txt"
    expert.write_text("\n".join(night[1].merge(WNR3).stages.tolist()) + "\n")
    ran = run("report", path, "-p", "human-psg-5", "--expert", expert, "-o", tmp_path / "page.html")
    assert ran.code == 0, ran.err
    assert "Compared in W, N, R." in (tmp_path / "page.html").read_text()
