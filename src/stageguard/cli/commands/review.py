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

from stageguard.base.errors import InputError
from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.terminal import Console, count, print_error
from stageguard.formats.outputs import TSV_SUFFIX
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.report.summary import shown
from stageguard.review.dispute import Comparison
from stageguard.review.opening import ReviewRequest
from stageguard.review.review import ReviewSession
from stageguard.review.server import ReviewServer
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.inputs import find_densities

TUNNEL = (
    "the page is served to this computer alone, for it shows people's nights. From another one, open a "
    "tunnel there, ssh -L {port}:127.0.0.1:{port} THIS_COMPUTER, and start the review here with "
    "--port {port} --no-open."
)
TUNNEL_PORT = 8642


@command
@click.argument(
    "nights",
    metavar="NIGHT",
    nargs=-1,
    required=True,
    type=opt.HERE,
    help="Probabilities with --profile, or .hypnogram.tsv files; a folder of either.",
)
@option("--profile", "-p", metavar="NAME", help="Needed for probabilities; an output records its own.")
@option("--edf", metavar="FILE", type=opt.HERE, help="The recording of the night, to see its signals.")
@option(
    "--montage",
    metavar="FILE",
    type=opt.HERE,
    help="The laboratory's montages. Default: montage.toml beside the review.",
)
@option(
    "--scoring",
    metavar="FILE",
    type=opt.HERE,
    help="An expert's scoring of the night, to see beside it.",
)
@option(
    "--events",
    metavar="FILE",
    type=opt.PATH,
    help="Annotations to see on the signals: EDF+, XML of NSRR, .annot of Luna, BIDS events.",
)
@option("--scorer", metavar="NAME", help="Who reviews. Default: the name of this account.")
@option("--blind", is_flag=True, help="Hide stager and guard until the night is scored.")
@option(
    "--adjudicate",
    metavar="A,B",
    help="Decide where two scorers differ, from their reviews of every epoch.",
)
@option(
    "--output",
    "-o",
    metavar="FILE|FOLDER",
    type=opt.HERE,
    help="Where the review is kept. Default: NIGHT.SCORER.review.jsonl beside it.",
)
@option(
    "--port",
    metavar="N",
    type=click.IntRange(min=0, max=65535),
    default=0,
    help="Port on this computer; 0: any free one.",
)
@option("--no-open", is_flag=True, help="Do not open a browser.")
@option("--host", metavar="ADDRESS", help="Refused: says how to review from another computer.")
@option("--remote", is_flag=True, help="Refused likewise.")
@opt.lights
@option("--start", metavar="TIME", type=opt.START, help="When the recording began: 2024-05-01T22:30.")
@opt.decoding
@opt.companions
@opt.scoring_format
def review(
    nights: tuple[Path, ...],
    profile: str | None,
    edf: Path | None,
    montage: Path | None,
    scoring: Path | None,
    events: Path | None,
    scorer: str | None,
    blind: bool,
    adjudicate: str | None,
    output: Path | None,
    port: int,
    no_open: bool,
    host: str | None,
    remote: bool,
    lights: tuple[Moment | None, Moment | None],
    start: datetime | None,
    options: DecodeOptions,
    companions: opt.Companions,
    scoring_format: str | None,
) -> None:
    """Review nights in the browser: set epochs, and the night is decoded around them at once.

    Every action is saved at once in NIGHT.SCORER.review.jsonl; the same command goes on from there. The input
    files are never changed.

    Examples
    --------
    stageguard review night.csv --profile human-psg-5 --edf night.edf --scorer anna
    stageguard review night.csv --profile human-psg-5 --adjudicate anna,ben --scorer carl
    """
    if host is not None or remote:
        raise InputError(TUNNEL.format(port=port or TUNNEL_PORT))
    between = None if adjudicate is None else _two_scorers(adjudicate)
    if between is not None and (blind or scoring is not None):
        raise UsageError("--adjudicate is blind already, and without --scoring. Leave these options out.")
    paths = _nights(nights, profile, options)
    if len(paths) > 1 and any(file is not None for file in (edf, scoring, events)):
        raise UsageError("--edf, --scoring and --events belong to one night: review the nights one by one.")
    loaded = None if profile is None else Profile.load(profile)
    options = companions.add_to(options, paths, loaded)
    if output is not None and output.suffix == ".jsonl" and len(paths) > 1:
        raise UsageError(f"--output is one file for {count(len(paths), 'night')}, expected a folder.")
    if output is not None and output.suffix and output.suffix != ".jsonl":
        raise UsageError(f"--output is {output.name!r}, expected a folder or the name of a .jsonl file.")
    options = replace(options, lights_off=lights[0], lights_on=lights[1])
    asked = [
        ReviewRequest(path, loaded, options, start, scoring, scoring_format, edf, events=events)
        for path in paths
    ]
    session = ReviewSession(
        asked,
        scorer or _account(),
        is_blind=blind,
        output=output,
        adjudicates=between,
        montage=montage,
    )
    try:
        _serve(session, port, opens=not no_open)
    finally:
        session.close()


def _serve(session: ReviewSession, port: int, *, opens: bool) -> None:
    """Open the first night that can be read, print the address of the page, and serve it until the end."""
    for path, error in zip((night.path for night in session.requests), session.errors, strict=True):
        if error is not None:
            print_error(error, path)
    readable = [index for index, error in enumerate(session.errors) if error is None]
    if not readable:
        raise Exit(1)
    first = session.review(readable[0])
    if session.requests[readable[0]].edf is not None:
        session.signals(readable[0])  # refuses the recording of another night before anything is shown
        session.montage_file(readable[0])  # and montages that cannot be read
    if session.requests[readable[0]].events is not None:
        session.existing_events(readable[0])  # refuses a file without annotations likewise
    server = ReviewServer(session, port)
    out = Console()
    resumed = first.journal.found
    what = "Review" if session.adjudicates is None else "Adjudication"
    out.print(f"{what} of {count(len(readable), 'night')} by {session.scorer}: {server.url}", whole_line=True)
    if resumed.actions:
        out.list("Resumed", [f"{first.journal.path.name}, {count(len(resumed.actions), 'action')}"])
    if resumed.n_dropped:
        out.list("Dropped", [f"a last line of {resumed.n_dropped} bytes that was never completed"])
    out.list("Saved in", [first.journal.path])
    out.print("Ctrl-C ends it; nothing is lost.")
    sys.stdout.flush()
    if opens and _has_display():
        open_new_tab(server.url)
    server.run()
    for night, comparisons in session.compared.items():
        _print_comparisons(night, comparisons, out)
    out.print("Closed.")


def _two_scorers(text: str) -> tuple[str, str]:
    """Return the names of two scorers."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UsageError(f"--adjudicate is {text!r:.60}, expected two scorers such as anna,ben.")
    return names[0], names[1]


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


def _nights(files: Sequence[Path], profile: str | None, options: DecodeOptions) -> list[Path]:
    """Return the files to review: probabilities with a profile, else outputs of `decode`."""
    if profile is not None:
        return [night.path for night in find_densities(files, None, Profile.load(profile), options).nights]
    paths: list[Path] = []
    for path in files:
        if not path.is_dir():
            paths.append(path)
            continue
        outputs = sorted(file for file in path.iterdir() if file.name.endswith(TSV_SUFFIX))
        if not outputs:
            raise InputError(
                f"{path} holds no outputs of decode. Review probabilities with --profile, or decode first."
            )
        paths += outputs
    return paths


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
