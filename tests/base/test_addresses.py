"""Addresses such as s3://bucket/night.csv are no paths: one line refuses them, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from cli_runner import Runner, write_night
from stageguard.base.errors import StageGuardError
from stageguard.base.files import refuse_address

ADDRESSES = ("s3://bucket/night.csv", "https://host/night.csv", "gs://a/b", "file:///tmp/night.csv", "S3://b")
PROFILE = "human-psg-5"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_night(Path("night.csv"), hours=1)
    Path("expert.txt").write_text("\n".join(["W"] * 20 + ["N2"] * 100) + "\n")
    return tmp_path


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "command",
    [
        ("decode", "night.csv", "-p", PROFILE, "-o", "ADDRESS"),
        ("decode", "ADDRESS", "-p", PROFILE),
        ("decode", "night.csv", "-p", PROFILE, "--quality", "ADDRESS"),
        ("decode", "--list", "ADDRESS", "-p", PROFILE),
        ("posterior", "night.csv", "-p", PROFILE, "-o", "ADDRESS"),
        ("report", "night.csv", "-p", PROFILE, "-o", "ADDRESS"),
        ("convert", "expert.txt", "--to", "yasa-json", "-o", "ADDRESS"),
        ("stats", "ADDRESS"),
        ("check", "ADDRESS"),
        ("compare", "expert.txt", "ADDRESS"),
        ("simulate", "--modality", "eeg-emg", "--subjects", "1", "--hours", "1", "-o", "ADDRESS"),
    ],
)
def test_no_command_takes_an_address_for_a_path(capsys, folder, command, address):
    before = sorted(folder.rglob("*"))
    ran = Runner(capsys)(*(address if word == "ADDRESS" else word for word in command))
    assert ran.code in (1, 2) and len(ran.err.splitlines()) <= 2, ran.err
    assert "is an address" in ran.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_function_takes_an_address_for_a_path(folder, address):
    before = sorted(folder.rglob("*"))
    density = sg.Hypnodensity(np.full((9, 5), 0.2), "aasm5", 30)
    calls = (
        lambda: sg.read_density(address),
        lambda: sg.read_hypnogram(address),
        lambda: density.save(address),
        lambda: sg.decode(density, PROFILE).save(address),
        lambda: sg.read_recording(address),
    )
    for call in calls:
        with pytest.raises(StageGuardError, match=r"is an address") as caught:
            call()
        assert "\n" not in str(caught.value)
    assert sorted(folder.rglob("*")) == before


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9+.\-]{1,8}://[a-z][ -~]{0,20}", fullmatch=True))
def test_every_scheme_is_refused_as_text_and_as_a_path(address):
    for path in (address, Path(address)):
        with pytest.raises(StageGuardError, match="is an address"):
            refuse_address(path)


@pytest.mark.parametrize(
    "path",
    ["C:/nights/a.csv", "C:\\nights\\a.csv", "a:b/c.csv", "x/s3:/a", "/s3:/a", "night:1.csv", "s3", "a//b"],
)
def test_other_paths_are_left_alone(path):
    assert [refuse_address(path), refuse_address(Path(path))] == [None, None]
