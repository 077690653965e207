// Draws events: bars on the signals, those of files below and the scorer's own on top, and a lane of the whole night.

const LABEL_HEIGHT = 14; // CSS pixels
const FILE_ROWS = 3; // rows of annotations of files; what overlaps more is drawn in the last one
const OWN_ROWS = 4;

/** Return the colour of a kind of event for the screen as it is. */
export function colourOf(night, kind, theme = { grey: "currentColor" }) {
  const found = night.kinds.find(({ name }) => name === kind);
  if (!found) return theme.grey;
  return matchMedia("(prefers-color-scheme: dark)").matches ? found.dark : found.colour;
}

export const titleOf = (night, kind) => night.kinds.find(({ name }) => name === kind)?.title ?? "";

/** Return what an event says in few words: its kind, then what was written; an annotation of a file as it is. */
export function labelOf(night, { kind, text, file }) {
  if (file || kind === "text") return text;
  const title = titleOf(night, kind);
  return text ? `${title}: ${text}` : title;
}

/** Return the scorer's events with those that the server has not answered yet. */
export function ownEvents(night) {
  const added = night.pending.filter((action) => action.do === "add_event").map(({ event }) => event);
  const removed = new Set(night.pending.filter((action) => action.do === "remove_event").map(({ number }) => number));
  return [...(night.events || []).filter(({ number }) => !removed.has(number)), ...added];
}

/** Put events that overlap in different rows; return the row of each. */
function rowsOf(events, ends, most) {
  const free = []; // where each row is free again, in pixels
  return events.map((event, index) => {
    const [from, to] = ends[index];
    let row = free.findIndex((end) => end <= from);
    if (row < 0) row = Math.min(free.length, most - 1);
    free[row] = Math.max(free[row] ?? 0, to);
    return row;
  });
}

function visible(events, frame, offset) {
  return events.filter(({ begin, end }) => end - offset >= frame.begin && begin - offset <= frame.end);
}

/** Paint annotations of files as outlined bars at the bottom of the signals. */
export function paintFileEvents(ctx, frame, night, theme) {
  const events = visible(night.existing || [], frame, night.offset_seconds);
  paintRow(ctx, frame, night, theme, events, FILE_ROWS, (row) => frame.bottom - (row + 1) * LABEL_HEIGHT - 2, false);
}

/** Paint the scorer's events: a tinted stretch of their channel, or of all, with a bar and a label on top. */
export function paintOwnEvents(ctx, frame, night, theme) {
  const events = visible(ownEvents(night), frame, night.offset_seconds);
  const byChannel = Map.groupBy ? Map.groupBy(events, ({ channel }) => channel) : groups(events);
  for (const [channel, few] of byChannel) {
    const lane = frame.lanes.find(({ name }) => name === channel);
    const [top, height] = lane ? [lane.y - lane.height / 2, lane.height] : [0, frame.bottom];
    for (const event of few) paintTint(ctx, frame, event, { top, height, offset: night.offset_seconds }, colourOf(night, event.kind, theme));
    paintRow(ctx, frame, night, theme, few, OWN_ROWS, (row) => top + row * LABEL_HEIGHT + 1, true);
  }
}

function groups(events) {
  const found = new Map();
  for (const event of events) found.set(event.channel, [...(found.get(event.channel) || []), event]);
  return found;
}

function edges(frame, { begin, end }, offset) {
  const left = frame.xAt(Math.max(frame.begin, begin - offset));
  return [left, Math.max(left + 2, frame.xAt(Math.min(frame.end, end - offset)))];
}

function paintTint(ctx, frame, event, { top, height, offset }, colour) {
  const [left, right] = edges(frame, event, offset);
  ctx.fillStyle = colour;
  ctx.globalAlpha = event.kind === "artefact" ? 0.22 : 0.13;
  ctx.fillRect(left, top, right - left, height);
  ctx.globalAlpha = 1;
  for (const x of [left, right - 1]) ctx.fillRect(x, top, 1, height);
}

function paintRow(ctx, frame, night, theme, events, most, topOf, isOwn) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(frame.x, 0, frame.width, frame.bottom);
  ctx.clip();
  ctx.font = `${isOwn ? "600 " : ""}11px sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const labels = events.map((event) => labelOf(night, event));
  const spans = events.map((event) => edges(frame, event, night.offset_seconds));
  const widths = labels.map((label) => ctx.measureText(label).width + 8);
  const ends = spans.map(([left, right], index) => [left, Math.max(right, left + widths[index] + 2)]);
  const rows = rowsOf(events, ends, most);
  events.forEach((event, index) => {
    const [left, right] = spans[index];
    const top = topOf(rows[index]);
    const colour = colourOf(night, event.kind, theme);
    ctx.fillStyle = theme.paper;
    ctx.globalAlpha = 0.85;
    ctx.fillRect(left, top, widths[index], LABEL_HEIGHT - 1);
    ctx.globalAlpha = 1;
    ctx.fillStyle = colour;
    ctx.strokeStyle = colour;
    if (isOwn) ctx.fillRect(left, top, right - left, 3);
    else ctx.strokeRect(left + 0.5, top + 0.5, Math.max(1, right - left - 1), LABEL_HEIGHT - 2);
    ctx.fillText(labels[index], left + 4, top + LABEL_HEIGHT / 2 + (isOwn ? 1.5 : 0.5));
  });
  ctx.restore();
}

/** Paint the lane of events: own ones filled over the whole height, those of files in the lower half. */
export function paintEventLane(ctx, night, lane, span, theme) {
  const at = (seconds) => span.at((seconds - night.offset_seconds) / night.seconds);
  const paint = (events, top, height) => {
    for (const { kind, begin, end } of events) {
      const [left, right] = [at(begin), at(end)];
      if (right < span.x || left > span.x + span.width) continue;
      ctx.fillStyle = colourOf(night, kind, theme);
      ctx.fillRect(left, top, Math.max(2, right - left), height);
    }
  };
  ctx.globalAlpha = 0.6;
  paint(night.existing || [], lane.y + lane.height / 2, lane.height / 2);
  ctx.globalAlpha = 1;
  paint(ownEvents(night), lane.y, lane.height);
}
