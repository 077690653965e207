"""Pictures and reports of decoded nights."""

from __future__ import annotations

from stageguard.report.cohort import cohort_report as cohort_report
from stageguard.report.night import night_report as night_report
