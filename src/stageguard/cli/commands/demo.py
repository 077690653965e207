"""`stageguard demo`: decode a synthetic night."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.decoded import print_night
from stageguard.cli.terminal import Console, print_json
from stageguard.files import write_together
from stageguard.formats.outputs import write_decoding
from stageguard.guard.decoding import Decoding
from stageguard.profile.profile import Profile
from stageguard.report.hypnogram_svg import hypnogram_svg
from stageguard.report.night import night_report
from stageguard.report.summary import summary_of
from stageguard.runner.decode_one import DecodeOptions, decode_file
from stageguard.runner.manifest import DecodedFile, ManifestRow
from stageguard.runner.run import Outcome, collect_warnings
from stageguard.synthetic.night import SimulatedNight, simulate_night

PROFILE = "human-psg-5"
SEED = 0
TITLE = "A synthetic night, before and after StageGuard"
MARKER = "about-this-folder.txt"
MARKER_TEXT = """Written by `stageguard demo`, and replaced by the next one.
The night is synthetic: nobody slept it.

synthetic-night.csv             a stager's probabilities, one row per 30 s epoch
synthetic-night.hypnogram.tsv   the hypnogram decoded from them
synthetic-night.hypnogram.json  what the columns mean, and everything needed to decode again
synthetic-night.hypnogram.svg   both, beside the true stages
synthetic-night.report.html     the same with every number, to read in a browser

Decode it yourself:  stageguard decode synthetic-night.csv --profile human-psg-5 --output mine
Review the output:   stageguard review synthetic-night.hypnogram.tsv
Check the output:    stageguard verify synthetic-night.hypnogram.tsv
"""


@command
@opt.output("FOLDER", "Folder for the outputs.", opt.HERE, default=Path("stageguard-demo"))
@option("--overwrite", is_flag=True, help="Write into a folder that no demo made.")
@opt.as_json
def demo(output: Path, overwrite: bool, as_json: bool) -> None:
    """Decode a synthetic night and show what changed.

    The files of an earlier demo are replaced; other files only with --overwrite.

    Examples
    --------
    stageguard demo
    """
    again = (output / MARKER).is_file()
    night = simulate_night(Profile.load(PROFILE), seed=SEED)
    outcome, decoding = write_demo(night, output, overwrite=overwrite or again)
    before, after = (
        100 * float((labels == night.expert.labels).mean())
        for labels in (decoding.argmax, decoding.hypnogram.labels)
    )
    if as_json:
        agreement = {"before": before, "after": after}
        print_json(outcome.to_dict() | {"synthetic": True, "agreement_with_truth_percent": agreement})
        return
    out = Console()
    out.print("A synthetic night: a made-up sleeper, and a stager that looks at each epoch alone.")
    print_night(outcome, out, [("True stages (%)", f"{before:.1f}", f"{after:.1f}", "", "")])
    if again:
        out.print(f"{output} held an earlier demo; its files were written again.", style="dim")
    outputs = outcome.result.outputs
    out.print(
        f"Look at it:  {outputs['html']}\nReview it:   stageguard review {outputs['tsv']}\n"
        f"Check it:    stageguard verify {outputs['tsv']}"
    )


def write_demo(
    night: SimulatedNight, folder: Path, *, overwrite: bool
) -> tuple[Outcome[DecodedFile], Decoding]:
    """Write the demo's files; return the outcome and the decoding."""
    csv_path, html_path = folder / "synthetic-night.csv", folder / "synthetic-night.report.html"
    write_together({csv_path: density_csv(night)}, overwrite=overwrite, make_folders=True)
    options = DecodeOptions()
    with collect_warnings() as warned:
        decoding, notes = decode_file(csv_path, Profile.load(PROFILE), options)
    summary = summary_of(decoding, with_intervals=True)
    written = write_decoding(
        decoding,
        folder / "synthetic-night",
        source_path=csv_path,
        overwrite=overwrite,
        options=options.to_dict(),
        notes=notes,
        joint_score=asdict(summary.joint),
        svg=hypnogram_svg(decoding, night.expert, TITLE),
        measured=summary.measures.to_dict(),
    )
    page = night_report(decoding, expert=night.expert, title=TITLE)
    # the marker comes last: in a folder that has it, all files are a demo's
    write_together({html_path: page, folder / MARKER: MARKER_TEXT}, overwrite=overwrite)
    outputs = {"csv": csv_path, "tsv": written.tsv, "json": written.sidecar, "svg": written.svg}
    row = ManifestRow.of(csv_path.stem, str(csv_path), decoding, summary.measures)
    decoded = DecodedFile.fresh(row, decoding, outputs | {"html": html_path}, notes, summary=summary)
    return Outcome(row.file, row.id, decoded, warnings=tuple(warned)), decoding


def density_csv(night: SimulatedNight) -> str:
    """Return a stager's output as a table, with onset and duration of each epoch in seconds."""
    seconds = night.density.epoch_seconds
    lines = [",".join(("onset", "duration", *night.density.scheme.names))]
    for epoch, row in enumerate(night.density.probabilities.tolist()):
        lines.append(f"{epoch * seconds:g},{seconds:g}," + ",".join(f"{value:.5f}" for value in row))
    return "\n".join(lines) + "\n"
