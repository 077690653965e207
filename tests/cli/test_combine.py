"""`stageguard combine`: several stagers' probabilities as one file that every command reads."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line, write_night
from messages import mentions


@pytest.fixture
def run(capsys):
    return Runner(capsys)


@pytest.fixture
def stagers(tmp_path):
    return [write_night(tmp_path / f"s{seed}.csv", hours=1, seed=seed) for seed in (1, 2)]


@pytest.mark.parametrize("method", ["mean", "log-pool"])
@pytest.mark.parametrize("name", ["out.csv", "out.npz", "out.parquet"])
def test_the_file_holds_what_the_function_returns(run, stagers, tmp_path, method, name):
    out = tmp_path / "a folder" / name
    ran = run("combine", *stagers, "-o", out, "--method", method, "--weights", "2,1")
    assert ran.code == 0
    assert f"Combined 2 files ({method}, weights 2, 1): 120 epochs of 30 s, stages W N1 N2 N3 R" in ran.out
    assert "Lost" not in ran.out
    expected = sg.combine([sg.read_density(path) for path in stagers], method=method, weights=[2, 1])
    np.testing.assert_array_equal(sg.read_density(out).probabilities, expected.probabilities)
    assert run("decode", out, "-p", "human-psg-5").code == 0


def test_it_is_told_as_json(run, stagers, tmp_path):
    report = run("combine", *stagers, "-o", tmp_path / "out.npz", "--json").json
    assert report["weights"] == [1.0, 1.0]
    assert (report["n_epochs"], report["epoch_seconds"], report["method"]) == (120, 30.0, "mean")
    assert report["outputs"] == [str(tmp_path / "out.npz")]


def test_nights_that_differ_are_refused_until_told_how(run, stagers, tmp_path):
    out = tmp_path / "out.csv"
    longer = write_night(tmp_path / "long.csv", hours=1.5, seed=3)
    line = error_line(run("combine", stagers[0], longer, "-o", out))
    assert mentions(line, "long.csv", 180, "s1.csv", 120)
    ran = run("combine", stagers[0], longer, "-o", out, "--align")
    assert ran.code == 0 and sg.read_density(out).n_epochs == 120
    assert "epochs 1 to 120 of 180 are kept" in " ".join(ran.out.split())
    mouse = sg.read_density(stagers[1]).merge("wnr3").save(tmp_path / "m.csv").path
    assert mentions(
        error_line(run("combine", stagers[0], mouse, "-o", tmp_path / "x.csv")), "stages", "expected"
    )
    ran = run("combine", stagers[0], mouse, "-o", tmp_path / "x.csv", "--merge", "wnr3")
    assert ran.code == 0 and sg.read_density(tmp_path / "x.csv").scheme.name == "wnr3"
    short = sg.read_density(stagers[1]).reepoch(15).save(tmp_path / "short.npz").path
    assert "epochs of 15 s" in error_line(run("combine", stagers[0], short, "-o", tmp_path / "y.csv"))
    assert run("combine", stagers[0], short, "-o", tmp_path / "y.csv", "--reepoch", 30).code == 0


def test_bad_input_is_one_line(run, stagers, tmp_path):
    (tmp_path / "bad.csv").write_text("W,N1,N2,N3,R\n1,2,3,4,5\n")
    assert error_line(run("combine", stagers[0], tmp_path / "bad.csv", "-o", tmp_path / "o.csv")).startswith(
        "bad.csv: "
    )
    line = error_line(run("combine", *stagers, "-o", stagers[0], "--overwrite"))
    assert mentions(line, "same file")
    line = error_line(run("combine", *stagers, "-o", tmp_path / "o.edf"))
    assert mentions(line, "o.edf", "edf-annotations")
    line = error_line(run("combine", *stagers, "-o", tmp_path / "o.zip"))
    assert mentions(line, "o.zip")
    assert run("combine", *stagers, "-o", tmp_path / "o.csv").code == 0
    assert "exists already" in error_line(run("combine", *stagers, "-o", tmp_path / "o.csv"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["s1.csv"], "one file, expected two or more"),
        (["s1.csv", "s2.csv", "--weights", "1"], "--weights has 1, expected one for each of 2 files"),
        (["s1.csv", "s2.csv", "--weights", "a,b"], "expected numbers such as 2,1,1"),
        (["s1.csv", "s2.csv", "--logits", "--log"], "exclude each other"),
        (["s1.csv", "s2.csv", "--method", "product"], "--method"),
    ],
)
def test_wrong_usage(run, stagers, tmp_path, monkeypatch, arguments, expected):
    monkeypatch.chdir(tmp_path)
    ran = run("combine", *arguments, "-o", "o.csv")
    assert ran.code == 2
    assert expected in " ".join(ran.err.split())


def test_weights_that_are_all_zero_are_a_data_problem(run, stagers, tmp_path):
    assert "all weights are 0" in error_line(
        run("combine", *stagers, "-o", tmp_path / "o.csv", "--weights", "0,0")
    )
