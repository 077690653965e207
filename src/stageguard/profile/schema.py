"""The keys of a profile, one table: how each is read, checked and written, its default and its meaning."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from stageguard.base import checks, schema
from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.errors import InputError, ProfileError, message_of
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import FlipFlop, RarePair
from stageguard.profile.readers import (
    Reader,
    by_check,
    by_stage,
    given_parts,
    is_standard,
    per_stage,
    probability,
    read_bands,
    read_calibration,
    read_cautions,
    read_durations,
    read_intervals,
    read_pairs,
    read_prior,
    read_scheme,
    read_strength,
    read_transitions,
    read_tree,
    write_calibration,
    write_cautions,
)

Writer = Callable[[Any, StageScheme], Any]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a profile's document.

    Attributes
    ----------
    name : str
        In the document, and of the field of `Profile`.
    meaning : str
        For people, in Markdown.
    read : callable or None
        From the document's value, the key's name and the scheme to the field's value, or an InputError. None
        for the keys that make up the scheme, which is read before all others.
    default : object
        What the document says where it leaves the key out; None: nothing.
    shown : str
        The default for people, where it is not plain from `default`.
    write : callable
        From the field's value and the scheme back to the document's.
    field : str
        Of `Profile`, where it is not the name: what was given, and not what follows from it.
    decodes : bool
        Whether it changes how nights are decoded.
    """

    name: str
    meaning: str
    read: Reader | None
    default: Any = None
    shown: str = ""
    write: Writer = lambda value, scheme: schema.plain_table(value)
    field: str = ""
    decodes: bool = True

    @property
    def row(self) -> str:
        """The key in the table of `docs/profiles.md`."""
        default = self.shown or ("" if self.default in (None, "") else f"`{json.dumps(self.default)}`")
        return f"| `{self.name}` | {default} | {self.meaning} |"


def parse_profile(document: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a profile, complete and valid, from the document that describes it."""
    try:
        return _parse(document)
    except InputError as error:
        raise ProfileError(message_of(error)) from None


def check_keys(given: Mapping[str, object]) -> None:
    """Raise ProfileError for the first key that no profile has, with the nearest that it has."""
    try:
        checks.known_keys(given, "a profile", KEYS)
    except InputError as error:
        raise ProfileError(message_of(error)) from None


def document_of(profile: Any) -> dict[str, Any]:
    """Return the document of a profile: plain TOML types, in the order of `KEYS`, no defaults."""
    document = {}
    for key in KEYS.values():
        value = getattr(profile, key.field or key.name)
        written = None if value is None else key.write(value, profile.scheme)
        if written is not None and written != key.default:
            document[key.name] = written
    return document


def _parse(document: Mapping[str, object]) -> dict[str, Any]:
    given = checks.mapping(document, "a profile", KEYS)
    for name in REQUIRED:
        if name not in given and not (name == "scheme" and "stages" in given):
            or_stages = " (or 'stages')" if name == "scheme" else ""
            raise InputError(f"key {name!r}{or_stages} is missing. Required: {', '.join(REQUIRED)}.")
    for one, other in (("transition_weight", "strength"), *(("scheme", name) for name in _OWN_SCHEME)):
        if one in given and other in given:
            raise InputError(f"keys {one!r} and {other!r} exclude each other. Keep one of them.")
    scheme = read_scheme(given)
    fields: dict[str, Any] = {"scheme": scheme}
    for key in KEYS.values():
        if key.read is not None:
            value = given.get(key.name, key.default)
            is_set = key.name in given or value is not None
            fields[key.field or key.name] = key.read(value, key.name, scheme) if is_set else None
    if fields["strength"] is not None:
        fields["transition_weight"] = None
    usual = fields["rare_probability"]
    fields["rare"] = tuple(RarePair(*pair, *([usual] if len(pair) == 2 else [])) for pair in fields["_rare"])
    listed = fields["_tvr_pairs"]
    fields["tvr_pairs"] = tuple(pair[:2] for pair in fields["_rare"]) if listed is None else listed
    _check_together(fields)
    return fields


def _check_together(parsed: Mapping[str, Any]) -> None:
    """Check what no key can tell alone."""
    if parsed["prior_exponent"] and parsed["prior"] is None:
        raise InputError(
            "prior_exponent is given, but prior is not. Add the stage shares as prior, or drop it."
        )
    strength = parsed["strength"]
    if strength is not None and strength.rule == "band" and parsed["prior_exponent"]:
        raise InputError(
            "prior_exponent and strength.rule = 'band' exclude each other: band sets it per recording."
        )
    scheme = parsed["scheme"]
    for stage in parsed["durations"]:
        row = parsed["transitions"][scheme.names.index(stage)]
        if not any(p for name, p in zip(scheme.names, row, strict=True) if name != stage):
            raise InputError(
                f"durations.{stage} says how bouts end, but transitions.{stage} has no way out of it."
            )


def _own_role(role: str, scheme: StageScheme, _: StageScheme) -> str | None:
    return None if is_standard(scheme) else getattr(scheme, role)


REQUIRED = ("name", "scheme", "epoch_seconds", "transitions")
_OWN_SCHEME = ("stages", "wake", "rem")
_TABLE = (
    Key("name", "what it is called", by_check(checks.text, empty=False), decodes=False),
    Key("summary", "what it is", by_check(checks.text), "", decodes=False),
    Key("intended_for", "whom it is for", by_check(checks.text), "", decodes=False),
    Key(
        "species",
        "whose sleep it is; simulated sleepers are of this kind",
        by_check(checks.text, empty=False),
        "human",
        decodes=False,
    ),
    Key(
        "reproduces_paper",
        "whether it repeats the published method; `predict` then judges signals by the paper's rules",
        by_check(checks.flag),
        False,
        decodes=False,
    ),
    Key(
        "cohort",
        "the cohort a fitted profile was fitted on; `decode(..., cohort=...)` with any other leaves out what "
        "belongs to that cohort alone",
        by_check(checks.text, empty=False),
        shown="none",
        decodes=False,
    ),
    Key(
        "other_cohorts",
        'what happens then: `"unweighted"` = without `prior_exponent` and `biases`, `"argmax"` = the profile '
        "steps aside",
        by_check(checks.choice, ("unweighted", "argmax")),
        "unweighted",
        decodes=False,
    ),
    Key(
        "not_for",
        'a sentence, or tables of `cohort`, `aliases`, `action` (`"warn"` or `"refuse"`) and `reason`: what '
        "`decode(..., cohort=...)` looks up",
        read_cautions,
        "",
        shown="none",
        write=write_cautions,
        decodes=False,
    ),
    Key(
        "scheme",
        '`"aasm5"` = W N1 N2 N3 R, `"wldr4"` = W Light Deep R, `"wnr3"` = W N R, `"ws2"` = W S',
        None,
        write=lambda scheme, _: scheme.name if is_standard(scheme) else None,
    ),
    Key(
        "stages",
        "instead of `scheme`: your own stage names in order",
        None,
        write=lambda scheme, _: None if is_standard(scheme) else list(scheme.names),
        field="scheme",
    ),
    *(
        Key(role, meaning, None, shown="none", write=partial(_own_role, role), field="scheme")
        for role, meaning in (("wake", "which of `stages` is wake"), ("rem", "which of `stages` is REM"))
    ),
    Key(
        "epoch_seconds",
        "epoch length at which the transitions were counted; other lengths are converted",
        lambda value, where, scheme: checks.epoch_seconds(value),
    ),
    Key(
        "stay",
        'what one more epoch in a stage scores: `"self"` = log of its self transition, `"free"` = 0, as in '
        "the paper",
        by_check(checks.choice, ("self", "free")),
        "self",
    ),
    Key(
        "ends",
        '`"censored"`: the recording cut the first and the last bout, neither has a minimum; `"paper"`: the '
        "first must reach it",
        by_check(checks.choice, ("censored", "paper")),
        "censored",
    ),
    Key(
        "transition_weight",
        "τ, how much the prior counts against the evidence; 0 switches it off",
        by_check(checks.number, low=0, high=1000),
        1.0,
    ),
    Key(
        "strength",
        "instead of `transition_weight`: a rule that sets it per recording, see below",
        read_strength,
        shown="none",
        write=given_parts,
    ),
    Key(
        "prior_exponent",
        "w: each epoch's evidence becomes log p − w · log `prior`",
        by_check(checks.number, low=0),
        0.0,
    ),
    Key("prior", "share of each stage", read_prior, shown="none", write=by_stage),
    Key(
        "rare_probability",
        "probability of the rare changes that carry none of their own",
        by_check(probability),
        0.001,
    ),
    Key(
        "rare",
        'discouraged changes `["W", "R"]`, or with a probability of their own `["W", "R", 0.1]`; it replaces '
        "the counted one, without renormalising",
        lambda value, where, scheme: read_pairs(value, where, scheme, with_probability=True),
        [],
        shown="none",
        field="_rare",
    ),
    Key(
        "tvr_pairs",
        "which changes TVR counts; counting is not discouraging",
        lambda value, where, scheme: read_pairs(value, where, scheme, with_probability=False),
        shown="those of `rare`",
        field="_tvr_pairs",
        decodes=False,
    ),
    Key(
        "min_bout_seconds",
        "shortest complete bout per stage; rounded up to whole epochs",
        per_stage(checks.number, positive=True, high=DAY_SECONDS),
        {},
        shown="none",
    ),
    Key(
        "flip_flop",
        "`penalty_nats` for returning to a stage seen in the last `window_epochs` (2 to 60, counted in "
        'epochs); `method` `"exact"` or the paper\'s `"greedy"`',
        lambda value, where, scheme: schema.read_table(FlipFlop, value, where),
        {},
        shown="off",
        write=given_parts,
    ),
    Key(
        "transitions",
        "one row per stage, its own included, that sums to 1 within 0.001; a stage left out of a row has "
        "probability 0, a forbidden change",
        read_transitions,
        write=lambda rows, scheme: by_stage([by_stage(row, scheme) for row in rows], scheme),
    ),
    Key(
        "calibration",
        "`temperature` that divides the log-probabilities, then `biases` per stage in nats",
        read_calibration,
        {},
        shown="none",
        write=write_calibration,
    ),
    Key(
        "durations",
        "per stage the probabilities of bouts of 1, 2, … epochs; the hazard of the last entry carries on as "
        "a geometric tail",
        per_stage(read_durations),
        {},
        shown="none",
    ),
    Key(
        "bands",
        "range of an indicator over expert scorings: `low`, `high`, `source`, `unit`",
        read_bands,
        {},
        shown="none",
        write=given_parts,
        decodes=False,
    ),
    Key(
        "intervals",
        "errors on scored nights by statistic, written by [fit](fit.md); `replace` of what decodes "
        "[drops them](intervals.md)",
        read_intervals,
        {},
        shown="none",
        decodes=False,
    ),
    Key(
        "provenance",
        "where the numbers come from, in any form TOML has",
        read_tree,
        {},
        shown="none",
        decodes=False,
    ),
)
KEYS = {key.name: key for key in _TABLE}
