// One night as the server last told it, with the scorer's unanswered corrections laid over it.

import { secondsOfDay } from "./words.js";

export const NO_EVIDENCE = 255;
const STEPS = 200; // probabilities arrive as round(200 p)
const ARRAYS = { stager: Int8Array, guard: Int8Array, expert: Int8Array, pinned: Int8Array, quality: Uint8Array,
  probabilities: Uint8Array, posterior: Uint8Array };

export function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export class Night {
  constructor(state) {
    this.pending = []; // actions sent or waiting, oldest first
    this.take(state);
  }

  /** Take a state of the server; what it leaves out has not changed. */
  take(state) {
    for (const [name, value] of Object.entries(state)) {
      if (!(name in ARRAYS)) this[name] = value;
      else this[name] = value === null ? null : new ARRAYS[name](bytesOf(value).buffer);
    }
    this.seconds = this.epoch_seconds;
    const clock = secondsOfDay(this.start);
    this.hasClock = clock !== null;
    this.clockSeconds = (clock ?? 0) + (this.offset_seconds || 0);
    this.changes = (this.changes || []).slice().sort((a, b) => a.first - b.first);
    this.overlay();
  }

  /** Draw unanswered corrections at once: `shown` is the guard's (or, blind, the scorer's own) lane. */
  overlay() {
    this.pins = this.pinned ? this.pinned.slice() : new Int8Array(this.epochs).fill(-1);
    this.shown = this.blind || !this.guard ? this.pins.slice() : this.guard.slice();
    for (const action of this.pending) {
      if (action.do !== "set" && action.do !== "clear") continue;
      const stage = action.do === "set" ? this.stageIndex(action.stage) : -1;
      this.pins.fill(stage, action.first, action.last + 1);
      if (action.do === "set" || this.blind) this.shown.fill(stage, action.first, action.last + 1);
    }
  }

  /** The server also names a stage where it says what could be done. */
  stageIndex(stage) {
    return typeof stage === "number" ? stage : this.stages.findIndex(({ name }) => name === stage);
  }

  stageName(stage) {
    return stage === null || stage === undefined || stage < 0 ? "unscored" : this.stages[stage].name;
  }

  /** Share of a stage in one epoch of `probabilities` or `posterior`; null where there is none. */
  share(array, epoch, stage) {
    if (!array || stage < 0) return null;
    const value = array[epoch * this.stages.length + stage];
    return value === NO_EVIDENCE ? null : value / STEPS;
  }

  /** The change that covers an epoch, or null. */
  changeAt(epoch) {
    let low = 0;
    let high = this.changes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.changes[middle].first <= epoch) low = middle + 1;
      else high = middle;
    }
    const change = this.changes[low - 1];
    return change && change.last >= epoch ? change : null;
  }

  /** The stretch of the queue that covers an epoch, or null. */
  queuedAt(epoch) {
    return (this.queue?.epochs || []).find((entry) => entry.first <= epoch && epoch <= entry.last) || null;
  }

  /** Scored epochs of the scorer's own, for blind scoring. */
  get scored() {
    return this.pins.reduce((sum, stage) => sum + (stage >= 0), 0);
  }

  nextUnscored(from, step) {
    for (let epoch = from + step; epoch >= 0 && epoch < this.epochs; epoch += step) {
      if (this.pins[epoch] < 0) return epoch;
    }
    return null;
  }
}
