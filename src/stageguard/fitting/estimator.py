"""`SemiMarkovDecoder`: fitting and decoding with scikit-learn's manners; scikit-learn itself is optional."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Hashable, Sequence
from importlib import import_module
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base import checks
from stageguard.base.arrays import Labels
from stageguard.base.errors import InputError, StageGuardWarning, did_you_mean
from stageguard.fitting.endpoints import Kind
from stageguard.fitting.fit import fit_report
from stageguard.fitting.report import FitReport
from stageguard.guard.decode import decode
from stageguard.guard.posterior import posterior
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.stages import UNSCORED_NAME, StageScheme
from stageguard.profile.profile import Profile, as_profile

Nights = Sequence[npt.ArrayLike | Hypnodensity] | npt.ArrayLike


class SemiMarkovDecoder:
    """Guard a stager's probabilities by a profile that is fitted to scored nights.

    Nights are a list of arrays (n_epochs, n_stages), columns in the profile's stage order; or one array of
    all of them below each other, with their `lengths`. Without lengths, an array with `groups` per epoch is
    cut where the group changes, and one without is a single night.

    scikit-learn hands `groups` on to `predict` and `score` only where its metadata routing is switched on;
    they are asked for then. Where it is off, cross-validate on a list of nights.

    Parameters
    ----------
    profile : Profile or str
        Where to start from.
    cohort : str, optional
        Whom the nights are of.
    keep_accuracy, fragmentation_weight, statistics_weight, statistics, n_folds, seed
        As in `stageguard.fit`.

    Attributes
    ----------
    profile_ : Profile
        The fitted profile.
    report_ : FitReport
        How it was chosen.
    classes_ : array (n_stages,)
        The stages as `y` had them: whole numbers or names.
    n_features_in_ : int
        Number of columns.
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        profile: Profile | str = "human-psg-5",
        *,
        cohort: str | None = None,
        keep_accuracy: bool = False,
        fragmentation_weight: float = 2.0,
        statistics_weight: float = 0.3,
        statistics: Kind | None = None,
        n_folds: int = 5,
        seed: int = 0,
    ) -> None:
        self.profile = profile
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
    _n_joined: int  # nights that came to fit in one array

    def fit(
        self,
        X: Nights,
        y: Any,
        groups: Sequence[Hashable] | None = None,
        *,
        lengths: Sequence[int] | None = None,
    ) -> SemiMarkovDecoder:
        """Fit a profile to nights and their experts' stages.

        Parameters
        ----------
        X : list of arrays, or array (n_epochs, n_stages)
            The stager's probabilities.
        y : list of arrays, or array (n_epochs,)
            Stages as indices in the scheme, -1 unscored, or as names, "?" unscored.
        groups : sequence, optional
            The subject of each night, or of each epoch of one array.
        lengths : sequence of int, optional
            Epochs of each night in one array.
        """
        options = self.get_params()
        base = options.pop("profile")
        base = as_profile(base)
        nights, cuts = _nights_of(X, lengths, groups)
        labels, names = _labels_of(y, cuts, base.scheme, len(nights))
        groups = _groups_of(groups, cuts, len(nights))
        report = fit_report(nights, labels, base=base, groups=groups, learning_curve=False, **options)
        self.profile_, self.report_ = report.profile, report
        self._n_joined = 0 if cuts is None else len(nights)
        self.classes_ = np.array(base.scheme.names) if names else np.arange(base.scheme.n_stages)
        self.n_features_in_ = base.scheme.n_stages
        return self

    def predict(
        self, X: Nights, *, lengths: Sequence[int] | None = None, groups: Sequence[Hashable] | None = None
    ) -> Any:
        """Return the decoded stages, in the words of `y`: a list of arrays, or one array for one.

        `lengths`, or `groups` per epoch, say where one array of several nights is to be cut.
        """
        nights, cuts = self._nights(X, lengths, groups)
        decoded = self._decode(nights)
        if self.classes_.dtype.kind == "U":
            names = np.array([*self.classes_, UNSCORED_NAME])
            return _joined([names[labels] for labels in decoded], cuts)
        return _joined([labels.astype(np.int64) for labels in decoded], cuts)

    def predict_proba(
        self, X: Nights, *, lengths: Sequence[int] | None = None, groups: Sequence[Hashable] | None = None
    ) -> Any:
        """Return the probability of each stage at each epoch, given the whole night and the profile."""
        nights, cuts = self._nights(X, lengths, groups)
        posteriors = posterior(nights, self.profile_, cohort=self.cohort)
        return _joined([density.probabilities for density in posteriors], cuts)

    def score(
        self,
        X: Nights,
        y: Any,
        *,
        lengths: Sequence[int] | None = None,
        groups: Sequence[Hashable] | None = None,
    ) -> float:
        """Return the accuracy over the epochs that an expert scored."""
        nights, cuts = self._nights(X, lengths, groups)
        truth, _ = _labels_of(y, cuts, self.profile_.scheme, len(nights))
        n_right = n_scored = 0
        for i, (a, b) in enumerate(zip(truth, self._decode(nights), strict=True)):
            if len(a) != len(b):
                raise InputError(f"y has {len(a)} epochs and X {len(b)} in night {i}, expected the same.")
            n_right += int(np.count_nonzero((a == b) & (a >= 0)))
            n_scored += int(np.count_nonzero(a >= 0))
        return n_right / n_scored if n_scored else float("nan")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor."""
        return {name: getattr(self, name) for name in _parameters()}

    def set_params(self, **params: Any) -> SemiMarkovDecoder:
        """Set parameters of the constructor."""
        known = _parameters()
        for name, value in params.items():
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"unknown parameter {name!r}, expected one of {', '.join(known)}.{hint}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the parameters that differ from their defaults."""
        defaults = _parameters()
        said = {name: value for name, value in self.get_params().items() if value != defaults[name]}
        return f"SemiMarkovDecoder({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` was called."""
        return hasattr(self, "profile_")

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks about an estimator.

        Rows are no samples of their own but epochs that follow each other, so that it is not tested as one
        that takes any table.
        """
        utils = import_module("sklearn.utils")
        return utils.Tags(
            estimator_type="classifier",
            target_tags=utils.TargetTags(required=True),
            transformer_tags=None,
            classifier_tags=utils.ClassifierTags(),
            regressor_tags=None,
            input_tags=utils.InputTags(two_d_array=False, positive_only=True, allow_nan=True),
        )

    def get_metadata_routing(self) -> Any:
        """Return what scikit-learn's metadata routing is to hand on: groups, to every method."""
        request = import_module("sklearn.utils.metadata_routing").MetadataRequest(owner=self)
        for method in ("fit", "predict", "predict_proba", "score"):
            getattr(request, method).add_request(param="groups", alias=True)
        return request

    def _nights(
        self, X: Any, lengths: Sequence[int] | None, groups: Sequence[Hashable] | None
    ) -> tuple[list[Any], list[int] | None]:
        """Return nights to decode, and where they were cut; warn of an array that may be several."""
        if not self.__sklearn_is_fitted__():
            raise _not_fitted_error()(
                "this SemiMarkovDecoder is not fitted yet, expected a call of fit first. "
                "To decode under a profile as it is, use stageguard.decode."
            )
        nights, cuts = _nights_of(X, lengths, groups)
        n_wanted = len(nights) if cuts is None else cuts[-1]
        if groups is not None and len(groups) not in (n_wanted, len(nights)):
            each = "night" if cuts is None else "epoch"
            raise InputError(f"groups: got {len(groups)} of them, expected one per {each}: {n_wanted}.")
        if cuts is not None and lengths is None and groups is None and self._n_joined > 1:
            warnings.warn(
                f"an array of {n_wanted} epochs without lengths or groups is decoded as one night, and fit "
                f"was given one array of {self._n_joined}. Give lengths, lengths=[{n_wanted}] if it is one, "
                "or groups, which scikit-learn hands on with metadata routing only, or a list of nights.",
                StageGuardWarning,
                stacklevel=3,
            )
        return nights, cuts

    def _decode(self, nights: list[Any]) -> list[Labels]:
        return [result.hypnogram.labels for result in decode(nights, self.profile_, cohort=self.cohort)]


def _not_fitted_error() -> type[Exception]:
    """Return the error of a missing fit: scikit-learn's own as well, where that is loaded."""
    if "sklearn" not in sys.modules:
        return InputError
    known: type[Exception] = import_module("sklearn.exceptions").NotFittedError
    return type("NotFittedError", (InputError, known), {})


def _parameters() -> dict[str, Any]:
    signature = inspect.signature(SemiMarkovDecoder.__init__)
    return {name: parameter.default for name, parameter in signature.parameters.items() if name != "self"}


def _nights_of(
    X: Any, lengths: Sequence[int] | None, groups: Sequence[Hashable] | None
) -> tuple[list[Any], list[int] | None]:
    """Return nights, and where they were cut if they came as one array."""
    if isinstance(X, list | tuple) and X and checks.n_dimensions(X[0]) in (2, None):
        if lengths is not None:
            raise InputError("lengths are given, but X is a list of nights already. Leave them out.")
        return list(X), None
    matrix = np.asarray(checks.array_of(X, "X", "read_density"))
    if matrix.ndim == 1 and matrix.dtype == object and len(matrix):
        return _nights_of(list(matrix), lengths, groups)
    if matrix.ndim == 3:
        return list(matrix), None
    if matrix.ndim != 2:
        raise InputError(
            f"X has shape {matrix.shape}, expected (n_epochs, n_stages) or a list of such arrays."
        )
    if lengths is None and groups is not None and len(groups) == len(matrix):
        lengths = [len(list(run)) for _, run in groupby(groups)]
    if lengths is None:
        return [matrix], [0, len(matrix)]
    numbers = np.asarray(lengths)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or np.any(numbers != np.floor(numbers)):
        raise InputError(f"lengths are {checks.shown(lengths)}, expected a whole number of epochs per night.")
    edges = np.concatenate([[0], np.cumsum(numbers)]).astype(int)
    if edges[-1] != len(matrix) or np.any(np.diff(edges) < 1):
        raise InputError(
            f"lengths sum to {edges[-1]}, but X has {len(matrix)} epochs, expected one above 0 per night."
        )
    return [matrix[start:stop] for start, stop in pairwise(edges)], edges.tolist()


def _groups_of(groups: Any, cuts: list[int] | None, n_nights: int) -> list[Hashable] | None:
    """Return a group per night; those of one array may come per epoch."""
    if groups is None:
        return None
    listed = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if cuts is None or len(listed) != cuts[-1] or len(listed) == n_nights:
        return listed
    for start, stop in pairwise(cuts):
        if len(set(listed[start:stop])) > 1:
            raise InputError(
                f"groups change within the night of epochs {start} to {stop - 1}, expected one per night."
            )
    return [listed[start] for start in cuts[:-1]]


def _labels_of(
    y: Any, cuts: list[int] | None, scheme: StageScheme, n_nights: int
) -> tuple[list[Labels], bool]:
    """Return labels per night, and whether they came as names."""
    if y is None:
        raise InputError("y is missing, expected the experts' stages of every night.")
    if cuts is not None:
        flat = np.asarray(checks.array_of(y, "y", "read_hypnogram"))
        if flat.ndim != 1 or len(flat) != cuts[-1]:
            raise InputError(f"y has shape {flat.shape}, expected one stage per epoch: ({cuts[-1]},).")
        listed = [flat[start:stop] for start, stop in pairwise(cuts)]
    else:
        if not isinstance(y, list | tuple | np.ndarray):
            raise InputError(f"y is {checks.shown(y)}, expected a list of every night's stages.")
        listed = [np.asarray(checks.array_of(night, "y", "read_hypnogram")) for night in y]
        if len(listed) != n_nights:
            raise InputError(f"y has {len(listed)} nights and X {n_nights}, expected the same.")
    names = any(stages.dtype.kind in "UO" for stages in listed)
    return [_numbers(stages, scheme) if names else stages for stages in listed], names


def _numbers(stages: npt.NDArray[Any], scheme: StageScheme) -> Labels:
    known = {name: -1 if name == UNSCORED_NAME else scheme.index(str(name)) for name in set(stages.tolist())}
    return np.array([known[name] for name in stages.tolist()], dtype=np.int8)


def _joined(nights: list[npt.NDArray[Any]], cuts: list[int] | None) -> Any:
    return nights if cuts is None else np.concatenate(nights)
