"""The profile that a cohort's outputs share: one file in their folder, named in sidecars by its hash."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from stageguard.errors import OutputExistsError
from stageguard.files import file_error, make_folder
from stageguard.profile.profile import Profile

PROFILE_DIGITS = 12  # digits of the profile's hash in its file name


def profile_path(folder: Path, sha256: str) -> Path:
    """Return the file of the profile that the nights of a folder share."""
    return folder / f"profile-{sha256[:PROFILE_DIGITS]}.toml"


def keep_profile(profile: Profile, folder: Path) -> None:
    """Write the profile that the nights of a folder share, unless it exists."""
    path = profile_path(folder, profile.sha256)
    if path.exists():
        return
    make_folder(folder)
    with contextlib.suppress(OutputExistsError):  # another process has just written it
        profile.save(path)


def recorded_profile(sidecar: Path, recorded: Mapping[str, Any]) -> Profile:
    """Return the profile that a sidecar records: in itself, or in a file beside it."""
    if "definition" in recorded:
        return Profile.from_dict(recorded["definition"])
    path = profile_path(sidecar.parent, str(recorded["sha256"]))
    if not path.is_file():
        raise file_error(
            sidecar,
            f"needs its profile, {path.name}, which is missing beside it. Copy it from the folder that the "
            "cohort was written to.",
        )
    return _loaded(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _loaded(path: Path, _: int) -> Profile:
    """Return a profile that many nights share, read again only if its file changes."""
    return Profile.load(path)
