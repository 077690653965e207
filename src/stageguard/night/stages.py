"""Stage schemes and the one table of stage names used in the field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stageguard import checks
from stageguard.arrays import Indices
from stageguard.errors import InputError, did_you_mean

MAX_STAGES = 127  # labels are int8
UNSCORED_NAME = "?"

_SYNONYMS = {
    "W": ("w", "wake", "awake", "wk"),
    "N1": ("n1", "nrem1", "s1", "stage1", "stage 1", "stage 1 sleep"),
    "N2": ("n2", "nrem2", "s2", "stage2", "stage 2", "stage 2 sleep"),
    "N3": (
        *("n3", "nrem3", "s3", "stage3", "stage 3", "stage 3 sleep", "sws"),
        *("n4", "nrem4", "s4", "stage4", "stage 4", "stage 4 sleep", "s3/4", "s3/s4", "n3/n4"),
    ),
    "R": ("r", "rem", "rem sleep"),
    "Light": ("light", "light sleep"),
    "Deep": ("deep", "deep sleep"),
    "N": ("n", "nr", "nrem", "nrem sleep", "non-rem"),
    "S": ("s", "sleep"),
}
_CANONICAL = {synonym: name for name, synonyms in _SYNONYMS.items() for synonym in synonyms}
_BROADER = {
    **{"N1": "Light", "N2": "Light", "N3": "Deep", "Light": "N", "Deep": "N"},
    **{"N": "S", "R": "S"},
}
_PREFIXES = {"p", "pp", "prob", "proba", "probability", "sleep", "stage"}
_SEPARATORS = re.compile(r"[\s_.:()]+")


def canonical_name(text: str) -> str | None:
    """Return the short name (W, N1, N2, N3, R, Light, Deep, N, S) a stage label stands for, or None.

    Case is ignored, and so are the words stagers write before a name: ``Sleep stage W``,
    ``Prob. W``, ``PP_W`` and ``P_W`` are all W. A bare digit means nothing: 1 is N1 in some
    files, REM in others and Sleep in a third kind.
    """
    words = _SEPARATORS.sub(" ", text.lower()).split()
    while words:
        name = _CANONICAL.get(" ".join(words))
        if name is not None or words[0] not in _PREFIXES:
            return name
        words = words[1:]
    return None


@dataclass(frozen=True, slots=True)
class StageScheme:
    """The stages a stager distinguishes, in the order of its columns.

    Parameters
    ----------
    name : str
        ``aasm5``, ``wldr4``, ``wnr3``, ``ws2``, or ``custom``.
    names : tuple of str
        Stage names; the label of a stage is its index in this tuple.
    wake, rem : str or None
        Which of the names is wake and which is REM, if any.

    Attributes
    ----------
    n_stages : int
        Number of stages.
    wake_index, rem_index : int or None
        Labels of wake and of REM.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.read_hypnogram(["W", "N1", "N2", "R"])
    >>> night.scheme.name, night.scheme.names
    ('aasm5', ('W', 'N1', 'N2', 'N3', 'R'))
    """

    name: str
    names: tuple[str, ...]
    wake: str | None = None
    rem: str | None = None
    n_stages: int = field(init=False, repr=False, compare=False)
    wake_index: int | None = field(init=False, repr=False, compare=False)  # label of wake, or None
    rem_index: int | None = field(init=False, repr=False, compare=False)  # label of REM, or None

    def __post_init__(self) -> None:
        """Check the names and their roles."""
        checks.text(self.name, "scheme name", empty=False)
        object.__setattr__(self, "names", _checked_names(self.names))
        object.__setattr__(self, "n_stages", len(self.names))
        for role in ("wake", "rem"):
            stage = getattr(self, role)
            if stage is not None and not (isinstance(stage, str) and stage in self.names):
                raise InputError(
                    f"{role} is {checks.shown(stage)}, which is not one of the stages {_listed(self.names)}."
                )
            index = None if stage is None else self.names.index(stage)
            object.__setattr__(self, f"{role}_index", index)
        if self.wake is not None and self.wake == self.rem:
            raise InputError(f"wake and rem are both {self.wake!r}, expected two different stages.")

    @classmethod
    def named(cls, name: str) -> StageScheme:
        """Return a standard scheme: ``aasm5``, ``wldr4``, ``wnr3`` or ``ws2``."""
        given: object = name
        if isinstance(given, str) and given in SCHEMES:
            return SCHEMES[given]
        hint = did_you_mean(given, SCHEMES) if isinstance(given, str) else ""
        raise InputError(f"unknown scheme {checks.shown(name)}. Known: {_listed(SCHEMES)}.{hint}")

    @classmethod
    def custom(cls, names: Iterable[str], wake: str | None = None, rem: str | None = None) -> StageScheme:
        """Return a scheme of your own, or the standard scheme that equals it."""
        scheme = cls("custom", _checked_names(names), wake, rem)
        for standard in SCHEMES.values():
            if (standard.names, standard.wake, standard.rem) == (scheme.names, wake, rem):
                return standard
        return scheme

    @property
    def sleep(self) -> tuple[str, ...]:
        """Names of all stages other than wake."""
        return tuple(name for name in self.names if name != self.wake)

    def index(self, text: str) -> int:
        """Return the label of a stage, by its exact name or by an alias."""
        if not isinstance(text, str):
            raise InputError(f"stage is {checks.shown(text)}, expected a name. Known: {_listed(self.names)}.")
        if text in self.names:
            return self.names.index(text)
        alias_of = self._alias(text)
        if alias_of is not None:
            return self.names.index(alias_of)
        raise InputError(
            f"{text!r} is not a stage of scheme {self.name!r}. "
            f"Known: {_listed(self.names)}.{did_you_mean(text, self.names)}"
        )

    def merge_map(self, coarser: StageScheme) -> Indices:
        """Return the label in a coarser scheme of each stage of this scheme."""
        labels = []
        for name in self.names:
            target = next((c for n in self._broader(name) if (c := coarser._counterpart(n))), None)
            if target is None:
                raise InputError(
                    f"cannot merge scheme {self.name!r} into {coarser.name!r}: stage {name!r} has no "
                    f"counterpart among {_listed(coarser.names)}."
                )
            labels.append(coarser.names.index(target))
        orphans = sorted(set(range(coarser.n_stages)) - set(labels))
        if orphans:
            raise InputError(
                f"cannot merge scheme {self.name!r} into {coarser.name!r}: no stage among "
                f"{_listed(self.names)} corresponds to {coarser.names[orphans[0]]!r}."
            )
        return np.array(labels, dtype=np.intp)

    def _alias(self, text: str) -> str | None:
        """Return the stage that means the same as the text, or None unless there is exactly one."""
        same = [name for name in self.names if _meaning(name) == _meaning(text)]
        return same[0] if len(same) == 1 else None

    def _broader(self, name: str) -> list[str]:
        """Return the name and ever broader canonical names for it, by its role or by the table of aliases."""
        if name == self.wake:
            return [name, "W"]
        meaning = "R" if name == self.rem else canonical_name(name)
        if meaning is None and self.wake is not None:
            meaning = "S" if self.rem is None else "N"
        chain = [name]
        while meaning is not None:
            chain.append(meaning)
            meaning = _BROADER.get(meaning)
        return chain

    def _counterpart(self, name: str) -> str | None:
        """Return the stage that a (canonical) name stands for, by name, role or alias, or None."""
        if name in self.names:
            return name
        role = {"W": self.wake, "R": self.rem}.get(name)
        return role if role is not None else self._alias(name)


def as_scheme(scheme: StageScheme | str) -> StageScheme:
    """Return the scheme itself, or the standard scheme of this name."""
    return scheme if isinstance(scheme, StageScheme) else StageScheme.named(scheme)


def scheme_for(names: Sequence[str]) -> tuple[StageScheme, Indices]:
    """Return the standard scheme of these column names, and the column of each of its stages.

    Names may come in any order and as any alias. N3 together with light sleep means deep sleep.
    """
    columns: dict[str, int] = {}
    for column, name in enumerate(names):
        meaning = canonical_name(str(name))
        if meaning is None:
            hint = did_you_mean(str(name), [alias for alias in _CANONICAL if len(alias) > 2])
            known = f"Known: {_listed(_SYNONYMS)} and their aliases."
            raise InputError(f"column {checks.shown(name)} is not a stage name. {known}{hint}")
        if meaning in columns:
            raise InputError(f"columns {names[columns[meaning]]!r} and {name!r} are both stage {meaning!r}.")
        columns[meaning] = column
    if "Light" in columns and "N3" in columns and "Deep" not in columns:
        columns["Deep"] = columns.pop("N3")
    for scheme in SCHEMES.values():
        if columns.keys() == set(scheme.names):
            return scheme, np.array([columns[name] for name in scheme.names], dtype=np.intp)
    known = "; ".join(f"{scheme.name} = {_listed(scheme.names)}" for scheme in SCHEMES.values())
    raise InputError(f"stages {_listed(columns)} are not a standard scheme. Known: {known}.")


def _meaning(text: str) -> str:
    return canonical_name(text) or text.strip().lower()


def _checked_names(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"stages are {checks.shown(names)}, expected a list of names.")
    checked = tuple(checks.text(name, "stage name", empty=False) for name in names)
    if not 2 <= len(checked) <= MAX_STAGES:
        raise InputError(f"a scheme has {len(checked)} stages, expected 2 to {MAX_STAGES}.")
    for index, name in enumerate(checked):
        if name == UNSCORED_NAME:
            raise InputError(f"{UNSCORED_NAME!r} cannot be a stage name: it marks unscored epochs.")
        if name in checked[:index]:
            raise InputError(f"stage {name!r} is listed twice.")
    return checked


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


AASM5 = StageScheme("aasm5", ("W", "N1", "N2", "N3", "R"), wake="W", rem="R")
WLDR4 = StageScheme("wldr4", ("W", "Light", "Deep", "R"), wake="W", rem="R")
WNR3 = StageScheme("wnr3", ("W", "N", "R"), wake="W", rem="R")
WS2 = StageScheme("ws2", ("W", "S"), wake="W")
SCHEMES = {scheme.name: scheme for scheme in (AASM5, WLDR4, WNR3, WS2)}
