"""JSON with a line for each entry of the outer levels says what was given."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stageguard.files import json_lines

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(LEAVES, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=12)


@given(VALUES, st.booleans())
def test_what_is_read_back_is_what_was_written(value, ensure_ascii):
    text = json_lines(value, ensure_ascii=ensure_ascii)
    assert json.loads(text) == value
    assert text.isascii() or not ensure_ascii


def test_two_levels_have_a_line_for_each_entry():
    text = json_lines({"a": 1, "b": {"c": [2, {"d": 3}], "e": []}, "f": [[4, 5]]})
    assert text.splitlines() == [
        "{",
        '  "a": 1,',
        '  "b": {',
        '    "c": [2, {"d": 3}],',
        '    "e": []',
        "  },",
        '  "f": [',
        "    [4, 5]",
        "  ]",
        "}",
    ]


def test_what_json_has_no_word_for_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_lines({"a": [{"b": float("nan")}]})
