"""Run a task on many files: outputs are claimed first, failures are outcomes, results come in order."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from unicodedata import normalize

from stageguard.errors import (
    InstallationWarning,
    OutputError,
    StageGuardError,
    StageGuardWarning,
    error_message,
    fault_text,
    visible,
    warn,
)
from stageguard.runner.stopping import raise_if_stopped
from stageguard.storage import is_folder, is_remote, refuse_lost_slash, store_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

LOGGER = logging.getLogger("stageguard.runner")
# without it, Python would print what fails on standard error if the user has set up no log
logging.getLogger("stageguard").addHandler(logging.NullHandler())

Value = TypeVar("Value")


class Task(Protocol):
    """Something to do with one file."""

    @property
    def file(self) -> str:
        """The file, or the dataset's name for the recording."""

    @property
    def id(self) -> str:
        """The name of the night."""

    @property
    def error(self) -> str | None:
        """Why the task cannot be done, if that is known beforehand."""


TaskType = TypeVar("TaskType", bound=Task)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Value]):
    """The outcome of one file: a value, or an error instead."""

    file: str
    id: str  # the name of its night
    value: Value | None = None
    error: str | None = None  # one line that begins with the file's name
    warnings: tuple[str, ...] = ()  # of this package
    seconds: float = 0.0
    is_in_table: bool = False  # whether the night is one of a table of many

    @property
    def ok(self) -> bool:
        """Whether the file did not fail."""
        return self.error is None

    @property
    def result(self) -> Value:
        """The value of a file that did not fail."""
        assert self.value is not None
        return self.value

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on how the file was read."""
        return tuple(getattr(self.value, "notes", ()))

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        head: dict[str, Any] = {"file": self.file, "id": self.id, "ok": self.ok}
        if self.error is not None:
            return head | {"error": self.error, "warnings": list(self.warnings)}
        value: dict[str, Any] = self.value.to_dict()  # type: ignore[union-attr]
        return head | value | {"warnings": list(self.warnings), "seconds": self.seconds}


def succeeded(outcomes: Iterable[Outcome[Value]]) -> list[Outcome[Value]]:
    """Return the outcomes of the files that did not fail."""
    return [outcome for outcome in outcomes if outcome.ok]


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Yield a list that holds this package's warnings once the block has ended, but for what is installed."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        yield messages
    for warning in caught:
        message = str(warning.message)
        if issubclass(warning.category, InstallationWarning):
            warn(message, InstallationWarning)  # not to the file that came first
        elif issubclass(warning.category, StageGuardWarning):
            messages.append(message)


def run_files(
    work: Callable[[TaskType], Value],
    tasks: Sequence[TaskType],
    *,
    output_of: Callable[[TaskType], Path] | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    fatal: tuple[type[Exception], ...] = (),
    singly: bool = False,
) -> Generator[Outcome[Value], None, None]:
    """Yield the outcome of each file, in order; a failure is an outcome, and the other files go on.

    `jobs` and `executor` are those of `run_all`, to which `singly` sends one task at a time, for tasks that
    take seconds or more. If several tasks claim one output, the first gets it and the others fail. An error
    of a `fatal` type ends the run.
    """
    claimed = {} if output_of is None else claim_outputs(tasks, output_of)
    problems = [task.error or claimed.get(number) for number, task in enumerate(tasks)]
    ready = [task for task, problem in zip(tasks, problems, strict=True) if problem is None]
    run = partial(attempt, work, fatal=fatal)
    LOGGER.info("%d files, %d of them refused at once", len(tasks), len(tasks) - len(ready))
    with ExitStack() as at_the_end:
        results: Iterator[Outcome[Value]] = map(run, ready)
        if ready and (executor is not None or (jobs != 1 and len(ready) > 1)):
            from stageguard.runner.pool import MOST_IN_CHUNK, run_all  # loads multiprocessing

            at_once = 1 if singly else MOST_IN_CHUNK
            elsewhere = run_all(run, ready, jobs, executor, at_once)
            results = at_the_end.enter_context(closing(elsewhere))
        for task, problem in zip(tasks, problems, strict=True):
            outcome: Outcome[Value] = (
                next(results) if problem is None else Outcome(task.file, task.id, error=f"{problem}")
            )
            log_outcome(outcome)
            yield replace(outcome, is_in_table=getattr(task, "table", None) is not None)
        next(results, None)  # run to the end, where the workers end by themselves instead of being ended


def log_outcome(outcome: Outcome[Any]) -> None:
    """Log a file, or a night of a table: failure or warnings as warnings, else that it is done."""
    name = visible(f"{outcome.file}, night {outcome.id}" if outcome.is_in_table else outcome.file)
    if outcome.error is not None:
        LOGGER.warning("failed: %s", visible(outcome.error))
    for message in outcome.warnings:
        LOGGER.warning("%s: %s", name, visible(message))
    if outcome.ok and outcome.is_in_table:
        LOGGER.info("%s done", name)
    elif outcome.ok:
        LOGGER.info("%s done in %.3f s", name, outcome.seconds)


def file_key(name: str) -> str:
    """Return a key that names share which are one file on some systems: by case, or by how é is written."""
    return normalize("NFC", normalize("NFC", name).casefold())


def claim_outputs(tasks: Sequence[TaskType], output_of: Callable[[TaskType], Path]) -> dict[int, str]:
    """Return an error, by number, for each task whose output an earlier task has claimed.

    Names that differ only in case, or in how they write accents, count as the same: on many systems they
    are one file.
    """
    owners: dict[str, int] = {}
    problems: dict[int, str] = {}
    for number, task in enumerate(tasks):
        if task.error is not None:
            continue
        owner = owners.setdefault(file_key(str(output_of(task).absolute())), number)
        if owner != number:
            problems[number] = (
                f"{Path(task.file).name}: has the same output as {tasks[owner].file}. Write it into "
                "another folder, or give each an id of its own in a sample list."
            )
    return problems


def check_folder(folder: Path | None) -> None:
    """Refuse a folder that cannot be written to, before hours of work."""
    if folder is None:
        return
    if is_remote(folder):
        if store_of(folder).is_web:
            raise OutputError(f"cannot write to {folder}: web addresses can only be read.")
        if folder.is_file():
            raise OutputError(f"cannot write to {folder}: it is a file, expected a folder.")
        return
    refuse_lost_slash(folder)
    existing = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not is_folder(existing):
        raise OutputError(f"cannot write to {folder}: {existing} is a file, expected a folder.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write to {folder}: no permission to write to {existing}.")


def attempt(
    work: Callable[[TaskType], Value],
    task: TaskType,
    *,
    place: str | None = None,
    fatal: tuple[type[Exception], ...] = (),
) -> Outcome[Value]:
    """Return the outcome of a task: its value and the warnings that it gave, or its error.

    `place` is what the error begins with, if not the file.
    """
    raise_if_stopped()
    began = time.perf_counter()
    value, problem = None, None
    with collect_warnings() as warned:
        try:
            value = work(task)
        except fatal:
            raise
        except Exception as error:
            problem = failure_message(error, place or task.file)
    messages = tuple(dict.fromkeys(warned))
    return Outcome(task.file, task.id, value, problem, messages, time.perf_counter() - began)


def failure_message(error: Exception, file: str | os.PathLike[str]) -> str:
    """Return one line for a file that failed, whatever the error, so that the other files go on.

    For an unexpected error, the line names its type. Running out of memory ends the run; so does any
    unexpected error if STAGEGUARD_DEBUG asks for its traceback.
    """
    if isinstance(error, StageGuardError | OSError):
        return error_message(error, file)
    if isinstance(error, MemoryError) or os.environ.get("STAGEGUARD_DEBUG"):
        raise error
    return error_message(f"failed with {fault_text(error)}. Is it damaged?", file)
