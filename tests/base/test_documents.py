"""What documents take, fill in, give back and refuse."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import mentions, naming
from stageguard import documents
from stageguard.documents import Count, Positive, Range
from stageguard.errors import InputError, StageGuardError
from stageguard.profile.profile import Profile
from stageguard.study.config import read_study


@dataclass(frozen=True)
class Inner:
    size: Annotated[int, Range(1, 9)] = 3


@dataclass(frozen=True)
class Document:
    name: str
    epochs: Count = 20
    weight: Positive | None = None
    kind: Literal["mouse", "human"] = "mouse"
    start: datetime | None = None
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Checked:
    epochs: Count = 20

    def __post_init__(self) -> None:
        """Check what was given."""
        documents.check_fields(self)


def test_what_is_left_out_keeps_its_default_and_comes_back():
    given = {"name": "a", "epochs": 2.0, "inner": {"size": 4}, "start": datetime(2024, 5, 1)}
    read = documents.read(Document, given)
    assert read == Document("a", 2, None, "mouse", datetime(2024, 5, 1), Inner(4))
    assert documents.plain(read) == given
    assert documents.plain(read, defaults=True) == given | {"kind": "mouse"}
    assert isinstance(Checked(7.0).epochs, int)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("'name'", "document")),
        ({"name": "a", "epoch": 1}, ("'epoch'", "'epochs'")),
        ({"name": "a", "epochs": 1.5}, ("epochs", "1.5")),
        ({"name": "a", "epochs": True}, ("epochs", "True")),
        ({"name": "a", "weight": 0}, ("weight", "above", 0)),
        ({"name": "a", "kind": "mice"}, ("kind", "'mice'", "'mouse'", "'human'")),
        ({"name": "a", "start": "now"}, ("start", "'now'", "datetime")),
        ({"name": "a", "inner": {"size": 10}}, ("inner.size", 10, 1, 9)),
        ({"name": "a", "inner": 3}, ("inner", 3, "table")),
    ],
)
def test_a_wrong_entry_is_named_with_its_place(given: dict[str, Any], expected: tuple[object, ...]):
    with pytest.raises(InputError) as caught:
        documents.read(Document, given)
    assert mentions(str(caught.value), *expected)


def test_fields_are_checked_where_no_document_was_read():
    with pytest.raises(InputError, match=naming("epochs", 0, "least", 1)):
        Checked(0)


plain = st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans()
values = st.recursive(plain, lambda v: st.lists(v, max_size=5) | st.dictionaries(st.text(), v, max_size=5))


@pytest.mark.slow
@given(st.dictionaries(st.text(), values, max_size=6))
def test_toml_that_is_written_reads_back_exactly(document):
    back = tomllib.loads(documents.toml_text(document))
    assert json.dumps(back, sort_keys=True) == json.dumps(document, sort_keys=True)  # 1 is not 1.0


@pytest.mark.parametrize("text", ["", "a = ", "a = " + "[" * 100_000, "a = " + "9" * 100_000, "\udcff"])
def test_a_file_that_is_no_toml_is_one_line_in_every_reader(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    for read in (Profile.load, read_study):
        with pytest.raises(StageGuardError, match="TOML") as caught:
            read(path)
        assert len(str(caught.value).splitlines()) == 1
