from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stageguard.base import toml

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
    assert exactly(tomllib.loads(toml.dumps(document))) == exactly(document)


@given(lists_of_tables, st.integers(0, 60))
def test_tables_and_arrays_of_tables_read_back_at_any_line_length(document, line_length):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toml, "LINE_LENGTH", line_length)
        nested = {**document, "nested": {"inner": document}}
        assert exactly(tomllib.loads(toml.dumps(nested))) == exactly(nested)


def test_layout_is_made_for_people():
    document = {
        "table": {"row": {"a": 1.0, "b c": True}, "wide": {"text": "x" * 100, "empty": {}}},
        "name": 'a "quoted"\ttext',
        "pairs": [["W", "R"], ["R", "N", 0.1]],
        "long": ["x" * 60, "y" * 60],
        "cautions": [{"cohort": "a", "reason": "x" * 60}, {"cohort": "b", "reason": "y" * 60}],
        "short": [{"a": 1}],
        "none": [],
    }
    assert toml.dumps(document) == (
        'name = "a \\"quoted\\"\\ttext"\n'
        'pairs = [["W", "R"], ["R", "N", 0.1]]\n'
        f'long = [\n    "{"x" * 60}",\n    "{"y" * 60}",\n]\n'
        "short = [{ a = 1 }]\n"
        "none = []\n"
        "\n[table]\n"
        'row = { a = 1.0, "b c" = true }\n'
        f'\n[table.wide]\ntext = "{"x" * 100}"\nempty = {{}}\n'
        f'\n[[cautions]]\ncohort = "a"\nreason = "{"x" * 60}"\n'
        f'\n[[cautions]]\ncohort = "b"\nreason = "{"y" * 60}"\n'
    )


@pytest.mark.parametrize("value", [None, {1, 2}, b"bytes", [None]])
def test_what_toml_cannot_hold_is_refused(value):
    with pytest.raises(TypeError, match=r"cannot write .* as TOML"):
        toml.dumps({"key": value})
