"""What commands make of the files they are given: none is mistaken, taken twice, written over or hung on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from made_recordings import write_psg
from messages import mentions
from stageguard.runner.inputs import Wanted, find_inputs
from stageguard.synthetic.night import simulate_night

PROFILE = "human-psg-5"
DENSITIES, SCORED = Wanted("density"), Wanted("hypnogram")


@pytest.fixture
def folder(tmp_path):
    """Two nights and two scorings of each."""
    for seed in (1, 2):
        write_night(tmp_path / f"n{seed}.csv", hours=1, seed=seed)
        expert = simulate_night(PROFILE, hours=1, seed=seed).expert
        for who, late in (("a", 0), ("b", 1)):
            (tmp_path / who).mkdir(exist_ok=True)
            text = "\n".join(np.roll(expert.stages, late).tolist()) + "\n"
            (tmp_path / who / f"n{seed}.txt").write_text(text)
    return tmp_path


def sample_list(folder: Path, header: str, *rows: str) -> Path:
    path = folder / "list.tsv"
    path.write_text("\n".join("\t".join(row.split()) for row in (header, *rows)) + "\n")
    return path


def names(found):
    return [night.path.name for night in found.nights]


@pytest.mark.parametrize("command", ["decode", "report"])
@pytest.mark.parametrize(
    ("head", "step", "words"),
    [("quality", -1, "Sort the rows"), ("sqi", 1, "has the columns onset, sqi"), ("quality", 1, "")],
)
def test_quality_is_matched_by_time_in_every_command(run, folder, command, head, step, words):
    n_epochs = sg.read_density(folder / "n1.csv").n_epochs
    rows = [f"{30 * epoch}\t{0.5 * (epoch > 20):g}" for epoch in range(n_epochs)][::step]
    (folder / "q.tsv").write_text("\n".join([f"onset\t{head}", *rows]) + "\n")
    ran = run(command, folder / "n1.csv", "-p", PROFILE, "--quality", folder / "q.tsv")
    assert ran.code == (1 if words else 0)
    assert not words or words in error_line(ran)


@pytest.mark.parametrize("rows", [slice(0, 100), slice(20, None), None])
@pytest.mark.parametrize("command", ["stats", "convert"])
def test_a_hypnogram_that_was_cut_off_is_refused(run, folder, command, rows):
    assert run("decode", folder / "n1.csv", "-p", PROFILE).code == 0
    path = folder / "n1.hypnogram.tsv"
    lines = path.read_text().splitlines()
    kept = lines[1:60] + lines[80:] if rows is None else lines[1:][rows]
    path.write_text("\n".join([lines[0], *kept]) + "\n")
    more = ("--to", "text") if command == "convert" else ()
    line = error_line(run(command, path, *more))
    assert mentions(line, "n1.hypnogram.tsv", "100 epochs", 120, "n1.hypnogram.json")


def test_a_hypnogram_that_was_edited_is_read_with_a_warning(run, folder):
    assert run("decode", folder / "n1.csv", folder / "n2.csv", "-p", PROFILE).code == 0
    assert "SHA-256" not in run("stats", folder / "n1.hypnogram.tsv", "--json").out
    (folder / "n1.hypnogram.tsv").write_bytes((folder / "n2.hypnogram.tsv").read_bytes())
    said = "n1.hypnogram.tsv: is not what decode wrote (another SHA-256), so stages were edited"
    for command in (
        ("stats",),
        ("stats", folder / "n2.hypnogram.tsv"),
        ("convert", "--to", "text"),
    ):
        ran = run(command[0], folder / "n1.hypnogram.tsv", *command[1:])
        assert ran.code == 0, ran.err
        assert said in ran.out
    with pytest.warns(sg.StageGuardWarning, match="another SHA-256"):
        sg.read_hypnogram(folder / "n1.hypnogram.tsv")


def test_no_command_writes_over_what_it_read(run, folder):
    own = folder / "own.toml"
    sg.Profile.load(PROFILE).replace(name="own").save(own)
    expert, other = folder / "a" / "n1.txt", folder / "b" / "n1.txt"
    for place, *arguments in (
        (other, "compare", expert, other, "--consensus"),
        (own, "report", folder / "n1.csv", "-p", own, "-o"),
        (own, "fit", folder / "n1.csv", folder / "n2.csv", "--expert", folder / "a", "--base", own, "-o"),
    ):
        before = place.read_bytes()
        line = error_line(run(*arguments, place, "--overwrite"))
        assert mentions(line, "cannot", place, place, "Choose")
        assert place.read_bytes() == before


def test_converted_nights_have_the_ids_and_the_starts_of_their_list(run, folder):
    write_psg(folder / "psg.edf")
    start = sg.read_recording(folder / "psg.edf").start
    path = sample_list(folder, "id probabilities edf", "anna n1.csv psg.edf", "ben n2.csv psg.edf")
    ran = run("convert", path, "--to", "stageguard-csv", "-o", folder / "out", "--json")
    assert [Path(report["outputs"][0]).name for report in ran.lines] == ["anna.csv", "ben.csv"]
    assert sg.read_density(folder / "out" / "anna.csv").start == start
    table = pytest.importorskip("pyarrow.parquet")
    assert run("convert", "--list", path, "-o", folder / "all.parquet").code == 0
    read = table.read_table(folder / "all.parquet")
    assert set(read.column("id").to_pylist()) == {"anna", "ben"}


@pytest.mark.parametrize("command", [("convert", "--average", "-o"), ("compare", "--consensus")])
def test_different_people_are_not_averaged(run, folder, command):
    path = sample_list(folder, "id probabilities scoring", "x n1.csv a/n1.txt", "y n2.csv a/n2.txt")
    ran = run(command[0], path, *command[1:], folder / "out.csv")
    assert ran.code == 2
    assert mentions(ran.err, "sample", "names different nights")
    assert not (folder / "out.csv").exists()


def test_a_file_of_two_names_is_one_night(run, folder):
    (folder / "again").symlink_to(folder)
    (folder / "link.csv").symlink_to(folder / "n1.csv")
    found = find_inputs([folder, folder / "*.csv", folder / "again" / "n2.csv"], None, DENSITIES)
    assert sorted(names(found)) == ["n1.csv", "n2.csv"]
    assert mentions(found.notes[-1], "that is taken", "already")
    ran = run("decode", folder, folder / "n*.csv", "-p", PROFILE, "-o", folder / "out", "--json")
    assert ran.code == 0
    assert len(ran.lines) == 2
    twice = sample_list(folder, "id probabilities lights_off", "x n1.csv 0", "y n1.csv 600")
    assert len(find_inputs([twice], None, DENSITIES).nights) == 2


def test_recordings_beside_scorings_and_programs_are_no_nights(run, folder):
    write_psg(folder / "psg.edf", stages="")
    (folder / "gen.py").write_text('S=["W","N1","N2","N3","R"]\nprint(S)\n')
    (folder / "probs.data").write_text((folder / "n1.csv").read_text())
    found = find_inputs([folder], None, SCORED)
    assert names(found) == ["n1.csv", "n2.csv"]
    assert "gen.py, probs.data, psg.edf" in found.notes[0]
    assert names(find_inputs([folder], None, DENSITIES)) == ["n1.csv", "n2.csv"]


def test_a_report_finds_the_probabilities_it_is_told(run, folder):
    assert run("decode", folder / "n1.csv", "-p", PROFILE, "-o", folder / "out").code == 0
    output = folder / "out" / "n1.hypnogram.tsv"
    moved = (folder / "n1.csv").rename(folder / "moved.csv")
    assert mentions(error_line(run("report", output)), "comes without", "probabilities")
    assert run("report", output, "--input", moved).code == 0
    assert (folder / "out" / "n1.report.html").exists()


def test_fit_and_consensus_take_folders_patterns_and_lists(run, folder):
    fit = ("fit", "--base", PROFILE, "--overwrite", "--json")
    place = ("-o", folder / "own.toml")
    first = run(*fit, folder / "n1.csv", folder / "n2.csv", "--expert", folder / "a", *place)
    assert first.code == 0, first.err
    whole = (folder / "own.toml").read_text()
    listed = sample_list(folder, "id probabilities scoring", "n1 n1.csv a/n1.txt", "n2 n2.csv a/n2.txt")
    for given in ((folder / "n*.csv", "--expert", folder / "a"), ("--list", listed)):
        again = run(*fit, *given, *place)
        assert again.code == 0, again.err
        assert (folder / "own.toml").read_text() == whole
    for given in ((folder / "[ab]" / "n1.txt",), (folder / "one",)):
        if given[0].name == "one":
            given[0].mkdir()
            for who in "ab":
                (given[0] / f"{who}.txt").write_text((folder / who / "n1.txt").read_text())
        (report,) = run("compare", *given, "--consensus", folder / "c.tsv", "--overwrite", "--json").lines
        assert len(report["scorers"]) == 2
