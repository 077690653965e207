"""Luna's posteriors: text tables and frames of the installed lunapi."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from messages import each_mentions, naming
from stageguard.errors import FileFormatError, InputError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_file

P = np.random.default_rng(4).dirichlet(np.ones(5), 12)  # W R N1 N2 N3, Luna's order
EXPECTED = P[:, [0, 2, 3, 4, 1]]
HEADER = "ID\tE\tCONF\tFLAG\tPP_W\tPP_R\tPP_N1\tPP_N2\tPP_N3\tPRED\tPRIOR\tSTART\tSTOP"


def row(epoch: int, values: object = None, flag: int = 0, name: str = "id1") -> str:
    numbers = P[epoch - 1] if values is None else values
    cells = "\t".join(map(str, numbers))  # type: ignore[call-overload]
    clock = [f"{22 + s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in (30 * epoch - 30, 30 * epoch)]
    return f"{name}\t{epoch}\t{max(P[epoch - 1])}\t{flag}\t{cells}\tN2\tNA\t" + "\t".join(clock)


def table(folder: Path, rows: list[str], header: str = HEADER) -> Path:
    path = folder / "pops.txt"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.proves("luna-pops")
def test_epochs_that_luna_left_out_keep_their_place(tmp_path):
    """E counts from 1, from the recording's start: the first row need not be the first epoch."""
    found = read_density_file(table(tmp_path, [row(3), row(4), row(7)]), FileOptions())
    values = found.density.probabilities
    assert np.flatnonzero(~np.isnan(values[:, 0])).tolist() == [2, 3, 6]
    np.testing.assert_array_equal(values[[2, 3, 6]], EXPECTED[[2, 3, 6]])
    assert found.density.epoch_seconds == 30.0
    assert each_mentions(found.notes, ("4 epochs", "Luna"))


def test_excluded_epochs_have_no_evidence(tmp_path):
    missing = ["NA"] * 5
    path = table(tmp_path, [row(1), row(2, flag=-1), row(3, missing, flag=-1), row(4)])
    found = read_density_file(path, FileOptions())
    assert np.isnan(found.density.probabilities[:, 0]).tolist() == [False, True, True, False]
    assert each_mentions(found.notes, (1, "FLAG", -1))


def test_three_classes_and_a_table_without_times(tmp_path):
    header = "ID\tE\tPP_W\tPP_R\tPP_NR"
    rows = [f"x\t{e}\t0.2\t0.3\t0.5" for e in (1, 2)]
    found = read_density_file(table(tmp_path, rows, header), FileOptions())
    np.testing.assert_array_equal(found.density.probabilities, [[0.2, 0.5, 0.3]] * 2)
    assert each_mentions(found.notes, ("30 s", "usually"))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(1), row(1, name="id2")], "holds 2 recordings by its column ID (id1, id2), expected one."),
        ([row(2), row(1)], "line 3, column 'E': got 1, expected to count up from 1."),
        ([row(1).replace("id1\t1", "id1\t0")], "line 2, column 'E': got 0, expected to count up from 1."),
        ([row(1).replace("id1\t1", "id1\t1.5")], "line 2, column 'E': got 1.5, expected to count up from 1."),
        ([row(1).replace("id1\t1", "id1\t900000")], "leaves out 899,999 epochs, expected at most 100,000."),
        ([row(1).replace("id1\t1", "id1\tx")], "line 2, column 'E': expected a number"),
        ([row(1, [0.2, 0.2, 0.2, 0.2, 0.9])], "probabilities: row 0 (line 2) sums to 1.7"),
    ],
)
def test_bad_tables_are_one_line(tmp_path, rows, expected):
    with pytest.raises(FileFormatError) as caught:
        sg.read_density(table(tmp_path, rows))
    assert str(caught.value).startswith(f"pops.txt: {expected}")


def scored_recording(folder: Path) -> tuple[Path, Path]:
    """An EDF whose EEG oscillates as its stage says, and its scoring for Luna."""
    edfio = pytest.importorskip("edfio")
    rng = np.random.default_rng(0)
    stages = ["W"] * 20 + ["N1"] * 12 + ["N2"] * 30 + ["N3"] * 30 + ["R"] * 20
    hertz = {"W": 10.0, "N1": 6.0, "N2": 13.0, "N3": 1.5, "R": 4.0}
    seconds = np.arange(3000) / 100
    parts = [
        30 * rng.uniform(0.5, 1.5) * np.sin(2 * np.pi * hertz[stage] * seconds) + rng.normal(0, 40, 3000)
        for stage in stages
    ]
    signal = edfio.EdfSignal(np.concatenate(parts), 100, label="C3", physical_dimension="uV")
    edfio.Edf([signal]).write(folder / "n.edf")
    (folder / "n.eannot").write_text("\n".join(stages) + "\n")
    return folder / "n.edf", folder / "n.eannot"


@pytest.mark.proves("object:pandas")
def test_posteriors_of_the_installed_lunapi(tmp_path):
    """SOAP needs no model, and its table is that of POPS: objects, with PP_NR beside its parts."""
    lunapi = pytest.importorskip("lunapi")
    edf, scoring = scored_recording(tmp_path)
    project = lunapi.proj()
    project.silence(True)
    night = project.inst("n")
    night.attach_edf(str(edf))
    night.attach_annot(str(scoring))
    night.eval("EPOCH dur=30 & SOAP sig=C3 epoch nc=5")
    frame = night.table("SOAP", "CH_E")
    assert {"E", "PP_W", "PP_NR", "PP_N2"} <= set(frame.columns)
    assert frame["PP_W"].dtype == object
    density = sg.read_density(frame)
    assert (density.n_epochs, density.scheme.name) == (112, "aasm5")
    numbers = frame[["PP_W", "PP_N1", "PP_N2", "PP_N3", "PP_R"]].to_numpy(dtype=float)
    np.testing.assert_array_equal(density.probabilities, numbers)
    assert [density.scheme.names[label] for label in density.argmax] == frame["PRED"].tolist()
    frame.to_csv(tmp_path / "soap.txt", sep="\t", index=False)
    np.testing.assert_array_equal(sg.read_density(tmp_path / "soap.txt").probabilities, density.probabilities)
    part = sg.read_density(frame.drop(index=[0, 1, 5]))
    assert np.flatnonzero(np.isnan(part.probabilities[:, 0])).tolist() == [0, 1, 5]
    with pytest.raises(InputError, match=naming(2, "CH", "C3, C4")):
        sg.read_density(frame.assign(CH=["C3"] * 50 + ["C4"] * 62))
