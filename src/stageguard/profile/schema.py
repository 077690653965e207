"""Reading a profile's document into its fields, with one clear line for anything wrong. Opens no files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from math import inf
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

from stageguard.base import checks
from stageguard.base.arrays import SUM_TOLERANCE
from stageguard.base.errors import InputError, ProfileError, did_you_mean
from stageguard.night.quantities import indicators_of
from stageguard.night.stages import SCHEMES, StageScheme, canonical_name
from stageguard.profile.parts import Band, Calibration, Caution, FlipFlop, RarePair, StrengthRule

REQUIRED = ("name", "scheme", "epoch_seconds", "transitions")
KEYS = (
    *("name", "summary", "intended_for", "cohort", "other_cohorts", "not_for"),
    *("scheme", "stages", "wake", "rem", "epoch_seconds"),
    *("stay", "ends", "transition_weight", "strength", "prior_exponent", "prior", "rare_probability", "rare"),
    *("tvr_pairs", "min_bout_seconds", "flip_flop", "transitions", "calibration", "durations", "bands"),
    *("intervals", "provenance"),
)

_number = partial(checks.number, error=ProfileError)
_text = partial(checks.text, error=ProfileError)
_choice = partial(checks.choice, error=ProfileError)
_probability = partial(_number, low=0.0, high=1.0)


def parse_profile(document: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a profile, complete and valid, from the document that describes it."""
    given = _mapping(document, "a profile", KEYS)
    for key in REQUIRED:
        if key not in given and not (key == "scheme" and "stages" in given):
            or_stages = " (or 'stages')" if key == "scheme" else ""
            raise ProfileError(f"key {key!r}{or_stages} is missing. Required: {', '.join(REQUIRED)}.")
    scheme = _scheme(given)
    parsed = {
        **_words(given),
        "scheme": scheme,
        "epoch_seconds": _number(given["epoch_seconds"], "epoch_seconds", low=0.001, high=86_400),
        **_strength(given),
        **_prior(given, scheme),
        **_pairs(given, scheme),
        "min_bout_seconds": _per_stage(
            given, "min_bout_seconds", scheme, partial(_number, positive=True, high=86_400)
        ),
        "flip_flop": _flip_flop(given.get("flip_flop", {})),
        "transitions": _transitions(given["transitions"], scheme),
        "calibration": _calibration(given.get("calibration", {}), scheme),
        "durations": _per_stage(given, "durations", scheme, _duration_table),
        "bands": _bands(given.get("bands", {}), scheme),
        "intervals": _intervals(given.get("intervals", {})),
        "provenance": _tree(_mapping(given.get("provenance", {}), "provenance"), "provenance"),
    }
    _check_together(parsed)
    return parsed


def check_keys(given: Iterable[str], where: str, known: Iterable[str]) -> None:
    """Raise ProfileError for the first key that is not known, with the nearest that is."""
    known = tuple(known)
    for key in given:
        if key not in known:
            advice = did_you_mean(key, known) or f" Known: {', '.join(known)}."
            raise ProfileError(f"unknown key {key!r} in {where}.{advice}")


def _check_together(parsed: Mapping[str, Any]) -> None:
    """Check what no key can tell alone."""
    if parsed["prior_exponent"] and parsed["prior"] is None:
        raise ProfileError(
            "prior_exponent is given, but prior is not. Add the stage shares as prior, or drop it."
        )
    strength = parsed["strength"]
    if strength is not None and strength.rule == "band" and parsed["prior_exponent"]:
        raise ProfileError(
            "prior_exponent and strength.rule = 'band' exclude each other: band sets it per recording."
        )
    scheme = parsed["scheme"]
    for stage in parsed["durations"]:
        row = parsed["transitions"][scheme.names.index(stage)]
        if not any(p for name, p in zip(scheme.names, row, strict=True) if name != stage):
            raise ProfileError(
                f"durations.{stage} says how bouts end, but transitions.{stage} has no way out of it."
            )


def _words(given: Mapping[str, object]) -> dict[str, Any]:
    return {
        "name": _text(given["name"], "name", empty=False),
        "summary": _text(given.get("summary", ""), "summary"),
        "intended_for": _text(given.get("intended_for", ""), "intended_for"),
        "cohort": _text(given["cohort"], "cohort", empty=False) if "cohort" in given else None,
        "other_cohorts": _choice(
            given.get("other_cohorts", "unweighted"), "other_cohorts", ("unweighted", "argmax")
        ),
        "not_for": _cautions(given.get("not_for", "")),
        "stay": _choice(given.get("stay", "self"), "stay", ("self", "free")),
        "ends": _choice(given.get("ends", "censored"), "ends", ("censored", "paper")),
    }


def _scheme(given: Mapping[str, object]) -> StageScheme:
    if "scheme" in given:
        for key in ("stages", "wake", "rem"):
            if key in given:
                raise ProfileError(f"keys 'scheme' and {key!r} exclude each other. Keep one of them.")
        return SCHEMES[_choice(given["scheme"], "scheme", SCHEMES)]
    try:
        return StageScheme.custom(_list(given["stages"], "stages"), given.get("wake"), given.get("rem"))  # type: ignore[arg-type]
    except InputError as error:
        raise ProfileError(f"stages: {error}") from None


def _strength(given: Mapping[str, object]) -> dict[str, Any]:
    if "strength" not in given:
        weight = _number(given.get("transition_weight", 1.0), "transition_weight", low=0, high=1000)
        return {"transition_weight": weight, "strength": None}
    if "transition_weight" in given:
        raise ProfileError("keys 'transition_weight' and 'strength' exclude each other. Keep one of them.")
    table = _table(given["strength"], "strength", StrengthRule)
    rule = _choice(table["rule"], "strength.rule", ("band", "match"))
    values: dict[str, Any] = {
        "fi_target": _number(table["fi_target"], "strength.fi_target", positive=True, high=1)
    }
    for key in ("floor", "cap", "lift"):
        if key in table and rule != "band":
            raise ProfileError(f"strength.{key} is given, but only rule = 'band' has it. Drop it.")
    for key, low, high in (("floor", 0.0, 1.0), ("cap", 1.0, float("inf"))):
        if key in table:
            values[key] = _number(table[key], f"strength.{key}", low=low, high=high)
    if "lift" in table:
        values["lift"] = table["lift"]
        if not isinstance(table["lift"], bool):
            raise ProfileError(f"strength.lift is {checks.shown(table['lift'])}, expected true or false.")
    return {"transition_weight": None, "strength": StrengthRule(rule, **values)}  # type: ignore[arg-type]


def _prior(given: Mapping[str, object], scheme: StageScheme) -> dict[str, Any]:
    prior = None
    if "prior" in given:
        table = _stage_mapping(given["prior"], "prior", scheme, complete=True)
        prior = tuple(_number(table[name], f"prior.{name}", positive=True, high=1) for name in scheme.names)
        _check_sum(prior, "prior")
    exponent = _number(given.get("prior_exponent", 0.0), "prior_exponent", low=0)
    return {"prior_exponent": exponent, "prior": prior}


def _pairs(given: Mapping[str, object], scheme: StageScheme) -> dict[str, Any]:
    default = _probability(given.get("rare_probability", 0.001), "rare_probability")
    rare = []
    for place, item in enumerate(_list(given.get("rare", ()), "rare")):
        source, target, *own = _pair(item, f"rare[{place}]", scheme, probability=True)
        probability = _probability(own[0], f"rare[{place}]") if own else default
        rare.append(RarePair(source, target, probability))
    pairs = tuple((pair.source, pair.target) for pair in rare)
    _check_unique(pairs, "rare")
    if "tvr_pairs" in given:
        listed = enumerate(_list(given["tvr_pairs"], "tvr_pairs"))
        pairs = tuple(_pair(item, f"tvr_pairs[{place}]", scheme) for place, item in listed)
        _check_unique(pairs, "tvr_pairs")
    return {
        "rare_probability": default,
        "rare": tuple(rare),
        "tvr_pairs": pairs,
        "_rare_as_given": _plain(given.get("rare", ())),
        "_tvr_pairs_as_given": pairs if "tvr_pairs" in given else None,
    }


def _pair(item: object, where: str, scheme: StageScheme, *, probability: bool = False) -> tuple[Any, ...]:
    values = _list(item, where)
    lengths = (2, 3) if probability else (2,)
    if len(values) not in lengths:
        shape = "[from, to] or [from, to, probability]" if probability else "[from, to]"
        raise ProfileError(f"{where} is {checks.shown(item)}, expected {shape}.")
    for stage in values[:2]:
        _check_stage(stage, where, scheme)
    if values[0] == values[1]:
        raise ProfileError(f"{where} goes from {values[0]!r} to itself, expected two different stages.")
    return tuple(values)


def _flip_flop(value: object) -> FlipFlop:
    table = _table(value, "flip_flop", FlipFlop)
    window = table.get("window_epochs", 5)
    if isinstance(window, bool) or not isinstance(window, Integral) or not 2 <= int(window) <= 60:
        raise ProfileError(
            f"flip_flop.window_epochs is {checks.shown(window)}, expected a whole number from 2 to 60."
        )
    return FlipFlop(
        penalty_nats=_number(table.get("penalty_nats", 0.0), "flip_flop.penalty_nats", low=0, high=1000),
        window_epochs=int(window),
        method=_choice(table.get("method", "exact"), "flip_flop.method", ("greedy", "exact")),  # type: ignore[arg-type]
    )


def _transitions(value: object, scheme: StageScheme) -> tuple[tuple[float, ...], ...]:
    rows = _stage_mapping(value, "transitions", scheme, complete=True)
    matrix = []
    for source in scheme.names:
        where = f"transitions.{source}"
        row = _stage_mapping(rows[source], where, scheme)
        matrix.append(tuple(_probability(row.get(to, 0.0), f"{where}.{to}") for to in scheme.names))
        _check_sum(matrix[-1], where)
    return tuple(matrix)


def _calibration(value: object, scheme: StageScheme) -> Calibration:
    table = _table(value, "calibration", Calibration)
    biases = None
    if "biases" in table:
        given = _stage_mapping(table["biases"], "calibration.biases", scheme)
        biases = tuple(
            _number(given.get(name, 0.0), f"calibration.biases.{name}", low=-1000, high=1000)
            for name in scheme.names
        )
    return Calibration(
        _number(table.get("temperature", 1.0), "calibration.temperature", low=0.01, high=100), biases
    )


def _duration_table(value: object, where: str) -> tuple[float, ...]:
    listed = _list(value, where)
    table = tuple(_probability(p, f"{where}[{place}]") for place, p in enumerate(listed))
    if not table:
        raise ProfileError(f"{where} is empty, expected probabilities for 1, 2, ... epochs.")
    if sum(table) > 1 + 1e-9:
        raise ProfileError(f"{where} sums to {sum(table):.6g}, expected at most 1; the rest is the tail.")
    if table[-1] == 0:
        raise ProfileError(
            f"{where} ends in 0, expected a last entry above 0: its hazard carries on as the tail."
        )
    return table


def _bands(value: object, scheme: StageScheme) -> Mapping[str, Band]:
    known = tuple(indicators_of(scheme.names))
    bands = {}
    for indicator, item in _mapping(value, "bands", known).items():
        where = f"bands.{indicator}"
        table = _table(item, where, Band)
        low, high = (_number(table[key], f"{where}.{key}") for key in ("low", "high"))
        if low > high:
            raise ProfileError(f"{where} has low {low:g} above high {high:g}. Swap them.")
        words = {key: _text(table.get(key, ""), f"{where}.{key}") for key in ("source", "unit")}
        bands[indicator] = Band(low, high, **words)
    return MappingProxyType(bands)


def _intervals(value: object) -> Mapping[str, Any]:
    """Return what is known of errors on scored nights, numbers where numbers are read."""
    held: Mapping[str, Any] = _tree(_mapping(value, "intervals"), "intervals")
    for name, listed in _mapping(held.get("errors", {}), "intervals.errors").items():
        where = f"intervals.errors.{name}"
        for place, error in enumerate(_list(listed, where)):
            _number(error, f"{where}[{place}]")
    for key in ("coverage", "model_coverage"):
        for name, share in _mapping(held.get(key, {}), f"intervals.{key}").items():
            _probability(share, f"intervals.{key}.{name}")
    for key, high in (("n_nights", inf), ("n_subjects", inf), ("min_first_rem_seconds", 86_400.0)):
        _number(held.get(key, 0), f"intervals.{key}", low=0.0, high=high)
    _probability(held.get("level_of_coverage", 0.9), "intervals.level_of_coverage")
    return held


def _cautions(value: object) -> tuple[Caution, ...]:
    if isinstance(value, str):
        return (Caution("", (), "warn", _text(value, "not_for")),) if value else ()
    cautions = []
    for place, item in enumerate(_list(value, "not_for")):
        where = f"not_for[{place}]"
        table = _table(item, where, Caution, optional=("aliases", "action"))
        aliases = _list(table.get("aliases", ()), f"{where}.aliases")
        caution = Caution(
            cohort=_text(table["cohort"], f"{where}.cohort", empty=False),
            aliases=tuple(_text(alias, f"{where}.aliases", empty=False) for alias in aliases),
            action=_choice(table.get("action", "warn"), f"{where}.action", ("warn", "refuse")),  # type: ignore[arg-type]
            reason=_text(table["reason"], f"{where}.reason", empty=False),
        )
        cautions.append(caution)
    return tuple(cautions)


def _tree(value: object, where: str) -> Any:
    """Return free-form data, made of plain TOML types only, that nobody can change."""
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _number(value, where)
    if isinstance(value, list | tuple):
        return tuple(_tree(item, f"{where}[{place}]") for place, item in enumerate(value))
    if isinstance(value, Mapping):
        checked = _mapping(value, where)
        return MappingProxyType({key: _tree(item, f"{where}.{key}") for key, item in checked.items()})
    raise ProfileError(
        f"{where} is {checks.shown(value)}, expected text, a number, true, false, a list or a table. "
        "Write it as text, in quotes."
    )


def _mapping(value: object, where: str, known: Sequence[str] | None = None) -> Mapping[str, object]:
    """Return a mapping whose keys are text, and known ones if it is said which."""
    if not isinstance(value, Mapping):
        raise ProfileError(f"{where} is {checks.shown(value)}, expected a table of keys and values.")
    for key in value:
        _text(key, f"a key of {where}")
    if known is not None:
        check_keys(value, where, known)
    return value


def _table(value: object, where: str, kind: type, *, optional: Sequence[str] = ()) -> Mapping[str, object]:
    """Return a mapping with the keys of a dataclass; fields without a default are required."""
    table = _mapping(value, where, [field.name for field in fields(kind)])
    for field in fields(kind):
        if field.default is MISSING and field.name not in table and field.name not in optional:
            raise ProfileError(f"key {field.name!r} is missing in {where}.")
    return table


def _stage_mapping(
    value: object, where: str, scheme: StageScheme, *, complete: bool = False
) -> Mapping[str, object]:
    table = _mapping(value, where)
    for stage in table:
        _check_stage(stage, where, scheme)
    missing = [name for name in scheme.names if name not in table]
    if complete and missing:
        raise ProfileError(
            f"{where} lacks stage {missing[0]!r}, expected one entry each for {_names(scheme)}."
        )
    return table


def _per_stage(
    given: Mapping[str, object], key: str, scheme: StageScheme, check: Callable[[object, str], Any]
) -> Mapping[str, Any]:
    table = _stage_mapping(given.get(key, {}), key, scheme)
    return MappingProxyType({s: check(table[s], f"{key}.{s}") for s in scheme.names if s in table})


def _check_stage(stage: object, where: str, scheme: StageScheme) -> None:
    if isinstance(stage, str) and stage in scheme.names:
        return
    meant = canonical_name(stage) if isinstance(stage, str) else None
    hint = f" Did you mean {meant!r}?" if meant in scheme.names else did_you_mean(str(stage), scheme.names)
    got = f"{where}: {checks.shown(stage)} is not a stage of scheme {scheme.name!r}"
    raise ProfileError(f"{got}. Known: {_names(scheme)}.{hint}")


def _check_sum(values: Sequence[float], where: str) -> None:
    if abs(sum(values) - 1) > SUM_TOLERANCE:
        raise ProfileError(f"{where} sums to {sum(values):.6g}, expected 1 (within {SUM_TOLERANCE:g}).")


def _check_unique(pairs: Sequence[tuple[str, str]], where: str) -> None:
    for place, pair in enumerate(pairs):
        if pair in pairs[:place]:
            raise ProfileError(f"{where} lists {pair[0]} -> {pair[1]} twice. Keep one of them.")


def _list(value: object, where: str) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise ProfileError(f"{where} is {checks.shown(value)}, expected a list in square brackets.")


def _plain(value: Any) -> Any:
    """Return validated pairs as tuples of text and floats."""
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    return value if isinstance(value, str) else float(value) + 0.0


def _names(scheme: StageScheme) -> str:
    return ", ".join(scheme.names)
