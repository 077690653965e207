// Texts for people, and the only functions that make elements: text is always text, never markup.

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name in element && name !== "list" && name !== "form") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Return an element of a drawing (SVG). */
export function draw(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** Return a button that does not submit. */
export const pushButton = (text, run, more = {}) => make("button", { type: "button", textContent: text, onclick: run, ...more });

export const option = (value, text) => make("option", { value, textContent: text });

export const paragraph = (text, className = null) => make("p", { textContent: text, className });

export const byId = (id) => document.getElementById(id);

const two = (number) => String(number).padStart(2, "0");

/** Return the time of day at which an epoch begins, or without a clock the time since the first epoch. */
export function timeAt(night, epoch) {
  return timeText(night, epoch * night.seconds);
}

export function timeText(night, seconds) {
  const total = Math.round(seconds + night.clockSeconds);
  const hours = Math.floor(total / 3600);
  return `${two(night.hasClock ? hours % 24 : hours)}:${two(Math.floor(total / 60) % 60)}:${two(total % 60)}`;
}

/** Return the second of the day of an ISO time as written, by the recording's clock, or null. */
export function secondsOfDay(iso) {
  const found = /T(\d\d):(\d\d)(?::(\d\d))?/.exec(iso || "");
  return found ? Number(found[1]) * 3600 + Number(found[2]) * 60 + Number(found[3] || 0) : null;
}

export function whenText(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? String(iso) : date.toLocaleTimeString([], { hour12: false });
}

export const percent = (share) => (share === null ? "none" : `${Math.round(100 * share)} %`);

/** Return a number as text, with `decimals` or a suitable number of them; a dash if it is missing. */
export function numberText(value, decimals = null) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Number.isInteger(decimals)) return value.toFixed(decimals);
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

export const count = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

/** Return the epoch that "412", "03:26" or "3:26:30" stands for, or null. */
export function epochMeant(night, text) {
  const words = text.trim();
  if (/^\d+$/.test(words)) return inside(night, Number(words) - 1);
  const found = /^(\d{1,3}):(\d\d)(?::(\d\d))?$/.exec(words);
  if (!found) return null;
  let seconds = Number(found[1]) * 3600 + Number(found[2]) * 60 + Number(found[3] || 0) - night.clockSeconds;
  if (night.hasClock && seconds < 0) seconds += 86400;
  return inside(night, Math.floor(seconds / night.seconds));
}

const inside = (night, epoch) => (epoch >= 0 && epoch < night.epochs ? epoch : null);
