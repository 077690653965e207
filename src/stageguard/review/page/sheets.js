// The lower part of the side panel: the queue, statistics and indicators with their bands, facts of the night.

import { agreementSheet, disputeHeading, disputeText } from "./adjudication.js";
import { targetSheet, targetSummary } from "./targets.js";
import { byId, count, draw, make, numberText, option, paragraph, pushButton, timeAt } from "./words.js";

const LISTED = 100; // entries of the queue to show

const REASONS = {
  changed: "changed by decisions elsewhere",
  rule: "a rule overruled a stager that was sure",
  "given up": "evidence was given up",
  unsure: "uncertain",
  disagree: "derivations or stagers disagree",
};

// `needs` are the values that a sheet depends on: it is rebuilt only when one of them has changed.
const TABS = [
  { id: "queue", title: "To look at", fill: queueSheet,
    needs: ({ night, order }) => [night.queue, order, night.pending.length, night.blind && night.revision] },
  { id: "targets", title: "Targets", fill: targetSheet, needs: ({ night }) => [night.plan, night.blind] },
  { id: "statistics", title: "Statistics", fill: (desk) => bandSheet(desk.night.statistics, desk),
    needs: ({ night }) => [night.statistics] },
  { id: "indicators", title: "Indicators", fill: indicatorSheet, needs: ({ night }) => [night.indicators] },
  { id: "agreement", title: "Agreement", fill: agreementSheet, needs: ({ night }) => [night.comparisons],
    isShown: ({ night }) => Boolean(night?.opinions) },
  { id: "facts", title: "Night", fill: factSheet, needs: ({ night }) => [night.revision, night.changes, night.agreement] },
];

export class Sheets {
  constructor(desk) {
    this.desk = desk;
    this.shown = "queue";
    this.tabs = TABS.map(({ id, title }, index) => {
      const tab = pushButton(title, () => this.show(id), { id: `tab-${id}`, role: "tab" });
      tab.setAttribute("aria-controls", `sheet-${id}`);
      tab.addEventListener("keydown", (event) => this.step(event, index));
      return tab;
    });
    this.sheets = TABS.map(({ id }) =>
      make("div", { id: `sheet-${id}`, role: "tabpanel", "aria-labelledby": `tab-${id}`, tabIndex: 0 }));
    byId("tabs").append(...this.tabs);
    byId("sheets").append(...this.sheets);
    byId("sheets").addEventListener("pointerdown", () => { this.held = true; }); // a button replaced meanwhile would lose the click
    for (const ends of ["pointerup", "pointercancel"]) addEventListener(ends, () => this.release());
    this.show("queue");
  }

  show(id) {
    this.shown = id;
    TABS.forEach((tab, index) => {
      this.tabs[index].setAttribute("aria-selected", String(tab.id === id));
      this.tabs[index].tabIndex = tab.id === id ? 0 : -1;
      this.tabs[index].hidden = !(tab.isShown?.(this.desk) ?? true);
      this.sheets[index].hidden = tab.id !== id;
    });
    this.desk.draw(true);
  }

  release() {
    if (!this.held) return;
    this.held = false;
    this.desk.draw(true);
  }

  step(event, index) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    let next = index;
    do next = (next + by + TABS.length) % TABS.length; while (this.tabs[next].hidden);
    this.show(TABS[next].id);
    this.tabs[next].focus();
  }

  open() {
    this.show(this.shown === "agreement" && !this.desk.night.opinions ? "queue" : this.shown);
  }

  refresh() {
    const index = TABS.findIndex((tab) => tab.id === this.shown);
    const needs = [this.desk.night, index, ...TABS[index].needs(this.desk)];
    if (needs.every((need, place) => need === this.needs?.[place])) return;
    if (this.held) return; // somebody is clicking
    this.needs = needs;
    const sheet = this.sheets[index];
    const scroll = sheet.scrollTop;
    const focused = sheet.contains(document.activeElement) ? document.activeElement.id : "";
    const fresh = TABS[index].fill(this.desk, sheet);
    if (!fresh) return; // brought up to date in place
    replaceAround(sheet, fresh);
    sheet.scrollTop = scroll;
    if (focused && document.activeElement.id !== focused) byId(focused)?.focus({ preventScroll: true });
    this.marked = null;
  }

  move() {
    const entry = this.desk.night.queuedAt(this.desk.cursor);
    const row = entry ? byId(`queued-${entry.first}`) : null;
    if (row === this.marked) return;
    this.marked?.removeAttribute("aria-current");
    row?.setAttribute("aria-current", "true");
    this.marked = row;
    const sheet = row?.closest("[role=tabpanel]");
    if (!sheet || sheet.scrollHeight <= sheet.clientHeight) return; // without its own scroll bar, the whole page would jump
    const top = row.offsetTop - sheet.scrollTop; // offsetTop is relative to the sheet
    if (top < 0 || top + row.offsetHeight > sheet.clientHeight) sheet.scrollTop = row.offsetTop - sheet.clientHeight / 2;
  }
}

/** Replace the children of a sheet, but not one with a choice that has the focus and comes again: it may be open. */
function replaceAround(sheet, fresh) {
  const field = document.activeElement;
  const kept = field.tagName === "SELECT" ? [...sheet.children].find((child) => child.contains(field)) : null;
  const place = kept ? fresh.findIndex((node) => node.querySelector(`#${field.id}`)) : -1;
  if (place < 0) {
    sheet.replaceChildren(...fresh);
    return;
  }
  for (const child of [...sheet.children]) if (child !== kept) child.remove();
  kept.before(...fresh.slice(0, place));
  kept.after(...fresh.slice(place + 1));
}

function queueSheet(desk) {
  const { night } = desk;
  if (night.blind && !night.opinions) return blindSheet(night);
  const { queue } = night;
  if (!queue) return [paragraph("There is no queue for this night.")];
  const entries = desk.inQueueOrder();
  if (night.opinions) return [...disputeHeading(night), queueList(desk, entries)];
  const total = queue.left + queue.done;
  const progress = make("progress", { max: Math.max(total, 1), value: queue.done });
  progress.setAttribute("aria-label", "Looked at");
  const left = queue.expected_errors;
  const after = numberText(queue.expected_errors_if_done);
  const expects = Number.isFinite(left);  // false without probabilities
  const errors = paragraph(expects ? `About ${numberText(left)} of ${night.epochs} epochs may still be wrong; `
    + `${after} once all are looked at. ${queue.note}` : queue.note, "quiet");
  const aims = Boolean(night.plan);
  const looked = aims ? [make("p", { textContent: `${count(queue.done, "look")} so far` })]
    : [make("p", {}, make("strong", { textContent: `${queue.done} of ${total}` }), " looked at"), progress];
  return [
    ...targetSummary(night), ...looked, aims ? null : errors,
    make("label", { className: "order" }, "Order ", orderSelect(desk)),
    queueList(desk, entries),
    entries.length > LISTED ? paragraph(`and ${entries.length - LISTED} more`, "quiet") : null,
    entries.length || !expects ? null : paragraph("Nothing left that is worth a look."),
  ].filter(Boolean);
}

function queueList(desk, entries) {
  return make("ol", { className: "queue" }, ...entries.slice(0, LISTED).map((entry) => queueRow(desk, entry)));
}

function orderSelect(desk) {
  const select = make("select", { id: "order" }, option("gain", desk.night.plan ? "what the numbers need most" : "what changes most first"), option("time", "in time"));
  select.value = desk.order;
  select.addEventListener("change", () => {
    desk.order = select.value;
    desk.draw(true);
  });
  return select;
}

function queueRow(desk, entry) {
  const { night } = desk;
  const go = () => desk.moveTo(entry.epoch, { centre: true });
  const button = make("button", { id: `queued-${entry.first}`, type: "button", title: entry.text, onclick: go },
    make("span", { className: "when", textContent: `${stretchText(entry)} · ${timeAt(night, entry.first)}` }),
    make("span", { className: "gain", textContent: entry.gain_minutes ? `${entry.gain_minutes.toFixed(1)} min` : "" }),
    make("span", { className: "reason", textContent: REASONS[entry.reason] || entry.reason }));
  return make("li", {}, button);
}

const stretchText = ({ first, last }) => (first === last ? `${first + 1}` : `${first + 1}–${last + 1}`);

function blindSheet(night) {
  const progress = make("progress", { max: night.epochs, value: night.scored });
  progress.setAttribute("aria-label", "Scored");
  return [make("p", {}, make("strong", { textContent: `${night.scored} of ${night.epochs}` }), " scored blind"), progress,
    paragraph("Stager, guard and posterior are hidden until you reveal them.", "quiet")];
}

function indicatorSheet(desk) {
  const { joint } = desk.night;
  const lines = bandSheet(desk.night.indicators, desk);
  if (joint && joint.score !== null && joint.score !== undefined) {
    const verdict = { true: ": together, like expert scoring", false: ": together, unlike expert scoring" }[joint.like_experts] || "";
    lines.unshift(paragraph(`Distance ${numberText(joint.score)}; 90 % of expert nights are below ${numberText(joint.cut)}${verdict}.`));
  }
  return lines;
}

function bandSheet(rows, desk) {
  const { night } = desk;
  const given = (rows || []).filter((row) => row.guard !== undefined);
  if (!given.length) return [paragraph(night.blind ? "Hidden until you reveal." : "There are none for this night.")];
  const columns = [["Stager", "stager"], ["Guard", "guard"], ...(night.expert ? [["Expert", "expert"]] : [])];
  const head = make("tr", {}, make("th", { textContent: "Measure", scope: "col" }),
    ...columns.map(([title]) => make("th", { textContent: title, scope: "col" })));
  const body = given.map((row) => bandRow(row, columns));
  return [make("table", { className: "bands" }, make("thead", {}, head), ...body),
    paragraph("Bar: what experts’ nights show. Circle: stager, dot: guard, diamond: expert.", "quiet")];
}

function bandRow(row, columns) {
  const unit = row.unit ? ` (${row.unit})` : "";
  const outside = row.inside === false ? make("span", { className: "outside", textContent: " outside" }) : null;
  const name = make("th", { scope: "row" }, `${row.label || row.name}${unit}`, outside);
  const cells = columns.map(([, key]) => make("td", { textContent: numberText(row[key], row.decimals), className: key }));
  const first = make("tr", {}, name, ...cells);
  if (!row.band) return make("tbody", {}, first);
  const picture = make("td", { colSpan: columns.length + 1 }, bandPicture(row));
  return make("tbody", {}, first, make("tr", { className: "picture" }, picture));
}

/** Draw a band with the marks of stager, guard and expert on one scale. */
function bandPicture(row) {
  const [low, high] = row.band;
  const values = [row.stager, row.guard, row.expert].filter((value) => Number.isFinite(value));
  const least = Math.min(low, ...values);
  const most = Math.max(high, ...values);
  const pad = (most - least || 1) * 0.06;
  const x = (value) => 100 * (value - least + pad) / (most - least + 2 * pad);
  const svg = draw("svg", { role: "img", class: "band", "aria-label": `band ${numberText(low, row.decimals)} to ${numberText(high, row.decimals)}` });
  svg.append(draw("line", { x1: "0%", x2: "100%", y1: 8, y2: 8, class: "axis" }),
    draw("rect", { x: `${x(low)}%`, y: 4, width: `${x(high) - x(low)}%`, height: 8, rx: 2, class: "range" }));
  const mark = (value, name, attributes) => Number.isFinite(value) && svg.append(draw(name, attributes));
  mark(row.stager, "circle", { cx: `${x(row.stager)}%`, cy: 8, r: 4, class: "stager" });
  if (Number.isFinite(row.expert)) {
    const inner = draw("svg", { x: `${x(row.expert)}%`, y: 8, overflow: "visible" });
    inner.append(draw("path", { d: "M0-6 5 0 0 6-5 0Z", class: "expert" }));
    svg.append(inner);
  }
  mark(row.guard, "circle", { cx: `${x(row.guard)}%`, cy: 8, r: 4, class: "guard" });
  return svg;
}

function factSheet(desk) {
  const { night } = desk;
  const lines = [`${count(night.epochs, "epoch")} of ${night.seconds} s`];
  if (!night.hasClock) lines.push("No time of day is known: times count from the first epoch.");
  if (!night.blind) lines.push(count(night.changes.length, "stretch", "stretches") + " changed by the guard");
  const agreed = night.pins.reduce((sum, _, epoch) => sum + night.isAgreed(epoch), 0);
  if (night.opinions) lines.push(disputeText(night));
  else lines.push(`${count(night.scored - agreed, "epoch")} set by you, ${agreed} agreed with`);
  lines.push(night.settings?.why);
  lines.push(...(night.early_rem || []), ...(night.settings?.assumed || []));
  lines.push(agreementText(night));
  const second = night.second_scorer;
  if (second) lines.push(secondScorerText(second));
  return [make("ul", { className: "facts" }, ...lines.filter(Boolean).map((text) => make("li", { textContent: text }))),
    paragraph(night.saved?.file ? `Saved in ${night.saved.file}` : "", "quiet")];
}

/** Return who else decided how much of the night, and kappa once it means something. */
export function secondScorerText({ scorer, scored, of, both, least, is_complete: isComplete, kappa }) {
  const who = `Second scorer ${scorer}: ${scored} of ${of} epochs scored`;
  if (kappa !== null) return `${who}. Cohen’s kappa over the ${both} epochs that both scored: ${kappa.toFixed(2)}.`;
  if (scored < least) return `${who}: too few for kappa (at least ${least}).`;
  if (!isComplete) return `${who}. Kappa comes once you have finished.`;
  return both < least ? `${who}, ${both} of them by both: too few for kappa (at least ${least}).` : `${who}. Kappa is not defined.`;
}

/** Return kappa of a blind scoring with stager, guard and expert; empty before it is revealed. */
export function agreementText(night) {
  if (!night.agreement) return "";
  const { scored, of, least, kappa: kappas } = night.agreement;
  if (scored < least) return `${scored} of ${of} epochs scored blind: too few for kappa (at least ${least}).`;
  const known = Object.entries(kappas).filter(([, kappa]) => kappa !== null);
  if (!known.length) return "";
  const each = known.map(([who, kappa]) => `${kappa.toFixed(2)} with the ${who}`);
  return `Cohen’s kappa of ${night.opinions ? "the consensus" : "your blind scoring"}: ${each.join(", ")}.`;
}
