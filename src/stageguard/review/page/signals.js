// The signals around the current epoch, fetched ahead in blocks so that moving need not wait.

import { bytesOf } from "./night.js";
import { get } from "./server.js";
import { byId, make, numberText, option } from "./words.js";
import { themeOf } from "./lanes.js";
import { fitCanvas } from "./timeline.js";
import { pictureOf } from "./spectrogram.js";

const BLOCK = 8; // epochs to fetch at a time
const KEPT = 16; // blocks to keep
const LANE_HEIGHT = 58;
const SCALES = [10, 20, 35, 50, 75, 100, 150, 200, 350, 500, 1000]; // µV from the middle of a lane to its edge
const TO_MICROVOLT = { V: 1e6, mV: 1e3, uV: 1, "µV": 1, "μV": 1, nV: 1e-3 };
const CHOICES = [
  { id: "low", title: "High-pass", hertz: [0.1, 0.3, 0.5, 1, 10], first: "0.3" },
  { id: "high", title: "Low-pass", hertz: [15, 30, 35, 70], first: "35" },
  { id: "notch", title: "Notch", hertz: [50, 60], first: "" },
];

export class Signals {
  constructor(desk, overview) {
    this.desk = desk;
    this.overview = overview;
    this.blocks = new Map(); // block number -> { channels } or { waiting } or { error }, least recent first
    this.chosen = null; // channel names, null for the montage
    this.montage = "";
    this.scaleAt = null; // index in SCALES, null for automatic
    this.makeControls();
    byId("channel-choice").addEventListener("toggle", () => desk.draw());
  }

  makeControls() {
    const again = () => {
      this.forget();
      this.desk.draw(true);
    };
    const labelled = (title, select) => make("label", {}, `${title} `, select);
    this.selects = Object.fromEntries(CHOICES.map(({ id, hertz, first }) => {
      const select = make("select", { onchange: again }, option("", "off"), ...hertz.map((value) => option(value, `${value} Hz`)));
      select.value = first;
      return [id, select];
    }));
    this.montages = make("select", { onchange: () => {
      this.montage = this.montages.value;
      this.chosen = null;
      again();
    } });
    this.scales = make("select", { onchange: () => {
      this.scaleAt = this.scales.value === "" ? null : Number(this.scales.value);
      this.desk.draw();
    } }, option("", "automatic"), ...SCALES.map((value, place) => option(place, `±${value} µV`)));
    this.neighbours = make("select", { onchange: () => this.desk.draw() }, ...[0, 1, 2, 3].map((n) => option(n, n ? `±${n}` : "none")));
    this.neighbours.value = "1";
    const filters = CHOICES.map(({ id, title }) => labelled(title, this.selects[id]));
    byId("signal-controls").append(labelled("Montage", this.montages), ...filters,
      labelled("Scale", this.scales), labelled("Neighbours", this.neighbours));
  }

  open() {
    const { night } = this.desk;
    byId("signals").hidden = !night.hasSignals;
    this.overview.spectrogram = null;
    this.chosen = null;
    this.montage = "";
    this.listedChannels = null;
    this.forget();
    if (night.hasSignals) this.loadSpectrogram(night);
  }

  forget() {
    this.blocks.clear();
  }

  async loadSpectrogram(night) {
    try {
      const answer = await get(`/api/nights/${night.index}/spectrogram`);
      if (night !== this.desk.night) return;
      this.overview.spectrogram = pictureOf(answer);
      this.desk.draw(true);
    } catch (error) {
      this.desk.bar.notice(error.message);
    }
  }

  rescale(by) {
    const last = SCALES.length - 1;
    this.scaleAt = this.scaleAt === null ? SCALES.indexOf(100) : Math.min(last, Math.max(0, this.scaleAt + by));
    this.scales.value = String(this.scaleAt);
  }

  query(block) {
    const first = block * BLOCK;
    const words = new URLSearchParams({ first, count: Math.min(BLOCK, this.desk.night.epochs - first) });
    for (const name of this.chosen || []) words.append("channels", name);
    if (!this.chosen && this.montage) words.set("montage", this.montage);
    for (const { id } of CHOICES) if (this.selects[id].value) words.set(id, this.selects[id].value);
    return `/api/nights/${this.desk.night.index}/signals?${words}`;
  }

  async fetchBlock(block) {
    if (block < 0 || block * BLOCK >= this.desk.night.epochs || this.blocks.has(block)) return;
    const { blocks } = this;
    const { night } = this.desk;
    const mine = { waiting: true };
    blocks.set(block, mine);
    try {
      const answer = await get(this.query(block));
      if (blocks.get(block) !== mine || night !== this.desk.night) return; // another request came in the meantime
      const samples = (text) => new Float32Array(bytesOf(text).buffer);
      blocks.set(block, { channels: answer.channels.map((channel) => ({ ...channel, values: samples(channel.values) })) });
      this.listChannels(answer);
    } catch (error) {
      if (blocks.get(block) === mine) blocks.set(block, { error: error.message });
    }
    while (blocks.size > KEPT) blocks.delete(blocks.keys().next().value);
    this.desk.draw();
  }

  listChannels(answer) {
    if (this.listedChannels) return;
    this.listedChannels = answer.all_channels || [];
    this.montages.replaceChildren(...(answer.montages || []).map((name) => option(name, name)));
    this.montages.parentElement.hidden = !(answer.montages || []).length;
    const shown = new Set(answer.channels.map((channel) => channel.name));
    const box = (name) => make("input", { type: "checkbox", checked: shown.has(name), value: name, onchange: () => this.choose() });
    byId("channels").replaceChildren(...this.listedChannels.map((name) => make("label", {}, box(name), ` ${name}`)));
  }

  choose() {
    this.chosen = [...byId("channels").querySelectorAll("input:checked")].map((box) => box.value);
    if (!this.chosen.length) this.chosen = null;
    this.forget();
    this.desk.draw();
  }

  refresh() {
    this.theme = themeOf(this.desk.night);
  }

  move() {
    const { night, cursor } = this.desk;
    if (!night.hasSignals) return;
    const around = Number(this.neighbours.value);
    const first = cursor - around;
    const last = cursor + around;
    const block = Math.floor(cursor / BLOCK);
    const needed = [Math.floor(Math.max(0, first) / BLOCK), Math.floor(last / BLOCK), block + 1, block - 1];
    needed.forEach((number) => this.fetchBlock(number));
    this.paint(first, last);
  }

  paint(first, last) {
    const { desk } = this;
    const canvas = byId("traces");
    const width = canvas.parentElement.clientWidth;
    const narrow = width < 560;
    const { theme } = this;
    const ready = this.blocks.get(Math.floor(desk.cursor / BLOCK));
    const names = ready?.channels || this.lastChannels || [];
    if (ready?.channels) this.lastChannels = ready.channels;
    const height = Math.max(90, names.length * LANE_HEIGHT + 6);
    fitCanvas(canvas, width, height);
    const ctx = canvas.getContext("2d");
    ctx.clearRect(0, 0, width, height);
    const left = narrow ? 40 : 92;
    const box = { x: left, width: width - left - 10, each: (width - left - 10) / (last - first + 1) };
    this.paintGrid(ctx, box, first, last, height, theme);
    if (!ready?.channels) {
      ctx.fillStyle = theme.grey;
      ctx.textAlign = "center";
      ctx.fillText(ready?.error || "reading …", box.x + box.width / 2, 40, box.width);
      return;
    }
    names.forEach((channel, index) => {
      const lane = { channel, index, y: 3 + (index + 0.5) * LANE_HEIGHT };
      this.paintChannel(ctx, lane, box, first, last, theme, narrow);
    });
    const stretch = `${Math.max(0, first) + 1} to ${Math.min(desk.night.epochs, last + 1)}`;
    canvas.setAttribute("aria-label", `Signals of epochs ${stretch}: ${names.map(({ name }) => name).join(", ")}`);
  }

  paintGrid(ctx, box, first, last, height, theme) {
    const { night, cursor } = this.desk;
    ctx.font = "12px sans-serif";
    ctx.textBaseline = "middle";
    ctx.fillStyle = theme.gap;
    ctx.globalAlpha = 0.5;
    ctx.fillRect(box.x + (cursor - first) * box.each, 0, box.each, height);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.line;
    const step = night.seconds >= 20 ? 5 : 1;
    for (let epoch = first; epoch <= last; epoch += 1) {
      for (let second = 0; second < night.seconds; second += step) {
        ctx.fillRect(box.x + (epoch - first + second / night.seconds) * box.each, 0, 1, height);
      }
    }
    ctx.fillStyle = theme.ink;
    for (const edge of [cursor, cursor + 1]) ctx.fillRect(box.x + (edge - first) * box.each - 0.75, 0, 1.5, height);
  }

  paintChannel(ctx, { channel, index, y }, box, first, last, theme, narrow) {
    const micro = TO_MICROVOLT[channel.unit];
    const scale = micro && this.scaleAt !== null ? SCALES[this.scaleAt] / micro : channel.scale; // else of the whole night
    const { middle } = channel;
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = 0.9;
    ctx.beginPath();
    for (let epoch = Math.max(0, first); epoch <= Math.min(this.desk.night.epochs - 1, last); epoch += 1) {
      const block = this.blocks.get(Math.floor(epoch / BLOCK));
      const part = block?.channels?.[index];
      const frame = { x: box.x + (epoch - first) * box.each, width: box.each, y, scale, middle };
      if (part) traceEpoch(ctx, part, epoch % BLOCK, this.desk.night.seconds, frame);
    }
    ctx.stroke();
    ctx.fillStyle = theme.ink;
    ctx.textAlign = "left";
    ctx.font = "600 11px sans-serif";
    ctx.fillText(channel.name, 2, y - (narrow ? 20 : 7), narrow ? 200 : box.x - 6);
    ctx.font = "10px sans-serif";
    ctx.fillStyle = theme.grey;
    if (!narrow) ctx.fillText(`±${numberText(scale)} ${channel.unit || ""}`, 2, y + 8, box.x - 6);
  }
}

/** Trace one epoch: every sample if there is space, else the lowest and highest of each pixel. */
function traceEpoch(ctx, part, placeInBlock, seconds, { x, width, y, scale, middle }) {
  const size = part.rate * seconds;
  const from = Math.round(placeInBlock * size);
  const to = Math.min(part.values.length, Math.round((placeInBlock + 1) * size));
  const half = LANE_HEIGHT / 2 - 2;
  const place = (value) => y - half * Math.max(-1, Math.min(1, (value - middle) / scale));
  const perPixel = (to - from) / width;
  let isDown = false;
  const draw = (at, value) => {
    if (!Number.isFinite(value)) isDown = false;
    else if (isDown) ctx.lineTo(at, place(value));
    else {
      ctx.moveTo(at, place(value));
      isDown = true;
    }
  };
  if (perPixel <= 3) {
    for (let i = from; i < to; i += 1) draw(x + ((i - from) / size) * width, part.values[i]);
    return;
  }
  for (let pixel = 0; pixel < width; pixel += 1) {
    const begin = from + Math.floor(pixel * perPixel);
    const end = Math.min(to, from + Math.floor((pixel + 1) * perPixel));
    let [low, high] = [Infinity, -Infinity];
    for (let i = begin; i < end; i += 1) {
      const value = part.values[i];
      if (value < low) low = value;
      if (value > high) high = value;
    }
    draw(x + pixel, low === Infinity ? NaN : low);
    draw(x + pixel, high === -Infinity ? NaN : high);
  }
}
