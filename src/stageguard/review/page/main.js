// Assembles the page and listens to the keyboard.

import { Bar } from "./bar.js";
import { Desk } from "./desk.js";
import { keysOf, meaningOf } from "./keys.js";
import { readableOn, themeOf } from "./lanes.js";
import { EpochPanel } from "./panel.js";
import { Layout } from "./layout.js";
import { Moved } from "./moved.js";
import { Nights } from "./nights.js";
import { Sheets } from "./sheets.js";
import { Signals } from "./signals.js";
import { Detail, Overview } from "./timeline.js";
import { byId, make } from "./words.js";

/** Buttons below the status line: all keyboard commands, for the mouse and for screen readers. */
class Controls {
  constructor(desk) {
    this.desk = desk;
    const button = (text, key, run, label = text) => {
      const made = make("button", { type: "button", onclick: run, title: `${label} (${key})` }, text);
      made.setAttribute("aria-label", label);
      return made;
    };
    byId("moves").append(
      button("|◀", "Home", () => desk.moveTo(0), "First epoch"),
      button("◀", "←", () => desk.moveBy(-1), "Previous epoch"),
      button("▶", "→", () => desk.moveBy(1), "Next epoch"),
      button("▶|", "End", () => desk.moveTo(desk.night.epochs - 1), "Last epoch"),
      withKey("Previous", "p", () => desk.moveInQueue(-1), "Previous worth a look"),
      withKey("Next", "n", () => desk.moveInQueue(1), "Next worth a look"));
    this.stretch = withKey("Stretch", "b", () => desk.toggleStretch(), "Select a stretch");
    this.agree = withKey("Agree", "↵", () => desk.agree(), "Agree with the epoch");
    this.clear = withKey("Take back", "⌫", () => desk.clear(), "Take back what you set here");
    this.explain = withKey("Explain", "e", () => desk.explain(), "Explain the epoch");
    this.takes = ["9", "0"].map((key, which) => withKey("Take", key, () => desk.take(which), "Take one scorer’s stages"));
    byId("verdicts").append(...this.takes, this.agree, this.clear, this.stretch, this.explain);
    byId("closer").onclick = () => desk.zoom(-1);
    byId("wider").onclick = () => desk.zoom(1);
    byId("go").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && desk.goWhere(event.target.value)) event.target.blur();
      if (event.key === "Escape") event.target.blur();
    });
  }

  refresh() {
    const { desk } = this;
    const { stages } = desk.night;
    const colours = themeOf(desk.night).stages;
    byId("stage-buttons").replaceChildren(...stages.map((stage, index) => {
      const made = make("button", { type: "button", className: "stage", onclick: () => desk.set(index) },
        stage.name, " ", make("kbd", { textContent: stage.key }));
      made.title = `${stage.full || stage.name} (${stage.key})`;
      made.style.background = colours[index];
      made.style.color = readableOn(colours[index]);
      made.setAttribute("aria-label", `Set ${stage.full || stage.name}`);
      return made;
    }));
    byId("legend").replaceChildren(...stages.map((stage, index) => {
      const swatch = make("span", { className: "swatch" });
      swatch.style.background = colours[index];
      return make("li", {}, swatch, stage.full || stage.name);
    }), ...(desk.night.blind || desk.night.opinions ? [] : [make("li", {}, make("span", { className: "swatch changed" }), "changed by the guard"),
      make("li", {}, make("span", { className: "swatch set" }), "set by you"),
      make("li", {}, make("span", { className: "swatch agreed" }), "agreed by you")]));
    this.takes.forEach((button, which) => nameTake(button, desk.night.opinions?.[which]));
    this.agree.hidden = desk.night.blind || Boolean(desk.night.opinions);
    this.explain.hidden = desk.night.blind;
  }

  move() {
    this.stretch.setAttribute("aria-pressed", String(this.desk.anchor !== null));
    const { pins, blind, shown } = this.desk.night;
    const current = (blind || this.desk.night.opinions ? pins : shown)[this.desk.cursor];
    [...byId("stage-buttons").children].forEach((button, index) => button.classList.toggle("current", index === current));
  }
}

/** Name the button that takes a scorer's stages; without an opinion it is not shown. */
function nameTake(button, opinion) {
  button.hidden = !opinion;
  if (!opinion) return;
  button.firstChild.textContent = `${opinion.scorer} `;
  button.setAttribute("aria-label", `Take the stages of ${opinion.scorer}`);
  button.title = `Set the stretch as ${opinion.scorer} scored it`;
}

function withKey(text, key, run, label) {
  const made = make("button", { type: "button", onclick: run, title: label }, `${text} `, make("kbd", { textContent: key }));
  made.setAttribute("aria-label", label);
  return made;
}

function listen(desk) {
  document.addEventListener("keydown", (event) => {
    if (!desk.night) return;
    const run = meaningOf(event, desk.keys);
    if (!run) return;
    event.preventDefault();
    run();
  });
  const redraw = () => desk.draw(true);
  new ResizeObserver(redraw).observe(byId("desk"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

async function begin() {
  window.stageguard = { redraws: 0 };
  const desk = new Desk();
  const overview = new Overview(desk);
  desk.bar = new Bar(desk);
  desk.layout = new Layout(desk);
  desk.nights = new Nights(desk);
  desk.panel = new EpochPanel(desk);
  desk.signals = new Signals(desk, overview);
  desk.parts = [desk.bar, desk.layout, new Controls(desk), overview, new Detail(desk), desk.panel, new Sheets(desk),
    desk.signals, new Moved(desk), desk.nights,
    { open: () => { desk.keys = keysOf(desk); } }];
  listen(desk);
  try {
    await desk.bar.load();
  } catch (error) {
    desk.bar.trouble(error.message);
  }
  desk.bar.loading(null);
  document.body.dataset.ready = "true";
}

begin();
