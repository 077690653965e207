"""`stageguard check`: the joint score, bands from both sides, exit codes, what is checked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line, write_night
from messages import mentions
from stageguard.night.period import period_of
from stageguard.night.stages import AASM5

PROFILE = "human-psg-5"
BANDS, JOINT = sg.Profile.load(PROFILE).bands, sg.Profile.load(PROFILE).joint


@pytest.fixture
def run(capsys):
    return Runner(capsys)


def write_stages(path, bouts):
    """One stage per line; `bouts` is pairs of a stage and its number of epochs."""
    path.write_text("".join(f"{stage}\n" * n for stage, n in bouts))
    return path


def calm(path):
    return write_stages(path, [("W", 20), ("N2", 300), ("N3", 300), ("R", 300), ("W", 20)])


def flickering(path):
    return write_stages(path, [("N2", 1), ("R", 1)] * 300)


def expert_like(path):
    """A night made so that every indicator lies inside its band."""
    cycle = [("W", 3), ("N1", 2), ("N2", 13), ("N3", 12), ("N2", 12), ("N1", 1), ("R", 20), ("W", 1),
             ("N1", 4), ("N2", 11), ("N3", 1), ("N2", 1), ("N3", 12), ("N2", 10), ("R", 24)]  # fmt: skip
    return write_stages(path, cycle * 6 + [("W", 4)])


def test_a_night_like_experts_score_passes(run, tmp_path):
    night = expert_like(tmp_path / "night.txt")
    stages = night.read_text().split()[3:-4]  # without wake at either end
    n_changes = sum(a != b for a, b in itertools.pairwise(stages))
    fi = n_changes / (len(stages) - 1)
    assert BANDS["fragmentation_index"].low < fi < BANDS["fragmentation_index"].high
    ran = run("check", night, "-p", PROFILE, "--strict", "--json")
    (report,) = ran.json
    assert report["outside"] == []
    assert (ran.code, report["looks_like_experts"], report["checked"]) == (0, True, "stages")
    assert report["joint"]["value"] < report["joint"]["high"] == JOINT.threshold
    assert report["indicators"]["fragmentation_index"]["value"] == pytest.approx(fi)
    assert report["n_judged"] == len(BANDS)
    shown = run("check", night, "-p", PROFILE)
    assert mentions(shown.out, len(BANDS), "inside")
    score = report["joint"]["value"]
    limit = f"90 % of expert nights are below {JOINT.threshold:.2f}"
    assert shown.out.splitlines()[1] == f"Looks like expert scoring (distance {score:.2f}; {limit})."
    assert JOINT.source.split(",")[0] in " ".join(shown.out.split())


def test_a_night_outside_a_band_passes_by_its_joint_score(run, tmp_path):
    night = expert_like(tmp_path / "night.txt")
    night.write_text(night.read_text() + "N1\n" * 5 + "W\n" * 250 + "N1\n" * 12)
    ran = run("check", night, "-p", PROFILE, "--strict", "--json")
    assert ran.json[0]["outside"] == ["mean_bout_minutes_W"]
    assert (ran.code, ran.json[0]["looks_like_experts"]) == (0, True)


@pytest.mark.parametrize(("make", "place"), [(calm, "below"), (flickering, "above")])
def test_both_sides_are_flagged_and_strict_makes_them_an_exit_code(run, tmp_path, make, place):
    night = make(tmp_path / "night.txt")
    ran = run("check", night, "-p", PROFILE)
    assert (ran.code, ran.err) == (0, "")
    assert f"fragmentation_index {place}" in ran.out
    strict = run("check", night, "-p", PROFILE, "--strict", "--json")
    assert strict.code == 1
    assert strict.json[0]["looks_like_experts"] is False
    assert "Does not look like expert scoring (distance " in ran.out
    indicator = strict.json[0]["indicators"]["fragmentation_index"]
    assert indicator["place"] == place
    assert (indicator["low"], indicator["high"]) == (
        BANDS["fragmentation_index"].low,
        BANDS["fragmentation_index"].high,
    )
    assert "fragmentation_index" in strict.json[0]["outside"]


def test_of_probabilities_the_most_probable_stage_is_checked(run, tmp_path):
    night = write_night(tmp_path / "night.csv")
    ran = run("check", night, "-p", PROFILE, "--json")
    (report,) = ran.json
    argmax = sg.read_density(night).argmax
    argmax = argmax[slice(*period_of(argmax, 0, 30.0))]
    assert report["checked"] == "argmax"
    assert report["indicators"]["fragmentation_index"]["value"] == pytest.approx(
        np.mean(np.diff(argmax) != 0)
    )
    assert mentions(run("check", night, "-p", PROFILE).out, "Checked", "most probable stage")


def test_an_output_of_decode_brings_its_profile(run, tmp_path):
    night = write_night(tmp_path / "night.csv")
    assert run("decode", night, "-p", PROFILE).code == 0
    (report,) = run("check", tmp_path / "night.hypnogram.tsv", "--json").json
    assert report["profile"] == {"name": PROFILE, "sha256": sg.Profile.load(PROFILE).sha256}
    with_other = run("check", tmp_path / "night.hypnogram.tsv", "-p", "human-psg-3", "--json").json[0]
    assert with_other["stages"] == ["W", "N", "R"]
    line = error_line(run("check", calm(tmp_path / "bare.txt")))
    assert mentions(line, "bare.txt", "--profile", "human-psg-5")


def test_bands_follow_the_epoch_length(run, tmp_path):
    night = calm(tmp_path / "night.txt")
    (report,) = run("check", night, "-p", PROFILE, "--epoch-seconds", "15", "--json").json
    fi = report["indicators"]["fragmentation_index"]
    assert fi["high"] == pytest.approx(BANDS["fragmentation_index"].high / 2)
    assert report["epoch_seconds"] == 15


def test_uncommon_transitions_are_named(run, tmp_path):
    night = write_stages(
        tmp_path / "night.txt", [("N2", 15), ("W", 9), ("R", 15), ("W", 9), ("N3", 15), ("W", 2), ("R", 15)]
    )
    ran = run("check", night, "-p", PROFILE)
    assert "Uncommon transitions: W->R 2, W->N3 1" in ran.out
    assert run("check", night, "-p", PROFILE, "--json").json[0]["rare_pairs"]["W->R"] == 2


def test_what_cannot_be_measured_says_why(run, tmp_path):
    ran = run("check", calm(tmp_path / "night.txt"), "-p", PROFILE)
    assert mentions(ran.out, "complete", "N1")
    assert mentions(ran.out, "long", "30 s", "assumed")


def test_a_profile_without_bands_judges_nothing(run, tmp_path):
    night = write_stages(tmp_path / "night.txt", [("W", 20), ("N", 200), ("R", 100)])
    profile = next(name for name in sg.profiles() if not sg.Profile.load(name).bands)
    ran = run("check", night, "-p", profile)
    assert ran.code == 0
    assert mentions(ran.out, "compare", "could be measured")
    assert mentions(ran.out, "Cannot be judged", "joint")
    assert run("check", night, "-p", profile, "--strict").code == 1


def test_many_files_are_rows_and_failures_a_table(run, tmp_path):
    files = [
        calm(tmp_path / "calm.txt"),
        flickering(tmp_path / "wild.txt"),
        expert_like(tmp_path / "good.txt"),
    ]
    (tmp_path / "zero.txt").write_bytes(b"")
    ran = run("check", *files, tmp_path / "zero.txt", tmp_path / "gone.txt", "-p", PROFILE)
    assert ran.code == 3
    assert "1 of 3 nights looks like expert scoring." in ran.out
    assert "2 of 5 files failed" in ran.err
    assert "is empty" in ran.err
    assert mentions(ran.err, "file or directory")
    assert run("check", *files, "-p", PROFILE).code == 0
    assert run("check", *files, "-p", PROFILE, "--strict").code == 1
    assert run("check", files[2], files[2], "-p", PROFILE, "--strict").code == 0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("W,N1,N2,N3,R\n1,0,0,0,x\n", ("night.csv", 2, "'R'", "'x'")),
        ("W\nX\n", ("night.csv", 2, "'X'", "W, N1, N2, N3, R")),
        ("W,N1,N2,N3,R\n-0.2,1.2,0,0,0\n", ("night.csv", 2, "-0.2", "W")),
        ("W\nS\nS\n", ("night.csv", "'ws2'", "'aasm5'")),
    ],
)
def test_bad_files_are_one_line(run, tmp_path, content, expected):
    (tmp_path / "night.csv").write_text(content)
    assert mentions(error_line(run("check", tmp_path / "night.csv", "-p", PROFILE)), *expected)


def test_arrays_logits_and_schemes_are_read_as_told(run, tmp_path):
    night = write_night(tmp_path / "night.csv")
    density = sg.read_density(night)
    np.save(tmp_path / "raw.npy", np.log(density.probabilities[:, ::-1] + 1e-9) + 4)
    arguments = ("--stages", "R,N3,N2,N1,W", "--logits", "-p", PROFILE, "--json")
    found = run("check", tmp_path / "raw.npy", *arguments).json[0]
    assert found["indicators"] == run("check", night, "-p", PROFILE, "--json").json[0]["indicators"]
    line = error_line(run("check", tmp_path / "raw.npy", "-p", PROFILE))
    assert "stages" in line
    (tmp_path / "few.txt").write_text("W\nR\n" * 40)
    assert run("check", tmp_path / "few.txt", "-p", PROFILE, "--json").json[0]["stages"] == list(AASM5.names)
    merged = run("check", tmp_path / "few.txt", "-p", "human-psg-3", "--scheme", "aasm5", "--json").json[0]
    assert merged["stages"] == ["W", "N", "R"]


def test_wrong_usage_exits_2(run, tmp_path):
    night = calm(tmp_path / "night.txt")
    for arguments in ([], [night, "--scheme", "aasm7"], [night, "--logits", "--log"]):
        assert run("check", *arguments).code == 2
    assert "unknown profile 'human-psg5'" in error_line(run("check", night, "-p", "human-psg5"))
