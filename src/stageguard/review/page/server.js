// Talks to the server: one action at a time, each with the revision to which it refers.

export class ServerGone extends Error {}

/** Return the token: from the address, from which it is then removed, or as this tab has it since. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) history.replaceState(null, "", location.pathname);
  try {
    if (given) sessionStorage.setItem("token", given);
    return sessionStorage.getItem("token") || "";
  } catch {
    return given || ""; // a browser that stores nothing: reloading the page then needs the address again
  }
}

const token = takeToken();
// A new address that is opened in the same tab differs only after the #, for which browsers do not load a page anew.
addEventListener("hashchange", () => location.reload());

async function ask(path, options = {}) {
  let response;
  try {
    const headers = { "X-StageGuard-Token": token, ...options.headers };
    response = await fetch(path, { credentials: "omit", cache: "no-store", ...options, headers });
  } catch {
    throw new ServerGone("The server does not answer.");
  }
  const type = response.headers.get("content-type") || "";
  if (type.includes("octet-stream")) return { status: response.status, body: {}, bytes: await response.arrayBuffer() };
  const isJson = type.includes("json");
  const body = isJson ? await response.json() : { error: await response.text() };
  return { status: response.status, body };
}

export async function get(path) {
  const { status, body } = await ask(path);
  if (status !== 200) throw new Error(body.error || `The server answered ${status}.`);
  return body;
}

/** Return an answer of bytes: a description in JSON, and the 32-bit floats after it. */
export async function getFloats(path) {
  const { status, body, bytes } = await ask(path);
  if (status !== 200) throw new Error(body.error || `The server answered ${status}.`);
  const length = new DataView(bytes).getUint32(0, true);
  const described = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  return { described, floats: new Float32Array(bytes, 4 + length) };
}

export async function post(path, body) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

/** Return in how many epochs two hypnograms differ. */
function differences(one, other) {
  return one && other ? one.reduce((sum, stage, epoch) => sum + (stage !== other[epoch]), 0) : 0;
}

/** Send the actions of one night in order, and tell `listener` the outcome of each. */
export class ActionQueue {
  constructor(night, listener) {
    this.night = night;
    this.listener = listener;
    this.busy = false;
  }

  send(action) {
    this.night.pending.push(action);
    this.night.overlay();
    if (!this.busy) this.run();
  }

  async run() {
    const { night, listener } = this;
    this.busy = true;
    while (night.pending.length) {
      const action = night.pending[0];
      let answer;
      try {
        answer = await post(`/api/nights/${night.index}/actions`, { revision: night.revision, action });
      } catch (error) {
        this.dropAll();
        if (error instanceof ServerGone) listener.gone();
        else listener.refused(error.message);
        break;
      }
      this.settle(action, answer);
    }
    this.busy = false;
    listener.idle();
  }

  settle(action, { status, body }) {
    const { night, listener } = this;
    const state = status === 200 ? body : body.state;
    const before = night.guard;
    if (status === 200) night.pending.shift();
    else night.pending.length = 0; // the actions behind it refer to an outdated night
    if (state) night.take(state);
    else night.overlay();
    if (status === 200) listener.done(action, differences(before, night.guard));
    else if (status === 409) listener.overtaken();
    else if (status === 422 && body.conflict) listener.conflict(body.conflict);
    else listener.refused(body.error || `The server answered ${status}.`);
  }

  dropAll() {
    this.night.pending.length = 0;
    this.night.overlay();
  }
}
