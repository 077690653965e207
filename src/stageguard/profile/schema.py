"""The table of a profile's keys: how each is read, checked and written, its default and its meaning."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from stageguard import checks, schema
from stageguard.arrays import DAY_SECONDS
from stageguard.errors import InputError, ProfileError, message_of
from stageguard.night.stages import StageScheme
from stageguard.profile import parts
from stageguard.profile.expert_shares import read_expert_shares, write_expert_shares
from stageguard.profile.rules import read_rule, write_rule

Writer = Callable[[Any, StageScheme], Any]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a profile's document."""

    name: str  # of the key in the document, and of the field of `Profile`
    meaning: str  # for people, in Markdown
    read: parts.Reader | None  # None: part of the scheme, which is read before all other keys
    default: Any = None  # the document's value of a key that is left out; None: no value
    shown: str = ""  # the default for people, if `default` does not show it
    write: Writer = lambda value, scheme: schema.plain_table(
        value, defaults=False
    )  # back to the document's value
    field: str = ""  # of `Profile`, if it is not the name: the document's value, not what follows from it
    decodes: bool = True  # whether it changes how nights are decoded

    @property
    def row(self) -> str:
        """The key in the reference's table of keys."""
        default = "" if self.default in (None, "") else f"`{json.dumps(self.default)}`"
        default = self.shown or ("none" if self.default in ({}, []) else default)
        return f"| `{self.name}` | {default} | {self.meaning} |"


def parse_profile(document: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of a profile by field, each valid, from the document that describes it."""
    try:
        return _parse(document)
    except InputError as error:
        raise ProfileError(message_of(error)) from None


# Keys that profiles had, and why they have them no more.
_REMOVED = {
    "estimators": "every statistic is counted on the decoded stages",
    "fingerprint": "nights are known by the names of their stager and cohort",
    "taught_by": "nights that a profile was fitted to are not recognised",
}


def _refuse_removed(given: Mapping[str, object]) -> None:
    for key, why in _REMOVED.items():
        if key in given:
            raise InputError(f"key {key!r} was removed from profiles: {why}. Delete the key.")


def check_keys(given: Mapping[str, object]) -> None:
    """Raise ProfileError for the first unknown key, with the nearest known one."""
    try:
        _refuse_removed(given)
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
    if isinstance(document, Mapping):
        _refuse_removed(document)
    given = checks.mapping(document, "a profile", KEYS)
    for name in REQUIRED:
        if name not in given and not (name == "scheme" and "stages" in given):
            or_stages = " (or 'stages')" if name == "scheme" else ""
            raise InputError(f"key {name!r}{or_stages} is missing. Required: {', '.join(REQUIRED)}.")
    for one, other in (("transition_weight", "strength"), *(("scheme", name) for name in _OWN_SCHEME)):
        if one in given and other in given:
            raise InputError(f"keys {one!r} and {other!r} exclude each other. Keep one of them.")
    scheme = parts.read_scheme(given)
    fields: dict[str, Any] = {"scheme": scheme}
    for key in KEYS.values():
        if key.read is not None:
            value = given.get(key.name, key.default)
            is_set = key.name in given or value is not None
            fields[key.field or key.name] = key.read(value, key.name, scheme) if is_set else None
    return fields


def check_together(profile: Any) -> None:
    """Check rules that concern several keys of a profile."""
    if profile.prior_exponent and profile.prior is None:
        raise ProfileError(
            "prior_exponent is given, but prior is not. Add the stage shares as prior, or drop it."
        )
    strength, scheme = profile.strength, profile.scheme
    if strength is not None and strength.lifts and profile.prior_exponent:
        raise ProfileError(
            f"prior_exponent and strength.rule = {strength.rule!r} exclude each other: {strength.rule} sets "
            "it per recording."
        )
    if profile.clock is not None and profile.species != "human":
        raise ProfileError(
            f"clock and species = {profile.species!r} exclude each other: the clock counts from the "
            "sleep onset of a person's night, and animals sleep around the clock. Drop it."
        )
    for stage in profile.durations:
        row = profile.transitions[scheme.names.index(stage)]
        if not any(p for name, p in zip(scheme.names, row, strict=True) if name != stage):
            raise ProfileError(
                f"durations.{stage} says how bouts end, but transitions.{stage} has no way out of it."
            )


def _own_role(role: str, scheme: StageScheme, _: StageScheme) -> str | None:
    return None if parts.is_standard(scheme) else getattr(scheme, role)


REQUIRED = ("name", "scheme", "epoch_seconds", "transitions")
_OWN_SCHEME = ("stages", "wake", "rem")
_TABLE = (
    Key("name", "the name of the profile", parts.by_check(checks.text, empty=False), decodes=False),
    Key("summary", "one sentence that describes it", parts.by_check(checks.text), "", decodes=False),
    Key("intended_for", "who it is for", parts.by_check(checks.text), "", decodes=False),
    Key(
        "species",
        "the species; simulated sleepers are of this species",
        parts.by_check(checks.text, empty=False),
        "human",
        decodes=False,
    ),
    Key(
        "reproduces_paper",
        "whether it repeats the published method; `predict` then judges signals by the paper's rules",
        parts.by_check(checks.flag),
        False,
        decodes=False,
    ),
    Key(
        "cohort",
        "the cohort a profile was fitted on; for any other, and for one that is not named, "
        "`decode(..., cohort=...)` leaves out what was learned on it and decodes as `base` does",
        parts.by_check(checks.text, empty=False),
        shown="none",
        decodes=False,
    ),
    Key(
        "stager",
        "the stager a profile was tuned or fitted to; for any other, `decode(..., stager=...)` leaves out "
        "what was learned on it. A fitted profile also does so if no stager is named",
        parts.by_check(checks.text, empty=False),
        shown="none",
        decodes=False,
    ),
    Key(
        "not_for",
        'a sentence, or tables of `cohort`, `aliases`, `action` (`"warn"` or `"refuse"`) and `reason`, which '
        "`decode(..., cohort=...)` looks up",
        parts.read_cautions,
        "",
        shown="none",
        write=parts.write_cautions,
        decodes=False,
    ),
    Key(
        "scheme",
        '`"aasm5"` = W N1 N2 N3 R, `"wldr4"` = W Light Deep R, `"wnr3"` = W N R, `"ws2"` = W S',
        None,
        write=lambda scheme, _: scheme.name if parts.is_standard(scheme) else None,
    ),
    Key(
        "stages",
        "instead of `scheme`: your own stage names in order",
        None,
        write=lambda scheme, _: None if parts.is_standard(scheme) else list(scheme.names),
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
        parts.by_check(checks.choice, ("self", "free")),
        "self",
    ),
    Key(
        "ends",
        '`"censored"`: the recording cut the first and the last bout, neither has a minimum; `"paper"`: the '
        "first must reach it",
        parts.by_check(checks.choice, ("censored", "paper")),
        "censored",
    ),
    Key(
        "transition_weight",
        "τ, weight of the prior relative to the evidence; 0 switches the prior off",
        parts.by_check(checks.number, low=0, high=1000),
        1.0,
    ),
    Key(
        "strength",
        "instead of `transition_weight`: a rule that sets it per recording, see below",
        parts.by_check(read_rule),
        shown="none",
        write=lambda rule, _: write_rule(rule),
    ),
    Key(
        "prior_exponent",
        "w: each epoch's evidence becomes log p − w · log `prior`",
        parts.by_check(checks.number, low=0),
        0.0,
    ),
    Key("prior", "share of each stage", parts.read_prior, shown="none", write=parts.by_stage),
    Key(
        "rare_probability",
        "probability of rare transitions that do not have their own",
        parts.by_check(parts.probability),
        0.001,
    ),
    Key(
        "rare",
        'discouraged transitions `["W", "R"]`, or with their own probability `["W", "R", 0.1]`; it replaces '
        "the counted one, without renormalising",
        lambda value, where, scheme: parts.read_pairs(value, where, scheme, with_probability=True),
        [],
        field="_rare",
    ),
    Key(
        "tvr_pairs",
        "transitions that TVR counts; counting does not discourage them",
        lambda value, where, scheme: parts.read_pairs(value, where, scheme, with_probability=False),
        shown="those of `rare`",
        field="_tvr_pairs",
        decodes=False,
    ),
    Key(
        "min_bout_seconds",
        "shortest complete bout per stage; rounded up to whole epochs",
        parts.per_stage(checks.number, positive=True, high=DAY_SECONDS),
        {},
    ),
    Key(
        "flip_flop",
        "`penalty_nats` for returning to a stage seen in the last `window_epochs` (2 to 60, counted in "
        'epochs); `method` `"exact"` or the paper\'s `"greedy"`',
        lambda value, where, scheme: schema.read_table(parts.FlipFlop, value, where),
        {},
        shown="off",
    ),
    Key(
        "transitions",
        "one row per stage, its own included, that sums to 1 within 0.001; a stage left out of a row has "
        "probability 0 and is forbidden there",
        parts.read_transitions,
        write=parts.write_rows,
    ),
    Key(
        "calibration",
        "`temperature` that divides the log-probabilities, then `biases` per stage in nats",
        parts.read_calibration,
        {},
        write=parts.write_calibration,
    ),
    Key(
        "labels",
        "for stagers that give labels alone: `shares` of the experts' stages where a stager says a stage, "
        "one row per stage said, and their `source`; `own`: those of the profile's own stager, written by "
        "[fit](fit.md); instead of `shares`, the reason why labels are `refused`",
        parts.read_labels,
        shown="none",
        write=parts.write_labels,
    ),
    Key(
        "clock",
        "evidence from the time since sleep onset: `curves` of nats per stage, one value every "
        "`step_minutes` (5); `weight` (1); the stager's bouts of `spare_minutes` (8) or more lose nothing; "
        "`restart_wake_minutes` of wake (60) start it again",
        parts.read_clock,
        shown="none",
    ),
    Key(
        "streaming",
        "for [recordings in progress](stream.md), instead of a rule, which needs the whole night: the "
        "`transition_weight` for a stager about which nothing is known, that for one that is `flickering`, "
        "their `source`",
        lambda value, where, scheme: schema.read_table(parts.StreamingRules, value, where),
        shown="none",
        decodes=False,
    ),
    Key(
        "posterior",
        "how far a stager may be wrong all night, for [posterior](posterior.md), `sample` and "
        "[intervals](intervals.md): `stage_sd` of an offset per stage (nats), `weight` of the transitions "
        "and its `weight_sd` (log), `floor` of the probabilities, `presleep_stay` of wake before sleep, "
        "`sol_factor` by which the interval of SOL is widened, "
        "measured `coverage`, `source`; without it, all three act at the strength of the path",
        parts.read_posterior,
        shown="none",
        decodes=False,
    ),
    Key(
        "durations",
        "per stage, the probabilities of bouts of 1, 2, … epochs; longer bouts continue with the hazard of "
        "the last entry",
        parts.per_stage(parts.read_durations),
        {},
    ),
    Key(
        "bands",
        "range of an indicator over expert scorings: `low`, `high`, `source`, `unit`",
        parts.read_bands,
        {},
        decodes=False,
    ),
    Key(
        "joint",
        "whether a night looks like expert scoring, in one number: `centre` and `scale` of `indicators`, the "
        "`threshold` that expert nights stay under, `source`",
        parts.read_joint,
        shown="none",
        decodes=False,
    ),
    Key(
        "shares",
        "shares of the stages in expert scorings: `cohorts`, with `[mean, standard deviation]` over people "
        "by stage, and their `source`; `repair`: shares `before`, range (`low`, `high`) over `n_people`, and "
        "shares `after` the biases of the profile's stager, written by [tune](tune.md#stage-shares)",
        read_expert_shares,
        shown="none",
        write=write_expert_shares,
        decodes=False,
    ),
    Key(
        "intervals",
        "errors on scored nights by statistic, a list for each person, written by [fit](fit.md); "
        "[dropped](intervals.md) if `replace` changes how nights are decoded",
        parts.read_intervals,
        {},
        decodes=False,
    ),
    Key(
        "base",
        "the profile it was fitted from, as a table of the same keys, written by [fit](fit.md): nights of "
        "another `cohort` or `stager` are decoded by it, and without it by this profile without what belongs "
        "to them",
        parts.by_check(checks.mapping),
        shown="none",
        write=lambda base, _: base.to_dict(),
        decodes=False,
    ),
    Key("provenance", "where the numbers come from, as any TOML", parts.read_tree, {}, decodes=False),
)
KEYS = {key.name: key for key in _TABLE}
