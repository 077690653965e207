"""Partitioned Parquet in, partitioned Parquet out: the same nights, whoever decodes them, or nothing."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line
from messages import mentions
from nights import decode as decode_quietly
from stageguard.errors import OutputError, OutputExistsError
from stageguard.formats import cohort as tables
from stageguard.runner import decode_table as runs

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
PROFILE = "human-psg-5"
STAGES = ("W", "N1", "N2", "N3", "R")


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(tables, "BLOCK_ROWS", 40)
    monkeypatch.setattr(tables, "CHUNK_ROWS", 50)


def write_dataset(folder: Path, sites="AB", n_nights: int = 4) -> dict[str, np.ndarray]:
    """Write two files per site whose border falls within a night; return the nights by id."""
    rng, nights = np.random.default_rng(3), dict[str, np.ndarray]()
    for site in sites:
        of_site = {f"{site}{i}": rng.dirichlet(np.full(5, 0.4), 50 + 7 * i) for i in range(n_nights)}
        ids = [name for name, night in of_site.items() for _ in range(len(night))]
        columns = dict(zip(STAGES, np.concatenate([*of_site.values()]).T, strict=True))
        table = pa.table({"id": ids, **columns})
        (folder / f"site={site}").mkdir(parents=True)
        for part, rows in enumerate((table.slice(0, 70), table.slice(70))):
            pq.write_table(rows, folder / f"site={site}" / f"part-{part}.parquet", row_group_size=60)
        nights |= of_site
    return nights


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stages_of(output: Path) -> dict[str, list[str]]:
    rows = pq.read_table(output).to_pylist()
    stages: dict[str, list[str]] = {}
    for row in rows:
        stages.setdefault(row["id"], []).append(row["stage"])
    return stages


def test_a_partitioned_dataset_becomes_one_with_the_same_partitions(run, tmp_path, small_chunks):
    nights = write_dataset(tmp_path / "data")
    ran = run("decode", tmp_path / "data", "-p", PROFILE, "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "8 nights: 8 decoded." in ran.out
    assert {path.parent.name for path in (tmp_path / "out").rglob("*.parquet")} == {"site=A", "site=B"}
    table = pq.read_table(tmp_path / "out")
    sites = dict(zip(table["id"].to_pylist(), table["site"].to_pylist(), strict=True))
    assert sites == {name: name[0] for name in nights}
    expected = {name: decode_quietly(night, PROFILE).stages.tolist() for name, night in nights.items()}
    assert stages_of(tmp_path / "out") == expected
    assert {path.name for path in tmp_path.iterdir()} == {"data", "out", "out.json", "out.nights.tsv"}
    record = json.loads((tmp_path / "out.json").read_text())["stageguard"]
    assert record["table"]["n_nights"] == 8
    assert [file["file"] for file in record["table"]["files"]] == sorted(contents(tmp_path / "out"))


def test_one_file_on_request_has_the_same_rows(tmp_path, small_chunks):
    write_dataset(tmp_path / "data")
    sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "out")
    result = sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "one.parquet")
    assert stages_of(tmp_path / "one.parquet") == stages_of(tmp_path / "out")
    assert set(result.nights["file"]) <= {f"site={s}/part-{n}.parquet" for s in "AB" for n in (0, 1)}
    files = sorted((tmp_path / "data").rglob("*.parquet"))
    again = sg.decode_cohort(files, PROFILE, tmp_path / "listed.parquet")
    assert again.nights["id"].tolist() == result.nights["id"].tolist()
    assert (tmp_path / "listed.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


def test_processes_and_executors_write_what_one_process_does(run, tmp_path, small_chunks):
    nights = write_dataset(tmp_path / "data")
    path = tmp_path / "data" / "site=B" / "part-1.parquet"
    table = pq.ParquetFile(path).read()
    wrong = [
        7.0 if name == "B2" else value.as_py()
        for name, value in zip(table["id"].to_pylist(), table["W"], strict=True)
    ]
    table = table.set_column(table.schema.get_field_index("W"), "W", pa.array(wrong))
    pq.write_table(table, path, row_group_size=60)
    one = sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "1" / "out")
    assert [failure["id"] for failure in one.failures] == ["B2"]
    assert one.n_nights == len(nights)
    sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "2" / "out", jobs=2)
    with ProcessPoolExecutor(2) as executor:
        sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "3" / "out", scheduler=executor)
    assert contents(tmp_path / "1") == contents(tmp_path / "2") == contents(tmp_path / "3")


def test_an_id_in_two_places_is_one_line_that_names_both(run, tmp_path, small_chunks):
    write_dataset(tmp_path / "data", "A")
    (tmp_path / "data" / "site=C").mkdir()
    copy = tmp_path / "data" / "site=C" / "x.parquet"
    copy.write_bytes((tmp_path / "data" / "site=A" / "part-0.parquet").read_bytes())
    ran = run("decode", tmp_path / "data", "-p", PROFILE, "-o", tmp_path / "out")
    assert ran.code == 1
    line = error_line(ran)
    assert mentions(line, "'A0' begins again", "row 1 of site=C/x.parquet", "row 1 of site=A/part-0.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_partition_is_no_stage(run, tmp_path):
    nights = write_dataset(tmp_path / "data", "A")
    (tmp_path / "data" / "site=A").rename(tmp_path / "data" / "N1=0.7")
    ran = run("decode", tmp_path / "data", "-p", PROFILE, "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    stages = decode_quietly(nights["A1"], PROFILE).stages.tolist()
    assert stages_of(tmp_path / "out")["A1"] == stages


def write_cut_nights(folder: Path) -> dict[str, np.ndarray]:
    """Write three nights to six files, each the half of a night."""
    nights = {f"p{k}": np.random.default_rng(k).dirichlet(np.full(5, 0.4), 80) for k in range(3)}
    folder.mkdir()
    for number, (name, night) in enumerate(nights.items()):
        for half, rows in enumerate((night[:40], night[40:])):
            table = pa.table({"id": [name] * 40, **dict(zip(STAGES, rows.T, strict=True))})
            pq.write_table(table, folder / f"part-{2 * number + half}.parquet")
    return nights


def test_files_that_share_a_night_are_one_dataset_if_the_output_is_one_table(tmp_path):
    nights = write_cut_nights(tmp_path / "data")
    expected = {name: decode_quietly(night, PROFILE).stages.tolist() for name, night in nights.items()}
    sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "out.parquet")
    assert stages_of(tmp_path / "out.parquet") == expected
    files = sorted((tmp_path / "data").iterdir())
    for source in (tmp_path / "data", files):
        with pytest.raises(sg.FileFormatError, match=r"part-1.parquet: has the id of a file before it"):
            sg.decode_cohort(source, PROFILE, tmp_path / "out")
    pq.write_table(pa.concat_tables(map(pq.read_table, files[:3])), files[0])
    files[1].unlink()
    files[2].unlink()
    sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "out")
    assert stages_of(tmp_path / "out") == expected


def test_halves_of_a_night_are_in_natural_order_however_they_are_named(tmp_path):
    night = np.random.default_rng(1).dirichlet(np.full(5, 0.4), 80)
    for number, rows in ((9, night[:40]), (10, night[40:])):
        table = pa.table({"id": ["p"] * 40, **dict(zip(STAGES, rows.T, strict=True))})
        pq.write_table(table, tmp_path / f"part-{number}.parquet")
    files = sorted(tmp_path.iterdir())  # as a shell sorts them
    assert files[0].name == "part-10.parquet"
    sg.decode_cohort(files, PROFILE, tmp_path / "out.parquet")
    assert stages_of(tmp_path / "out.parquet") == {"p": decode_quietly(night, PROFILE).stages.tolist()}


def test_empty_files_and_a_first_file_of_one_night_hide_no_dataset(tmp_path):
    nights = write_dataset(tmp_path / "data", "A")
    folder = tmp_path / "data" / "site=A"
    table = pa.concat_tables(pq.ParquetFile(path).read() for path in sorted(folder.iterdir()))
    flat = tmp_path / "flat"
    flat.mkdir()
    for number, rows in enumerate((table.slice(0, 50), table.slice(0, 0), table.slice(50))):
        pq.write_table(rows, flat / f"part-{number}.parquet")
    result = sg.decode_cohort(flat, PROFILE, tmp_path / "out")
    assert result.nights["id"].tolist() == list(nights)


def test_files_of_one_night_each_become_one_table_on_request(tmp_path):
    nights = write_cut_nights(tmp_path / "data")
    for number in range(3):
        (tmp_path / "data" / f"part-{2 * number}.parquet").unlink()
    result = sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "out.parquet")
    assert result.nights["id"].tolist() == list(nights)
    as_files = sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "out")
    assert as_files.nights["id"].tolist() == ["part-1", "part-3", "part-5"]


def test_two_folders_are_one_dataset(tmp_path):
    nights = write_dataset(tmp_path / "data")
    folders = [tmp_path / "data" / "site=A", tmp_path / "data" / "site=B"]
    result = sg.decode_cohort(folders, PROFILE, tmp_path / "out")
    assert result.nights["id"].tolist() == list(nights)


def test_nights_beside_a_dataset_are_not_left_out_in_silence(run, tmp_path):
    write_dataset(tmp_path / "data")
    sg.simulate_night(PROFILE, hours=1, seed=1).density.save(tmp_path / "data" / "n1.csv")
    (tmp_path / "data" / "README.md").write_text("Three nights.\n")
    ran = run("decode", tmp_path / "data", "-p", PROFILE, "-o", tmp_path / "out")
    assert ran.code == 1
    assert mentions(error_line(ran), "other nights (n1.csv)")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    (tmp_path / "data" / "n1.csv").unlink()
    assert run("decode", tmp_path / "data", "-p", PROFILE, "-o", tmp_path / "out").code == 0


@pytest.mark.parametrize("where", ["in the middle", "when all is in place"])
def test_a_killed_run_goes_on_and_ends_equal(tmp_path, small_chunks, monkeypatch, where):
    write_dataset(tmp_path / "data")
    sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "whole" / "out")
    put, decode, nights = runs.TableSource._put, runs.decode, count()

    def killed(*arguments, **options):
        if where == "in the middle":
            if next(nights) == 4:
                raise KeyboardInterrupt
            return decode(*arguments, **options)
        put(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        is_early = where == "in the middle"
        patch.setattr(*((runs, "decode") if is_early else (runs.TableSource, "_put")), killed)
        with pytest.raises(KeyboardInterrupt):
            sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "cut" / "out")
    assert (tmp_path / "cut" / "out").exists() != is_early
    assert not (tmp_path / "cut" / "out.json").exists()
    result = sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "cut" / "out")
    assert (result.n_before, result.n_decoded) == ((4, 4) if is_early else (8, 0))
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_the_same_call_again_has_nothing_to_do_and_another_is_refused(tmp_path):
    write_dataset(tmp_path / "data")
    source, output = tmp_path / "data", tmp_path / "out"
    first = sg.decode_cohort(source, PROFILE, output)
    again = sg.decode_cohort(source, PROFILE, output)
    assert (again.n_before, again.n_decoded) == (8, 0)
    assert again.nights["id"].tolist() == first.nights["id"].tolist()
    with pytest.raises(OutputExistsError, match="the profile human-psg-5"):
        sg.decode_cohort(source, "human-psg-3", output)
    before = contents(output)
    table = pq.ParquetFile(source / "site=A" / "part-0.parquet").read()
    pq.write_table(table, source / "site=A" / "part-0.parquet", row_group_size=50)
    with pytest.raises(OutputExistsError, match="data has changed since"):
        sg.decode_cohort(source, PROFILE, output)
    assert contents(output) == before
    assert sg.decode_cohort(source, PROFILE, output, overwrite=True).n_decoded == 8
    next(output.rglob("*.parquet")).unlink()
    with pytest.raises(OutputExistsError, match="was changed after"):
        sg.decode_cohort(source, PROFILE, output)


def test_a_folder_of_somebody_else_is_never_replaced(tmp_path):
    write_dataset(tmp_path / "data")
    (tmp_path / "out").mkdir()
    assert sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "out").n_decoded == 8  # it was empty
    (tmp_path / "out" / "mine.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(OutputError):
            sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "out", strength=1, overwrite=overwrite)
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def test_a_dataset_within_its_input_is_refused(tmp_path):
    write_dataset(tmp_path / "data")
    before = contents(tmp_path)
    outputs = [tmp_path / "data" / "out", tmp_path / "data" / "out.csv", tmp_path / "data", tmp_path]
    for output in outputs:
        with pytest.raises(OutputError, match="Choose another folder"):
            sg.decode_cohort(tmp_path / "data", PROFILE, output)
    assert contents(tmp_path) == before


def test_files_of_a_dataset_may_lie_beside_its_output_but_are_not_replaced(tmp_path):
    write_cut_nights(tmp_path / "data")
    files = sorted((tmp_path / "data").iterdir())
    before = contents(tmp_path)
    with pytest.raises(OutputError, match="Choose another folder"):
        sg.decode_cohort(files, PROFILE, files[3], overwrite=True)
    assert contents(tmp_path) == before
    assert sg.decode_cohort(files, PROFILE, tmp_path / "data" / "out.parquet").n_decoded == 3


def test_single_nights_of_a_dataset_and_an_unknown_one(tmp_path, small_chunks):
    write_dataset(tmp_path / "data")
    result = sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "some", only=["A1", "B3"])
    assert result.nights["id"].tolist() == ["A1", "B3"]
    assert [*stages_of(tmp_path / "some")] == ["A1", "B3"]
    with pytest.raises(sg.FileFormatError, match="no night 'Z'"):
        sg.decode_cohort(tmp_path / "data", PROFILE, tmp_path / "none", only=["A1", "Z"])
    assert {path.name for path in tmp_path.iterdir()} == {"data", "some", "some.json", "some.nights.tsv"}


def test_a_decoded_dataset_is_verified_and_a_changed_one_is_not(run, tmp_path, small_chunks):
    write_dataset(tmp_path / "data")
    assert run("decode", tmp_path / "data", "-p", PROFILE, "-o", tmp_path / "out", "--explain").code == 0
    ran = run("verify", tmp_path / "out")
    assert ran.code == 0, ran.out + ran.err
    part = next((tmp_path / "out").rglob("*.parquet"))
    table = pq.ParquetFile(part).read()
    pq.write_table(table.slice(1), part)
    ran = run("verify", tmp_path / "out")
    assert ran.code == 1
    assert mentions(ran.out + ran.err, "changed after writing")
