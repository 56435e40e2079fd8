// @ts-check
/** Executions: the list and its filters, which are in the address; what is new comes by itself while one looks. */
import { ApiError, get, part, post } from "../api.js";
import { can } from "../auth.js";
import { counted, form, id, time } from "../format.js";
import { again } from "../parts/again.js";
import { ask } from "../parts/dialog.js";
import { overTime } from "../parts/histogram.js";
import { badge, empty, failure } from "../parts/show.js";
import { table } from "../parts/table.js";
import { toast } from "../parts/toast.js";
import { html } from "../render.js";
import { go, link } from "../router.js";
import { create } from "./creating.js";

export const title = "Executions";
const AGAIN_MS = 5_000; // between looks at the newest page
const OPEN = ["pending", "running", "blocked"];
const STATES = [...OPEN, "completed", "failed", "cancelled"];
const MOST_LABELS = 8; // that have a field
const LOOKS = 10; // at a count that lags behind
const PAUSE_MS = 500;

/** @typedef {import("#ops").KernelExecutions["executions"][number]} Row */
/** @typedef {import("#ops").KernelCancellable} Cancellable */
/** @typedef {{ status: string, agent_id: string, label: string[], created_after: string, created_before: string }} Asked all that is given must hold */
/**
 * @typedef {object} Listed
 * @property {Row[]} rows
 * @property {string} next the cursor of the page behind them
 * @property {number} pages how many were read
 * @property {boolean} isBusy
 * @property {unknown} error of the last read
 */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const { status = "", agent_id = "", created_after = "", created_before = "" } = query;
  const label = new URLSearchParams(location.search).getAll("label").filter(Boolean);
  const asked = { status, agent_id, label, created_after, created_before };
  /** @type {Listed} */
  const listed = { rows: [], next: "", pages: 0, isBusy: true, error: null };
  const draw = () => show(view(asked, listed, more, look, () => create(asked.agent_id, signal)));
  /** @param {(page: import("#ops").KernelExecutions) => void} take @param {string} cursor */
  async function read(take, cursor) {
    listed.isBusy = true;
    try {
      take(await get("kernel/executions", { ...asked, include: "reasons", cursor }, signal));
      listed.error = null;
    } catch (error) {
      listed.error = error;
    }
    listed.isBusy = false;
    if (!signal.aborted) draw();
  }
  let reading = /** @type {Promise<unknown>} */ (Promise.resolve());
  const inTurn = (/** @type {() => unknown} */ act) => (reading = reading.catch(() => null).then(() => signal.aborted || act()));
  const look = again(() => inTurn(() => read((page) => renew(listed, page), "")), AGAIN_MS, signal);
  let isMore = false;
  const more = async () => {
    if (isMore) return;
    isMore = true;
    await inTurn(() => listed.next && read((page) => extend(listed, page), listed.next));
    isMore = false;
  };
  await look();
}

/** Put the newest page in front. Rows of later pages stay as they were read; if some lie between, the list begins anew.
 * @param {Listed} listed @param {import("#ops").KernelExecutions} page */
function renew(listed, { executions, next_cursor }) {
  const oldest = executions.at(-1);
  const shown = new Set(executions.map((row) => row.id));
  const behind = oldest ? listed.rows.filter((row) => !shown.has(row.id) && isOlder(row, oldest)) : [];
  const touches = listed.rows.some((row) => shown.has(row.id));
  if (listed.pages > 1 && touches && next_cursor) listed.rows = [...executions, ...behind];
  else Object.assign(listed, { rows: executions, next: next_cursor, pages: 1 });
}

/** Put a following page behind. @param {Listed} listed @param {import("#ops").KernelExecutions} page */
function extend(listed, { executions, next_cursor }) {
  const known = new Set(listed.rows.map((row) => row.id));
  Object.assign(listed, { rows: [...listed.rows, ...executions.filter((row) => !known.has(row.id))], next: next_cursor, pages: listed.pages + 1 });
}

/** @param {Row} row @param {Row} than */
const isOlder = (row, than) => row.created_at < than.created_at || (row.created_at === than.created_at && row.id < than.id);

/** @param {Asked} asked @param {Listed} listed @param {() => void} more @param {() => void} look @param {() => void} begin */
function view(asked, listed, more, look, begin) {
  const { rows, next, pages, isBusy, error } = listed;
  return html`<h1>Executions</h1>${filters(asked)}
    <p class="quiet">The newest are looked at again every ${AGAIN_MS / 1_000} s while this page is visible${pages > 1 ? "; those below the first 50 are as they were when they were loaded" : ""}.</p>
    ${can("operator", "client") ? html`<p class="verbs"><button type="button" class="main" @click=${begin}>New execution…</button>
      <button type="button" class="grave" @click=${() => cancelMany(asked, look)} ?disabled=${!pages || !isCancellable(asked)}
      aria-describedby="many">Cancel these…</button><span class="hint" id="many">${isCancellable(asked) ? "" : "To cancel many, choose an open status, an agent or a label, and no time."}</span></p>` : null}
    ${rows.length > 1 ? byTime(rows, asked) : null}
    ${rows.length ? table({ name: "Executions", heads: ["execution", "status", "agent", "waits for, or failed", "labels", "created", "last change"], key: (row) => row.id,
      tone: (row) => (row.status === "failed" ? "bad" : row.status === "blocked" ? "wait" : undefined), cells }, rows) : null}
    ${rows.length || next || error || (isBusy && !pages) ? null : none(asked)}
    ${!rows.length && next ? empty("Nothing on this part of the list", "The door reads a bounded number of rows at once. Go on for the rest.") : null}
    ${error ? failure(error, look) : null}
    <p class="more">${next ? html`<button type="button" @click=${more}>Load more</button>` : null}</p>`;
}

/** When the rows were created, by status; a bar leads to those of its time. @param {Row[]} rows @param {Asked} asked */
function byTime(rows, asked) {
  const came = rows.map((row) => ({ ms: Date.parse(row.created_at), state: row.status }));
  const times = came.map(({ ms }) => ms);
  return overTime({ name: "Created, by time", came, from: Math.min(...times), to: Math.max(...times) + 1, href: (from, to) =>
    link("/executions", { ...asked, created_after: new Date(from).toISOString(), created_before: new Date(to).toISOString() }) });
}

/** @param {Row} row */
const cells = (row) => [
  html`<a href=${link(`/executions/${part(row.id)}`)}>${id(row.id)}</a>`,
  badge(row.status),
  html`<a href=${link("/executions", { agent_id: row.agent_id })}>${row.agent_id}</a>`,
  html`<span class=${row.error ? "said bad" : "said"}>${row.error ?? row.waiting_for ?? "–"}</span>`,
  Object.entries(row.labels).map(([name, value]) => html`<a class="label" href=${link("/executions", { label: `${name}:${value}` })}>${name}: ${value}</a> `),
  time(Date.parse(row.created_at)),
  time(Date.parse(row.updated_at)),
];

/** @param {Asked} asked */
function filters(asked) {
  const changed = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (event.type === "change" && /** @type {HTMLInputElement} */ (event.target).type === "datetime-local") return; // half typed, perhaps
    const form = /** @type {HTMLFormElement} */ (/** @type {Element} */ (event.currentTarget));
    const fields = new FormData(form);
    const given = /** @type {any} */ (Object.fromEntries([...fields].map(([name, value]) => [name, String(value).trim()])));
    given.label = fields.getAll("label").map((value) => String(value).trim());
    for (const name of ["created_after", "created_before"]) given[name] = moment(given[name]);
    go(link("/executions", given));
  };
  return html`<form class="filters" @submit=${changed} @change=${changed} aria-label="Filters">
    <label>Status <select name="status">
      <option value="">any</option>
      ${STATES.map((state) => html`<option value=${state} ?selected=${state === asked.status}>${state}</option>`)}
    </select></label>
    <label>Agent <input name="agent_id" value=${asked.agent_id}></label>
    ${[...asked.label, ""].slice(0, MOST_LABELS).map((label, at) => html`<label>${at ? "and also" : "Label"} <input name="label" value=${label} placeholder="key:value"></label>`)}
    <label>Created from <input name="created_after" type="datetime-local" step="1" value=${local(asked.created_after)}></label>
    <label>until <input name="created_before" type="datetime-local" step="1" value=${local(asked.created_before)}></label>
    <button>Filter</button>
    <a href=${link("/executions")} ?hidden=${!isFiltered(asked)}>Clear</a>
  </form>`;
}

/** A field's time, which is the browser's own, as the door reads it. @param {string} text */
const moment = (text) => (text && !Number.isNaN(Date.parse(text)) ? new Date(text).toISOString() : "");

/** A time of the address as a field has it. @param {string} text */
function local(text) {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? "" : new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** @param {Asked} asked */
function none(asked) {
  if (isFiltered(asked)) return empty("No execution matches", html`<a href=${link("/executions")}>Look at all executions</a>.`);
  return empty("No executions yet", html`Create one: <em>New execution</em> above, or <code>POST /v0/executions</code> at the kernel door.`);
}

/** @param {Asked} asked */
const isFiltered = (asked) => Object.values(asked).some((value) => value.length);

/** Whether the door can cancel what the filter names, and not more. @param {Asked} asked */
const isCancellable = ({ status, agent_id, label, created_after, created_before }) =>
  Boolean(status || agent_id || label.length) && (!status || OPEN.includes(status)) && !created_after && !created_before;

/** Count; then cancel exactly so many, with that number typed in. @param {Asked} asked @param {() => void} look */
async function cancelMany({ status, agent_id, label }, look) {
  const labels = Object.fromEntries(label.map((pair) => [pair.split(":")[0], pair.split(":").slice(1).join(":")]));
  const which = { ...(status && { status }), ...(agent_id && { agent_id }), ...(label.length && { labels }) };
  let counted = /** @type {Cancellable | null} */ (null);
  try {
    counted = await count(which, "");
  } catch (error) {
    return toast(error instanceof Error ? error.message : String(error), "failed");
  }
  const [number, cursor] = [counted.count ?? 0, counted.cursor];
  if (!number) return toast("No open execution matches", "failed");
  await ask({
    title: `Cancel ${many(number)}`,
    intro: html`<p>Those that are open now and have ${[["status", status], ["agent", agent_id], ...label.map((pair) => ["label", pair])].filter(([, value]) => value).map(([what, value]) => html`${what} <code class="id">${value}</code> `)}</p>
      <p>They end for good. ${counted.more ? "There may be more, which stay: count again afterwards." : ""}</p>`,
    fields: [{ name: "number", label: `Type ${number} to confirm`, required: true, max: 10 }],
    verb: "Cancel them",
    no: "Let them go on",
    isGrave: true,
    act: async (values) => {
      if (values.number.trim() !== String(number)) throw new Error(`Type ${number}: that many are counted.`);
      const done = await cancelled(which, cursor, number);
      toast(`${many(done)} ${form(done, "is", "are")} cancelled`);
    },
  });
  look();
}

/** @param {number} number */
const many = (number) => counted(number, "execution");

/** @param {object} which @param {string} cursor @returns {Promise<Cancellable>} */
const count = (which, cursor) => post("kernel/executions/cancel", { ...which, ...(cursor && { cursor }) });

/** Part after part; what was not counted at first is never added. @param {object} which @param {string} cursor @param {number} number */
async function cancelled(which, cursor, number) {
  let [done, left] = [0, number];
  for (;;) {
    const part = /** @type {Cancellable} */ (await post("kernel/executions/cancel", { ...which, cursor, confirm: left }));
    done += part.cancelled ?? 0;
    if (!part.remaining) return done;
    left = await shrunk(which, cursor, part.remaining, done);
    if (!left) return done;
  }
}

/** How many are left, once the list shows it. @param {object} which @param {string} cursor @param {number} most @param {number} done */
async function shrunk(which, cursor, most, done) {
  for (let looks = 0; looks < LOOKS; looks += 1) {
    const { count: found = 0 } = await count(which, cursor);
    if (found <= most) return found;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  throw new ApiError(409, "conflict", `${many(done)} ${form(done, "is", "are")} cancelled. More match now than were counted: close this and count again.`);
}
