"""`stageguard report` of a folder or a table of many nights, and of what is wrong with one."""

from __future__ import annotations

import json
import re
import shutil

import pytest

import pages
from cli_runner import error_line, write_night
from messages import mentions

PROFILE = "human-psg-5"


@pytest.fixture(scope="module")
def decoded(tmp_path_factory):
    """A folder that `decode` wrote of three nights and one that is no night."""
    folder = tmp_path_factory.mktemp("cohort")
    (folder / "nights").mkdir()
    for k in (1, 2, 11):
        write_night(folder / "nights" / f"n{k}.csv", hours=2.5, seed=k)
    (folder / "nights" / "n3.csv").write_text("")
    from stageguard.cli import main

    with pytest.raises(SystemExit):
        main(["decode", str(folder / "nights"), "-p", PROFILE, "-o", str(folder / "out"), "--json"])
    return folder / "out"


@pytest.fixture
def out(decoded, tmp_path):
    """A copy of it."""
    return shutil.copytree(decoded, tmp_path / "out")


def data_of(path):
    (found,) = re.findall(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(found)


def failures(path):
    return {row[0]: row[1] for row in pages.table(pages.read(path.read_text()), "Failures")[1]}


def test_a_folder_becomes_one_page(run, out, tmp_path):
    ran = run("report", out, "-o", tmp_path / "cohort.html")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"\d of 3 nights looks? like expert scoring", ran.out)
    data = data_of(tmp_path / "cohort.html")
    assert sorted(data["ids"]) == ["n1", "n11", "n2"]
    assert failures(tmp_path / "cohort.html") == {
        "n3": "decode: n3.csv: is empty (0 bytes). Was it written completely?"
    }
    stats = {night["id"]: night for night in run("stats", out, "--json").nights}
    for place, (key, *_) in enumerate(data["columns"]):
        for row, name in enumerate(data["ids"]):
            for scoring in ("before", "after"):
                expected = stats[name][scoring][key]
                found = data["values"][scoring][place][row]
                assert found == pytest.approx(expected, abs=6e-4) or (found is None and expected is None)


def test_the_page_lies_in_the_folder_and_is_no_night(run, out):
    assert run("report", out).code == 0
    assert (out / "cohort.report.html").is_file()
    again = run("report", out, "--json")
    assert again.code == 1
    assert "exists already" in again.err
    told = run("report", out, "--json", "--overwrite")
    assert told.cohort["outputs"] == {"html": str(out / "cohort.report.html")}
    assert told.cohort["notes"] == []
    assert [night["ok"] for night in told.nights] == [True] * 3


def test_processes_give_the_same_page(run, out, tmp_path):
    assert run("report", out, "-o", tmp_path / "one.html").code == 0
    assert run("report", out, "-o", tmp_path / "two.html", "--jobs", "2").code == 0
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_nights_are_linked_to_their_own_pages(run, out, tmp_path):
    (out / "n1.report.html").write_text("")
    (out / "n2.html").write_text("")
    assert run("report", out, "-o", tmp_path / "cohort.html").code == 0
    data = data_of(tmp_path / "cohort.html")
    links = dict(zip(data["ids"], data["links"], strict=True))
    assert links == {"n1": "./out/n1.report.html", "n2": "./out/n2.html", "n11": None}


def test_experts_and_groups_come_as_in_stats(run, out, tmp_path):
    (tmp_path / "experts").mkdir()
    for path in out.glob("*.hypnogram.tsv"):
        stages = [line.split("\t")[2] for line in path.read_text().splitlines()[1:]]
        (tmp_path / "experts" / f"{path.name.split('.')[0]}.txt").write_text("\n".join(stages) + "\n")
    (tmp_path / "groups.tsv").write_text("id\tgroup\nn1\tyoung\nn2\told\nn11\told\nn99\told\n")
    page = tmp_path / "cohort.html"
    ran = run("report", out, "-o", page, "--by", tmp_path / "groups.tsv", "--expert", tmp_path / "experts")
    assert ran.code == 0, ran.err
    data = data_of(page)
    kappa = [key for key, *_ in data["columns"]].index("kappa")
    assert data["values"]["after"][kappa] == [1.0] * 3  # the experts are the decoded stages
    assert data["groups"] == ["young", "old"]
    text = page.read_text()
    assert "young (n = 1) minus old (n = 2)" in text
    assert mentions(text, "among", "n99")


def test_a_table_of_many_nights_becomes_one_page(run, tmp_path):
    rows = []
    for k in (1, 2):
        head, *lines = write_night(tmp_path / "n.csv", hours=2.5, seed=k).read_text().splitlines()
        rows += [f"p {k},{line}" for line in lines]
    (tmp_path / "n.csv").unlink()
    (tmp_path / "cohort.csv").write_text("\n".join([f"id,{head}", *rows]) + "\n")
    assert run("decode", tmp_path / "cohort.csv", "-p", PROFILE, "-o", tmp_path / "out.csv").code == 0
    assert run("report", tmp_path / "out.csv").code == 0
    data = data_of(tmp_path / "out.csv.report.html")
    assert sorted(data["ids"]) == ["p 1", "p 2"]
    assert all(data["judged"])
    assert run("report", tmp_path / "cohort.csv", "-p", PROFILE, "-o", tmp_path / "now.html").code == 0
    now = data_of(tmp_path / "now.html")
    assert [now[key] for key in ("ids", "spark", "outside")] == [
        data[key] for key in ("ids", "spark", "outside")
    ]


def test_bad_files_are_rows_and_the_others_go_on(run, out, tmp_path):
    cut = (out / "n1.hypnogram.tsv").read_text().splitlines()[:40]
    (out / "n1.hypnogram.tsv").write_text("\n".join(cut) + "\n")  # half written
    (out / "n2.hypnogram.json").write_text("{")  # a sidecar nobody can read
    (out / "<b>.hypnogram.tsv").write_bytes(b"\x00\xff")
    (out / "failures.tsv").write_bytes(b"\xff\xfe\x00")
    page = tmp_path / "cohort.html"
    ran = run("report", out, "-o", page)
    assert ran.code == 3
    assert "3 of 4 files failed" in ran.err
    found = failures(page)
    assert sorted(found) == ["<b>", "n1", "n2"]
    assert data_of(page)["ids"] == ["n11"]
    assert mentions(page.read_text(), "failures.tsv", "cannot be read")


def test_what_is_no_cohort_is_one_line(run, out, tmp_path):
    (tmp_path / "empty").mkdir()
    page = tmp_path / "cohort.html"
    assert mentions(
        error_line(run("report", tmp_path / "empty", "-o", page)), "no hypnograms or", "probabilities"
    )
    (tmp_path / "empty" / "notes.txt").write_text("nothing here\n")
    assert "holds no hypnograms" in error_line(run("report", tmp_path / "empty", "-o", page))
    (tmp_path / "one.tsv").write_text("id\tgroup\nn1\ta\nn2\ta\n")
    line = error_line(run("report", out, "-o", page, "--by", tmp_path / "one.tsv"))
    assert mentions(line, "'a'", "groups")
    assert not page.exists()


def test_no_input_is_written_over(run, out):
    ran = run("report", out, "-o", out / "n1.hypnogram.tsv", "--overwrite")
    assert ran.code == 1
    assert (out / "n1.hypnogram.tsv").read_text().startswith("onset")
