// Draws signals on a canvas: the grid of seconds with its axis, guides, and the traces of the channels.

import { timeText } from "./words.js";

export const AXIS_HEIGHT = 18;
export const GUIDES = [-37.5, 37.5]; // µV: slow waves of N3 are at least 75 µV from peak to peak
const GRIDS = [[60, 1, 5], [150, 5, 10], [Infinity, 5, 30]]; // views up to so many seconds: fine and strong lines
const MOST_LANES = 2; // a trace may leave its lane by this, so that large waves keep their shape
const TO_MICROVOLT = { V: 1e6, mV: 1e3, uV: 1, nV: 1e-3 };
const UNIT_TEXTS = { uV: "µV", degC: "°C" };

export const unitText = (unit) => UNIT_TEXTS[unit] ?? unit ?? "";

/** Return how many µV one unit is, undefined if it is no voltage. */
export const microvolts = (unit) => TO_MICROVOLT[unit];

/** Paint the backgrounds of the current epoch and of artefacts, lines of seconds, edges of epochs, and the axis with times. */
export function paintGrid(ctx, frame, night, cursor, theme) {
  const { begin, end, bottom } = frame;
  const [, fine, strong] = GRIDS.find(([most]) => end - begin <= most);
  ctx.font = "11px sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  const [left, right] = [cursor, cursor + 1].map((epoch) => frame.xAt(Math.min(end, Math.max(begin, epoch * night.seconds))));
  if (end - begin > night.seconds) {
    ctx.fillStyle = theme.gap;
    ctx.globalAlpha = 0.5;
    ctx.fillRect(left, 0, right - left, bottom);
    ctx.globalAlpha = 1;
  }
  for (let epoch = Math.floor(begin / night.seconds); epoch * night.seconds < end - 1e-9; epoch += 1) {
    if (night.artefact[epoch] !== 1) continue;
    const [from, to] = [epoch, epoch + 1].map((at) => frame.xAt(Math.min(end, Math.max(begin, at * night.seconds))));
    ctx.fillStyle = theme.warn;
    ctx.globalAlpha = 0.2;
    ctx.fillRect(from, 0, to - from, bottom);
    ctx.globalAlpha = 1;
  }
  for (let second = Math.ceil(begin / fine) * fine; second <= end + 1e-9; second += fine) {
    const isStrong = Math.abs(second / strong - Math.round(second / strong)) < 1e-9;
    ctx.globalAlpha = isStrong ? 0.45 : 1;
    ctx.fillStyle = isStrong ? theme.grey : theme.line;
    const x = Math.round(frame.xAt(second));
    ctx.fillRect(x, 0, 1, bottom + (isStrong ? 4 : 0));
    ctx.globalAlpha = 1;
    if (!isStrong) continue;
    ctx.fillStyle = theme.grey;
    ctx.fillText(tickText(night, second), Math.min(Math.max(x, frame.x + 10), frame.x + frame.width - 14), bottom + 11);
  }
  ctx.fillStyle = theme.ink;
  const first = Math.ceil(begin / night.seconds - 1e-9);
  for (let epoch = first; epoch * night.seconds <= end + 1e-9; epoch += 1) {
    const isOwn = epoch === cursor || epoch === cursor + 1;
    ctx.globalAlpha = isOwn ? 1 : 0.5;
    ctx.fillRect(frame.xAt(epoch * night.seconds) - (isOwn ? 0.75 : 0.5), 0, isOwn ? 1.5 : 1, bottom);
  }
  ctx.globalAlpha = 1;
}

/** Return the clock at the beginning of an epoch, and seconds of the epoch elsewhere. */
function tickText(night, second) {
  const inEpoch = second % night.seconds;
  return inEpoch < 1e-9 || night.seconds < 20 ? timeText(night, second) : `${Math.round(inEpoch)} s`;
}

/** Paint dashed lines at ± 37.5 µV in a lane. */
export function paintGuides(ctx, frame, lane, heightOf, theme) {
  ctx.strokeStyle = theme.accent;
  ctx.lineWidth = 1;
  ctx.setLineDash([5, 4]);
  ctx.beginPath();
  for (const guide of GUIDES) {
    const y = Math.round(heightOf(guide)) + 0.5;
    if (Math.abs(y - lane.y) > lane.height / 2) continue; // beyond the lane at this scale
    ctx.moveTo(frame.x, y);
    ctx.lineTo(frame.x + frame.width, y);
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Return the function from a value to its height on the canvas: up is negative if `inverted`. */
export function heights(lane, { middle, scale, inverted }) {
  const half = (lane.height / 2 - 2) * (inverted ? -1 : 1);
  return (value) => lane.y - half * Math.max(-MOST_LANES, Math.min(MOST_LANES, (value - middle) / scale));
}

/** Add the samples of one block to the path: every sample if there is space, else lowest and highest of each pixel. */
export function tracePart(ctx, part, frame, heightOf) {
  const { values, rate, begin } = part;
  const from = Math.max(0, Math.floor((frame.begin - begin) * rate));
  const to = Math.min(values.length, Math.ceil((frame.end - begin) * rate) + 1);
  const perPixel = rate / frame.perSecond;
  let isDown = false;
  const draw = (x, value) => {
    if (!Number.isFinite(value)) isDown = false;
    else if (isDown) ctx.lineTo(x, heightOf(value));
    else {
      ctx.moveTo(x, heightOf(value));
      isDown = true;
    }
  };
  if (perPixel <= 3) {
    for (let i = from; i < to; i += 1) draw(frame.xAt(begin + i / rate), values[i]);
    return;
  }
  for (let i = from; i < to;) {
    const x = Math.floor(frame.xAt(begin + i / rate));
    const stop = Math.min(to, Math.max(i + 1, Math.ceil((frame.secondsAt(x + 1) - begin) * rate)));
    let [low, high] = [Infinity, -Infinity];
    for (let at = i; at < stop; at += 1) {
      const value = values[at];
      if (value < low) low = value;
      if (value > high) high = value;
    }
    draw(x, low === Infinity ? NaN : low);
    draw(x, high === -Infinity ? NaN : high);
    i = stop;
  }
}
