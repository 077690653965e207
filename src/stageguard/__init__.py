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
    from stageguard.bands import expert_bands as expert_bands
    from stageguard.decoded import Decoding as Decoding
    from stageguard.decoding import decode as decode
    from stageguard.errors import CohortError as CohortError
    from stageguard.errors import FileFormatError as FileFormatError
    from stageguard.errors import InputError as InputError
    from stageguard.errors import MissingExtraError as MissingExtraError
    from stageguard.errors import MissingFileError as MissingFileError
    from stageguard.errors import OutputError as OutputError
    from stageguard.errors import OutputExistsError as OutputExistsError
    from stageguard.errors import PinError as PinError
    from stageguard.errors import ProfileError as ProfileError
    from stageguard.errors import StageGuardError as StageGuardError
    from stageguard.errors import StageGuardWarning as StageGuardWarning
    from stageguard.experts import AmongExperts as AmongExperts
    from stageguard.experts import among_experts as among_experts
    from stageguard.experts import consensus as consensus
    from stageguard.experts import soft_agreement as soft_agreement
    from stageguard.explanation import Change as Change
    from stageguard.explanation import explain as explain
    from stageguard.extraction import Features as Features
    from stageguard.extraction import features as features
    from stageguard.fitting.estimator import SemiMarkovDecoder as SemiMarkovDecoder
    from stageguard.fitting.fit import fit as fit
    from stageguard.fitting.fit import fit_report as fit_report
    from stageguard.fitting.report import FitReport as FitReport
    from stageguard.formats import read_density as read_density
    from stageguard.formats.hypnograms import read_hypnogram as read_hypnogram
    from stageguard.formats.recordings import read_recording as read_recording
    from stageguard.formats.writing import Written as Written
    from stageguard.formats.writing import convert as convert
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
    from stageguard.merging import Aligned as Aligned
    from stageguard.merging import align as align
    from stageguard.merging import combine as combine
    from stageguard.merging import merge_stages as merge_stages
    from stageguard.merging import reepoch as reepoch
    from stageguard.profile import Profile as Profile
    from stageguard.profile import profiles as profiles
    from stageguard.quality import SignalQuality as SignalQuality
    from stageguard.quality import signal_quality as signal_quality
    from stageguard.recording import Recording as Recording
    from stageguard.recording import Series as Series
    from stageguard.recording import Signal as Signal
    from stageguard.report import night_report as night_report
    from stageguard.smoothing import Posterior as Posterior
    from stageguard.smoothing import posterior as posterior
    from stageguard.smoothing import sample as sample
    from stageguard.stages import StageScheme as StageScheme
    from stageguard.streaming import StreamingDecoder as StreamingDecoder
    from stageguard.strength import Strength as Strength
    from stageguard.uncertainty import Interval as Interval
    from stageguard.uncertainty import Intervals as Intervals
    from stageguard.uncertainty import intervals as intervals

# Public name -> the module it lives in, imported when the name is first used.
_HOMES = {
    "Agreement": "measures.agreement",
    "Aligned": "merging",
    "AmongExperts": "experts",
    "Change": "explanation",
    "CohortError": "errors",
    "Decoding": "decoded",
    "Features": "extraction",
    "FileFormatError": "errors",
    "FitReport": "fitting.report",
    "Hypnodensity": "hypnodensity",
    "Hypnogram": "hypnogram",
    "InputError": "errors",
    "Interval": "uncertainty",
    "Intervals": "uncertainty",
    "MissingExtraError": "errors",
    "MissingFileError": "errors",
    "OutputError": "errors",
    "OutputExistsError": "errors",
    "PinError": "errors",
    "Posterior": "smoothing",
    "Profile": "profile",
    "ProfileError": "errors",
    "StageGuardError": "errors",
    "StageGuardWarning": "errors",
    "StageScheme": "stages",
    "RareEvent": "measures.rare_events",
    "Recording": "recording",
    "SemiMarkovDecoder": "fitting.estimator",
    "Series": "recording",
    "Signal": "recording",
    "SignalQuality": "quality",
    "SleepStatistics": "measures.statistics",
    "StreamingDecoder": "streaming",
    "Strength": "strength",
    "UNSCORED": "hypnogram",
    "Validity": "measures.validity",
    "Written": "formats.writing",
    "agreement": "measures.agreement",
    "align": "merging",
    "among_experts": "experts",
    "combine": "merging",
    "consensus": "experts",
    "convert": "formats.writing",
    "decode": "decoding",
    "explain": "explanation",
    "expert_bands": "bands",
    "features": "extraction",
    "fit": "fitting.fit",
    "fit_report": "fitting.fit",
    "merge_stages": "merging",
    "intervals": "uncertainty",
    "night_report": "report",
    "posterior": "smoothing",
    "profiles": "profile",
    "rare_events": "measures.rare_events",
    "read_density": "formats",
    "read_hypnogram": "formats.hypnograms",
    "read_recording": "formats.recordings",
    "reepoch": "merging",
    "signal_quality": "quality",
    "sample": "smoothing",
    "sleep_statistics": "measures.statistics",
    "soft_agreement": "experts",
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
