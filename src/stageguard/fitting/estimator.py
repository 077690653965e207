"""`SemiMarkovDecoder`: fitting and decoding as an estimator of scikit-learn, where that is installed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Labels
from stageguard.errors import InputError
from stageguard.fitting.fit import FitReport, fit_report
from stageguard.fitting.nights import Kind, read_nights
from stageguard.guard.decode import decode
from stageguard.guard.posterior import posterior
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import UNSCORED_NAME, StageScheme
from stageguard.profile.profile import Profile, as_profile

Nights = Sequence[npt.NDArray[np.floating[Any]] | Hypnodensity]

_NotFittedError: type[Exception] = InputError
if TYPE_CHECKING:
    _Estimator = object
else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin
        from sklearn.exceptions import NotFittedError
    except ModuleNotFoundError:
        _Estimator = object
    else:

        class _Estimator(ClassifierMixin, BaseEstimator):
            pass

        class _NotFittedError(InputError, NotFittedError):
            pass


class SemiMarkovDecoder(_Estimator):
    """Guard a stager's probabilities with a profile fitted to scored nights.

    Nights are a list of arrays (n_epochs, n_stages), columns in the profile's stage order. If scikit-learn is
    installed, this is one of its estimators: `clone`, `cross_val_score` and `GridSearchCV` accept it, with a
    list of nights as samples; `score`, the accuracy, is what they maximise.

    Parameters
    ----------
    profile : Profile or str
        The profile to start from.
    transition_weight : float, optional
        Decode at this weight, with the transitions counted on the scored nights. Calibration and strength
        are not chosen then, which leaves the choice to a search over the weight.
    cohort : str, optional
        Who was recorded.
    keep_accuracy, fragmentation_weight, statistics_weight, statistics, n_folds, seed
        As in `stageguard.fit`.

    Attributes
    ----------
    profile_ : Profile
        The fitted profile.
    report_ : FitReport
        How it was chosen.
    classes_ : array (n_stages,)
        The stages as in `y`: whole numbers or names.
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> import stageguard as sg
    >>> nights = [sg.simulate_night("human-psg-3", hours=4, seed=seed) for seed in range(3)]
    >>> X, y = [night.density.probabilities for night in nights], [night.expert.stages for night in nights]
    >>> decoder = sg.SemiMarkovDecoder("human-psg-3", transition_weight=0.3).fit(X, y)
    >>> decoder.predict(X)[0][:3].tolist()
    ['N', 'N', 'N']
    """

    def __init__(
        self,
        profile: Profile | str = "human-psg-5",
        *,
        transition_weight: float | None = None,
        cohort: str | None = None,
        keep_accuracy: bool = False,
        fragmentation_weight: float = 2.0,
        statistics_weight: float = 0.3,
        statistics: Kind | None = None,
        n_folds: int = 5,
        seed: int = 0,
    ) -> None:
        self.profile = profile
        self.transition_weight = transition_weight
        self.cohort = cohort
        self.keep_accuracy = keep_accuracy
        self.fragmentation_weight = fragmentation_weight
        self.statistics_weight = statistics_weight
        self.statistics = statistics
        self.n_folds = n_folds
        self.seed = seed

    profile_: Profile
    report_: FitReport
    classes_: npt.NDArray[Any]
    n_features_in_: int

    def fit(self, X: Nights, y: Any, groups: Sequence[Hashable] | None = None) -> SemiMarkovDecoder:
        """Fit a profile to nights and their experts' stages.

        Parameters
        ----------
        X : list of Hypnodensity or arrays (n_epochs, n_stages)
            The stager's probabilities.
        y : list of Hypnogram or arrays (n_epochs,)
            Stages as indices in the scheme, -1 unscored, or as names, "?" unscored.
        groups : sequence, optional
            The subject of each night.
        """
        base, nights = as_profile(self.profile), _nights(X)
        labels, has_names = _labels_of(y, base.scheme, len(nights))
        if self.transition_weight is not None:  # nothing is left to choose: only the scorings are counted
            read_nights(labels, nights, base, subjects=groups)  # refuses nights that do not fit their scoring
        self.report_ = fit_report(
            labels,
            nights if self.transition_weight is None else None,
            base=base,
            subjects=groups,
            cohort=self.cohort,
            keep_accuracy=self.keep_accuracy,
            fragmentation_weight=self.fragmentation_weight,
            statistics_weight=self.statistics_weight,
            statistics=self.statistics,
            n_folds=self.n_folds,
            seed=self.seed,
        )
        self.profile_ = self.report_.profile
        if self.transition_weight is not None:
            self.profile_ = self.profile_.replace(transition_weight=self.transition_weight)
        self.classes_ = np.array(base.scheme.names) if has_names else np.arange(base.scheme.n_stages)
        self.n_features_in_ = base.scheme.n_stages
        return self

    def predict(self, X: Nights) -> list[npt.NDArray[Any]]:
        """Return the decoded stages of each night, numbers or names as in `y`."""
        decoded = self._decode(X)
        if self.classes_.dtype.kind == "U":
            names = np.array([*self.classes_, UNSCORED_NAME])
            return [names[labels] for labels in decoded]
        return [labels.astype(np.int64) for labels in decoded]

    def predict_proba(self, X: Nights) -> list[npt.NDArray[np.float64]]:
        """Return the probability of each stage at each epoch, given the whole night and the profile."""
        self._check_fitted()
        posteriors = posterior(_nights(X), self.profile_, cohort=self.cohort)
        return [density.probabilities for density in posteriors]

    def score(self, X: Nights, y: Any, sample_weight: None = None) -> float:
        """Return the accuracy over the epochs that an expert scored."""
        decoded = self._decode(X)
        truth, _ = _labels_of(y, self.profile_.scheme, len(decoded))
        for i, (a, b) in enumerate(zip(truth, decoded, strict=True)):
            if len(a) != len(b):
                raise InputError(f"y has {len(a)} epochs and X {len(b)} in night {i}, expected the same.")
        labels, outputs = np.concatenate(truth), np.concatenate(decoded)
        is_scored = labels >= 0
        return float(np.mean(labels[is_scored] == outputs[is_scored])) if is_scored.any() else float("nan")

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` was called."""
        return hasattr(self, "profile_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _NotFittedError("this SemiMarkovDecoder is not fitted yet, expected a call of fit first.")

    def _decode(self, X: Nights) -> list[Labels]:
        self._check_fitted()
        return [one.hypnogram.labels for one in decode(_nights(X), self.profile_, cohort=self.cohort)]


def _nights(X: Any) -> list[Any]:
    """Return the nights of a list."""
    is_list = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype == object)
    if not is_list or not len(X) or checks.n_dimensions(X[0]) not in (2, None):
        raise InputError(f"X is {checks.shown(X)}, expected a list of nights: arrays (n_epochs, n_stages).")
    return list(X)


def _labels_of(y: Any, scheme: StageScheme, n_nights: int) -> tuple[list[Labels], bool]:
    """Return labels per night, and whether they came as names."""
    if not isinstance(y, list | tuple | np.ndarray) or len(y) != n_nights:
        got = f"has {len(y)} nights" if isinstance(y, list | tuple | np.ndarray) else f"is {checks.shown(y)}"
        raise InputError(f"y {got}, expected the stages of each of the {n_nights} nights in X.")
    listed = [
        night.merge(scheme).labels if isinstance(night, Hypnogram) else np.asarray(night) for night in y
    ]
    if not any(stages.dtype.kind in "UO" for stages in listed):
        return listed, False
    label_of = {
        name: scheme.index(str(name)) for own in listed for name in set(own.tolist()) - {UNSCORED_NAME}
    }
    return [
        np.array([label_of.get(name, UNSCORED) for name in own.tolist()], dtype=np.int8) for own in listed
    ], True
