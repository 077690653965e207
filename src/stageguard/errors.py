"""The errors and the one warning this package raises, and the messages they carry.

Each error is also the builtin a caller would expect, and its message is one line:
what was got, what was expected, what to do. A `Message` keeps arguments and numbers of nights as separate
parts, so that the command line can replace them with options and file names.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that a message names: ``logits=True`` in Python, ``--logits`` on the command line."""

    name: str
    value: object = None  # the value to pass; None where the message only names the argument
    python: str | None = None  # instead of ``name=value``, such as ``density.merge(scheme)``

    def __str__(self) -> str:
        """Return what to write in Python."""
        if self.python is not None:
            return self.python
        if self.value is None:
            return self.name
        return f"{self.name}={self.value:g}" if type(self.value) is float else f"{self.name}={self.value!r}"


@dataclass(frozen=True, slots=True)
class NightNumber:
    """One of several nights in a call, counted from 1, as in ``night 3``."""

    number: int
    python: str | None = None

    def __str__(self) -> str:
        """Return the night's name in a message that has no better one."""
        return self.python or f"night {self.number}"


FIRST_NIGHT = NightNumber(1, "the first one")


def both_nights(one: int, other: int) -> Message:
    """Return ``nights 0 and 10`` for two indices of nights; the command line shows their names instead."""
    numbers = (NightNumber(index + 1, str(index)) for index in (one, other))
    return Message("nights ", next(numbers), " and ", next(numbers))


@dataclass(frozen=True, slots=True)
class RowNumber:
    """A row of an array of epochs, counted from 0, as in ``row 3``."""

    number: int

    def __str__(self) -> str:
        """Return how a message names the row."""
        return f"row {self.number}"

    def for_people(self) -> str:
        """Return its name counted from 1."""
        return f"row {self.number + 1}"


@dataclass(frozen=True, slots=True)
class EpochNumber:
    """An epoch: its index from 0 in Python; on the command line and on pages, where people count, from 1."""

    index: int

    def __str__(self) -> str:
        """Return the index."""
        return str(self.index)

    def for_people(self) -> str:
        """Return the number from 1."""
        return str(self.index + 1)


class Message(str):
    """Text made of parts, such as an `Argument` or the number of a night, row or epoch; ``+`` keeps them."""

    parts: tuple[object, ...]

    def __new__(cls, *parts: object) -> Message:
        """Return the parts as one text."""
        flat = [p for part in parts for p in (part.parts if isinstance(part, Message) else (part,))]
        made = super().__new__(cls, "".join(map(str, flat)))
        made.parts = tuple(flat)
        return made

    def __add__(self, other: str) -> Message:
        """Return a longer message."""
        return Message(self, other)

    def __radd__(self, other: str) -> Message:
        """Return a longer message."""
        return Message(other, self)

    def replace_parts(self, say: Callable[[object], object]) -> Message:
        """Return the message with each part replaced by what `say` returns for it."""
        return Message(*(say(part) for part in self.parts))

    def names(self, argument: str) -> bool:
        """Whether the message names an argument."""
        return any(isinstance(part, Argument) and part.name == argument for part in self.parts)


def for_people(text: object) -> str:
    """Return a message with its epochs and rows counted from 1."""
    return "".join(
        part.for_people() if isinstance(part, EpochNumber | RowNumber) else str(part)
        for part in message_of(text).parts
    )


OVERWRITE = Message("Use ", Argument("overwrite", True))


def message_of(error: object) -> Message:
    """Return the message of an error or a warning, with its parts."""
    arguments: tuple[object, ...] = getattr(error, "args", ())
    first = arguments[0] if len(arguments) == 1 else None
    if isinstance(first, Message):
        return first
    return error if isinstance(error, Message) else Message(str(error))


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


def error_message(error: object, file: str | os.PathLike[str] | None = None) -> Message:
    """Return the message of an error as one line that begins with the file it is about."""
    if isinstance(error, OSError) and error.strerror:  # our own errors carry no strerror
        about = f"{error.filename}: " if error.filename is not None else ""
        message = Message(f"{about}{error.strerror}")
    else:
        message = message_of(error)
    name = "" if file is None else Path(str(file)).name
    is_named = name in ("", "..")  # a folder such as "." is named by its error
    if not is_named and not re.match(rf"(\S*[/\\])?{re.escape(name)}:", message):
        message = Message(f"{name}: ", message)
    return message
