"""`stageguard demo`: the main job on a synthetic night."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from stageguard.base.errors import StageGuardWarning, message_of
from stageguard.base.files import write_together
from stageguard.cli.present import print_night
from stageguard.cli.terminal import console, print_json
from stageguard.formats.outputs import write_decoding
from stageguard.measures.summary import summary_of
from stageguard.profile.profile import Profile
from stageguard.report.hypnogram_svg import hypnogram_svg
from stageguard.report.night import night_report
from stageguard.runner.decode_files import DecodedNight, DecodeOptions, decode_file
from stageguard.runner.run import Outcome
from stageguard.synthetic.night import SimulatedNight, simulate_night

PROFILE = "human-psg-5"
SEED = 0
MARKER = "about-this-folder.txt"
MARKER_TEXT = """Written by `stageguard demo`, and replaced by the next one.
The night is synthetic: nobody slept it.

synthetic-night.csv             a stager's probabilities, one row per 30 s epoch
synthetic-night.hypnogram.tsv   the hypnogram decoded from them
synthetic-night.hypnogram.json  what the columns mean, and everything needed to decode again
synthetic-night.hypnogram.svg   both, beside the true stages
synthetic-night.report.html     the same with every number, to read in a browser

Decode it yourself:  stageguard decode synthetic-night.csv --profile human-psg-5 --output mine
Check the output:    stageguard verify synthetic-night.hypnogram.tsv
"""


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the outputs.")
    ] = Path("stageguard-demo"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write into a folder that no demo made.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Decode a synthetic night and show what changed.

    A folder that an earlier demo made is written again; files of yours never without --overwrite.
    """
    outcome, agreement, again = run_demo(output, overwrite=overwrite)
    if as_json:
        print_json(outcome.to_dict() | {"synthetic": True, "agreement_with_truth_percent": agreement})
        return
    _print(outcome, agreement, again, output)


def run_demo(
    folder: Path, *, overwrite: bool = False
) -> tuple[Outcome[DecodedNight], dict[str, float], bool]:
    """Write the demo's files; also returns agreement with the truth, and whether they replaced others."""
    profile = Profile.load(PROFILE)
    night = simulate_night(profile, seed=SEED)
    again = (folder / MARKER).is_file()
    overwrite = overwrite or again
    csv_path = folder / "synthetic-night.csv"
    write_together({csv_path: density_csv(night)}, overwrite=overwrite, make_folders=True)
    options = DecodeOptions()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        decoding, notes = decode_file(csv_path, profile, options)
    svg = hypnogram_svg(decoding, night.expert, "A synthetic night, before and after StageGuard")
    written = write_decoding(
        decoding,
        folder / "synthetic-night",
        source_path=csv_path,
        overwrite=overwrite,
        options=options.to_dict(),
        notes=notes,
        svg=svg,
    )
    html_path = folder / "synthetic-night.report.html"
    page = night_report(decoding, expert=night.expert, title="A synthetic night, before and after StageGuard")
    # the marker comes last: a folder with it holds nothing but a demo's files
    write_together({html_path: page, folder / MARKER: MARKER_TEXT}, overwrite=overwrite)
    outputs = {"csv": csv_path, "tsv": written.tsv, "json": written.sidecar, "svg": written.svg}
    outputs["html"] = html_path
    said = [message_of(w.message) for w in caught if issubclass(w.category, StageGuardWarning)]
    made = DecodedNight.fresh(decoding, summary_of(decoding), outputs, notes)
    agreement = {
        "before": 100 * float((decoding.argmax == night.expert.labels).mean()),
        "after": 100 * float((decoding.hypnogram.labels == night.expert.labels).mean()),
    }
    return Outcome(str(csv_path), csv_path.stem, made, warnings=tuple(said)), agreement, again


def density_csv(night: SimulatedNight) -> str:
    """Return a stager's output as a table, with onset and duration of each epoch in seconds."""
    seconds = night.density.epoch_seconds
    lines = [",".join(("onset", "duration", *night.density.scheme.names))]
    for epoch, row in enumerate(night.density.probabilities.tolist()):
        lines.append(f"{epoch * seconds:g},{seconds:g}," + ",".join(f"{value:.5f}" for value in row))
    return "\n".join(lines) + "\n"


def _print(outcome: Outcome[DecodedNight], agreement: dict[str, float], again: bool, folder: Path) -> None:
    out = console()
    out.print("A synthetic night: a made-up sleeper, and a stager that looks at each epoch alone.")
    truth = f"{agreement['before']:.1f}", f"{agreement['after']:.1f}"
    print_night(outcome, out, [("Agreement with the true stages (%)", *truth, "")])
    if again:
        out.print(f"{folder} held an earlier demo; its files were written again.", style="dim")
    outputs = outcome.result.outputs
    out.print(f"Look at it:  {outputs['html']}\nCheck it:    stageguard verify {outputs['tsv']}")
