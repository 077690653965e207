"""Units of signals: their spellings, and conversion from one to another."""

from __future__ import annotations

import unicodedata

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, did_you_mean

STANDARD_GRAVITY = 9.80665  # m/s2 in one g

# Unit -> what it measures; factor and offset: value in the first unit of that = value x factor + offset; and
# spellings met in EDF, WFDB, HDF5 and watch files, in lower case with the micro sign written u.
UNITS: dict[str, tuple[str, float, float, str]] = {
    "uV": ("voltage", 1.0, 0.0, "uv, muv, microv, microvolt, microvolts, uv rms, uvrms, uv-mrs"),
    "nV": ("voltage", 1e-3, 0.0, "nv, nanovolt, nanovolts"),
    "mV": ("voltage", 1e3, 0.0, "mv, millivolt, millivolts"),
    "V": ("voltage", 1e6, 0.0, "v, volt, volts"),
    "g": ("acceleration", 1.0, 0.0, "g, gee, g-force, gs"),
    "mg": ("acceleration", 1e-3, 0.0, "mg, milli-g, millig"),
    "m/s2": ("acceleration", 1 / STANDARD_GRAVITY, 0.0, "m/s2, m/s^2, m/s/s, m s-2, ms-2, m.s-2, m/s**2"),
    "bpm": ("rate", 1.0, 0.0, "bpm, 1/min, /min, min-1, beats/min, beats per minute, breaths/min, b/min"),
    "Hz": ("rate", 60.0, 0.0, "hz, 1/s, hertz"),
    "%": ("share", 1.0, 0.0, "%, percent, pct, %sat, % sat, %sao2, %spo2"),
    "fraction": ("share", 100.0, 0.0, "fraction, ratio"),
    "rad": ("angle", 1.0, 0.0, "rad, radian, radians"),
    "mrad": ("angle", 1e-3, 0.0, "mrad, milliradian, milliradians"),
    "deg": ("angle", np.pi / 180, 0.0, "deg, degree, degrees, °"),
    "degC": ("temperature", 1.0, 0.0, "degc, deg c, °c, celsius, c"),
    "degF": ("temperature", 5 / 9, -160 / 9, "degf, deg f, °f, fahrenheit, f"),
    "K": ("temperature", 1.0, -273.15, "k, kelvin"),
    "s": ("time", 1.0, 0.0, "s, sec, secs, second, seconds"),
    "ms": ("time", 1e-3, 0.0, "ms, msec, millisecond, milliseconds"),
    "min": ("time", 60.0, 0.0, "min, mins, minute, minutes"),
    "h": ("time", 3600.0, 0.0, "h, hr, hrs, hour, hours"),
    "mmHg": ("pressure", 1.0, 0.0, "mmhg"),
    "cmH2O": ("pressure", 0.73555912, 0.0, "cmh2o, cm h2o"),
    "kPa": ("pressure", 7.50061683, 0.0, "kpa"),
    "counts": ("count", 1.0, 0.0, "counts, count"),
}
_BY_SPELLING = {spelling: unit for unit, known in UNITS.items() for spelling in known[3].split(", ")}
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
    return None if unit is None else UNITS[unit][0]


def seconds_per(text: str) -> float | None:
    """Return how many seconds a unit of time has ("min", "hours", ...), or None for any other word."""
    unit = known_unit(text)
    return UNITS[unit][1] if unit is not None and UNITS[unit][0] == "time" else None


def standard_unit(text: str) -> str:
    """Return the unit in which signals of this kind are kept: uV for voltages, g, bpm, %, rad, degC, s, mmHg.

    An unknown unit keeps its spelling.
    """
    quantity = quantity_of(text)
    return next((unit for unit, known in UNITS.items() if known[0] == quantity), text.strip())


def scale_to(unit: str, wanted: str, *, what: str = "the signal") -> tuple[float, float]:
    """Return factor and offset: value in ``wanted`` = value in ``unit`` x factor + offset."""
    if unit == wanted:
        return 1.0, 0.0
    source, target = known_unit(unit), known_unit(wanted)
    if target is None:
        raise InputError(_unknown(wanted, f"{what} was asked for in"))
    if source is None:
        raise InputError(_unknown(unit, f"{what} is in", f", expected one that measures like {wanted!r}"))
    quantity, factor, offset, _ = UNITS[source]
    wanted_quantity, wanted_factor, wanted_offset, _ = UNITS[target]
    if quantity != wanted_quantity:
        found, expected = f"{unit!r} ({quantity})", f"{wanted!r} ({wanted_quantity})"
        raise InputError(f"{what} is in {found}, expected {expected}.")
    return factor / wanted_factor, (offset - wanted_offset) / wanted_factor


def to_unit(values: npt.ArrayLike, unit: str, wanted: str, *, what: str = "the signal") -> Floats:
    """Convert values to another unit, as float64; return a new array unless nothing had to be done."""
    array = np.asarray(values, dtype=np.float64)
    factor, offset = scale_to(unit, wanted, what=what)
    if factor == 1.0 and offset == 0.0:
        return array
    return array * factor + offset if offset else array * factor


def _unknown(unit: str, before: str, after: str = "") -> str:
    hint = did_you_mean(unit, [*_BY_SPELLING, *UNITS])
    return f"{before} the unknown unit {checks.shown(unit)}{after}. Known: {', '.join(UNITS)}.{hint}"
