"""`stageguard doctor`: show what is installed, whether it works, and the datasets that can be read."""

from __future__ import annotations

import platform
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from timeit import repeat
from typing import Any

import click
from click import UsageError
from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import command, more, option
from stageguard.cli.outcomes import MOST_PROBLEMS
from stageguard.cli.terminal import Console, count, one_line, print_json, progress_bar
from stageguard.datasets import dataset, dataset_names
from stageguard.datasets.local_copy import check
from stageguard.errors import ProfileError, StageGuardError
from stageguard.guard.decode import decode
from stageguard.guard.kernels import TO_COMPILE
from stageguard.lazy import to_install
from stageguard.profile.profile import Profile, profiles
from stageguard.synthetic.night import simulate_night
from stageguard.version import __version__

DECODER = "decoder"
COMPILED = "compiled"
BASE = ""  # of the libraries that are no extra's
REINSTALL = "reinstall stageguard"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked, and what to do if something is wrong with it."""

    name: str
    state: str
    ok: bool = True
    advice: str = ""


@command
@click.argument("name", required=False, help="With --data: a dataset, to show.")
@click.argument("folder", required=False, type=opt.HERE, help="With --data: a local copy of it, to check.")
@option("--data", is_flag=True, help="List the datasets, show one, or check a local copy of one.")
@option("--deep", is_flag=True, help="With --data: read every sample, not only the ends of each signal.")
@opt.as_json
@more("--dataset-option", "KEY=VALUE", "An option of the dataset's reader; repeatable.", multiple=True)
def doctor(
    name: str | None,
    folder: Path | None,
    data: bool,
    deep: bool,
    as_json: bool,
    dataset_option: tuple[str, ...],
) -> None:
    """Say what is installed and missing, and decode a test night; with --data, look at datasets.

    A local copy may be incomplete; files that differ from the published ones or cannot be read are problems.

    Examples
    --------
    stageguard doctor
    stageguard doctor --data sleep-accel wrists
    """
    if name is not None and not data:
        raise UsageError(f"unexpected argument {name!r}: datasets are looked at with --data.")
    if data and folder is not None and name is not None:
        _check_copy(name, folder, dataset_option, deep=deep, as_json=as_json)
    elif data:
        _show_datasets(name, as_json=as_json)
    else:
        _examine(as_json=as_json)


def _examine(*, as_json: bool) -> None:
    findings = [*_installed(), _profiles(), *_self_test()]
    ok = all(finding.ok for finding in findings)
    if as_json:
        print_json({"ok": ok, "findings": [asdict(finding) for finding in findings]})
    else:
        out = Console()
        rows = [("ok" if finding.ok else "!!", finding.name, finding.state) for finding in findings]
        out.table(("", "what", "found"), rows)
        # Not in the table, where a command would be broken into lines and could not be copied.
        for finding in findings:
            if finding.advice:
                out.print(f"{finding.name}: {finding.advice}", whole_line=True)
        out.print(_verdict(findings), style="bold")
    if not ok:
        raise Exit(1)


FACTS = ("name", "title", "modality", "access", "n_subjects", "n_recordings", "licence", "ethics", "url",
         "how_to_get", "citation")  # fmt: skip


def _show_datasets(name: str | None, *, as_json: bool) -> None:
    """List the datasets that can be read in their native layouts, or show one."""
    known = [dataset(each) for each in ([name] if name else dataset_names())]
    if as_json:
        facts = [
            {fact: getattr(each, fact) for fact in FACTS}
            | {"page": "docs/datasets.md", "options": dict(each.options)}
            for each in known
        ]
        print_json(facts[0] if name else facts)
        return
    out = Console()
    if name is None:
        rows = [
            (each.name, each.modality, each.n_recordings or "", each.access, each.title) for each in known
        ]
        out.table(("name", "modality", ">recordings", "access", "what it is"), rows)
        out.print("More about one, and how to get it: stageguard doctor --data NAME")
        return
    shown = [(fact.replace("_", " "), getattr(known[0], fact)) for fact in FACTS]
    shown += [(f"option {key}", text) for key, text in known[0].options.items()]
    out.table(("", ""), [row for row in shown if row[1]], headed=False)


def _check_copy(name: str, folder: Path, options: Sequence[str], *, deep: bool, as_json: bool) -> None:
    """Check a local copy: what it holds, whether files are as published, and what cannot be read."""
    with progress_bar("Checking", quiet=as_json) as move_bar:

        def step(name: str, number: int, total: int) -> None:
            move_bar(total=total, completed=number, description=one_line(name)[:80])

        reader: dict[str, Any] = opt.parse_dataset_options(options, "--dataset-option")
        found = check(dataset(name), folder, deep=deep, on_step=step, **reader)
    report = {
        "dataset": name,
        "folder": str(folder),
        "is_fine": not found.problems,
        "n_found": found.n_found,
        "n_readable": len(found.recordings),
        "n_subjects": len({recording["subject"] for recording in found.recordings}),
        "expected_recordings": found.dataset.n_recordings,
        "expected_subjects": found.dataset.n_subjects,
        "hours": sum(recording["hours"] for recording in found.recordings),
        "n_compared": found.n_compared,
        "n_absent": found.n_absent,
        "problems": [asdict(problem) for problem in found.problems],
        "recordings": found.recordings,
    }
    if as_json:
        print_json(report)
    else:
        out = Console()
        of_all = f" of {report['expected_recordings']:,}" if report["expected_recordings"] else ""
        readable = f"{count(report['n_readable'], 'recording')}{of_all} readable"
        out.print(f"{readable}: {count(report['n_subjects'], 'subject')}, {report['hours']:,.1f} h.")
        if n_made_up := sum(recording["is_synthetic"] for recording in found.recordings):
            out.print(f"SYNTHETIC: {count(n_made_up, 'recording')} made up by the simulator.")
        out.print(
            f"{count(found.n_compared, 'file')} compared with published digests, {found.n_absent:,} absent; "
            f"{count(len(found.problems), 'problem')}."
        )
        if found.problems:
            problems = [(each.what, each.kind, each.detail) for each in found.problems]
            out.table(("what", "problem", "detail"), problems[:MOST_PROBLEMS])
    if found.problems:
        raise Exit(1)


def _verdict(findings: list[Finding]) -> str:
    if not all(finding.ok for finding in findings):
        return "See the lines marked !!."
    if any(finding.name == DECODER and finding.state != COMPILED for finding in findings):
        return "Everything works, but slowly: the compiled core is missing."
    return "Everything works."


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# What the optional extras are for. Extras for development, which `make` installs, are left out.
EXTRAS = {
    "study": "networks fold by fold, tables, figures",
    "cluster": "work on a Dask cluster",
    "remote": "files at s3:// and https:// addresses",
    "gs": "files at gs:// addresses",
    "torch": "training, and staging by a network",
    "onnx": "networks as ONNX files",
    "yasa": "staging by YASA",
    "sleepecg": "staging by SleepECG",
    "luna": "staging by POPS of Luna",
    "recordings": "signals, quality and features",
    "formats": "tables and containers of other tools",
    "plots": "figures for papers and notebooks",
    "review": "a page to review nights on",
}


def _installed() -> Iterator[Finding]:
    """Yield the package, Python, the libraries that are needed, and those of each extra."""
    yield Finding("stageguard", f"{__version__} in {Path(__file__).parents[2]}")
    yield Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    needed = _needed_libraries()
    for extra, names in needed.items():
        versions = {name: _version(name) for name in names}
        missing = [name for name, found in versions.items() if found is None]
        here = ", ".join(f"{name} {found}" for name, found in versions.items())
        state = f"not installed: {', '.join(missing)}" if missing else here
        if extra == BASE:
            yield Finding("libraries", state, not missing, REINSTALL if missing else "")
        else:
            advice = f"to use it, {to_install(extra)}" if missing else ""
            yield Finding(f"extra {extra} ({EXTRAS[extra]})", state, True, advice)


def _needed_libraries() -> dict[str, list[str]]:
    """Return the libraries of the base and of each extra, from the installed package's metadata."""
    libraries: dict[str, list[str]] = {name: [] for name in (BASE, *EXTRAS)}
    for line in requires("stageguard") or []:  # such as: scipy>=1.15; extra == "recordings"
        requirement = re.match(r"([\w.-]+)[^;]*(?:;.*extra *== *['\"](\w+)['\"])?", line)
        if requirement and (requirement[2] or BASE) in libraries:
            libraries[requirement[2] or BASE].append(requirement[1])
    return libraries


def _profiles() -> Finding:
    try:
        names = [Profile.load(name).name for name in profiles()]
    except ProfileError as error:
        return Finding("profiles", str(error), False, REINSTALL)
    return Finding("profiles", f"{len(names)} built in", bool(names), "" if names else REINSTALL)


def _self_test() -> Iterator[Finding]:
    """Decode a synthetic night and time it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            night = simulate_night("human-psg-5", seed=1)
            decoding = decode(night.density, "human-psg-5")
            seconds = min(repeat(lambda: decode(night.density, "human-psg-5").hypnogram, number=1))
    except (StageGuardError, ImportError) as error:
        yield Finding("self-test", f"failed: {error}", False, REINSTALL)
        return
    if decoding.provenance()["core"] == COMPILED:
        yield Finding(DECODER, COMPILED)
    else:
        slow = "NumPy reference: the same results, about 100 to 500 times slower"
        yield Finding(DECODER, slow, advice=TO_COMPILE)
    agreement = 100 * float((decoding.hypnogram.labels == night.expert.labels).mean())
    yield Finding(
        "self-test",
        f"a night of {night.density.n_epochs} epochs decoded in {1000 * seconds:.2f} ms, "
        f"{agreement:.0f} % as its synthetic truth",
    )
