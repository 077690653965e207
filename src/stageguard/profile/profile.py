"""A profile: everything the decoder assumes about a population, from one document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from stageguard import checks
from stageguard.arrays import Labels
from stageguard.errors import (
    Argument,
    CohortError,
    FileFormatError,
    InputError,
    Message,
    ProfileError,
    did_you_mean,
)
from stageguard.lazy import ShownInNotebooks
from stageguard.night.period import Period, period_of
from stageguard.night.stages import StageScheme
from stageguard.profile.expert_shares import ExpertShares, ShareRepair
from stageguard.profile.parts import (
    Band,
    Calibration,
    Caution,
    Clock,
    FlipFlop,
    Joint,
    LabelShares,
    PosteriorRules,
    RarePair,
    StreamingRules,
    words_of,
)
from stageguard.profile.rules.rule import StrengthRule
from stageguard.profile.schema import KEYS, check_keys, check_together, document_of, parse_profile
from stageguard.schema import Document, read_toml
from stageguard.storage import location

FOLDER = Path(__file__).with_name("builtin")

_EXCLUDES = {
    "transition_weight": ("strength",),
    "strength": ("transition_weight",),
    "scheme": ("stages", "wake", "rem"),
    "stages": ("scheme",),
}
OFF = "off"  # the strength that switches the guard off
_GUARD_OFF = dict.fromkeys(
    (
        *("min_bout_seconds", "flip_flop", "durations", "clock", "posterior"),
        *("calibration", "prior_exponent"),
    )
)


_NONE: Mapping[str, Any] = MappingProxyType({})
# What a fitted profile keeps of itself on nights that its base decodes: whose it is, and from where.
_IDENTITY = ("name", "summary", "intended_for", "cohort", "stager", "intervals", "base", "provenance")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Profile(Document, ShownInNotebooks):
    """Everything the decoder assumes about the sleep of a population.

    A profile is made from a document with the keys of a profile file, every value of which is
    checked: see `load` and `from_dict`. The constructor takes values that are checked already. A
    profile cannot be changed; `replace` returns another one. Two profiles are equal when their
    documents are.

    Attributes
    ----------
    name, summary, intended_for : str
        Its name, what it is, and for whom.
    species : str
        Whose sleep it is.
    reproduces_paper : bool
        Whether it repeats the published method.
    cohort : str or None
        The cohort it was fitted on, if it was fitted to one stager and cohort.
    stager : str or None
        The stager it was tuned or fitted to.
    not_for : tuple of Caution
        Cohorts it is not made for.
    scheme : StageScheme
        Stages; every tuple of numbers below is in its order.
    epoch_seconds : float
        Epoch length the transitions were counted at.
    stay : {"self", "free"}
        Whether another epoch in a stage scores the log of its self-transition, or 0.
    ends : {"censored", "paper"}
        Whether the first bout, cut by the recording, may be shorter than its minimum. The last always may.
    transition_weight : float or None
        How much transitions count relative to the evidence; None when `strength` sets it.
    strength : StrengthRule or None
        Rule that sets the weight per recording.
    prior_exponent, prior : float, tuple of float or None
        The evidence of a stage is lowered by `prior_exponent` times the log of its share in `prior`.
    rare_probability, rare : float, tuple of RarePair
        Discouraged switches, and their probability unless a pair has its own.
    tvr_pairs : tuple of (str, str)
        Switches that the transition violation rate counts.
    min_bout_seconds : mapping of str to float
        Shortest complete bout of the stages that have one.
    flip_flop : FlipFlop
        Cost of a quick return.
    transitions : tuple of tuple of float
        Probability per epoch from the row's stage to the column's, staying included.
    calibration : Calibration
        Temperature and biases applied to a stager's probabilities.
    labels : LabelShares or None
        What experts say where a stager says each stage, for stagers that give labels alone.
    clock : Clock or None
        Evidence for each stage from the time since sleep onset.
    streaming : StreamingRules or None
        Transition weights of recordings in progress, in place of the rule.
    posterior : PosteriorRules or None
        How far a stager may be wrong all night; None: posterior and draws act at the strength of the path.
    durations : mapping of str to tuple of float
        Probability of a bout of 1, 2, ... epochs; longer bouts keep the last hazard.
    bands : mapping of str to Band
        Range of each indicator over expert scorings.
    joint : Joint or None
        Indicators combined in one score, and how high it is on expert nights.
    shares : ExpertShares or None
        Shares of the stages in expert scorings, and the repair of the stager's.
    intervals : mapping
        Errors on scored nights, by statistic, from which intervals are made.
    base : Profile or None
        The profile it was fitted from, by which other cohorts and stagers are decoded.
    provenance : mapping
        Where the numbers come from.

    Examples
    --------
    >>> import stageguard as sg
    >>> profile = sg.Profile.load("human-psg-3")
    >>> profile.scheme.names
    ('W', 'N', 'R')
    >>> profile.replace(transition_weight=0.3).transition_weight
    0.3
    """

    name: str
    summary: str
    intended_for: str
    species: str
    reproduces_paper: bool
    cohort: str | None
    stager: str | None
    not_for: tuple[Caution, ...]
    scheme: StageScheme
    epoch_seconds: float
    stay: Literal["self", "free"]
    ends: Literal["censored", "paper"]
    transition_weight: float | None
    strength: StrengthRule | None
    prior_exponent: float
    prior: tuple[float, ...] | None
    rare_probability: float
    rare: tuple[RarePair, ...] = field(init=False)
    tvr_pairs: tuple[tuple[str, str], ...] = field(init=False)
    min_bout_seconds: Mapping[str, float]
    flip_flop: FlipFlop
    transitions: tuple[tuple[float, ...], ...]
    calibration: Calibration
    labels: LabelShares | None
    clock: Clock | None
    streaming: StreamingRules | None
    posterior: PosteriorRules | None
    durations: Mapping[str, tuple[float, ...]]
    bands: Mapping[str, Band]
    joint: Joint | None
    shares: ExpertShares | None
    intervals: Mapping[str, Any]
    base: Profile | None
    provenance: Mapping[str, Any]
    # as in the document: pairs may follow from another key, and replace() must know whether they do
    _rare: tuple[tuple[Any, ...], ...]
    _tvr_pairs: tuple[tuple[str, str], ...] | None
    _cache: dict[Any, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Fill in what follows from other values, and check what must fit together."""
        if self.strength is not None:
            object.__setattr__(self, "transition_weight", None)
        pairs = tuple((source, target) for source, target, *_ in self._rare)
        rare = tuple(RarePair(*pair[:2], *(*pair[2:], self.rare_probability)[:1]) for pair in self._rare)
        object.__setattr__(self, "rare", rare)
        object.__setattr__(self, "tvr_pairs", pairs if self._tvr_pairs is None else self._tvr_pairs)
        check_together(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> Profile:
        """Return the profile that a mapping describes; its keys are those of a profile file."""
        try:
            values = parse_profile(document)
            if values["base"] is not None:
                values["base"] = _base_of(values["base"], values["scheme"])
            return cls(**values)
        except RecursionError:
            raise ProfileError("tables or lists are nested too deeply, expected a profile.") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the document, without anything compiled."""
        return Profile.from_dict, (self.to_dict(),)

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
        if not isinstance(name_or_path, str) or path.suffix == ".toml" or _is_file(path):
            return _from_file(path)
        raise ProfileError(
            f"unknown profile {checks.shown(name_or_path)}. Built in: {', '.join(profiles()) or 'none'}; "
            f"for one's own, give the path of a .toml file.{did_you_mean(name_or_path, profiles())}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the document: plain TOML types in the order of a profile file, defaults left out."""
        return document_of(self)

    def replace(self, **changes: object) -> Profile:
        """Return a profile with some keys of its document changed; None resets a key to its default.

        Setting ``transition_weight`` drops ``strength`` and the other way round, as ``scheme`` and
        ``stages`` do. A change of how nights are decoded drops ``intervals``, whose errors were measured
        on nights decoded otherwise, unless ``intervals`` is among the changes.
        """
        check_keys(changes)
        document = self.to_dict()
        for key in changes:
            for excluded in _EXCLUDES.get(key, ()):
                document.pop(excluded, None)
        document.update(changes)
        changed = Profile.from_dict({key: value for key, value in document.items() if value is not None})
        if not self.intervals or "intervals" in changes or _decodes_alike(self, changed):
            return changed
        return changed.replace(intervals=None)

    def caution_for(self, cohort: str) -> Caution | None:
        """Return the caution against a cohort, refusals first, or None.

        A cohort is matched by its words, ignoring case: "narcolepsy type 1" is narcolepsy. A misspelt cohort
        is an error, since it must not pass as an unknown one. A caution that is a plain sentence concerns
        every cohort it mentions.
        """
        wanted = words_of(checks.text(cohort, "cohort"))
        cautions = [caution for caution in self.not_for if caution.concerns(wanted)]
        if not cautions:
            self._refuse_misspelt(cohort, wanted)
        return min(cautions, key=lambda caution: caution.action != "refuse", default=None)

    def _refuse_misspelt(self, cohort: str, wanted: tuple[str, ...]) -> None:
        from difflib import get_close_matches  # loaded where a cohort is named

        known = {name for caution in self.not_for for name in (caution.cohort, *caution.aliases) if name}
        # of names that share a word, the shortest comes last and is kept
        names = sorted(known, key=len, reverse=True)
        words = {word: name for name in names for word in words_of(name) if len(word) >= 6}
        for word in wanted:
            near = get_close_matches(word, words, n=1, cutoff=0.85) if word not in words else []
            if near:
                raise CohortError(
                    f"cohort {cohort!r} is unknown to profile {self.name!r}, but spelt almost like "
                    f"{words[near[0]]!r}, which it cautions against. Say that, if it is meant."
                )

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
            changes: dict[str, object] = {"transition_weight": 0.0, **_GUARD_OFF}
        else:
            strength = checks.number(strength, "strength", low=0, high=1000)
            changes = {"transition_weight": strength}
        base = None if self.base is None else self.base.at_strength(strength).to_dict()
        return self._once(f"strength {strength!r}", lambda: self.replace(**changes, base=base))

    def for_streaming(self, flickers: bool | None = None) -> Profile:
        """Return the profile with one strength for recordings in progress, where a rule cannot see the night.

        A profile without a rule is returned as it is. The clock and everything else stay.

        Parameters
        ----------
        flickers : bool, optional
            Whether the stager flickers: whether its argmax is much more fragmented than experts' scorings on
            most nights, as that of stagers that see one epoch at a time. One that does not needs no
            smoothing. By default what `tune` found out, else that it is unknown.

        Returns
        -------
        Profile
            The profile with the weight of its key ``streaming``; `decode` takes it as well.

        Raises
        ------
        ProfileError
            Its strength follows a rule, and it has no weight for streams.

        Examples
        --------
        >>> import stageguard as sg
        >>> sg.Profile.load("human-psg-5").for_streaming(flickers=False).transition_weight
        0.0
        """
        if flickers is not None:
            checks.flag(flickers, "flickers")
        rule, streaming = self.strength, self.streaming
        if rule is None:
            return self
        if streaming is None:
            raise ProfileError(
                Message(
                    f"profile {self.name!r} sets its strength per recording ({rule.rule!r}), which needs the "
                    "whole night, and has no key 'streaming', the weight for recordings in progress. Add it, "
                    "take a profile that has it, such as human-psg-5, or give a weight: ",
                    Argument("transition_weight", 0.1, "profile.replace(transition_weight=0.1)"),
                    ".",
                )
            )
        changes: dict[str, object] = {
            "transition_weight": streaming.weight_for(rule.flickers if flickers is None else flickers)
        }
        if self.base is not None and self.base.streaming is not None:
            changes["base"] = self.base.for_streaming(flickers).to_dict()
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


@cache
def _built_in(name: str) -> Profile | None:
    return _from_file(FOLDER / f"{name}.toml") if name in profiles() else None


def _from_file(path: Path) -> Profile:
    try:
        return Profile.from_dict(read_toml(path, "a profile"))
    except FileFormatError as error:
        raise ProfileError(f"{path}: {error.reason}") from None
    except FileNotFoundError:
        raise ProfileError(
            f"{path}: no such file. Give a built-in name or the path of a .toml file."
        ) from None
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}") from None


def _base_of(document: Mapping[str, object], scheme: StageScheme) -> Profile:
    """Return the profile that another one was fitted from."""
    try:
        base = Profile.from_dict(document)
    except ProfileError as error:
        raise ProfileError(f"base: {error}") from None
    if base.scheme != scheme or base.base is not None:
        wrong = "has a base itself" if base.base is not None else f"is in {base.scheme.name}"
        raise ProfileError(f"base {wrong}, expected a profile in {scheme.name} without a base.")
    return base


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long for any file
        return False


def _decodes_alike(one: Profile, other: Profile) -> bool:
    a, b = one.to_dict(), other.to_dict()
    return all(a.get(name) == b.get(name) for name, key in KEYS.items() if key.decodes)
