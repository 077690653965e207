// The two pictures of the night: the overview with a window on it, and the detail around the current epoch.

import { lanesOf, paintAxis, paintCycles, paintLanes, placeLanes, Span, themeOf } from "./lanes.js";
import { byId, count } from "./words.js";
import { paintSpectrogram, SPECTROGRAM_HEIGHT } from "./spectrogram.js";

const RIGHT = 10;
const NARROW = 560; // below this width, titles are above the lanes

/** A base canvas, drawn when the night changes, and one above it, drawn at each move. */
export class Stack {
  constructor(box) {
    this.box = box;
    this.canvases = box.querySelectorAll("canvas");
    [this.base, this.over] = this.canvases;
  }

  get width() {
    return this.box.clientWidth;
  }

  get narrow() {
    return this.width < NARROW;
  }

  get left() {
    return this.narrow ? 40 : 92;
  }

  resize(height) {
    this.box.style.height = `${height}px`;
    for (const canvas of this.canvases) fitCanvas(canvas, this.width, height);
    this.height = height;
  }

  clear(canvas) {
    const ctx = canvas.getContext("2d");
    ctx.clearRect(0, 0, this.width, this.height);
    return ctx;
  }
}

export function fitCanvas(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const [pixels, lines] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== pixels || canvas.height !== lines) {
    canvas.width = pixels;
    canvas.height = lines;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
}

export class Overview {
  constructor(desk) {
    this.desk = desk;
    this.stack = new Stack(byId("overview"));
    this.spectrogram = null;
    this.listen();
  }

  refresh() {
    const { stack } = this;
    const { night } = this.desk;
    this.theme = themeOf(night);
    const isStrip = this.desk.layout.isFolded("overview");
    const picture = this.picture((lane) => !isStrip || lane.own || lane.kind === "marks", isStrip);
    stack.resize(picture.height);
    Object.assign(this, { top: picture.top, span: picture.span, lanesBottom: picture.height - 20 });
    this.own = picture.lanes.find((lane) => lane.own);
    picture.paint(stack.clear(stack.base));
    stack.base.setAttribute("aria-label", this.inWords(night, picture.lanes));
  }

  /** Place the lanes that `isShown` keeps; a strip has nothing else. */
  picture(isShown, isStrip = false) {
    const { stack, theme } = this;
    const { night } = this.desk;
    const hasTop = (night.cycles || []).length > 0 || night.lights_off !== null || night.lights_on !== null;
    const lanes = lanesOf(night, { cells: false }).filter(isShown);
    const top = hasTop && !isStrip ? 30 : 8;
    const spectrogram = isStrip ? null : this.spectrogram;
    const height = placeLanes(lanes, top, stack.narrow) + (spectrogram ? SPECTROGRAM_HEIGHT + 7 : 0);
    const span = new Span(0, night.epochs, stack.left, Math.max(50, stack.width - stack.left - RIGHT));
    const paint = (ctx) => {
      paintLanes(ctx, night, lanes, span, theme, { titlesAbove: stack.narrow });
      if (spectrogram) paintSpectrogram(ctx, spectrogram, span, height - 20 - SPECTROGRAM_HEIGHT, theme);
      if (!isStrip) paintCycles(ctx, night, span, 13, theme);
      paintAxis(ctx, night, span, height, theme, { lights: !isStrip });
    };
    return { width: stack.width, height, top, lanes, span, paint };
  }

  inWords(night, lanes) {
    const titles = lanes.map((lane) => lane.title).join(", ");
    const changed = night.changes.reduce((sum, change) => sum + change.last - change.first + 1, 0);
    const told = night.blind ? "Blind scoring" : `The guard changed ${count(changed, "epoch")}`;
    return `Whole night of ${count(night.epochs, "epoch")}; lanes: ${titles}. ${told}.`;
  }

  move() {
    const { desk, stack, span, theme } = this;
    const ctx = stack.clear(stack.over);
    const [from, to] = desk.window;
    const top = this.top - 6;
    const height = this.lanesBottom - top;
    paintPending(ctx, desk.night, this.own, span, theme);
    const [x, width] = [span.at(from), Math.max(6, (to - from) * span.pixels)];
    ctx.fillStyle = theme.accent;
    ctx.globalAlpha = 0.13;
    ctx.fillRect(x, top, width, height);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(x, top, width, height);
    paintSelection(ctx, desk, span, top, height, theme);
    ctx.fillStyle = theme.ink;
    ctx.fillRect(span.at(desk.cursor + 0.5) - 1, top - 4, 2, height + 8);
  }

  /** Pressing on the window drags it; pressing elsewhere goes there. */
  listen() {
    const { desk } = this;
    const canvas = this.stack.over;
    let grip = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (!desk.night) return;
      const epoch = this.span.epochAt(event.offsetX);
      const [from, to] = desk.window;
      grip = { offset: epoch - from, x: event.offsetX, dragged: false, inside: epoch >= from && epoch < to };
      canvas.setPointerCapture(event.pointerId);
      if (!grip.inside) desk.moveTo(epoch, { centre: true });
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!grip) return;
      if (Math.abs(event.offsetX - grip.x) > 3) grip.dragged = true;
      if (!grip.dragged) return;
      const epoch = this.span.epochAt(event.offsetX);
      if (grip.inside) desk.dragWindow(epoch - grip.offset);
      else desk.moveTo(epoch, { centre: true });
    });
    canvas.addEventListener("pointerup", (event) => {
      if (grip && grip.inside && !grip.dragged) desk.moveTo(this.span.epochAt(event.offsetX));
      grip = null;
    });
  }
}

export class Detail {
  constructor(desk) {
    this.desk = desk;
    this.stack = new Stack(byId("detail"));
    this.listen();
  }

  refresh() {
    this.theme = themeOf(this.desk.night);
    this.drawn = null;
  }

  move() {
    const { desk, stack } = this;
    if (desk.layout.isFolded("detail")) return;
    const [from, to] = desk.window;
    const key = `${from} ${to}`;
    if (this.drawn !== key || desk.night.pending.length || this.hadPending) this.paint(from, to);
    this.drawn = key;
    this.hadPending = desk.night.pending.length > 0;
    const { span, theme } = this;
    const ctx = stack.clear(stack.over);
    const height = stack.height - 20 - this.top + 8;
    paintSelection(ctx, desk, span, this.top - 6, height, theme);
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = 2;
    ctx.strokeRect(span.at(desk.cursor) - 1, this.top - 6, Math.max(span.pixels, 2) + 2, height);
  }

  paint(from, to) {
    const { stack, theme } = this;
    const { night } = this.desk;
    const lanes = lanesOf(night, { cells: true });
    this.top = 8;
    stack.resize(placeLanes(lanes, this.top, stack.narrow));
    this.span = new Span(from, to, stack.left, Math.max(50, stack.width - stack.left - RIGHT));
    const ctx = stack.clear(stack.base);
    paintLanes(ctx, night, lanes, this.span, theme, { titlesAbove: stack.narrow });
    paintAxis(ctx, night, this.span, stack.height, theme, { lights: false });
    stack.base.setAttribute("aria-label", `Epochs ${from + 1} to ${to} of ${night.epochs}.`);
  }

  /** Pressing goes to an epoch; dragging (or holding shift) selects a stretch. */
  listen() {
    const { desk } = this;
    const canvas = this.stack.over;
    let start = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (!desk.night) return;
      const epoch = this.span.epochAt(event.offsetX);
      canvas.setPointerCapture(event.pointerId);
      start = event.shiftKey ? (desk.anchor ?? desk.cursor) : epoch;
      desk.anchor = event.shiftKey ? start : null;
      desk.moveTo(epoch, { stay: true });
    });
    canvas.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const epoch = this.span.epochAt(event.offsetX);
      if (epoch === desk.cursor) return;
      desk.anchor = start;
      desk.moveTo(epoch, { stay: true });
    });
    canvas.addEventListener("pointerup", () => {
      start = null;
    });
  }
}

function paintSelection(ctx, desk, span, top, height, theme) {
  if (desk.anchor === null) return;
  const [first, last] = desk.selected;
  ctx.fillStyle = theme.accent;
  ctx.globalAlpha = 0.3;
  ctx.fillRect(span.at(first), top, Math.max(2, (last - first + 1) * span.pixels), height);
  ctx.globalAlpha = 1;
}

/** Paint corrections that the server has not answered yet on top of the old picture. */
function paintPending(ctx, night, lane, span, theme) {
  const rows = lane.height / night.stages.length;
  for (const action of night.pending) {
    if (action.do !== "set") continue;
    const x = span.at(action.first);
    const width = Math.max(2, (action.last - action.first + 1) * span.pixels);
    ctx.fillStyle = theme.paper;
    ctx.fillRect(x, lane.y, width, lane.height);
    const stage = night.stageIndex(action.stage);
    ctx.fillStyle = theme.stages[stage];
    ctx.fillRect(x, lane.y + night.stages[stage].row * rows, width, rows);
  }
}
