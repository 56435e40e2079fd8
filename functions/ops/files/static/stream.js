// @ts-check
/** Server-sent events through `fetch`, which can carry a credential: reconnects, goes on after the last id, rests when hidden.
 * A connection that is silent for too long is broken: a half-open one would never say so. */
import { authorized } from "./api.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const SILENCE_MS = 40_000; // the door sends a heartbeat every 15 s
const LARGEST_LINE = 4_000_000; // characters; a longer line is not ours

/** @typedef {{ id: string, type: string, data: string }} StreamEvent */
/** `over`: the door says that nothing will follow; `refused`: it will not open the stream, however often it is asked.
 * @typedef {"connecting" | "live" | "broken" | "resting" | "over" | "refused"} StreamState */

/**
 * Follow a stream until `signal` aborts, or until `onEvent` returns true. A hidden tab closes it and opens it again later.
 * @param {URL} url
 * @param {{ signal: AbortSignal, onEvent: (event: StreamEvent) => unknown, onState?: (state: StreamState) => void, after?: string }} how
 */
export async function follow(url, { signal, onEvent, onState = () => {}, after = "" }) {
  let last = after;
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    if (document.hidden) onState("resting"), await shown(signal);
    if (signal.aborted) return;
    onState("connecting");
    const live = whileLive(signal);
    try {
      const asked = { headers: { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) } };
      const answer = await authorized(url, asked, live.signal);
      if ([400, 403, 404, 410].includes(answer.status)) return onState("refused");
      if (answer.status === 204) return onState("over");
      if (!answer.ok || !answer.body) throw new Error(`answered ${answer.status}`);
      onState("live");
      wait = FIRST_WAIT_MS;
      for await (const event of events(answer.body, live.heard)) {
        if (event.id) last = event.id;
        if (onEvent(event)) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!document.hidden) onState("broken");
    } finally {
      live.end();
    }
    if (!document.hidden) await pause(wait, signal), (wait = Math.min(wait * 2, LONGEST_WAIT_MS));
  }
}

/** The events of a body, as the standard reads them. @param {ReadableStream<Uint8Array>} body
 * @param {() => void} [heard] is told of whatever comes, a heartbeat too @returns {AsyncGenerator<StreamEvent>} */
export async function* events(body, heard = () => {}) {
  const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let rest = "";
  let made = { id: "", type: "", data: /** @type {string[]} */ ([]) };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      if (rest.length > LARGEST_LINE) throw new Error("a line is too long");
      for (const line of lines) {
        if (line) field(made, line);
        else if (made.data.length) yield { id: made.id, type: made.type || "message", data: made.data.join("\n") };
        if (!line) made = { id: "", type: "", data: [] };
      }
    }
  } finally {
    reader.cancel().catch(() => null);
  }
}

/** @param {{ id: string, type: string, data: string[] }} made @param {string} line */
function field(made, line) {
  const colon = line.indexOf(":");
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "data") made.data.push(value);
  else if (name === "event") made.type = value;
  else if (name === "id" && !value.includes("\0")) made.id = value;
}

/** A signal that aborts with the other one, when the tab is hidden, and when nothing was heard for too long. @param {AbortSignal} signal */
function whileLive(signal) {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const look = () => document.hidden && abort();
  let silence = setTimeout(abort, SILENCE_MS);
  signal.addEventListener("abort", abort);
  document.addEventListener("visibilitychange", look);
  const heard = () => (clearTimeout(silence), (silence = setTimeout(abort, SILENCE_MS)));
  const end = () => {
    clearTimeout(silence);
    signal.removeEventListener("abort", abort), document.removeEventListener("visibilitychange", look), abort();
  };
  return { signal: controller.signal, heard, end };
}

/** @param {AbortSignal} signal */
function shown(signal) {
  return new Promise((resolve) => {
    const look = () => (signal.aborted || !document.hidden) && (document.removeEventListener("visibilitychange", look), resolve(null));
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
    look();
  });
}

/** @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve(null)), { once: true });
  });
}
