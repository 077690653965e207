"""Stage schemes and the one table of stage names used in the field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

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

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.read_hypnogram(["W", "N1", "N2", "R"])
    >>> night.scheme.name, night.scheme.names
    ('aasm5', ('W', 'N1', 'N2', 'N3', 'R'))
    """

    name: str  # `aasm5`, `wldr4`, `wnr3`, `ws2`, or `custom`
    names: tuple[str, ...]  # the label of a stage is its index in this tuple
    wake: str | None = None  # which of the names is wake, if any
    rem: str | None = None  # and which is REM
    n_stages: int = field(init=False, repr=False, compare=False)
    wake_index: int | None = field(init=False, repr=False, compare=False)  # label of wake, or None
    rem_index: int | None = field(init=False, repr=False, compare=False)  # label of REM, or None

    def __post_init__(self) -> None:
        """Check the names and their roles."""
        checks.text(self.name, "scheme name", empty=False)
        names = checks.stage_names(self.names)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "n_stages", len(names))
        if not 2 <= len(names) <= MAX_STAGES:
            raise InputError(f"a scheme has {len(names)} stages, expected 2 to {MAX_STAGES}.")
        for name in names:
            checks.text(name, "stage name", empty=False)
            if name == UNSCORED_NAME or names.count(name) > 1:
                raise InputError(f"stages are {_listed(names)}, expected different names other than '?'.")
        for role, stage in (("wake", self.wake), ("rem", self.rem)):
            index = None if stage is None else names.index(checks.choice(stage, role, names))
            object.__setattr__(self, f"{role}_index", index)
        if self.wake is not None and self.wake == self.rem:
            raise InputError(f"wake and rem are both {self.wake!r}, expected two different stages.")

    @classmethod
    def named(cls, name: str) -> StageScheme:
        """Return a standard scheme: ``aasm5``, ``wldr4``, ``wnr3`` or ``ws2``."""
        scheme = SCHEMES.get(str(name))
        if scheme is None:
            hint = did_you_mean(str(name), SCHEMES)
            raise InputError(f"unknown scheme {checks.shown(name)}. Known: {_listed(SCHEMES)}.{hint}")
        return scheme

    @classmethod
    def custom(cls, names: Iterable[str], wake: str | None = None, rem: str | None = None) -> StageScheme:
        """Return a scheme of your own, or the standard scheme that equals it."""
        scheme = cls("custom", names, wake, rem)  # type: ignore[arg-type]
        return next((each for each in SCHEMES.values() if replace(each, name="custom") == scheme), scheme)

    def index(self, text: str) -> int:
        """Return the label of a stage, by its exact name or by an alias."""
        stage = text if text in self.names else self._alias(str(text))
        if stage is None:
            raise InputError(
                f"{checks.shown(text)} is not a stage of scheme {self.name!r}. "
                f"Known: {_listed(self.names)}.{did_you_mean(str(text), self.names)}"
            )
        return self.names.index(stage)

    def merge_map(self, coarser: StageScheme) -> Indices:
        """Return the label in a coarser scheme of each stage of this scheme."""
        labels = []
        for name in self.names:
            found = next((c for n in self._broader(name) if (c := coarser._counterpart(n))), None)
            labels.append(-1 if found is None else coarser.names.index(found))
        if set(labels) != set(range(coarser.n_stages)):
            parts = f"the stages {_listed(self.names)} are not the parts of {_listed(coarser.names)}"
            raise InputError(f"cannot merge scheme {self.name!r} into {coarser.name!r}: {parts}.")
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
        return {"W": self.wake, "R": self.rem}.get(name) or self._alias(name)


def as_scheme(scheme: StageScheme | str) -> StageScheme:
    """Return the scheme itself, or the standard scheme of this name."""
    return scheme if isinstance(scheme, StageScheme) else StageScheme.named(scheme)


def scheme_for(names: Sequence[str]) -> tuple[StageScheme, Indices]:
    """Return the standard scheme of these column names, and the column of each of its stages.

    Names may come in any order and as any alias. N3 together with light sleep means deep sleep.
    """
    meanings = [canonical_name(str(name)) for name in names]
    if "Light" in meanings and "Deep" not in meanings:
        meanings = ["Deep" if meaning == "N3" else meaning for meaning in meanings]
    for scheme in SCHEMES.values():
        if sorted(scheme.names) == sorted(map(str, meanings)):
            return scheme, np.array([meanings.index(name) for name in scheme.names], dtype=np.intp)
    known = "; ".join(f"{scheme.name} = {_listed(scheme.names)}" for scheme in SCHEMES.values())
    raise InputError(f"stages {_listed(map(str, names))} are not a standard scheme. Known: {known}.")


def _meaning(text: str) -> str:
    return canonical_name(text) or text.strip().lower()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


AASM5 = StageScheme("aasm5", ("W", "N1", "N2", "N3", "R"), wake="W", rem="R")
WLDR4 = StageScheme("wldr4", ("W", "Light", "Deep", "R"), wake="W", rem="R")
WNR3 = StageScheme("wnr3", ("W", "N", "R"), wake="W", rem="R")
WS2 = StageScheme("ws2", ("W", "S"), wake="W")
SCHEMES = {scheme.name: scheme for scheme in (AASM5, WLDR4, WNR3, WS2)}
