"""`stageguard stream`: rows in while the recording runs, stages out. Parses and prints only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stageguard.cli.options import Cohort, EpochSeconds, Log, Logits, ProfileName, Stages

MaxLag = Annotated[
    float | None,
    typer.Option(
        "--max-lag-seconds", min=0.0, metavar="SECONDS", help="Longest wait for a stage. Default: no limit."
    ),
]
Weight = Annotated[
    float | None,
    typer.Option(
        "--transition-weight",
        min=0.0,
        metavar="NUMBER",
        help="Strength, for profiles that set it per night: what decode chose on earlier nights.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Go on from it if it exists; the state is kept in it.",
    ),
]
Finish = Annotated[bool, typer.Option("--finish", help="With --state: the recording ends with this input.")]


def stream(
    profile: ProfileName,
    max_lag_seconds: MaxLag = None,
    transition_weight: Weight = None,
    state: State = None,
    finish: Finish = False,
    stages: Stages = None,
    epoch_seconds: EpochSeconds = None,
    cohort: Cohort = None,
    logits: Logits = False,
    log: Log = False,
) -> None:
    """Decode while the recording runs: a row of probabilities per epoch on stdin, stages on stdout.

    Prints a line per epoch, its number from 0 and its stage, as soon as the stage is certain or the lag
    limit is reached. A header may name the columns; NaN throughout means no evidence; a column "quality"
    says how far the epoch's signal is lost, 0 to 1.
    """
    import os
    import sys

    from stageguard.base.errors import OutputError
    from stageguard.cli.stream_run import Run, StreamOptions
    from stageguard.cli.terminal import one_line
    from stageguard.profile.profile import Profile

    if logits and log:
        raise typer.BadParameter("--logits and --log exclude each other: give the one the rows hold.")
    if finish and state is None:
        raise typer.BadParameter("--finish goes with --state: without one, the end of input is the end.")
    loaded = Profile.load(profile)
    if transition_weight is not None:
        loaded = loaded.replace(transition_weight=transition_weight)
    options = StreamOptions(
        profile=loaded,
        max_lag_seconds=max_lag_seconds,
        stages=None if stages is None else tuple(part.strip() for part in stages.split(",")),
        epoch_seconds=epoch_seconds,
        cohort=cohort,
        logits=logits,
        log=log,
        state=state,
        finish=finish,
    )

    def emit(epoch: int, stage: str) -> None:
        print(f"{epoch}\t{stage}", flush=True)

    def say(text: str) -> None:
        print(f"stageguard: {one_line(text)}", file=sys.stderr, flush=True)

    run = Run(options, emit, say)
    try:
        run.feed(sys.stdin.buffer)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to say at exit
        kept = (
            ""
            if state is None
            else (
                f" The state is kept in {state}: {run.standing()}. Go on with the row after those taken in."
            )
        )
        raise OutputError(f"whoever read the stages has gone.{kept}") from None
