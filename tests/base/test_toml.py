from __future__ import annotations

import time
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stageguard.datasets import radar
from stageguard.errors import StageGuardError
from stageguard.profile.profile import Profile
from stageguard.schema import parse_toml, toml_text
from stageguard.study.config import read_study

plain = st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans()
values = st.recursive(plain, lambda v: st.lists(v, max_size=5) | st.dictionaries(st.text(), v, max_size=5))
documents = st.dictionaries(st.text(), values, max_size=6)
tables = st.dictionaries(st.text(max_size=3), values, max_size=3)
lists_of_tables = st.dictionaries(st.text(max_size=3), st.lists(tables, max_size=4), max_size=3)


def exactly(value):
    """Return a value with its types, so that 1, 1.0 and True differ, and -0.0 from 0.0."""
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exactly(item) for item in value]
    return type(value), repr(value)


@pytest.mark.slow
@given(documents)
def test_what_is_written_reads_back_exactly(document):
    assert exactly(tomllib.loads(toml_text(document))) == exactly(document)


@pytest.mark.slow
@given(lists_of_tables)
def test_tables_and_arrays_of_tables_read_back(document):
    nested = {**document, "nested": {"inner": document}}
    assert exactly(tomllib.loads(toml_text(nested))) == exactly(nested)


def test_keys_keep_their_order():
    document = {"b": 1, "a": 2, "table": {"z": 0, "y": {"x": 1.5}}}
    assert list(tomllib.loads(toml_text(document))) == list(document)
    assert list(tomllib.loads(toml_text(document))["table"]) == ["z", "y"]


@pytest.mark.parametrize("value", [None, {1, 2}, b"bytes", [None]])
def test_what_toml_cannot_hold_is_refused(value):
    with pytest.raises(TypeError, match="not TOML serializable"):
        toml_text({"key": value})


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 1_000_000) + " = 1",
        "[" + " . ".join(['"a b"', "'c.d'"] * 500_000) + "]",
        "table = { " + ".".join([r'"\""'] * 500_000) + " = 1 }",
        "a = " + "[" * 100_000,
        "a = " + "9" * 100_000,
        "a" * 5_000_000,
        '"' * 1_000_000,
    ],
    ids=["key", "quoted key", "key in a table", "nested", "digits", "long", "quotes"],
)
def test_what_would_take_hours_to_read_is_refused_at_once(text):
    began = time.process_time()
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_toml(text)
    assert time.process_time() - began < 5


def test_long_lists_and_versions_are_no_keys():
    text = "See e.g. Fig. 3. " * 100
    document = {"numbers": [0.5] * 1000, "version": "1.2.3", "text": text, "a": {"b": {"c": 1}}}
    assert parse_toml(toml_text(document)) == document


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 100_000])
def test_a_hostile_configuration_is_one_line_in_every_reader(tmp_path, text):
    (tmp_path / "study.toml").write_text(text)
    mapping = tmp_path / "stageguard.toml"
    mapping.write_text(text)
    for read in (Profile.load, read_study):
        with pytest.raises(StageGuardError, match="TOML") as caught:
            read(tmp_path / "study.toml")
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(StageGuardError, match="TOML"):
        list(radar._parse(mapping, tmp_path))
