"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const box = at("box"), table = at("table"), body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
const SVG = "http://www.w3.org/2000/svg";
const ROW = 34, AHEAD = 8, PRINTED = 200;  // height of a row, rows drawn beyond the window, rows on paper
const PLACES = {a: "above", b: "below"};
const n = data.ids.length, longest = Math.max(...data.hours);
const plain = new Intl.NumberFormat("en");
const names = new Intl.Collator("en", {numeric: true, sensitivity: "base"});

// One row for each night in view, by its place there; those that leave the window are removed.
let view = [], rows = new Map(), sort = {by: "rank", down: false};
const above = pad(), below = pad();

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function pad() {
  const row = make("tr", undefined, {class: "pad", "aria-hidden": "true"});
  row.append(make("td", undefined, {colspan: heads.length}));
  return row;
}

function number(value, decimals, signed) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value).toFixed(decimals);
  const sign = value < 0 && Number(text) !== 0 ? "−" : signed && Number(text) !== 0 ? "+" : "";
  return sign + text;
}

function chosen() { return at("scoring") ? at("scoring").value : Object.keys(data.values)[0]; }

function valueOf(column, night) {
  const [first, second] = chosen().split("-");
  const value = data.values[first][column][night];
  if (second === undefined) return value;
  const other = data.values[second][column][night];
  return value === null || other === null ? null : value - other;
}

function keyOf(by, night) {
  switch (by) {
    case "rank": return night;
    case "id": return data.ids[night];
    case "group": return data.group[night] < 0 ? null : data.groups[data.group[night]];
    case "hours": return data.hours[night];
    case "outside": return data.judged[night] ? data.outside[night].length / 3 : null;
    case "changed": return data.changed[night];
    default: return valueOf(Number(by), night);
  }
}

function select() {
  const find = at("find").value.trim().toLowerCase(), which = at("which").value;
  const group = at("group") ? at("group").value : "";
  const keys = new Map();
  view = [];
  for (let night = 0; night < n; night++) {
    if (find && !data.ids[night].toLowerCase().includes(find)) continue;
    if (which === "remark" ? !data.remarks[night].length : which !== "all" && data.alike[night] !== Number(which)) continue;
    if (group !== "" && data.group[night] !== Number(group)) continue;
    view.push(night);
    keys.set(night, keyOf(sort.by, night));
  }
  const way = sort.down ? -1 : 1;
  view.sort((a, b) => {
    const first = keys.get(a), second = keys.get(b);
    if (first === null || second === null) return (first === null) - (second === null) || a - b;
    return way * (typeof first === "string" ? names.compare(first, second) : first - second) || a - b;
  });
  at("shown").textContent = view.length === n ? `${plain.format(n)} nights` : `${plain.format(view.length)} of ${plain.format(n)} nights`;
  table.setAttribute("aria-rowcount", view.length + 1);
  for (const row of rows.values()) row.remove();
  rows = new Map();
  box.scrollTop = 0;
  draw();
}

function draw(all) {
  const height = Math.max(box.clientHeight, innerHeight);  // the box grows with its first rows
  const first = all ? 0 : Math.max(0, Math.floor(box.scrollTop / ROW) - AHEAD);
  const stop = all ? Math.min(view.length, PRINTED) : Math.min(view.length, Math.ceil((box.scrollTop + height) / ROW) + AHEAD);
  for (const [place, row] of rows) {
    if (place < first || place >= stop) { row.remove(); rows.delete(place); }
  }
  let next = below;
  for (let place = stop - 1; place >= first; place--) {
    if (!rows.has(place)) {
      rows.set(place, nightRow(view[place], place));
      body.insertBefore(rows.get(place), next);
    }
    next = rows.get(place);
  }
  above.hidden = !first || Boolean(all);
  above.firstChild.style.height = `${first * ROW}px`;
  below.hidden = stop === view.length || Boolean(all);
  below.firstChild.style.height = `${(view.length - stop) * ROW}px`;
  none.hidden = view.length > 0;
}

function nightRow(night, place) {
  const row = make("tr", undefined, {"aria-rowindex": place + 2});
  if (data.alike[night] === 0) row.className = "apart";
  row.append(make("td", plain.format(night + 1)));
  const name = make("th", undefined, {scope: "row", class: "name", title: data.ids[night]});
  name.append(link(night));
  row.append(name);
  if (data.groups.length) row.append(make("td", keyOf("group", night) ?? "–", {class: "text"}));
  const drawn = make("td", undefined, {class: "text"});
  drawn.append(spark(night, 132, 26));
  row.append(drawn, make("td", number(data.hours[night], 1)));
  const outside = make("td");
  const words = data.judged[night] ? `${data.outside[night].length / 3} of ${data.judged[night]}` : "–";
  const button = make("button", words + (data.remarks[night].length ? " !" : ""), {type: "button", "aria-controls": "details"});
  button.setAttribute("aria-label", `${words} outside; details of ${data.ids[night]}`);
  button.addEventListener("click", () => tell(night));
  outside.append(button);
  row.append(outside, make("td", number(data.changed[night], 1)));
  const signed = chosen().includes("-");
  data.columns.forEach(([, , decimals], column) => row.append(make("td", number(valueOf(column, night), decimals, signed))));
  return row;
}

function link(night) {
  const address = data.links.length ? data.links[night] : null;
  return address ? make("a", data.ids[night], {href: address}) : document.createTextNode(data.ids[night]);
}

// A hypnogram from its runs: a line at the height of each stage in its colour, risers between them.
function spark(night, width, height) {
  const scale = data.scales[data.scale[night]], runs = [...data.spark[night].matchAll(/([a-z-])(\d+)/g)];
  const bins = runs.reduce((sum, run) => sum + Number(run[2]), 0);
  const step = width * data.hours[night] / longest / bins, levels = Math.max(1, scale.stages.length - 1);
  const thick = height / 8, paths = scale.stages.map(() => ""), counts = scale.stages.map(() => 0);
  let x = 0, risers = "", last = null;
  for (const [, letter, length] of runs) {
    const stage = letter.charCodeAt(0) - 97, right = x + step * Number(length);
    if (letter !== "-") {
      const y = thick / 2 + (height - thick) * stage / levels;
      paths[stage] += `M${x.toFixed(1)} ${y.toFixed(1)}H${right.toFixed(1)}`;
      counts[stage] += Number(length);
      if (last !== null) risers += `M${x.toFixed(1)} ${last.toFixed(1)}V${y.toFixed(1)}`;
      last = y;
    } else last = null;
    x = right;
  }
  const image = document.createElementNS(SVG, "svg");
  image.setAttribute("viewBox", `0 0 ${width} ${height}`);
  image.setAttribute("preserveAspectRatio", "none");
  image.setAttribute("class", "spark");
  image.setAttribute("role", "img");
  const scored = counts.reduce((sum, count) => sum + count, 0) || 1;
  const shares = scale.stages.map((stage, place) => `${stage} ${Math.round(100 * counts[place] / scored)} %`);
  image.setAttribute("aria-label", `Hypnogram: ${shares.join(", ")}`);
  const line = (path, colour, strokeWidth) => {
    if (!path) return;
    const made = document.createElementNS(SVG, "path");
    for (const [name, value] of Object.entries({d: path, stroke: colour, "stroke-width": strokeWidth, fill: "none"})) made.setAttribute(name, value);
    image.append(made);
  };
  line(risers, "#9AA1A9", 0.8);
  paths.forEach((path, stage) => line(path, scale.colours[stage], thick));
  return image;
}

// Which indicators lie outside, and what there is to say of a night, below the table.
function tell(night) {
  const details = at("details"), scale = data.scales[data.scale[night]], outside = data.outside[night];
  const title = make("h3");
  title.append(link(night));
  details.replaceChildren(title, spark(night, 900, 60));
  const changed = data.changed[night] === null ? "" : `, ${number(data.changed[night], 1)} % of its epochs changed`;
  details.append(make("p", `${number(data.hours[night], 1)} h${scale.profile ? `, profile ${scale.profile}` : ""}${changed}.`));
  if (data.remarks[night].length) {
    const list = make("ul");
    for (const text of data.remarks[night]) list.append(make("li", data.texts[text]));
    details.append(list);
  }
  if (outside.length) details.append(outsideTable(scale, outside));
  else if (data.judged[night]) details.append(make("p", `All ${data.judged[night]} indicators lie inside their bands.`));
  details.hidden = false;
}

function outsideTable(scale, outside) {
  const listed = make("table"), head = make("tr"), rows = make("tbody"), top = make("thead");
  for (const title of ["Outside its band", "Value", "Place", "Expert band"]) head.append(make("th", title, {scope: "col"}));
  for (let place = 0; place < outside.length; place += 3) {
    const [label, band] = scale.bands[outside[place]], row = make("tr");
    row.append(make("th", label, {scope: "row"}), make("td", outside[place + 1]), make("td", PLACES[outside[place + 2]]), make("td", band));
    rows.append(row);
  }
  top.append(head);
  listed.append(top, rows);
  return listed;
}

function sortBy(button) {
  const by = button.dataset.by, same = sort.by === by;
  const ascends = by === "rank" || by === "id" || by === "group";
  sort = {by, down: same ? !sort.down : !ascends};
  for (const head of heads) head.removeAttribute("aria-sort");
  button.closest("th").setAttribute("aria-sort", sort.down ? "descending" : "ascending");
  select();
}

// Widths that do not change while rows come and go.
function setWidths() {
  const group = make("colgroup"), longestName = data.ids.reduce((most, id) => Math.max(most, id.length), 5);
  const widths = heads.map((head) => {
    const by = head.firstElementChild ? head.firstElementChild.dataset.by : "spark";
    if (by === "id") return `${Math.min(longestName, innerWidth < 600 ? 14 : 30) + 3}ch`;
    if (by === "group") return `${Math.min(Math.max(5, ...data.groups.map((text) => text.length)), 20) + 4}ch`;
    return {rank: "58px", spark: "150px", hours: "66px", outside: "86px", changed: "86px"}[by] ?? "88px";
  });
  for (const width of widths) {
    const column = make("col");
    column.style.width = width;
    group.append(column);
  }
  table.prepend(group);
  box.style.scrollPadding = `${table.tHead.offsetHeight}px 0 0 ${table.querySelector("th.name").offsetWidth}px`;
}

const none = make("tr", undefined, {class: "none"});
none.append(make("td", "No night is like this.", {colspan: heads.length}));
body.append(above, below, none);
setWidths();
for (const head of heads) head.querySelector("button")?.addEventListener("click", (event) => sortBy(event.currentTarget));
at("controls").addEventListener("submit", (event) => event.preventDefault());
at("controls").addEventListener("input", select);
let waits = false;
box.addEventListener("scroll", () => {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => { waits = false; draw(); });
});
addEventListener("resize", () => draw());
addEventListener("beforeprint", () => draw(true));
addEventListener("afterprint", () => draw());
select();
})();
