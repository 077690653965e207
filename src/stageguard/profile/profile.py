"""A profile: everything the decoder assumes about a population, from one document."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from stageguard import checks, documents
from stageguard.arrays import DAY_SECONDS, Labels
from stageguard.documents import ByName, NotNegative, Range, Share, Text
from stageguard.errors import CohortError, FileFormatError, InputError, ProfileError, did_you_mean
from stageguard.files import write_text_atomic
from stageguard.night.period import Period, period_of
from stageguard.night.quantities import indicators_of
from stageguard.night.stages import SCHEMES, StageScheme
from stageguard.profile.parts import (
    AboveZero,
    Band,
    Calibration,
    Caution,
    Clock,
    Durations,
    ExpertShares,
    FlipFlop,
    Joint,
    LabelShares,
    PosteriorRules,
    RarePair,
    Rows,
    ShareRepair,
    StreamingRules,
    Weight,
    sums_to_one,
    words_of,
)
from stageguard.profile.rules import StrengthRule
from stageguard.storage import location

Made = TypeVar("Made")
FOLDER = Path(__file__).with_name("builtin")

_OWN_SCHEME = ("stages", "wake", "rem")  # keys of a profile with stages of its own, instead of `scheme`
_EXCLUDES = {
    "transition_weight": ("strength",),
    "strength": ("transition_weight",),
    "scheme": _OWN_SCHEME,
    "stages": ("scheme",),
}
# Keys that profiles had, and why they have them no more.
_REMOVED = {
    "estimators": "every statistic is counted on the decoded stages",
    "fingerprint": "nights are known by the names of their stager and cohort",
    "taught_by": "nights that a profile was fitted to are not recognised",
}
# Keys that do not change how nights are decoded; with another value, errors on scored nights stay valid.
NOT_DECODING = {
    *("name", "summary", "intended_for", "species", "reproduces_paper", "cohort", "stager", "not_for"),
    *("tvr_pairs", "streaming", "posterior", "bands", "joint", "shares", "intervals", "base", "provenance"),
}
OFF = "off"  # the strength that switches the guard off
_GUARD = ["min_bout_seconds", "flip_flop", "durations", "clock", "posterior", "calibration", "prior_exponent"]


class _OfRare(tuple[tuple[str, str], ...]):
    """Pairs that TVR counts because they are rare, and not because the document says so."""


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


# What is read of the errors on scored nights; the other entries are of any form.
_INTERVALS: Mapping[str, Any] = {
    "errors": Mapping[str, tuple[Annotated[tuple[float, ...], Range(low=1)], ...]],  # one list per person
    "coverage": Mapping[str, Share],
    "model_coverage": Mapping[str, Share],
    "n_nights": NotNegative,
    "n_subjects": NotNegative,
    "min_first_rem_seconds": Annotated[float, Range(0, DAY_SECONDS)],
    "level_of_coverage": Share,
}


def _are_intervals(intervals: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    for key, value in intervals.items():
        documents.read(_INTERVALS.get(key, Any), value, f"{where}.{key}")
    return intervals


# What a fitted profile keeps of itself on nights that its base decodes: whose it is, and from where.
_IDENTITY = ("name", "summary", "intended_for", "cohort", "stager", "intervals", "base", "provenance")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Profile:
    """Everything the decoder assumes about the sleep of a population.

    Its fields are the keys of a profile file, which docs/profiles.md explains; tuples of numbers are in the
    order of the stages. `load` and `from_dict` check every value. A profile cannot be changed; `replace`
    returns another one. Two profiles are equal when their documents are.

    Examples
    --------
    >>> import stageguard as sg
    >>> profile = sg.Profile.load("human-psg-3")
    >>> profile.scheme.names
    ('W', 'N', 'R')
    >>> profile.replace(transition_weight=0.3).transition_weight
    0.3
    """

    name: Text
    summary: str = ""
    intended_for: str = ""
    species: Text = "human"
    reproduces_paper: bool = False
    cohort: Text | None = None  # that it was fitted on
    stager: Text | None = None  # that it was tuned or fitted to
    not_for: tuple[Caution, ...] = ()
    scheme: StageScheme  # in the document: scheme, or stages, wake and rem
    epoch_seconds: Annotated[float, Range(0.001, DAY_SECONDS)]  # at which the transitions were counted
    stay: Literal["self", "free"] = "self"
    ends: Literal["censored", "paper"] = "censored"
    transition_weight: Weight | None = 1.0  # None when `strength` sets it
    strength: StrengthRule | None = None
    prior_exponent: NotNegative = 0.0
    prior: Annotated[tuple[AboveZero, ...], ByName(), sums_to_one] | None = None
    rare_probability: Share = 0.001
    rare: tuple[RarePair, ...] = ()
    tvr_pairs: tuple[tuple[str, str], ...] = None  # type: ignore[assignment]  # by default those of `rare`
    min_bout_seconds: Annotated[
        Mapping[str, Annotated[float, Range(above=0, high=DAY_SECONDS)]], ByName(complete=False)
    ] = field(default_factory=_nothing)
    flip_flop: FlipFlop = field(default_factory=FlipFlop)
    transitions: Rows
    calibration: Calibration = field(default_factory=Calibration)
    labels: LabelShares | None = None
    clock: Clock | None = None
    streaming: StreamingRules | None = None
    posterior: PosteriorRules | None = None  # None: posterior and draws act at the strength of the path
    durations: Annotated[Mapping[str, Durations], ByName(complete=False)] = field(default_factory=_nothing)
    bands: Mapping[str, Band] = field(default_factory=_nothing)
    joint: Joint | None = None
    shares: ExpertShares | None = None
    intervals: Annotated[Mapping[str, Any], _are_intervals] = field(default_factory=_nothing)
    base: Profile | None = None  # that it was fitted from
    provenance: Mapping[str, Any] = field(default_factory=_nothing)
    _cache: dict[Any, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Fill in what follows from other values, and check what must fit together."""
        if self.strength is not None:
            object.__setattr__(self, "transition_weight", None)
        usual = self.rare_probability
        rare = tuple(replace(p, probability=usual) if isnan(p.probability) else p for p in self.rare)
        object.__setattr__(self, "rare", rare)
        if isinstance(self.tvr_pairs, _OfRare | None):
            object.__setattr__(self, "tvr_pairs", _OfRare(_ends(rare)))
        _check_together(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> Profile:
        """Return the profile that a mapping describes; its keys are those of a profile file."""
        try:
            table = checks.mapping(document, "a profile")
            for key, why in _REMOVED.items():
                if key in table:
                    raise InputError(f"key {key!r} was removed from profiles: {why}. Delete the key.")
            checks.known_keys(table, "a profile", _KEYS)
            for one, others in _EXCLUDES.items():
                for other in others:
                    if one in table and other in table:
                        raise InputError(f"keys {one!r} and {other!r} exclude each other. Keep one of them.")
            scheme = _scheme_of(table)
            values = {key: value for key, value in table.items() if key not in _OWN_SCHEME}
            return documents.read_fields(cls, values | {"scheme": scheme}, names=scheme.names)
        except InputError as error:
            raise ProfileError(str(error)) from None
        except RecursionError:
            raise ProfileError("tables or lists are nested too deeply, expected a profile.") from None

    @classmethod
    def read_document(cls, value: Any, where: str) -> Profile:
        """Return the profile that is part of another document."""
        try:
            return cls.from_dict(value)
        except ProfileError as error:
            raise InputError(f"{where}: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the document, without anything compiled."""
        return Profile.from_dict, (self.to_dict(),)

    def __eq__(self, other: object) -> bool:
        """Compare by document."""
        return self.sha256 == other.sha256 if isinstance(other, Profile) else NotImplemented

    def __hash__(self) -> int:
        """Hash by document."""
        return hash(self.sha256)

    @classmethod
    def load(cls, name_or_path: str | Path) -> Profile:
        """Return a built-in profile by name, or your own by the path of its TOML file.

        Raises
        ------
        ProfileError
            There is no such profile, or the file's document is wrong: one line that names the key.
        """
        built_in = _built_in(name_or_path) if isinstance(name_or_path, str) else None
        if built_in is not None:
            return built_in
        try:
            path = location(name_or_path)
        except TypeError:
            got = checks.shown(name_or_path)
            raise ProfileError(f"profile is {got}, expected a name or the path of a .toml file.") from None
        if path.suffix == ".toml" or path.name != name_or_path:
            return _from_file(path)
        hint = did_you_mean(name_or_path, profiles()) or " List them: stageguard profiles."
        raise ProfileError(
            f"unknown profile {checks.shown(name_or_path)}, expected a built-in one or a .toml file.{hint}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the document: plain TOML types in the order of a profile file, defaults left out."""
        document: dict[str, Any] = {}
        for key, value in documents.plain_fields(self, names=self.scheme.names).items():
            if key == "scheme" and self.scheme not in SCHEMES.values():
                roles = {"wake": self.scheme.wake, "rem": self.scheme.rem}
                document["stages"] = list(self.scheme.names)
                document |= {role: stage for role, stage in roles.items() if stage is not None}
            elif key == "scheme":
                document[key] = self.scheme.name
            elif key == "rare":
                usual = self.rare_probability
                document[key] = [
                    [pair.source, pair.target, pair.probability][: 2 if pair.probability == usual else 3]
                    for pair in self.rare
                ]
            elif not isinstance(self.tvr_pairs, _OfRare) or key != "tvr_pairs":
                document[key] = value
        return document

    to_document = to_dict

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the document as a TOML file that `load` reads back exactly."""
        write_text_atomic(path, documents.toml_text(self.to_dict()), overwrite=overwrite)

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the document, the same however it is formatted."""
        return self._once("sha256", lambda: documents.sha256_of(self.to_dict()))

    def _once(self, key: Hashable, make: Callable[..., Made], *arguments: Any) -> Made:
        """Return the result of `make`, which only the first call with this key runs."""
        if key not in self._cache:
            self._cache[key] = make(*arguments)
        made: Made = self._cache[key]
        return made

    def replace(self, **changes: object) -> Profile:
        """Return a profile with some keys of its document changed; None resets a key to its default.

        Setting ``transition_weight`` drops ``strength`` and the other way round, as ``scheme`` and
        ``stages`` do. A change of how nights are decoded drops ``intervals``, whose errors were measured
        on nights decoded otherwise, unless ``intervals`` is among the changes.
        """
        kept = self.to_dict()
        for key, value in changes.items():
            for replaced in (*_EXCLUDES.get(key, ()), *([key] if value is None else [])):
                kept.pop(replaced, None)
        given = {key: value for key, value in changes.items() if value is not None or key not in _KEYS}
        changed = Profile.from_dict(kept | given)
        if not self.intervals or "intervals" in changes or _decodes_alike(self, changed):
            return changed
        return changed.replace(intervals=None)

    def caution_for(self, cohort: str) -> Caution | None:
        """Return the caution against a cohort, refusals first, or None.

        A cohort is matched by its words, ignoring case: "narcolepsy type 1" is narcolepsy. A misspelt cohort
        is an error, since it must not pass as an unknown one.
        """
        wanted = words_of(checks.text(cohort, "cohort"))
        cautions = [caution for caution in self.not_for if caution.concerns(wanted)]
        if cautions:
            return min(cautions, key=lambda caution: caution.action != "refuse")
        from difflib import get_close_matches  # loaded where a cohort is named

        known = {name for caution in self.not_for for name in (caution.cohort, *caution.aliases)}
        # of names that share a word, the shortest comes last and is kept
        names = sorted(known, key=len, reverse=True)
        words = {word: name for name in names for word in words_of(name) if len(word) >= 6}
        for word in wanted:
            near = get_close_matches(word, words, n=1, cutoff=0.85) if word not in words else []
            if near:
                raise CohortError(
                    f"cohort {cohort!r} is unknown to profile {self.name!r}. Did you mean {words[near[0]]!r}?"
                )
        return None

    def is_for(self, stager: str | None, cohort: str | None) -> bool:
        """Whether nights are of the stager and the cohort that the profile names.

        A profile that names none is for all. A stager or cohort that is not given counts as another.
        """
        named = (self.stager, stager), (self.cohort, cohort)
        return all(
            own is None or (given is not None and words_of(given) == words_of(own)) for own, given in named
        )

    @property
    def measures_sleep_period(self) -> bool:
        """Whether indicators and rules are about the sleep period (`night.period`), not the recording.

        It is for people; animals sleep around the clock, and the paper measures whole recordings.
        """
        return self.species == "human" and not self.reproduces_paper and self.scheme.wake is not None

    @property
    def smooths_labels(self) -> bool:
        """Whether its rule acts on labels through typical confusions, which do not say what is doubtful.

        It harms people who sleep brokenly; labels of mice lose 0, 4 and 19 % of their errors, by laboratory
        (studies/guard-on-real-data).
        """
        return self.species != "human"

    def period_in(
        self, labels: Labels, epoch_seconds: float, first: int = 0, stop: int | None = None
    ) -> Period:
        """Return the epochs of a scoring that the profile measures, between two epochs."""
        end = len(labels) if stop is None else stop
        if not self.measures_sleep_period:
            return first, end
        return period_of(labels, self.scheme.wake_index, epoch_seconds, first, end)

    def at_strength(self, strength: float | str | None) -> Profile:
        """Return the profile with one strength for all nights, instead of its own weight or rule.

        A number is the transition weight; minimum bouts, the clock, calibration and the rest stay. ``"off"``
        leaves every epoch as the stager decided it: no transition counts, no bout is too short, and neither
        clock nor calibration moves a stage. None returns the profile itself.
        """
        if strength is None:
            return self
        if isinstance(strength, str):
            if strength != OFF:
                got = checks.shown(strength)
                raise InputError(f"strength is {got}, expected {OFF!r} or a number, the transition weight.")
            changes: dict[str, object] = {"transition_weight": 0.0} | dict.fromkeys(_GUARD)
        else:
            strength = checks.number(strength, "strength", low=0, high=1000)
            changes = {"transition_weight": strength}
        base = None if self.base is None else self.base.at_strength(strength)
        return self._once(f"strength {strength!r}", lambda: self.replace(**changes, base=base))

    def for_streaming(self, flickers: bool | None = None) -> Profile:
        """Return the profile with one strength for recordings in progress, where a rule cannot see the night.

        A profile without a rule is returned as it is. The clock and everything else stay. `flickers` says
        whether the stager's argmax is much more fragmented than experts' scorings on most nights, by default
        what `tune` found out, else that it is unknown.
        """
        if flickers is not None:
            checks.flag(flickers, "flickers")
        if self.strength is None:
            return self
        if self.streaming is None:
            found = f"profile {self.name!r} has no key 'streaming'"
            raise ProfileError(f"{found}, and its rule {self.strength.rule!r} needs the whole night.")
        weight = self.streaming.weight_for(self.strength.flickers if flickers is None else flickers)
        changes: dict[str, object] = {"transition_weight": weight}
        if self.base is not None and self.base.streaming is not None:
            changes["base"] = self.base.for_streaming(flickers)
        return self._once(f"streaming {flickers!r}", lambda: self.replace(**changes))

    def for_nights_of(self, stager: str | None, cohort: str | None) -> Profile:
        """Return the profile that decodes nights of a stager and a cohort.

        Where it is not for them (`is_for`), a fitted profile has the rules of its `base`, and any other one
        loses stage shares, calibration and the stager's fragmentation index; both keep name and intervals.
        For a cohort with a caution, biases that repair stage shares are left out and, if the caution says so,
        the clock.
        """
        return self._once(("nights", stager, cohort), lambda: self._made_for(stager, cohort))

    def _made_for(self, stager: str | None, cohort: str | None) -> Profile:
        profile = self
        if not self.is_for(stager, cohort):
            if self.base is not None:
                profile = replace(self.base, **{name: getattr(self, name) for name in _IDENTITY})
            else:
                rule = self.strength and self.strength.for_other_stager()
                labels = self.labels and replace(self.labels, own=None)
                profile = replace(self, strength=rule, labels=labels)
                profile = replace(profile, prior_exponent=0.0, calibration=Calibration())
        caution = None if cohort is None else profile.caution_for(cohort)
        if caution is not None and profile.share_repair is not None:
            profile = replace(profile, calibration=Calibration(profile.calibration.temperature))
        if caution is not None and not caution.clock and profile.clock is not None:
            profile = replace(profile, clock=None)
        return profile

    @property
    def share_repair(self) -> ShareRepair | None:
        """The repair of the stager's stage shares that its biases are for, as `tune` found it."""
        return None if self.shares is None or not self.calibration.biases else self.shares.repair

    def __repr__(self) -> str:
        """Return name, scheme and the first digits of the hash."""
        return f"<Profile {self.name!r}, {self.scheme.name}, sha256 {self.sha256[:12]}>"


_KEYS = (*(each.name for each in dataclasses.fields(Profile) if each.init), *_OWN_SCHEME)


def as_profile(profile: Profile | str | Path) -> Profile:
    """Return the profile itself, or load it by name or by the path of its file."""
    return profile if isinstance(profile, Profile) else Profile.load(profile)


def profiles() -> list[str]:
    """Return the names of the built-in profiles.

    Examples
    --------
    >>> import stageguard as sg
    >>> sg.profiles()[:3]
    ['human-actigraphy-2', 'human-bioradar-3', 'human-cardiorespiratory-3']
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def fitting_profile(scheme: StageScheme, epoch_seconds: float) -> Profile:
    """Return the one built-in profile for these stages and this epoch length, reproductions left out."""
    names = []
    for name in profiles():
        table = documents.read_toml(FOLDER / f"{name}.toml", "a profile")
        if not table.get("reproduces_paper") and table["epoch_seconds"] == epoch_seconds:
            names += [name] * (_scheme_of(table).names == scheme.names)
    if len(names) == 1:
        return Profile.load(names[0])
    found = f"{len(names)} fit" if names else "none fits"
    night, listed = f"stages {' '.join(scheme.names)} of {epoch_seconds:g} s", ", ".join(names or profiles())
    raise ProfileError(f"no profile is given, and {found} {night}, expected one of {listed}.")


@cache
def _built_in(name: str) -> Profile | None:
    return _from_file(FOLDER / f"{name}.toml") if name in profiles() else None


def _from_file(path: Path) -> Profile:
    try:
        return Profile.from_dict(documents.read_toml(path, "a profile"))
    except FileNotFoundError:
        reason = "no such file. Give a built-in name or the path of a .toml file."
    except FileFormatError as error:
        reason = error.reason
    except ProfileError as error:
        reason = str(error)
    raise ProfileError(f"{path}: {reason}")


def _scheme_of(table: Mapping[str, Any]) -> StageScheme:
    """Return the standard scheme of a document, or the one of its own stages."""
    if "stages" in table:
        names = documents.read(tuple[str, ...], table["stages"], "stages")
        try:
            return StageScheme.custom(names, table.get("wake"), table.get("rem"))
        except InputError as error:
            raise InputError(f"stages: {error}") from None
    if "scheme" not in table:
        raise InputError("key 'scheme' (or 'stages') is missing.")
    return SCHEMES[checks.choice(table["scheme"], "scheme", SCHEMES)]


def _ends(rare: tuple[RarePair, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((pair.source, pair.target) for pair in rare)


def _check_together(profile: Profile) -> None:
    """Check what concerns several keys, and names of stages and indicators."""
    scheme, strength = profile.scheme, profile.strength
    if profile.transition_weight is None and strength is None:
        raise InputError("transition_weight is None, expected a number, or a rule as strength.")
    if profile.prior_exponent and profile.prior is None:
        raise InputError("prior_exponent is given, but prior, the share of each stage, is not.")
    if profile.prior_exponent and strength is not None and strength.lifts:
        raise InputError(f"prior_exponent and strength.rule = {strength.rule!r} exclude each other.")
    if profile.clock is not None and profile.species != "human":
        raise InputError(f"clock and species = {profile.species!r} exclude each other.")
    for key in ("clock", "posterior"):
        if getattr(profile, key) is not None and scheme.wake is None:
            raise InputError(f"{key} needs sleep onset, expected a stage that is wake. Name it: wake.")
    for stage in profile.durations:
        row = profile.transitions[scheme.names.index(stage)]
        if not any(p for name, p in zip(scheme.names, row, strict=True) if name != stage):
            raise InputError(
                f"durations.{stage} says how bouts end, but transitions.{stage} has no way out of it."
            )
    _check_pairs(_ends(profile.rare), "rare", scheme)
    _check_pairs(profile.tvr_pairs, "tvr_pairs", scheme)
    checks.known_keys(profile.bands, "bands", indicators_of(scheme.names))
    if profile.joint is not None:
        checks.known_keys(profile.joint.indicators, "joint.indicators", indicators_of(scheme.names))
    base = profile.base
    if base is not None and (base.scheme != scheme or base.base is not None):
        wrong = "has a base itself" if base.base is not None else f"is in {base.scheme.name}"
        raise InputError(f"base {wrong}, expected a profile in {scheme.name} without a base.")


def _check_pairs(pairs: tuple[tuple[str, str], ...], key: str, scheme: StageScheme) -> None:
    for index, (source, target) in enumerate(pairs):
        for stage in (source, target):
            checks.choice(stage, f"{key}[{index}]", scheme.names)
        if source == target:
            raise InputError(f"{key}[{index}] goes from {source!r} to itself, expected two different stages.")
        if (source, target) in pairs[:index]:
            raise InputError(f"{key} lists {source} -> {target} twice. Keep one of them.")


def _decodes_alike(one: Profile, other: Profile) -> bool:
    a, b = one.to_dict(), other.to_dict()
    return all(a.get(key) == b.get(key) for key in {*a, *b} - NOT_DECODING)
