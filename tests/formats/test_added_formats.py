"""File formats of other packages, found by their entry points."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

import stageguard as sg
from messages import naming
from stageguard.errors import InstallationWarning
from stageguard.formats.registry import formats, named

SOURCE = """
from stageguard.formats.file_format import STAGES_ALONE, FileFormat
from stageguard.formats.night import RawHypnogram


def read(path, options):
    lines = path.read_text("utf-8").splitlines()[1:]
    return RawHypnogram(tuple(line.strip("<>") for line in lines), epoch_seconds=30.0)


FORM = FileFormat(
    "mylab", "MyLab's stages", (".mylab",), lambda head, path: head.startswith(b"#MyLab"), read,
    loses=STAGES_ALONE,
)
NO_FORM = read


def of(**changes):
    given = {"name": "mylab", "title": "stages", "suffixes": (".mylab",), "sniff": FORM.sniff, "stages": read}
    return FileFormat(**{**given, **changes})


HASTY = of(sniff=lambda head, path: head.split(b"\\n")[7].startswith(b"#MyLab"))
"""


@pytest.fixture
def provide(monkeypatch, tmp_path):
    (tmp_path / "mylab_formats.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def install(*values):
        entries = [EntryPoint("mylab", value, "stageguard.formats") for value in values]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
        formats.cache_clear()

    yield install
    formats.cache_clear()
    sys.modules.pop("mylab_formats", None)


def test_another_package_adds_a_format(provide, tmp_path):
    provide("mylab_formats:FORM")
    path = tmp_path / "night.mylab"
    path.write_text("#MyLab\n" + "<W>\n<N2>\n<R>\n" * 10, encoding="utf-8")
    night = sg.read_hypnogram(path)
    assert night.stages.tolist() == ["W", "N2", "R"] * 10
    assert night == sg.read_hypnogram(path, format="mylab")


def test_a_sniff_that_fails_hides_no_other_format(provide, tmp_path):
    provide("mylab_formats:HASTY")
    path = tmp_path / "night.txt"
    path.write_text("W\nN2\nR\n", encoding="utf-8")
    with pytest.warns(InstallationWarning, match=naming("'mylab'", "night.txt", "IndexError")):
        night = sg.read_hypnogram(path, epoch_seconds=30)
    assert night.stages.tolist() == ["W", "N2", "R"]


@pytest.mark.parametrize("value", ["no_such_module:FORM", "mylab_formats:NO_FORM"])
def test_a_broken_format_of_another_package_is_left_out(provide, value):
    provide(value)
    with pytest.warns(sg.StageGuardWarning, match="'mylab'"):
        assert "mylab" not in {form.name for form in formats()}
    assert named("nsrr-xml", "hypnogram").name == "nsrr-xml"


def test_no_other_package_replaces_a_format(provide):
    provide("mylab_formats:FORM", "mylab_formats:FORM")
    with pytest.warns(sg.StageGuardWarning, match="'mylab'"):
        assert [form.name for form in formats()].count("mylab") == 1
