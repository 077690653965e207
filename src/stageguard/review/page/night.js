// One night: the last state from the server, with the scorer's unanswered corrections on top.

import { secondsOfDay } from "./words.js";

export const NO_EVIDENCE = 255;
const STEPS = 200; // probabilities arrive as round(200 p)
const ARRAYS = { stager: Int8Array, guard: Int8Array, expert: Int8Array, pinned: Int8Array, agreed: Int8Array, artefact: Int8Array, quality: Uint8Array,
  probabilities: Uint8Array, posterior: Uint8Array };

export function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export class Night {
  constructor(state) {
    this.pending = []; // actions that are sent or waiting, oldest first
    this.take(state);
  }

  /** Take a state from the server; fields that it lacks are unchanged. */
  take(state) {
    for (const [name, value] of Object.entries(state)) {
      if (!(name in ARRAYS)) this[name] = value;
      else this[name] = value === null ? null : new ARRAYS[name](bytesOf(value).buffer);
    }
    if (state.opinions) {
      this.opinions = state.opinions.map((one) => ({ ...one, stages: new Int8Array(bytesOf(one.stages).buffer) }));
    }
    this.seconds = this.epoch_seconds;
    const clock = secondsOfDay(this.start);
    this.hasClock = clock !== null;
    this.clockSeconds = (clock ?? 0) + (this.offset_seconds || 0);
    this.changes = (this.changes || []).slice().sort((a, b) => a.first - b.first);
    this.overlay();
  }

  /** Apply unanswered corrections at once; `shown` is the lane of the guard, or of a blind scorer. */
  overlay() {
    this.pins = this.pinned ? this.pinned.slice() : new Int8Array(this.epochs).fill(-1);
    this.shown = this.blind || !this.guard ? this.pins.slice() : this.guard.slice();
    for (const action of this.pending) {
      if (action.do === "agree") this.pins.set(action.stages, action.first);
      if (action.do !== "set" && action.do !== "clear") continue;
      const stage = action.do === "set" ? this.stageIndex(action.stage) : -1;
      this.pins.fill(stage, action.first, action.last + 1);
      if (action.do === "set" || this.blind) this.shown.fill(stage, action.first, action.last + 1);
    }
  }

  /** Return the index of a stage; actions that the server offers have the stage's name. */
  stageIndex(stage) {
    return typeof stage === "number" ? stage : this.stages.findIndex(({ name }) => name === stage);
  }

  stageName(stage) {
    return stage === null || stage === undefined || stage < 0 ? "unscored" : this.stages[stage].name;
  }

  /** Return the share of a stage in one epoch of `probabilities` or `posterior`, or null. */
  share(array, epoch, stage) {
    if (!array || stage < 0) return null;
    const value = array[epoch * this.stages.length + stage];
    return value === NO_EVIDENCE ? null : value / STEPS;
  }

  /** Return the change that covers an epoch, or null. */
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

  /** Return the stretch of the queue that covers an epoch, or null. */
  queuedAt(epoch) {
    return (this.queue?.epochs || []).find((entry) => entry.first <= epoch && epoch <= entry.last) || null;
  }

  /** Whether the stage of an epoch is the guard's, and the scorer agreed with it. */
  isAgreed(epoch) {
    return this.pins[epoch] >= 0 && (this.pinned[epoch] < 0 || this.agreed[epoch] === 1);
  }

  /** Number of epochs that the scorer has set or agreed with. */
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
