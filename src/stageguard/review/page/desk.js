// The scorer's desk: the current night, epoch, stretch and window, and the scorer's commands.

import { isDisputed, nextDisputed, opinionsAt, takeOpinion } from "./adjudication.js";
import { Night } from "./night.js";
import { agreementText } from "./sheets.js";
import { ActionQueue, get, ServerGone } from "./server.js";
import { count, epochMeant, percent, timeAt, whenText } from "./words.js";

const WINDOWS = [10, 20, 40, 80, 160, 320, 640]; // epochs around the current one
const HEARTBEAT_MS = 3000;
const OTHER_TAB = "Changed in another tab. This page now shows that state";

export class Desk {
  constructor() {
    this.night = null;
    this.cursor = 0;
    this.page = 0; // of the epoch, in views that are shorter
    this.anchor = null; // first epoch of the selected stretch, null without a selection
    this.window = [0, 1];
    this.zoomLevel = 2;
    this.order = "gain"; // of the queue: "gain" or "time"
    this.gone = false;
    this.finished = false;
    this.tellsAgreement = false; // a blind scoring was just revealed
    this.parts = []; // parts of the page: refresh() runs when the night has changed, move() in every frame
    this.fresh = false;
    this.frame = 0;
    setInterval(() => this.lookForOthers(), HEARTBEAT_MS);
  }

  // ---- drawing

  /** Draw in the next frame; `fresh` also redraws the parts that depend on the night's state. */
  draw(fresh = false) {
    this.fresh ||= fresh;
    if (this.frame || !this.night) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.fresh) this.parts.forEach((part) => part.refresh?.());
      this.fresh = false;
      this.parts.forEach((part) => part.move?.());
      requestAnimationFrame(() => { window.stageguard.redraws += 1; }); // for tests that wait for it
    });
  }

  // ---- night

  async open(entry) {
    const state = await get(`/api/nights/${entry.index}`);
    this.night = new Night(state);
    this.night.hasSignals = entry.has_signals;
    this.actions = new ActionQueue(this.night, this.listener(this.night));
    this.anchor = null;
    this.parts.forEach((part) => part.open?.());
    this.moveTo(this.inQueueOrder()[0]?.epoch ?? 0, { centre: true });
    this.draw(true);
  }

  listener(night) {
    const ours = (action) => (...given) => {
      if (night !== this.night) return;
      action(...given);
      this.draw(true);
    };
    return {
      done: ours((action, changed) => {
        this.bar.showConflict(this.night.conflict);
        if (action.do === "choose_strength") this.bar.notice(`Strength chosen again: ${changed ? count(changed, "epoch") : "no epoch"} changed.`);
        this.tellsAgreement ||= action.do === "reveal";
      }),
      overtaken: ours(() => this.bar.notice(`${OTHER_TAB}; your last change was not made.`)),
      conflict: ours((conflict) => this.bar.showConflict(conflict)),
      refused: ours((text) => this.bar.notice(text)),
      gone: ours(() => this.serverGone()),
      idle: ours(() => this.askQueue(night)),
    };
  }

  /** Fetch what is worth a look. This takes the server longest, so it waits until the scorer pauses. */
  async askQueue(night) {
    if ((night.blind && !night.opinions) || this.gone) return;
    try {
      const queue = await get(`/api/nights/${night.index}/queue`);
      if (queue.revision !== night.revision || this.actions.busy) return; // outdated: fetched again after the next answer
      night.take(queue);
      if (this.tellsAgreement) this.bar.notice(agreementText(night) || "Revealed.");
      this.tellsAgreement = false;
      this.draw(true);
    } catch (error) {
      if (error instanceof ServerGone) this.serverGone();
      else this.bar.notice(error.message);
    }
  }

  /** Check whether another tab has changed this night, or the server has ended. */
  async lookForOthers() {
    const { night } = this;
    if (!night || this.finished || this.actions.busy || document.hidden) return;
    try {
      const { revision } = await get(`/api/nights/${night.index}/revision`);
      if (this.gone) this.serverBack();
      if (night !== this.night || this.actions.busy || revision === night.revision) return;
      const state = await get(`/api/nights/${night.index}`);
      if (this.actions.busy) return;
      night.take(state);
      this.bar.notice(`${OTHER_TAB}.`);
      this.draw(true);
    } catch (error) {
      if (error instanceof ServerGone) this.serverGone();
      else this.bar.trouble(error.message);
    }
  }

  serverGone() {
    if (this.finished) return;
    this.gone = true;
    const { saved } = this.night;
    const when = saved?.when ? ` up to ${whenText(saved.when)}` : "";
    const where = saved?.file ? ` in ${saved.file}` : "";
    this.bar.trouble(`The server has ended; your work is saved${when}${where}. Start stageguard review again to go on.`);
  }

  serverBack() {
    this.gone = false;
    this.bar.trouble(null);
  }

  // ---- position

  moveTo(epoch, { centre = false, stay = false, page = 0 } = {}) {
    this.cursor = Math.min(this.night.epochs - 1, Math.max(0, epoch));
    this.page = page;
    this.placeWindow(centre, stay);
    this.draw();
  }

  /** Move by epochs; by one, in a view that is shorter than an epoch, by its pages. */
  moveBy(epochs) {
    const { pages } = this.signals;
    const page = this.page + epochs;
    if (Math.abs(epochs) !== 1 || pages === 1) this.moveTo(this.cursor + epochs);
    else if (page >= 0 && page < pages) this.moveTo(this.cursor, { page });
    else this.moveTo(this.cursor + epochs, { page: this.cursor + epochs < 0 || page > 0 ? 0 : pages - 1 });
  }

  /** Keep the window until the epoch nears its edge, then centre it: constant sliding tires the eye. */
  placeWindow(centre, stay) {
    const { epochs } = this.night;
    const size = Math.min(epochs, WINDOWS[this.zoomLevel]);
    let [from] = this.window;
    const margin = stay ? 0 : Math.floor(size / 10);
    const leaves = this.cursor < from + margin || this.cursor >= from + size - margin;
    if (centre || leaves || this.window[1] - from !== size) from = this.cursor - Math.floor(size / 2);
    from = Math.max(0, Math.min(epochs - size, from));
    this.window = [from, from + size];
  }

  dragWindow(from) {
    const size = this.window[1] - this.window[0];
    const first = Math.max(0, Math.min(this.night.epochs - size, from));
    this.window = [first, first + size];
    this.draw();
  }

  zoom(by) {
    this.zoomLevel = Math.min(WINDOWS.length - 1, Math.max(0, this.zoomLevel + by));
    this.moveTo(this.cursor, { centre: true });
  }

  scale(by) {
    this.signals.rescale(by);
    this.draw();
  }

  goWhere(text) {
    const epoch = epochMeant(this.night, text);
    const expected = `a number from 1 to ${this.night.epochs}, or a time such as 03:26`;
    if (epoch === null) this.bar.notice(`There is no epoch “${text}”: give ${expected}.`);
    else this.moveTo(epoch, { centre: true });
    return epoch !== null;
  }

  askWhere() {
    document.getElementById("go").select();
  }

  // ---- the queue

  /** Return the stretches that are still worth a look, in the order the scorer chose. */
  inQueueOrder() {
    const { night } = this;
    const ticked = new Set(night.pending.filter((action) => action.do === "agree").map((action) => action.first));
    let entries = (night.queue?.epochs || []).filter((entry) => !ticked.has(entry.first));
    if (night.opinions) entries = entries.filter(({ first, last }) => night.pins.subarray(first, last + 1).includes(-1));
    return this.order === "time" ? entries.sort((a, b) => a.epoch - b.epoch) : entries;
  }

  nextInQueue(step) {
    const entries = this.inQueueOrder();
    if (!entries.length) return this.night.nextUnscored(this.cursor, step);
    const here = entries.findIndex((entry) => entry.first <= this.cursor && this.cursor <= entry.last);
    if (here >= 0) return entries[here + step]?.epoch ?? null;
    if (this.order === "gain" && !this.night.opinions) return entries[0].epoch;
    const later = entries.filter((entry) => (entry.epoch - this.cursor) * step > 0);
    return (step > 0 ? later[0] : later[later.length - 1])?.epoch ?? null;
  }

  moveInQueue(step) {
    const epoch = this.nextInQueue(step);
    if (epoch === null) this.bar.notice(step > 0 ? "Nothing more worth a look this way." : "Nothing worth a look before.");
    else this.moveTo(epoch, { centre: true });
  }

  // ---- commands

  act(action) {
    if (this.gone || this.finished) {
      this.bar.notice("The server has ended; nothing can be changed any more.");
      this.draw();
      return;
    }
    this.bar.notice(null);
    this.actions.send(action);
    this.draw();
  }

  get selected() {
    const anchor = this.anchor ?? this.cursor;
    return [Math.min(anchor, this.cursor), Math.max(anchor, this.cursor)];
  }

  set(stage) {
    const [first, last] = this.selected;
    this.act({ do: "set", first, last, stage, why: this.panel.takeReason() });
    this.anchor = null;
    if (this.night.opinions) this.moveTo(nextDisputed(this.night, last, 1) ?? last);
    else if (this.night.blind || this.layout.wide) this.moveTo(last + 1); // one key per epoch
  }

  /** Take the first or second scorer's stages, where two scorers are adjudicated. */
  take(which) {
    takeOpinion(this, which);
  }

  clear() {
    const [first, last] = this.selected;
    const { pins } = this.night;
    if (!pins.subarray(first, last + 1).some((stage) => stage >= 0)) this.bar.notice("Nothing was set here.");
    else this.act({ do: "clear", first, last });
    this.anchor = null;
    this.draw();
  }

  /** Agree with the stages as they are seen here: they then stay, whatever is decided elsewhere. */
  agree() {
    const { night } = this;
    if (night.opinions) {
      this.bar.notice("Take one scorer’s stage, or set another.");
      return;
    }
    const entry = this.anchor === null ? night.queuedAt(this.cursor) : null;
    const next = entry ? this.nextInQueue(1) : null;
    const [first, last] = entry ? [entry.first, entry.last] : this.selected;
    const stages = [...night.shown.subarray(first, last + 1)];
    this.anchor = null;
    if (stages.some((stage) => stage < 0)) this.bar.notice("There is no stage to agree with: set one.");
    else if (!night.pins.subarray(first, last + 1).some((stage) => stage < 0)) this.bar.notice("You have decided this already.");
    else this.act({ do: "agree", first, last, stages });
    if (next !== null) this.moveTo(next, { centre: true });
    else this.draw();
  }

  /** Mark the selected epochs as artefact; if they all are, take that back. */
  markArtefact() {
    const [first, last] = this.selected;
    const isMarked = this.night.artefact.subarray(first, last + 1).every((flag) => flag === 1);
    this.anchor = null;
    this.act({ do: "artefact", first, last, value: !isMarked });
  }

  chooseStrength() {
    if (this.night.settings?.can_choose) this.act({ do: "choose_strength" });
    else this.bar.notice("The strength is already chosen for what you have decided.");
  }

  undo() {
    if (this.night.can_undo || this.night.pending.length) this.act({ do: "undo" });
    else this.bar.notice("Nothing to undo.");
  }

  redo() {
    if (this.night.can_redo || this.night.pending.length) this.act({ do: "redo" });
    else this.bar.notice("Nothing to redo.");
  }

  toggleStretch() {
    this.anchor = this.anchor === null ? this.cursor : null;
    this.draw();
  }

  drop() {
    this.anchor = null;
    this.bar.notice(null);
    this.draw();
  }

  explain() {
    this.panel.explain(this.cursor);
  }

  help() {
    this.bar.help();
  }

  /** The status line: "Epoch 412 of 960, 03:26:00, guard N2, stager REM, posterior 61 %". */
  get line() {
    const { night, cursor } = this;
    const [first, last] = this.selected;
    const words = [`Epoch ${cursor + 1} of ${night.epochs}`, timeAt(night, cursor)];
    if (this.anchor !== null) words.unshift(`Selected ${count(last - first + 1, "epoch")}, ${first + 1} to ${last + 1}`);
    words.push(...opinionsAt(night, cursor).map(([who, stage]) => `${who} ${night.stageName(stage)}`));
    if (night.opinions) words.push(isDisputed(night, cursor) ? `you ${night.stageName(night.pins[cursor])}` : "settled");
    else if (night.blind) words.push(`you ${night.stageName(night.pins[cursor])}`, `${night.scored} of ${night.epochs} scored`);
    if (!night.blind) {
      words.push(`guard ${night.stageName(night.shown[cursor])}`, `stager ${night.stageName(night.stager?.[cursor])}`);
      if (night.expert) words.push(`expert ${night.stageName(night.expert[cursor])}`);
      const share = night.share(night.posterior, cursor, night.shown[cursor]);
      if (share !== null) words.push(`posterior ${percent(share)}`);
      if (night.pins[cursor] >= 0 && !night.opinions) words.push(night.isAgreed(cursor) ? "agreed by you" : "set by you");
    }
    if (night.artefact[cursor] === 1) words.push("artefact");
    return words.join(", ");
  }
}
