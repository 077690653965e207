"use strict";
// What the page does: the reason of a change under the pointer or by keys, and the picture as a file.
(() => {
const byId = (id) => document.getElementById(id);
const night = JSON.parse(byId("night-data").textContent);
const overview = document.querySelector("#night svg");

const draw = (parent, tag, attributes, text) => {
  const element = document.createElementNS(overview.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
};
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const placeFrame = (first, count) => {
  const frame = overview.querySelector(".here") || draw(overview, "rect", { class: "here", y: 1 });
  frame.setAttribute("x", night.left + (night.plot * first) / night.n - 1);
  frame.setAttribute("width", Math.max((night.plot * count) / night.n, 2) + 2);
  frame.setAttribute("height", overview.viewBox.baseVal.height - 54);
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
  byId("reason").textContent = `${current + 1} of ${changes.length}. ${change.words}.`;
  placeFrame(change.first, change.last + 1 - change.first);
};
const under = (event) => {
  const box = overview.getBoundingClientRect(), epochs = night.n / night.plot;
  const epoch = ((event.clientX - box.left) * (night.width / box.width) - night.left) * epochs;
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
  copy.querySelectorAll(".here").forEach((frame) => frame.remove());
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

if (changes.length) {
  byId("reader").hidden = false;
  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  byId("previous").addEventListener("click", () => read(current - 1));
  byId("next").addEventListener("click", () => read(current + 1));
  byId("reader").addEventListener("keydown", (event) => {
    if (event.key in steps) { event.preventDefault(); read(current + steps[event.key]); }
  });
  overview.addEventListener("pointermove", point);
  overview.addEventListener("pointerleave", hideTip);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
}
})();
