"""Print the oldest versions that pyproject.toml allows, as constraints: `make minimum` tests with them."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

# Not recordings, whose sleepecg asks for a newer NumPy, nor torch and what builds on it: tested as pinned.
EXTRAS = ("formats", "plots", "review")

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
needs = set(project["dependencies"])
for extra in EXTRAS:
    needs |= set(project["optional-dependencies"][extra])
oldest = {found[1]: found[2] for need in needs if (found := re.fullmatch(r"([\w.-]+)>=([\d.]+)", need))}
if len(oldest) != len(needs):
    sys.exit(
        f"minimum: expected name>=version of each library, the same wherever it is, got {sorted(needs)}."
    )
print("\n".join(f"{name}=={version}" for name, version in sorted(oldest.items())))
