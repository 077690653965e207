"""What the schema of documents takes, fills in, gives back and refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from messages import mentions, naming
from stageguard import schema
from stageguard.errors import InputError


@dataclass(frozen=True)
class Inner:
    size: int = schema.whole(3, low=1, high=9)


@dataclass(frozen=True)
class Document:
    name: str = schema.text()
    epochs: int = schema.count(20)
    weight: float | None = schema.number(None, positive=True)
    length: int | None = schema.declare(None, schema.optional(lambda value, where: len(str(value))))
    inner: Inner = schema.table(Inner)


@dataclass(frozen=True)
class Checked:
    epochs: int = schema.count(20)
    weight: float | None = schema.number(None, positive=True)

    def __post_init__(self) -> None:
        """Check what was given."""
        schema.check_fields(self)


def refusal(given: object, **options: bool) -> str:
    with pytest.raises(InputError) as caught:
        schema.read_table(Document, given, **options)
    return str(caught.value)


def test_what_is_left_out_keeps_its_default_and_comes_back_in_full():
    read = schema.read_table(Document, {"name": "a", "inner": {"size": 4}})
    assert read == Document("a", 20, None, None, Inner(4))
    plain = schema.plain_table(read)
    assert plain == {"name": "a", "epochs": 20, "weight": None, "length": None, "inner": {"size": 4}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("'name'", "document")),
        ({"name": "a", "epoch": 1}, ("'epoch'", "'epochs'")),
        ({"name": "a", "epochs": 1.5}, ("epochs", "1.5", 1)),
        ({"name": "a", "epochs": True}, ("epochs", "True", 1)),
        ({"name": "a", "inner": {"size": 3.0}}, ("inner.size", "3.0", 1, 9)),
        ({"name": "a", "inner": {"size": 10}}, ("inner.size", 10, 1, 9)),
    ],
)
def test_a_wrong_entry_is_named_with_its_table(given: Mapping[str, object], expected: str):
    assert mentions(refusal(given), *expected)


def test_a_complete_document_leaves_nothing_out():
    complete = {"name": "a", "epochs": 2.0, "weight": 1, "length": None, "inner": {}}
    assert schema.read_table(Document, complete, complete=True) == Document("a", 2, 1.0, None, Inner())
    del complete["length"]
    assert mentions(refusal(complete, complete=True), "'length'")


def test_fields_are_checked_where_no_document_was_read():
    assert Checked(7.0) == Checked(7)
    assert isinstance(Checked(7.0).epochs, int)
    assert Checked(weight=None).weight is None
    with pytest.raises(InputError, match=naming("weight", 0, "number", "above", 0)):
        Checked(weight=0)
    with pytest.raises(InputError, match=naming("epochs", "whole", "least", 1)):
        Checked(epochs=None)
