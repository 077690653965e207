// The list of nights: how far each has come, found by a number or a part of its name.

import { get, ServerGone } from "./server.js";
import { byId, count, make, paragraph, pushButton } from "./words.js";

const COLUMNS = ["Night", "Scored", "Looks", "Left"];

export class Nights {
  constructor(desk) {
    this.desk = desk;
    byId("nights").onclick = () => this.show();
  }

  /** Whether there is a choice at all. */
  get isChoice() {
    return this.desk.bar.nights.length > 1;
  }

  open() {
    byId("nights").hidden = !this.isChoice;
  }

  /** Open the next or previous night that can be read. */
  step(by) {
    const { bar, night } = this.desk;
    const readable = bar.nights.filter(({ error }) => error === null);
    const next = readable[readable.findIndex(({ index }) => index === night.index) + by];
    if (next) bar.choose(next.index);
    else bar.notice(by > 0 ? "This is the last night." : "This is the first night.");
  }

  async show() {
    const { bar } = this.desk;
    try {
      const answer = await get("/api/nights");
      bar.nights = answer.nights;
      this.cohort = answer.cohort;
    } catch (error) {
      if (error instanceof ServerGone) this.desk.serverGone();
      else bar.notice(error.message);
      return;
    }
    const search = make("input", { id: "night-search", type: "search", autocomplete: "off", spellcheck: false });
    const body = make("tbody", {});
    const told = make("p", { className: "quiet", role: "status" });
    const fill = () => {
      const found = this.inOrder(matching(bar.nights, search.value), search.value);
      body.replaceChildren(...found.map((night) => this.row(night)));
      told.textContent = `${count(found.length, "night")} of ${bar.nights.length}`;
    };
    search.addEventListener("input", fill);
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // which would close the dialog
      const first = matching(bar.nights, search.value).find(({ error }) => error === null);
      if (first) this.choose(first.index);
    });
    const columns = this.cohort ? [...COLUMNS, "May be off by"] : COLUMNS;
    const head = make("tr", {}, ...columns.map((title) => make("th", { scope: "col", textContent: title })));
    const label = make("label", { className: "field" }, make("span", { textContent: "Number or part of the name" }), search);
    const table = make("table", { className: "nights" }, make("thead", {}, head), body);
    fill();
    const means = this.cohort ? [make("p", { id: "cohort", className: this.cohort.is_met ? "stop met" : "stop", textContent: this.cohort.text })] : [];
    bar.dialog("Nights", [...means, label, told, make("div", { className: "long", tabIndex: 0, role: "group", "aria-label": "List of nights" }, table),
      paragraph("Looks: decisions about a stretch. Left: epochs of a blind night or an adjudication, else stretches worth a look, once the night was opened.", "quiet")], []);
    search.focus();
  }

  row(night) {
    const name = pushButton(`${night.index + 1}  ${night.name}`, () => this.choose(night.index), { disabled: night.error !== null });
    if (night.index === this.desk.night?.index) name.setAttribute("aria-current", "true");
    const has = [night.has_signals ? "signals" : "", night.has_scoring ? "expert" : "", night.error ? "cannot be read" : ""].filter(Boolean);
    const heading = make("th", { scope: "row" }, name, has.length ? make("span", { className: "quiet", textContent: ` ${has.join(", ")}` }) : null);
    const scored = night.scored === null ? "–" : `${night.scored} of ${night.epochs}`;
    const cells = [scored, night.looks ?? "–", night.left ?? "–"];
    const own = this.cohort?.nights[night.index];
    if (this.cohort) cells.push(own ? `${own.left}${own.is_met ? " ✓ met" : ""}` : "–");
    return make("tr", {}, heading, ...cells.map((text) => make("td", { textContent: String(text) })));
  }

  /** Return nights in the order in which a review with targets needs them; as they are if some were searched. */
  inOrder(nights, searched) {
    if (!this.cohort || searched.trim()) return nights;
    const place = (night) => (this.cohort.order.indexOf(night.index) + nights.length) % nights.length;
    return nights.slice().sort((a, b) => place(a) - place(b));
  }

  choose(index) {
    byId("dialog").close();
    this.desk.bar.choose(index);
  }
}

/** Return the nights that a text means: the one of this number, or those whose names have it. */
function matching(nights, text) {
  const wanted = text.trim().toLowerCase();
  const named = nights.filter(({ name }) => name.toLowerCase().includes(wanted));
  const numbered = /^\d+$/.test(wanted) ? nights[Number(wanted) - 1] : null;
  return numbered ? [numbered, ...named.filter((night) => night !== numbered)] : named;
}
