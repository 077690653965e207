"""Take what cross-validation chose, or step aside, and say why. Evaluates nothing."""

from __future__ import annotations

from stageguard.fitting.candidates import ARGMAX
from stageguard.fitting.cross_validation import Criterion, HeldOut, Selection, Status
from stageguard.fitting.document import Choice
from stageguard.fitting.learning_curve import LearningCurve

_DROPPED: dict[Status, str] = {
    "no kappa to judge by": "have no kappa, the experts' nights being of one stage",
    "agrees by chance": "agree with the experts hardly more than by chance",
    "kappa below argmax": "fall below argmax's cross-validated kappa",
    "accuracy below argmax": "below its accuracy",
    "gain within its error": "do not surely gain",
    "not surely better": "are not surely better than that",
}


def decide(
    picked: Selection, nested: HeldOut | None, curve: LearningCurve | None, criterion: Criterion
) -> Choice:
    """Take the choice, unless the nights held out from it say that choosing so does harm."""
    chosen = picked.chosen
    if chosen == ARGMAX:
        rest = [row.status for row in picked.rows if row.candidate != ARGMAX]
        counted = (f"{rest.count(status)} {words}" for status, words in _DROPPED.items() if status in rest)
        why = f"of {len(rest)} other candidates {', '.join(counted) or 'none can be judged'}"
        return Choice(ARGMAX, f"It steps aside: {why}.", picked, nested, curve, criterion)
    if nested is not None:
        gain, error = nested.gain()
        if gain + error < 0:
            why = f"on nights held out from the choosing kappa changes by {gain:+.3f} (error {error:.3f})"
            return Choice(ARGMAX, f"It steps aside: {why}.", picked, nested, curve, criterion)
    own = next(row for row in picked.rows if row.status == "chosen")
    first = picked.rows[0]
    reason = (
        f"{chosen.name[0].upper()}{chosen.name[1:]}: cross-validated kappa {own.kappa:.3f} against "
        f"{first.kappa:.3f} of argmax, distance to the experts' fragmentation index {own.fi_distance:.3f} "
        f"against {first.fi_distance:.3f}, errors of sleep statistics {own.error:.2f} times argmax's."
    )
    return Choice(chosen, reason, picked, nested, curve, criterion)
