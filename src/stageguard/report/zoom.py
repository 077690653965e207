"""Data for the page's script to draw a part of a long recording epoch by epoch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats, Labels
from stageguard.measures.bouts import bouts_of
from stageguard.night.colours import top_down
from stageguard.report.axis import DAY, Axis
from stageguard.report.lanes import MARKS, bins_of
from stageguard.report.night_panels import NightPicture
from stageguard.report.numbers import duration
from stageguard.report.svg import colour_of, printable, runs

WINDOWS = (60, 300, 600, 1800, 3600, 7200, 21600, 43200, DAY, 2 * DAY, 7 * DAY)  # seconds
FEWEST, USUAL, MOST = 20, 1_000, 3_000  # epochs in a window
MOST_COLUMNS = 100_000  # of probabilities; with more epochs, several share a column
LEVELS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)


def script_data(picture: NightPicture, axis: Axis) -> dict[str, Any]:
    """Return the script's data of a night: positions of epochs, and for a long recording data to zoom."""
    start = (
        None if axis.start is None else axis.start.hour * 3600 + axis.start.minute * 60 + axis.start.second
    )
    return {
        "n": axis.stop,
        "left": axis.frame.left,
        "plot": axis.frame.plot,
        "width": axis.frame.width,
        "seconds": axis.epoch_seconds,
        "offset": axis.offset_seconds if start is None else start,
        "isClock": start is not None,
        "zoom": None if bins_of(axis) is None else _zoom(picture, axis),
    }


def _zoom(picture: NightPicture, axis: Axis) -> dict[str, Any]:
    windows = [
        (duration(seconds), round(seconds / axis.epoch_seconds))
        for seconds in WINDOWS
        if FEWEST <= seconds / axis.epoch_seconds <= MOST
    ] or [(f"{USUAL:,} epochs", USUAL)]
    chosen = max(n for _, n in windows if n <= USUAL or (n == windows[0][1]))
    order = top_down(picture.scheme)[::-1]
    known = ~np.isnan(picture.probabilities[:, 0])
    roofs = np.cumsum(np.where(known[:, None], picture.probabilities, 0.0)[:, order], axis=1)
    return {
        "windows": windows,
        "chosen": chosen,
        "first": _most_changed(picture, chosen),
        "panels": [
            {
                "name": panel.name,
                "stages": [
                    (printable(panel.scheme.names[stage]), colour_of(panel.scheme, stage))
                    for stage in top_down(panel.scheme)
                ],
                "runs": _ranks(panel.labels, top_down(panel.scheme)),
            }
            for panel in picture.panels
        ],
        "changed": [(first, end - first) for first, end, flag in runs(picture.changed) if flag],
        "strip": {"colours": [colour_of(picture.scheme, stage) for stage in order], **_levels(roofs)},
        "quality": None if picture.quality is None else _levels(picture.quality[:, None]),
        "marks": [(mark.epoch, mark.kind) for mark in picture.marks],
        "shapes": MARKS,
        "events": [
            {
                "name": printable(lane.name),
                "spans": np.round(np.stack((lane.begins, lane.lasts), axis=1), 2).tolist(),
            }
            for lane in picture.events
        ],
    }


def _most_changed(picture: NightPicture, n_epochs: int) -> int:
    """Return the beginning of the window with most changes, among adjacent windows."""
    begins = np.arange(0, len(picture.changed), n_epochs)
    return int(begins[np.add.reduceat(picture.changed, begins, dtype=np.int64).argmax()])


def _ranks(labels: Labels, order: list[int]) -> list[int]:
    """Return rank from the top (-1 where unscored) and length of each run, in one flat list."""
    bouts = bouts_of(labels)
    ranks = np.append(np.argsort(order), -1)[bouts.stages]  # index -1 (unscored) is the last
    pairs: list[int] = np.stack((ranks, bouts.lengths), axis=1).ravel().tolist()
    return pairs


def _levels(values: Floats) -> dict[str, Any]:
    """Return numbers from 0 to 1 as one letter each; of many, the means of neighbours."""
    step = math.ceil(len(values) / MOST_COLUMNS)
    edges = np.arange(0, len(values), step)
    means = np.add.reduceat(values, edges, axis=0) / np.diff(np.append(edges, len(values)))[:, None]
    letters = LEVELS[np.rint((len(LEVELS) - 1) * np.clip(means, 0, 1)).astype(int)]
    return {"step": step, "levels": letters.tobytes().decode()}
