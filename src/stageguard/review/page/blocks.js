// Samples of the night in blocks, fetched ahead so that moving need not wait; the least recent blocks are forgotten.

import { getFloats } from "./server.js";

const FINE_SECONDS = 30; // of a block with all samples
const COARSE_SECONDS = 300; // of a block that the server has reduced to lowest and highest values
const LONGEST_FINE = 120; // seconds of a view that is drawn from all samples
const MOST_BYTES = 96 * 2 ** 20; // of samples to keep
const AHEAD = [1, -1, 2]; // blocks to fetch beyond the shown ones, by direction of the last move
const MOST_WAITING = 4; // requests at a time, besides those for what is shown
const RETRY_MS = 1000; // after an error
const COLUMN_STEP = 200; // so that not every width of the window is another request

export class Blocks {
  constructor() {
    this.level = null; // how the shown stretch is cut: { epochs, columns } of a block
    this.clear(null, null);
  }

  /** Forget all; `query(first, count, columns)` is the address of some epochs from now on. */
  clear(night, query) {
    Object.assign(this, { night, query, bytes: 0, waiting: 0, direction: 1, from: 0 });
    this.kept = new Map(); // key -> { channels, bytes } or { waiting } or { error }, least recent first
  }

  /** Set how a stretch of seconds on so many pixels is cut into blocks. */
  cut([begin, end], pixels) {
    const seconds = end - begin;
    const isFine = seconds <= LONGEST_FINE;
    const epochs = Math.max(1, Math.round((isFine ? FINE_SECONDS : COARSE_SECONDS) / this.night.seconds));
    const perBlock = (pixels * epochs * this.night.seconds) / seconds;
    this.level = { epochs, columns: isFine ? null : Math.ceil(perBlock / COLUMN_STEP) * COLUMN_STEP };
    if (begin !== this.from) this.direction = begin > this.from ? 1 : -1;
    this.from = begin;
  }

  /** Fetch the blocks of a stretch, and once they are there some beyond it; `arrived()` after each. */
  fetch(stretch, arrived) {
    const [first, last] = this.numbers(stretch);
    for (let number = first; number <= last; number += 1) this.fetchBlock(number, arrived, true);
    if (!this.has(stretch)) return; // what is shown comes first
    for (const ahead of AHEAD) {
      const by = ahead * this.direction;
      this.fetchBlock(by > 0 ? last + by : first + by, arrived, false);
    }
  }

  numbers([begin, end]) {
    const seconds = this.level.epochs * this.night.seconds;
    return [Math.floor(begin / seconds + 1e-9), Math.ceil(end / seconds - 1e-9) - 1];
  }

  key(number) {
    return `${this.level.epochs} ${this.level.columns} ${number}`;
  }

  /** Whether a block is there, on its way, or failed just now; it is asked for again later. */
  isKnown(key) {
    const block = this.kept.get(key);
    return Boolean(block) && !(block.error && performance.now() - block.failed > RETRY_MS);
  }

  async fetchBlock(number, arrived, isShown) {
    const { night, kept } = this;
    const { epochs, columns } = this.level;
    const [key, first] = [this.key(number), number * epochs];
    if (first < 0 || first >= night.epochs || this.isKnown(key) || (!isShown && this.waiting >= MOST_WAITING)) return;
    kept.set(key, { waiting: true });
    this.waiting += 1;
    let block;
    try {
      const answer = await getFloats(this.query(first, Math.min(epochs, night.epochs - first), columns));
      block = { channels: partsOf(answer, first * night.seconds), bytes: answer.floats.byteLength };
    } catch (error) {
      block = { error: error.message, bytes: 0, failed: performance.now() };
      setTimeout(arrived, RETRY_MS + 1); // what is drawn then asks again
    }
    if (kept !== this.kept) return; // all were forgotten in the meantime
    this.waiting -= 1;
    kept.set(key, block);
    this.bytes += block.bytes;
    this.forgetOldest();
    arrived();
  }

  forgetOldest() {
    for (const [key, block] of this.kept) {
      if (this.bytes <= MOST_BYTES) return;
      if (block.waiting) continue;
      this.kept.delete(key);
      this.bytes -= block.bytes;
    }
  }

  /** Whether all blocks of a stretch are there. */
  has(stretch) {
    const [first, last] = this.numbers(stretch);
    for (let number = first; number <= last; number += 1) {
      const isInside = number >= 0 && number * this.level.epochs < this.night.epochs;
      if (isInside && !this.kept.get(this.key(number))?.channels) return false;
    }
    return true;
  }

  /** Return the blocks of a stretch that are there, each with its channels, and the first error. */
  within(stretch) {
    const [first, last] = this.numbers(stretch);
    const blocks = [];
    let error = null;
    for (let number = first; number <= last; number += 1) {
      const key = this.key(number);
      const block = this.kept.get(key);
      error ??= block?.error ?? null;
      if (!block?.channels) continue;
      blocks.push(block);
      this.kept.delete(key); // to the end: most recent
      this.kept.set(key, block);
    }
    return { blocks, error };
  }
}

/** Return the channels of an answer, each with its own samples. */
function partsOf({ described, floats }, begin) {
  let at = 0;
  return described.channels.map((channel) => {
    const values = floats.subarray(at, at + channel.samples);
    at += channel.samples;
    return { ...channel, begin, values };
  });
}
