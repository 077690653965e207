"""Quality per epoch from files: matched with the night by time, or refused."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import mentions
from stageguard.errors import FileFormatError, StageGuardError
from stageguard.formats.companions import read_quality
from stageguard.night.hypnodensity import Hypnodensity

N = 12
BETA = np.linspace(0, 0.9, N).round(3)


def density(n=N, seconds=30.0, **fields):
    rows = np.full((n, 3), 1 / 3)
    rows[fields.pop("without", [])] = np.nan
    return Hypnodensity(rows, "wnr3", seconds, **fields)


def saved(folder, header, rows, name="q.tsv"):
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def refused(path, night):
    with pytest.raises(StageGuardError) as caught:
        read_quality(path).of(night)
    message = str(caught.value)
    assert message.startswith(f"{path.name}: ") and "\n" not in message
    return message


def rows(onsets, values, *more):
    cells = [f"{onset:g}" for onset in onsets], [f"{value:g}" for value in values]
    return ["\t".join([one, *more, two]) for one, two in zip(*cells, strict=True)]


@pytest.mark.parametrize(
    "text", ["0\n0.5\n1\n", "quality\n0\n0.5\n1\n", "epoch;Beta\n0;0\n1;0.5\n2;1\n",
             ",lost\n0,0\n1,0.5\n2,1\n", "\ufeffclean\tx\n1\t9\n0.5\t9\n0\t9\n"]
)  # fmt: skip
def test_quality_from_text(tmp_path, text):
    path = tmp_path / "beta.tsv"
    path.write_text(text, encoding="utf-8")
    assert read_quality(path).of(density(3)).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("name", ["quality", "beta", "lost", "Quality"])
def test_rows_in_order_are_matched(tmp_path, name):
    onsets = 30 * np.arange(N)
    for header, table in (
        (name, [f"{value:g}" for value in BETA]),
        (f"onset\t{name}", rows(onsets, BETA)),
        (f"onset\tduration\t{name}", rows(onsets, BETA, "30")),
        (f"epoch\t{name}", rows(np.arange(N), BETA)),
        (f"epoch\t{name}", rows(np.arange(1, N + 1), BETA)),
    ):
        assert read_quality(saved(tmp_path, header, table)).of(density()).tolist() == BETA.tolist()


def test_a_clean_share_is_turned_round(tmp_path):
    path = saved(tmp_path, "clean", [f"{1 - value:.3f}" for value in BETA])
    np.testing.assert_allclose(read_quality(path).of(density()), BETA)


@pytest.mark.parametrize(
    "name", ["sqi", "SQI", "signal_quality", "quality_index", "eeg_quality", "good", "x"]
)
def test_a_column_that_may_run_either_way_is_asked_about(tmp_path, name):
    message = refused(saved(tmp_path, f"onset\t{name}", rows(30 * np.arange(N), BETA)), density())
    assert mentions(message, "q.tsv", name, 1, 0, 1, 0)


@pytest.mark.parametrize(
    ("header", "table", "words"),
    [
        ("onset\tquality", rows(30 * np.arange(N)[::-1], BETA), ("Sort the rows",)),
        ("epoch\tquality", rows(np.arange(N)[::-1], BETA), ("Sort the rows",)),
        ("onset\tquality", rows(30 * np.arange(N) + 300, BETA), ("goes on after", "last")),
        ("onset\tquality", rows(30 * np.arange(N) + 10, BETA), ("begin", "10 s")),
        ("onset\tquality", rows(20 * np.arange(N), BETA), ("20 s", "long", "30 s")),
        ("duration\tquality", rows([20] * N, BETA), ("20 s", "long", "30 s")),
        ("onset\tquality", rows(30 * np.delete(np.arange(N), 4), BETA[1:]), ("epoch", "120 s")),
        ("epoch\tquality", rows(np.delete(np.arange(N), 4), BETA[1:]), ("epoch", "120 s")),
        ("onset\tquality", rows(30 * np.arange(N - 1), BETA[1:]), ("epoch", "330 s")),
        ("onset\tquality", rows(30 * np.arange(N + 1), [*BETA, 0]), ("goes on after", "last")),
        ("quality", [f"{value:g}" for value in BETA[1:]], ("11 rows", "12 epochs")),
        ("time\tquality", [f"soon\t{value:g}" for value in BETA], ("line 2", "'soon'")),
        ("night\tquality", rows([1] * 6 + [2] * 6, BETA), (2, "recordings by its")),
        ("quality\tlost", rows(BETA, BETA), ("columns", "quality, lost")),
        ("onset\tquality", rows(30 * np.arange(N), [*BETA[:-1], 1.5]), ("line 13: expected a quality",)),
    ],
)  # fmt: skip
def test_what_cannot_be_matched_is_refused(tmp_path, header, table, words):
    assert mentions(refused(saved(tmp_path, header, table), density()), *words)


def test_epochs_without_evidence_need_no_row(tmp_path):
    path = saved(tmp_path, "onset\tquality", rows(30 * np.arange(4, N), BETA[4:]))
    assert read_quality(path).of(density(without=[0, 1, 2, 3])).tolist() == [0] * 4 + BETA[4:].tolist()


def test_clocks_and_offsets_are_matched(tmp_path):
    start = datetime(2024, 5, 1, 22)
    clock = [f"2024-05-01T22:0{i // 2}:{30 * (i % 2):02d}\t{value:g}" for i, value in enumerate(BETA)]
    path = saved(tmp_path, "time\tquality", clock)
    assert read_quality(path).of(density(start=start)).tolist() == BETA.tolist()
    assert read_quality(path).of(density()).tolist() == BETA.tolist()
    late = density(start=datetime(2024, 5, 1, 22, 1))
    assert mentions(refused(path, late), "begins", "60 s", "night")
    shifted = saved(tmp_path, "onset\tquality", rows(30 * np.arange(N) + 12.5, BETA))
    assert read_quality(shifted).of(density(offset_seconds=12.5)).tolist() == BETA.tolist()


def test_quality_from_an_array(tmp_path):
    np.save(tmp_path / "beta.npy", np.array([0, 1], dtype=np.float32))
    assert read_quality(tmp_path / "beta.npy").of(density(2)).tolist() == [0, 1]


@given(
    order=st.permutations(range(N)),
    late=st.sampled_from([0, 0, 30, 300, 7]),
    step=st.sampled_from([30, 30, 30, 20, 60]),
    kept=st.sets(st.integers(0, N - 1), min_size=N - 2),
)
def test_a_value_is_given_to_its_own_epoch_or_to_none(tmp_path_factory, order, late, step, kept):
    """Whatever the rows are like, a table that is accepted gives each epoch the value of its time."""
    chosen = [epoch for epoch in order if epoch in kept]
    onsets = np.array([late + step * epoch for epoch in chosen])
    values = np.array([BETA[epoch] for epoch in chosen])
    path = saved(tmp_path_factory.mktemp("q"), "onset\tquality", rows(onsets, values))
    try:
        found = read_quality(path).of(density())
    except FileFormatError:
        return
    by_time = dict(zip(onsets.tolist(), values.tolist(), strict=True))
    assert found.tolist() == [by_time[30 * epoch] for epoch in range(N)]
