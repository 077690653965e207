// Draws lanes of a stretch of the night on a canvas: stages, shares, quality and marks on one time axis.

import { NO_EVIDENCE } from "./night.js";
import { timeText } from "./words.js";

const CELL_PIXELS = 13; // an epoch at least this wide is a cell with its stage's name
const AXIS_HEIGHT = 20;
const TICK_SECONDS = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600];

/** Return the page's colours for a canvas. */
export function themeOf(night) {
  const style = getComputedStyle(document.documentElement);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ink: read("ink"), grey: read("grey"), line: read("line"), paper: read("paper"), gap: read("gap"),
    accent: read("accent"), warn: read("warn"),
    stages: night ? night.stages.map((stage) => (dark ? stage.dark : stage.colour)) : [] };
}

/** Return the lanes of a night; `height` is in CSS pixels. */
export function lanesOf(night, { cells }) {
  const tall = !night.hasSignals && innerHeight > 820; // signals need the space
  const rows = cells ? (tall ? 24 : 20) : Math.max(tall ? 76 : 50, night.stages.length * 10);
  const shares = tall ? 44 : cells ? 28 : 22;
  const lanes = [];
  const add = (kind, title, values, height, more = {}) => values && lanes.push({ kind, title, values, height, ...more });
  if (!night.blind) add("stages", "Stager", night.stager, rows);
  for (const { scorer, stages } of night.opinions || []) add("stages", shortened(scorer, 9), stages, rows);
  add("stages", night.opinions ? "Consensus" : night.blind ? "You" : "Guard", night.opinions ? night.pins : night.shown, rows, { own: true });
  add("stages", "Expert", night.expert, rows);
  add("shares", "Stager’s", night.probabilities, shares, { about: "probabilities" });
  add("shares", "Posterior", night.posterior, shares);
  add("quality", "Quality", night.quality, tall ? 16 : 11);
  if (night.queue?.epochs.length) add("marks", "To look at", night.queue.epochs, 9);
  return lanes;
}

/** Set the position of each lane below `top`; return the total height, with the axis. */
export function placeLanes(lanes, top, titlesAbove) {
  let y = top;
  for (const lane of lanes) {
    if (titlesAbove && lane.kind !== "marks") y += 14;
    lane.y = y;
    y += lane.height + 7;
  }
  return y + AXIS_HEIGHT;
}

/** A stretch of epochs, and the pixels on which it is drawn. */
export class Span {
  constructor(first, last, x, width) {
    Object.assign(this, { first, last, x, width }); // `last` is exclusive
    this.pixels = width / (last - first);
  }

  at(epoch) {
    return this.x + (epoch - this.first) * this.pixels;
  }

  epochAt(x) {
    const epoch = this.first + Math.floor((x - this.x) / this.pixels);
    return Math.min(this.last - 1, Math.max(this.first, epoch));
  }
}

export function paintLanes(ctx, night, lanes, span, theme, { titlesAbove }) {
  ctx.textBaseline = "middle";
  for (const lane of lanes) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(span.x, lane.y - 6, span.width, lane.height + 12);
    ctx.clip();
    if (lane.kind === "stages") paintStages(ctx, night, lane, span, theme);
    else if (lane.kind === "shares") paintShares(ctx, night, lane, span, theme);
    else if (lane.kind === "quality") paintQuality(ctx, lane, span, theme);
    else paintMarks(ctx, lane, span, theme);
    ctx.restore();
    paintTitle(ctx, night, lane, span, theme, titlesAbove);
  }
}

function paintTitle(ctx, night, lane, span, theme, titlesAbove) {
  ctx.fillStyle = theme.ink;
  ctx.font = `${lane.own ? "600 " : ""}12px sans-serif`;
  ctx.textAlign = "left";
  if (titlesAbove && lane.kind !== "marks") ctx.fillText(titleOf(lane), 2, lane.y - 8);
  else if (!titlesAbove) ctx.fillText(lane.title, 2, lane.y + Math.min(lane.height / 2, 9));
  if (lane.kind === "shares" && !titlesAbove && lane.about) {
    ctx.fillText(lane.about, 2, lane.y + 23, span.x - 6);
  }
  const rows = lane.height / night.stages.length;
  if (lane.kind !== "stages" || span.pixels >= CELL_PIXELS || rows < 9) return;
  ctx.font = "10px sans-serif";
  ctx.textAlign = "right";
  ctx.fillStyle = theme.grey;
  for (const stage of night.stages) {
    ctx.fillText(shortened(stage.name, 6), span.x - 5, lane.y + (stage.row + 0.5) * rows);
  }
}

const titleOf = (lane) => (lane.about ? `${lane.title} ${lane.about}` : lane.title);
const shortened = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

function paintStages(ctx, night, lane, span, theme) {
  ctx.fillStyle = theme.gap;
  if (span.pixels >= CELL_PIXELS) paintCells(ctx, night, lane, span, theme);
  else if (span.pixels >= 0.75) paintSteps(ctx, night, lane, span, theme);
  else paintBinned(ctx, night, lane, span, theme);
  if (lane.own) paintOwnMarks(ctx, night, lane, span, theme);
}

function paintCells(ctx, night, lane, span, theme) {
  ctx.textAlign = "center";
  ctx.font = `600 ${span.pixels < 22 ? 10 : 12}px sans-serif`;
  for (let epoch = span.first; epoch < span.last; epoch += 1) {
    const stage = lane.values[epoch];
    const x = span.at(epoch);
    ctx.fillStyle = stage < 0 ? theme.gap : theme.stages[stage];
    ctx.fillRect(x + 0.5, lane.y, span.pixels - 1, lane.height);
    if (stage < 0) continue;
    ctx.fillStyle = readableOn(theme.stages[stage]);
    const text = shortened(night.stages[stage].name, Math.max(1, Math.floor(span.pixels / 8)));
    ctx.fillText(text, x + span.pixels / 2, lane.y + lane.height / 2 + 1);
  }
}

/** Return black or white, whichever is more readable on a colour. */
export function readableOn(colour) {
  const channels = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  const [red, green, blue] = channels.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000" : "#fff";
}

function paintSteps(ctx, night, lane, span, theme) {
  const rows = lane.height / night.stages.length;
  const thickness = Math.max(3, Math.min(6, rows * 0.55));
  const middle = (stage) => lane.y + (night.stages[stage].row + 0.5) * rows;
  const connectors = []; // x, from, to
  let previous = -1;
  let start = span.first;
  for (let epoch = span.first + 1; epoch <= span.last; epoch += 1) {
    if (epoch < span.last && lane.values[epoch] === lane.values[start]) continue;
    const stage = lane.values[start];
    const x = span.at(start);
    const width = (epoch - start) * span.pixels;
    if (stage < 0) {
      ctx.fillStyle = theme.gap;
      ctx.fillRect(x, lane.y, width, lane.height);
    } else {
      ctx.fillStyle = theme.stages[stage];
      ctx.fillRect(x, middle(stage) - thickness / 2, Math.max(width, 1), thickness);
      if (previous >= 0) {
        connectors.push([x, middle(previous), middle(stage)]);
      }
    }
    previous = stage;
    start = epoch;
  }
  ctx.strokeStyle = theme.grey;
  ctx.lineWidth = 0.6;
  ctx.beginPath();
  for (const [x, from, to] of connectors) {
    ctx.moveTo(x, from);
    ctx.lineTo(x, to);
  }
  ctx.stroke();
}

/** Paint several epochs per pixel: each stage is as opaque as its share of the column. */
function paintBinned(ctx, night, lane, span, theme) {
  const stages = night.stages.length;
  const rows = lane.height / stages;
  const counts = new Float32Array(stages + 1);
  forColumns(span, (x, from, to) => {
    counts.fill(0);
    for (let epoch = from; epoch < to; epoch += 1) counts[lane.values[epoch] + 1] += 1;
    for (let stage = -1; stage < stages; stage += 1) {
      const share = counts[stage + 1] / (to - from);
      if (share === 0) continue;
      ctx.globalAlpha = stage < 0 ? share : 0.25 + 0.75 * share;
      ctx.fillStyle = stage < 0 ? theme.gap : theme.stages[stage];
      if (stage < 0) ctx.fillRect(x, lane.y, 1, lane.height);
      else ctx.fillRect(x, lane.y + night.stages[stage].row * rows + 1, 1, rows - 2);
    }
  });
  ctx.globalAlpha = 1;
}

/** Call `paint(x, from, to)` for each column of pixels with its epochs, at least one. */
function forColumns(span, paint) {
  for (let column = 0; column < span.width; column += 1) {
    const from = Math.min(span.last - 1, span.first + Math.floor(column / span.pixels));
    const to = Math.min(span.last, Math.max(from + 1, span.first + Math.floor((column + 1) / span.pixels)));
    paint(span.x + column, from, to);
  }
}

/** Underline the guard's changes; mark what the scorer set with a notch above, and agreed with by a stroke. */
function paintOwnMarks(ctx, night, lane, span, theme) {
  if (night.opinions) return; // the lane is the consensus, not the guard's
  ctx.fillStyle = theme.accent;
  const below = lane.y + lane.height;
  for (const change of night.changes) {
    if (change.last < span.first || change.first >= span.last) continue;
    const width = (change.last - change.first + 1) * span.pixels;
    ctx.fillRect(span.at(change.first), below + 1, Math.max(width, 1), 3);
  }
  if (night.blind) return;
  ctx.fillStyle = theme.ink;
  for (let epoch = span.first; epoch < span.last; epoch += 1) {
    if (night.pins[epoch] < 0) continue;
    const x = span.at(epoch + 0.5);
    if (night.isAgreed(epoch)) {
      ctx.fillRect(x - 1, lane.y - 6, 2, 5);
      continue;
    }
    ctx.beginPath();
    ctx.moveTo(x - 4, lane.y - 5);
    ctx.lineTo(x + 4, lane.y - 5);
    ctx.lineTo(x, lane.y + 2);
    ctx.fill();
  }
}

function paintShares(ctx, night, lane, span, theme) {
  const stages = night.stages.length;
  const order = night.stages.map((_, stage) => stage).sort((a, b) => night.stages[b].row - night.stages[a].row);
  const sums = new Float64Array(stages);
  const bar = (x, width, from, to) => {
    sums.fill(0);
    let total = 0;
    for (let epoch = from; epoch < to; epoch += 1) {
      if (lane.values[epoch * stages] === NO_EVIDENCE) continue;
      for (let stage = 0; stage < stages; stage += 1) {
        sums[stage] += lane.values[epoch * stages + stage];
        total += lane.values[epoch * stages + stage];
      }
    }
    if (total === 0) {
      ctx.fillStyle = theme.gap;
      ctx.fillRect(x, lane.y, width, lane.height);
      return;
    }
    let bottom = lane.y + lane.height;
    for (const stage of order) {
      const height = (lane.height * sums[stage]) / total;
      ctx.fillStyle = theme.stages[stage];
      ctx.fillRect(x, bottom - height, width, height);
      bottom -= height;
    }
  };
  if (span.pixels < 1) forColumns(span, (x, from, to) => bar(x, 1, from, to));
  else {
    const gap = span.pixels >= CELL_PIXELS ? 1 : -0.3; // narrow bars overlap, to hide the seams between them
    for (let epoch = span.first; epoch < span.last; epoch += 1) {
      bar(span.at(epoch) + Math.max(gap, 0) / 2, span.pixels - gap, epoch, epoch + 1);
    }
  }
}

function paintQuality(ctx, lane, span, theme) {
  ctx.fillStyle = theme.gap;
  ctx.fillRect(span.x, lane.y, span.width, lane.height);
  const bar = (x, width, from, to) => {
    let lowest = 100;
    for (let epoch = from; epoch < to; epoch += 1) lowest = Math.min(lowest, lane.values[epoch]);
    const height = Math.max(1, (lane.height * lowest) / 100);
    ctx.fillStyle = lowest < 50 ? theme.warn : theme.grey;
    ctx.fillRect(x, lane.y + lane.height - height, width, height);
  };
  if (span.pixels < 1) forColumns(span, (x, from, to) => bar(x, 1, from, to));
  else for (let epoch = span.first; epoch < span.last; epoch += 1) bar(span.at(epoch), span.pixels, epoch, epoch + 1);
}

function paintMarks(ctx, lane, span, theme) {
  ctx.fillStyle = theme.warn;
  for (const { first, last } of lane.values) {
    if (last < span.first || first >= span.last) continue;
    ctx.fillRect(span.at(first), lane.y, Math.max(2, (last - first + 1) * span.pixels), lane.height);
  }
}

/** Paint ticks with times below the lanes, and lights off and on if known. */
export function paintAxis(ctx, night, span, bottom, theme, { lights }) {
  const seconds = (span.last - span.first) * night.seconds;
  const step = TICK_SECONDS.find((tick) => (tick / seconds) * span.width >= 66) || 21600;
  const start = span.first * night.seconds + night.clockSeconds;
  ctx.fillStyle = theme.grey;
  ctx.strokeStyle = theme.line;
  ctx.font = "11px sans-serif";
  ctx.textBaseline = "middle";
  for (let tick = Math.ceil(start / step) * step; tick <= start + seconds; tick += step) {
    const x = span.x + ((tick - start) / seconds) * span.width;
    ctx.fillRect(Math.round(x), bottom - AXIS_HEIGHT, 1, 5);
    const text = timeText(night, tick - night.clockSeconds);
    ctx.textAlign = "center";
    if (x < span.x + span.width - 20) ctx.fillText(step < 60 ? text : text.slice(0, -3), x, bottom - 8);
  }
  if (!lights) return;
  ctx.setLineDash([3, 3]);
  ctx.strokeStyle = theme.grey;
  ctx.textBaseline = "top";
  for (const [epoch, text] of [[night.lights_off, "lights off"], [night.lights_on, "lights on"]]) {
    if (epoch === null || epoch === undefined || epoch <= span.first || epoch >= span.last) continue;
    const x = Math.round(span.at(epoch)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, 10);
    ctx.lineTo(x, bottom - AXIS_HEIGHT);
    ctx.stroke();
    ctx.textAlign = x > span.x + span.width - 60 ? "right" : x < span.x + 60 ? "left" : "center";
    ctx.fillText(text, x, 0);
  }
  ctx.setLineDash([]);
}

/** Paint numbered bars of the sleep cycles above the lanes. */
export function paintCycles(ctx, night, span, y, theme) {
  ctx.font = "10px sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  (night.cycles || []).forEach(([first, last], index) => {
    const x = span.at(first);
    const width = span.at(last + 1) - x;
    ctx.fillStyle = theme.line;
    ctx.fillRect(x + 1, y, width - 2, 12);
    ctx.fillStyle = theme.ink;
    if (width > 16) ctx.fillText(width > 60 ? `cycle ${index + 1}` : String(index + 1), x + width / 2, y + 6.5);
  });
}
