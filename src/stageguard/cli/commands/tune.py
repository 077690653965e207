"""`stageguard tune`: one stager's unscored nights in, a profile tuned to it out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from click import UsageError

from stageguard.cli import options as opt
from stageguard.cli.command import command, option
from stageguard.cli.outcomes import end, run_shown
from stageguard.cli.terminal import Console, count, naming_nights, one_line, print_json
from stageguard.errors import InputError
from stageguard.files import check_apart, exists_error
from stageguard.fitting.tune import check_base, decision, tuned_profile
from stageguard.formats.companions import read_subjects
from stageguard.formats.raw_night import FileOptions
from stageguard.profile.profile import Profile
from stageguard.profile.rules import FEWEST_NIGHTS
from stageguard.profile.stagers import Training
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.inputs import Inputs, find_densities, with_table_nights
from stageguard.runner.run import succeeded
from stageguard.runner.tune_files import TuneTask, measure_task


@command
@option("--base", "-b", metavar="NAME", required=True, help="Profile to tune: a name or a .toml file.")
@option("--output", "-o", metavar="FILE.toml", type=opt.PATH, required=True, help="The tuned profile.")
@opt.density_files
@opt.sample_list
@option("--stager", metavar="NAME", help="The stager, with version and channels: used on no other.")
@option("--subjects", metavar="TABLE", type=opt.PATH, help="Whose each night is: columns id and subject.")
@option("--cohort", metavar="NAME", help="Who was recorded: insomnia, ... may have stage shares of its own.")
@opt.trained
@opt.reading
@opt.overwrite
@opt.jobs
@opt.as_json
def tune(
    base: str,
    output: Path,
    files: tuple[Path, ...],
    samples: Path | None,
    stager: str | None,
    subjects: Path | None,
    cohort: str | None,
    trained: Training | None,
    reading: FileOptions,
    overwrite: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Tune a profile to a stager, from ten or more of its unscored nights.

    Decides once whether the stager flickers, by the median fragmentation of its argmax. If so, nights are
    brought towards the experts' fragmentation, and half of the differences between people are kept. If not,
    no night is smoothed. Stage shares that experts do not score are brought to the edge of their range by
    stage biases of at most 1 nat, and the command says by how much.

    Examples
    --------
    stageguard tune unscored --base human-psg-5 --stager "YASA 0.8 C4-M1" --output yasa-c4.toml
    """
    if output.suffix != ".toml":
        raise UsageError(f"--output is {str(output)!r}, expected the name of a .toml file.")
    profile, options = Profile.load(base), reading
    check_base(profile)
    inputs = with_table_nights(find_densities(files, samples, profile, DecodeOptions(options)))
    check_apart([output], inputs.files(Path(base), samples, subjects))
    who = None if subjects is None else read_subjects(subjects)
    missing = [night.id for night in inputs.nights if who is not None and night.id not in who]
    if missing:
        raise InputError(f"night {missing[0]!r} is not in {subjects}, expected a row for it.")
    if output.exists() and not overwrite:
        raise exists_error(output)
    tasks = [
        TuneTask(night.path, night.id, profile, options, trained, night.error) for night in inputs.nights
    ]
    outcomes = run_shown(measure_task, tasks, "Reading", quiet=as_json, jobs=jobs)
    measured = succeeded(outcomes)
    if not measured:
        raise InputError(f"no night could be read. The first problem: {outcomes[0].error}")
    names = [outcome.id for outcome in measured]
    whose = None if who is None else [who[name].subject for name in names]
    with naming_nights(names):
        nights = [outcome.result.night for outcome in measured]
        tuned = tuned_profile(nights, profile, stager, output.stem, subjects=whose, cohort=cohort)
    tuned.save(output, overwrite=overwrite)
    if as_json:
        content = {"profile": tuned.to_dict(), "output": str(output)}
        print_json(content | {"files": [outcome.to_dict() for outcome in outcomes]})
    else:
        out = Console()
        out.print(
            f"{one_line(tuned.name)}: {count(len(nights), 'unscored night')}, on {one_line(profile.name)}"
        )
        for sentence in decision(tuned):
            out.print(sentence)
        out.list("Wrote", [output])
    end(outcomes, inputs.notes, as_json=as_json)


def tuned_on(
    inputs: Inputs, profile: Profile, options: DecodeOptions, jobs: int, *, quiet: bool
) -> tuple[Profile, Sequence[str]]:
    """Return the profile tuned on the nights, or unchanged if they are too few, and sentences on why."""
    check_base(profile)
    tasks = [
        TuneTask(night.path, night.id, profile, options.density, options.trained, night.error)
        for night in inputs.nights
    ]
    measured = succeeded(run_shown(measure_task, tasks, "Tuning", quiet=quiet, jobs=jobs))
    if len(measured) < FEWEST_NIGHTS:
        few = count(len(measured), "night")
        return profile, [
            f"--strength tune needs {FEWEST_NIGHTS} nights: {few} decoded with {profile.name} as it is"
        ]
    with naming_nights([outcome.id for outcome in measured]):
        nights = [outcome.result.night for outcome in measured]
        tuned = tuned_profile(nights, profile, options.stager, cohort=options.cohort)
    return tuned, decision(tuned)
