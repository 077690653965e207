// Montages: channels and differences in an order, each with filters, scale and colour, as the server has read them.

import { get } from "./server.js";
import { make, option } from "./words.js";

/** The montages of the night and the laboratory, and which of them is shown. */
export class Montages {
  /** `changed()` runs when another montage is shown. */
  constructor(desk, changed) {
    this.desk = desk;
    this.changed = changed;
    this.clear();
    this.select = make("select", { id: "montage", onchange: () => this.choose(this.select.value) });
  }

  clear() {
    Object.assign(this, { channels: [], montages: [], current: null });
  }

  /** Fetch channels and montages of a night; return how the laboratory shows signals first, null if outdated. */
  async load(night) {
    this.clear();
    const { channels, laboratory, own } = await get(`/api/nights/${night.index}/montages`);
    if (night !== this.desk.night) return null;
    this.channels = channels;
    const names = laboratory.montage.map(({ name }) => name);
    this.montages = [...laboratory.montage, ...own.filter(({ name }) => !names.includes(name))];
    this.select.replaceChildren(...this.montages.map((montage) => {
      const made = option(montage.name, montage.name);
      made.disabled = !this.recorded(montage).length;
      return made;
    }));
    this.choose((this.montages.find((montage) => this.recorded(montage).length) ?? this.montages[0]).name);
    return laboratory.view;
  }

  choose(name) {
    this.current = this.montages.find((montage) => montage.name === name);
    this.select.value = name;
    this.changed();
  }

  /** Return the lanes of a montage that this recording has. */
  recorded(montage) {
    const find = (name) => this.channels.find((channel) => channel.name === name);
    return montage.channels.filter(({ plus, minus }) => find(plus) && (!minus || areAlike(find(plus), find(minus))));
  }

  /** The lanes that are shown, from top to bottom. */
  get lanes() {
    return this.current ? this.recorded(this.current) : [];
  }

  /** Return what the server needs to know of a lane, in JSON. */
  static asked({ plus, minus, label, high_pass_hz, low_pass_hz, notch_hz }) {
    return JSON.stringify({ plus, minus, label, high_pass_hz, low_pass_hz, notch_hz });
  }
}

const areAlike = (first, second) => Boolean(second) && first.rate === second.rate && first.unit === second.unit;
