// Help for a new scorer in one overlay: what the page is, how one works with it, and all keys.

import { keysOf } from "./keys.js";
import { make, paragraph } from "./words.js";

const OPEN = "A stager gave every epoch of this night probabilities of stages, and the guard made the most plausible night of them. "
  + "You have the last word: what you set or agree with stays, and the rest is decoded again around it.";
const BLIND = "You score this night blind: stager, guard and expert are hidden until you have scored every epoch, or reveal them.";
const SAVED = "Every action is saved at once and can be undone. The files of the night are never changed.";
const MOUSE = "Mouse and touch: press on a lane to go there; drag around the epoch to select a stretch; drag the window over the whole night.";

/** Return the steps of a scorer's work, over and over. */
function stepsOf(night) {
  const see = night.hasSignals ? ["Look at the signals; ", key("f"), " gives them the whole window. "] : ["Look at the lanes around it. "];
  if (night.blind) {
    return [[...see], ["Press the stage’s key; the next epoch follows."],
      [key("n"), " goes to the next epoch that is not scored yet; ", key("u"), " takes back a slip."],
      ["When all are scored, ", strong("Reveal"), " shows how you agree with stager and guard."]];
  }
  return [[key("n"), " goes to what is most worth a look."], [...see, key("e"), " explains the stage."],
    [key("Enter"), " agrees; a stage’s key sets another stage, in a whole stretch after ", key("b"), "."],
    ["Go on until nothing is worth a look. ", strong("Export"), " writes the reviewed night, ", strong("Finish"), " ends the review."]];
}

const key = (text) => make("kbd", { textContent: text });
const strong = (text) => make("strong", { textContent: text });

function keyTable(title, entries) {
  const rows = entries.map(({ shown, about }) => make("tr", {},
    make("th", { scope: "row" }, make("kbd", { textContent: shown })), make("td", { textContent: about })));
  return make("section", {}, make("h3", { textContent: title }), make("table", { className: "keys" }, make("tbody", {}, ...rows)));
}

/** Return the content of the overlay. */
export function helpOf(desk) {
  const { night } = desk;
  const keys = keysOf(desk);
  const tables = [keyTable("Keys", keys.filter((entry) => !entry.ofSignals))];
  if (night.hasSignals) tables.push(keyTable("Keys of the signals", keys.filter((entry) => entry.ofSignals)));
  const steps = stepsOf(night).map((words) => make("li", {}, ...words));
  return [paragraph(`${night.blind ? BLIND : OPEN} ${SAVED}`), make("ol", { className: "steps" }, ...steps),
    make("div", { className: "columns" }, ...tables), paragraph(MOUSE, "quiet")];
}
