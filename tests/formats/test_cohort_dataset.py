"""Rows of a Parquet dataset, cut into chunks anywhere: every night is read once, whole, by one chunk."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stageguard.errors import FileFormatError
from stageguard.formats import cohort_dataset
from stageguard.formats.cohort_dataset import is_dataset, read_dataset
from stageguard.formats.raw_night import FileOptions

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
STAGES = ("W", "N1", "N2", "N3", "R")


def table_of(nights: dict[str, np.ndarray]):
    ids = [name for name, night in nights.items() for _ in range(len(night))]
    return pa.table({"id": ids, **dict(zip(STAGES, np.concatenate([*nights.values()]).T, strict=True))})


def random_nights(lengths, prefix="n") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(lengths))
    return {f"{prefix}{i}": rng.dirichlet(np.full(5, 0.4), n) for i, n in enumerate(lengths)}


def chunked(patch, n_bytes: int, batch_rows: int) -> None:
    patch.setattr(cohort_dataset, "LEAST_CHUNK_BYTES", n_bytes)
    patch.setattr(cohort_dataset, "MOST_CHUNK_BYTES", n_bytes)
    patch.setattr(cohort_dataset, "BATCH_ROWS", batch_rows)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 200), max_size=3),
    group_rows=st.integers(1, 60),
    chunk_bytes=st.integers(1, 4000),
    batch_rows=st.integers(1, 50),
)
def test_every_night_is_in_one_chunk_however_rows_are_cut(
    tmp_path_factory, lengths, cuts, group_rows, chunk_bytes, batch_rows
):
    folder, nights = tmp_path_factory.mktemp("dataset"), random_nights(lengths)
    table = table_of(nights)
    bounds = sorted({0, len(table), *(cut for cut in cuts if cut < len(table))})
    for number, (begin, end) in enumerate(pairwise(bounds)):  # files cut nights, too
        path = folder / f"part-{number}.parquet"
        pq.write_table(table.slice(begin, end - begin), path, row_group_size=group_rows)
    with pytest.MonkeyPatch.context() as patch:
        chunked(patch, chunk_bytes, batch_rows)
        cohort = read_dataset([folder], FileOptions(normalize=True))
        chunks = cohort.chunks()
        assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
        one_go = cohort.reading()
        alone = [[*cohort.reading()(chunk)] for chunk in chunks]
        assert alone == [[*one_go(chunk)] for chunk in chunks]
        backwards = [[*cohort.reading()(chunk)] for chunk in reversed(chunks)]
        assert backwards[::-1] == alone
    read = [night for of_chunk in alone for night in of_chunk]
    assert [night.id for night in read] == [*nights]
    for night, expected in zip(read, nights.values(), strict=True):
        assert night.error is None
        np.testing.assert_array_equal(night.density.probabilities, expected)
        begin = sum(lengths[: [*nights].index(night.id)])
        assert (night.file, night.row) == place_of(begin, bounds)


def place_of(row: int, bounds: list[int]) -> tuple[str, int]:
    number = max(i for i, begin in enumerate(bounds[:-1]) if begin <= row)
    return f"part-{number}.parquet", row - bounds[number] + 1


def test_chunks_are_row_groups_or_parts_of_a_large_one(tmp_path, monkeypatch):
    nights = random_nights([100] * 10)
    pq.write_table(table_of(nights), tmp_path / "small.parquet", row_group_size=50)
    pq.write_table(table_of(nights), tmp_path / "large.parquet")
    group_bytes = pq.ParquetFile(tmp_path / "small.parquet").metadata.row_group(0).total_byte_size
    chunked(monkeypatch, 4 * group_bytes, 10)
    small = read_dataset([tmp_path / "small.parquet"], FileOptions()).chunks()
    assert [(chunk.begin, chunk.end) for chunk in small] == [(200 * i, 200 * i + 200) for i in range(5)]
    large = read_dataset([tmp_path / "large.parquet"], FileOptions()).chunks()
    assert len(large) > 2 and large[0].begin == 0 and large[-1].end == 1000
    assert all(one.end == other.begin for one, other in pairwise(large))


def test_of_a_chunk_at_a_border_only_the_ids_of_the_row_group_before_are_read(tmp_path, monkeypatch):
    pq.write_table(table_of(random_nights([100] * 4)), tmp_path / "t.parquet", row_group_size=100)
    chunked(monkeypatch, 1, 1000)
    cohort = read_dataset([tmp_path / "t.parquet"], FileOptions())
    read = []

    class Watched(pq.ParquetFile):
        def iter_batches(self, *sizes, **options):
            read.append((tuple(options["row_groups"]), "W" in options["columns"]))
            return super().iter_batches(*sizes, **options)

        def read_row_group(self, group, columns, **options):
            read.append(((group,), "W" in columns))
            return super().read_row_group(group, columns=columns, **options)

    def opened(parquet, path, kind, texts, **options):
        return Watched(path, read_dictionary=[*texts])

    monkeypatch.setattr(cohort_dataset, "open_parquet", opened)
    (night,) = cohort.reading()(next(chunk for chunk in cohort.chunks() if chunk.begin == 200))
    assert night.id == "n2"
    assert read == [((1,), False), ((2,), True), ((3,), True)]


def test_folders_are_read_apart_and_ids_may_not_be_missing(tmp_path):
    for site in "AB":
        (tmp_path / f"site={site}").mkdir()
        pq.write_table(table_of(random_nights([20, 30], site)), tmp_path / f"site={site}" / "p.parquet")
    cohort = read_dataset([tmp_path], FileOptions())
    read = {chunk.folder: [night.id for night in cohort.reading()(chunk)] for chunk in cohort.chunks()}
    assert read == {"site=A": ["A0", "A1"], "site=B": ["B0", "B1"]}
    table = table_of(random_nights([20]))
    pq.write_table(
        table.set_column(0, "id", pa.array(["x"] * 9 + [None] * 11)), tmp_path / "site=B" / "q.parquet"
    )
    cohort = read_dataset([tmp_path], FileOptions())
    with pytest.raises(FileFormatError, match=r"site=B/q.parquet: row 10 has no id"):
        [night for chunk in cohort.chunks() for night in cohort.reading()(chunk)]


def test_a_file_with_other_columns_is_refused_by_its_place(tmp_path):
    pq.write_table(table_of(random_nights([20])), tmp_path / "a.parquet")
    pq.write_table(table_of(random_nights([20])).drop_columns(["N3"]), tmp_path / "b.parquet")
    with pytest.raises(FileFormatError, match=r"b.parquet: lacks the column 'N3' of a.parquet"):
        read_dataset([tmp_path], FileOptions())
    other = table_of(random_nights([20]))
    pq.write_table(other.append_column("comment", pa.array(["x"] * 20)), tmp_path / "b.parquet")
    read_dataset([tmp_path], FileOptions())
    onsets = pa.array(np.arange(20) * 20.0)  # without them, epochs of 30 s would be assumed
    pq.write_table(other.append_column("onset", onsets), tmp_path / "b.parquet")
    with pytest.raises(FileFormatError, match=r"b.parquet: has the column 'onset', which a.parquet lacks"):
        read_dataset([tmp_path], FileOptions())


def test_what_counts_as_a_dataset(tmp_path):
    one, many = table_of(random_nights([20])), table_of(random_nights([20, 20]))
    for name, table in (("single", one), ("several", many), ("bare", one.drop_columns(["id"]))):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "n.parquet")
        (tmp_path / name / "_metadata").write_text("no data")
    (tmp_path / "hive" / "site=A").mkdir(parents=True)
    pq.write_table(one, tmp_path / "hive" / "site=A" / "n.parquet")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.csv").write_text("id,W,R\na,1,0\nb,1,0\n")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    found = {path.name for path in tmp_path.iterdir() if is_dataset([path])}
    assert found == {"several", "hive"}
    assert is_dataset([tmp_path / "several" / "n.parquet"])
    assert not is_dataset([tmp_path / "single" / "n.parquet"])
    assert not is_dataset([tmp_path / "missing.parquet"])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 4 + b"PAR1", b"x" * 100])
def test_a_damaged_footer_is_one_line(tmp_path, content):
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"t.parquet: is damaged or cut short") as caught:
        read_dataset([tmp_path / "t.parquet"], FileOptions())
    assert "\n" not in str(caught.value)
