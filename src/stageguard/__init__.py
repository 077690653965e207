"""StageGuard: physiologically constrained sleep staging, around any stager. Extras are imported when used.

>>> import stageguard as sg
>>> result = sg.decode(probabilities, "human-psg-5")
>>> result.hypnogram.labels, result.changed, result.strength
"""

from __future__ import annotations

from stageguard.lazy import public_names
from stageguard.version import __version__ as __version__

# The public names by the module they live in, which is imported when one of them is first used.
# `__init__.pyi` says the same to type checkers; tests/test_architecture.py holds the two together.
PUBLIC = {
    "errors": "FileFormatError InputError ProfileError StageGuardError StageGuardWarning",
    "night.align": "align combine",
    "night.hypnodensity": "Hypnodensity",
    "night.hypnogram": "Hypnogram UNSCORED",
    "night.period": "find_sleeps",
    "night.recording": "Recording Signal",
    "night.stages": "StageScheme",
    "profile.profile": "Profile profiles",
    "guard.decode": "decode",
    "guard.decoding": "Decoding",
    "guard.explain": "Change explain",
    "guard.posterior": "Posterior posterior sample",
    "guard.stream": "StreamingDecoder",
    "measures.agreement": "Agreement agreement",
    "measures.experts": "among_experts consensus",
    "measures.grade": "GradeCard grade",
    "measures.intervals": "intervals",
    "measures.statistics": "SleepStatistics sleep_statistics",
    "measures.validity": "Validity validity",
    "fitting.estimator": "SemiMarkovDecoder",
    "fitting.fit": "FitReport fit fit_report",
    "fitting.tune": "tune",
    "formats.convert": "convert",
    "formats.read": "read_density read_hypnogram",
    "formats.recordings.read": "read_recording",
    "signals.features": "Features features",
    "signals.quality": "signal_quality",
    "synthetic.night": "simulate_night",
    "staging": "stagers",
    "pipeline": "stage",
    "runner.cohort": "DecodedCohort decode_cohort",
    "plots.cohort": "plot_bland_altman plot_bouts",
    "plots.night": "plot_density plot_hypnogram",
    "report.cohort": "cohort_report",
    "report.methods": "methods_text",
    "report.night": "night_report",
}
__getattr__, _names = public_names(__name__, PUBLIC)
__all__ = ["__version__", *_names]


def __dir__() -> list[str]:
    return sorted(__all__)
