"""Montages of a laboratory: read as written, and refused in one line if they make no sense."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import naming
from stageguard.documents import toml_text
from stageguard.errors import FileFormatError, StageGuardError
from stageguard.review.montage import Laboratory, Lane, Montage, View, read_montages

names = st.text(string.ascii_letters + string.digits + ' -µ/"\\=[]#', min_size=1, max_size=20).filter(
    str.strip
)
hertz = st.none() | st.floats(0.01, 10_000)
lanes = st.builds(
    lambda plus, minus, label, low, high, notch, scale, colour: Lane(
        plus, minus if minus != plus else None, label, *in_order(low, high), notch, scale, colour
    ),
    *(names, st.none() | names, st.none() | names, hertz, hertz, hertz, st.none() | st.floats(0.1, 1e6)),
    st.none() | st.from_regex(r"#[0-9a-f]{6}", fullmatch=True),
)
montages = st.lists(lanes, min_size=1, max_size=5).map(tuple)
laboratories = st.builds(
    lambda named, view: Laboratory(tuple(Montage(name, channels) for name, channels in named.items()), view),
    st.dictionaries(names, montages, max_size=4),
    st.builds(View, st.none() | st.floats(1, 3600), st.booleans(), st.booleans()),
)


def in_order(low, high):
    """A high-pass below its low-pass."""
    return (low, high) if low is None or high is None or low < high else (None, high)


@given(laboratories)
def test_montages_read_back_as_they_were_written(tmp_path_factory, laboratory):
    path = tmp_path_factory.mktemp("montage") / "montage.toml"
    path.write_text(toml_text(laboratory.to_dict()))
    assert read_montages(path) == laboratory


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_file_is_montages_or_one_line_with_its_name(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("montage") / "montage.toml"
    path.write_bytes(content)
    try:
        read_montages(path)
    except StageGuardError as error:
        assert str(error).startswith("montage.toml: ") and "\n" not in str(error)


LANE = {"plus": "C4"}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"montages": []}, ("montages",)),
        ({"montage": [{"name": "A", "channels": []}]}, ("0 channels",)),
        ({"montage": [{"name": "A", "channels": [LANE] * 33}]}, ("33 channels",)),
        ({"montage": [{"name": "A", "channels": [LANE]}] * 2}, ("twice",)),
        ({"montage": [{"name": "A", "channels": [LANE | {"minus": "C4"}]}]}, ("minus", "another")),
        ({"montage": [{"name": "A", "channels": [LANE | {"low_pass_hz": 0}]}]}, ("low_pass_hz", "0.0")),
        ({"montage": [{"name": "A", "channels": [LANE | {"colour": "red"}]}]}, ("colour", "red")),
        ({"montage": [{"name": "A", "channels": [LANE | {"gain": 2}]}]}, ("gain",)),
        ({"view": {"seconds": -1}}, ("seconds",)),
    ],
)
def test_what_is_wrong_is_named(tmp_path, document, words):
    path = tmp_path / "montage.toml"
    path.write_text(toml_text(document))
    with pytest.raises(FileFormatError, match=naming("montage.toml", *words)):
        read_montages(path)
