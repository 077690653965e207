"""Verbs that take many nights read them from one table with the column id, too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stageguard as sg
from cli_runner import error_line
from messages import mentions
from stageguard.synthetic.night import simulate_night

PROFILE = "human-psg-5"
STAGES = ("W", "N1", "N2", "N3", "R")


@pytest.fixture(scope="module")
def nights():
    return [simulate_night(PROFILE, hours=3, seed=seed).density for seed in range(3)]


def write(folder, nights, suffix):
    """Write nights into one table, and each into a file of its own."""
    folder.mkdir()
    (folder / "nights").mkdir()
    columns = {name: [] for name in ("id", *STAGES)}
    for number, night in enumerate(nights):
        rows = night.probabilities
        columns["id"] += [f"n{number}"] * len(rows)
        lines = [",".join(map(repr, row)) for row in rows.tolist()]
        (folder / "nights" / f"n{number}.csv").write_text(f"{','.join(STAGES)}\n" + "\n".join(lines) + "\n")
        for name, values in zip(STAGES, rows.T.tolist(), strict=True):
            columns[name] += values
    path = folder / f"all{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join(",".join(map(str, row)) for row in [tuple(columns), *rows]) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_is_measured_like_its_nights_as_files(run, tmp_path, nights, suffix):
    path = write(tmp_path / "in", nights, suffix)
    both = (path, path.parent / "nights")
    of_table, of_files = (run("stats", each, "-p", PROFILE, "--json").nights for each in both)
    assert [night["id"] for night in of_table] == ["n0", "n1", "n2"]
    for mine, alone in zip(of_table, of_files, strict=True):
        for told in (mine, alone):
            for key in ("seconds", "file", "files", "notes", "assumed"):
                told.pop(key, None)
        assert mine == alone


def test_a_decoded_table_is_read_back_with_what_was_before(run, tmp_path, nights):
    path = write(tmp_path / "in", nights, ".parquet")
    for name in ("out.parquet", "out.csv"):
        assert run("decode", path, "-p", PROFILE, "-o", tmp_path / name).code == 0
        rows = run("stats", tmp_path / name).out.splitlines()
        assert [row.split()[0] for row in rows[1:2] + rows[3:6]] == ["night", "n0", "n1", "n2"]
        checked = run("stats", tmp_path / name, "-p", PROFILE, "--json")
        assert [night["id"] for night in checked.nights] == ["n0", "n1", "n2"]
        compared = run("compare", tmp_path / name, tmp_path / name, "--json").lines
        assert all(night["agreement"]["guard"]["accuracy"] == 1.0 for night in compared)
        assert "\nn2 " in run("compare", tmp_path / name, tmp_path / name).out
        argmax = sg.agreement(
            sg.decode(nights[0], PROFILE).hypnogram, sg.Hypnogram(nights[0].argmax, "aasm5", 30.0)
        )
        assert compared[0]["agreement"]["argmax"]["accuracy"] == pytest.approx(argmax.accuracy)


def test_a_profile_is_tuned_on_a_table(run, tmp_path):
    nights = [simulate_night(PROFILE, hours=2, seed=seed).density for seed in range(10)]
    path = write(tmp_path / "in", nights, ".csv")
    refused = run("decode", path, "-p", PROFILE, "--tune", "-o", tmp_path / "out.csv")
    assert "--tune" in error_line(refused)
    assert run("fit", path, "--base", PROFILE, "--output", tmp_path / "tuned.toml").code == 0
    refused = run("decode", path, "-p", PROFILE, "--svg", "-o", tmp_path / "out.csv")
    assert mentions(error_line(refused), "--svg", "--output")
    assert sg.Profile.load(tmp_path / "tuned.toml").strength.stager_fi > 0


def test_only_the_named_nights_are_decoded(run, tmp_path, nights):
    path = write(tmp_path / "in", nights, ".csv")
    folder, out = path.parent / "nights", tmp_path / "out.parquet"
    assert run("decode", folder, "-p", PROFILE, "-o", tmp_path / "o", "--only", "n1").code == 0
    assert sorted(each.name for each in (tmp_path / "o").glob("*.hypnogram.tsv")) == ["n1.hypnogram.tsv"]
    assert "no such night" in error_line(run("decode", folder, "-p", PROFILE, "--only", "n9"))
    assert run("decode", path, "-p", PROFILE, "-o", out, "--only", "n0", "--only", "n2").code == 0
    assert np.unique(pq.read_table(out).column("id").to_pylist()).tolist() == ["n0", "n2"]
    ran = run("decode", path, "-p", PROFILE, "-o", tmp_path / "x.csv", "--only", "n9")
    assert "has no night 'n9'" in error_line(ran)
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_a_decoded_table_is_measured_like_nights_decoded_one_by_one(run, tmp_path, nights, name):
    path = write(tmp_path / "in", nights, ".parquet")
    assert run("decode", path, "-p", PROFILE, "-o", tmp_path / name).code == 0
    assert run("decode", path.parent / "nights", "-p", PROFILE, "-o", tmp_path / "out").code == 0
    both = (tmp_path / name, tmp_path / "out")
    of_table, of_files = (run("stats", each, "--json").nights for each in both)
    assert [night["id"] for night in of_table] == ["n0", "n1", "n2"]
    for mine, alone in zip(of_table, of_files, strict=True):
        assert (mine["steered"], mine["profile"]) == (alone["steered"], alone["profile"])
        for when in ("before", "after"):
            assert {"joint_score", "waso_minutes"} <= mine[when].keys() <= alone[when].keys()
            known = {key: value for key, value in mine[when].items() if value is not None}
            assert known == {key: value for key, value in alone[when].items() if value is not None}
        assert mine["before"] != mine["after"]
    assert any(night["steered"] for night in of_table)
    assert [night["validity"] for night in of_table] == [night["validity"] for night in of_files]


def said(ran):
    """All that a command printed, however it was wrapped."""
    return " ".join((ran.out + ran.err).split())


@pytest.mark.filterwarnings("default::stageguard.StageGuardWarning")
def test_a_decoded_table_that_was_edited_or_lost_its_record_says_so(run, tmp_path, nights):
    path, out = write(tmp_path / "in", nights, ".csv"), tmp_path / "out.csv"
    assert run("decode", path, "-p", PROFILE, "-o", out).code == 0
    whole = out.read_text()
    out.write_text(whole.replace("n0,0,30,W,0,", "n0,0,30,R,4,", 1))
    assert mentions(said(run("stats", out)), "what decode wrote")
    out.write_text("\n".join(whole.splitlines()[:-5]) + "\n")
    assert "has 355 epochs, but 360 were decoded" in said(run("stats", out))
    out.write_text(whole)
    (tmp_path / "out.csv.json").write_text('{"stageguard": {"layout": 1}}')
    assert mentions(error_line(run("stats", out)), "out.csv.json", "incomplete or was")
    (tmp_path / "out.csv.json").unlink()
    assert mentions(said(run("stats", out)), "no profile")


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Four nights and their experts: as two tables, and as two folders of files."""
    folder = tmp_path_factory.mktemp("scored")
    simulated = [simulate_night(PROFILE, hours=1, seed=seed) for seed in range(4)]
    path = write(folder / "in", [each.density for each in simulated], ".csv")
    (folder / "experts").mkdir()
    lines = ["id,stage"]
    for number, each in enumerate(simulated):
        stages = each.expert.stages.tolist()
        (folder / "experts" / f"n{number}.txt").write_text("\n".join(stages) + "\n")
        lines += [f"n{number},{stage}" for stage in stages]
    (folder / "experts.csv").write_text("\n".join(lines) + "\n")
    return path, folder / "experts.csv", folder / "experts"


def fit(run, nights, experts, output, *more):
    return run("fit", nights, "--expert", experts, "-b", PROFILE, "-o", output, *more)


def test_a_profile_is_fitted_to_tables_as_to_files(run, tmp_path, scored):
    path, experts, folder = scored
    fitted = []
    for name, nights, scorings in (("table", path, experts), ("files", path.parent / "nights", folder)):
        output = tmp_path / name / "lab.toml"
        output.parent.mkdir()
        ran = fit(run, nights, scorings, output)
        assert ran.code == 0, ran.err
        fitted.append(sg.Profile.load(output))
    assert fitted[0].transitions == fitted[1].transitions
    assert fitted[0].calibration == fitted[1].calibration
    assert fitted[0].provenance["reason"] == fitted[1].provenance["reason"]


def test_each_night_of_two_tables_in_a_folder_counts_once(run, tmp_path, nights):
    path = write(tmp_path / "in", nights, ".csv")
    folder = tmp_path / "out"
    for name in ("out.csv", "out.parquet"):
        assert run("decode", path, "-p", PROFILE, "-o", folder / name).code == 0
    ran = run("stats", folder)
    assert ran.code == 0, ran.err
    assert mentions(ran.out, "Mean", "over 3 nights")
    assert mentions(ran.out, "nights of", "out.csv", "out.parquet")
    (folder / "second.csv").write_bytes((folder / "out.csv").read_bytes())
    ran = run("stats", folder)
    assert ran.code == 3
    assert mentions(ran.err, "second.csv", "same nights", "out.csv")
