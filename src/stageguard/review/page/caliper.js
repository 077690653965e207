// The cursor and the caliper on the signals: time and value under the mouse; length, height and frequency of a stretch.

import { microvolts, unitText } from "./traces.js";
import { byId, numberText, timeText } from "./words.js";

const LEAST_SHARE = 0.15; // of the height, by which a wave must leave the mean to count
const DRAG_PIXELS = 4; // a shorter drag is a press, which drops the selection

/** Return the samples of a channel's parts between two seconds as [second, value] in order, without gaps. */
function samplesBetween(parts, begin, end) {
  const found = [];
  for (const { values, rate, begin: start } of parts) {
    const from = Math.max(0, Math.ceil((begin - start) * rate - 1e-6));
    const to = Math.min(values.length - 1, Math.floor((end - start) * rate + 1e-6));
    for (let i = from; i <= to; i += 1) if (Number.isFinite(values[i])) found.push([start + i / rate, values[i]]);
  }
  return found;
}

/**
 * Return the frequency by crossings of the mean: half of those after the first, per second between first and last.
 * A crossing counts once the trace is `least` beyond the mean, so that small fast waves on a slow one do not count.
 */
function crossingFrequency(samples, mean, least) {
  let [side, crossed, first, last, count] = [0, null, null, null, 0];
  samples.forEach(([second, value], i) => {
    const [before, previous] = samples[Math.max(0, i - 1)];
    if ((previous < mean) !== (value < mean)) crossed = before + ((second - before) * (mean - previous)) / (value - previous);
    if (Math.abs(value - mean) < least || Math.sign(value - mean) === side) return;
    if (side !== 0 && crossed !== null) {
      last = crossed;
      first ??= last;
      count += 1;
    }
    side = Math.sign(value - mean);
  });
  return count > 1 ? (count - 1) / 2 / (last - first) : null;
}

/** Measure a stretch of one channel: seconds, peak to peak in µV (or the channel's unit), frequencies in Hz. */
export function measure(channel, parts, begin, end) {
  const samples = samplesBetween(parts, begin, end);
  const seconds = end - begin;
  if (!samples.length) return { seconds, height: null, unit: "", perDuration: 1 / seconds, byCrossings: null };
  let [low, high, sum] = [Infinity, -Infinity, 0];
  for (const [, value] of samples) {
    low = Math.min(low, value);
    high = Math.max(high, value);
    sum += value;
  }
  const micro = microvolts(channel.unit);
  return { seconds, height: (high - low) * (micro ?? 1), unit: micro ? "µV" : unitText(channel.unit), perDuration: 1 / seconds,
    byCrossings: channel.is_reduced ? null : crossingFrequency(samples, sum / samples.length, LEAST_SHARE * (high - low)) };
}

export class Caliper {
  constructor(desk) {
    this.desk = desk;
    this.signals = desk.signals;
    this.anchor = null; // second at which the keyboard began a measure
    this.listen();
  }

  listen() {
    const { signals } = this;
    const canvas = signals.stack.over;
    let grip = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (!signals.frame?.lanes.length || event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      grip = { x: event.offsetX, seconds: signals.frame.secondsAt(event.offsetX), lane: signals.frame.laneAt(event.offsetY) };
      this.anchor = null;
      signals.select(null);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!signals.frame?.lanes.length) return;
      const seconds = signals.frame.secondsAt(event.offsetX);
      signals.pointAt({ seconds, lane: grip ? grip.lane : signals.frame.laneAt(event.offsetY) });
      if (grip && Math.abs(event.offsetX - grip.x) >= DRAG_PIXELS) signals.select({ begin: grip.seconds, end: seconds, lane: grip.lane });
    });
    canvas.addEventListener("pointerup", () => {
      grip = null;
      this.tell();
    });
    canvas.addEventListener("pointercancel", () => {
      grip = null; // the finger scrolls the page instead
    });
    canvas.addEventListener("pointerleave", () => signals.pointAt(null));
  }

  /** Move the cursor by seconds or lanes, from the middle of the view at first. */
  step(seconds, lanes = 0) {
    const { signals } = this;
    const { frame } = signals;
    if (!frame?.lanes.length) return;
    const at = signals.pointer ?? { seconds: (frame.begin + frame.end) / 2, lane: 0 };
    const lane = Math.min(frame.lanes.length - 1, Math.max(0, at.lane + lanes));
    const to = Math.round((Math.min(frame.end, Math.max(frame.begin, at.seconds)) + seconds) * 1000) / 1000;
    signals.pointAt({ seconds: Math.min(frame.end, Math.max(frame.begin, to)), lane });
    if (this.anchor !== null) {
      signals.select({ begin: this.anchor, end: signals.pointer.seconds, lane });
      this.tell();
    }
    byId("measured").textContent ||= this.readout();
    this.desk.draw();
  }

  /** Begin a measure at the cursor, or end it. */
  toggle() {
    if (!this.signals.pointer) this.step(0);
    const { pointer } = this.signals;
    if (!pointer) return;
    if (this.anchor === null) this.signals.select(null);
    this.anchor = this.anchor === null ? pointer.seconds : null;
    this.desk.draw();
  }

  open() {
    this.anchor = null;
  }

  // ---- on the canvas

  paint(ctx, frame, theme) {
    const { pointer, selection } = this.signals;
    byId("readout").textContent = this.readout();
    if (selection) paintSelection(ctx, frame, selection, theme);
    if (!pointer || pointer.seconds < frame.begin || pointer.seconds > frame.end) return;
    ctx.fillStyle = theme.accent;
    ctx.fillRect(Math.round(frame.xAt(pointer.seconds)), 0, 1, frame.bottom);
    const value = this.valueAt(pointer);
    if (value === null) return;
    ctx.beginPath();
    ctx.arc(frame.xAt(pointer.seconds), this.signals.heightOf(pointer.lane, value), 3, 0, 2 * Math.PI);
    ctx.fill();
  }

  valueAt({ seconds, lane }) {
    const { parts, channel } = this.signals.laneParts(lane);
    for (const { values, rate, begin } of parts) {
      const index = Math.round((seconds - begin) * rate);
      if (index >= 0 && index < values.length && Number.isFinite(values[index])) return channel ? values[index] : null;
    }
    return null;
  }

  /** Time, channel and value under the cursor. */
  readout() {
    const { signals } = this;
    const { pointer, frame } = signals;
    if (!pointer || !frame || !frame.lanes[pointer.lane]) return "";
    const { channel } = signals.laneParts(pointer.lane);
    const value = this.valueAt(pointer);
    const micro = microvolts(channel?.unit);
    const text = value === null ? "no signal" : `${numberText(value * (micro ?? 1), 1)} ${micro ? "µV" : unitText(channel.unit)}`;
    const whole = Math.floor(pointer.seconds + 1e-9);
    const hundredths = Math.min(99, Math.floor((pointer.seconds - whole) * 100 + 1e-6));
    return `${timeText(this.desk.night, whole)}.${String(hundredths).padStart(2, "0")}, ${frame.lanes[pointer.lane].name} ${text}`;
  }

  /** Say what the selected stretch measures. */
  tell() {
    const { selection } = this.signals;
    byId("measured").textContent = selection ? this.inWords(selection) : "";
  }

  inWords({ begin, end, lane }) {
    const { parts, channel } = this.signals.laneParts(lane);
    if (!channel) return "";
    const { seconds, height, unit, perDuration, byCrossings } = measure(channel, parts, begin, end);
    const words = [`${numberText(seconds, 2)} s`, height === null ? "no signal" : `${numberText(height, 1)} ${unit} peak to peak`,
      `1/duration ${numberText(perDuration, 2)} Hz`];
    if (byCrossings !== null) words.push(`by crossings ${numberText(byCrossings, 2)} Hz`);
    return `${this.signals.frame.lanes[lane].name}: ${words.join(", ")}`;
  }
}

function paintSelection(ctx, frame, { begin, end, lane }, theme) {
  const [x, right] = [frame.xAt(Math.max(begin, frame.begin)), frame.xAt(Math.min(end, frame.end))];
  const { y, height } = frame.lanes[lane] ?? { y: frame.bottom / 2, height: frame.bottom };
  if (right < x) return; // on another page
  ctx.fillStyle = theme.accent;
  ctx.globalAlpha = 0.1;
  ctx.fillRect(x, 0, right - x, frame.bottom);
  ctx.globalAlpha = 0.16;
  ctx.fillRect(x, y - height / 2, right - x, height);
  ctx.globalAlpha = 1;
  for (const edge of [x, right]) ctx.fillRect(Math.round(edge), 0, 1, frame.bottom);
}
