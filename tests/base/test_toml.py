from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stageguard.base.files import toml_text

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


@given(documents)
def test_what_is_written_reads_back_exactly(document):
    assert exactly(tomllib.loads(toml_text(document))) == exactly(document)


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
