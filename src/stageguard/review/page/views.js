// Which seconds of the night the signals show, and where on the canvas they lie.

const FIXED = [10, 20, 30, 60, 300]; // seconds; an epoch is a view of its own
const SHORT_EPOCH = 10; // epochs below this are shown with some of their neighbours

/** Return the lengths of views in seconds, shortest first. */
export function viewsOf(night) {
  return [...new Set([night.seconds, ...FIXED])].sort((a, b) => a - b);
}

export const firstView = (night) => (night.seconds < SHORT_EPOCH ? 20 : night.seconds);

export const viewText = (seconds) => (seconds >= 120 ? `${seconds / 60} min` : `${seconds} s`);

/** Return over how many pages a view spreads an epoch. */
export const pagesOf = (night, seconds) => Math.max(1, Math.ceil(night.seconds / seconds - 1e-9));

/** Return the seconds [begin, end) of the night that a view shows: a page of the epoch, or the epoch in its middle. */
export function shownSeconds(night, epoch, page, seconds) {
  const start = epoch * night.seconds;
  if (seconds < night.seconds) {
    const begin = start + Math.min(page * seconds, night.seconds - seconds);
    return [begin, begin + seconds];
  }
  const last = night.epochs * night.seconds - seconds;
  const begin = Math.max(0, Math.min(last, start + (night.seconds - seconds) / 2));
  return [begin, begin + seconds];
}

/** The stretch of time on the signals' canvas, in seconds since the first epoch, and its lanes, one per channel. */
export class Frame {
  constructor({ begin, end, x, width, bottom, lanes }) {
    Object.assign(this, { begin, end, x, width, bottom, lanes }); // lanes: { name, y (middle), height }
    this.perSecond = width / (end - begin);
  }

  xAt(seconds) {
    return this.x + (seconds - this.begin) * this.perSecond;
  }

  secondsAt(x) {
    return Math.min(this.end, Math.max(this.begin, this.begin + (x - this.x) / this.perSecond));
  }
}
