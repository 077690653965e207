// Says which epochs changed although the scorer has not decided them, until the scorer has seen it.

import { byId, count, make, pushButton } from "./words.js";

const LISTED = 8; // stretches with a button

export class Moved {
  constructor(desk) {
    this.desk = desk;
    this.seen = null; // the stages of the night as the scorer knows them; null while they are hidden
    this.text = make("p", { id: "moved-text", role: "status" });
    this.jumps = make("div", { className: "buttons" });
    byId("moved").append(this.text, this.jumps);
  }

  open() {
    this.seen = null;
  }

  /** Take the night as it is for known. */
  markSeen() {
    this.seen = this.desk.night.guard?.slice() ?? null;
    this.desk.draw(true);
  }

  refresh() {
    const { night } = this.desk;
    if (night.blind || night.opinions || !night.guard) this.seen = null;
    else this.seen ??= night.guard.slice();
    const stretches = this.seen ? stretchesOf(night, this.seen) : [];
    const epochs = stretches.reduce((sum, { first, last }) => sum + last - first + 1, 0);
    byId("moved").hidden = !epochs;
    document.body.classList.toggle("has-moved", epochs > 0);
    const text = epochs ? `${count(epochs, "epoch")} that you have not decided ${epochs === 1 ? "has" : "have"} changed: `
      + `${stretches.slice(0, LISTED).map((stretch) => stretchText(night, stretch)).join("; ")}`
      + `${stretches.length > LISTED ? `; and ${stretches.length - LISTED} more stretches` : ""}. They are first in the queue.` : "";
    if (this.text.textContent === text) return;
    this.text.textContent = text;
    const go = stretches.slice(0, LISTED).map((stretch) =>
      pushButton(`Go to ${stretch.first + 1}`, () => this.desk.moveTo(stretch.first, { centre: true })));
    this.jumps.replaceChildren(...go, pushButton("Seen", () => this.markSeen(), { className: "main" }));
  }
}

/** Return the stretches whose stage is not the one that the scorer knows, apart from decided epochs. */
function stretchesOf(night, seen) {
  const stretches = [];
  for (let epoch = 0; epoch < night.epochs; epoch += 1) {
    const [before, after] = [seen[epoch], night.guard[epoch]];
    if (before === after || night.pins[epoch] >= 0) continue;
    const open = stretches[stretches.length - 1];
    if (open && open.last === epoch - 1 && open.before === before && open.after === after) open.last = epoch;
    else stretches.push({ first: epoch, last: epoch, before, after });
  }
  return stretches;
}

function stretchText(night, { first, last, before, after }) {
  const where = first === last ? `${first + 1}` : `${first + 1}–${last + 1}`;
  return `${where} ${night.stageName(before)} → ${night.stageName(after)}`;
}
