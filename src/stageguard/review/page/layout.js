// Sections that fold away, and the wide mode, in which the signals have the whole window.

import { byId } from "./words.js";

const FOLDS = "stageguard.folds"; // in the browser's storage, by address: another port has its own
const SECTIONS = ["overview", "detail", "signals"];
const FOLDED_BESIDE_SIGNALS = ["overview", "detail"]; // unless the scorer chose otherwise

export class Layout {
  constructor(desk) {
    this.desk = desk;
    this.wide = false;
    this.folds = stored();
    for (const name of SECTIONS) byId(`${name}-fold`).onclick = () => this.toggle(name);
    byId("wide").onclick = () => this.toggleWide();
    giveKeysBack();
  }

  /** Whether a section is folded; the folded overview is still a strip with the hypnogram. */
  isFolded(name) {
    if (this.wide) return name !== "signals";
    return this.folds[name] ?? (this.desk.night.hasSignals && FOLDED_BESIDE_SIGNALS.includes(name));
  }

  toggle(name) {
    this.folds[name] = !this.isFolded(name);
    try {
      localStorage.setItem(FOLDS, JSON.stringify(this.folds));
    } catch {
      // a browser that stores nothing: remembered until the page is closed
    }
    this.desk.draw(true);
  }

  toggleWide() {
    this.wide = !this.wide;
    scrollTo(0, 0);
    this.desk.draw(true);
  }

  open() {
    if (!this.desk.night.hasSignals) this.wide = false;
  }

  refresh() {
    document.body.classList.toggle("is-wide", this.wide);
    byId("wide").setAttribute("aria-pressed", String(this.wide));
    for (const name of SECTIONS) {
      const isFolded = this.isFolded(name);
      byId(`${name}-fold`).setAttribute("aria-expanded", String(!isFolded));
      if (name === "detail") byId("detail-controls").hidden = isFolded;
      byId(name === "signals" ? "signal-body" : name).hidden = isFolded && name !== "overview";
    }
  }
}

/** After the mouse has used a button or a choice of the signals, keys score again; who came by keyboard stays there. */
function giveKeysBack() {
  let isPointer = false;
  addEventListener("pointerdown", () => { isPointer = true; }, true);
  addEventListener("keydown", () => { isPointer = false; }, true);
  const leave = ({ target }) => {
    if (isPointer && target.closest(".fold, #wide, #pages, #signal-controls")) target.blur();
  };
  addEventListener("change", leave);
  addEventListener("click", (event) => event.target.tagName !== "SELECT" && leave(event));
}

function stored() {
  try {
    const folds = JSON.parse(localStorage.getItem(FOLDS)) ?? {};
    return Object.fromEntries(SECTIONS.filter((name) => typeof folds[name] === "boolean").map((name) => [name, folds[name]]));
  } catch {
    return {};
  }
}
