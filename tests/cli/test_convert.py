"""`stageguard convert`: one night, many nights, one file of many, and what goes wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions

STAGES = ["W", "W", "N1", "N2", "?", "N3", "R", "W"]


@pytest.fixture
def nights(tmp_path):
    """Three scored nights, of YASA, with an arousal in the third."""
    labels = [sg.StageScheme.named("aasm5").names.index(s) if s != "?" else -1 for s in STAGES]
    for stem in ("n1", "n2"):
        sg.Hypnogram(labels, "aasm5", 30, None, "Ann").save(tmp_path / f"{stem}.json")
    rows = [f"Sleep stage {stage}\t{30 * i}\t+30" for i, stage in enumerate(STAGES)]
    (tmp_path / "n3.annot").write_text("\n".join([*rows, "Arousal\t41\t+3"]) + "\n")
    return tmp_path


def test_one_night_to_a_named_file(run, nights):
    ran = run("convert", nights / "n1.json", "-o", nights / "out" / "n1.edf")
    assert ran.code == 0
    lines = ran.out.replace("\n", " ")
    assert f"Wrote: {nights}/out/n1.edf (edf-annotations)" in lines
    assert "Lost: scorer" in lines
    assert sg.read_hypnogram(nights / "out" / "n1.edf").stages.tolist() == STAGES


def test_what_is_lost_is_said_once_for_all_files(run, nights):
    ran = run("convert", nights / "n?.*", "-o", nights / "out", "--to", "text")
    assert ran.code == 0
    lost = " ".join(ran.out.partition("Lost: ")[2].split())
    assert "scorer (" in lost
    assert "1 other annotation (Arousal) (1 night)" in lost
    assert "Converted 3 nights to text" in ran.out
    assert {path.name for path in (nights / "out").iterdir()} == {"n1.txt", "n2.txt", "n3.txt"}
    assert (nights / "out" / "n2.txt").read_text().split() == STAGES


def test_many_nights_in_one_parquet_file(run, nights):
    pandas = pytest.importorskip("pandas")
    ran = run("convert", nights / "n1.json", nights / "n2.json", "-o", nights / "all.parquet")
    assert ran.code == 0
    assert "(parquet, 2 nights)" in ran.out.replace("\n", " ")
    assert pandas.read_parquet(nights / "all.parquet")["id"].tolist() == ["n1"] * 8 + ["n2"] * 8


def test_merged_and_with_other_epochs(run, nights):
    arguments = ("--to", "accusleepy-csv", "--merge", "wnr3", "--reepoch", 60, "-o", nights / "m.csv")
    ran = run("convert", nights / "n1.json", *arguments)
    assert ran.code == 0
    assert (nights / "m.csv").read_text() == "brain_state\n2\n3\n3\n1\n"
    assert "epoch length" in " ".join(ran.out.split())


def test_annotations_of_another_file(run, nights):
    ran = run(
        "convert", nights / "n1.json", "-o", nights / "n1.edf", "--annotations-from", nights / "n3.annot"
    )
    assert ran.code == 0
    assert b"Arousal" in (nights / "n1.edf").read_bytes()
    assert mentions(" ".join(ran.out.split()), "annotations", "n3.annot")
    ran = run("convert", nights / "n1.json", nights / "n2.json", "--to", "text", "--annotations-from", "x")
    assert ran.code == 2


def test_an_output_of_decode_is_converted_with_its_profile(run, tmp_path):
    night = write_night(tmp_path / "night.csv")
    assert run("decode", night, "-p", "human-psg-5").code == 0
    ran = run("convert", tmp_path / "night.hypnogram.tsv", "--to", "bids-events")
    assert ran.code == 0, ran.err
    record = json.loads((tmp_path / "night_events.json").read_text())["StageGuard"]
    assert record["Profile"]["Name"] == "human-psg-5"
    assert record["Scorer"] == "StageGuard human-psg-5"
    decoded = sg.read_hypnogram(tmp_path / "night.hypnogram.tsv")
    assert sg.read_hypnogram(tmp_path / "night_events.tsv").labels.tolist() == decoded.labels.tolist()


def test_bad_input_is_one_line(run, nights):
    out = nights / "out.json"
    line = error_line(run("convert", nights / "none.json", "-o", out))
    assert mentions(line, "file or directory")
    (nights / "bad.txt").write_text("W\nN7\n")
    assert mentions(error_line(run("convert", nights / "bad.txt", "-o", out)), "bad.txt", 2, "'N7'")
    assert not out.exists()
    line = error_line(run("convert", nights / "n1.json", "--to", "yasa-jason"))
    assert line.startswith("unknown format 'yasa-jason'. Known for writing: ")
    assert line.endswith("Did you mean 'yasa-json'?")
    line = error_line(run("convert", nights / "n1.json", "-o", nights / "n.csv"))
    assert mentions(line, "n.csv")
    line = error_line(run("convert", nights / "n1.json", "-o", nights / "n.csv", "--to", "accusleepy-csv"))
    assert mentions(line, "--merge", "wnr3")


def test_nothing_is_replaced_unasked(run, nights):
    place = nights / "out dir é" / "n1.hyp"
    assert run("convert", nights / "n1.json", "-o", place).code == 0
    assert "exists already. Use --overwrite" in error_line(run("convert", nights / "n2.json", "-o", place))
    assert run("convert", nights / "n2.json", "-o", place, "--overwrite").code == 0
    line = error_line(run("convert", nights / "n1.json", "--to", "yasa-json", "--overwrite"))
    assert mentions(line, "same file")
    assert "cannot write /proc/" in error_line(run("convert", nights / "n1.json", "-o", "/proc/x/n.hyp"))


def test_a_bad_night_among_good_ones_does_not_stop_them(run, nights):
    (nights / "n0.txt").write_text("W\nN7\n")
    ran = run("convert", nights / "n0.txt", nights / "n1.json", "--to", "usleep-hyp", "-o", nights / "out")
    assert ran.code == 3
    assert "1 of 2 files failed" in ran.err and mentions(" ".join(ran.err.split()), "'N7'")
    assert [path.name for path in (nights / "out").iterdir()] == ["n1.hyp"]


def test_two_nights_of_one_name_do_not_share_a_file(run, nights):
    (nights / "n1.txt").write_text("\n".join(STAGES) + "\n")
    ran = run("convert", nights / "n1.json", nights / "n1.txt", "--to", "usleep-hyp", "-o", nights / "out")
    assert ran.code == 3
    assert mentions(" ".join(ran.err.split()), "same output as")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["n1.json"], ("format", "write")),
        (["n1.json", "n2.json", "-o", "x.edf"], ("be several nights",)),
        (["n1.json", "--to", "text", "--reepoch", "0"], ("--reepoch",)),
        (["n1.json", "--to", "text", "--merge", "aasm6"], ("--merge",)),
        (["n1.json", "-o", ""], ("an empty name",)),
    ],
)
def test_wrong_usage(run, nights, monkeypatch, arguments, expected):
    monkeypatch.chdir(nights)
    ran = run("convert", *arguments)
    assert ran.code == 2
    assert mentions(" ".join(ran.err.split()), *expected)


def test_a_date_that_nobody_said_is_not_written_without_a_word(run, tmp_path):
    (tmp_path / "n.txt").write_text("\n".join(STAGES))
    listed = tmp_path / "samples.tsv"
    note = "only the time of its start is known: 2000-01-01 is written as the date"
    for start, is_said in (("22:30", True), ("2024-05-01T22:30", False)):
        listed.write_text(f"id\tscoring\tstart\na\tn.txt\t{start}\n")
        ran = run("convert", listed, "--to", "yasa-json", "-o", tmp_path / "out", "--overwrite", "--json")
        assert ran.code == 0, ran.err
        assert (note in ran.lines[0]["notes"]) is is_said


@pytest.fixture
def stagers(tmp_path):
    return [write_night(tmp_path / f"s{seed}.csv", hours=1, seed=seed) for seed in (1, 2)]


@pytest.mark.parametrize("name", ["out.csv", "out.npz", "out.parquet"])
def test_the_average_is_what_the_function_returns(run, stagers, tmp_path, name):
    out = tmp_path / "a folder" / name
    ran = run("convert", *stagers, "--average", "-o", out, "--weights", "2,1")
    assert ran.code == 0
    assert "mean of 2 files, 120 epochs of 30 s" in ran.out and "Lost: nothing" in ran.out
    expected = sg.combine([sg.read_density(path) for path in stagers], weights=[2, 1])
    np.testing.assert_array_equal(sg.read_density(out).probabilities, expected.probabilities)
    report = run("convert", *stagers, "--average", "-o", tmp_path / "o.npz", "--json").lines[0]
    assert report["outputs"] == [str(tmp_path / "o.npz")] and len(report["files"]) == 2


def test_nights_that_differ_are_averaged_when_told_how(run, stagers, tmp_path):
    average, out = ("convert", "--average", stagers[0]), ("-o", tmp_path / "out.csv", "--overwrite")
    longer = write_night(tmp_path / "long.csv", hours=1.5, seed=3)
    assert mentions(error_line(run(*average, longer, *out)), "long.csv", 180, "s1.csv", 120)
    ran = run(*average, longer, *out, "--align")
    assert ran.code == 0 and sg.read_density(out[1]).n_epochs == 120
    assert "epochs 1 to 120 of 180 are kept" in " ".join(ran.out.split())
    mouse = sg.read_density(stagers[1]).merge("wnr3").save(tmp_path / "m.csv").path
    assert mentions(error_line(run(*average, mouse, *out)), "stages", "expected")
    assert run(*average, mouse, *out, "--merge", "wnr3").code == 0
    assert sg.read_density(out[1]).scheme.name == "wnr3"
    short = sg.read_density(stagers[1]).reepoch(15).save(tmp_path / "short.npz").path
    assert "epochs of 15 s" in error_line(run(*average, short, *out))
    assert run(*average, short, *out, "--reepoch", 30).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["s1.csv", "--average"], 2, "one file, expected two or more"),
        (
            ["s1.csv", "s2.csv", "--average", "--weights", "1"],
            1,
            "expected 2 numbers, one per density",
        ),
        (["s1.csv", "s2.csv", "--average", "--weights", "a,b"], 2, "expected numbers such as 2,1,1"),
        (["s1.csv", "s2.csv", "--weights", "1,2"], 2, "--weights and --align go with --average"),
        (["s1.csv", "s2.csv", "--average", "--weights", "0,0"], 1, "all weights are 0"),
        (["s1.csv", "bad.csv", "--average"], 1, "bad.csv: "),
        (["s1.csv", "s2.csv", "--average", "-o", "s1.csv", "--overwrite"], 1, "same file"),
        (["s1.csv", "s2.csv", "--average", "-o", "o.edf"], 1, "probabilities alone"),
    ],
)
def test_what_cannot_be_averaged(run, stagers, tmp_path, monkeypatch, arguments, code, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("W,N1,N2,N3,R\n1,2,3,4,5\n")
    before = stagers[0].read_bytes()
    ran = run("convert", *(["-o", "o.csv"] if "-o" not in arguments else []), *arguments)
    assert ran.code == code
    assert expected in " ".join(ran.err.split())
    assert stagers[0].read_bytes() == before
