"""Paths on the web, which has files and no folders; loaded only where an address is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from upath.implementations.http import HTTPPath

from stageguard.base.storage import facts_of


class WebPath(HTTPPath):
    """A file on the web; a question that its host does not answer is answered no."""

    __slots__ = ()

    def exists(self, **_: Any) -> bool:
        """Whether the file can be read."""
        try:
            facts_of(cast(Path, self))
        except OSError:
            return False
        return True

    is_file = exists

    def is_dir(self, **_: Any) -> bool:
        """Return False; `HTTPPath` would take a page with links for a folder."""
        return False
