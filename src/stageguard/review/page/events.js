// Events: marks what was dragged over or measured, and lists what is marked, with the annotations of files.

import { colourOf, labelOf, ownEvents, paintFileEvents, paintOwnEvents, titleOf } from "./eventmarks.js";
import { get } from "./server.js";
import { byId, count, make, numberText, paragraph, pushButton, timeText } from "./words.js";

const LISTED = 200; // annotations of files to list
const OWN_LISTED = 1000;

export class Events {
  constructor(desk) {
    this.desk = desk;
    this.refocus = null; // id of the field in which the scorer wrote, which is made anew after the answer
    desk.signals.layers.unshift(this); // below the cursor
  }

  async open() {
    const { night } = this.desk;
    this.makeButtons();
    try {
      const { events, notes } = await get(`/api/nights/${night.index}/events`);
      if (night !== this.desk.night) return;
      night.existing = events;
      if (notes.length) this.desk.bar.notice(notes.join(" "));
      this.desk.draw(true);
    } catch (error) {
      this.desk.bar.notice(error.message);
    }
  }

  makeButtons() {
    const { night } = this.desk;
    byId("event-kinds").replaceChildren(...night.kinds.map((kind) => {
      const made = make("button", { type: "button", className: "kind", title: `${kind.about} (${kind.key})`, onclick: () => this.mark(kind.name) },
        `${kind.title} `, make("kbd", { textContent: kind.key }));
      made.setAttribute("aria-label", `Mark ${kind.title}`);
      made.style.borderLeftColor = colourOf(night, kind.name);
      return made;
    }));
  }

  // ---- marking

  /** Keys of the kinds, while a stretch of the signals is selected; else undefined. */
  get keys() {
    if (!this.desk.signals.selection) return undefined;
    return Object.fromEntries(this.desk.night.kinds.map(({ key, name }) => [key, () => this.mark(name)]));
  }

  /** Mark the selected stretch of the signals; a free text is asked for first. */
  mark(kind) {
    const { signals, night } = this.desk;
    const { selection, frame } = signals;
    if (!selection) return;
    const event = { kind, begin: this.ofRecording(selection.begin), end: this.ofRecording(selection.end),
      channel: frame.lanes[selection.lane]?.name ?? "", text: "" };
    if (kind === "artefact") event.channel = ""; // it counts for the epoch, whatever channel it was seen on
    if (kind === "text") this.askText(event);
    else this.add(event, night);
  }

  /** Mark the selected epochs as artefact, all of them. */
  markEpochs() {
    const { night, selected } = this.desk;
    const [first, last] = selected;
    this.desk.anchor = null;
    this.add({ kind: "artefact", begin: this.ofRecording(first * night.seconds), end: this.ofRecording((last + 1) * night.seconds),
      channel: "", text: "" }, night);
  }

  ofRecording(seconds) {
    return Math.round((seconds + this.desk.night.offset_seconds) * 1000) / 1000;
  }

  add(event, night) {
    const { desk } = this;
    if (night !== desk.night) return;
    desk.caliper.open(); // drops what the keyboard began
    desk.signals.select(null);
    desk.act({ do: "add_event", event });
    desk.bar.notice(`${labelOf(night, event)} marked, ${this.whenText(event)}.`);
    desk.draw(true);
  }

  askText(event) {
    const { night } = this.desk;
    const input = make("input", { id: "event-text", maxLength: 200, autocomplete: "off", required: true });
    const add = () => input.value.trim() && this.add({ ...event, text: input.value.trim() }, night);
    const label = make("label", { className: "field" }, make("span", { textContent: "Text" }), input);
    const note = paragraph(this.whenText(event), "quiet");
    this.desk.bar.dialog("Mark a text", [label, note], [pushButton("Mark", add, { type: "submit", className: "main" })]);
    input.focus();
  }

  /** Remove the scorer's event under the cursor on the signals. */
  removeHere() {
    const { desk } = this;
    const { pointer } = desk.signals;
    const at = pointer && this.ofRecording(pointer.seconds); // rounded as events are: the mouse that marked one is on its end
    const here = ownEvents(desk.night).filter(({ number, begin, end }) => number && at !== null && begin <= at && at <= end);
    if (here.length) this.remove(here[here.length - 1]);
    else desk.bar.notice("No event of yours is under the cursor on the signals.");
  }

  remove(event) {
    const { desk } = this;
    desk.act({ do: "remove_event", number: event.number });
    desk.bar.notice(`${labelOf(desk.night, event)} removed.`);
    desk.draw(true);
  }

  /** Go to the epoch in which an event begins, and put the cursor there. */
  goTo(event) {
    const { desk } = this;
    const seconds = event.begin - desk.night.offset_seconds;
    desk.moveTo(Math.floor(Math.max(0, seconds) / desk.night.seconds), { centre: true });
  }

  whenText({ begin, end }) {
    const { night } = this.desk;
    const lasts = end > begin ? `, ${numberText(end - begin, 1)} s` : "";
    return `${timeText(night, Math.floor(begin - night.offset_seconds + 1e-9))}${lasts}`;
  }

  // ---- drawing

  paint(ctx, frame, theme) {
    const { night } = this.desk;
    paintFileEvents(ctx, frame, night, theme);
    paintOwnEvents(ctx, frame, night, theme);
    const { selection } = this.desk.signals;
    byId("event-kinds").hidden = !selection;
    byId("event-kinds").classList.toggle("below", selection?.lane === 0); // not on the channel that is looked at
  }

  move() {
    if (!this.refocus || this.desk.night.pending.length) return;
    byId(this.refocus)?.focus();
    this.refocus = null;
  }
}

// ---- the list

/** Return what the list of events depends on; equal texts are equal lists. */
export const eventNeeds = ({ night }) => [JSON.stringify(ownEvents(night)), night.existing];

export function eventSheet(desk) {
  const { night } = desk;
  const own = ownEvents(night);
  const files = night.existing || [];
  const lines = [make("p", {}, make("strong", { textContent: count(own.length, "event") }), " marked by you")];
  if (own.length) lines.push(make("ul", { className: "events" }, ...own.slice(0, OWN_LISTED).map((event) => ownRow(desk, event))));
  else lines.push(paragraph(night.hasSignals ? "Drag over the signals, then press the key of a kind."
    : "x marks the epoch, or the selected stretch, as artefact.", "quiet"));
  if (own.length > OWN_LISTED) lines.push(paragraph(`and ${own.length - OWN_LISTED} more, on the signals`, "quiet"));
  if (night.quality && own.some(({ kind }) => kind === "artefact")) {
    lines.push(paragraph("Epochs under artefacts lose that share of their evidence, and all of it if more than half is covered.", "quiet"));
  }
  if (files.length) {
    lines.push(make("p", {}, make("strong", { textContent: count(files.length, "annotation") }), " in files, shown as they are"),
      make("ul", { className: "events" }, ...files.slice(0, LISTED).map((event) => make("li", {}, jump(desk, event)))));
  }
  if (files.length > LISTED) lines.push(paragraph(`and ${files.length - LISTED} more`, "quiet"));
  return lines;
}

function jump(desk, event) {
  const { night } = desk;
  const swatch = make("span", { className: "swatch" });
  swatch.style.background = colourOf(night, event.kind);
  const where = [desk.events.whenText(event), event.channel, event.file].filter(Boolean).join(" · ");
  return make("button", { type: "button", className: "jump", onclick: () => desk.events.goTo(event) }, swatch,
    make("span", { className: "when", textContent: event.file ? event.text : titleOf(night, event.kind) }),
    make("span", { className: "where", textContent: where }));
}

function ownRow(desk, event) {
  const name = `${titleOf(desk.night, event.kind)}, ${desk.events.whenText(event)}`;
  const input = make("input", { id: `event-${event.number}`, value: event.text, maxLength: 200, autocomplete: "off", placeholder: "text" });
  input.setAttribute("aria-label", `Text of ${name}`);
  input.disabled = !event.number; // not answered yet
  input.addEventListener("change", () => {
    const { kind, begin, end, channel } = event;
    desk.events.refocus = input.id;
    desk.act({ do: "change_event", number: event.number, event: { kind, begin, end, channel, text: input.value.trim() } });
  });
  input.addEventListener("keydown", (pressed) => {
    if (pressed.key === "Escape") input.blur();
  });
  const remove = pushButton("Remove", () => desk.events.remove(event), { disabled: !event.number });
  remove.setAttribute("aria-label", `Remove ${name}`);
  return make("li", { className: "own" }, jump(desk, event), make("span", { className: "edit" }, input, remove));
}
