"""Write the tables of every study, from its committed results, into build/studies: `make tables`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STUDIES = Path(__file__).parent
WRITERS = (
    "claims.py",
    "expert-scorings/tables.py",
    "expert-units/simulate.py --table",
    "guard-on-real-data/run.py --tables",
    "guard-on-real-data/interval_coverage.py --tables",
    "guard-on-real-data/figure.py",
    "one-night/choose.py",
    "posterior/tables.py",
    "review-targets/tables.py",
    "share-repair/repair.py --tables",
    "simulator/run.py --table",
    "simulator/shifts.py --table",
    "streaming/tables.py",
)


def main() -> None:
    """Run what lays results out, one script after the other."""
    for writer in WRITERS:
        script, *options = writer.split()
        subprocess.run([sys.executable, STUDIES / script, *options], check=True, cwd=STUDIES.parent)


if __name__ == "__main__":
    main()
