// A drawing context that writes SVG: the part of a canvas's context that the pictures of this page use.

const NAMESPACE = "http://www.w3.org/2000/svg";
const ANCHORS = { left: "start", center: "middle", right: "end" };
const BASELINES = { middle: "central", top: "text-before-edge", alphabetic: "alphabetic" };
const STYLE = { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "10px sans-serif", textAlign: "left",
  textBaseline: "alphabetic", dash: [], clipName: null };

const short = (number) => String(Math.round(number * 100) / 100);

export class SvgContext {
  constructor(width, height) {
    this.svg = element("svg", { width: short(width), height: short(height), viewBox: `0 0 ${short(width)} ${short(height)}` });
    this.clips = 0;
    this.path = [];
    this.saved = [];
    this.ruler = document.createElement("canvas").getContext("2d"); // measures texts
    Object.assign(this, STYLE);
  }

  get text() {
    return new XMLSerializer().serializeToString(this.svg);
  }

  // ---- state

  save() {
    this.saved.push(Object.fromEntries(Object.keys(STYLE).map((name) => [name, this[name]])));
  }

  restore() {
    Object.assign(this, this.saved.pop());
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  // ---- paths

  beginPath() {
    this.path = [];
  }

  moveTo(x, y) {
    this.path.push(`M${short(x)} ${short(y)}`);
  }

  lineTo(x, y) {
    this.path.push(`L${short(x)} ${short(y)}`);
  }

  closePath() {
    this.path.push("Z");
  }

  rect(x, y, width, height) {
    this.path.push(`M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}Z`);
  }

  /** A whole circle: no picture here has parts of one. */
  arc(x, y, radius) {
    const [size, across] = [short(radius), short(2 * radius)];
    this.path.push(`M${short(x - radius)} ${short(y)}a${size} ${size} 0 1 0 ${across} 0a${size} ${size} 0 1 0 -${across} 0Z`);
  }

  clip() {
    this.clips += 1;
    this.clipName = `clip-${this.clips}`;
    const clip = element("clipPath", { id: this.clipName });
    clip.append(element("path", { d: this.path.join("") }));
    this.svg.append(clip);
  }

  fill() {
    this.add("path", { d: this.path.join(""), fill: this.fillStyle });
  }

  stroke() {
    if (this.path.length) this.add("path", { d: this.path.join(""), ...this.line });
  }

  // ---- shapes

  fillRect(x, y, width, height) {
    this.add("rect", { ...box(x, y, width, height), fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    this.add("rect", { ...box(x, y, width, height), ...this.line });
  }

  fillText(text, x, y, most = Infinity) {
    const { width } = this.measureText(text);
    const squeezed = width > most ? { textLength: short(most), lengthAdjust: "spacingAndGlyphs" } : {};
    const written = this.add("text", { x: short(x), y: short(y), fill: this.fillStyle, "text-anchor": ANCHORS[this.textAlign],
      "dominant-baseline": BASELINES[this.textBaseline], ...this.letters, ...squeezed });
    written.textContent = text;
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  /** Draw a canvas, which becomes a picture in the file. */
  drawImage(canvas, x, y, width, height) {
    this.add("image", { ...box(x, y, width, height), href: canvas.toDataURL(), preserveAspectRatio: "none" });
  }

  // ---- parts

  get line() {
    const dash = this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {};
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": short(this.lineWidth), ...dash };
  }

  get letters() {
    const [, weight, size, family] = /^(?:(\d+|bold) )?([\d.]+)px (.*)$/.exec(this.font) || [null, null, "10", "sans-serif"];
    return { "font-family": family, "font-size": size, ...(weight ? { "font-weight": weight } : {}) };
  }

  add(tag, attributes) {
    const made = element(tag, attributes);
    if (this.globalAlpha < 1) made.setAttribute("opacity", short(this.globalAlpha));
    if (this.clipName) made.setAttribute("clip-path", `url(#${this.clipName})`);
    this.svg.append(made);
    return made;
  }
}

const box = (x, y, width, height) => ({ x: short(x), y: short(y), width: short(Math.max(0, width)), height: short(Math.max(0, height)) });

function element(tag, attributes) {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
