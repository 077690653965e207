// The top bar, the banners below it and the one dialog.

import { disputeText } from "./adjudication.js";
import { get, post, ServerGone } from "./server.js";
import { helpOf } from "./help.js";
import { secondScorerText } from "./sheets.js";
import { byId, make, option, paragraph, pushButton, whenText } from "./words.js";

const STRENGTHS = [0.1, 0.25, 0.5, 1, 2];

export class Bar {
  constructor(desk) {
    this.desk = desk;
    this.nights = [];
    byId("undo").onclick = () => desk.undo();
    byId("redo").onclick = () => desk.redo();
    byId("help").onclick = () => this.help();
    byId("export").onclick = () => this.exportDialog();
    byId("finish").onclick = () => this.finishDialog();
    byId("blind").onclick = () => desk.act({ do: "blind", value: !desk.night.blind });
    byId("reveal").onclick = () => this.revealDialog();
    byId("choose-strength").onclick = () => desk.chooseStrength();
    byId("night").onchange = (event) => this.choose(Number(event.target.value));
    byId("profile").onchange = (event) => desk.act({ do: "profile", name: event.target.value });
    byId("strength").onchange = (event) => desk.act({ do: "strength", value: JSON.parse(event.target.value) });
    byId("clock").onchange = (event) => desk.act({ do: "clock", value: JSON.parse(event.target.value) });
  }

  async load() {
    const answer = await get("/api/nights");
    Object.assign(this, { nights: answer.nights, profiles: answer.profiles });
    byId("scorer").textContent = answer.scorer ? `${answer.adjudicates ? "Adjudicator" : "Scorer"} ${answer.scorer}` : "";
    const options = this.nights.map((night) => make("option", { value: night.index, disabled: night.error !== null,
      textContent: night.error === null ? night.name : `${night.name} (cannot be read)` }));
    byId("night").replaceChildren(...options);
    const errors = this.nights.filter((night) => night.error !== null).map((night) => `${night.name}: ${night.error}`);
    if (errors.length) this.trouble(errors.join(" "));
    const first = this.nights.find(({ index }) => index === answer.cohort?.order[0]) ?? this.nights.find((night) => night.error === null);
    if (first) await this.choose(first.index);
  }

  async choose(index) {
    const { desk } = this;
    const entry = this.nights.find((night) => night.index === index);
    byId("night").value = String(index);
    this.showConflict(null);
    this.notice(null);
    this.loading(`Loading ${entry.name} …`);
    try {
      await desk.open(entry);
      this.showConflict(desk.night.conflict);
    } catch (error) {
      if (error instanceof ServerGone && desk.night) desk.serverGone();
      else this.trouble(error.message);
    }
    this.loading(null);
  }

  /** Say what is being loaded; null when nothing is. Without a night, its buttons do nothing. */
  loading(text) {
    byId("loading").hidden = !text;
    byId("loading").textContent = text || "";
    byId("desk").setAttribute("aria-busy", String(Boolean(text)));
    const isThere = !text && this.desk.night !== null;
    for (const part of document.querySelectorAll(".needs-night")) part.inert = !isThere;
  }

  refresh() {
    const { night } = this.desk;
    document.title = `${night.name} – StageGuard review`;
    this.fillSettings(night);
    byId("undo").disabled = !night.can_undo && !night.pending.length;
    byId("redo").disabled = !night.can_redo;
    byId("reveal").hidden = !night.blind;
    byId("blind").hidden = night.blind || night.scored > 0 || Boolean(night.opinions);
    document.body.classList.toggle("is-blind", night.blind);
  }

  move() {
    const { night } = this.desk;
    const { saved } = night;
    const text = night.pending.length ? "Saving …" : saved?.when ? `Saved ${whenText(saved.when)}` : "Nothing to save yet";
    if (byId("saved").textContent !== text) byId("saved").textContent = text;
    byId("saved").title = saved?.file || "";
    document.body.dataset.revision = night.pending.length ? "" : night.revision; // the revision on screen, for tests that wait for it
  }

  fillSettings(night) {
    const { profile, strength, clock } = night.settings || {};
    const names = [...new Set([...(this.profiles || []), profile].filter(Boolean))];
    fillSelect(byId("profile"), names.map((name) => [name, name]), profile);
    const numbers = [...new Set([...STRENGTHS, strength])].filter(Number.isFinite).sort((a, b) => a - b);
    const strengths = [["null", "by rule"], ['"off"', "off"], ...numbers.map((value) => [String(value), String(value)])];
    fillSelect(byId("strength"), strengths, JSON.stringify(strength ?? null));
    byId("choose-strength").disabled = !night.settings?.can_choose;
    byId("clock").value = JSON.stringify(clock ?? null);
    byId("clock").disabled = night.settings?.has_clock === false && clock === null;
  }

  // ---- banners

  /** Show a message until the next action; null hides it. */
  notice(text) {
    byId("notice").hidden = !text;
    byId("notice").textContent = text || "";
  }

  /** Show a problem until it is solved; null hides it. */
  trouble(text) {
    byId("trouble").hidden = !text;
    byId("trouble").textContent = text || "";
  }

  showConflict(conflict) {
    const box = byId("conflict");
    box.hidden = !conflict;
    if (!conflict) {
      box.replaceChildren();
      return;
    }
    const { desk } = this;
    const goTo = (conflict.pins || []).slice(0, 6).map((epoch) =>
      pushButton(`Go to epoch ${epoch + 1}`, () => desk.moveTo(epoch, { centre: true })));
    const relax = (conflict.relax || []).map(({ label, action }) =>
      pushButton(label, () => desk.act(action), { className: "main" }));
    const close = pushButton("Leave it as it was", () => this.showConflict(null));
    box.replaceChildren(paragraph(conflict.text), make("div", { className: "buttons" }, ...relax, ...goTo, close));
  }

  // ---- dialogs

  /** Show a dialog; the browser keeps the focus inside, closes it on Escape and puts the focus back. */
  dialog(title, body, buttons) {
    byId("dialog-title").textContent = title;
    byId("dialog-body").replaceChildren(...body);
    const close = make("button", { type: "submit", textContent: buttons.length ? "Cancel" : "Close" });
    byId("dialog-buttons").replaceChildren(...buttons, close);
    if (!byId("dialog").open) byId("dialog").showModal();
  }

  help() {
    this.dialog("How to review a night", helpOf(this.desk), []);
  }

  exportDialog() {
    const { formats } = this.desk.night;
    const select = make("select", { id: "format" }, ...formats.map(({ name, about }) => option(name, `${name}: ${about}`)));
    const answer = make("p", { id: "exported", role: "status" });
    const write = async () => {
      answer.textContent = await this.writtenFile(select.value);
    };
    const label = make("label", { className: "field" }, make("span", { textContent: "Format" }), select);
    this.dialog("Export", [label, answer], [pushButton("Write a new file", write, { className: "main" })]);
  }

  async writtenFile(format) {
    try {
      const { status, body } = await post(`/api/nights/${this.desk.night.index}/export`, { format });
      return status === 200 ? `Written: ${body.file}` : body.error;
    } catch (error) {
      return error.message;
    }
  }

  revealDialog() {
    const { night } = this.desk;
    const left = night.epochs - night.scored;
    const missing = `${left} of ${night.epochs} epochs are not scored yet. What you score after revealing is no longer blind.`;
    const act = () => this.desk.act({ do: "reveal", anyway: left > 0 });
    const reveal = pushButton("Reveal stager and guard", act, { type: "submit", className: "main" });
    this.dialog("Reveal", [paragraph(left ? missing : "You have scored every epoch.")], [reveal]);
  }

  finishDialog() {
    const { night } = this.desk;
    const lines = [night.saved?.file ? `Your work is saved in ${night.saved.file}.` : "Nothing was changed."];
    if (night.opinions) lines.push(disputeText(night));
    if (night.second_scorer) lines.push(secondScorerText(night.second_scorer));
    lines.push("Finishing ends the server; start stageguard review again to go on.");
    const finish = pushButton("Finish", () => this.finish(), { type: "submit", className: "main" });
    this.dialog("Finish", lines.map((text) => paragraph(text)), [finish]);
  }

  async finish() {
    const { desk } = this;
    try {
      await post("/api/close", {});
    } catch {
      // the server may end before it answers
    }
    desk.finished = true;
    const { saved } = desk.night;
    this.trouble(`Finished. ${saved?.file ? `Your work is saved in ${saved.file}. ` : ""}You can close this tab.`);
  }
}

function fillSelect(select, options, value) {
  const isFilled = options.map(([key]) => key).join("\n") === [...select.options].map((each) => each.value).join("\n");
  if (!isFilled) select.replaceChildren(...options.map(([key, text]) => option(key, text))); // it may be open
  select.value = value ?? "";
}
