// The targets of a review: how near each statistic is, and the page's word when all are near enough.

import { draw, make, paragraph, pushButton } from "./words.js";

/**
 * Return the sheet of targets: how to begin, or a row per statistic. Null where the rows were only brought up to
 * date: a field in which somebody types, or that has unsaved text, is never replaced.
 */
export function targetSheet(desk, sheet) {
  const { plan, blind } = desk.night;
  if (blind) return [paragraph("Hidden until you reveal.")];
  if (!plan) {
    const begin = pushButton("Review to a target", () => desk.act({ do: "targets", value: {} }), { id: "begin-targets" });
    return [paragraph("Look first at what makes the numbers of the night right, and stop when they are near enough."), begin];
  }
  if (update(desk, sheet)) return null;
  const end = pushButton("No targets", () => desk.act({ do: "targets", value: null }), { id: "end-targets" });
  const titles = ["Number", `${plan.level} % interval`, "Target ±"];
  const head = make("tr", {}, ...titles.map((title) => make("th", { textContent: title, scope: "col" })));
  const rows = plan.rows.map((row) => make("tr", {},
    make("th", { scope: "row", title: row.title, textContent: row.label }), intervalCell(row), make("td", {}, targetField(desk, row))));
  const table = make("table", { className: "targets" }, make("thead", {}, head), make("tbody", {}, ...rows));
  return [make("div", { className: "stops" }, ...stopNotice(plan)), table,
    paragraph("Light bar: interval before the first look; dark bar: now; lines: the target around the number. "
      + "Without a target, all numbers count in units of one expert’s error.", "quiet"), end];
}

/** Bring the rows of this night up to date; false if there are none yet. */
function update({ night }, sheet) {
  const fields = [...sheet.querySelectorAll("input")];
  const names = fields.map((field) => field.id).join();
  if (!fields.length || names !== night.plan.rows.map(idOf).join() || sheet.dataset.night !== String(night.index)) {
    sheet.dataset.night = night.index;
    return false;
  }
  sheet.querySelector(".stops").replaceChildren(...stopNotice(night.plan));
  night.plan.rows.forEach((row, index) => {
    const field = fields[index];
    const isTyped = field === document.activeElement || field.value !== field.defaultValue || field.validity.badInput;
    field.defaultValue = row.target ?? ""; // what is saved
    if (!isTyped) field.value = field.defaultValue;
    field.closest("tr").children[1].replaceWith(intervalCell(row));
  });
  return true;
}

/** Return what the queue says of the targets: those that there are, and whether they are met. */
export function targetSummary({ plan }) {
  if (!plan) return [];
  const rows = plan.rows.filter(({ target }) => target !== null).map((row) => make("tr", {},
    make("th", { scope: "row", title: row.title, textContent: row.label }), intervalCell(row)));
  const table = rows.length ? make("table", { className: "targets" }, make("tbody", {}, ...rows)) : null;
  return [make("div", { className: "aims" }, ...stopNotice(plan), table)];
}

function stopNotice(plan) {
  const text = plan.is_met ? `All targets are met: ${plan.text}. You can stop here.` : plan.text;
  const lines = text ? [make("p", { className: plan.is_met ? "stop met" : "stop", role: "status", textContent: text })] : [];
  if (plan.withheld) lines.push(paragraph(`No width is promised for this night: ${plan.withheld}.`, "quiet"));
  return lines;
}

function intervalCell(row) {
  const unit = row.unit ? ` ${row.unit}` : "";
  const now = row.low === null ? "not known" : `${numeral(row.low)}–${numeral(row.high)}${unit}`;
  const met = row.is_met ? make("span", { className: "met", textContent: " ✓ met" }) : null;
  return make("td", {}, now, met, picture(row));
}

const idOf = ({ name }) => `target-${name}`;

function targetField(desk, row) {
  const input = make("input", { id: idOf(row), type: "number", min: "0", step: "any", defaultValue: row.target ?? "" });
  input.setAttribute("aria-label", `Target for ${row.title}${row.unit ? `, in ${row.unit}` : ""}`);
  input.addEventListener("change", () => changeTarget(desk, row.name, input.value));
  return input;
}

/** Send all targets, one of them new; an empty field takes a target away. */
function changeTarget(desk, name, text) {
  const targets = {};
  for (const { name: own, target } of desk.night.plan.rows) if (target !== null) targets[own] = target;
  delete targets[name];
  if (text.trim()) targets[name] = Number(text);
  if (text.trim() && !(targets[name] > 0)) desk.bar.notice(`The target is “${text}”: give a number above 0.`);
  else desk.act({ do: "targets", value: targets });
}

const numeral = (value) => value.toFixed(0);

/** Draw the interval at the start, the interval now and the target on one scale. */
function picture(row) {
  const ends = [row.low, row.high, row.start_low, row.start_high, row.value].filter(Number.isFinite);
  if (row.low === null || !ends.length) return null;
  const target = row.target === null ? [] : [row.value - row.target, row.value + row.target];
  const least = Math.min(...ends, ...target);
  const most = Math.max(...ends, ...target);
  const x = (value) => 2 + 96 * (value - least) / (most - least || 1);
  const svg = draw("svg", { class: "band", "aria-hidden": "true" });
  const bar = (low, high, name, y, height) => svg.append(draw("rect",
    { x: `${x(low)}%`, y, width: `${Math.max(x(high) - x(low), 0.5)}%`, height, rx: 2, class: name }));
  if (Number.isFinite(row.start_low)) bar(row.start_low, row.start_high, "range", 4, 8);
  bar(row.low, row.high, row.is_met ? "now met" : "now", 5.5, 5);
  for (const value of target) svg.append(draw("line", { x1: `${x(value)}%`, x2: `${x(value)}%`, y1: 1, y2: 15, class: "aim" }));
  return svg;
}
