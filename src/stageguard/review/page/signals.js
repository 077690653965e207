// The signals of the current epoch: what is shown and how, fetched in blocks.

import { Blocks } from "./blocks.js";
import { Montages } from "./montage.js";
import { get } from "./server.js";
import { byId, make, numberText, option, pushButton } from "./words.js";
import { themeOf } from "./lanes.js";
import { Stack } from "./timeline.js";
import { pictureOf } from "./spectrogram.js";
import { AXIS_HEIGHT, heights, microvolts, paintGrid, paintGuides, tracePart, unitText } from "./traces.js";
import { firstView, Frame, pagesOf, shownSeconds, viewsOf, viewText } from "./views.js";

const SCALES = [10, 20, 35, 50, 75, 100, 150, 200, 350, 500, 1000]; // µV from the middle of a lane to its edge
const TOP = 10; // CSS pixels above the lanes, for waves that leave the first
const LOWEST_LANE = 46;
const HIGHEST_LANE = 120; // but in the wide mode

export class Signals {
  constructor(desk, overview) {
    this.desk = desk;
    this.overview = overview;
    this.blocks = new Blocks();
    this.stack = new Stack(byId("signal-stack"));
    this.frame = null; // what the canvas shows, null before the first drawing
    this.montages = new Montages(desk, () => {
      this.forget();
      desk.draw(true);
    });
    this.scaleAt = null; // index in SCALES for all channels, null for the montage's own scales
    this.view = 30; // seconds on the canvas
    this.makeControls();
  }

  makeControls() {
    const redraw = () => this.desk.draw(true);
    const labelled = (title, field) => make("label", {}, `${title} `, field);
    this.views = make("select", { id: "view", onchange: () => this.setView(Number(this.views.value)) });
    this.scales = make("select", { onchange: () => {
      this.scaleAt = this.scales.value === "" ? null : Number(this.scales.value);
      redraw();
    } }, option("", "by montage"), ...SCALES.map((value, place) => option(place, `±${value} µV`)));
    this.polarity = make("select", { id: "polarity", onchange: redraw }, option("negative", "negative"), option("positive", "positive"));
    this.guides = make("input", { type: "checkbox", id: "guides", checked: true, onchange: redraw });
    byId("signal-controls").append(labelled("View", this.views), labelled("Montage", this.montages.select),
      labelled("Scale", this.scales), labelled("Up is", this.polarity), make("label", {}, this.guides, " ±37.5 µV"));
    byId("pages").append(pushButton("◀", () => this.desk.moveBy(-1), { ariaLabel: "Previous page", title: "Previous page (←)" }),
      pushButton("▶", () => this.desk.moveBy(1), { ariaLabel: "Next page", title: "Next page (→)" }));
  }

  open() {
    const { night } = this.desk;
    byId("signals").hidden = !night.hasSignals;
    this.overview.spectrogram = null;
    this.frame = null;
    const views = viewsOf(night);
    if (!views.includes(this.view)) this.view = firstView(night);
    this.views.replaceChildren(...views.map((seconds) => option(seconds, viewText(seconds))));
    this.views.value = String(this.view);
    this.forget();
    if (night.hasSignals) this.load(night);
  }

  async load(night) {
    try {
      const view = await this.montages.load(night);
      if (view) this.showAs(view);
    } catch (error) {
      this.desk.bar.notice(error.message);
    }
  }

  /** Show signals as the laboratory saved it. */
  showAs(view) {
    this.polarity.value = view.negative_up ? "negative" : "positive";
    this.guides.checked = view.guides;
    if (viewsOf(this.desk.night).includes(view.seconds)) this.setView(view.seconds);
    this.desk.draw(true);
  }

  forget() {
    this.lastChannels = null;
    this.blocks.clear(this.desk.night, (...stretch) => this.query(...stretch));
  }

  /** Fetch the spectrogram once the overview shows it: it takes the server a while to read the whole night. */
  async loadSpectrogram(night) {
    this.spectrogramOf = night;
    try {
      const answer = await get(`/api/nights/${night.index}/spectrogram`);
      if (night !== this.desk.night) return;
      this.overview.spectrogram = pictureOf(answer);
      this.desk.draw(true);
    } catch (error) {
      this.desk.bar.notice(error.message);
    }
  }

  // ---- what is shown

  /** Pages over which an epoch is spread; 1 if the view holds all of it. */
  get pages() {
    return this.desk.night.hasSignals ? pagesOf(this.desk.night, this.view) : 1;
  }

  setView(seconds) {
    this.view = seconds;
    this.views.value = String(seconds);
    this.desk.moveTo(this.desk.cursor);
  }

  /** Take the next longer or shorter view. */
  changeView(by) {
    const views = viewsOf(this.desk.night);
    this.setView(views[Math.min(views.length - 1, Math.max(0, views.indexOf(this.view) + by))]);
  }

  rescale(by) {
    const last = SCALES.length - 1;
    this.scaleAt = this.scaleAt === null ? SCALES.indexOf(100) : Math.min(last, Math.max(0, this.scaleAt + by));
    this.scales.value = String(this.scaleAt);
  }

  // ---- blocks

  query(first, count, columns) {
    const words = new URLSearchParams({ first, count });
    if (columns) words.set("columns", columns);
    for (const lane of this.montages.lanes) words.append("lane", Montages.asked(lane));
    return `/api/nights/${this.desk.night.index}/signals?${words}`;
  }

  // ---- drawing

  refresh() {
    const { night, layout } = this.desk;
    this.theme = themeOf(night);
    if (night.hasSignals && this.spectrogramOf !== night && !layout.isFolded("overview")) this.loadSpectrogram(night);
  }

  move() {
    const { desk } = this;
    const { night } = desk;
    if (!night.hasSignals || desk.layout.isFolded("signals")) return;
    byId("pages").hidden = this.pages === 1;
    const stretch = shownSeconds(night, desk.cursor, desk.page, this.view);
    this.blocks.cut(stretch, this.stack.width * (window.devicePixelRatio || 1));
    if (this.montages.lanes.length) this.blocks.fetch(stretch, () => desk.draw());
    this.paint(stretch);
  }

  paint(stretch) {
    const { stack, theme } = this;
    const { blocks, error } = this.blocks.within(stretch);
    if (blocks.length) this.lastChannels = blocks[0].channels;
    const channels = this.lastChannels || [];
    this.frame = this.placeLanes(stretch, channels);
    const ctx = stack.clear(stack.base);
    paintGrid(ctx, this.frame, this.desk.night, this.desk.cursor, theme);
    channels.forEach((channel, index) => {
      this.paintChannel(ctx, channel, blocks.map((block) => block.channels[index]), index);
    });
    if (!blocks.length) {
      ctx.fillStyle = theme.grey;
      ctx.textAlign = "center";
      ctx.fillText(error || "reading …", this.frame.x + this.frame.width / 2, 40, this.frame.width);
    } else stack.base.setAttribute("aria-label", this.inWords(channels));
  }

  placeLanes([begin, end], channels) {
    const { stack } = this;
    const { wide } = this.desk.layout;
    const space = innerHeight - stack.box.getBoundingClientRect().top - scrollY - TOP - AXIS_HEIGHT - 8;
    const most = wide ? Infinity : HIGHEST_LANE;
    const height = Math.floor(Math.max(LOWEST_LANE, Math.min(most, space / Math.max(1, channels.length))));
    const bottom = TOP + Math.max(90, channels.length * height);
    stack.resize(bottom + AXIS_HEIGHT);
    stack.base.dataset.lanes = channels.length;
    const lanes = channels.map(({ name }, index) => ({ name, y: TOP + (index + 0.5) * height, height }));
    return new Frame({ begin, end, x: stack.left, width: Math.max(50, stack.width - stack.left - 10), bottom, lanes });
  }

  inWords(channels) {
    const { begin, end } = this.frame;
    const epochs = [Math.floor(begin / this.desk.night.seconds + 1e-9), Math.ceil(end / this.desk.night.seconds - 1e-9) - 1];
    const where = epochs[0] === epochs[1] ? `epoch ${epochs[0] + 1}` : `epochs ${epochs[0] + 1} to ${epochs[1] + 1}`;
    const pages = this.pages > 1 ? `, page ${this.desk.page + 1} of ${this.pages}` : "";
    return `Signals of ${where}${pages}: ${channels.map(({ name }) => name).join(", ")}`;
  }

  /** Return how a channel is drawn: middle and scale in its unit, and whether negative is up. */
  drawingOf({ unit, kind, middle, scale }, lane) {
    const micro = microvolts(unit);
    const chosen = this.scaleAt !== null ? SCALES[this.scaleAt] : this.montages.lanes[lane]?.scale_uv;
    return { middle, scale: micro && chosen ? chosen / micro : scale, // else of the whole night
      inverted: Boolean(micro) && kind !== "ecg" && this.polarity.value === "negative" };
  }

  paintChannel(ctx, channel, parts, index) {
    const { stack, theme, frame } = this;
    const lane = frame.lanes[index];
    const micro = microvolts(channel.unit);
    const drawing = this.drawingOf(channel, index);
    const heightOf = heights(lane, drawing);
    if (micro && channel.kind === "eeg" && this.guides.checked) paintGuides(ctx, frame, lane, (guide) => heightOf(guide / micro), theme);
    ctx.save();
    ctx.beginPath();
    ctx.rect(frame.x, 0, frame.width, frame.bottom);
    ctx.clip();
    ctx.strokeStyle = this.montages.lanes[index]?.colour ?? theme.ink;
    ctx.lineWidth = 0.9;
    ctx.beginPath();
    for (const part of parts) if (part) tracePart(ctx, part, frame, heightOf);
    ctx.stroke();
    ctx.restore();
    ctx.fillStyle = theme.ink;
    ctx.textAlign = "left";
    ctx.font = "600 11px sans-serif";
    ctx.fillText(channel.name, 2, lane.y - (stack.narrow ? 20 : 7), stack.narrow ? 200 : frame.x - 6);
    ctx.font = "10px sans-serif";
    ctx.fillStyle = theme.grey;
    if (!stack.narrow) ctx.fillText(`±${numberText(drawing.scale)} ${unitText(channel.unit)}`, 2, lane.y + 8, frame.x - 6);
  }
}
