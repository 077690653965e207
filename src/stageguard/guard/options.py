"""The options of `decode`, `posterior` and `sample`: one class, from the caller to the kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Literal, TypedDict, get_type_hints

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.errors import InputError
from stageguard.night.timing import Moment
from stageguard.profile.known_stagers import Training

Pins = Mapping[int, str | int]
Segments = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardOptions:
    """The options of `decode`, `posterior` and `sample`; `stageguard.decode` describes each.

    For a batch, quality, pins, segments, lights_off and lights_on are lists with one entry per night.
    """

    stages: Sequence[str] | None = None
    epoch_seconds: float | None = None
    quality: Any = None
    pins: Any = None
    segments: Any = None
    lights_off: Any = None
    lights_on: Any = None
    cohort: str | None = None
    stager: str | None = None
    trained: Training | None = None
    strength: float | Literal["off"] | None = None
    logits: bool = False
    log: bool = False

    def __post_init__(self) -> None:
        """Check what is true or false."""
        for name in ("logits", "log"):
            object.__setattr__(self, name, checks.flag(getattr(self, name), name))

    @property
    def scale(self) -> str:
        """What the numbers are: probabilities, logits or log-probabilities."""
        if self.logits:
            return "logits"
        return "log-probabilities" if self.log else "probabilities"

    @property
    def is_by_epoch(self) -> bool:
        """Whether an option is about single epochs."""
        return self.quality is not None or self.pins is not None or self.segments is not None

    @property
    def has_lights(self) -> bool:
        """Whether lights off or lights on is given."""
        return self.lights_off is not None or self.lights_on is not None

    def of_each_night(self, n_nights: int) -> list[GuardOptions]:
        """Return the options of every night of a batch."""
        names = ("quality", "pins", "segments", "lights_off", "lights_on")
        if not self.is_by_epoch and not self.has_lights:
            return [self] * n_nights
        values = [per_night(getattr(self, name), n_nights, name) for name in names]
        return [replace(self, **dict(zip(names, each, strict=True))) for each in zip(*values, strict=True)]


DEFAULTS = GuardOptions()


class OptionKeywords(TypedDict, total=False):
    """The fields of `GuardOptions` as a caller may give them; lists of options are for lists of nights."""

    stages: Sequence[str] | None
    epoch_seconds: float | None
    quality: npt.ArrayLike | Sequence[npt.ArrayLike | None] | None
    pins: Pins | Sequence[Pins | None] | None
    segments: Segments | Sequence[Segments | None] | None
    lights_off: Moment | Sequence[Moment | None] | None
    lights_on: Moment | Sequence[Moment | None] | None
    cohort: str | None
    stager: str | None
    trained: Training | None
    strength: float | Literal["off"] | None
    logits: bool
    log: bool


def takes_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take the fields of `GuardOptions` as keywords, listed by `help`, and get one object."""

    @wraps(verb)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not keywords:
            return verb(*arguments, options=DEFAULTS)
        values = {option.name: keywords.pop(option.name) for option in options if option.name in keywords}
        return verb(*arguments, options=GuardOptions(**values), **keywords)

    options = fields(GuardOptions)
    # types, not their names: the names mean nothing in the module of `verb`, where they would be looked up
    types = get_type_hints(OptionKeywords)
    plain = signature(verb, eval_str=True)
    listed = [parameter for parameter in plain.parameters.values() if parameter.name != "options"]
    listed += [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=types[option.name])
        for option in options
    ]
    set_signature(call, plain.replace(parameters=listed))
    return call


def set_signature(function: Callable[..., Any], listed: Signature) -> None:
    """Give a function a signature, for `inspect`, `typing.get_type_hints` and what builds on them."""
    function.__signature__ = listed  # type: ignore[attr-defined]
    types = {name: parameter.annotation for name, parameter in listed.parameters.items()}
    function.__annotations__ = {**types, "return": listed.return_annotation}


def per_night(values: Any, n_nights: int, what: str) -> list[Any]:
    """Return an option of a batch as a list with one value per night."""
    if values is None:
        return [None] * n_nights
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    if not is_list or len(values) != n_nights:
        got = f"{len(values)} of them" if is_list else checks.shown(values)
        raise InputError(
            f"{what}: got {got} for {n_nights} nights, expected a list with one entry (or None) per night."
        )
    return list(values)
