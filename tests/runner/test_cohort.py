"""`sg.decode_cohort`: `stageguard decode` as a call, with the same files and the same failures."""

from __future__ import annotations

import csv
import logging
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner
from messages import naming
from nights import decode as decode_quietly

PROFILE = "human-psg-5"
STAGES = "W,N1,N2,N3,R"


def write_nights(folder: Path, n: int, n_epochs: int = 60) -> dict[str, np.ndarray]:
    """Write nights as CSV files, and return their probabilities by name."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    nights = {f"n{i}": rng.dirichlet(np.full(5, 0.4), n_epochs) for i in range(n)}
    for name, night in nights.items():
        rows = [",".join(map(repr, row)) for row in night.tolist()]
        (folder / f"{name}.csv").write_text("\n".join([STAGES, *rows]) + "\n")
    return nights


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_decoded_as_by_the_command(tmp_path, capsys):
    nights = write_nights(tmp_path / "nights", 3)
    seen = []
    result = sg.decode_cohort(
        tmp_path / "nights", PROFILE, tmp_path / "called", on_night=lambda *night: seen.append(night)
    )
    assert Runner(capsys)("decode", tmp_path / "nights", "-p", PROFILE, "-o", tmp_path / "typed").code == 0
    assert contents(tmp_path / "called") == contents(tmp_path / "typed")
    assert seen == [(name, None) for name in nights]
    assert result.nights["id"].tolist() == [*nights]
    changed = [decode_quietly(night, PROFILE).changed.sum() for night in nights.values()]
    assert result.nights["n_changed"].tolist() == changed
    assert [row["id"] for row in result.rows] == [*nights]
    assert (result.n_decoded, result.n_before, result.failures) == (3, 0, ())
    assert {path.name for path in result.written} == {"cohort.tsv", "methods.md"}
    assert str(result) == "3 nights: 3 decoded"


def test_the_columns_of_the_result_are_those_of_the_table_that_is_written(tmp_path):
    write_nights(tmp_path / "nights", 2)
    result = sg.decode_cohort(tmp_path / "nights", PROFILE, tmp_path / "out")
    with (tmp_path / "out" / "cohort.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [*rows[0]] == [*result.nights]
    for row, made in zip(rows, result.rows, strict=True):
        assert float(row["fi_after"]) == pytest.approx(made["fi_after"], rel=1e-5)
    pandas = pytest.importorskip("pandas")
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame) and frame.shape == (2, len(rows[0]))


def test_the_same_call_again_has_nothing_to_do(tmp_path):
    write_nights(tmp_path / "nights", 2)
    first, again = (sg.decode_cohort(tmp_path / "nights", PROFILE, tmp_path / "out") for _ in range(2))
    assert (again.n_decoded, again.n_before) == (0, 2)
    assert again.nights["fi_after"].tolist() == first.nights["fi_after"].tolist()
    assert again != first
    assert again == sg.decode_cohort(tmp_path / "nights", PROFILE, tmp_path / "out")


def test_a_night_that_fails_is_told_of_and_the_others_go_on(tmp_path):
    write_nights(tmp_path / "nights", 2)
    (tmp_path / "nights" / "bad.csv").write_text(f"{STAGES}\n1,1,1,1,1\n")
    seen = dict[str, str | None]()
    result = sg.decode_cohort(
        tmp_path / "nights",
        PROFILE,
        tmp_path / "out",
        on_night=lambda name, error: seen.update({name: error}),
    )
    (failure,) = result.failures
    assert failure["id"] == "bad" and failure["error"].startswith("bad.csv")
    assert seen == {"bad": failure["error"], "n0": None, "n1": None}
    assert (result.n_nights, result.n_decoded) == (3, 2)


def test_files_a_list_and_single_nights_of_them_are_sources(tmp_path):
    write_nights(tmp_path / "nights", 3)
    files = [tmp_path / "nights" / f"n{i}.csv" for i in (0, 1)]
    assert sg.decode_cohort(files, PROFILE, tmp_path / "a").nights["id"].tolist() == ["n0", "n1"]
    samples = tmp_path / "samples.tsv"
    samples.write_text("id\tprobabilities\nx\tnights/n0.csv\ny\tnights/n2.csv\n")
    listed = sg.decode_cohort(str(samples), PROFILE, tmp_path / "b", only=["y"])
    assert listed.nights["id"].tolist() == ["y"]
    with pytest.raises(sg.InputError, match=naming("only", "no such night", "x, y")):
        sg.decode_cohort(samples, PROFILE, tmp_path / "b", only=["z"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"source": 3}, ("source",)),
        ({"source": []}, ("Missing",)),
        ({"profile": 3}, ("profile",)),
        ({"profile": "human-psg-55"}, ("human-psg-55",)),
        ({"output": ""}, ("output",)),
        ({"jobs": -1}, ("jobs",)),
        ({"jobs": 2.5}, ("jobs",)),
        ({"only": "n1"}, ("only", "list")),
        ({"strength": "tune"}, ("strength",)),
        ({"trained": "well"}, ("trained",)),
        ({"explain": "yes"}, ("explain",)),
        ({"scheduler": "nowhere"}, ("scheduler",)),
        ({"scheduler": "local", "wait_minutes": -1}, ("wait_minutes",)),
        ({"output": "out.parquet"}, ("output", "table")),
    ],
)
def test_wrong_arguments_are_one_line_and_nothing_is_written(tmp_path, wrong, words):
    write_nights(tmp_path / "nights", 2)
    arguments = {"source": tmp_path / "nights", "profile": PROFILE, "output": tmp_path / "out"}
    with pytest.raises(sg.StageGuardError) as caught:
        sg.decode_cohort(**(arguments | wrong))
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["nights"]


def write_table(path: Path, nights: dict[str, np.ndarray]) -> Path:
    rows = [f"{name}," + ",".join(map(repr, row)) for name, night in nights.items() for row in night.tolist()]
    path.write_text("\n".join([f"id,{STAGES}", *rows]) + "\n")
    return path


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_nights_of_a_table_are_logged(tmp_path, caplog, jobs):
    nights = {"good": np.full((60, 5), 0.2), "bad": np.arange(300.0).reshape(60, 5)}
    table = write_table(tmp_path / "table.csv", nights)
    caplog.set_level(logging.INFO, logger="stageguard")
    sg.decode_cohort(table, PROFILE, tmp_path / "out.csv", jobs=jobs)
    words = [record.getMessage() for record in caplog.records]
    assert [text for text in words if text.endswith("done")] == ["table.csv, night good done"]
    failed = [record for record in caplog.records if record.getMessage().startswith("failed: ")]
    assert [record.levelname for record in failed] == ["WARNING"]
    assert "night bad" in failed[0].getMessage()


def test_a_store_of_one_process_is_refused_where_others_work(tmp_path):
    pytest.importorskip("upath")
    nights = write_nights(tmp_path / "nights", 2)
    table = write_table(tmp_path / "table.csv", nights)
    for source, output in (
        (tmp_path / "nights", "memory://refused/out"),
        (table, "memory://refused/out.csv"),
    ):
        with pytest.raises(sg.InputError, match=naming("memory://", "one process")):
            sg.decode_cohort(source, PROFILE, output, jobs=2)
        with ThreadPoolExecutor(2) as executor:
            assert sg.decode_cohort(source, PROFILE, output, scheduler=executor).n_decoded == 2
    sg.simulate_night(PROFILE, hours=1, seed=1).density.save("memory://refused/nights/n1.csv")
    with ProcessPoolExecutor(1) as executor, pytest.raises(sg.InputError, match=naming("one process")):
        sg.decode_cohort("memory://refused/nights", PROFILE, tmp_path / "out", scheduler=executor)
