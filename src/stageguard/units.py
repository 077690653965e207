"""Units of signals: their spellings, and conversion from one to another."""

from __future__ import annotations

import unicodedata

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, did_you_mean

STANDARD_GRAVITY = 9.80665  # m/s2 in one g

# Quantity -> its units with (factor, offset): value in the quantity's first unit = value x factor + offset.
_QUANTITIES: dict[str, dict[str, tuple[float, float]]] = {
    "voltage": {"uV": (1.0, 0.0), "nV": (1e-3, 0.0), "mV": (1e3, 0.0), "V": (1e6, 0.0)},
    "acceleration": {"g": (1.0, 0.0), "mg": (1e-3, 0.0), "m/s2": (1 / STANDARD_GRAVITY, 0.0)},
    "rate": {"bpm": (1.0, 0.0), "Hz": (60.0, 0.0)},
    "share": {"%": (1.0, 0.0), "fraction": (100.0, 0.0)},
    "angle": {"rad": (1.0, 0.0), "mrad": (1e-3, 0.0), "deg": (np.pi / 180, 0.0)},
    "temperature": {"degC": (1.0, 0.0), "degF": (5 / 9, -160 / 9), "K": (1.0, -273.15)},
    "time": {"s": (1.0, 0.0), "ms": (1e-3, 0.0), "min": (60.0, 0.0), "h": (3600.0, 0.0)},
    "pressure": {"mmHg": (1.0, 0.0), "cmH2O": (0.73555912, 0.0), "kPa": (7.50061683, 0.0)},
    "count": {"counts": (1.0, 0.0)},
}

# Spellings met in EDF, WFDB, HDF5 and watch files, in lower case with the micro sign written u.
SPELLINGS = {
    "uV": ("uv", "muv", "microv", "microvolt", "microvolts", "uv rms", "uvrms", "uv-mrs"),
    "nV": ("nv", "nanovolt", "nanovolts"),
    "mV": ("mv", "millivolt", "millivolts"),
    "V": ("v", "volt", "volts"),
    "g": ("g", "gee", "g-force", "gs"),
    "mg": ("mg", "milli-g", "millig"),
    "m/s2": ("m/s2", "m/s^2", "m/s/s", "m s-2", "ms-2", "m.s-2", "m/s**2"),
    "bpm": ("bpm", "1/min", "/min", "min-1", "beats/min", "beats per minute", "breaths/min", "b/min"),
    "Hz": ("hz", "1/s", "hertz"),
    "%": ("%", "percent", "pct", "%sat", "% sat", "%sao2", "%spo2"),
    "fraction": ("fraction", "ratio"),
    "rad": ("rad", "radian", "radians"),
    "mrad": ("mrad", "milliradian", "milliradians"),
    "deg": ("deg", "degree", "degrees", "°"),
    "degC": ("degc", "deg c", "°c", "celsius", "c"),
    "degF": ("degf", "deg f", "°f", "fahrenheit", "f"),
    "K": ("k", "kelvin"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "msec", "millisecond", "milliseconds"),
    "min": ("min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "mmHg": ("mmhg",),
    "cmH2O": ("cmh2o", "cm h2o"),
    "kPa": ("kpa",),
    "counts": ("counts", "count"),
}
_BY_SPELLING = {spelling: unit for unit, spellings in SPELLINGS.items() for spelling in spellings}
_QUANTITY_OF = {unit: quantity for quantity, units in _QUANTITIES.items() for unit in units}
# Â comes before µ and ° where UTF-8 was taken for Latin-1
_MICRO = str.maketrans({"µ": "u", "μ": "u", "Â": None})


def known_unit(text: str) -> str | None:
    """Return the unit a spelling stands for ("uV" for µV, microvolt, uv, ...), or None.

    Case is ignored: no physiological signal comes in megavolts or milligrams.
    """
    # NFKC joins the two micro signs and lifts superscripts: m/s² becomes m/s2
    plain = unicodedata.normalize("NFKC", text).translate(_MICRO).strip().strip("[]").casefold()
    return _BY_SPELLING.get(" ".join(plain.split()))


def quantity_of(text: str) -> str | None:
    """Return what a unit measures ("voltage", "acceleration", "rate", ...), or None for an unknown one."""
    unit = known_unit(text)
    return None if unit is None else _QUANTITY_OF[unit]


def seconds_per(text: str) -> float | None:
    """Return how many seconds a unit of time has ("min", "hours", ...), or None for any other word."""
    unit = known_unit(text)
    return _QUANTITIES["time"][unit][0] if unit in _QUANTITIES["time"] else None


def standard_unit(text: str) -> str:
    """Return the unit in which signals of this kind are kept: uV for voltages, g, bpm, %, rad, degC, s, mmHg.

    An unknown unit keeps its spelling.
    """
    quantity = quantity_of(text)
    return text.strip() if quantity is None else next(iter(_QUANTITIES[quantity]))


def scale_to(unit: str, wanted: str, *, what: str = "the signal") -> tuple[float, float]:
    """Return factor and offset: value in ``wanted`` = value in ``unit`` x factor + offset."""
    if unit == wanted:
        return 1.0, 0.0
    source, target = known_unit(unit), known_unit(wanted)
    if target is None:
        raise InputError(_unknown(wanted, f"{what} was asked for in"))
    if source is None:
        raise InputError(_unknown(unit, f"{what} is in", f", expected one that measures like {wanted!r}"))
    quantity = _QUANTITY_OF[source]
    if quantity != _QUANTITY_OF[target]:
        raise InputError(
            f"{what} is in {unit!r} ({quantity}), expected {wanted!r} ({_QUANTITY_OF[target]}). "
            "Map another channel, or correct its unit."
        )
    units = _QUANTITIES[quantity]
    (factor, offset), (target_factor, target_offset) = units[source], units[target]
    return factor / target_factor, (offset - target_offset) / target_factor


def to_unit(values: npt.ArrayLike, unit: str, wanted: str, *, what: str = "the signal") -> Floats:
    """Convert values to another unit, as float64; return a new array unless nothing had to be done."""
    array = np.asarray(values, dtype=np.float64)
    factor, offset = scale_to(unit, wanted, what=what)
    if factor == 1.0 and offset == 0.0:
        return array
    return array * factor + offset if offset else array * factor


def _unknown(unit: str, before: str, after: str = "") -> str:
    hint = did_you_mean(unit, [*_BY_SPELLING, *SPELLINGS])
    return f"{before} the unknown unit {checks.shown(unit)}{after}. Known: {', '.join(SPELLINGS)}.{hint}"
