// Montages: channels and differences in an order, each with filters, scale and colour; edited here, saved by the server.

import { get, post } from "./server.js";
import { byId, make, option, pushButton } from "./words.js";

const HERTZ = {
  high_pass_hz: { title: "High-pass", values: [0.1, 0.3, 0.5, 1, 5, 10] },
  low_pass_hz: { title: "Low-pass", values: [15, 20, 30, 35, 50, 70, 100] },
  notch_hz: { title: "Notch", values: [50, 60] },
};
export const SCALES = [10, 20, 35, 50, 75, 100, 150, 200, 350, 500, 1000]; // µV from the middle of a lane to its edge
const UNCOLOURED = "#22272d"; // what the field of a lane without a colour shows

export const laneName = ({ plus, minus, label }) => label || (minus ? `${plus}-${minus}` : plus);

/** The montages of the night and the laboratory, which of them is shown, and its editor. */
export class Montages {
  /** `changed(isFetched)` runs after a change, with true if samples must be fetched again. */
  constructor(desk, changed) {
    this.desk = desk;
    this.changed = changed;
    this.clear();
    this.select = make("select", { id: "montage", onchange: () => this.choose(this.select.value) });
    byId("montage-editor").addEventListener("toggle", () => desk.draw());
  }

  clear() {
    Object.assign(this, { channels: [], montages: [], saved: new Map(), current: null });
  }

  /** Fetch channels and montages of a night; return how the laboratory shows signals first, null if outdated. */
  async load(night) {
    this.clear();
    const answer = await get(`/api/nights/${night.index}/montages`);
    if (night !== this.desk.night) return null;
    this.channels = answer.channels;
    this.saved = new Map(answer.laboratory.montage.map((montage) => [montage.name, structuredClone(montage)])); // as in the file
    this.montages = [...answer.laboratory.montage, ...answer.own.filter(({ name }) => !this.saved.has(name))];
    this.list();
    this.choose((this.montages.find((montage) => this.shownLanes(montage).length) ?? this.montages[0]).name);
    return answer.laboratory.view;
  }

  list() {
    this.select.replaceChildren(...this.montages.map((montage) => {
      const made = option(montage.name, montage.name);
      made.disabled = !this.shownLanes(montage).length; // none of its channels was recorded
      return made;
    }));
  }

  choose(name) {
    this.current = this.montages.find((montage) => montage.name === name);
    this.select.value = name;
    this.fillEditor();
    this.changed(true);
  }

  isRecorded({ plus, minus }) {
    const [first, second] = [plus, minus].map((name) => this.channels.find((channel) => channel.name === name));
    return Boolean(first) && (!minus || areAlike(first, second));
  }

  shownLanes(montage) {
    return montage.channels.filter((lane) => this.isRecorded(lane));
  }

  /** Lanes of the current montage that this recording has, from top to bottom. */
  get lanes() {
    return this.current ? this.shownLanes(this.current) : [];
  }

  /** Return what the server needs to know of a lane, in JSON. */
  static asked({ plus, minus, label, high_pass_hz, low_pass_hz, notch_hz }) {
    return JSON.stringify({ plus, minus, label, high_pass_hz, low_pass_hz, notch_hz });
  }

  // ---- editor

  fillEditor() {
    const { current } = this;
    this.name = make("input", { id: "montage-name", value: current.name, maxLength: 80, autocomplete: "off" });
    const all = { plus: null };
    const heads = ["Channel", "minus", ...Object.values(HERTZ).map(({ title }) => title), "Scale", "Colour", "Order"];
    const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })));
    const rows = current.channels.map((lane, place) => this.row(lane, place));
    const everyone = make("tr", {}, make("th", { scope: "row", textContent: "All channels" }), make("td"),
      ...Object.keys(HERTZ).map((key) => this.cell(this.hertz(all, key, "all channels"))), this.cell(this.scale(all, "all channels")), make("td"), make("td"));
    const table = make("table", { id: "montage-lanes" }, make("thead", {}, head), make("tbody", {}, ...rows, everyone));
    const buttons = make("div", { className: "buttons" },
      pushButton("Add a channel", () => this.add()),
      make("label", {}, "Name ", this.name),
      pushButton("Save", () => this.save(), { className: "main", id: "montage-save" }),
      make("span", { id: "montage-saved", role: "status", className: "quiet" }));
    byId("montage-table").replaceChildren(make("div", { className: "scroll" }, table), buttons);
  }

  row(lane, place) {
    const name = laneName(lane);
    const names = this.channels.map((channel) => channel.name);
    const plus = chooser([...new Set([lane.plus, ...names])].map((each) => [each, each]), lane.plus, `Channel ${place + 1}`, (value) => {
      lane.plus = value;
      if (!this.isRecorded(lane)) delete lane.minus;
    });
    const first = this.channels.find((channel) => channel.name === lane.plus);
    const others = this.channels.filter((channel) => channel !== first && first && areAlike(first, channel)).map((channel) => channel.name);
    const choices = [["", "none"], ...[...new Set([...(lane.minus ? [lane.minus] : []), ...others])].map((each) => [each, each])];
    const minus = chooser(choices, lane.minus ?? "", `${name} minus`, (value) => assign(lane, "minus", value || null));
    for (const select of [plus, minus]) select.addEventListener("change", () => this.edited(true, true));
    const colour = make("input", { type: "color", value: lane.colour ?? UNCOLOURED, ariaLabel: `Colour of ${name}`, onchange: () => {
      lane.colour = colour.value;
      this.edited(false, true);
    } });
    const plain = lane.colour ? pushButton("plain", () => {
      delete lane.colour;
      this.edited(false, true);
    }, { ariaLabel: `${name} without colour` }) : null;
    const move = (by) => () => {
      const { channels } = this.current;
      channels.splice(place + by, 0, channels.splice(place, 1)[0]);
      this.edited(true, true);
    };
    const order = [pushButton("↑", move(-1), { ariaLabel: `${name} up`, disabled: place === 0 }),
      pushButton("↓", move(1), { ariaLabel: `${name} down`, disabled: place === this.current.channels.length - 1 }),
      pushButton("✕", () => {
        this.current.channels.splice(place, 1);
        this.edited(true, true);
      }, { ariaLabel: `Remove ${name}`, disabled: this.current.channels.length === 1 })];
    const there = this.isRecorded(lane) ? null : make("span", { className: "quiet", textContent: " not recorded" });
    return make("tr", {}, this.cell(plus, there), this.cell(minus), ...Object.keys(HERTZ).map((key) => this.cell(this.hertz(lane, key, name))),
      this.cell(this.scale(lane, name)), this.cell(colour, plain), this.cell(...order));
  }

  cell(...content) {
    return make("td", {}, ...content);
  }

  hertz(lane, key, name) {
    const { title, values } = HERTZ[key];
    const all = [...new Set([...values, ...(lane[key] ? [lane[key]] : [])])].sort((a, b) => a - b);
    const choices = [...(lane.plus === null ? [["…", "…"]] : []), ["", "off"], ...all.map((value) => [String(value), `${value} Hz`])];
    return this.setter(lane, key, choices, `${title} of ${name}`, true);
  }

  scale(lane, name) {
    const all = [...new Set([...SCALES, ...(lane.scale_uv ? [lane.scale_uv] : [])])].sort((a, b) => a - b);
    const choices = [...(lane.plus === null ? [["…", "…"]] : []), ["", "automatic"], ...all.map((value) => [String(value), `±${value} µV`])];
    return this.setter(lane, "scale_uv", choices, `Scale of ${name}`, false);
  }

  /** Return a choice that sets a number of a lane, or of all lanes. */
  setter(lane, key, choices, label, isFetched) {
    const value = lane.plus === null ? "…" : String(lane[key] ?? "");
    return chooser(choices, value, label, (chosen) => {
      if (chosen === "…") return;
      const lanes = lane.plus === null ? this.current.channels : [lane];
      for (const each of lanes) assign(each, key, chosen === "" ? null : Number(chosen));
      this.edited(isFetched, lane.plus === null);
    });
  }

  add() {
    const shown = new Set(this.current.channels.map((lane) => lane.plus));
    const { name } = this.channels.find((channel) => !shown.has(channel.name)) ?? this.channels[0];
    this.current.channels.push({ plus: name });
    this.edited(true, true);
  }

  /** Show a change of the current montage; it stays in the page until it is saved. */
  edited(isFetched, isFilled) {
    const focused = document.activeElement?.getAttribute("aria-label");
    if (isFilled) this.fillEditor();
    if (focused) [...byId("montage-table").querySelectorAll("[aria-label]")].find((field) => field.getAttribute("aria-label") === focused)?.focus();
    byId("montage-saved").textContent = "Not saved yet.";
    this.changed(isFetched);
  }

  /** Save the current montage under the name given, first in the laboratory's file, whose others stay as they are there. */
  async save() {
    const mine = { name: this.name.value.trim(), channels: structuredClone(this.current.channels) };
    const { name } = mine;
    const others = [...this.saved.values()].filter((montage) => montage.name !== name);
    let answer;
    try {
      answer = await post(`/api/nights/${this.desk.night.index}/montages`, { montage: [mine, ...others], view: this.desk.signals.savedView });
    } catch (error) {
      answer = { body: { error: error.message } };
    }
    if (answer.status === 200) {
      this.saved.set(name, structuredClone(mine));
      this.montages = [mine, ...this.montages.filter((montage) => montage.name !== name)];
      this.current = mine;
      this.list();
      this.select.value = name;
    }
    byId("montage-saved").textContent = answer.status === 200 ? `Saved in ${answer.body.file}` : answer.body.error;
  }
}

const areAlike = (first, second) => Boolean(second) && first.rate === second.rate && first.unit === second.unit;

function assign(lane, key, value) {
  if (value === null) delete lane[key];
  else lane[key] = value;
}

function chooser(choices, value, label, set) {
  const select = make("select", { ariaLabel: label, onchange: () => set(select.value) }, ...choices.map(([key, text]) => option(key, text)));
  select.value = value;
  return select;
}
