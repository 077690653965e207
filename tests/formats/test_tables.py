"""CSV and TSV in: what is read, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messages import each_mentions, mentions
from stageguard.errors import FileFormatError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density, read_density_file
from stageguard.formats.tables.delimited import even_rows, rows_below

HEADER = "W,N1,N2,N3,R"
ROW = "0.1,0.2,0.3,0.25,0.15"


def write(folder: Path, text: str | bytes, name: str = "night.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(path: Path, **options: object) -> str:
    with pytest.raises(FileFormatError) as caught:
        read_density(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path.name}: ")
    return message.removeprefix(f"{path.name}: ")


@pytest.mark.proves("csv")
def test_columns_are_matched_by_name_not_by_place(tmp_path):
    density = read_density(write(tmp_path, "R,N3,W,N2,N1\n0.5,0.2,0.1,0.15,0.05\n"))
    assert density.scheme.name == "aasm5"
    np.testing.assert_allclose(density.probabilities, [[0.1, 0.05, 0.15, 0.2, 0.5]])
    assert density.source == "night.csv"
    assert density.epoch_seconds == 30.0


@pytest.mark.parametrize(
    ("header", "scheme"),
    [
        ("Prob. W,Prob. N1,Prob. N2,Prob. N3,Prob. REM", "aasm5"),
        ("PP_W,PP_R,PP_NR", "wnr3"),
        ("sleep,wake", "ws2"),
    ],
)
def test_aliases_of_the_field_are_known(tmp_path, header, scheme):
    n_columns = header.count(",") + 1
    row = ",".join(["1"] + ["0"] * (n_columns - 1))
    density = read_density(write(tmp_path, f"{header}\n{row}\n"))
    assert density.scheme.name == scheme


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_delimiter_line_ends_and_byte_order_mark_do_not_matter(tmp_path, mark, newline, bom):
    text = bom + newline.join([HEADER, ROW, ROW]).replace(",", mark) + newline * 2
    density = read_density(write(tmp_path, text))
    np.testing.assert_allclose(density.probabilities, [[0.1, 0.2, 0.3, 0.25, 0.15]] * 2)


def test_other_columns_are_ignored_and_listed(tmp_path):
    text = f',epoch,onset,{HEADER},comment\n0,1,0,{ROW},"a, quoted"\n1,2,30,{ROW},\n'
    found = read_density_file(write(tmp_path, text), FileOptions(epoch_seconds=30))
    assert found.notes == ("columns ignored: (unnamed), comment",)
    np.testing.assert_allclose(found.density.probabilities[1], [0.1, 0.2, 0.3, 0.25, 0.15])


def test_title_lines_above_the_header_are_skipped(tmp_path):
    text = "Hypnogram of night 3\nEpoch,Time,Stage,Prob. W,Prob. N1,Prob. N2,Prob. N3,Prob. REM\n"
    density = read_density(write(tmp_path, text + f"0,0,W,{ROW}\n1,30,N2,{ROW}\n"))
    assert density.n_epochs == 2


def test_an_unknown_epoch_length_is_assumed_aloud(tmp_path):
    found = read_density_file(write(tmp_path, f"{HEADER}\n{ROW}\n"), FileOptions(default_epoch_seconds=4.0))
    assert found.density.epoch_seconds == 4.0
    assert each_mentions(found.notes, ("4 s", "assumed"))


@pytest.mark.parametrize("empty", [",,,,", "nan,nan,NaN,NAN,nan", " , ,, ,", "n/a,NA,null,None,"])
def test_rows_without_numbers_are_epochs_without_evidence(tmp_path, empty):
    density = read_density(write(tmp_path, f"{HEADER}\n{ROW}\n{empty}\n{ROW}\n"))
    assert np.isnan(density.probabilities[1]).all()
    assert density.argmax.tolist() == [2, -1, 2]


def test_decimal_commas_are_read_where_the_delimiter_allows(tmp_path):
    path = write(tmp_path, "W;N;R\n0,25;0,5;0,25\n1;0;0\n")
    found = read_density_file(path, FileOptions(epoch_seconds=30))
    np.testing.assert_allclose(found.density.probabilities, [[0.25, 0.5, 0.25], [1, 0, 0]])
    assert each_mentions(found.notes, ("decimal commas were", "points"))


def test_stages_choose_among_columns_by_name(tmp_path):
    path = write(tmp_path, "N,W,Wake,NR,REM\n7,0.2,9,0.3,0.5\n")
    density = read_density(path, stages=["W", "NR", "REM"])
    np.testing.assert_allclose(density.probabilities, [[0.2, 0.3, 0.5]])


def test_stages_name_the_columns_of_a_file_without_header(tmp_path):
    path = write(tmp_path, "0.2 ,0.3,0.5\n0,0,1\n")
    found = read_density_file(path, FileOptions(stages=("R", "N", "W"), epoch_seconds=30))
    np.testing.assert_allclose(found.density.probabilities, [[0.5, 0.3, 0.2], [1, 0, 0]])
    assert each_mentions(found.notes, ("header", "R, N, W"))


def test_own_stage_names_make_a_custom_scheme(tmp_path):
    density = read_density(write(tmp_path, "wake,light,deep\n1,0,0\n"), stages=["wake", "light", "deep"])
    assert density.scheme.names == ("wake", "light", "deep")
    assert density.scheme.wake == "wake"


def test_logits_and_log_probabilities_become_probabilities(tmp_path):
    probabilities = np.array([[0.7, 0.2, 0.1], [0.05, 0.05, 0.9]])
    rows = [",".join(map(repr, row)) for row in (np.log(probabilities) + 3).tolist()]
    density = read_density(write(tmp_path, "\n".join(["W,N,R", rows[0], ",,", rows[1]])), logits=True)
    np.testing.assert_allclose(density.probabilities[::2], probabilities)
    assert np.isnan(density.probabilities[1]).all()
    rows = ["W,N,R", *(",".join(map(repr, row)) for row in np.log(probabilities).tolist()), "-inf,0,-inf"]
    density = read_density(write(tmp_path, "\n".join(rows)), log=True)
    np.testing.assert_allclose(density.probabilities, [*probabilities, [0, 1, 0]])


def test_a_row_of_minus_infinity_is_no_logits(tmp_path):
    message = refused(write(tmp_path, "W,N,R\n0,1,2\n-inf,-inf,-inf\n"), logits=True)
    assert mentions(message, 1, 3, "finite")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty (0 bytes). Was it written completely?"),
        ("\n \n\n", "holds nothing but blank space. Expected a header such as W,N1,N2,N3,R."),
        (HEADER + "\n", "has a header but no rows. Expected one row per epoch."),
        (f"{ROW}\n{ROW}\n", "has no header: line 1 holds 5 numbers. Add a header with stage names such as "
         "W,N1,N2,N3,R, or name every column in order: --stages W,N1,N2,N3,R."),
        ("subject,age\n1,2\n", "line 1 names no stages (got: subject, age). "
         "Expected a header with stage names such as W,N1,N2,N3,R."),
        ("W,Wake,N,R\n1,0,0,0\n", "columns 'W' and 'Wake' both mean stage W. "
         "Keep one, or say which columns to read with stages (--stages)."),
        (f"epoch,{HEADER}\n0,{ROW}\n1,0.1,0.2,x,0.25,0.15\n",
         "line 3, column 'N2': expected a number, got 'x'."),
        (f"{HEADER}\n{ROW}\n0.5,0.5\n", "line 3 has 2 cells, the header has 5."),
        (f"{HEADER}\n{ROW},0\n", "line 2 has 6 cells, the header has 5."),
        (f"{HEADER}\n{ROW}\n\n{ROW}\n", "line 3 has 0 cells, the header has 5. Every row needs one cell per "
         "column."),
        (f"{HEADER}\n0.1,,0.3,0.25,0.35\n", "line 2, column 'N1': no number, but other stages of this row "
         "have one. Fill it, or leave all stages of the row empty where there is no evidence."),
        (f"{HEADER}\n1_0,0,0,0,0\n", "line 2, column 'W': expected a number, got '1_0'."),
        ("W,N1,N2\n1,0,0\n", "stages W, N1, N2 are not a standard scheme."),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_in_one_line(tmp_path, text, expected):
    assert refused(write(tmp_path, text)).startswith(expected)


def test_bad_rows_are_named_by_index_and_line(tmp_path):
    rows = [ROW] * 118 + ["0.1,0.2,0.1,0.12,0.1"]
    message = refused(write(tmp_path, "\n".join([HEADER, *rows])))
    assert "row 118 (line 120) sums to 0.62, expected 1" in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x1f\x8b\x08\x00", ("data", "CSV", "TSV", "Convert")),
        (b"W,N,R\n\x00\x01\x02", ("binary", "CSV", "TSV")),
        (b"0       X X X", ("EDF", "stageguard stage")),
        (b"W,N,R\n1,0,0\n" + b" " * 9000 + b"\x00",
         ("NUL", 9012, "CSV", "TSV")),
        ("W,N,R\n1,0,0\n".encode("utf-16"), ("UTF-16", "UTF-8")),
        (b"W,N,R,note\n1,0,0,caf\xe9\n", (2, "UTF-8", 20, "UTF-8")),
    ],
)  # fmt: skip
def test_a_file_that_is_not_what_its_name_says(tmp_path, content, expected):
    assert mentions(refused(write(tmp_path, content)), *expected)


CELLS = st.sampled_from(
    ["0", "1", "0.5", ".5", "1e-1", "nan", "", " 0.5 ", "-1", "x", "inf", '"0.5"', "0,5", "1_0", "é"]
)
LINES = st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=6)
HEADERS = st.sampled_from(["W,N,R", "W;N;R", "epoch\tW\tS", "W,W,N", "a,b", "", '"W","S"', "0.5,0.5"])


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=HEADERS, lines=LINES, mark=st.sampled_from(",;\t"), newline=st.sampled_from(["\n", "\r\n"]))
def test_any_table_gives_a_typed_error_or_valid_probabilities(tmp_path, header, lines, mark, newline):
    path = write(tmp_path, newline.join([header, *(mark.join(line) for line in lines)]))
    try:
        density = read_density(path)
    except FileFormatError as error:
        assert str(error).startswith("night.csv: ")
        assert "\n" not in str(error)
        return
    sums = density.probabilities.sum(axis=1)
    assert (np.isnan(sums) | (np.abs(sums - 1) <= 1e-3)).all()
    body = "\n".join(mark.join(line) for line in lines)
    assert density.n_epochs == len(body.rstrip(" \n" if "\t" in header else None).split("\n"))


PLAIN = ["0.5", "1e-3", ".25", "0", "-1", "2.", "0.30000000000000004"]
ODD = st.sampled_from(
    ["", " ", '"', '"0.5"', ",", "\n", "\n\n", ",,", "\t", "x", "nan", "\u00a0", "0.1\n0.1", "#"]
)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.lists(st.sampled_from(PLAIN), min_size=3, max_size=3), max_size=6),
    odd=st.none() | st.tuples(st.integers(0, 200), ODD),
    end=st.sampled_from(["", "\n", "\n\n", "\n,,\n", "\n \n"]),
)
def test_rows_split_at_once_are_those_split_one_by_one(rows, odd, end):
    text = "\n".join(",".join(row) for row in rows) + end
    if odd is not None:
        place = odd[0] % (len(text) + 1)
        text = text[:place] + odd[1] + text[place:]
    header = ("W", "N", "R")
    found = even_rows(Path("night.csv"), text, 1, ",", header)
    if found is None:
        assert odd is not None or not rows or end.strip("\n")
        return
    expected = rows_below(Path("night.csv"), ["title", "W,N,R", *text.split("\n")], 1, ",", header)
    assert [list(row) for row in found.rows] == [list(row) for row in expected.rows]
    assert [found.column(column) for column in range(3)] == [expected.column(column) for column in range(3)]
    if found.columns.numbers is not None:
        assert found.columns.numbers.tolist() == [[float(cell) for cell in row] for row in expected.rows]
    assert (list(found.lines), found.header, found.notes) == (list(expected.lines), header, expected.notes)


def test_a_short_and_a_long_row_do_not_make_up_for_each_other(tmp_path):
    path = write(tmp_path, f"{HEADER}\n{ROW}\n{ROW},0.1\n{ROW.rpartition(',')[0]}\n")
    with pytest.raises(FileFormatError, match=f"line 3 has {len(ROW.split(',')) + 1} cells"):
        read_density(path)


def timed(folder: Path, header: str, *cells: str) -> Path:
    return write(folder, "\n".join([f"{header},{HEADER}", *(f"{cell},{ROW}" for cell in cells)]) + "\n")


@pytest.mark.parametrize(
    ("header", "cells", "note"),
    [
        ("onset,duration", ("0,20", "20,20", "40,20"), "onset and duration columns"),
        ("start,end", ("0,20", "20,40", "40,60"), "start and end columns"),
        ("onset", ("0", "20", "40"), "onset column"),
        ("duration", ("20", "20.0", "2e1"), "duration column"),
        ("epoch,onset", ("1,0", "2,20", "3,40"), "onset column"),
        ("onset", ("0.001", "20.002", "39.999"), "onset column"),
    ],
)
def test_the_epoch_length_is_taken_from_the_files_columns(tmp_path, header, cells, note):
    found = read_density_file(timed(tmp_path, header, *cells), FileOptions())
    assert found.density.epoch_seconds == pytest.approx(20, abs=0.01)
    assert found.density.n_epochs == 3
    (said,) = found.notes
    assert said.endswith(f"s: from the file's {note}")
    assert said.startswith(f"epochs last {found.density.epoch_seconds:g} s")


def test_an_epoch_column_says_the_order_but_no_length(tmp_path):
    found = read_density_file(timed(tmp_path, "epoch", "1", "2", "3"), FileOptions())
    assert each_mentions(found.notes, ("long", "30 s", "assumed"))


@pytest.mark.parametrize(
    ("header", "cells"),
    [("onset", ("0", "20", "80", "100")), ("epoch", ("1", "2", "5", "6")),
     ("onset,duration,epoch", ("0,20,0", "20,20,1", "80,20,4", "100,20,5")),
     ("onset,duration", ("0,10", "10,10", "40,10", "50,10"))],
)  # fmt: skip
def test_skipped_epochs_are_epochs_without_evidence(tmp_path, header, cells):
    found = read_density_file(timed(tmp_path, header, *cells), FileOptions())
    empty = np.isnan(found.density.probabilities).all(axis=1)
    assert empty.tolist() == [False, False, True, True, False, False]
    column = header.split(",")[0]
    assert mentions(found.notes, "2 epochs", column, 4)


def test_a_bad_row_after_a_gap_is_named_by_its_line(tmp_path):
    path = timed(tmp_path, "onset", "0", "30", "120")
    path.write_text(path.read_text().replace("120,0.1", "120,0.9"))
    assert "row 4 (line 4)" in refused(path)


@pytest.mark.parametrize(
    ("header", "cells", "message"),
    [
        ("epoch", ("0", "1", "1"), (4, "'epoch'", 1, 1)),
        ("epoch", ("0", "2", "1"), (4, "'epoch'", 1, 2)),
        ("epoch", ("0", "30", "60"), (3, "'epoch'", 30, 1)),
        ("epoch", ("0", "1", "2.5", "3.5"), (4, "'epoch'", "2.5", "1.5")),
        ("epoch", ("0", "1", "9000000"), (4, "'epoch'", "8,999,999 epochs")),
        ("onset", ("0", "30", "60", "77"), (5, "'onset'", 77, 17)),
        ("onset", ("0", "30", "30"), (4, "'onset'", 30, 30)),
        ("onset", ("0", "30", "x"), (4, "'onset'", "'x'")),
        ("onset", ("0", "30", "nan"), (4, "'onset'", "'nan'")),
        ("duration", ("30", "30", "31"), (4, "31 s", "30 s")),
        ("duration", ("0", "0", "0"), (2, "'duration'", 0, 0)),
        ("onset,duration", ("0,30", "20,30"), (3, "'onset'", 20, 20)),
        ("onset,epoch", ("0,0", "30,1", "60,3"), (4, 2, "onset", 3)),
        ("epoch", ("-1e308", "1e308"), (3, "'epoch'", 1)),
        ("onset,duration", ("0,1e-320", "1,1e-320"), ("line", 3, "column", "'onset'")),
        ("onset", ("0", "30000"), ("30000 s", "0.1", "3600 s")),
    ],
)  # fmt: skip
def test_times_that_do_not_go_forward_in_epochs_are_refused(tmp_path, header, cells, message):
    assert mentions(refused(timed(tmp_path, header, *cells)), *message)


def test_a_length_that_contradicts_the_file_is_refused(tmp_path):
    path = timed(tmp_path, "onset", "0", "20")
    assert read_density(path, epoch_seconds=20).epoch_seconds == 20
    assert mentions(refused(path, epoch_seconds=30), "20 s", "epoch_seconds=30")


def test_a_time_that_is_left_out_is_named(tmp_path):
    path = timed(tmp_path, "onset", "", "30", "60")
    assert mentions(refused(path), 2, "'onset'")


def test_a_scheme_of_ones_own_is_known_by_its_exact_names(tmp_path):
    from stageguard.night.stages import StageScheme

    scheme = StageScheme.custom(("AW", "QW", "NR", "REMS"), wake="QW", rem="REMS")
    path = write(tmp_path, "onset,NR,AW,QW,REMS\n0,0.7,0.1,0.1,0.1\n4,0.1,0.7,0.1,0.1\n")
    density = read_density_file(path, FileOptions(scheme=scheme)).density
    assert (density.scheme, density.epoch_seconds) == (scheme, 4.0)
    assert density.argmax.tolist() == [2, 0]
    assert "names no stages" in refused(write(tmp_path, "AW,QW\n0.5,0.5\n", "other.csv"))
