"""A night under review as JSON for the page: arrays as base64; sentences count epochs from 1."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import floor, isfinite, isinf, isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats
from stageguard.errors import InputError, StageGuardError, visible
from stageguard.formats.outputs import plain
from stageguard.guard.explain import Change, in_bouts
from stageguard.measures.agreement import agreement
from stageguard.measures.bouts import cuts_of, cycles_of, period_for
from stageguard.measures.statistics import SleepStatistics
from stageguard.measures.validity import Validity, validity_of
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.quantities import NIGHT, indicators_of, quantity_of
from stageguard.night.stages import StageScheme, canonical_name
from stageguard.night.timing import lights_window
from stageguard.report.words import done_words, early_rem_words
from stageguard.review.dispute import Dispute, DisputedStretch
from stageguard.review.journal import MALFORMED, REVIEW_SUFFIX, read_journal
from stageguard.review.night import (
    GuardResult,
    NightUnderReview,
    Revision,
    guard,
    pinned_labels,
    state_after,
)
from stageguard.review.plan import Plan
from stageguard.review.queue import Queue, QueueStretch
from stageguard.review.review import ConflictError, Review
from stageguard.review.scorings import night_of
from stageguard.review.signals import encode_array
from stageguard.review.state import ReviewState
from stageguard.review.targets import LEVEL, Look, short_name, title_of, unit_of

Rows = list[dict[str, Any]]
NO_EVIDENCE = 255
MOST_LOOKS = 40  # that the page gets: after each answer, it gets others
STEPS = 200  # of a probability from 0 to 1, in a byte
# Keys that set a stage. NREM has s, because n goes to the next change.
KEYS = {"W": "w", "N1": "1", "N2": "2", "N3": "3", "R": "r", "N": "s", "S": "s", "Light": "l", "Deep": "d"}
FULL = {"W": "Wake", "R": "REM", "N": "NREM", "S": "Sleep", "Light": "Light sleep", "Deep": "Deep sleep"}


def shares(probabilities: Floats) -> str:
    """Return probabilities as bytes: 200 for probability 1, 255 without evidence."""
    steps = np.where(np.isnan(probabilities), NO_EVIDENCE, np.rint(probabilities * STEPS))
    return encode_array(np.clip(steps, 0, NO_EVIDENCE).astype(np.uint8))


def stages_of(scheme: StageScheme) -> list[dict[str, Any]]:
    """Return each stage with its key, colours and row from the top."""
    known = [canonical_name(name) for name in scheme.names]
    keys = [KEYS.get(name or "", "") for name in known]
    if "" in keys or len(set(keys)) < len(keys):
        keys = [str(place) for place in range(1, len(keys) + 1)]
    rows = top_down(scheme)
    return [
        {
            "name": name,
            "key": key,
            "full": FULL.get(meaning or "", name),
            "wake": name == scheme.wake,
            "rem": name == scheme.rem,
            "colour": stage_shade(scheme, label).light,
            "dark": stage_shade(scheme, label).dark,
            "row": rows.index(label),
        }
        for label, (name, key, meaning) in enumerate(zip(scheme.names, keys, known, strict=True))
    ]


def fixed_part(review: Review, at: Revision) -> dict[str, Any]:
    """Return the part of the state that no action changes; blind scoring hides some of it."""
    night, density = review.night, review.night.density
    off, on = night.statistics.lights
    first, stop = lights_window(night.hypnogram(night.argmax), off, on)
    opinions = () if night.dispute is None else night.dispute.opinions
    hidden: dict[str, Any] = {
        "stager": encode_array(night.argmax),
        "expert": None if night.expert is None else encode_array(night.expert.labels),
        "probabilities": shares(density.probabilities),
    }
    return {
        "epochs": night.n_epochs,
        "epoch_seconds": density.epoch_seconds,
        "start": None if density.start is None else density.start.isoformat(),
        "offset_seconds": density.offset_seconds,
        "lights_off": None if off is None else first,
        "lights_on": None if on is None else stop,
        "stages": stages_of(night.scheme),
        "opinions": [
            {"scorer": one.scorer, "blind": one.is_blind, "stages": encode_array(one.labels)}
            for one in opinions
        ]
        or None,
        **(dict.fromkeys(hidden) if at.state.is_blind else hidden),
    }


def moving_part(review: Review, at: Revision) -> dict[str, Any]:
    """Return the part of the state that actions change, without the slow `queue_part`."""
    state, night, result, settings = at.state, review.night, at.result, at.state.settings
    lost = night.quality_with(state.artefacts)  # 0 clean to 1 lost
    agreed = [epoch for epoch, pin in state.pins.items() if pin.is_agreed]
    answer: dict[str, Any] = {
        "name": night.name,
        "revision": state.revision,
        "pinned": encode_array(pinned_labels(night, state)),
        "agreed": encode_array(_flags(night.n_epochs, agreed)),
        "artefact": encode_array(_flags(night.n_epochs, state.artefacts)),
        "settings": {
            "profile": settings.profile,
            "strength": settings.strength,
            "clock": settings.clock,
            "has_clock": night.profile_for(settings).clock is not None,
            "why": "" if state.is_blind or result.decoding is None else done_words(result.decoding),
            "can_choose": _can_choose(state),
            "assumed": [] if result.decoding is None else list(result.decoding.assumed),
        },
        # the page shows what is left of the signal, in per cent
        "quality": None
        if lost is None
        else encode_array(np.rint(100 * (1 - np.asarray(lost))).astype(np.uint8)),
        "blind": state.is_blind,
        "revealed": state.is_revealed,
        "conflict": None,
        "formats": [{"name": form.name, "about": form.title} for form in review.formats],
        "comparisons": [one.to_dict() for one in review.comparisons],
        "can_undo": bool(state.done),
        "can_redo": bool(state.undone),
        "saved": {"file": str(review.journal.path), "when": review.journal.when},
        "second_scorer": second_scorer(review, at, is_complete=len(state.pins) == night.n_epochs),
        "cycles": None,
    }
    if state.is_blind:
        return answer | dict.fromkeys(("guard", "posterior", "statistics", "indicators", "joint"))
    if result.conflict is not None:
        pins = [epoch for epoch, _ in result.conflict.pins]
        answer["conflict"] = {"text": str(result.conflict), "pins": pins, "relax": []}
    blank = np.full(night.density.probabilities.shape, np.nan)
    posterior = blank if result.posterior is None else result.posterior.probabilities
    answer |= {"guard": encode_array(result.labels), "posterior": shares(posterior)}
    return answer | measures_part(night, state, result)


def _flags(n_epochs: int, epochs: Iterable[int]) -> npt.NDArray[np.int8]:
    """Return 1 in these epochs, 0 in all others."""
    flags = np.zeros(n_epochs, dtype=np.int8)
    flags[list(epochs)] = 1
    return flags


def _can_choose(state: ReviewState) -> bool:
    """Whether the profile's rule may choose another strength for what the scorer has decided since."""
    stages = {epoch: pin.stage for epoch, pin in state.pins.items()}
    chosen = state.settings
    is_same = dict(chosen.strength_pins) == stages and (chosen.strength_artefacts or set()) == state.artefacts
    return not state.is_blind and not is_same


def queue_part(review: Review, at: Revision) -> dict[str, Any]:
    """Return the changes and the stretches that are worth a look."""
    dispute = review.night.dispute
    if at.state.is_blind:
        queued = None if dispute is None else _dispute_queue(review.night, dispute, at.state)
        return {"changes": None, "queue": queued, "early_rem": None, "agreement": None, "plan": None}
    queue, decoding = review.queue(at), at.result.decoding
    plan = review.plan(at) if dispute is None else None
    is_complete = queue.is_finished or len(at.state.pins) == review.night.n_epochs
    return {
        "second_scorer": second_scorer(review, at, is_complete=is_complete),
        "agreement": blind_agreement(review, at),
        "changes": [
            {
                "first": change.first_epoch,
                "last": change.first_epoch + change.n_epochs - 1,
                "text": change_text(change, at.state),
            }
            for change in queue.changes
        ],
        "queue": _queue_state(review, at, queue) | ({} if plan is None else _looks_state(review, at, plan))
        if dispute is None
        else _dispute_queue(review.night, dispute, at.state),
        "plan": None if plan is None else plan_part(plan),
        "early_rem": [] if decoding is None else list(early_rem_words(decoding)),
    }


def _queue_state(review: Review, at: Revision, queue: Queue) -> dict[str, Any]:
    names, argmax, labels = review.night.scheme.names, review.night.argmax, at.result.labels
    rows = [
        _row(one, one.epoch, one.reason, one.text(names, labels, argmax), one.gain_minutes)
        for one in queue.stretches
    ]
    return {
        "epochs": rows,
        "left": len(rows),
        "done": at.state.n_stretches_done,
        "expected_errors": queue.expected_errors,
        "expected_errors_if_done": queue.expected_errors_if_done,
        "note": queue.note,
    }


def _row(
    stretch: QueueStretch | DisputedStretch | Look, epoch: int, reason: str, text: str, gain: float = 0.0
) -> dict[str, Any]:
    where = {"first": stretch.first, "last": stretch.last, "epoch": epoch}
    return where | {"reason": reason, "text": text, "gain_minutes": round(gain, 2)}


def _dispute_queue(night: NightUnderReview, dispute: Dispute, state: ReviewState) -> dict[str, Any]:
    """Return the stretches on which two scorers differ, in order of time; counts are of epochs."""
    names, n_disputed = night.scheme.names, int(dispute.is_disputed.sum())
    rows = []
    for one in dispute.stretches(state.pins):
        pairs = zip(dispute.scorers, one.stages, strict=True)
        said = ", ".join(f"{who} {names[stage]}" for who, stage in pairs)
        rows.append(_row(one, one.first, said, f"{said}."))
    left = dispute.n_left(state.pins)
    counts = {"left": left, "done": n_disputed - left}
    return {"epochs": rows} | counts | dict.fromkeys(("expected_errors", "expected_errors_if_done", "note"))


def _looks_state(review: Review, at: Revision, plan: Plan) -> dict[str, Any]:
    """Return the looks of a plan as a queue."""
    rows = []
    for look in plan.looks[:MOST_LOOKS]:
        stage = review.night.scheme.names[at.result.labels[look.first]]
        nearer = f"{title_of(look.moves)} {look.lowers:.1f}{unit_of(look.moves)} nearer"
        text = f"{_epochs_text(look.first, look.last)}: {stage}. Expected to bring {nearer} to the truth."
        rows.append(_row(look, look.first, f"{stage}: {nearer}", text))
    return {"epochs": rows, "left": len(rows), "done": plan.n_looks}


def _epochs_text(first: int, last: int) -> str:
    return f"Epoch {first + 1}" if first == last else f"Epochs {first + 1} to {last + 1}"


def plan_part(plan: Plan) -> dict[str, Any]:
    """Return how far the targets of a review are."""
    rows = []
    for key, reach in plan.reached.items():
        quantity, start = quantity_of(key), plan.start.get(key, reach)
        rows.append(
            {
                "name": short_name(key),
                "label": title_of(key),
                "title": quantity.title,
                "unit": quantity.short_unit,
                "value": plain(reach.value),
                "low": plain(reach.low),
                "high": plain(reach.high),
                "start_low": plain(start.low),
                "start_high": plain(start.high),
                "target": reach.target,
                "is_met": reach.is_met,
            }
        )
    return {
        "rows": rows,
        "is_met": plan.is_met,
        "withheld": plan.withheld,
        "level": round(100 * LEVEL),
        "text": plan_text(plan),
    }


def plan_text(plan: Plan) -> str:
    """Return the intervals of the targets in one line: ``TST 412–424 min after 14 looks``."""
    parts = []
    for key in plan.targets:
        reach, ends = plan.reached[key], "not known"
        if not isnan(reach.low):
            low, high = (floor(end + 0.5) for end in (reach.low, reach.high))  # as the page rounds
            ends = f"{low}–{high}{unit_of(key)}"
        parts.append(f"{title_of(key)} {ends}")
    looks = "1 look" if plan.n_looks == 1 else f"{plan.n_looks} looks"
    return f"{', '.join(parts)} after {looks}" if parts else ""


def change_text(change: Change, state: ReviewState) -> str:
    """Return a change as one sentence; epochs count from 1."""
    first, last = change.first_epoch, change.first_epoch + change.n_epochs - 1
    when = "" if change.clock is None else f" ({change.clock:%H:%M:%S})"
    margin = change.margin_nats
    cost = "no allowed night keeps it" if isinf(margin) else f"keeping it costs {margin:.1f} nats"
    by = f"by {change.rule}"
    if change.rule == "pin":
        pins = [state.pins[epoch] for epoch in range(first, last + 1) if epoch in state.pins]
        by = "agreed with by a person" if pins and all(pin.is_agreed for pin in pins) else "set by a person"
    stages = f"{in_bouts(change.before)} → {in_bouts(change.after)}"
    return f"{_epochs_text(first, last)}{when}: {stages}, {by}; {cost}."


def conflict_part(error: ConflictError, scheme: StageScheme) -> dict[str, Any]:
    """Return why an action was refused, and the actions to offer instead."""
    blamed = ", ".join(f"{epoch + 1} ({stage})" for epoch, stage in error.error.pins)
    return {
        "text": f"Epochs {blamed} cannot all hold under the profile's shortest bouts and forbidden changes.",
        "pins": [epoch for epoch, _ in error.error.pins],
        "relax": [{"label": each.label, "action": each.action.to_dict(scheme)} for each in error.relax],
    }


def explanation(review: Review, epoch: int) -> dict[str, Any]:
    """Return why an epoch has its stage."""
    at, night = review.now, review.night
    names = (*night.scheme.names, "?")
    label, own = names[at.result.labels[epoch]], names[night.argmax[epoch]]
    pin, told = at.state.pins.get(epoch), None
    changes = review.queue(at).changes
    here = [one for one in changes if one.first_epoch <= epoch < one.first_epoch + one.n_epochs]
    lines = [change_text(change, at.state) for change in here]
    if pin is not None:
        reason = visible(pin.why)
        told = {name: getattr(pin, name) for name in ("stage", "who", "when", "is_agreed")} | {"why": reason}
        by = f"agreed with by {pin.who}" if pin.is_agreed else f"set by {pin.who}"
        lines.insert(0, f"Epoch {epoch + 1} is {label}: {by}{f' ({reason})' if reason else ''}.")
    if not lines:
        why = f"{label}, as the stager decided"
        if label == "?":
            why = "no evidence, and too long a gap to fill"
        elif own == "?":
            why = f"{label}, from its neighbours"
        lines.append(f"Epoch {epoch + 1}: {why}.")
    return {"epoch": epoch, "text": lines, "pin": told}


def whole_state(review: Review, index: int) -> dict[str, Any]:
    """Return the whole state of a night for the page."""
    at = review.now
    return {"index": index} | fixed_part(review, at) | moving_part(review, at) | queue_part(review, at)


def measures_part(night: NightUnderReview, state: ReviewState, result: GuardResult) -> dict[str, Any]:
    """Return statistics, indicators and cycles of stager, guard and expert, and the guard's joint score."""
    profile = night.profile_for(state.settings)
    cuts = () if result.decoding is None else cuts_of(result.decoding)
    scorings = {"stager": night.hypnogram(night.argmax), "guard": night.hypnogram(result.labels)}
    statistics = {
        "stager": night.stager_statistics,
        "guard": night.statistics.measure(scorings["guard"]),
    }
    if night.expert is not None and night.expert_statistics is not None:
        scorings["expert"], statistics["expert"] = night.expert, night.expert_statistics
    decoded = scorings["stager"] if result.decoding is None else result.decoding
    period = period_for(decoded, profile, night.statistics.lights)
    validities = {}
    for name, scoring in scorings.items():
        with suppress(InputError):  # the expert's stages are coarser than the profile's
            validities[name] = validity_of(scoring, profile, period, cuts)
    joint = validities["guard"].joint
    cycles = []
    if not isnan(statistics["guard"].cycles):  # they are defined
        cycles = cycles_of(result.labels, night.scheme, night.density.epoch_seconds)
    return {
        "cycles": [(first, stop - 1) for first, stop in cycles],
        "statistics": _statistic_rows(night, statistics),
        "indicators": _indicator_rows(night, validities),
        "joint": {
            "score": plain(joint.value),
            "cut": plain(joint.high),
            "like_experts": validities["guard"].looks_like_experts,
        },
    }


def _statistic_rows(night: NightUnderReview, statistics: Mapping[str, SleepStatistics]) -> Rows:
    rows = []
    for quantity in sorted(NIGHT, key=lambda quantity: quantity.report_row):
        values = {name: getattr(each, quantity.key) for name, each in statistics.items()}
        about = (quantity.key, quantity.label, quantity.short_unit, quantity.decimals)
        rows.append(_measure_row(*about, values))
    for stage in night.scheme.names:
        values = {name: each.stage_minutes.get(stage, float("nan")) for name, each in statistics.items()}
        rows.append(_measure_row(f"stage_minutes_{stage}", f"Time in {stage}", "min", 1, values))
    return rows


def _indicator_rows(night: NightUnderReview, validities: Mapping[str, Validity]) -> Rows:
    rows = []
    for key, quantity in indicators_of(night.scheme.names).items():
        guard = validities["guard"].indicators[key]
        values = {name: each.indicators[key].value for name, each in validities.items()}
        row = _measure_row(key, quantity.label, quantity.unit, quantity.decimals, values)
        if guard.place != "no band" or isfinite(guard.low):
            row["band"] = [guard.low, guard.high]
            row["inside"] = guard.place == "inside" if guard.place != "no band" else None
        rows.append(row)
    return rows


def _measure_row(
    key: str, label: str, unit: str, decimals: int, values: Mapping[str, float]
) -> dict[str, Any]:
    by_scoring = {name: plain(values.get(name, float("nan"))) for name in ("stager", "guard", "expert")}
    row = {"name": key, "label": label, "unit": unit, "decimals": decimals}
    return row | by_scoring | {"band": None, "inside": None}


def least_epochs(n_epochs: int) -> int:
    """Return how many epochs of a night two scorings must share for kappa to be given: half of them.

    Our choice: a few epochs, perhaps the difficult ones, say nothing about the agreement on a night.
    """
    return (n_epochs + 1) // 2


def second_scorer(review: Review, at: Revision, *, is_complete: bool) -> dict[str, Any] | None:
    """Return another scorer who reviewed this night, and kappa between the two if this review is complete.

    Of several other scorers, it is the one who has decided most epochs. Kappa is over the epochs that both
    have decided: the others have the guard's stages in both reviews.
    """
    others = [] if review.night.dispute is not None else list(_other_scorers(review))
    if not others:
        return None
    scorer, state = max(others, key=lambda other: len(other[1].pins))
    night, states = review.night, (state, at.state)
    both, least = len(states[0].pins.keys() & states[1].pins.keys()), least_epochs(night.n_epochs)
    kappa = float("nan")
    if is_complete and both >= least:
        kappa = agreement(*(night.hypnogram(pinned_labels(night, state)) for state in states)).kappa
    return {
        "scorer": scorer,
        "scored": len(states[0].pins),
        "of": night.n_epochs,
        "both": both,
        "least": least,
        "is_complete": is_complete,
        "kappa": plain(kappa),
    }


def blind_agreement(review: Review, at: Revision) -> dict[str, Any] | None:
    """Return kappa of a revealed blind scoring with stager, guard and expert, if enough was scored blind."""
    night, state = review.night, at.state
    if not state.is_revealed:
        return None
    n_scored, least = len(state.first_pins), least_epochs(night.n_epochs)
    told = {"scored": n_scored, "of": night.n_epochs, "least": least}
    if n_scored < least:
        return told | {"kappa": {}}
    state = replace(state, pins=state.first_pins)  # what was set after revealing is not blind
    scored = night.hypnogram(pinned_labels(night, state), review.scorer)
    compared = {
        "stager": night.hypnogram(night.argmax),
        "guard": night.hypnogram(guard(night, replace(state, pins={})).labels),
        "expert": night.expert,
    }
    kappas = {
        name: plain(agreement(scored, scoring).kappa)
        for name, scoring in compared.items()
        if scoring is not None
    }
    return told | {"kappa": kappas}


def _other_scorers(review: Review) -> Iterator[tuple[str, ReviewState]]:
    """Yield other scorers with journals in the same folder, and their decisions."""
    own, head = review.journal.path, review.journal.head
    for path in sorted(own.parent.glob(f"{glob.escape(review.night.name)}.*{REVIEW_SUFFIX}")):
        if path.name == own.name:
            continue
        try:
            facts = path.stat()
            key = facts.st_size, facts.st_mtime_ns
            if path not in review.others or review.others[path][0] != key:
                journal = read_journal(path)
                keys = ("night", "probabilities", "quality", "options")
                is_scorer = bool(journal.head) and not journal.is_adjudication
                is_same = is_scorer and all(journal.head.get(key) == head[key] for key in keys)
                state = state_after(night_of(review.night, journal), journal) if is_same else None
                review.others[path] = key, None if state is None else (journal.scorer, state)
        except (StageGuardError, OSError, *MALFORMED):  # just being written, or not a review
            continue
        if review.others[path][1] is not None:
            yield review.others[path][1]
