// The side panel's upper part: everything about the current epoch.

import { get, ServerGone } from "./server.js";
import { byId, make, paragraph, percent, whenText } from "./words.js";
import { opinionsAt } from "./adjudication.js";
import { themeOf } from "./lanes.js";

export class EpochPanel {
  constructor(desk) {
    this.desk = desk;
    this.explained = null; // { epoch, revision, answer }
    this.reason = byId("reason");
  }

  open() {
    this.explained = null;
    this.reason.value = "";
  }

  /** Return and clear the scorer's reason for the next correction. */
  takeReason() {
    const text = this.reason.value.trim();
    this.reason.value = "";
    return text;
  }

  refresh() {
    const { night } = this.desk;
    const theme = themeOf(night);
    this.facts = make("dl", { className: "facts" });
    this.bars = night.stages.map((stage, index) => this.barOf(stage, theme.stages[index]));
    const head = make("tr", {}, ...["Stage", "Stager", "Posterior"].map((text) => make("th", { textContent: text, scope: "col" })));
    this.table = make("table", { className: "shares", hidden: night.blind },
      make("thead", {}, head), make("tbody", {}, ...this.bars.map((bar) => bar.row)));
    this.why = make("p", { className: "why" });
    this.explanation = make("div", { id: "explanation" });
    this.explanation.setAttribute("aria-live", "polite");
    byId("epoch").replaceChildren(this.facts, this.table, this.why, this.explanation);
  }

  barOf(stage, colour) {
    const bar = () => {
      const fill = make("span", { className: "fill" });
      fill.style.background = colour;
      const text = make("span", { className: "number" });
      return { fill, text, cell: make("td", {}, make("span", { className: "track" }, fill), text) };
    };
    const [before, after] = [bar(), bar()];
    const name = make("th", { textContent: stage.name, title: stage.full || stage.name, scope: "row" });
    return { before, after, row: make("tr", {}, name, before.cell, after.cell) };
  }

  move() {
    const { night, cursor } = this.desk;
    const line = byId("line");
    const text = this.desk.line;
    if (line.textContent !== text) line.textContent = text;
    byId("epoch-title").textContent = `Epoch ${cursor + 1}`;
    const facts = night.blind ? []
      : [["Guard", night.shown[cursor]], ["Stager", night.stager?.[cursor]], ["Expert", night.expert?.[cursor] ?? null]];
    if (night.opinions) facts.unshift(...opinionsAt(night, cursor), ["Consensus", night.pins[cursor]]);
    else if (night.blind || night.pins[cursor] >= 0) facts.unshift(["You", night.pins[cursor]]);
    this.facts.replaceChildren(...facts.filter(([, stage]) => stage !== null).flatMap(([who, stage]) => [
      make("dt", { textContent: who }), make("dd", { textContent: night.stageName(stage) })]));
    this.bars.forEach((bar, stage) => {
      fill(bar.before, night.share(night.probabilities, cursor, stage));
      fill(bar.after, night.share(night.posterior, cursor, stage));
    });
    this.why.textContent = this.whyText(night, cursor);
    this.showExplanation(night, cursor);
  }

  whyText(night, cursor) {
    if (night.blind) return "";
    const change = night.changeAt(cursor);
    const queued = night.queuedAt(cursor);
    const isExplained = this.explained?.epoch === cursor; // the explanation includes the change
    const texts = [change && !isExplained ? change.text : "", queued ? queued.text : ""];
    if (night.quality && night.quality[cursor] < 50) texts.push(`Signal quality ${night.quality[cursor]} of 100.`);
    return texts.filter(Boolean).join(" ");
  }

  showExplanation(night, cursor) {
    const told = this.explained;
    const isHere = told && told.epoch === cursor && told.revision === night.revision;
    if (!isHere) {
      if (this.explanation.firstChild) this.explanation.replaceChildren();
    } else if (!this.explanation.firstChild) this.explanation.replaceChildren(...linesOf(night, told.answer));
  }

  async explain(epoch) {
    const { desk } = this;
    const { night } = desk;
    if (night.blind) {
      desk.bar.notice("Explanations are hidden while you score blind.");
      return;
    }
    try {
      const answer = await get(`/api/nights/${night.index}/explain/${epoch}`);
      this.explained = { epoch, revision: night.revision, answer };
    } catch (error) {
      if (error instanceof ServerGone) desk.serverGone();
      else desk.bar.notice(error.message);
    }
    desk.draw();
  }
}

function fill(bar, share) {
  bar.fill.style.width = `${100 * (share ?? 0)}%`;
  bar.text.textContent = share === null ? "–" : percent(share);
}

function linesOf(night, answer) {
  const lines = (answer.text || []).map((text) => paragraph(text));
  if (answer.pin) {
    const { stage, who, when, why, is_agreed: isAgreed } = answer.pin;
    const reason = why ? `: ${why}` : "";
    const deed = isAgreed ? "Agreed with" : "Set to";
    lines.push(paragraph(`${deed} ${night.stageName(stage)} by ${who}, ${whenText(when)}${reason}`));
  }
  return lines;
}
