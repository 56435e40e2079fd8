// @ts-check
/** Now: which doors there are, what waits, what has failed. */
import { get } from "../api.js";
import { count, time } from "../format.js";
import { badge, empty, facts, failure } from "../parts/show.js";
import { table } from "../parts/table.js";
import { html } from "../render.js";
import { link } from "../router.js";
import { nameOf } from "./pieces.js";

export const title = "Now";
const AGAIN_MS = 10_000;
const LATEST = 5;

/** @typedef {import("#ops").Status} Status */
/** @typedef {import("#ops").Pieces} Pieces */

/** @param {import("../router.js").Place} place */
export async function open({ show, signal }) {
  const parts = { status: part("status"), failed: part("pieces", { state: "failed" }), running: part("pieces", { state: "running" }) };
  /** @type {Record<string, any>} */
  const known = {};
  const look = async () => {
    const found = Object.entries(parts).map(async ([name, read]) => {
      known[name] = await read(signal).then((value) => ({ value }), (error) => ({ error }));
    });
    await Promise.all(found);
    if (!signal.aborted) show(view(known, Date.now()));
  };
  await look();
  const timer = setInterval(() => document.hidden || look(), AGAIN_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** @param {string} path @param {import("../api.js").Query} [query] */
const part = (path, query) => (/** @type {AbortSignal} */ signal) => get(path, query && { ...query, limit: LATEST }, signal);

/** @param {Record<string, any>} known @param {number} at */
function view({ status, failed, running }, at) {
  return html`
    <h1>Now</h1>
    <p class="quiet">Seen ${time(at)}, and again every ${AGAIN_MS / 1_000} s while this page is visible.</p>
    <section aria-labelledby="doors"><h2 id="doors">Doors</h2>${status.error ? failure(status.error) : doors(status.value)}</section>
    <section aria-labelledby="queues"><h2 id="queues">Queues</h2>${status.error ? null : queues(status.value)}</section>
    <section aria-labelledby="running"><h2 id="running"><a href=${link("/pieces", { state: "running" })}>Pieces that run</a></h2>
      ${pieces(running, "Nothing runs just now.", "Pieces that run")}</section>
    <section aria-labelledby="failed"><h2 id="failed"><a href=${link("/pieces", { state: "failed" })}>Pieces that failed</a></h2>
      ${pieces(failed, "Nothing has failed in the last week.", "Pieces that failed")}</section>`;
}

/** @param {Status} status */
function doors({ doors, version }) {
  const each = Object.entries(doors).map(([name, isThere]) => /** @type {[string, unknown]} */ ([name, badge(isThere ? "ok" : "not deployed")]));
  return facts([...each, ["version", version]]);
}

/** @param {Status} status */
function queues({ queues }) {
  const rows = Object.entries(queues).map(([name, queue]) => ({ name, ...queue }));
  if (!rows.length) return empty("No queues", "The runtime door alone needs none.");
  return table({
    name: "Queues",
    heads: ["queue", "wait", "in flight", "delayed", "dead letters"],
    key: (row) => row.name,
    tone: (row) => (row.dead_letters ? "bad" : undefined),
    cells: (row) => [
      html`<a href=${link("/operations", { queue: row.name })}>${row.name}</a>`,
      ...[row.waiting, row.in_flight, row.delayed, row.dead_letters].map(count),
    ],
  }, rows);
}

/** @param {{ value?: Pieces, error?: unknown }} found @param {string} none @param {string} name */
function pieces({ value, error }, none, name) {
  if (!value) return failure(error);
  if (!value.items.length) return html`<p class="quiet">${none}</p>`;
  return table({
    name,
    heads: ["piece", "executor", "state", "claimed"],
    key: (piece) => piece.key,
    cells: (piece) => [nameOf(piece), piece.executor, badge(piece.is_lapsed ? "lapsed" : piece.state), time(piece.claimed_at_ms)],
  }, value.items);
}
