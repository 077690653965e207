"""Names of the variants (ways from probabilities to stages), in records and in tables."""

from __future__ import annotations

BASE, PENALTY, PAPER, RELEASED, CALIBRATED = "base", "penalty", "paper", "released", "calibrated"
EXPERT, MAJORITY_CLASS = "expert", "majority class"
SEMI_MARKOV = "semi-markov"
TITLES = {
    EXPERT: "expert",
    MAJORITY_CLASS: "most frequent stage",
    BASE: "argmax",
    "majority filter": "majority filter",
    "hmm": "plain HMM",
    CALIBRATED: "calibrated guard",
    "paper, no penalty": "published decoder, no penalty in training",
    PENALTY: "penalty in training alone",
    PAPER: "published method",
    RELEASED: "released code",
    "released, no penalty": "released decoder, no penalty in training",
    "paper, transitions alone": "penalty + transitions",
    "paper, no flip-flop": "without flip-flop (penalty + transitions + minimum bouts)",
    "paper, no transitions": "without transitions",
    "paper, no minimum bouts": "without minimum bouts",
    "paper, no quality": "without signal quality",
    "paper, exact flip-flop": "with the exact flip-flop",
    f"{SEMI_MARKOV}, argmax": "semi-Markov loss, argmax",
    SEMI_MARKOV: "semi-Markov loss, decoded as trained",
}
