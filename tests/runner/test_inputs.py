"""What commands are given: files, patterns, folders, sample lists."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stageguard as sg
from cli_runner import error_line, write_night
from made_recordings import write_psg
from messages import mentions
from stageguard.cli.nights import Experts
from stageguard.runner.inputs import Wanted, find_inputs, is_sample_list, read_samples
from stageguard.synthetic.night import simulate_night

PROFILE = "human-psg-5"
DENSITIES = Wanted("density")
SCORED = Wanted("hypnogram")


@pytest.fixture
def nights(tmp_path):
    """Three nights whose names sort otherwise as text, their experts, and files that are no nights."""
    (tmp_path / "nights").mkdir()
    (tmp_path / "experts").mkdir()
    for seed in (1, 2, 10):
        write_night(tmp_path / "nights" / f"n{seed}.csv", hours=2, seed=seed)
        expert = simulate_night(PROFILE, hours=2, seed=seed).expert
        (tmp_path / "experts" / f"n{seed}.txt").write_text("\n".join(expert.stages.tolist()) + "\n")
    (tmp_path / "nights" / ".n3.csv").write_text("W,N,R\n1,0,0\n")
    (tmp_path / "nights" / "notes.txt").write_text("slept well\n")
    (tmp_path / "nights" / "groups.tsv").write_text("id\tgroup\nn1\ta\n")
    return tmp_path


def sample_list(folder: Path, header: str, *rows: str) -> Path:
    path = folder / "samples.tsv"
    path.write_text("\n".join("\t".join(row.split()) for row in (header, *rows)) + "\n")
    return path


def names(found):
    return [night.id for night in found.nights]


def test_a_folder_stands_for_its_nights_in_natural_order(nights):
    found = find_inputs([nights / "nights"], None, DENSITIES)
    assert names(found) == ["n1", "n2", "n10"]
    assert found.notes == (f"left out in {nights / 'nights'}, no probabilities: groups.tsv, notes.txt",)
    assert found.is_cohort


def test_a_folder_does_not_hide_a_night_that_is_empty_or_no_table(nights):
    (nights / "nights" / "n4.csv").write_bytes(b"")
    (nights / "nights" / "n5.csv").write_bytes(b"\x00\x01\x02")
    (nights / "nights" / "n6.xyz").write_bytes(b"\x00\x01\x02")
    assert names(find_inputs([nights / "nights"], None, DENSITIES)) == ["n1", "n2", "n4", "n5", "n10"]


def test_outputs_are_no_probabilities_but_stand_for_their_night_elsewhere(run, nights):
    folder = nights / "nights"
    assert run("decode", folder / "n2.csv", "-p", PROFILE, "--svg", "--explain").code == 0
    assert names(find_inputs([folder], None, DENSITIES)) == ["n1", "n2", "n10"]
    assert all(night.path.suffix == ".csv" for night in find_inputs([folder], None, DENSITIES).nights)
    (folder / "n2.hypnodensity.csv").write_bytes((folder / "n2.csv").read_bytes())  # as `stage` writes it
    scored = find_inputs([folder], None, SCORED)
    assert [night.path.name for night in scored.nights] == ["n2.hypnogram.tsv"]
    words = "beside outputs of decode: groups.tsv, n1.csv, n10.csv, notes.txt"
    assert scored.notes == (f"left out in {folder}, {words}",)
    assert "n2" in Experts(folder).names and "n2.hypnodensity" not in Experts(folder).names


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
@pytest.mark.parametrize("given", ["nights", "nights/*.csv"])
def test_a_link_to_nothing_and_a_pipe_are_seen_to_fail(run, nights, given):
    (nights / "nights" / "gone.csv").symlink_to(nights / "nowhere.csv")
    os.mkfifo(nights / "nights" / "pipe.csv")
    ran = run("decode", nights / given, "-p", PROFILE, "-o", nights / "out", "--json")
    assert ran.code == 3
    errors = {report["file"].rpartition("/")[2]: report.get("error") for report in ran.lines}
    assert mentions(errors.pop("gone.csv"), "gone.csv", "No such file")
    assert mentions(errors.pop("pipe.csv"), "pipe.csv", "a pipe or")
    assert errors == dict.fromkeys(["n1.csv", "n2.csv", "n10.csv"])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("nights/*.csv", ["n1", "n2", "n10"]),
        ("**/n1*.csv", ["n1", "n10"]),
        ("nights/n[12].csv", ["n1", "n2"]),
    ],
)
def test_a_pattern_stands_for_its_files(nights, pattern, expected):
    assert names(find_inputs([nights / pattern], None, DENSITIES)) == expected


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(nights):
    path = write_night(nights / "n[12].csv", hours=1)
    (night,) = find_inputs([path], None, DENSITIES).nights
    assert night.path == path


def test_posteriors_beside_the_nights_are_no_nights(run, nights):
    folder = nights / "nights"
    assert run("decode", "--posterior", folder / "n1.csv", "--profile", PROFILE, "--draws", "2").code == 0
    assert (folder / "n1.posterior.csv").exists() and (folder / "n1.draws.npz").exists()
    assert names(find_inputs([folder], None, DENSITIES)) == ["n1", "n2", "n10"]


def test_a_pattern_or_a_folder_without_nights_is_one_line(run, nights):
    line = error_line(run("decode", nights / "*.npz", "-p", PROFILE))
    assert line == f"no file matches '{nights / '*.npz'}'. Check the folder and the pattern."
    (nights / "empty").mkdir()
    line = error_line(run("stats", nights / "empty", "-p", PROFILE))
    assert mentions(line, "empty", "no hypnograms or")


@pytest.mark.parametrize("arguments", [("decode", ""), ("decode", "night.csv", "-o", " "), ("stats", "")])
def test_an_empty_name_is_not_this_folder(run, arguments):
    ran = run(*arguments, "-p", PROFILE)
    assert ran.code == 2
    assert mentions(ran.err, "an empty name", "folder")


def test_a_list_names_nights_and_outputs(run, nights):
    path = sample_list(nights, "id probabilities", "a nights/n1.csv", "b nights/n10.csv")
    ran = run("decode", path, "-p", PROFILE, "-o", nights / "out", "--json")
    assert [report["id"] for report in ran.lines] == ["a", "b"]
    assert {p.name for p in (nights / "out").glob("*.tsv")} == {
        "a.hypnogram.tsv",
        "b.hypnogram.tsv",
        "cohort.tsv",
    }
    again = run("decode", "--list", path, "-p", PROFILE, "-o", nights / "out", "--json")
    assert all(report["done_before"] for report in again.lines)


def test_lights_of_the_list_reach_the_statistics(run, nights):
    path = sample_list(nights, "id probabilities lights_off lights_on", "a nights/n1.csv 600 5400")
    night = sg.decode(sg.read_density(nights / "nights" / "n1.csv"), PROFILE)
    expected = sg.sleep_statistics(night, lights_off=600.0, lights_on=5400.0).tst_minutes
    assert expected != sg.sleep_statistics(night).tst_minutes
    report = run("stats", path, "-p", PROFILE, "--json").nights[0]
    assert report["after"]["tst_minutes"] == expected
    assert report["after"]["tib_minutes"] == 80.0
    report = run("decode", path, "-p", PROFILE, "--json").lines[0]
    # decode also measures between lights how fragmented the night is
    between = {"lights_off": 600.0, "lights_on": 5400.0}
    night = sg.decode(sg.read_density(nights / "nights" / "n1.csv"), PROFILE, **between)
    expected = sg.sleep_statistics(night, **between).tst_minutes
    assert report["indicators"]["tst_minutes"]["after"] == expected


def test_lights_of_the_command_go_before_those_of_the_list(run, nights):
    path = sample_list(nights, "id probabilities lights_off lights_on", "a nights/n1.csv 600 5400")
    (report,) = run("stats", path, "--lights-off", "0", "--json").nights
    assert report["lights"] == "lights off at 0 s (epoch 1), lights on at 5400 s (epoch 181)"
    assert mentions(report["notes"], "--lights-off", "600.0")


def test_lights_that_decode_knew_are_known_to_the_next_command(run, nights):
    path = sample_list(nights, "id probabilities lights_off lights_on", "a nights/n1.csv 600 5400")
    out, words = nights / "out", "lights off at 600 s (epoch 21), lights on at 5400 s (epoch 181)"
    assert run("decode", path, "-p", PROFILE, "-o", out).code == 0
    assert run("stats", out, "--json").nights[0]["lights"] == words
    assert run("report", out / "a.hypnogram.tsv", "--json").json["lights"] == words
    model = run("stats", "--intervals", out, "--json").lines[0]
    assert model["lights"] == words
    other = run("stats", out, "--lights-off", "1200", "--json").nights[0]["lights"]
    assert other == words.replace("600 s (epoch 21)", "1200 s (epoch 41)")


def test_scorings_of_the_list_are_the_experts(run, nights):
    path = sample_list(nights, "id probabilities scoring", "a nights/n1.csv experts/n1.txt")
    report = run("compare", "--list", path, "--json").lines[0]
    expert = sg.read_hypnogram(nights / "experts" / "n1.txt")
    argmax = sg.read_density(nights / "nights" / "n1.csv").argmax
    assert report["agreement"]["argmax"]["accuracy"] == np.mean(argmax == expert.labels)
    assert "expert" in run("stats", path, "-p", PROFILE, "--json").nights[0]
    alone = sample_list(nights, "id scoring", "a experts/n1.txt")
    assert "before" not in run("stats", alone, "-p", PROFILE, "--json").nights[0]


def test_a_list_says_more_about_files_that_are_given(run, nights):
    path = sample_list(nights, "id scoring lights_off", "n1 experts/n1.txt 600", "n2 experts/n2.txt 0")
    outputs = nights / "out"
    assert run("decode", nights / "nights" / "n1.csv", "-p", PROFILE, "-o", outputs).code == 0
    result = run("stats", outputs, "--list", path, "--json")
    assert result.nights[0]["expert"]["tib_minutes"] == 110.0
    assert mentions(result.cohort["notes"], "samples.tsv", "among", "n2")
    line = error_line(run("stats", nights / "nights" / "n10.csv", "--list", path))
    assert mentions(line, "samples.tsv", "n10")


def test_the_recording_says_when_the_night_began_and_what_was_scored(run, nights):
    write_psg(nights / "psg.edf")
    start = sg.read_recording(nights / "psg.edf").start
    assert start is not None
    path = sample_list(nights, "id probabilities edf lights_off", f"a nights/n1.csv psg.edf {start:%H:%M:%S}")
    ran = run("decode", path, "-p", PROFILE, "--json", "-o", nights / "out")
    assert ran.code == 0, ran.lines
    assert sg.read_hypnogram(nights / "out" / "a.hypnogram.tsv").start == start
    without = sample_list(nights, "id probabilities lights_off", "a nights/n1.csv 22:30")
    line = run("decode", without, "-p", PROFILE, "--json").lines[0]["error"]
    assert mentions(line, "n1.csv", "lights_off", "'22:30'")


def test_a_start_in_the_list_is_when_the_night_began(run, nights):
    path = sample_list(nights, "id probabilities start lights_off", "a nights/n1.csv 22:30 22:40")
    ran = run("decode", path, "-p", PROFILE, "--json", "-o", nights / "out")
    assert ran.code == 0, ran.lines
    start = sg.read_hypnogram(nights / "out" / "a.hypnogram.tsv").start
    assert start is not None and (start.hour, start.minute) == (22, 30)
    (report,) = run("stats", path, "--json").nights
    assert report["lights"] == "lights off at 22:40:00, 600 s (epoch 21)"
    wrong = sample_list(nights, "id probabilities start", "a nights/n1.csv 600")
    line = error_line(run("stats", wrong))
    assert mentions(line, 2, "'600'", 22, 30, 2024, "05", "01T22")


def test_stages_in_the_recordings_annotations_are_its_scoring(run, nights):
    expert = sg.read_hypnogram(nights / "experts" / "n1.txt")
    texts = {"R": "R", "W": "W", "N1": "1", "N2": "2", "N3": "3"}
    write_annotated(
        nights / "scored.edf", [f"Sleep stage {texts[stage]}" for stage in expert.stages.tolist()]
    )
    write_annotated(nights / "plain.edf", ["Arousal", "Lights on"])
    path = sample_list(
        nights, "id probabilities edf", "a nights/n1.csv scored.edf", "b nights/n2.csv plain.edf"
    )
    found = run("compare", path, "--json").lines
    assert found[0]["ok"], found[0]
    assert found[0]["expert"].endswith("scored.edf")
    assert found[0]["agreement"]["argmax"]["n_epochs"] == 240
    assert mentions(found[1]["error"], "scoring", "'b'")


def write_annotated(path: Path, texts: list[str]) -> None:
    edfio = pytest.importorskip("edfio")
    annotations = [edfio.EdfAnnotation(30.0 * i, 30.0, text) for i, text in enumerate(texts)]
    signal = edfio.EdfSignal(np.zeros(len(texts) * 30), 1.0, label="x", physical_range=(-1, 1))
    edfio.Edf([signal], annotations=annotations).write(path)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["id probabilities", "a nights/n1.csv", "a nights/n2.csv"], "line 3 is 'a' again, after line 2."),
        (["id probabilities lights_off", "a nights/n1.csv 25:99"], "row 2: lights_off '25:99' is not a time"),
        (["id probabilities lights_on", "a nights/n1.csv soon"], "row 2: lights_on 'soon' is not a time"),
        (["id probabilities", "a/b nights/n1.csv"], "row 2: the id 'a/b' cannot name a file."),
        (["id probabilities", "a"], "line 2 has 1 cell, the header has 2."),
        (
            ["id scoring", "a experts/n1.txt"],
            "has no column probabilities, expected one; it has",
        ),
        (["id probabilities edf", "a n/a x.edf"], "line 2 names no file in its column probabilities."),
        (["id probabilities"], "has a header but no rows"),
    ],
)
def test_a_bad_list_is_one_line_with_its_row(run, nights, rows, expected):
    line = error_line(run("decode", "--list", sample_list(nights, *rows), "-p", PROFILE))
    assert f"samples.tsv: {expected}" in line


def test_a_missing_file_of_a_list_fails_alone(run, nights):
    path = sample_list(nights, "id probabilities", "a nights/n1.csv", "b nights/gone.csv")
    ran = run("decode", path, "-p", PROFILE, "-o", nights / "out", "--json")
    assert ran.code == 3
    assert [report["ok"] for report in ran.lines] == [True, False]
    assert mentions(ran.lines[1]["error"], "samples.tsv", 3, "nights/gone.csv", "list")


def test_decoding_needs_no_scoring_but_comparing_does(run, nights):
    path = sample_list(nights, "id probabilities scoring", "a nights/n1.csv experts/gone.txt")
    assert run("decode", path, "-p", PROFILE).code == 0
    line = error_line(run("compare", path))
    assert mentions(line, "samples.tsv", 2, "scoring", "experts/gone.txt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lists_may_come_from_spreadsheets(nights, encoding, end):
    text = end.join(["id,probabilities,lights_off", '"a, b","nights/n1.csv",22:30', ""])
    path = nights / "samples.csv"
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    path.write_bytes(mark + text.encode(encoding))
    assert is_sample_list(path)
    (night,) = read_samples(path, "density")
    assert (night.id, night.path, night.lights_off) == ("a, b", nights / "nights/n1.csv", "22:30")


CELLS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "id",
            "probabilities",
            "scoring",
            "edf",
            "lights_off",
            "lights_on",
            "22:30",
            "99:99",
            "n/a",
            "",
            "1e9",
        ]
    ),
    st.sampled_from(['"', "a\nb", "\x00", "\ufeff", "../..", "/", "x" * 300, "2024-05-01T22:30", "9" * 20]),
)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(CELLS, max_size=6), max_size=6),
    mark=st.sampled_from("\t,;"),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    end=st.sampled_from(["\n", "\r\n"]),
    header=st.booleans(),
)
def test_any_text_is_a_list_or_a_typed_error(tmp_path_factory, rows, mark, quoting, encoding, end, header):
    folder = tmp_path_factory.mktemp("lists")
    written = io.StringIO()
    writer = csv.writer(written, delimiter=mark, quoting=quoting, lineterminator=end)
    if header:
        rows = [["id", "probabilities", "lights_off"], *(row[:3] + [""] * (3 - len(row)) for row in rows)]
    writer.writerows(rows)
    path = folder / "samples.tsv"
    path.write_bytes(written.getvalue().encode(encoding, errors="replace"))
    is_sample_list(path)
    try:
        found = read_samples(path, "density")
    except sg.StageGuardError as error:
        assert "samples.tsv: " in str(error)
        return
    assert found
    assert len({night.id for night in found}) == len(found)
    assert all(night.id and "/" not in night.id for night in found)


@pytest.mark.parametrize("command", ["stats", "compare", "report", "fit"])
def test_numbered_scorings_are_read_as_told(run, nights, command, tmp_path):
    expert = sg.read_hypnogram(nights / "experts" / "n1.txt")
    for name, labels in (("first", expert.labels), ("second", np.roll(expert.labels, 1))):
        (nights / f"{name}.txt").write_text("\n".join(map(str, labels.tolist())) + "\n")
    numbers, night = nights / "first.txt", nights / "nights" / "n1.csv"
    arguments = {
        "stats": (numbers,),
        "compare": (numbers, night),
        "report": (night, "-p", PROFILE, "--expert", numbers, "-o", tmp_path / "night.html"),
        "fit": (numbers, "--base", PROFILE, "-o", tmp_path / "own.toml"),
    }[command]
    refused = run(command, *arguments)
    assert refused.code == 1
    assert mentions(refused.err, "YASA")
    ran = run(command, *arguments, "--scoring-format", "numbers-yasa", "--json")
    assert ran.code == 0, ran.err
    if command == "compare":
        argmax = sg.read_density(night).argmax
        assert ran.lines[0]["agreement"]["argmax"]["accuracy"] == np.mean(argmax == expert.labels)
    unknown = run(command, *arguments, "--scoring-format", "numbers-yasaa")
    assert unknown.code == 1
    assert "Did you mean 'numbers-yasa'?" in unknown.err
