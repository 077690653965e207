"""A recipe: one document that defines how the features of a recording are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stageguard.base import checks, schema
from stageguard.base.errors import InputError, did_you_mean
from stageguard.base.schema import plain_table, read_table, read_toml
from stageguard.signals.modalities import modality_of

FOLDER = Path(__file__).with_name("recipes")

_WORDS = ("name", "summary", "modality", "epoch_seconds", "absolute", "scaling", "provenance")
_REQUIRED = ("name", "modality", "epoch_seconds")


@dataclass(frozen=True, slots=True)
class Scaling:
    """How features of different recordings are brought to one scale.

    "robust" subtracts the recording's median and divides by 1.4826 times the median distance from it. With
    scored epochs for calibration, the z-score of a mixture of stages is used instead.
    """

    method: str = schema.choice("robust", "robust", "none")
    clip: float = schema.number(0.0, low=0.0)  # largest scaled value, positive or negative; 0 for no limit
    # share of each stage in the mixture of calibration epochs
    weights: Mapping[str, float] = schema.shares({"W": 0.35, "N": 0.55, "R": 0.10})


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Recipe(schema.Document):
    """How to turn a recording into the input of a network.

    A recipe is made from a document with the keys of a recipe file: see `load` and `from_dict`. The whole
    document is checked at once. Two recipes are equal if their documents, with defaults filled in, are equal.
    """

    name: str
    summary: str
    modality: str  # what must have been recorded
    epoch_seconds: float  # default length of an epoch
    absolute: tuple[str, ...]  # features that mean the same everywhere and are not scaled; wildcards allowed
    scaling: Scaling  # of all other features
    settings: Any  # the modality's options
    provenance: Mapping[str, Any]  # where the choices come from
    _cache: dict[str, Any]

    def __init__(self, document: Mapping[str, object]) -> None:
        for name, value in {**_parse(document), "_cache": {}}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> Recipe:
        """Return a recipe from a mapping with the keys of a recipe file."""
        return cls(document)

    @classmethod
    def load(cls, name_or_path: str | Path) -> Recipe:
        """Return a built-in recipe by name, or your own by the path of its TOML file."""
        if isinstance(name_or_path, str) and name_or_path in recipes():
            return _built_in(name_or_path)
        path = Path(name_or_path)
        if isinstance(name_or_path, Path) or path.suffix == ".toml":
            return _from_file(path)
        raise InputError(
            f"unknown recipe {name_or_path!r}. Built in: {', '.join(recipes())}; for one's own, give the "
            f"path of a .toml file.{did_you_mean(name_or_path, recipes())}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the complete document in plain TOML types, with every default."""
        return {
            "name": self.name,
            "summary": self.summary,
            "modality": self.modality,
            "epoch_seconds": self.epoch_seconds,
            "absolute": list(self.absolute),
            "scaling": plain_table(self.scaling),
            **plain_table(self.settings),
            "provenance": plain_table(self.provenance),
        }

    def replace(self, **changes: object) -> Recipe:
        """Return a recipe with some keys of its document changed."""
        return Recipe({**self.to_dict(), **changes})

    def __repr__(self) -> str:
        """Return name, modality and the first digits of the hash."""
        return f"<Recipe {self.name!r}, {self.modality}, sha256 {self.sha256[:12]}>"


def recipes() -> list[str]:
    """Return the names of the built-in recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def modality_module(modality: str) -> Any:
    """Return the module with a modality's SETTINGS and extract(recording, epochs, recipe)."""
    return import_module(f"stageguard.signals.{modality_of(modality).module}")


def _parse(document: Mapping[str, object]) -> dict[str, Any]:
    if not isinstance(document, Mapping):
        raise InputError(f"a recipe is {checks.shown(document)}, expected a table of keys.")
    for key in _REQUIRED:
        if key not in document:
            raise InputError(f"key {key!r} is missing from the recipe. Required: {', '.join(_REQUIRED)}.")
    modality = modality_of(document["modality"]).name
    settings = modality_module(modality).SETTINGS
    options = tuple(item.name for item in fields(settings))
    checks.known_keys(map(str, document), f"a recipe for {modality}", (*_WORDS, *options))
    return {
        "name": checks.text(document["name"], "name", empty=False),
        "summary": checks.text(document.get("summary", ""), "summary"),
        "modality": modality,
        "epoch_seconds": checks.epoch_seconds(document["epoch_seconds"]),
        "absolute": schema.text_list(document.get("absolute", ()), "absolute"),
        "scaling": read_table(Scaling, document.get("scaling", {}), "scaling"),
        "settings": read_table(settings, {key: document[key] for key in options if key in document}),
        "provenance": MappingProxyType(dict(checks.mapping(document.get("provenance", {}), "provenance"))),
    }


@cache
def _built_in(name: str) -> Recipe:
    return _from_file(FOLDER / f"{name}.toml")


def _from_file(path: Path) -> Recipe:
    try:
        return Recipe(read_toml(path, "a recipe"))
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file. Give a built-in name ({', '.join(recipes())}) or the path of a .toml."
        ) from None
