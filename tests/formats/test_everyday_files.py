"""Files that people have: exports of pandas, YASA, Somnotate, SleepFM and wav2sleep, percentages, and stages
where probabilities are expected."""

from __future__ import annotations

from datetime import datetime
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from cli_runner import Runner, error_line
from messages import mentions, message
from stageguard.errors import StageGuardError

NAMES = ("W", "N1", "N2", "N3", "R")
P = np.random.default_rng(8).dirichlet(np.ones(5), 60)
LABELS = P.argmax(axis=1)
STAGES = np.array(NAMES)[LABELS]
WORDS = np.array(["WAKE", "N1", "N2", "N3", "REM"])[LABELS]
PROFILE = "human-psg-5"
PLAIN = {"strength": "off"}  # random nights would be changed a lot


refused = partial(message, StageGuardError)


# Hypnograms


@pytest.mark.parametrize("column", ["y_pred", "hypno", "pred", "prediction", "StageName", "y_true"])
def test_columns_of_stages_by_the_names_people_give(tmp_path, column):
    path = tmp_path / "night.csv"
    pd.DataFrame({column: STAGES}).to_csv(path, index=False)
    assert sg.read_hypnogram(path).stages.tolist() == STAGES.tolist()
    pd.DataFrame({column: LABELS}).to_csv(path)
    assert sg.read_hypnogram(path, format="numbers-yasa").stages.tolist() == STAGES.tolist()
    assert "numbers-yasa" in refused(sg.read_hypnogram, path)
    assert sg.read_hypnogram(pd.DataFrame({column: STAGES})).stages.tolist() == STAGES.tolist()


def test_two_such_columns_need_a_name(tmp_path):
    path = tmp_path / "night.csv"
    table = pd.DataFrame({"y_true": STAGES[::-1], "y_pred": STAGES, "mine": np.roll(STAGES, 1)})
    table.to_csv(path, index=False)
    assert mentions(refused(sg.read_hypnogram, path), "y_true,y_pred", "say column")
    for name in table:
        assert sg.read_hypnogram(path, column=name).stages.tolist() == table[name].tolist()
        assert sg.read_hypnogram(table, column=name).stages.tolist() == table[name].tolist()
    assert "has no column 'his'" in refused(sg.read_hypnogram, path, column="his")


def test_the_command_line_takes_a_column(tmp_path, capsys):
    run, path = Runner(capsys), tmp_path / "night.csv"
    pd.DataFrame({"meine_stufen": STAGES}).to_csv(path, index=False)
    assert "--column" in error_line(run("stats", path))
    assert run("stats", path, "--column", "meine_stufen", "--json").nights[0]["n_epochs"] == 60
    (tmp_path / "e.txt").write_text("\n".join(STAGES) + "\n")
    assert run("compare", path, tmp_path / "e.txt", "--column", "meine_stufen").code == 0


def test_a_series_without_a_name(tmp_path):
    path = tmp_path / "night.csv"
    pd.Series(STAGES).to_csv(path)
    assert sg.read_hypnogram(path).stages.tolist() == STAGES.tolist()
    pd.Series(LABELS).to_csv(path)
    assert sg.read_hypnogram(path, format="numbers-yasa").stages.tolist() == STAGES.tolist()
    pd.Series(STAGES, index=pd.date_range("2024-05-01 22:30", periods=60, freq="20s")).to_csv(path)
    night = sg.read_hypnogram(path)
    assert (night.epoch_seconds, night.start) == (20.0, datetime(2024, 5, 1, 22, 30))


@pytest.mark.parametrize("scorer", [None, "YASA", "M. Curie"])
@pytest.mark.parametrize("start", [None, "2024-05-01 22:30:00"])
def test_the_series_of_the_installed_yasa(tmp_path, capsys, scorer, start):
    yasa = pytest.importorskip("yasa")
    night = yasa.Hypnogram(WORDS.tolist(), n_stages=5, freq="30s", start=start, scorer=scorer)
    night.hypno.to_csv(tmp_path / "night.csv")
    assert sg.read_hypnogram(tmp_path / "night.csv").stages.tolist() == STAGES.tolist()
    for path in (tmp_path / "night.csv", tmp_path):  # a folder is read by the content of its files
        assert Runner(capsys)("stats", path).code == 0


@pytest.mark.parametrize("header", ["Epoch,YASA", "Epoch,W", "epoch,anna", "index,expert"])
def test_the_only_other_column_holds_the_stages(tmp_path, header):
    path = tmp_path / "night.csv"
    path.write_text("\n".join([header, *(f"{epoch},{word}" for epoch, word in enumerate(WORDS))]) + "\n")
    assert sg.read_hypnogram(path).stages.tolist() == STAGES.tolist()


def test_the_csv_of_sleepfm(tmp_path):
    names = np.array(["Wake", "Stage 1", "Stage 2", "Stage 3", "REM"])[LABELS]
    rows = [
        f"{5 * i},{5 * i + 5},{name},{label},{i}"
        for i, (name, label) in enumerate(zip(names, LABELS, strict=True))
    ]
    rows[:2] = ["0,5,Unknown,-1,0", "5,10,Unknown,-1,1"]
    path = tmp_path / "demo_psg.csv"
    path.write_text("\n".join(["Start,Stop,StageName,StageNumber,EmbeddingNumber", *rows]) + "\n")
    night = sg.read_hypnogram(path)
    assert (night.epoch_seconds, night.stages.tolist()) == (5.0, ["?", "?", *STAGES[2:]])


@pytest.mark.proves("numbers-wav2sleep")
@pytest.mark.parametrize("has_labels", [True, False])
@pytest.mark.parametrize("clock", [None, "2024-05-01 22:00:00"])
def test_the_csv_of_wav2sleep(tmp_path, has_labels, clock):
    """Times are the ends of epochs, Stage is the expert's, and numbers are those of four stages."""
    codes = LABELS % 4
    ends = 30.0 * np.arange(1, 61)
    index = pd.Index(
        ends if clock is None else pd.Timestamp(clock) + pd.to_timedelta(ends, unit="s"), name="Timestamp"
    )
    table = pd.DataFrame({"pred": codes}, index=index)
    if has_labels:
        table["Stage"] = codes[::-1]
    path = tmp_path / "night.preds.csv"
    table.to_csv(path)
    night = sg.read_hypnogram(path, format="numbers-wav2sleep")
    assert night.stages.tolist() == [("W", "Light", "Deep", "R")[code] for code in codes]
    assert (night.epoch_seconds, night.scheme.name, night.offset_seconds) == (30.0, "wldr4", 0.0)
    assert night.start == (None if clock is None else datetime(2024, 5, 1, 22))
    (tmp_path / "night.txt").write_text("\n".join(map(str, codes)) + "\n")
    assert (
        sg.read_hypnogram(tmp_path / "night.txt", format="numbers-wav2sleep").stages.tolist()
        == night.stages.tolist()
    )
    table["pred"] = 4
    table.to_csv(path)
    assert "is 4, expected one of" in refused(sg.read_hypnogram, path, format="numbers-wav2sleep")


# Probabilities


@given(
    n_digits=st.integers(1, 3),
    n_stages=st.sampled_from([3, 5]),
    seed=st.integers(0, 1000),
    normalize=st.booleans(),
)
def test_percentages_are_read_however_they_were_rounded(n_digits, n_stages, seed, normalize):
    exact = np.random.default_rng(seed).dirichlet(np.ones(n_stages), 50)
    names = NAMES if n_stages == 5 else ("W", "N", "R")
    rounded = (100 * exact).round(n_digits)
    night = sg.read_density(pd.DataFrame(rounded, columns=names), normalize=normalize)
    np.testing.assert_allclose(night.probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(night.probabilities, exact, atol=10.0**-n_digits / 20)


def test_whole_percentages_need_leave_and_other_sums_are_refused(tmp_path):
    table = pd.DataFrame((100 * P).round(), columns=NAMES)
    assert "expected" in refused(sg.read_density, table)
    np.testing.assert_allclose(sg.read_density(table, normalize=True).probabilities, P, atol=0.02)
    for row, value in ((3, 40.0), (7, 0.5)):
        wrong = pd.DataFrame((100 * P).round(1), columns=NAMES)
        wrong.loc[row, "W"] += value
        assert mentions(refused(sg.read_density, wrong), "expected the same")
        assert refused(sg.read_density, wrong, normalize=value > 2)


def test_the_archive_of_somnotate(tmp_path):
    columns = {"awake": P[:, 0] + P[:, 1], "non-REM": P[:, 2] + P[:, 3], "REM": P[:, 4]}
    path = tmp_path / "probabilities.npz"
    np.savez(path, **columns)
    night = sg.read_density(path)
    assert (night.scheme.names, night.epoch_seconds) == (("W", "N", "R"), 1.0)
    np.testing.assert_allclose(night.probabilities, np.column_stack(list(columns.values())))
    np.savez(path, **(columns | {"REM": P[:9, 4]}))
    assert "different lengths" in refused(sg.read_density, path)
    np.savez(path, **(columns | {"REM": P}))
    assert "column 'REM' has shape (60, 5)" in refused(sg.read_density, path)
    np.savez(path, awake=P[:, 0], other=P[:, 1])
    assert "Expected one array" in refused(sg.read_density, path)


def test_the_second_of_somnotate_is_not_taken_for_the_epoch_of_the_profile(tmp_path, capsys):
    np.savez(tmp_path / "n.npz", **{"awake": P[:, 0] + P[:, 1], "non-REM": P[:, 2] + P[:, 3], "REM": P[:, 4]})
    run = Runner(capsys)
    message = error_line(run("decode", tmp_path / "n.npz", "-p", "mouse-eeg-emg-3"))
    assert mentions(message, "1 s", "Somnotate") and "--epoch-seconds" in message
    assert run("decode", tmp_path / "n.npz", "-p", "mouse-eeg-emg-3", "--epoch-seconds", 1).code == 0


# Objects


@given(order=st.permutations(range(5)), seed=st.integers(0, 99))
def test_a_table_is_decoded_by_the_names_of_its_columns(order, seed):
    matrix = np.random.default_rng(seed).dirichlet(np.ones(5), 40)
    table = pd.DataFrame(matrix[:, order], columns=[NAMES[i] for i in order])
    expected = sg.decode(sg.Hypnodensity(matrix, "aasm5", 30), PROFILE, **PLAIN)
    for night in (
        table,
        table.rename(columns={"R": "REM", "W": "Wake"}),
        {name: table[name] for name in table},
    ):
        found = sg.decode(night, PROFILE, **PLAIN)
        assert found.hypnogram.labels.tolist() == expected.hypnogram.labels.tolist()
    both = sg.decode([table, matrix], PROFILE, **PLAIN)
    assert [each.hypnogram.labels.tolist() for each in both] == [expected.hypnogram.labels.tolist()] * 2


def test_a_table_says_its_times_and_takes_options():
    table = pd.DataFrame(P, columns=NAMES, index=pd.date_range("2024-05-01 22:30", periods=60, freq="20s"))
    decoding = sg.decode(table, PROFILE, **PLAIN)
    assert (decoding.hypnogram.epoch_seconds, decoding.hypnogram.start) == (
        20.0,
        datetime(2024, 5, 1, 22, 30),
    )
    plain = pd.DataFrame(np.log(P), columns=NAMES)
    assert sg.decode(plain, PROFILE, **PLAIN, log=True, epoch_seconds=20).hypnogram.epoch_seconds == 20
    renamed = pd.DataFrame(P, columns=list("abcde"))
    assert "names no stages" in refused(sg.decode, renamed, PROFILE, **PLAIN)
    assert sg.posterior(table, PROFILE).n_epochs == 60


def test_a_hypnogram_of_the_installed_yasa_is_decoded():
    yasa = pytest.importorskip("yasa")
    proba = pd.DataFrame(P[:, ::-1], columns=["REM", "N3", "N2", "N1", "WAKE"])
    night = yasa.Hypnogram(WORDS.tolist(), n_stages=5, freq="30s", proba=proba)
    expected = sg.decode(P, PROFILE, **PLAIN).hypnogram.labels.tolist()
    assert sg.decode(night, PROFILE, **PLAIN).hypnogram.labels.tolist() == expected
    alone = sg.decode(yasa.Hypnogram(WORDS.tolist(), n_stages=5), PROFILE, **PLAIN)
    assert alone.from_labels == "typical" and alone.stages.tolist() == STAGES.tolist()


# Stages where probabilities are expected


@pytest.mark.parametrize(
    "night",
    [
        list(STAGES),
        STAGES,
        pd.Series(STAGES),
        pd.DataFrame({"stage": STAGES}),
        pd.DataFrame({"Epoch": range(60), "hypno": STAGES}),
        sg.Hypnogram(LABELS, "aasm5", 30),
    ],
    ids=["list", "names", "series", "frame", "hypno", "hypnogram"],
)  # fmt: skip
def test_stages_alone_are_decoded_by_typical_confusions(night):
    result = sg.decode(night, PROFILE, **PLAIN)
    assert result.from_labels == "typical"
    assert result.argmax.tolist() == result.hypnogram.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n.txt", "\n".join(STAGES)),
        ("n.csv", "Epoch,Stage\n" + "\n".join(f"{i},{s}" for i, s in enumerate(STAGES))),
        ("n.csv", "y_pred\n" + "\n".join(STAGES)),
        ("n.csv", ",0\n" + "\n".join(f"{i},{s}" for i, s in enumerate(STAGES))),
        (
            "n.csv",
            "Start,Stop,StageName\n" + "\n".join(f"{5 * i},{5 * i + 5},{s}" for i, s in enumerate(STAGES)),
        ),
    ],
)
def test_files_of_stages_are_decoded(tmp_path, capsys, name, text):
    (tmp_path / name).write_text(text + "\n")
    done = Runner(capsys)("decode", tmp_path / name, "-p", PROFILE, "--strength", "off", "--json")
    assert done.code == 0 and '"from_labels": "typical"' in (tmp_path / "n.hypnogram.json").read_text()
    assert sg.read_hypnogram(tmp_path / "n.hypnogram.tsv").stages.tolist() == STAGES.tolist()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n.txt", "\n".join(map(str, LABELS))),
        ("n.csv", "epoch,stage\n" + "\n".join(f"{i},{s}" for i, s in enumerate(LABELS))),
    ],
)
def test_numbers_in_files_need_a_format(tmp_path, capsys, name, text):
    (tmp_path / name).write_text(text + "\n")
    decode = "decode", tmp_path / name, "-p", PROFILE, "--strength", "off"
    assert mentions(error_line(Runner(capsys)(*decode)), "format", "numbers-yasa")
    assert Runner(capsys)(*decode, "--format", "numbers-yasa").code == 0
    assert sg.read_hypnogram(tmp_path / "n.hypnogram.tsv").stages.tolist() == STAGES.tolist()


def test_stages_that_a_profile_does_not_have_are_refused(tmp_path, capsys):
    lines = (f"{30 * i + 30},{s % 4}" for i, s in enumerate(LABELS))
    (tmp_path / "n.preds.csv").write_text("\n".join(("Timestamp,pred", *lines)) + "\n")
    named = "--format", "numbers-wav2sleep"
    message = error_line(Runner(capsys)("decode", tmp_path / "n.preds.csv", "-p", PROFILE, *named))
    assert mentions(message, "wldr4", "aasm5")
