"""Pictures and reports of decoded nights."""

from __future__ import annotations

from stageguard.report.night import night_report as night_report
