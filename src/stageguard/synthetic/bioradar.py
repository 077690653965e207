"""The echo of a sleeper in a radar's beam: I and Q of breathing, heartbeat and movement."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats, Floats32
from stageguard.night.recording import Signal
from stageguard.synthetic.body import BREATH_HZ, TURN_SIZE, Body, body_of
from stageguard.synthetic.events import Event, Simulated, scatter_events, simulated
from stageguard.synthetic.hypnograms import Night
from stageguard.synthetic.noise import drift, moments, stream
from stageguard.synthetic.people import Sleeper

RATE_HZ = 50.0
CARRIER_HZ = 3.8e9  # middle of the band of SLEEPBRL's radar
LIGHT_SPEED = 299_792_458.0
CHEST_MM = (4.0, 8.0)  # way of the chest wall in a breath
PULSE_MM = (0.20, 0.45)  # in a heartbeat
MOVE_MM_PER_G = 60.0  # a movement of so much at the wrist moves the body so far
POSTURE_MM = 30.0  # a turn in bed

# Share of a stage's epochs that look like another stage. The radar sees breath and movement from afar, and
# staging from it is the hardest of the four: set to be as hard as in the paper (studies/simulator).
ALIKE = {
    "W": {"N2": 0.15, "R": 0.11},
    "N1": {"W": 0.12, "R": 0.13},
    "N2": {"W": 0.06, "R": 0.115},
    "N3": {"W": 0.033, "R": 0.052},
    "R": {"W": 0.095, "N2": 0.17},
}
LINGER = 0.15


def simulate(night: Night, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return the night of somebody in front of a radar."""
    truth = night.hypnogram
    seconds = truth.n_epochs * truth.epoch_seconds
    body = body_of(truth, sleeper, seed, ALIKE, LINGER)
    rng = stream(seed, "radar", sleeper.number)
    way = _way(rng, body, round(seconds * RATE_HZ))
    i, q = _echo(rng, way)
    events = scatter_events(
        stream(seed, "events", sleeper.number), "sensor loss", "", seconds, 0.12, (30, 300)
    )
    events += scatter_events(
        stream(seed, "bursts", sleeper.number), "interference", "", seconds, 0.15, (5, 40)
    )
    for event in events:
        _disturb(stream(seed, f"noise {event.start_seconds}", sleeper.number), event, i, q)
    signals = {"radar_i": Signal("radar_i", i, RATE_HZ), "radar_q": Signal("radar_q", q, RATE_HZ)}
    return simulated(name, signals, night, sleeper, events + body.apnoeas)


def _way(rng: np.random.Generator, body: Body, n: int) -> Floats:
    """Return the distance of the body's surface from where it was, in mm."""
    breath, beats, move = body.breath, body.beats, body.move
    times = moments(n, RATE_HZ)
    slow_times = moments(len(breath.phase), BREATH_HZ)
    chest = rng.uniform(*CHEST_MM) / 2 * breath.depth * breath.effort * breath.wave
    way = np.interp(times, slow_times, chest)
    pulse = np.interp(times, beats, np.arange(len(beats)))
    way += rng.uniform(*PULSE_MM) / 2 * np.sin(2 * np.pi * pulse)
    moving = np.interp(times, np.arange(len(move)) + 0.5, move)
    way += MOVE_MM_PER_G * moving * drift(rng, n, 0.5 * RATE_HZ)
    turns = np.flatnonzero(move > TURN_SIZE)
    turns = turns[np.diff(turns, prepend=-10) > 5]
    shift = np.zeros(n)
    for at in turns:  # within two seconds to another place
        first = min(round(at * RATE_HZ), n - 1)
        length = min(round(2 * RATE_HZ), n - first)
        step = rng.normal(0, POSTURE_MM)
        shift[first : first + length] += step * np.linspace(0, 1, length)
        shift[first + length :] += step
    return np.asarray(way + shift)


def _echo(rng: np.random.Generator, way: Floats) -> tuple[Floats32, Floats32]:
    """Return I and Q of a direct-conversion receiver: an arc around the echo of the room, and noise."""
    phase = 4 * np.pi * CARRIER_HZ / LIGHT_SPEED * way / 1000 + rng.uniform(0, 2 * np.pi)
    size = rng.uniform(0.6, 1.2)
    room = rng.normal(0, 1.0, 2)
    noise = rng.normal(0, 0.012, (2, len(way)))
    i, q = size * np.cos(phase) + room[0] + noise[0], size * np.sin(phase) + room[1] + noise[1]
    return i.astype(np.float32), q.astype(np.float32)


def _disturb(rng: np.random.Generator, event: Event, i: Floats32, q: Floats32) -> None:
    samples = event.samples(RATE_HZ, len(i))
    for signal in (i, q):
        if event.kind == "sensor loss":
            signal[samples] = 0.0
        else:
            signal[samples] += rng.normal(0, 6.0, samples.stop - samples.start).astype(np.float32)
