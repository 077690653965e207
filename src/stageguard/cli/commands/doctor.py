"""`stageguard doctor`: show what is installed, and whether it works."""

from __future__ import annotations

import platform
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from timeit import repeat

from click.exceptions import Exit

from stageguard.cli import options as opt
from stageguard.cli.command import command
from stageguard.cli.terminal import Console, print_json
from stageguard.errors import ProfileError, StageGuardError
from stageguard.guard.decode import decode
from stageguard.guard.kernels import TO_COMPILE
from stageguard.lazy import to_install
from stageguard.profile.profile import Profile, profiles
from stageguard.synthetic.night import simulate_night
from stageguard.version import __version__

DECODER = "decoder"
COMPILED = "compiled"
REINSTALL = "reinstall stageguard"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked, and what to do if something is wrong with it."""

    name: str
    state: str
    ok: bool = True
    advice: str = ""


@command
@opt.as_json
def doctor(as_json: bool) -> None:
    """Say what is installed, what is missing and how to get it, and decode a test night.

    Examples
    --------
    stageguard doctor
    """
    findings = [*_versions(), *_libraries(), *_extras(), _profiles(), *_self_test()]
    ok = all(finding.ok for finding in findings)
    if as_json:
        print_json({"ok": ok, "findings": [asdict(finding) for finding in findings]})
    else:
        out = Console()
        rows = [("ok" if finding.ok else "!!", finding.name, finding.state) for finding in findings]
        out.table(("", "what", "found"), rows)
        # Not in the table, where a command would be broken into lines and could not be copied.
        todo = [f"{finding.name}: {finding.advice}" for finding in findings if finding.advice]
        out.list("To do", todo, whole_lines=True)
        out.print(_verdict(findings), style="bold")
    if not ok:
        raise Exit(1)


def _verdict(findings: list[Finding]) -> str:
    if not all(finding.ok for finding in findings):
        return "See the lines marked !!."
    if any(finding.name == DECODER and finding.state != COMPILED for finding in findings):
        return "Everything works, but slowly: the compiled core is missing."
    return "Everything works."


def _versions() -> Iterator[Finding]:
    yield Finding("stageguard", f"{__version__} in {Path(__file__).parents[2]}")
    yield Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# What each library is for; the base installation includes all of them.
LIBRARIES = {
    "numpy": "arrays",
    "click": "the command line",
    "rich": "tables and progress bars",
    "jinja2": "the HTML report",
    "defusedxml": "scorings in XML",
    "edfio": "EDF and EDF+",
    "tomli-w": "writing TOML",
}


def _libraries() -> Iterator[Finding]:
    for name, purpose in LIBRARIES.items():
        version = _version(name)
        advice = "" if version else f"pip install {name}"
        yield Finding(f"{name} ({purpose})", version or "missing", version is not None, advice)


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


def _extras() -> Iterator[Finding]:
    for extra, names in _extra_libraries().items():
        versions = {name: _version(name) for name in names}
        missing = [name for name in names if versions[name] is None]
        here = ", ".join(f"{name} {version}" for name, version in versions.items())
        state = f"not installed: {', '.join(missing)}" if missing else here
        advice = f"to use it, {to_install(extra)}" if missing else ""
        yield Finding(f"extra {extra} ({EXTRAS[extra]})", state, True, advice)


def _extra_libraries() -> dict[str, list[str]]:
    """Return the libraries of each extra, from the installed package's metadata."""
    libraries: dict[str, list[str]] = {extra: [] for extra in EXTRAS}
    for line in requires("stageguard") or []:  # such as: scipy>=1.15; extra == "recordings"
        requirement = re.match(r"([\w.-]+).*; *extra *== *['\"](\w+)['\"]", line)
        if requirement and requirement[2] in libraries:
            libraries[requirement[2]].append(requirement[1])
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
