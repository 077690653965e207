"""`stageguard stream`: rows in while the recording runs, stages out."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from click import UsageError

from stageguard.arrays import Floats
from stageguard.checks import MISSING_WORDS
from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.terminal import count, one_line, print_warning
from stageguard.errors import InputError, OutputError, StageGuardError, StageGuardWarning
from stageguard.files import checked_file, read_file, write_together
from stageguard.guard.stream import StreamingDecoder
from stageguard.profile.parts import STREAMED
from stageguard.profile.profile import Profile
from stageguard.runner.stopping import STOPS, Stopped

LONGEST_LINE = 65_536  # bytes: an epoch has a handful of numbers
DELIMITERS = (";", "\t", ",")
QUALITY = "quality"
_SECONDS_BETWEEN_WRITES = 10.0  # after a kill, rows since the last write have to be fed again
_MOST_ROWS_SINCE = 1000  # rows kept in memory to repeat after a failed write
_SIGNALS = (*STOPS, *([signal.SIGALRM] if hasattr(signal, "SIGALRM") else []))


@command
@opt.profile
@option(
    "--transition-weight",
    metavar="NUMBER",
    type=opt.Number(min=0.0),
    help="Strength of the whole recording. Default: the profile's own or, if a rule sets it per night, its "
    "weight for streams.",
)
@option(
    "--flickers",
    is_flag=True,
    help="The stager flickers, as those do that see one epoch at a time: take the profile's weight for them.",
)
@option(
    "--state",
    metavar="FILE",
    type=opt.HERE,
    help="Go on from it if it exists; the state is kept in it.",
)
@option("--finish", is_flag=True, help="With --state: the recording ends with this input.")
@opt.stages
@opt.epoch_seconds
@opt.logits
@opt.log
@option(
    "--max-lag-seconds",
    metavar="SECONDS",
    type=opt.Number(min=0.0),
    help="Longest wait for a stage. Default: no limit.",
)
@opt.cohort
@opt.stager
def stream(
    profile: str,
    transition_weight: float | None,
    flickers: bool,
    state: Path | None,
    finish: bool,
    stages: str | None,
    epoch_seconds: float | None,
    logits: bool,
    log: bool,
    max_lag_seconds: float | None,
    cohort: str | None,
    stager: str | None,
) -> None:
    """Decode while the recording runs: a row of probabilities per epoch on stdin, stages on stdout.

    Prints a line per epoch, its number from 0 and its stage, as soon as the stage is certain or the lag
    limit is reached. A header may name the columns. A row of NaN means no evidence. A column "quality" says
    how much of the epoch's signal is lost, 0 to 1. The transition weight, and where it is from, are said on
    stderr.

    Examples
    --------
    stageguard stream --profile human-psg-5 --max-lag-seconds 120 < rows.txt
    """
    opt.refuse_two_scales(logits=logits, log=log)
    if finish and state is None:
        raise UsageError("--finish goes with --state: without one, the end of input is the end.")
    if flickers and transition_weight is not None:
        raise UsageError("--flickers and --transition-weight both set the strength. Give one of them.")
    loaded = Profile.load(profile)
    if transition_weight is not None:
        loaded = loaded.replace(transition_weight=transition_weight)
    if flickers:
        loaded = loaded.for_streaming(flickers=True)
        _say(f"transition weight {loaded.transition_weight:g} throughout, the profile's for {STREAMED[True]}")
    new_decoder = partial(
        StreamingDecoder,
        loaded,
        max_lag_seconds=max_lag_seconds,
        epoch_seconds=epoch_seconds,
        cohort=cohort,
        stager=stager,
        logits=logits,
        log=log,
    )
    run = Run(new_decoder, opt.column_names(stages), state, finish=finish)
    try:
        run.feed(sys.stdin.buffer)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to say at exit
        kept = f" The state is kept in {state}: {run.standing()}. Go on with the row after those taken in."
        raise OutputError(f"whoever read the stages has gone.{'' if state is None else kept}") from None


def _print_stage(epoch: int, stage: str) -> None:
    print(f"{epoch + 1}\t{stage}", flush=True)


def _say(text: str) -> None:
    print(f"stageguard: {one_line(text)}", file=sys.stderr, flush=True)


class Run:
    """A stream in progress: its decoder, once the columns are known, and the state to go on from."""

    def __init__(
        self,
        new_decoder: Callable[..., StreamingDecoder],
        stages: tuple[str, ...] | None = None,
        state: Path | None = None,
        *,
        finish: bool = False,
        emit: Callable[[int, str], None] = _print_stage,
    ) -> None:
        self._new_decoder, self._stages, self._state = new_decoder, stages, state
        self._finish, self._emit = finish, emit
        self._decoder: StreamingDecoder | None = None
        self._header: Header | None = None
        # the last state whose stages were all printed, and the rows since: a failed write goes back to them
        self._taken = b""
        self._since: list[tuple[Floats, float | None]] = []
        self._written = time.monotonic()
        self._has_alarm = False
        if state is not None and _is_kept(state):
            self._decoder = self._restored(state)
            _say(f"goes on from {state}: {self.standing()}")
        else:
            self._make(stages)  # a profile that cannot stream is refused before any row

    def feed(self, stream: BinaryIO) -> None:
        """Read all rows, then end the recording, or keep its state if there is a file for it.

        A bad row or Ctrl-C ends it, too: the rows read until then are kept in the state, or their stages are
        printed. An input without rows is refused, unless it continues a recording.
        """
        try:
            with self._saving_while_waiting():
                for number, cells in lines_of(stream):
                    with _undisturbed():
                        self._take(number, cells)
        except StageGuardError as error:
            kept = self._close(ended=False)
            raise InputError(str(error) + f" {kept}") from None
        except OSError:  # the reader has closed the pipe: the next run prints the stages it did not read
            self._keep()
            raise
        except Stopped as stopped:
            stopped.done = self._close(ended=False).rstrip(".")
            raise
        if self._decoder is None or not self._decoder.n_epochs:
            raise InputError("the input holds no epoch, expected a row of probabilities for each.")
        self._close(ended=True)

    def standing(self) -> str:
        """Return how many epochs were read and how many printed."""
        decoder = self._decoder
        n_in, n_out = (0, 0) if decoder is None else (decoder.n_epochs, decoder.n_committed)
        return f"{count(n_in, 'epoch')} in, {n_out:,} out"

    def _take(self, number: int, cells: Sequence[str]) -> None:
        if self._header is None:
            has_names = any(_number(cell) is None for cell in cells)
            self._begin(cells if has_names else None, number)
            if has_names:
                return
        assert self._decoder is not None and self._header is not None
        row, quality = self._header.read_row(number, cells)
        first = self._decoder.n_committed
        try:
            stages = self._decoder.push(row, quality)
        except InputError as error:
            raise InputError(f"line {number}: " + str(error)) from None
        self._give_out(first, stages)
        if self._state is not None:
            self._since.append((row, quality))
            self._save_now_and_then()

    def _give_out(self, first: int, stages: Sequence[str]) -> None:
        """Print stages; if that fails, forget the row, which has to be fed again."""
        try:
            for epoch, stage in enumerate(stages, start=first):
                self._emit(epoch, stage)
        except OSError:
            if self._state is not None:
                self._decoder = _restored_quietly(self._taken)
                for row, quality in self._since:
                    self._decoder.push(row, quality)
            raise

    def _save_now_and_then(self) -> None:
        is_due = time.monotonic() - self._written >= _SECONDS_BETWEEN_WRITES
        if is_due or len(self._since) >= _MOST_ROWS_SINCE:
            self._mark_taken()
        if is_due:
            self._keep()
        elif self._has_alarm:
            signal.setitimer(signal.ITIMER_REAL, _SECONDS_BETWEEN_WRITES)

    @contextlib.contextmanager
    def _saving_while_waiting(self) -> Iterator[None]:
        """Save the state by an alarm, too, since the next row may take long to come."""
        if self._state is None or not hasattr(signal, "setitimer"):
            yield
            return

        def save(*_: object) -> None:
            with _undisturbed():
                self._mark_taken()
                self._keep()

        before = signal.signal(signal.SIGALRM, save)
        self._has_alarm = True
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
            self._has_alarm = False

    def _mark_taken(self) -> None:
        assert self._decoder is not None
        self._taken, self._since = self._decoder.snapshot(), []

    def _begin(self, names: Sequence[str] | None, number: int) -> None:
        """Get the columns from the header or from --stages, and make the decoder."""
        if names is not None and self._stages is not None:
            raise InputError(
                f"line {number} names the columns ({', '.join(names)[:80]}), and --stages does too. "
                "Leave one of them out."
            )
        header = None if names is None else Header.of(names)
        stages = self._stages if header is None else header.stages
        decoder = self._decoder
        if decoder is None:
            decoder = self._make(stages, loud=True)
            for assumed in decoder.assumed:
                _say(f"assumed: {assumed}")
        names = decoder.profile.scheme.names
        began, now = decoder.stages or names, stages or names
        if self._decoder is not None and tuple(now) != tuple(began):
            raise InputError(
                f"the columns are {', '.join(now)}, and the recording began with {', '.join(began)}. "
                "Give the same."
            )
        self._decoder, self._header = decoder, header or Header.of(now)
        if self._state is not None:
            self._mark_taken()

    def _close(self, *, ended: bool) -> str:
        """Print the remaining stages, or keep the state; return a sentence on what was done."""
        decoder = self._decoder
        if decoder is None:
            return "Nothing was taken in."
        self._keep()  # in case printing the rest fails
        if self._state is not None:
            if not (ended and self._finish):
                return f"The state is kept in {self._state}: {self.standing()}."
            self._mark_taken()
        standing, first = f"{count(decoder.n_epochs, 'epoch')} in", decoder.n_committed
        self._give_out(first, decoder.finish())
        if self._state is not None:
            self._state.unlink(missing_ok=True)
        return f"The recording ends there: {standing}, all given out."

    def _keep(self) -> None:
        if self._state is not None and self._decoder is not None:
            write_together({self._state: self._decoder.snapshot()}, overwrite=True)
            self._written = time.monotonic()

    def _make(self, stages: Sequence[str] | None, *, loud: bool = False) -> StreamingDecoder:
        """Return a new decoder; its warnings are printed only if `loud`."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", StageGuardWarning)
            decoder = self._new_decoder(stages=stages)
        for warning in caught if loud else ():
            print_warning(warning.message)
        return decoder

    def _restored(self, path: Path) -> StreamingDecoder:
        """Return the decoder in a state file; refuse one that was made with other options."""
        try:
            decoder = _restored_quietly(read_file(path))
        except StageGuardError as error:
            raise InputError(f"{path}: " + str(error)) from None
        requested = self._make(self._stages if self._stages is not None else decoder.stages)
        for name, kept, wanted in (
            ("profile", decoder.profile.name, requested.profile.name),
            ("profile's SHA-256", decoder.profile.sha256[:12], requested.profile.sha256[:12]),
            ("lag limit", decoder.max_lag_seconds, requested.max_lag_seconds),
            ("epoch length", decoder.epoch_seconds, requested.epoch_seconds),
            ("kind of numbers", decoder.scale, requested.scale),
        ):
            if kept != wanted:
                raise InputError(
                    f"{path}: its recording has {name} {kept}, and {wanted} is asked for. Ask for the same, "
                    "or name another --state for a new recording."
                )
        return decoder


def _restored_quietly(snapshot: bytes) -> StreamingDecoder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)  # printed when the recording began
        return StreamingDecoder.restore(snapshot)


def _is_kept(path: Path) -> bool:
    """Whether a state file exists; refuse a path that cannot be written, before any row is read."""
    try:
        checked_file(path)
    except FileNotFoundError:
        if not os.access(path.parent, os.W_OK):
            problem = "cannot be written to" if path.parent.is_dir() else "is no folder"
            raise OutputError(
                f"cannot write {path}: {path.parent} {problem}. Choose a folder you can write to."
            ) from None
        return False
    return True


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay signals, so that an epoch is read and its stages printed, or neither."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True, slots=True)
class Header:
    """The names of the columns, and the index of the quality."""

    names: tuple[str, ...]
    quality: int | None

    @classmethod
    def of(cls, names: Sequence[str]) -> Header:
        """Return a header; all columns but `quality` are stages."""
        others = [i for i, name in enumerate(names) if name.casefold() == QUALITY]
        if len(others) > 1:
            raise InputError(f"the header has {len(others)} columns {QUALITY!r}, expected one at most.")
        return cls(tuple(names), others[0] if others else None)

    @property
    def stages(self) -> tuple[str, ...]:
        """The columns other than the quality."""
        return tuple(name for i, name in enumerate(self.names) if i != self.quality)

    def read_row(self, number: int, cells: Sequence[str]) -> tuple[Floats, float | None]:
        """Return a line's numbers, NaN where missing, and its quality."""
        if len(cells) != len(self.names):
            names = (QUALITY if i == self.quality else name for i, name in enumerate(self.names))
            raise InputError(
                f"line {number} has {len(cells)} cells, expected {len(self.names)}: {', '.join(names)}."
            )
        values = []
        for cell in cells:
            value = _number(cell)
            if value is None:
                raise InputError(
                    f"line {number} holds {cell[:40]!r}, expected a number, or NaN throughout for no "
                    "evidence."
                )
            values.append(value)
        quality = None if self.quality is None else values.pop(self.quality)
        row = np.array(values)
        return row, None if np.isnan(row).all() else quality


def lines_of(stream: BinaryIO) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the number, counted from 1, and the cells of each line as it comes in; skip empty lines."""
    number, delimiter = 0, None
    while data := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(data) > LONGEST_LINE:
            raise InputError(
                f"line {number} is longer than {LONGEST_LINE:,} bytes, expected one epoch's probabilities. "
                "End each epoch with a line break."
            )
        try:
            text = data.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n\0")
        except UnicodeDecodeError:
            raise InputError(f"line {number} is not text, expected numbers such as 0.7,0.2,0.1.") from None
        if not text.strip():
            continue
        if delimiter is None:
            delimiter = next((mark for mark in DELIMITERS if mark in text), " ")
        cells = text.split() if delimiter == " " else text.split(delimiter)
        decimal = "." if delimiter == "," else ","
        yield number, tuple(cell.strip().strip('"').replace(decimal, ".") for cell in cells)


def _number(cell: str) -> float | None:
    if cell.casefold() in MISSING_WORDS:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None
