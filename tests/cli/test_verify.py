"""`stageguard verify`: hashes of input, profile and output, and the stages decoded again."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions

PROFILE = ("-p", "human-psg-5")


@pytest.fixture
def decoded(run, tmp_path):
    night = write_night(tmp_path / "night.csv")
    assert run("decode", night, *PROFILE).code == 0
    return tmp_path


def failed(ran) -> dict[str, str]:
    return {check["name"]: check["finding"] for check in ran.json["checks"] if not check["ok"]}


@pytest.mark.parametrize("name", ["night.hypnogram.tsv", "night.hypnogram.json"])
def test_an_untouched_output_is_verified(run, decoded, name):
    before = {path: path.read_bytes() for path in decoded.iterdir()}
    ran = run("verify", decoded / name)
    assert ran.code == 0
    assert f"{name}: verified" in ran.out
    assert "all 240 epochs the same" in ran.out
    assert {path: path.read_bytes() for path in decoded.iterdir()} == before


def test_every_option_is_repeated(run, tmp_path):
    write_night(tmp_path / "night.csv")
    density = np.loadtxt(tmp_path / "night.csv", delimiter=",", skiprows=1)
    np.save(tmp_path / "logits.npy", np.log(density[:, ::-1] + 1e-9))
    np.save(tmp_path / "beta.npy", np.linspace(0, 1, 240))
    ran = run("decode", tmp_path / "logits.npy", "-p", "kdd2026-cardiorespiratory",
              "--stages", "R,N3,N2,N1,W", "--logits", "--epoch-seconds", "15",
              "--quality", tmp_path / "beta.npy", "--pins", "100=R",
              "--trained", "natural", "--cohort", "severe OSA")  # fmt: skip
    assert ran.code == 0, ran.err
    assert run("verify", tmp_path / "logits.hypnogram.tsv", "--json").json["ok"] is True


def test_lights_and_a_start_from_a_list_are_repeated(run, tmp_path):
    night = write_night(tmp_path / "n1.csv", hours=3)
    (tmp_path / "list.tsv").write_text(
        f"probabilities\tstart\tlights_off\tlights_on\n{night}\t2024-05-01T22:30:00\t22:45\t2024-05-02T01:00:00\n"
    )
    assert run("decode", "--list", tmp_path / "list.tsv", *PROFILE, "-o", tmp_path / "out").code == 0
    assert failed(run("verify", tmp_path / "out" / "n1.hypnogram.json", "--json")) == {}


def test_an_edited_table_is_found_with_its_epoch(run, decoded):
    path = decoded / "night.hypnogram.tsv"
    lines = path.read_text().splitlines()
    cells = lines[11].split("\t")
    cells[2], cells[3] = ("W", "0") if cells[2] != "W" else ("R", "4")
    lines[11] = "\t".join(cells)
    path.write_text("\n".join(lines) + "\n")
    ran = run("verify", path, "--json")
    assert ran.code == 1
    found = failed(ran)
    assert mentions(found["hypnogram file"], "night.hypnogram.tsv", "changed after writing")
    assert f"1 of 240 epochs differ (the first is row 11: {cells[2]} now " in found["decoded again"]


def test_another_input_is_found(run, decoded):
    write_night(decoded / "night.csv", seed=9)
    ran = run("verify", decoded / "night.hypnogram.tsv", "--json")
    assert ran.code == 1
    assert "is recorded" in failed(ran)["input"]
    assert "of 240 epochs differ" in failed(ran)["decoded again"]


def test_the_input_may_be_elsewhere(run, decoded):
    moved = decoded / "elsewhere.csv"
    (decoded / "night.csv").rename(moved)
    ran = run("verify", decoded / "night.hypnogram.tsv", "--json")
    assert ran.code == 1
    assert failed(ran)["input"].endswith("night.csv not found. Name it with --input.")
    assert run("verify", decoded / "night.hypnogram.tsv", "--input", moved).code == 0


def test_what_is_no_output_is_one_line(run, decoded):
    assert mentions(error_line(run("verify", decoded / "night.csv")), "night.csv", "output", "hypnogram.tsv")
    (decoded / "night.hypnogram.json").unlink()
    line = error_line(run("verify", decoded / "night.hypnogram.tsv"))
    assert line.startswith("night.hypnogram.json: is missing")


@pytest.mark.parametrize("suffix", [".hypnogram.svg", ".changes.tsv"])
def test_an_edited_or_missing_companion_is_named_wherever_the_folders_are(run, tmp_path, suffix):
    for name in ("in", "moved"):
        (tmp_path / name).mkdir()
    night = write_night(tmp_path / "in" / "night.csv")
    assert run("decode", night, *PROFILE, "-o", tmp_path / "out", "--svg", "--explain").code == 0
    for name in ("in", "out"):
        shutil.move(tmp_path / name, tmp_path / "moved" / name)
    full = tmp_path / "moved" / "out" / "night.hypnogram.json"
    assert run("verify", full, "--json").json["ok"] is True
    path = full.with_name("night" + suffix)
    path.write_text(path.read_text() + " ")
    assert failed(run("verify", full, "--json")) == {path.name: f"{path.name} was changed after writing"}
    path.unlink()
    assert failed(run("verify", full, "--json")) == {path.name: f"{path.name} is missing"}


def test_nights_of_a_cohort_share_their_profile_and_are_verified_where_they_are_moved(run, tmp_path):
    (tmp_path / "nights").mkdir()
    for seed in (1, 2):
        write_night(tmp_path / "nights" / f"n{seed}.csv", hours=1, seed=seed)
    assert run("decode", tmp_path / "nights", *PROFILE, "-o", tmp_path / "out").code == 0
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    (profile,) = moved.glob("profile-*.toml")
    arguments = ("verify", moved / "n1.hypnogram.tsv", "--input", tmp_path / "nights" / "n1.csv")
    assert run(*arguments).code == 0
    sg.Profile.load(profile).replace(transition_weight=0.9, strength=None).save(profile, overwrite=True)
    ran = run(*arguments)
    assert ran.code == 1 and "is recorded" in ran.out
    profile.unlink()
    assert mentions(error_line(run(*arguments)), "n1.hypnogram.json", "needs", profile.name)


@pytest.fixture(params=["out.csv", "out.parquet"])
def table(run, tmp_path, request):
    """A decoded table of three nights and one that fails, in another folder than its input."""
    lines = ["id,W,N1,N2,N3,R"]
    for seed in range(3):
        rows = write_night(tmp_path / "night.csv", hours=0.5, seed=seed).read_text().splitlines()[1:]
        lines += [f"n{seed},{row}" for row in rows]
    lines.append("bad,x,0,0,0,1")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "all.csv").write_text("\n".join(lines) + "\n")
    output = tmp_path / "out" / request.param
    output.parent.mkdir()
    assert run("decode", tmp_path / "in" / "all.csv", *PROFILE, "-o", output, "--explain").code == 3
    return output


def rewrite(path, change):
    """Change the rows of a decoded table, dictionaries by column."""
    if path.suffix == ".csv":
        header, *rows = [line.split(",") for line in path.read_text().splitlines()]
        rows = change([dict(zip(header, row, strict=True)) for row in rows])
        path.write_text("\n".join(map(",".join, [header, *(row.values() for row in rows)])) + "\n")
    else:
        held = pq.read_table(path)
        pq.write_table(pa.Table.from_pylist(change(held.to_pylist()), held.schema), path)


def test_a_decoded_table_is_verified_by_either_of_its_names(run, table):
    for path in (table, table.with_name(f"{table.name}.json")):
        ran = run("verify", path, "--json")
        assert failed(ran) == {} and ran.code == 0
    assert ran.json["checks"][-1]["finding"] == "all 180 epochs the same"
    beside = table.with_name(f"{table.name}.nights.tsv")
    beside.write_text(beside.read_text().replace("n1", "n7"))
    assert failed(run("verify", table, "--json")) == {beside.name: f"{beside.name} was changed after writing"}


def swapped(rows):
    rows[70]["stage"] = "W" if rows[70]["stage"] != "W" else "R"
    return rows


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (swapped, ("1 of 180 epochs differ", "night n1, row 71")),
        (lambda rows: rows[:-1], ("1 of 180", "night n2, row 180: nothing now")),
        (lambda rows: rows[:60] + rows[120:], ("night n1, row 61",)),
        (lambda rows: [*rows, rows[0] | {"id": "more"}], ("1 of 181", "night more", "now nothing")),
    ],
)
def test_nights_that_are_changed_cut_lost_or_added_are_found(run, table, change, finding):
    rewrite(table, change)
    found = failed(run("verify", table, "--json"))
    assert list(found) == ["table", "decoded again"]
    assert mentions(found["decoded again"], *finding)


def test_a_damaged_table_or_sidecar_is_no_crash(run, table):
    table.write_bytes(table.read_bytes()[:50])
    assert "decoded again" in failed(run("verify", table, "--json"))
    table.unlink()
    assert mentions(error_line(run("verify", table)), "is missing", "table")
    sidecar = table.with_name(f"{table.name}.json")
    table.write_text("id\n")
    for text in ("[]", '{"stageguard": 7}', '{"stageguard": {"run": {}}}', "{"):
        sidecar.write_text(text)
        assert error_line(run("verify", table)).startswith(f"{sidecar.name}: ")
