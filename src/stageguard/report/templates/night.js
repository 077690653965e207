"use strict";
// What the page does: the reason of a change under the pointer or by keys, and a window into long recordings.
(() => {
const byId = (id) => document.getElementById(id);
const night = JSON.parse(byId("night-data").textContent);
const overview = document.querySelector("#night svg");
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FONT = 11.5, LANE = 11, STRIP = 64, TOP_LEVEL = LETTERS.length - 1;

const draw = (parent, tag, attributes, text) => {
  const element = document.createElementNS(overview.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
};
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const twoDigits = (number) => String(number).padStart(2, "0");
const timeText = (epoch) => {
  let seconds = Math.floor(epoch * night.seconds + night.offset);
  const days = Math.floor(seconds / 86400);
  const hours = night.isClock ? twoDigits(Math.floor(seconds / 3600) % 24) : Math.floor(seconds / 3600);
  const time = `${hours}:${twoDigits(Math.floor(seconds / 60) % 60)}:${twoDigits(seconds % 60)}`;
  return night.isClock && night.n * night.seconds > 86400 ? `day ${days + 1}, ${time}` : time;
};

// ---- a window into a long recording
const zoom = night.zoom;
let view = { svg: overview, first: 0, count: night.n, height: overview.viewBox.baseVal.height };
const x = (epoch) => night.left + (night.plot * (epoch - view.first)) / view.count;

const drawRuns = (panel, top, step) => {
  const bars = panel.stages.map(() => []);
  const risers = [], gaps = [];
  let epoch = 0, previous = -1;
  for (let i = 0; i < panel.runs.length && epoch < view.first + view.count; i += 2) {
    const rank = panel.runs[i], end = epoch + panel.runs[i + 1];
    if (end > view.first) {
      const left = x(Math.max(epoch, view.first)), right = x(Math.min(end, view.first + view.count));
      const middle = top + step * (rank + 0.5);
      if (rank < 0) gaps.push(`M${left} ${top}H${right}v${step * panel.stages.length}H${left}z`);
      else bars[rank].push(`M${left} ${middle}H${right}`);
      if (rank >= 0 && previous >= 0 && epoch > view.first)
        risers.push(`M${left} ${top + step * (previous + 0.5)}V${middle}`);
    }
    previous = rank;
    epoch = end;
  }
  draw(view.svg, "path", { d: gaps.join(""), class: "gap" });
  draw(view.svg, "path", { d: risers.join(""), class: "riser" });
  bars.forEach((path, rank) => {
    draw(view.svg, "path", { d: path.join(""), stroke: panel.stages[rank][1], "stroke-width": 9 });
  });
};
const drawPanel = (panel, top) => {
  const step = panel.stages.length > 3 ? 19 : 25;
  draw(view.svg, "text", { x: 0, y: top + 15, class: "panel-name" }, panel.name);
  panel.stages.forEach(([name], rank) => {
    const middle = top + step * (rank + 0.5);
    draw(view.svg, "path", { d: `M${night.left} ${middle}h${night.plot}`, class: "pale" });
    laneName(middle + 4, name);
  });
  drawRuns(panel, top, step);
  return top + step * panel.stages.length + 14;
};
const laneName = (y, name) => {
  const short = name.length > 22 ? `${name.slice(0, 21)}…` : name;
  draw(view.svg, "text", { x: night.left - 8, y, "text-anchor": "end", "font-size": FONT }, short);
};
const drawLane = (name, spans, top) => {
  laneName(top + 9, name);
  draw(view.svg, "rect", { x: night.left, y: top, width: night.plot, height: LANE, class: "ground" });
  const path = spans.map(([begins, lasts]) => {
    const left = x(Math.max(begins, view.first)), right = x(Math.min(begins + lasts, view.first + view.count));
    return right >= night.left && left < night.left + night.plot
      ? `M${left} ${top}h${Math.max(right - left, 0.8)}v${LANE}H${left}z` : "";
  });
  draw(view.svg, "path", { d: path.join("") });
  return top + LANE + 11;
};
const drawMarks = (top) => {
  drawLane("rare events", [], top);
  for (const [epoch, kind] of zoom.marks)
    if (epoch >= view.first && epoch < view.first + view.count)
      draw(view.svg, "path", { d: zoom.shapes[kind], transform: `translate(${x(epoch)} ${top + 5.5})`,
        class: kind === "kept" ? "mark full" : "mark" });
  return top + LANE + 11;
};
const drawLevels = (strip, colours, top, height) => {
  const n = colours.length, first = Math.floor(view.first / strip.step);
  const end = Math.min(Math.ceil((view.first + view.count) / strip.step), strip.levels.length / n);
  for (let rank = n - 1; rank >= 0; rank -= 1) {
    let path = `M${night.left} ${top + height}`;
    for (let column = first; column < end; column += 1) {
      const roof = LETTERS.indexOf(strip.levels[column * n + rank]) / TOP_LEVEL;
      const right = x(Math.min((column + 1) * strip.step, view.first + view.count));
      path += `V${(top + height * (1 - roof)).toFixed(1)}H${right.toFixed(1)}`;
    }
    draw(view.svg, "path", { d: `${path}V${top + height}z`, fill: colours[rank] });
  }
};
const STEPS = [60, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 604800];
const drawAxis = (top) => {
  draw(view.svg, "path", { d: `M${night.left} ${top}h${night.plot}`, class: "axis" });
  const length = view.count * night.seconds;
  const step = STEPS.find((seconds) => length / seconds <= 8) || length;
  const from = view.first * night.seconds + night.offset;
  for (let clock = Math.ceil(from / step) * step; clock <= from + length; clock += step) {
    const epoch = (clock - night.offset) / night.seconds;
    draw(view.svg, "path", { d: `M${x(epoch)} ${top}v5`, class: "axis" });
    draw(view.svg, "text", { x: x(epoch), y: top + 19, "text-anchor": "middle", "font-size": 12 },
      timeText(epoch + 1e-6).replace(/^day \d+, /, "").slice(0, -3));
  }
};
const redraw = () => {
  const svg = byId("zoom-picture"), slider = byId("zoom-first");
  view = { svg, first: clamp(Number(slider.value), 0, Math.max(0, night.n - Number(byId("zoom-width").value))),
    count: Math.min(Number(byId("zoom-width").value), night.n) };
  svg.replaceChildren();
  let top = 4;
  for (const panel of zoom.panels) {
    top = drawPanel(panel, top);
    if (panel.name === "Stager") top = drawLane("changed", zoom.changed, top - 4) + 4;
  }
  if (zoom.marks.length) top = drawMarks(top - 4);
  for (const lane of zoom.events) top = drawLane(lane.name, lane.spans, top);
  draw(svg, "text", { x: 0, y: top + 15, class: "panel-name" }, "Probabilities");
  draw(svg, "rect", { x: night.left, y: top, width: night.plot, height: STRIP, class: "gap" });
  drawLevels(zoom.strip, zoom.strip.colours, top, STRIP);
  top += STRIP + 10;
  if (zoom.quality) {
    laneName(top + 9, "signal lost");
    draw(svg, "rect", { x: night.left, y: top, width: night.plot, height: 20, class: "ground" });
    drawLevels(zoom.quality, ["currentColor"], top, 20);
    top += 28;
  }
  drawAxis(top);
  view.height = top + 26;
  svg.setAttribute("viewBox", `0 0 ${night.width} ${view.height}`);
  const last = view.first + view.count;
  const words = `Epochs ${view.first + 1} to ${last}, ${timeText(view.first)} to ${timeText(last)}`;
  byId("zoom-words").textContent = words;
  slider.setAttribute("aria-valuetext", words);
  placeFrame(overview, "window", view.first / night.n, view.count / night.n);
};
const placeFrame = (svg, name, begins, lasts) => {
  const frame = svg.querySelector(`.${name}`) || draw(svg, "rect", { class: name, y: 1 });
  frame.setAttribute("x", night.left + night.plot * begins - 1);
  frame.setAttribute("width", Math.max(night.plot * lasts, 2) + 2);
  frame.setAttribute("height", svg.viewBox.baseVal.height - 54);
};

// ---- the reasons, which stand in the rows of the changes' tables
const changes = [...document.querySelectorAll("#changes tbody tr")].map((row) => {
  const cells = [...row.children].map((cell) => cell.textContent);
  const [first, last] = cells[0].split("–").map(Number);
  const cost = cells[6] === "not allowed" ? "no allowed night keeps it" : `keeping it costs ${cells[6]} nats`;
  const epochs = last ? `Epochs ${first} to ${last}` : `Epoch ${first}`;
  const words = `${epochs}, ${cells[1]}: ${cells[2]} → ${cells[3]}, ${row.closest("table").dataset.by}; ${cost}`;
  return { first: first - 1, last: (last || first) - 1, words };
}).sort((one, other) => one.first - other.first);
let current = -1;
const read = (number) => {
  current = clamp(number, 0, changes.length - 1);
  const change = changes[current];
  if (zoom && (change.first < view.first || change.last >= view.first + view.count)) {
    byId("zoom-first").value = Math.round(change.first - view.count / 2);
    redraw();
  }
  byId("reason").textContent = `${current + 1} of ${changes.length}. ${change.words}.`;
  placeFrame(view.svg, "here", (change.first - view.first) / view.count, (change.last + 1 - change.first) / view.count);
};
const under = (event) => {
  const box = view.svg.getBoundingClientRect();
  const epochs = view.count / night.plot;
  const epoch = view.first + ((event.clientX - box.left) * (night.width / box.width) - night.left) * epochs;
  const distance = (change) => Math.max(change.first - epoch, epoch - change.last - 1, 0);
  let best = -1;
  changes.forEach((change, number) => {
    if (distance(change) < 4 * epochs && (best < 0 || distance(change) < distance(changes[best]))) best = number;
  });
  return best;
};
const hideTip = () => { byId("tip").hidden = true; };
const point = (event) => {
  const tip = byId("tip"), number = under(event);
  tip.hidden = number < 0;
  if (number < 0) return;
  tip.textContent = changes[number].words;
  tip.style.left = `${clamp(event.clientX + 12, 8, Math.max(8, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${clamp(event.clientY + 16, 8, Math.max(8, innerHeight - tip.offsetHeight - 8))}px`;
};

// ---- the picture as a file of its own: the style sheet's rules become attributes, for it has no style sheet there
const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor"];
const standalone = (svg) => {
  const copy = svg.cloneNode(true), copies = [...copy.querySelectorAll("*")];
  [...svg.querySelectorAll("*")].forEach((element, number) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) copies[number].setAttribute(name, style.getPropertyValue(name));
  });
  copy.querySelectorAll(".here, .window").forEach((frame) => frame.remove());
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const paper = draw(copy, "rect", { width, height, fill: getComputedStyle(document.body).backgroundColor });
  copy.insertBefore(paper, copy.firstElementChild?.tagName === "title" ? copy.children[1] : copy.firstChild);
  return { text: new XMLSerializer().serializeToString(copy), width, height };
};
const fileName = (suffix) => `${document.title.replace(/[^\p{L}\p{N}._-]+/gu, "_") || "night"}.${suffix}`;
const download = (blob, suffix) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = fileName(suffix);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  byId("saved").textContent = `Saved as ${link.download}.`;
};
const PIXELS = 3; // of a PNG, per unit of the picture: some 300 dpi in a column of text
const savePng = ({ text, width, height }) => {
  const image = new Image(), canvas = document.createElement("canvas");
  image.onerror = () => { byId("saved").textContent = "This browser cannot make a PNG of it: save the SVG."; };
  image.onload = () => {
    Object.assign(canvas, { width: width * PIXELS, height: height * PIXELS });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => (blob ? download(blob, "png") : image.onerror()));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
};
byId("figures").hidden = false;
byId("save-svg").addEventListener("click", () =>
  download(new Blob([standalone(overview).text], { type: "image/svg+xml" }), "svg"));
byId("save-png").addEventListener("click", () => savePng(standalone(overview)));

// a link to a folded part unfolds it
const unfold = (hash) => {
  const part = hash.length > 1 && byId(hash.slice(1));
  if (part && part.tagName === "DETAILS") part.open = true;
};
document.querySelectorAll("nav a").forEach((link) => link.addEventListener("click", () => unfold(link.hash)));
unfold(location.hash);

// a box that scrolls can be reached by keys
const reach = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll(".scroll, figure").forEach((box) => reach.observe(box));

if (zoom) {
  byId("zoom").hidden = false;
  const slider = byId("zoom-first"), width = byId("zoom-width");
  for (const [name, count] of zoom.windows) width.append(new Option(name, count, false, count === zoom.chosen));
  const move = (epoch) => { slider.value = epoch; redraw(); };
  const fit = () => {
    slider.max = Math.max(0, night.n - Number(width.value));
    slider.step = Math.max(1, Math.round(Number(width.value) / 10));
  };
  fit();
  slider.value = zoom.first;
  slider.addEventListener("input", redraw);
  width.addEventListener("change", () => { fit(); redraw(); });
  overview.classList.add("steers");
  overview.addEventListener("click", (event) => {
    const box = overview.getBoundingClientRect();
    const share = ((event.clientX - box.left) * (night.width / box.width) - night.left) / night.plot;
    if (share >= 0 && share <= 1) move(Math.round(share * night.n - view.count / 2));
  });
  redraw();
}
if (changes.length) {
  byId("reader").hidden = false;
  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  byId("previous").addEventListener("click", () => read(current - 1));
  byId("next").addEventListener("click", () => read(current + 1));
  byId("reader").addEventListener("keydown", (event) => {
    if (event.key in steps) { event.preventDefault(); read(current + steps[event.key]); }
  });
  view.svg.addEventListener("pointermove", point);
  view.svg.addEventListener("pointerleave", hideTip);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
}
})();
