"""Rounded probabilities: refused by default, divided by their sums on request."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from messages import mentions

ROWS = [[0.33, 0.33, 0.33], [0.1, 0.2, 0.7], [0.5, 0.26, 0.26], [0.34, 0.34, 0.34]]


def written(path, rows):
    path.write_text("W,N,R\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def test_rounded_rows_are_divided_by_their_sums_on_request(tmp_path):
    path = written(tmp_path / "night.csv", ROWS)
    with pytest.raises(sg.FileFormatError, match=r"sums to 0\.99"):
        sg.read_density(path)
    density = sg.read_density(path, normalize=True)
    expected = np.array(ROWS) / np.array(ROWS).sum(axis=1, keepdims=True)
    assert np.allclose(density.probabilities, expected, atol=1e-15)
    assert mentions(density.assumed[-1], "3 rows", "0.02")


@pytest.mark.parametrize("row", [[0.5, 0.2, 0.2], [0.5, 0.3, 0.3], [1.5, -0.3, -0.2]])
def test_what_rounding_does_not_explain_is_still_refused(tmp_path, row):
    path = written(tmp_path / "night.csv", [*ROWS * 3, row])
    with pytest.raises(sg.FileFormatError, match=r"row|line"):
        sg.read_density(path, normalize=True)


def test_rows_that_sum_to_one_stay_as_they_are(tmp_path):
    path = written(tmp_path / "night.csv", [[0.1, 0.2, 0.7]] * 3)
    given, normalized = (sg.read_density(path, normalize=choice) for choice in (False, True))
    assert given == normalized
    assert not normalized.assumed[len(given.assumed) :]


def test_decode_records_it_and_verify_repeats_it(tmp_path, capsys):
    run, path = Runner(capsys), written(tmp_path / "night.csv", ROWS * 20)
    ran = run("decode", path, "--profile", "human-psg-3")
    assert ran.code == 1
    assert mentions(error_line(ran), "0.99")
    assert run("decode", path, "--profile", "human-psg-3", "--normalize").code == 0
    sidecar = json.loads((tmp_path / "night.hypnogram.json").read_text())
    assert sidecar["stageguard"]["options"]["normalize"] is True
    assert run("verify", tmp_path / "night.hypnogram.tsv").code == 0
    assert run("convert", path, "--output", tmp_path / "out.npz", "--normalize").code == 0
