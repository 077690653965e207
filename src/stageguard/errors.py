"""The errors and the one warning this package raises; each error is also the builtin a caller would expect.

A message is one line: what was found, and what was expected.

StageGuardError
  ProfileError, InputError (NoInputError, PinError), CohortError, FileFormatError     ValueError
  MissingFileError                                                                     FileNotFoundError
  OutputError (OutputExistsError)                                                      OSError
  MissingExtraError                                                                    ImportError
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

_SPACES = "\xa0\u2009\u202f"  # not printable by Python's rule, and harmless


def visible(text: str) -> str:
    """Return a text with escapes for line breaks and for characters that a terminal obeys or hides.

    Names and contents of files may hold any characters; everything that is shown passes through here.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _SPACES else ascii(c)[1:-1] for c in text)


# whose lines a warning does not point to: libraries that call a network, an estimator or a function of ours
NOT_THE_CALLER = ("stageguard", "torch", "sklearn", "joblib", "pydantic", "importlib")


class StageGuardError(Exception):
    """Base of every error raised on purpose by this package."""

    def __str__(self) -> str:
        """Return the message on one line, whatever characters a file's name in it has."""
        return visible(super().__str__())


class ProfileError(StageGuardError, ValueError):
    """A profile, or its file, is wrong."""


class InputError(StageGuardError, ValueError):
    """An array or an option is wrong."""


class NoInputError(InputError):
    """A command names neither a file nor a sample list, which is wrong usage."""


class PinError(InputError):
    """A pinned epoch is out of range, or pins contradict one another under the profile."""

    pins: tuple[tuple[int, str], ...] = ()  # epochs and stages that cannot hold together, in order of time


class CohortError(StageGuardError, ValueError):
    """The profile refuses this cohort."""


class FileFormatError(StageGuardError, ValueError):
    """A file is not what its name says."""

    reason: str = ""  # what is wrong, without the file's name; set by `files.file_error`
    # a case that callers may handle separately: "ambiguous-format" if several formats fit, "no-stages" if a
    # file that may hold stages has none, "names-no-stages" if no column of a table is named after a stage,
    # "labels-alone" if it holds stages where probabilities are expected
    code: str = ""


class MissingFileError(StageGuardError, FileNotFoundError):
    """A file that should be read does not exist."""


class OutputError(StageGuardError, OSError):
    """An output could not be written."""


class OutputExistsError(OutputError, FileExistsError):
    """An output exists already and may not be replaced."""


class MissingExtraError(StageGuardError, ImportError):
    """An optional library that this needs is not installed."""


class StageGuardWarning(UserWarning):
    """Something legal that deserves a second look."""

    def __str__(self) -> str:
        """Return the message on one line."""
        return visible(super().__str__())


class InstallationWarning(StageGuardWarning):
    """Something about what is installed, and not about the night or file at hand."""


def warn(message: str, kind: type[StageGuardWarning] = StageGuardWarning) -> None:
    """Warn at the nearest line outside this package, and outside libraries that call it for the user."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in NOT_THE_CALLER:
        frame = frame.f_back
    module, shown = frame.f_globals.get("__name__"), frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(kind(message), None, frame.f_code.co_filename, frame.f_lineno, module, shown)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return ``" Did you mean 'N3'?"`` for the option nearest to a misspelt word, or ``""``.

    The comparison ignores case. The leading space lets the result end any sentence.
    """
    from difflib import get_close_matches  # loaded for misspelt words only

    by_lower_case = {option.lower(): option for option in options}
    nearest = get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    return f" Did you mean {by_lower_case[nearest[0]]!r}?" if nearest else ""


def fault_text(error: Exception) -> str:
    """Return type and text of an error that is not this package's, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}".removesuffix(": ")


def record_fault(error: Exception) -> str:
    """Return what is wrong with a record of this package that was cut or edited, in brackets."""
    if isinstance(error, KeyError) and error.args:
        reason = f"it has no {error.args[0]!r:.60}"
    elif isinstance(error, TypeError | AttributeError):  # their texts are about Python
        reason = "a value is of another kind than expected"
    else:
        reason = " ".join(str(error).split())[:120]
    return f"is incomplete or was edited ({reason})."


def error_message(error: object, file: str | os.PathLike[str] | None = None) -> str:
    """Return the message of an error as one line that begins with the file it is about."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:  # our own errors carry no strerror
        message = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    name = "" if file is None else Path(str(file)).name
    is_named = name in ("", "..")  # a folder such as "." is named by its error
    if not is_named and not re.match(rf"(\S*[/\\])?{re.escape(name)}:", message):
        message = f"{name}: {message}"
    return message
