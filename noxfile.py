#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox"]
# ///
"""Targets of the Makefile, which makes the environments, for those who look for nox: `nox -s lint`."""

import nox

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "none"


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff, its formatter and mypy."""
    session.run("make", "lint")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the linters and the quick tests."""
    session.run("make", "test")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the site, strictly."""
    session.run("make", "docs")


@nox.session(default=False)
def packages(session: nox.Session) -> None:
    """Build sdist and wheel, and try every extra in a fresh environment."""
    session.run("make", "packages")


if __name__ == "__main__":
    nox.main()
