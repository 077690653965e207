// Deciding between two scorers: their opinions about an epoch, keys that take one, and how far the two agree.

import { make, numberText, paragraph } from "./words.js";

/** Return what the two say about an epoch, as [scorer, stage] pairs; empty outside an adjudication. */
export function opinionsAt(night, epoch) {
  return (night.opinions || []).map(({ scorer, stages }) => [scorer, stages[epoch]]);
}

/** Whether the two differ on an epoch. */
export function isDisputed(night, epoch) {
  const [one, other] = opinionsAt(night, epoch);
  return Boolean(one) && one[1] !== other[1];
}

/** Return the next epoch on which the two differ and nobody has decided, or null. */
export function nextDisputed(night, from, step) {
  for (let epoch = from + step; epoch >= 0 && epoch < night.epochs; epoch += step) {
    if (night.pins[epoch] < 0) return epoch;
  }
  return null;
}

/** Set a stretch as one of the two scored it: the selection, or the disputed stretch around the epoch. */
export function takeOpinion(desk, which) {
  const { night } = desk;
  if (!night.opinions) return;
  const { scorer, stages } = night.opinions[which];
  const [first, last] = desk.anchor === null ? stretchAt(night, desk.cursor) : desk.selected;
  const wanted = new Set(stages.subarray(first, last + 1));
  desk.anchor = null;
  if (!isDisputed(night, first)) desk.bar.notice("The two agree here: there is nothing to decide.");
  else if (wanted.size > 1) desk.bar.notice(`${scorer} has several stages here: select fewer epochs.`);
  else {
    desk.act({ do: "set", first, last, stage: stages[first], why: desk.panel.takeReason() });
    desk.moveTo(nextDisputed(night, last, 1) ?? last, { centre: false });
  }
  desk.draw();
}

/** Return first and last epoch around an epoch with the same two opinions and the same decision, if any. */
function stretchAt(night, epoch) {
  const [one, other] = night.opinions.map(({ stages }) => stages);
  const isAlike = (place) => one[place] === one[epoch] && other[place] === other[epoch] && night.pins[place] === night.pins[epoch];
  let [first, last] = [epoch, epoch];
  while (first > 0 && isAlike(first - 1)) first -= 1;
  while (last < night.epochs - 1 && isAlike(last + 1)) last += 1;
  return [first, last];
}

/** The sheet of the queue: how many disputed epochs are decided, above the list of those that are left. */
export function disputeHeading(night) {
  const { left, done } = night.queue;
  const progress = make("progress", { max: Math.max(left + done, 1), value: done });
  progress.setAttribute("aria-label", "Decided");
  const [one, other] = night.opinions.map(({ scorer }) => scorer);
  const seen = night.opinions.filter(({ blind }) => !blind).map(({ scorer }) => scorer);
  const lines = [make("p", {}, make("strong", { textContent: `${done} of ${left + done}` }), ` epochs decided on which ${one} and ${other} differ`),
    progress, paragraph(`The other ${night.epochs - left - done} epochs are settled.`, "quiet")];
  if (seen.length) lines.push(paragraph(`Not scored blind: ${seen.join(", ")}.`, "quiet"));
  if (!left) lines.push(paragraph("Everything is decided: the consensus can be exported."));
  return lines;
}

/** Return how many disputed epochs are decided, and kappa of the two. */
export function disputeText(night) {
  const { left, done } = night.queue;
  const [{ reference, scorer, kappa }] = night.comparisons;
  const told = kappa === null ? "not defined" : kappa.toFixed(2);
  return `${done} of ${left + done} epochs decided on which ${reference} and ${scorer} differ. Cohen’s kappa of the two: ${told}.`;
}

/** The sheet of kappa, kappa per stage and confusion. */
export function agreementSheet({ night }) {
  const found = night.comparisons || [];
  const names = night.stages.map(({ name }) => name);
  const title = ({ reference, scorer }) => `${reference}, ${scorer}`;
  const head = row("th", "col", ["Kappa", ...found.map(title)]);
  const kappas = ["all", ...names].map((stage) => row("td", "row", [stage, ...found.map((one) =>
    numberText(stage === "all" ? one.kappa : one.stage_kappas[stage], 2))]));
  const lines = [make("table", { className: "kappas" }, make("thead", {}, head), make("tbody", {}, ...kappas))];
  for (const one of found) {
    const columns = row("th", "col", [`${one.reference} ↓ ${one.scorer} →`, ...names]);
    const most = Math.max(1, ...one.confusion.flat());
    const body = one.confusion.map((counts, stage) => row("td", "row", [names[stage], ...counts], (count) => count / most));
    lines.push(make("table", { className: "confusion" }, make("caption", { textContent: `Epochs by ${one.reference} and ${one.scorer}` }),
      make("thead", {}, columns), make("tbody", {}, ...body)));
  }
  const told = found.length > 1 ? "Each scorer agrees with the consensus wherever the two agreed, so that these kappas are high."
    : "Kappa of each with the consensus comes once everything is decided.";
  return [...lines, paragraph(told, "quiet")];
}

/** Return a row of a table: the first cell is a heading of `scope`; `shade` gives the darkness of the others. */
function row(tag, scope, [first, ...rest], shade = null) {
  const cells = rest.map((text) => {
    const cell = make(tag, { textContent: String(text), scope: tag === "th" ? "col" : null });
    if (shade && text) cell.style.setProperty("--share", shade(text));
    return cell;
  });
  return make("tr", {}, make("th", { textContent: first, scope }), ...cells);
}
