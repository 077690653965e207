// The table of keys, which the help dialog lists as well.

/** `shown`, `about` and `ofSignals` are for the help; `match` and `shift` map keys, without and with shift, to commands. */
export function keysOf(desk) {
  const step = (by) => () => desk.moveBy(by);
  const { stages, epochs } = desk.night;
  return [
    { shown: "→ / ←", about: "next, previous epoch", match: { ArrowRight: step(1), ArrowLeft: step(-1) } },
    { shown: "shift + → / ←", about: "10 epochs on, back", shift: { ArrowRight: step(10), ArrowLeft: step(-10) } },
    { shown: "Home / End", about: "first, last epoch",
      match: { Home: () => desk.moveTo(0), End: () => desk.moveTo(epochs - 1) } },
    { shown: "n / p", about: "next, previous epoch worth a look (blind: not yet scored)",
      match: { n: () => desk.moveInQueue(1), p: () => desk.moveInQueue(-1) } },
    { shown: "g", about: "go to an epoch’s number or a time", match: { g: () => desk.askWhere() } },
    { shown: "x", about: "mark the epoch, or the selected epochs, as artefact, or no longer", match: { x: () => desk.markArtefact() } },
    { shown: stages.map((stage) => stage.key).join(" "), about: `set ${stages.map((stage) => stage.name).join(", ")}`,
      match: Object.fromEntries(stages.map((stage, index) => [stage.key, () => desk.set(index)])) },
    ...(desk.night.opinions ? [{ shown: "9 / 0",
      about: `take the stretch as ${desk.night.opinions.map(({ scorer }) => scorer).join(", ")} scored it`,
      match: { 9: () => desk.take(0), 0: () => desk.take(1) } }] : []),
    { shown: "Backspace", about: "take back what you set here",
      match: { Backspace: () => desk.clear(), Delete: () => desk.clear() } },
    { shown: "Enter", about: "agree with the epoch, and go to the next worth a look", match: { Enter: () => desk.agree() } },
    { shown: "b", about: "begin or drop a stretch; moving then selects, a stage key sets all of it",
      match: { b: () => desk.toggleStretch() } },
    { shown: "e", about: "explain the epoch", match: { e: () => desk.explain() } },
    { shown: "c", about: "choose the strength again, for what you have decided since", match: { c: () => desk.chooseStrength() } },
    { shown: "u / shift + u", about: "undo, redo", match: { u: () => desk.undo() }, shift: { u: () => desk.redo() } },
    { shown: "+ / -", about: "closer, wider",
      match: { "+": () => desk.zoom(-1), "=": () => desk.zoom(-1), "-": () => desk.zoom(1) } },
    ...(desk.night.hasSignals ? signalKeys(desk) : []),
    ...(desk.nights.isChoice ? [{ shown: "shift + n", about: "the list of nights; a number or a part of a name, and Enter, opens one",
      shift: { n: () => desk.nights.show() } },
    { shown: "Page down / Page up", about: "next, previous night",
      match: { PageDown: () => desk.nights.step(1), PageUp: () => desk.nights.step(-1) } }] : []),
    { shown: "?", about: "this help", match: { "?": () => desk.help() } },
    { shown: "Escape", about: "close the help, drop the stretch, leave a field", match: { Escape: () => desk.drop() } },
  ];
}

function signalKeys(desk) {
  const { signals } = desk;
  const keys = [
    { shown: "f", about: "signals in the whole window; a stage key then sets and goes on to the next epoch",
      match: { f: () => desk.layout.toggleWide() } },
    { shown: "v / shift + v", about: "longer, shorter view; one shorter than an epoch turns its pages",
      match: { v: () => signals.changeView(1) }, shift: { v: () => signals.changeView(-1) } },
    { shown: "[ / ]", about: "smaller, larger", match: { "[": () => desk.scale(1), "]": () => desk.scale(-1) } },
  ];
  return keys.map((entry) => ({ ...entry, ofSignals: true }));
}

/** Return the command of a key press, or null: fields and buttons keep the keys they need. */
export function meaningOf(event, keys) {
  if (event.metaKey || ((event.ctrlKey || event.altKey) && !event.getModifierState("AltGraph"))) return null;
  const tag = event.target.tagName;
  if (tag === "INPUT" && event.target.type !== "checkbox" || tag === "SELECT" || tag === "TEXTAREA") return null;
  if (document.querySelector("dialog[open]")) return null; // the page behind a dialog takes no keys
  if (["BUTTON", "SUMMARY", "INPUT"].includes(tag) && [" ", "Enter"].includes(event.key)) return null;
  if (event.target.getAttribute?.("role") === "tab" && event.key.startsWith("Arrow")) return null;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key; // ignore caps lock
  const shifted = event.shiftKey && /^([a-z]|.{2,})$/.test(key); // not for symbols, which may need shift to be typed
  for (const entry of keys) {
    const table = shifted ? entry.shift : entry.match;
    if (table && Object.hasOwn(table, key)) return table[key];
  }
  return null;
}
