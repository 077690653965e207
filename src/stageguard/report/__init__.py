"""Pictures, pages and texts about decoded nights; each part is imported when it is first used."""

from __future__ import annotations

from stageguard.lazy import public_names

__getattr__, _ = public_names(
    __name__,
    {
        "report.cohort": "cohort_report",
        "report.methods": "methods_text",
        "report.night": "night_report",
    },
)
