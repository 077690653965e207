"""`stageguard report`: one night as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from stageguard.base.errors import StageGuardError
from stageguard.base.files import write_text_atomic
from stageguard.cli.inputs import Input, decode_options, lights_of, night_id
from stageguard.cli.options import (
    AsJson,
    DecodingGiven,
    LightsOnPhase,
    LightsTimes,
    Overwrite,
    ScoringFormat,
    output_option,
    profile_option,
    text_option,
)
from stageguard.cli.parser import Argument, Exit, UsageError
from stageguard.cli.present import print_review, print_summary
from stageguard.cli.scored_files import ReadOptions, decode_night, read_expert, read_lights, read_start
from stageguard.cli.terminal import console, print_error, print_json, print_list
from stageguard.formats.outputs import JSON_SUFFIX, TSV_SUFFIX, output_paths
from stageguard.measures.statistics import StatisticsOptions
from stageguard.measures.summary import summary_of
from stageguard.profile.profile import Profile
from stageguard.report.night import night_report
from stageguard.runner.run import collect_warnings

SUFFIX = ".report.html"

Night = Annotated[
    Path, Argument("NIGHT", "Probabilities, or a .hypnogram.tsv with its probabilities beside it.")
]
Source = Annotated[
    Path | None,
    text_option(
        "FILE", "The probabilities of a .hypnogram.tsv. Default: the recorded name beside it.", "--input"
    ),
]
Output = Annotated[
    Path | None, output_option("NIGHT.html", "The page. Default: NIGHT.report.html beside it.")
]
ProfileName = Annotated[str | None, profile_option("Needed for probabilities; an output records its own.")]
ExpertFile = Annotated[Path | None, text_option("FILE", "An expert's hypnogram of the night.")]
Title = Annotated[str | None, text_option("TEXT", "Headline. Default: the file's name.")]
Start = Annotated[str | None, text_option("TIME", "When the recording began: 2024-05-01T22:30.")]


def report(
    night: Night,
    output: Output = None,
    profile: ProfileName = None,
    source: Source = None,
    expert: ExpertFile = None,
    title: Title = None,
    times: LightsTimes = LightsTimes(),  # noqa: B008 - a group of options
    lights_on_phase: LightsOnPhase = None,
    start: Start = None,
    given: DecodingGiven = DecodingGiven(),  # noqa: B008 - a group of options
    scoring_format: ScoringFormat = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write one night as one HTML file: pictures, measures against experts, statistics, methods.

    The file needs no network and holds everything it shows.

    Examples
    --------
    stageguard report night.csv --profile human-psg-5 --expert expert.txt --output night.html
    """
    options = decode_options(given)
    if start is not None and "-" not in start:
        raise UsageError(f"--start is {start!r}, expected a date and a time such as 2024-05-01T22:30.")
    off, on = read_lights(times)
    is_output = night.name.endswith((TSV_SUFFIX, JSON_SUFFIX))
    if source is not None and not is_output:
        raise UsageError(f"--input goes with a .hypnogram.tsv, and {night.name} is none.")
    name = night_id(night)
    page = output or night.parent / (name + SUFFIX)
    try:
        with collect_warnings() as warned:
            loaded = None if profile is None else Profile.load(profile)
            decoding, notes = decode_night(night, loaded, options, read_start(start), source)
        reading = ReadOptions(scoring_format=scoring_format)
        scored = None if expert is None else read_expert(expert, decoding.hypnogram, reading)
        lights = lights_of(Input(night, name), off, on)
        html = night_report(
            decoding,
            expert=scored,
            title=title,
            lights_off=lights.off,
            lights_on=lights.on,
            lights_on_phase=lights_on_phase,
            notes=notes,
        )
        beside = (output_paths(night).tsv, output_paths(night).sidecar) if is_output else ()
        read = [night, *beside, expert, source, None if profile is None else Path(profile), *given.files]
        spare = [path for path in read if path is not None]
        write_text_atomic(page, html, overwrite=overwrite, spare=spare)
        summary = summary_of(decoding, StatisticsOptions(lights_off=lights.off, lights_on=lights.on))
    except (StageGuardError, OSError) as error:
        print_error(error, night)
        raise Exit(1) from None
    if as_json:
        about = {"file": str(night), "ok": True, "notes": list(notes), "warnings": warned}
        print_json(summary.to_dict() | about | {"outputs": {"html": str(page)}})
        return
    out = console()
    print_summary(str(night), summary, out)
    print_list(out, "Warning", warned)
    print_list(out, "Wrote", [page])
    print_review(out)
