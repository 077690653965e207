"""The errors and the one warning this package raises. Holds no logic beyond spelling suggestions.

Each error is also the builtin a caller would expect, and its message is one line:
what was got, what was expected, what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class StageGuardError(Exception):
    """Base of every error raised on purpose by this package."""


class ProfileError(StageGuardError, ValueError):
    """A profile, or the file it was to come from, is wrong."""


class InputError(StageGuardError, ValueError):
    """An array or an option is wrong."""


class PinError(InputError):
    """A pinned epoch is out of range, or pins contradict one another under the profile."""


class CohortError(StageGuardError, ValueError):
    """The profile refuses the cohort it was to be applied to."""


class FileFormatError(StageGuardError, ValueError):
    """A file is not what its name says."""


class MissingFileError(StageGuardError, FileNotFoundError):
    """A file that was to be read is not there."""


class OutputError(StageGuardError, OSError):
    """An output could not be written."""


class OutputExistsError(OutputError, FileExistsError):
    """An output exists already and may not be replaced."""


class MissingExtraError(StageGuardError, ImportError):
    """An optional library is needed for this and is not installed."""


class StageGuardWarning(UserWarning):
    """Something legal that deserves a second look."""


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return ``" Did you mean 'N3'?"`` for the option nearest to a misspelt word, or ``""``.

    The comparison ignores case. The leading space lets the result end any sentence.
    """
    by_lower_case = {option.lower(): option for option in options}
    nearest = get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    return f" Did you mean {by_lower_case[nearest[0]]!r}?" if nearest else ""
