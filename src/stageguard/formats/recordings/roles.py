"""Find which channel is the EEG, the chin EMG or a belt, by its label."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stageguard.errors import InputError, did_you_mean
from stageguard.units import quantity_of

# Standard places of electrodes (10-20 and its older names), and their references.
_SITE = (
    r"(?:fp[12z]|af[3478z]|f[1-9z]|f10|fc[1-6z]|ft[7-9]|c[1-6z]|cp[1-6z]"
    r"|t[3-9]|t10|tp[7-9]|p[1-8z]|po[3478z]|o[12z])"
)
_REFERENCE = r"(?:m1|m2|a1|a2|m1m2|a1a2|ref|le|avg|ar|cz|oz|pz|fz|fpz|f[34]|c[34]|o[12]|p[34]|t[3-6])"
_EEG = rf"(?:eeg\b.*|eeg ?\d*|{_SITE}(?: ?[-_:/] ?{_REFERENCE})?)"


class Rule(NamedTuple):
    """A role, its labels, the quantity its unit may measure, and labels that are never this role."""

    role: str
    labels: str
    quantity: str = ""
    never: str = r"(?!)"


# Tried in this order: "EMG chin" is not EEG, "EEG ECG" is ECG, "EOG" comes before "E".
RULES = (
    Rule("radar_i", r"radar[ _-]*i\b|^i[ _-]?channel"),
    Rule("radar_q", r"radar[ _-]*q\b|^q[ _-]?channel"),
    Rule("radar_phase", r"radar[ _-]*phase", "angle"),
    Rule("ecg", r"\b(ecg|ekg)|^(ecg|ekg)", "voltage", r"rate|hr\b|qual|stat"),
    Rule("eog", r"eog|\b(loc|roc)\b|^e[12]\b|^(loc|roc)", "voltage"),
    Rule(
        "emg",
        r"emg|chin|submental|mentalis",
        "voltage",
        r"leg|tib|\blat\b|\brat\b|plm|\barm|masseter|inter",
    ),
    Rule("thorax", r"\bthor|^tho\b|thx|\bchest|\bthorac"),
    Rule("abdomen", r"\babd|\bbelly|\babdo"),
    Rule(
        "airflow",
        r"air ?flow|new ?air|^flow|\bflow\b|nasal|cannula|thermist|thermoc|^therm|ptaf",
        "",
        r"snore|rate",
    ),
    Rule("spo2", r"sp ?o2|sa ?o2|^so2|o2 ?sat|osat|oximetry$|^sat\b", "share", r"stat|qual|puls"),
    Rule("heart_rate", r"^h\.? ?r\.?$|heart ?rate|pulse ?rate|^pr$|^pulse$|^bpm$", "rate"),
    Rule("temperature", r"\btemp", "temperature"),
    Rule("counts", r"^activity|^counts?$|actigra", "count"),
    Rule("eeg", rf"^{_EEG}$", "voltage", r"qual|imped|stat"),
)
SLOW_EMG_HZ = 20.0  # below this rate, an EMG channel is the envelope of an EMG
_FIRST_EEG = ("c4", "c3", "f4", "f3", "o2", "o1", "cz", "fpz", "fz", "pz", "oz", "fp2", "fp1")


def guess_roles(channels: Mapping[str, tuple[str, float | None]]) -> dict[str, str]:
    """Return role -> label for channels given as label -> (unit, rate in Hz or None if uneven).

    Several channels of a kind are numbered: "eeg", "eeg_2", ... Central EEG leads come first, then frontal
    and occipital ones; otherwise the order is the file's.
    """
    labels_of: dict[str, list[str]] = {}
    for label, (unit, rate_hz) in channels.items():
        role = _role_of(label, unit)
        if role == "emg" and rate_hz is not None and rate_hz < SLOW_EMG_HZ:
            role = "emg_envelope"
        if role is not None:
            labels_of.setdefault(role, []).append(label)
    roles = {}
    for role, labels in labels_of.items():
        ordered = sorted(labels, key=_eeg_rank) if role == "eeg" else labels
        for number, label in enumerate(ordered, start=1):
            roles[role if number == 1 else f"{role}_{number}"] = label
    return roles


def find_label(wanted: str, labels: Sequence[str], role: str, name: str) -> str | tuple[str, str]:
    """Return the label a caller means: exact, then ignoring case and spaces, then as difference of two."""
    if wanted in labels:
        return wanted
    plain = {_plain(label).replace(" ", ""): label for label in reversed(labels)}
    key = _plain(wanted).replace(" ", "")
    if key in plain:
        return plain[key]
    for dash in (i for i, letter in enumerate(key) if letter == "-"):
        pair = key[:dash], key[dash + 1 :]
        if all(part in plain for part in pair):
            return plain[pair[0]], plain[pair[1]]
    raise InputError(
        f"{name} has no channel {wanted!r} for the role {role!r}; it has: {', '.join(labels)}."
        f"{did_you_mean(wanted, labels)}"
    )


def _role_of(label: str, unit: str) -> str | None:
    plain, quantity = _plain(label), quantity_of(unit)
    for rule in RULES:
        is_named = re.search(rule.labels, plain) and not re.search(rule.never, plain)
        if is_named and (quantity is None or rule.quantity in ("", quantity)):
            return rule.role
    return None


def _plain(label: str) -> str:
    return re.sub(r"^psg[ _]", "", " ".join(label.casefold().replace("'", "").split()))


def _eeg_rank(label: str) -> int:
    """Return the rank of an EEG channel among several; equal ranks keep the file's order."""
    plain = re.sub(r"^eeg[ _-]*", "", _plain(label))
    site = re.match(_SITE, plain)
    if not plain or site is None:
        return 0 if not plain else len(_FIRST_EEG)
    return _FIRST_EEG.index(site[0]) if site[0] in _FIRST_EEG else len(_FIRST_EEG)
