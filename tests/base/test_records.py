"""Our dataclasses, held against those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, field
from typing import ClassVar

import pytest

from stageguard.base.records import dataclass

OPTIONS = [
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False, "repr": False},
    {"frozen": True},
    {"slots": True},
    {"eq": False, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
]


def night(decorator, options):
    """Return a class and a child of it that use everything a field can say."""

    @decorator(**options)
    class Night:
        """A night."""

        kind: ClassVar[str] = "night"
        name: str
        epochs: list[int] = field(default_factory=list)
        seconds: float = 30.0
        note: str = field(default="", compare=False, repr=False)
        _: KW_ONLY
        scorer: str | None = None
        cells: dict[str, int] = field(default_factory=dict, init=False)
        size: int = field(default=7, init=False, repr=False)

        def __post_init__(self):
            object.__setattr__(self, "seconds", float(self.seconds))

    @decorator(**options)
    class Scored(Night):
        """A scored night."""

        kappa: float = 0.5

        def __repr__(self):
            return f"Scored {self.name}"

    return Night, Scored


def behaviour(night, scored):
    """Return whatever can be seen of the two classes."""
    one, same = night(name="a", seconds=20), night(name="a", seconds=20, note="other")
    other, child = dataclasses.replace(one, epochs=[1], scorer="B"), scored(name="a", kappa=0.25)
    is_hashable = night.__hash__ is not None
    return {
        "reprs": [repr(each).partition("object at")[0] for each in (one, other, child)],
        "equal": [one == same, one == other, one == child, one != same, one == 1],
        "hash": is_hashable,
        "dict": [dataclasses.asdict(each) for each in (one, other, child)],
        "fields": [[(each.name, each.type, each.kw_only) for each in dataclasses.fields(child)]],
        "match": (night.__match_args__, scored.__match_args__),
        "slots": (getattr(night, "__slots__", None), getattr(scored, "__slots__", None)),
        "signature": [list(inspect.signature(each).parameters.values()) for each in (night, scored)],
        "own epochs": night(name="a").epochs is not night(name="a").epochs,
    }


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_behaves_as_one_of_the_standard_library(options):
    ours = behaviour(*night(dataclass, options))
    theirs = behaviour(*night(dataclasses.dataclass, options))
    parameters = [
        [[(each.name, each.kind) for each in one] for one in made.pop("signature")] for made in (ours, theirs)
    ]
    assert parameters[0] == parameters[1]
    assert ours == theirs


def test_equal_frozen_records_have_one_hash():
    @dataclass(frozen=True, slots=True)
    class Pair:
        first: int
        second: str = field(default="", compare=False)

    assert hash(Pair(1, "a")) == hash(Pair(1, "b")) != hash(Pair(2, "a"))
    assert {Pair(1), Pair(1)} == {Pair(1)}


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch, where pickle finds it."""

    stage: str
    seconds: float = 30.0


def test_a_frozen_record_can_be_copied_and_sent_but_not_changed():
    epoch = Epoch("W", 20.0)
    assert pickle.loads(pickle.dumps(epoch)) == copy.copy(epoch) == copy.deepcopy(epoch) == epoch
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'stage'"):
        epoch.stage = "R"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'stage'"):
        del epoch.stage
    assert epoch == Epoch("W", 20.0)


def test_wrong_arguments_are_errors():
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'stage'"):
        Epoch()
    with pytest.raises(TypeError, match="unexpected keyword argument 'minutes'"):
        Epoch("W", minutes=1)
