"""`stageguard doctor`: what is installed, and does it work. Parses and prints only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at, and what to do when it is not as it should be."""

    name: str
    state: str
    ok: bool = True
    advice: str = ""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False) -> None:
    """Say what is installed, what is missing and how to get it, and decode a test night."""
    from stageguard.cli._terminal import console, print_json, table

    findings = [*_versions(), *_libraries(), *_profiles(), *_self_test()]
    ok = all(finding.ok for finding in findings)
    if as_json:
        print_json({"ok": ok, "findings": [asdict(finding) for finding in findings]})
    else:
        shown = table("", "what", "found", "to do")
        for finding in findings:
            shown.add_row("ok" if finding.ok else "!!", finding.name, finding.state, finding.advice)
        out = console()
        out.print(shown)
        out.print("Everything works." if ok else "See the lines marked !!.", style="bold")
    if not ok:
        raise typer.Exit(1)


def _versions() -> list[Finding]:
    import platform
    from pathlib import Path

    from stageguard import __version__

    return [
        Finding("stageguard", f"{__version__} in {Path(__file__).parents[1]}"),
        Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
    ]


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


# What each library is for; the base install brings all of them.
LIBRARIES = {
    "numpy": "arrays",
    "typer": "command line",
    "rich": "tables on the terminal",
    "jinja2": "the HTML report",
}


# What extras bring: nothing is wrong without them.
OPTIONAL = {"torch": ("training and predicting", "torch")}


def _libraries() -> list[Finding]:
    findings = []
    for name, purpose in LIBRARIES.items():
        version = _version(name)
        advice = "" if version else f"pip install {name}"
        findings.append(Finding(f"{name} ({purpose})", version or "missing", version is not None, advice))
    for name, (purpose, extra) in OPTIONAL.items():
        version = _version(name)
        advice = "" if version else f"to use it: pip install 'stageguard[{extra}]'"
        findings.append(Finding(f"{name} ({purpose})", version or "not installed", True, advice))
    return findings


def _profiles() -> list[Finding]:
    from stageguard.errors import ProfileError
    from stageguard.profile import Profile, profiles

    try:
        names = [Profile.load(name).name for name in profiles()]
    except ProfileError as error:
        return [Finding("profiles", str(error), False, "reinstall stageguard")]
    return [
        Finding("profiles", f"{len(names)} built in", bool(names), "" if names else "reinstall stageguard")
    ]


def _self_test() -> list[Finding]:
    """Decode a synthetic night and time it."""
    import time
    import warnings

    from stageguard.decoding import decode
    from stageguard.errors import StageGuardError
    from stageguard.simulate import simulate_night

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            night = simulate_night("human-psg-5", seed=1)
            core = decode(night.density, "human-psg-5").provenance()["core"]
            seconds = []
            for _ in range(5):
                began = time.perf_counter()
                decoding = decode(night.density, "human-psg-5")
                decoding.hypnogram.labels.sum()
                seconds.append(time.perf_counter() - began)
    except (StageGuardError, ImportError) as error:
        return [Finding("self-test", f"failed: {error}", False, "reinstall stageguard")]
    compiled = core == "compiled"
    advice = "" if compiled else "for speed, install a C++17 compiler and reinstall stageguard"
    agreement = 100 * float((decoding.hypnogram.labels == night.expert.labels).mean())
    return [
        Finding(
            "decoder", "compiled core" if compiled else "NumPy reference: same results, slower", True, advice
        ),
        Finding(
            "self-test",
            f"a night of {night.density.n_epochs} epochs decoded in {1000 * min(seconds):.2f} ms, "
            f"{agreement:.0f} % as its synthetic truth",
        ),
    ]
