"""Make a checkout ready for release: its tag is its version, the links of the package's page are absolute.

The release workflow runs `python .ci/release.py TAG ADDRESS`, with the address of the repository it runs in.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTION = "[project.urls]\n"


def check_tag(tag: str, version: str, changelog: str) -> None:
    """Refuse a tag that is not the version, and a version that the changelog has no dated section for."""
    if tag != f"v{version}":
        sys.exit(f"release: the tag is {tag!r}, expected 'v{version}', as pyproject.toml has it.")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        sys.exit(f"release: CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'. Name the changes.")


def absolute(page: str, address: str, tag: str) -> str:
    """Return Markdown whose links and pictures lead into the repository at a tag, wherever it is shown."""

    def lead(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        view = "raw" if mark else "blob"
        return f"{mark}[{words}]({address}/{view}/{tag}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)]+)\)", lead, page)


def with_addresses(pyproject: str, address: str, tag: str) -> str:
    """Return pyproject.toml with the repository's addresses among its own."""
    places = {"Repository": "", "Documentation": f"/blob/{tag}/docs/index.md", "Issues": "/issues"}
    places["Changelog"] = f"/blob/{tag}/CHANGELOG.md"
    lines = "".join(f'{name} = "{address}{place}"\n' for name, place in places.items())
    return pyproject.replace(SECTION, SECTION + lines)


def main(tag: str, address: str) -> None:
    """Check, then rewrite README.md and pyproject.toml."""
    readme, pyproject = ROOT / "README.md", ROOT / "pyproject.toml"
    version = tomllib.loads(pyproject.read_text("utf-8"))["project"]["version"]
    check_tag(tag, version, (ROOT / "CHANGELOG.md").read_text("utf-8"))
    readme.write_text(absolute(readme.read_text("utf-8"), address, tag), "utf-8")
    pyproject.write_text(with_addresses(pyproject.read_text("utf-8"), address, tag), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
