"""StageGuard: physiologically constrained sleep staging, around any stager. Extras are imported when used.

>>> import stageguard as sg
>>> result = sg.decode(probabilities, "human-psg-5")
>>> result.hypnogram.labels, result.changed, str(result.strength)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stageguard.decoded import Decoding as Decoding
    from stageguard.decoding import decode as decode
    from stageguard.errors import CohortError as CohortError
    from stageguard.errors import FileFormatError as FileFormatError
    from stageguard.errors import InputError as InputError
    from stageguard.errors import MissingExtraError as MissingExtraError
    from stageguard.errors import OutputError as OutputError
    from stageguard.errors import OutputExistsError as OutputExistsError
    from stageguard.errors import PinError as PinError
    from stageguard.errors import ProfileError as ProfileError
    from stageguard.errors import StageGuardError as StageGuardError
    from stageguard.errors import StageGuardWarning as StageGuardWarning
    from stageguard.formats import read_density as read_density
    from stageguard.formats.hypnograms import read_hypnogram as read_hypnogram
    from stageguard.hypnodensity import Hypnodensity as Hypnodensity
    from stageguard.hypnogram import UNSCORED as UNSCORED
    from stageguard.hypnogram import Hypnogram as Hypnogram
    from stageguard.measures.agreement import Agreement as Agreement
    from stageguard.measures.agreement import agreement as agreement
    from stageguard.measures.rare_events import RareEvent as RareEvent
    from stageguard.measures.rare_events import rare_events as rare_events
    from stageguard.measures.statistics import SleepStatistics as SleepStatistics
    from stageguard.measures.statistics import sleep_statistics as sleep_statistics
    from stageguard.measures.validity import Validity as Validity
    from stageguard.measures.validity import validity as validity
    from stageguard.profile import Profile as Profile
    from stageguard.profile import profiles as profiles
    from stageguard.report import night_report as night_report
    from stageguard.stages import StageScheme as StageScheme
    from stageguard.strength import Strength as Strength

# Public name -> the module it lives in, imported when the name is first used.
_HOMES = {
    "Agreement": "measures.agreement",
    "CohortError": "errors",
    "Decoding": "decoded",
    "FileFormatError": "errors",
    "Hypnodensity": "hypnodensity",
    "Hypnogram": "hypnogram",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "OutputError": "errors",
    "OutputExistsError": "errors",
    "PinError": "errors",
    "Profile": "profile",
    "ProfileError": "errors",
    "StageGuardError": "errors",
    "StageGuardWarning": "errors",
    "StageScheme": "stages",
    "RareEvent": "measures.rare_events",
    "SleepStatistics": "measures.statistics",
    "Strength": "strength",
    "UNSCORED": "hypnogram",
    "Validity": "measures.validity",
    "agreement": "measures.agreement",
    "decode": "decoding",
    "night_report": "report",
    "profiles": "profile",
    "rare_events": "measures.rare_events",
    "read_density": "formats",
    "read_hypnogram": "formats.hypnograms",
    "sleep_statistics": "measures.statistics",
    "validity": "measures.validity",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stageguard' has no attribute {name!r}")
    value = getattr(import_module(f"stageguard.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
