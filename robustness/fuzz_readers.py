"""Fuzz every reader by coverage: what a file holds, or one line; `fuzz_readers.py --seconds 20 [FORMAT ...]`.

Each format runs in a process of its own. Files that a reader broke on are kept in `robustness/found/`; each
is to become a test.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

FOUND = Path(__file__).parent / "found"
RECORDINGS = {"recording-edf": ".edf", "recording-mat": ".mat"}
DOCUMENTS = {"profile-toml": ".toml"}
LONGEST_LINE = 900


def seeds(name: str, folder: Path) -> None:
    """Write small valid files to begin from, where there is a writer."""
    import stageguard as sg
    from stageguard.formats.registry import formats

    night = sg.simulate_night("human-psg-5", hours=0.5, seed=1)
    if name in DOCUMENTS:
        sg.Profile.load("human-psg-5").save(folder / "seed.toml")
        return
    result = sg.decode(night.density, "human-psg-5")
    wanted = "edf" if name in RECORDINGS else name
    for form in formats():
        if form.does("write") and form.name.startswith(wanted):
            what = night.density if form.writes_probabilities_alone else result
            for merged in (None, "wnr3"):  # some know three stages
                with contextlib.suppress(sg.StageGuardError):
                    place = folder / f"seed-{merged}{form.written_suffix}"
                    sg.convert(what, place, target_format=form.name, merge_to=merged)


def reader(name: str) -> tuple[str, list[Callable[[Path], object]]]:
    """Return how files of a format are called, and what reads them."""
    import stageguard as sg
    from stageguard.formats.registry import formats

    if name in RECORDINGS:
        return RECORDINGS[name], [sg.read_recording]
    if name in DOCUMENTS:
        return DOCUMENTS[name], [sg.Profile.load]
    form = next(form for form in formats() if form.name == name)
    reads: list[Callable[[Path], object]] = []
    if form.does("density"):
        reads += [lambda path: sg.read_density(path, format=name), sg.read_density]
    if form.does("hypnogram"):
        reads += [lambda path: sg.read_hypnogram(path, format=name), sg.read_hypnogram]
    return form.suffixes[0], reads


def names() -> list[str]:
    from stageguard.formats.registry import formats

    able = [form.name for form in formats() if form.does("density") or form.does("hypnogram")]
    return [*able, *RECORDINGS, *DOCUMENTS]


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one format in this process, up to the first file that is neither read nor refused."""
    import atheris

    with atheris.instrument_imports(include=["stageguard"]):
        import stageguard as sg

        suffix, reads = reader(name)
    scratch = Path(tempfile.mkdtemp())
    corpus = scratch / "corpus"
    corpus.mkdir()
    seeds(name, corpus)
    path = scratch / f"night{suffix}"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        for read in reads:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", sg.StageGuardWarning)
                    read(path)
            except sg.StageGuardError as error:
                assert "\n" not in str(error) and len(str(error)) < LONGEST_LINE, str(error)

    FOUND.mkdir(exist_ok=True)
    limits = [
        f"-max_total_time={seconds}",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-max_len=20000",
        "-verbosity=0",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={FOUND / name}-", str(corpus)], one)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", help="names of formats; all of them without")
    parser.add_argument("--seconds", type=int, default=20, help="how long each is fuzzed")
    parser.add_argument("--here", action="store_true", help="one format, in this process")
    given = parser.parse_args()
    if given.here:
        fuzz(given.formats[0], given.seconds)
        return 0
    broken = []
    for name in given.formats or names():
        ran = subprocess.run(
            [sys.executable, __file__, "--here", "--seconds", str(given.seconds), name],
            capture_output=True,
            text=True,
            check=False,
        )
        counts = re.findall(r"number_of_executed_units: +(\d+)", ran.stderr)
        is_broken = ran.returncode != 0 or not counts
        print(f"{name:24}{'BROKEN' if is_broken else f'{int(counts[0]):,} files'}", flush=True)
        if is_broken:
            broken.append(name)
            print("\n".join(ran.stderr.splitlines()[-40:]))
    print(f"{len(broken)} of {len(given.formats or names())} formats broke", *broken)
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
