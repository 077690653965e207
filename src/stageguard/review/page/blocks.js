// Samples of the night in blocks of epochs, fetched ahead so that moving need not wait; old blocks are forgotten.

import { bytesOf } from "./night.js";
import { get } from "./server.js";

const BLOCK = 8; // epochs to fetch at a time
const KEPT = 16; // blocks to keep

export class Blocks {
  constructor() {
    this.clear(null, null);
  }

  /** Forget all; `query(first, count)` is the address of some epochs from now on. */
  clear(night, query) {
    this.night = night;
    this.query = query;
    this.kept = new Map(); // block number -> { channels } or { waiting } or { error }, least recent first
  }

  /** Fetch the blocks of a stretch of seconds and their neighbours; `arrived(answer)` after each. */
  fetch([begin, end], arrived) {
    const [first, last] = this.numbers(begin, end);
    const wanted = [];
    for (let number = first; number <= last; number += 1) wanted.push(number);
    for (const number of [...wanted, last + 1, first - 1]) this.fetchBlock(number, arrived);
  }

  numbers(begin, end) {
    const seconds = BLOCK * this.night.seconds;
    return [Math.floor(begin / seconds + 1e-9), Math.ceil(end / seconds - 1e-9) - 1];
  }

  async fetchBlock(number, arrived) {
    const { night, kept } = this;
    const first = number * BLOCK;
    if (first < 0 || first >= night.epochs || kept.has(number)) return;
    const mine = { waiting: true };
    kept.set(number, mine);
    try {
      const answer = await get(this.query(first, Math.min(BLOCK, night.epochs - first)));
      if (kept.get(number) !== mine) return; // forgotten in the meantime
      const begin = first * night.seconds;
      const samples = (text) => new Float32Array(bytesOf(text).buffer);
      kept.set(number, { channels: answer.channels.map((channel) => ({ ...channel, begin, values: samples(channel.values) })) });
      if (kept === this.kept) arrived(answer);
    } catch (error) {
      if (kept.get(number) === mine) kept.set(number, { error: error.message });
      if (kept === this.kept) arrived(null);
    }
    while (kept.size > KEPT) kept.delete(kept.keys().next().value);
  }

  /** Return the blocks of a stretch that are there, each with its channels, and the first error. */
  within([begin, end]) {
    const [first, last] = this.numbers(begin, end);
    const blocks = [];
    for (let number = first; number <= last; number += 1) blocks.push(this.kept.get(number));
    return { blocks: blocks.filter((block) => block?.channels), error: blocks.find((block) => block?.error)?.error ?? null };
  }
}
