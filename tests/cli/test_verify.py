"""`stageguard verify`: the same again, or what differs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stageguard as sg
from cli_runner import Runner, error_line, write_night
from messages import mentions
from stageguard.formats.outputs import sidecar_sha256


@pytest.fixture
def run(capsys):
    return Runner(capsys)


@pytest.fixture
def decoded(run, tmp_path):
    night = write_night(tmp_path / "night.csv")
    assert run("decode", night, "-p", "human-psg-5").code == 0
    return tmp_path


def failed(ran) -> dict[str, str]:
    return {check["name"]: check["finding"] for check in ran.json["checks"] if not check["ok"]}


@pytest.mark.parametrize("name", ["night.hypnogram.tsv", "night.hypnogram.json"])
def test_an_untouched_output_is_verified(run, decoded, name):
    ran = run("verify", decoded / name)
    assert ran.code == 0
    assert f"{name}: verified" in ran.out
    assert "all 240 epochs the same" in ran.out


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


def test_an_output_whose_cohort_stopped_the_clock_is_verified(run, tmp_path):
    night = write_night(tmp_path / "night.csv")
    assert run("decode", night, "-p", "human-psg-5", "--cohort", "narcolepsy").code == 0
    ran = run("verify", tmp_path / "night.hypnogram.tsv", "--json")
    assert failed(ran) == {}
    assert ran.json["notes"] == []
    ran = run("decode", night, "-p", "human-psg-5")
    assert ran.code == 1
    assert mentions(ran.err, "decoded", "with other options")


def test_an_edited_table_is_found_with_its_epochs(run, decoded):
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
    assert found["decoded again"].startswith(f"1 of 240 epochs differ (epoch 11: {cells[2]} now ")


def test_another_input_is_found(run, decoded):
    write_night(decoded / "night.csv", seed=9)
    ran = run("verify", decoded / "night.hypnogram.tsv", "--json")
    assert ran.code == 1
    found = failed(ran)
    assert "is recorded" in found["input"]
    assert "of 240 epochs differ" in found["decoded again"]
    assert "and " in found["decoded again"]


def test_an_edited_profile_is_found(run, decoded):
    path = decoded / "night.hypnogram.json"
    content = json.loads(path.read_text())
    content["stageguard"]["profile"]["definition"]["strength"]["fi_target"] = 0.02
    path.write_text(json.dumps(content))
    ran = run("verify", path)
    assert ran.code == 1
    assert "DIFFERS" in ran.out
    assert "is recorded" in ran.out
    assert "NOT verified" in ran.out


def test_a_newer_installed_profile_is_only_noted(run, decoded, monkeypatch):
    from stageguard.runner import verify as verification

    class Newer:
        from_dict = verification.Profile.from_dict

        @staticmethod
        def load(name):
            return _verification_profile.replace(summary="newer")

    _verification_profile = verification.Profile.load("human-psg-5")
    monkeypatch.setattr(verification, "Profile", Newer)
    ran = run("verify", decoded / "night.hypnogram.tsv")
    assert ran.code == 0
    assert mentions(ran.out, "'human-psg-5'", "installed")


def test_the_input_may_be_elsewhere(run, decoded):
    moved = decoded / "elsewhere.csv"
    (decoded / "night.csv").rename(moved)
    ran = run("verify", decoded / "night.hypnogram.tsv", "--json")
    assert ran.code == 1
    assert failed(ran)["input"].endswith("night.csv not found. Name it with --input.")
    assert run("verify", decoded / "night.hypnogram.tsv", "--input", moved).code == 0


def test_a_recorded_name_cannot_point_elsewhere(run, decoded):
    path = decoded / "night.hypnogram.json"
    content = json.loads(path.read_text())
    content["stageguard"]["input"]["file"] = "../../../../etc/passwd"
    path.write_text(json.dumps(content))
    assert (
        failed(run("verify", path, "--json"))["input"]
        == f"{decoded / 'passwd'} not found. Name it with --input."
    )


def test_what_is_no_output_is_one_line(run, decoded):
    line = error_line(run("verify", decoded / "night.csv"))
    assert mentions(line, "night.csv", "output", "decode", "hypnogram.tsv")
    (decoded / "night.hypnogram.json").unlink()
    line = error_line(run("verify", decoded / "night.hypnogram.tsv"))
    assert line.startswith("night.hypnogram.json: is missing")


@pytest.mark.parametrize("part", ["profile", "input", "options", "hypnogram"])
def test_an_incomplete_sidecar_is_one_line(run, decoded, part):
    path = decoded / "night.hypnogram.json"
    content = json.loads(path.read_text())
    content["stageguard"][part] = 7
    path.write_text(json.dumps(content))
    assert mentions(error_line(run("verify", path)), "night.hypnogram.json", "incomplete or was")


def edit(path, change):
    content = json.loads(path.read_text())
    change(content["stageguard"])
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pins", {"abc": "R"}),
        ("pins", [1]),
        ("epoch_seconds", "x"),
        ("stages", 5),
        ("pins", {"9" * 4000: "R"}),
    ],
)
def test_malformed_values_of_a_record_are_one_line(run, decoded, key, value):
    path = decoded / "night.hypnogram.json"
    edit(path, lambda own: own["options"].update({key: value}))
    for command in ("verify", "report"):
        ran = run(command, path)
        assert ran.code == 1, (ran.out, ran.err)
        assert len(ran.err.splitlines()) <= 1
        assert "unexpected" not in ran.err


def test_a_recorded_name_that_no_file_can_have_is_said_to_be_edited(run, decoded):
    path = decoded / "night.hypnogram.json"
    edit(path, lambda own: own["input"].update(file="x" * 5000))
    assert mentions(error_line(run("verify", path)), "night.hypnogram.json", "it was edited")


def test_malformed_pins_are_said_to_be_edited(run, decoded):
    path = decoded / "night.hypnogram.json"
    edit(path, lambda own: own["options"].update(pins={"abc": "R"}))
    line = error_line(run("verify", path))
    assert mentions(line, "night.hypnogram.json", "incomplete or was")


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda own: own["hypnogram"].update(n_epochs=7), ("n_epochs", 240, 7)),
        (lambda own: own["hypnogram"].update(epoch_seconds=20), ("epoch_seconds", 30, 20)),
        (lambda own: own.update(n_changed=-1), ("n_changed is ",)),
        (lambda own: own.update(n_changed="many"), ("many is recorded",)),
        (lambda own: own.update(n_filled=3), ("n_filled", 0, 3)),
        (lambda own: own.update(score=own["score"] + 1e-3), ("score is ",)),
        (lambda own: own.update(score=None), ("None is recorded",)),
    ],
)
def test_the_sidecars_own_numbers_are_checked(run, decoded, change, finding):
    path = decoded / "night.hypnogram.json"
    edit(path, change)
    ran = run("verify", path, "--json")
    assert ran.code == 1
    assert list(failed(ran)) == ["sidecar", "record"]
    assert mentions(failed(ran)["record"], *finding)


def test_a_score_that_differs_by_rounding_is_the_same(run, decoded):
    path = decoded / "night.hypnogram.json"
    edit(path, lambda own: own.update(score=own["score"] + 1e-9))
    content = json.loads(path.read_text())
    content["stageguard"]["sha256"] = sidecar_sha256(content)  # as another processor would have written it
    path.write_text(json.dumps(content))
    assert run("verify", path).code == 0


@pytest.fixture
def full(run, tmp_path):
    """An output with everything beside it, in another folder than its input."""
    for name in ("in", "moved"):
        (tmp_path / name).mkdir()
    night = write_night(tmp_path / "in" / "night.csv")
    ran = run("decode", night, "-p", "human-psg-5", "-o", tmp_path / "out", "--svg", "--explain")
    assert ran.code == 0
    return tmp_path / "out" / "night.hypnogram.json"


def test_the_input_is_found_from_another_folder(run, full, tmp_path):
    assert run("verify", full, "--json").json["ok"] is True
    shutil.move(tmp_path / "in", tmp_path / "moved" / "in")
    shutil.move(tmp_path / "out", tmp_path / "moved" / "out")
    assert run("verify", tmp_path / "moved" / "out" / full.name, "--json").json["ok"] is True


@pytest.mark.parametrize("suffix", [".hypnogram.svg", ".changes.tsv"])
def test_an_edited_or_missing_companion_is_named(run, full, suffix):
    path = full.with_name("night" + suffix)
    path.write_text(path.read_text() + " ")
    assert failed(run("verify", full, "--json")) == {path.name: f"{path.name} was changed after writing"}
    path.unlink()
    assert failed(run("verify", full, "--json")) == {path.name: f"{path.name} is missing"}


def test_nights_of_a_cohort_share_their_profile_and_are_verified_where_they_are_moved(run, tmp_path):
    (tmp_path / "nights").mkdir()
    for seed in (1, 2):
        write_night(tmp_path / "nights" / f"n{seed}.csv", hours=1, seed=seed)
    assert run("decode", tmp_path / "nights", "-p", "human-psg-5", "-o", tmp_path / "out").code == 0
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    (profile,) = moved.glob("profile-*.toml")
    sidecar = moved / "n1.hypnogram.json"
    assert "definition" not in json.loads(sidecar.read_text())["stageguard"]["profile"]
    assert sidecar.stat().st_size < 8_000
    arguments = ("verify", moved / "n1.hypnogram.tsv", "--input", tmp_path / "nights" / "n1.csv")
    assert run(*arguments).code == 0
    assert run("stats", moved).code == 0
    sg.Profile.load(profile).replace(transition_weight=0.9, strength=None).save(profile, overwrite=True)
    ran = run(*arguments)
    assert ran.code == 1
    assert "is recorded" in ran.out
    profile.unlink()
    ran = run(*arguments)
    assert ran.code == 1
    assert mentions(ran.err, "n1.hypnogram.json", "needs", profile.name)


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
    assert (
        run("decode", tmp_path / "in" / "all.csv", "-p", "human-psg-5", "-o", output, "--explain").code == 1
    )
    assert output.is_file()
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


def swapped(rows):
    rows[70]["stage"] = "W" if rows[70]["stage"] != "W" else "R"
    return rows


def test_a_decoded_table_is_verified_by_either_of_its_names(run, table):
    for path in (table, table.with_name(f"{table.name}.json")):
        ran = run("verify", path, "--json")
        assert failed(ran) == {}
        assert ran.code == 0
    (again,) = (check for check in ran.json["checks"] if check["name"] == "decoded again")
    assert again["finding"] == "all 180 epochs of 3 nights the same"
    assert [c["name"] for c in ran.json["checks"]][-4:] == [
        *(f"{table.name}.{what}.tsv" for what in ("nights", "failures", "changes")),
        "record",
    ]


def test_each_night_of_a_table_that_differs_is_a_line(run, table):
    rewrite(table, swapped)
    ran = run("verify", table, "--json")
    assert ran.code == 1
    found = failed(ran)
    assert list(found) == ["table", "night n1"]
    assert mentions(found["night n1"], 1, "60 epochs", 11)


@pytest.mark.parametrize(
    ("change", "name", "finding"),
    [
        (lambda rows: rows[:-1], "night n2", ("60 epochs", 59, "written")),
        (lambda rows: rows[:60] + rows[120:], "night n1", ("'n2'",)),
        (lambda rows: rows[:120], "night n2", ("stands in its", "place")),
        (lambda rows: [*rows, rows[0] | {"id": "more"}], "night more", ("input", "does not give")),
    ],
)
def test_nights_that_are_cut_lost_or_added_are_named(run, table, change, name, finding):
    rewrite(table, change)
    found = failed(run("verify", table, "--json"))
    assert mentions(found[name], *finding)


def test_another_input_of_a_table_and_an_edited_table_beside_it_are_found(run, table, tmp_path):
    beside = table.with_name(f"{table.name}.nights.tsv")
    written = beside.read_text()
    beside.write_text(written.replace("n1", "n7"))
    assert failed(run("verify", table, "--json")) == {beside.name: f"{beside.name} was changed after writing"}
    source = tmp_path / "in" / "all.csv"
    moved = source.rename(tmp_path / "moved.csv")
    assert "not found" in failed(run("verify", table, "--json"))["input"]
    assert beside.name in failed(run("verify", table, "--input", moved, "--json"))
    beside.write_text(written)
    assert run("verify", table, "--input", moved).code == 0
    moved.write_text(moved.read_text().replace("bad,x", "bad,0"))
    found = failed(run("verify", table, "--input", moved, "--json"))
    assert list(found) == ["input", "night bad", "record"]


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
