"""Synthetic cohorts with a known truth, in the layouts of real datasets. No evidence about real sleepers.

>>> from stageguard.synthetic import Plan, simulate_cohort, simulate_recording
>>> made = simulate_recording("cardiorespiratory", hours=2, seed=1)
>>> made.recording.is_synthetic, made.night.hypnogram.n_epochs
>>> simulate_cohort(Plan("eeg-emg", n_subjects=2, hours=1), "mice")
"""

from __future__ import annotations

from stageguard.synthetic.body import SignalEvent as SignalEvent
from stageguard.synthetic.cohort import Plan as Plan
from stageguard.synthetic.cohort import Subject as Subject
from stageguard.synthetic.cohort import simulate_cohort as simulate_cohort
from stageguard.synthetic.cohort import simulate_recording as simulate_recording
from stageguard.synthetic.signals import Simulated as Simulated

__all__ = ["Plan", "SignalEvent", "Simulated", "Subject", "simulate_cohort", "simulate_recording"]
