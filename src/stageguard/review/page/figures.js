// Saves pictures of the page as files: the hypnogram of the whole night, and the signals as they are shown.

import { SvgContext } from "./svg.js";
import { byId, make, paragraph, pushButton } from "./words.js";

const PIXELS = 3; // of a PNG, per CSS pixel: some 300 dpi in print

export class Figures {
  constructor(desk, overview) {
    this.desk = desk;
    byId("save-overview").onclick = () => this.ask("hypnogram", overview);
    byId("save-signals").onclick = () => this.ask(`epoch-${desk.cursor + 1}`, desk.signals);
  }

  /** Ask for a format; `part` has a figure: { width, height, paint(ctx) }. */
  ask(words, part) {
    const answer = make("p", { id: "figure-saved", role: "status" });
    const name = `${this.desk.night.name}-${words}`.replace(/[^\p{L}\p{N}._-]+/gu, "_");
    const save = async (suffix, made) => {
      const blob = await made(part.figure);
      download(blob, `${name}.${suffix}`);
      answer.textContent = `Saved as ${name}.${suffix}, where your browser keeps downloads.`;
    };
    this.desk.bar.dialog("Save picture", [paragraph("In the colours and the width of this page, without cursor and queue."), answer],
      [pushButton("SVG", () => save("svg", svgOf), { className: "main" }), pushButton("PNG", () => save("png", pngOf), { className: "main" })]);
  }
}

const paper = () => getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();

function paintOn(ctx, { width, height, paint }) {
  ctx.fillStyle = paper();
  ctx.fillRect(0, 0, width, height);
  paint(ctx);
}

function svgOf(figure) {
  const ctx = new SvgContext(figure.width, figure.height);
  paintOn(ctx, figure);
  return new Blob([ctx.text], { type: "image/svg+xml" });
}

function pngOf(figure) {
  const canvas = make("canvas", { width: Math.round(figure.width * PIXELS), height: Math.round(figure.height * PIXELS) });
  const ctx = canvas.getContext("2d");
  ctx.setTransform(PIXELS, 0, 0, PIXELS, 0, 0);
  paintOn(ctx, figure);
  return new Promise((resolve) => { canvas.toBlob(resolve); });
}

function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
