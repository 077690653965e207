"""Names and contents that a terminal would obey, files that never end, and names that are one file."""

from __future__ import annotations

import sys
import unicodedata
import warnings

import pytest

import stageguard as sg
from cli_runner import write_night
from messages import mentions
from stageguard.errors import StageGuardWarning, visible

OBEYED = "\x1b]0;x\x07\x9b31m\u202e"
PROFILE = ("-p", "human-psg-5")


def assert_harmless(ran):
    shown = (ran.out + ran.err).replace("\n", "")
    assert not set(OBEYED[:1] + "\x07\x9b\u202e") & set(shown)
    assert "\\x1b" in shown or "\\u001b" in shown or not shown


@pytest.mark.skipif(sys.platform == "win32", reason="such names are POSIX")
def test_the_name_of_a_file_is_never_obeyed(run, tmp_path):
    night = write_night(tmp_path / f"a{OBEYED}b.csv", hours=1)
    output = tmp_path / f"a{OBEYED}b.hypnogram.tsv"
    for words in (
        ("decode", night, *PROFILE),
        ("decode", night, *PROFILE, "--json"),
        ("decode", night, *PROFILE, "--overwrite", "--cohort", OBEYED),
        ("verify", output),
        ("stats", output),
        ("report", output, "-o", tmp_path / f"{OBEYED}.html"),
        ("convert", night, "--to", "npz"),
        ("decode", night, *PROFILE, "--posterior", "--overwrite"),
        ("profiles", "show", OBEYED),
        ("doctor", "--data", "shhs", tmp_path / OBEYED),
        (OBEYED,),
    ):
        assert_harmless(run(*words))


def test_cells_headers_and_ids_are_never_obeyed(run, tmp_path):
    rows = write_night(tmp_path / "n.csv", hours=1).read_text().split()
    (tmp_path / "more.csv").write_text(
        "\n".join([f"{rows[0]},c{OBEYED}", *(f"{row},q{OBEYED}" for row in rows[1:])]) + "\n"
    )
    (tmp_path / "cell.csv").write_text("\n".join([*rows[:3], f"0,0,0,0,{OBEYED}"]) + "\n")
    (tmp_path / "stage.csv").write_text(f"onset,stage\n0,W\n30,{OBEYED}\n")
    table = [f"id,{rows[0]}", *(f"n{OBEYED},{row}" for row in rows[1:]), f"b{OBEYED},x,0,0,0,1"]
    (tmp_path / "all.csv").write_text("\n".join(table) + "\n")
    for words in (
        ("decode", tmp_path / "more.csv", *PROFILE),
        ("decode", tmp_path / "cell.csv", *PROFILE),
        ("stats", tmp_path / "stage.csv", *PROFILE),
        ("decode", tmp_path / "all.csv", *PROFILE, "-o", tmp_path / "out.csv"),
        ("stats", tmp_path / "all.csv", *PROFILE),
    ):
        assert_harmless(run(*words))


def test_errors_and_warnings_in_python_are_printable(tmp_path):
    (tmp_path / "a.csv").write_text(f"W,N{OBEYED}\n1,0\n")
    with pytest.raises(sg.StageGuardError) as error:
        sg.read_density(tmp_path / "a.csv")
    assert str(error.value).isprintable()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(StageGuardWarning(f"{OBEYED}\n"), stacklevel=1)
    assert str(caught[0].message) == visible(f"{OBEYED}\n") == "\\x1b]0;x\\x07\\x9b31m\\u202e\\n"


def test_names_that_differ_in_how_an_accent_is_written_share_no_output(run, tmp_path):
    nights = [tmp_path / unicodedata.normalize(form, "é.csv") for form in ("NFC", "NFD")]
    for night in nights:
        write_night(night, hours=1)
    if len({path.stat().st_ino for path in nights}) == 1:
        pytest.skip("they are one file on this system")
    ran = run("decode", *nights, *PROFILE, "-o", tmp_path / "out")
    assert ran.code == 3
    assert mentions(" ".join(ran.err.split()), "same output as")
    (tmp_path / "list.tsv").write_text(
        "id\tprobabilities\n" + "".join(f"{night.stem}\t{nights[0]}\n" for night in nights)
    )
    ran = run("decode", "--list", tmp_path / "list.tsv", *PROFILE, "-o", tmp_path / "listed")
    assert ran.code == 3
    assert mentions(" ".join(ran.err.split()), "same output as")


@pytest.mark.parametrize(
    "words",
    [
        ("decode", "a\0b.csv", *PROFILE),
        ("decode", "{night}", "-p", "a\0b.toml"),
        ("decode", "{night}", *PROFILE, "--quality", "a\0b.csv"),
        ("decode", "--list", "a\0b.tsv", *PROFILE),
        ("verify", "a\0b.hypnogram.tsv"),
        ("stats", "a\0b", *PROFILE),
        ("compare", "a\0b.txt", "{night}"),
        ("report", "a\0b.csv", *PROFILE),
        ("convert", "{night}", "--to", "npz", "-o", "a\0b.npz"),
        ("convert", "--average", "a\0b.csv", "{night}", "-o", "c\0d.csv"),
        ("fit", "a\0b", "--expert", "a\0b", "--base", "human-psg-5", "-o", "f.toml"),
        ("doctor", "--data", "shhs", "a\0b"),
        ("simulate", "--output", "a\0b"),
        ("review", "a\0b.csv", *PROFILE),
    ],
    ids=" ".join,
)
def test_a_zero_character_in_an_option_is_one_line(run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    night = write_night(tmp_path / "n.csv", hours=1)
    ran = run(*(word.format(night=night) for word in words))
    assert ran.code in (1, 2), ran.out
    assert ran.err.count("\n") == 1
    assert "unexpected" not in ran.err
