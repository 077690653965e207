"""`stageguard review`: a page on this computer where a scorer reviews decoded nights."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated
from webbrowser import open_new_tab

from stageguard.base.errors import InputError
from stageguard.cli.inputs import decode_options, find_densities, options_of
from stageguard.cli.options import (
    DecodingGiven,
    LightsTimes,
    ScoringFormat,
    output_option,
    profile_option,
    text_option,
)
from stageguard.cli.parser import Argument, Exit, Option, UsageError
from stageguard.cli.scored_files import read_start
from stageguard.cli.terminal import console, count, print_error, print_list
from stageguard.formats.outputs import TSV_SUFFIX
from stageguard.profile.profile import Profile
from stageguard.review.opening import ReviewRequest
from stageguard.review.server import ReviewServer
from stageguard.review.session import ReviewSession

Nights = Annotated[
    list[Path],
    Argument("NIGHT", "Probabilities with --profile, or .hypnogram.tsv files; a folder of either."),
]
ProfileName = Annotated[str | None, profile_option("Needed for probabilities; an output records its own.")]
Edf = Annotated[Path | None, text_option("FILE", "The recording of the night, to see its signals.")]
Scoring = Annotated[Path | None, text_option("FILE", "An expert's scoring of the night, to see beside it.")]
Scorer = Annotated[str | None, text_option("NAME", "Who reviews. Default: the name of this account.")]
Blind = Annotated[bool, Option("--blind", help="Hide stager and guard until the night is scored.")]
Output = Annotated[
    Path | None,
    output_option("FILE|FOLDER", "Where the review is kept. Default: NIGHT.SCORER.review.jsonl beside it."),
]
Port = Annotated[int, Option(min=0, max=65535, metavar="N", help="Port on this computer; 0: any free one.")]
NoOpen = Annotated[bool, Option("--no-open", help="Do not open a browser.")]
Start = Annotated[str | None, text_option("TIME", "When the recording began: 2024-05-01T22:30.")]
Elsewhere = Annotated[
    str | None, text_option("ADDRESS", "Refused: says how to review from another computer.", "--host")
]
Remote = Annotated[bool, Option("--remote", help="Refused likewise.")]

TUNNEL = (
    "the page is served to this computer alone, for it shows people's nights. From another one, open a "
    "tunnel there, ssh -L {port}:127.0.0.1:{port} THIS_COMPUTER, and start the review here with "
    "--port {port} --no-open."
)
TUNNEL_PORT = 8642


def review(
    nights: Nights,
    profile: ProfileName = None,
    edf: Edf = None,
    scoring: Scoring = None,
    scorer: Scorer = None,
    blind: Blind = False,
    output: Output = None,
    port: Port = 0,
    no_open: NoOpen = False,
    host: Elsewhere = None,
    remote: Remote = False,
    times: LightsTimes = LightsTimes(),  # noqa: B008 - a group of options
    start: Start = None,
    given: DecodingGiven = DecodingGiven(),  # noqa: B008 - a group of options
    scoring_format: ScoringFormat = None,
) -> None:
    """Review nights in the browser: set epochs, and the night is decoded around them at once.

    Every action is saved at once in NIGHT.SCORER.review.jsonl; the same command goes on from there. The input
    files are never changed.

    Examples
    --------
    stageguard review night.csv --profile human-psg-5 --edf night.edf --scorer anna
    """
    if host is not None or remote:
        raise InputError(TUNNEL.format(port=port or TUNNEL_PORT))
    paths = _nights(nights, profile, given)
    if len(paths) > 1 and (edf is not None or scoring is not None):
        raise UsageError("--edf and --scoring belong to one night: review the nights one by one.")
    loaded = None if profile is None else Profile.load(profile)
    options = options_of(paths, given, loaded, decode_options(given))
    if output is not None and output.suffix == ".jsonl" and len(paths) > 1:
        raise UsageError(f"--output is one file for {count(len(paths), 'night')}, expected a folder.")
    if output is not None and output.suffix and output.suffix != ".jsonl":
        raise UsageError(f"--output is {output.name!r}, expected a folder or the name of a .jsonl file.")
    off, on = times.moments()
    asked = [
        ReviewRequest(
            path,
            loaded,
            options,
            read_start(start),
            off,
            on,
            scoring,
            scoring_format,
            edf,
        )
        for path in paths
    ]
    session = ReviewSession(asked, scorer or _account(), is_blind=blind, output=output)
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
    server = ReviewServer(session, port)
    out = console()
    resumed = first.journal.found
    out.print(f"Review of {count(len(readable), 'night')} by {session.scorer}: {server.url}", whole_line=True)
    if resumed.actions:
        print_list(out, "Resumed", [f"{first.journal.path.name}, {count(len(resumed.actions), 'action')}"])
    if resumed.n_dropped:
        print_list(out, "Dropped", [f"a last line of {resumed.n_dropped} bytes that was never completed"])
    print_list(out, "Saved in", [first.journal.path])
    out.print("Ctrl-C ends it; nothing is lost.")
    sys.stdout.flush()
    if opens and _has_display():
        open_new_tab(server.url)
    server.run()
    out.print("Closed.")


def _nights(given: list[Path], profile: str | None, reading: DecodingGiven) -> list[Path]:
    """Return the files to review: probabilities with a profile, else outputs of `decode`."""
    if profile is not None:
        options = decode_options(reading)
        return [night.path for night in find_densities(given, None, Profile.load(profile), options).nights]
    paths: list[Path] = []
    for path in given:
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
