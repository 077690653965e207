"""`stageguard review`: a page on this computer where a scorer reviews decoded nights."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from webbrowser import open_new_tab

import click
from click import UsageError
from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import command, more, option
from stageguard.cli.nights import find_reviewed, with_files
from stageguard.cli.terminal import Console, count, print_error
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.report.summary import shown
from stageguard.review.cohort import Cohort
from stageguard.review.dispute import Comparison
from stageguard.review.opening import ReviewRequest
from stageguard.review.review import ReviewSession
from stageguard.review.server import ReviewServer
from stageguard.review.targets import parse_targets
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.inputs import lights_of


@command
@click.argument(
    "nights",
    metavar="NIGHT",
    nargs=-1,
    type=opt.HERE,
    help="Probabilities with --profile, or .hypnogram.tsv files; folders, or a sample list.",
)
@opt.sample_list
@option("--profile", "-p", metavar="NAME", help="Needed for probabilities; an output records its own.")
@option("--edf", metavar="FILE|FOLDER", type=opt.HERE, help="The recordings, to see their signals.")
@more("--montage", "FILE", "Montages. Default: montage.toml beside it.", type=opt.HERE)
@option("--scoring", metavar="FILE|FOLDER", type=opt.HERE, help="An expert's scorings, to see beside them.")
@option("--scorer", metavar="NAME", help="Who reviews. Default: the name of this account.")
@option("--until", metavar="TARGETS", help="Review until these are right: tst=10,rem_latency=5 (minutes).")
@option("--blind", is_flag=True, help="Hide stager and guard until the night is scored.")
@option("--adjudicate", metavar="A,B", help="Decide where the reviews of two scorers differ.")
@opt.output("FILE|FOLDER", "Another place for the review.", opt.HERE)
@more("--port", "N", "Port on this computer; 0: any.", type=click.IntRange(0, 65535), default=0)
@more("--no-open", None, "Do not open a browser.")
@opt.lights
@opt.start
@opt.decoding
@opt.companions
@opt.scoring_format
def review(
    nights: tuple[Path, ...],
    samples: Path | None,
    profile: str | None,
    edf: Path | None,
    montage: Path | None,
    scoring: Path | None,
    scorer: str | None,
    until: str | None,
    blind: bool,
    adjudicate: str | None,
    output: Path | None,
    port: int,
    no_open: bool,
    lights: tuple[Moment | None, Moment | None],
    start: datetime | None,
    options: DecodeOptions,
    companions: opt.Companions,
    scoring_format: str | None,
) -> None:
    """Review nights in the browser; each decision is saved at once in NIGHT.SCORER.review.jsonl.

    Examples
    --------
    stageguard review night.csv --profile human-psg-5 --edf night.edf --scorer anna
    """
    between = None if adjudicate is None else _two_scorers(adjudicate)
    if between is not None and (blind or scoring is not None):
        raise UsageError("--adjudicate is blind already, and without --scoring. Leave these options out.")
    if adjudicate is not None and until is not None:
        raise UsageError("--adjudicate decides every difference, whatever --until says. Leave one out.")
    loaded = None if profile is None else Profile.load(profile)
    found = with_files(find_reviewed(nights, samples, loaded, options), edf, scoring)
    paths = [night.path for night in found.nights]
    options = companions.add_to(options, paths, loaded)
    if output is not None and output.suffix == ".jsonl" and len(paths) > 1:
        raise UsageError(f"--output is one file for {count(len(paths), 'night')}, expected a folder.")
    if output is not None and output.suffix and output.suffix != ".jsonl":
        raise UsageError(f"--output is {output.name!r}, expected a folder or the name of a .jsonl file.")
    asked = []
    for night in found.nights:
        by_list = lights_of(night, *lights) if night.is_listed else None
        off, on = lights if by_list is None else (by_list.off, by_list.on)
        between_lights = replace(options, lights_off=off, lights_on=on)
        since = night.start if start is None else start
        name = night.id if night.is_listed else None
        files = night.scoring, scoring_format, night.edf
        asked.append(ReviewRequest(night.path, loaded, between_lights, since, *files, name, night.error))
    session = ReviewSession(
        asked,
        scorer or _account(),
        is_blind=blind,
        output=output,
        adjudicates=between,
        montage=montage,
        until=None if until is None else parse_targets(until),
    )
    try:
        _serve(session, port, found.notes, opens=not no_open)
    finally:
        session.close()


def _serve(session: ReviewSession, port: int, notes: Sequence[str], *, opens: bool) -> None:
    """Open the first night that can be read, print the address of the page, and serve it until the end."""
    for path, error in zip((night.path for night in session.requests), session.errors, strict=True):
        if error is not None:
            print_error(error, path)
    readable = [index for index, error in enumerate(session.errors) if error is None]
    if not readable:
        raise Exit(1)
    opened = readable[0]
    if (cohort := session.cohort()) is not None:
        opened = cohort.order[0]
    first = session.review(opened)
    if session.requests[opened].edf is not None:
        session.signals(opened)  # refuses the recording of another night before anything is shown
        session.laboratory(opened)  # and montages that cannot be read
    server = ReviewServer(session, port)
    out = Console()
    resumed = first.journal.found
    what = "Review" if session.adjudicates is None else "Adjudication"
    out.print(f"{what} of {count(len(readable), 'night')} by {session.scorer}: {server.url}", whole_line=True)
    if resumed.actions:
        out.list("Resumed", [f"{first.journal.path.name}, {count(len(resumed.actions), 'action')}"])
    out.list("Log", resumed.remarks)
    out.list("Saved in", [first.journal.path])
    out.list("Note", notes)
    out.print("Ctrl-C ends it; nothing is lost.")
    sys.stdout.flush()
    if opens and _has_display():
        open_new_tab(server.url)
    server.run()
    if session.last_cohort is not None:
        _print_cohort(session.last_cohort, out)
    for night, comparisons in session.compared.items():
        _print_comparisons(night, comparisons, out)
    out.print("Closed.")


def _two_scorers(text: str) -> tuple[str, str]:
    """Return the names of two scorers."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UsageError(f"--adjudicate is {text!r:.60}, expected two scorers such as anna,ben.")
    return names[0], names[1]


def _print_cohort(cohort: Cohort, out: Console) -> None:
    """Print the looks spent on each night and what its numbers may still be off by, and the means."""
    part = cohort.to_dict()
    names = {night.index: night.name for night in cohort.nights}
    rows = []
    for index in cohort.order:
        row = part["nights"][str(index)]
        rows.append([names[index], str(row["looks"]), row["left"], "yes" if row["is_met"] else "no"])
    out.table(("night", ">looks", "may be off by", "targets met"), rows)
    out.print(part["text"])


def _print_comparisons(night: str, comparisons: Sequence[Comparison], out: Console) -> None:
    """Print kappa of two scorers, for each stage too, and of each with the consensus if there is one."""
    names = comparisons[0].names
    rows = [
        (
            f"{one.reference}, {one.scorer}",
            *(shown(kappa, 2) for kappa in (one.kappa, *one.stage_kappas.values())),
        )
        for one in comparisons
    ]
    out.print(f"Kappa on {night}, of all stages and of each:")
    out.table(("scorings", ">all", *(f">{name}" for name in names)), rows)
    if len(comparisons) == 1:
        out.print("The consensus is not complete yet.")


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # the account has no name
        return "scorer"


def _has_display() -> bool:
    """Whether there is a screen that a browser could open on."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
