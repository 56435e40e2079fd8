// @ts-check
/** Now: doors, what waits for people, what is in doubt or paused, how much comes, what has failed. All of it is a link. */
import { get } from "../api.js";
import { age, ago, count, id, time } from "../format.js";
import { again } from "../parts/again.js";
import { overTime } from "../parts/histogram.js";
import { queueName } from "../parts/queues.js";
import { person } from "../parts/people.js";
import { badge, empty, facts, failure } from "../parts/show.js";
import { table } from "../parts/table.js";
import { html } from "../render.js";
import { link } from "../router.js";
import { nameOf } from "./pieces.js";

export const title = "Now";
const AGAIN_MS = 10_000;
const RATES_MS = 60_000; // between looks at how much comes
const HOUR_MS = 3_600_000;
const LATEST = 5;
const MOST = 50; // of a kind that are counted

/** @typedef {import("#ops").Status} Status */
/** @typedef {import("#ops").Pieces} Pieces */
/** @typedef {import("#ops").Tasks} Tasks */
/** @typedef {import("#ops").KernelExecutions} Executions */
/** @typedef {import("#ops").KernelApprovals} Approvals */
/** @template T @typedef {{ value?: T, error?: unknown }} Found */
/** @typedef {{ ms: number, state: string }} Came */
/** @typedef {{ many: number, isAll: boolean, sinceMs: number, untilMs: number, came: Came[] }} Rate */
/** @typedef {{ status: Found<Status>, failed: Found<Pieces>, running: Found<Pieces>, doubts?: Found<Tasks>, approvals?: Found<Approvals>,
 *   broken?: Found<Executions>, rates?: Record<string, Found<Rate>> }} Known */

/** @param {import("../router.js").Place} place */
export async function open({ show, signal }) {
  const known = /** @type {Known} */ ({});
  let ratesAt = 0;
  let doors = /** @type {Partial<Status["doors"]>} */ ({});
  const draw = () => signal.aborted || show(view(known, Date.now()));
  const look = again(async () => {
    known.status = await found(get("status", {}, signal));
    const { worker, kernel } = (doors = known.status.value?.doors ?? doors);
    const asked = /** @type {[string, Promise<unknown>][]} */ ([
      ["failed", get("pieces", { state: "failed", limit: LATEST }, signal)],
      ["running", get("pieces", { state: "running", limit: LATEST }, signal)],
      ...(worker ? [["doubts", get("tasks", { payment: "unresolved", limit: MOST }, signal)]] : []),
      ...(kernel ? [["approvals", get("kernel/approvals", {}, signal)], ["broken", get("kernel/executions", { status: "failed", limit: LATEST, include: "reasons" }, signal)]] : []),
    ]);
    await Promise.all(asked.map(async ([name, read]) => Object.assign(known, { [name]: await found(read) })));
    draw();
    if (Date.now() - ratesAt < RATES_MS) return;
    ratesAt = Date.now();
    known.rates = await rates(Boolean(worker), Boolean(kernel), signal);
    draw();
  }, AGAIN_MS, signal);
  await look();
}

/** @template T @param {Promise<T>} read @returns {Promise<Found<T>>} */
const found = (read) => read.then((value) => ({ value }), (error) => ({ error }));

/** How much of each kind came in the last hour; where the first page is full, in how long so many came.
 * @param {boolean} worker @param {boolean} kernel @param {AbortSignal} signal @returns {Promise<Record<string, Found<Rate>>>} */
async function rates(worker, kernel, signal) {
  const until = Date.now();
  const since = until - HOUR_MS;
  const asked = { since_ms: since, limit: MOST };
  /** @type {[string, Promise<Rate>][]} */
  const reads = [["pieces", get("pieces", asked, signal).then((page) => rate(page.items.map(pieceCame), page.next, since, until))]];
  if (worker) reads.push(["tasks", get("tasks", asked, signal).then((page) => rate(page.items.map(taskCame), page.next, since, until))]);
  if (kernel) reads.push(["executions", get("kernel/executions", { created_after: new Date(since).toISOString(), limit: MOST }, signal)
    .then((page) => rate(page.executions.map(executionCame), page.next_cursor, since, until))]);
  return Object.fromEntries(await Promise.all(reads.map(async ([name, read]) => [name, await found(read)])));
}

/** @param {Pieces["items"][number]} piece @returns {Came} */
const pieceCame = ({ claimed_at_ms, is_lapsed, state }) => ({ ms: claimed_at_ms ?? 0, state: is_lapsed ? "lapsed" : state });

/** @param {Tasks["items"][number]} task @returns {Came} */
const taskCame = ({ created_at_ms, state }) => ({ ms: created_at_ms, state });

/** @param {Executions["executions"][number]} execution @returns {Came} */
const executionCame = ({ created_at, status }) => ({ ms: Date.parse(created_at), state: status });

/** @param {Came[]} came the newest first @param {unknown} next @param {number} since @param {number} until @returns {Rate} */
function rate(came, next, since, until) {
  const oldest = came.at(-1)?.ms;
  return { many: came.length, isAll: !next, sinceMs: next && oldest ? oldest : since, untilMs: until, came };
}

/** @param {Known} known @param {number} at */
function view({ status, failed, running, doubts, approvals, broken, rates }, at) {
  const standing = status.value;
  return html`
    <h1>Now</h1>
    <p class="quiet">Seen ${time(at)}, and again every ${AGAIN_MS / 1_000} s while this page is visible.</p>
    <section aria-labelledby="doors"><h2 id="doors">Doors</h2>${standing ? doors(standing) : failure(status.error)}</section>
    <section aria-labelledby="people"><h2 id="people">Waits for people</h2>${standing ? people(standing, doubts, approvals) : null}</section>
    <section aria-labelledby="paused"><h2 id="paused"><a href=${link("/operations")}>Paused</a></h2>${standing ? paused(standing) : null}</section>
    <section aria-labelledby="rates"><h2 id="rates">What came</h2>${rates ? ofRates(rates) : html`<p class="quiet">Loading…</p>`}</section>
    <section aria-labelledby="queues"><h2 id="queues">Queues</h2>${standing ? queues(standing) : null}</section>
    ${broken && html`<section aria-labelledby="broken"><h2 id="broken"><a href=${link("/executions", { status: "failed" })}>Executions that failed</a></h2>${executions(broken)}</section>`}
    <section aria-labelledby="failed"><h2 id="failed"><a href=${link("/pieces", { state: "failed" })}>Pieces that failed</a></h2>
      ${pieces(failed, "Nothing has failed among the newest.", "Pieces that failed")}</section>
    <section aria-labelledby="running"><h2 id="running"><a href=${link("/pieces", { state: "running" })}>Pieces that run</a></h2>
      ${pieces(running, "Nothing runs just now.", "Pieces that run")}</section>`;
}

/** @param {Status} status */
function doors({ doors, paused, version }) {
  const isPaused = (/** @type {string} */ name) => paused?.some(({ scope }) => scope === `door:${name}`);
  const pages = /** @type {Record<string, string>} */ ({ runtime: "/pieces", worker: "/hired", kernel: "/executions" });
  const each = Object.entries(doors).map(([name, isThere]) => /** @type {[string, unknown]} */ ([
    name, isThere ? html`<a href=${link(pages[name] ?? "/now")}>${badge(isPaused(name) ? "paused" : "ok")}</a>` : badge("not deployed")]));
  return facts([...each, ["version", version]]);
}

/** @param {Status} status @param {Found<Tasks>} [doubts] @param {Found<Approvals>} [approvals] */
function people({ oldest }, doubts, approvals) {
  if (!doubts && !approvals) return html`<p class="quiet">Nothing waits: the runtime door alone asks nobody.</p>`;
  return facts([
    ...(approvals ? [row("approvals", link("/inbox"), many(approvals, approvals.value?.approvals.length, Boolean(approvals.value?.next_cursor))),
      row("oldest approval", oldest.approval?.of ? link(`/executions/${encodeURIComponent(oldest.approval.of)}`) : "", since(oldest.approval))] : []),
    ...(doubts ? [row("payments for an operator", link("/hired", { payment: "unresolved" }), many(doubts, doubts.value?.items.length, Boolean(doubts.value?.next))),
      row("oldest doubt", oldest.doubt?.of ? link(`/hired/${encodeURIComponent(oldest.doubt.of)}`) : "", since(oldest.doubt))] : []),
  ]);
}

/** @param {string} name @param {string} address @param {unknown} value @returns {[string, unknown]} */
const row = (name, address, value) => [name, address ? html`<a href=${address}>${value}</a>` : value];

/** @param {Found<unknown>} found @param {number | undefined} length @param {boolean} hasMore */
const many = (found, length, hasMore) =>
  !found.value ? html`<span class="said bad">could not be read</span>` : !length ? `none${hasMore ? " among the newest" : ""}` : `${length}${hasMore ? " or more" : ""}`;

/** @param {Status["oldest"]["doubt"]} [oldest] */
function since(oldest) {
  if (!oldest) return "–";
  if (!oldest.is_known) return html`<span class="said bad">not known</span>`;
  return oldest.since_ms == null ? "none" : html`${id(oldest.of)} since ${time(oldest.since_ms)}`;
}

/** @param {Status} status */
function paused({ paused, paused_agents, has_more_paused_agents }) {
  if (paused === null) return html`<p class="said bad">What is paused could not be read.</p>`;
  const rows = [...(paused ?? []), ...(paused_agents ?? [])];
  const unread = paused_agents === null ? html`<p class="said bad">Which agents are paused could not be read.</p>` : null;
  if (!rows.length) return unread ?? html`<p class="quiet">Nothing is paused.</p>`;
  return html`${unread}${table({
    name: "What is paused",
    heads: ["what", "since", "by", "reason"],
    key: (each) => each.scope,
    tone: () => "wait",
    cells: (each) => [
      html`<a href=${link(each.scope.startsWith("agent:") ? "/agents" : "/operations")}><code class="id">${each.scope}</code></a>`,
      time(each.since_ms), person(each.by, each.scope.startsWith("agent:")), html`<span class="said">${each.reason}</span>`,
    ],
  }, rows)}${has_more_paused_agents ? html`<p class="quiet">More agents are paused.</p>` : null}`;
}

/** @param {Record<string, Found<Rate>>} rates */
function ofRates(rates) {
  const pages = /** @type {Record<string, string>} */ ({ pieces: "/pieces", tasks: "/hired", executions: "/executions" });
  return html`
    ${facts(Object.entries(rates).map(([name, { value }]) => row(name, link(pages[name]), value ? ofRate(value) : html`<span class="said bad">could not be read</span>`)))}
    <div class="histograms">${Object.entries(rates).map(([name, { value }]) => (value ? drawn(name, value) : null))}</div>`;
}

/** @param {string} name @param {Rate} rate */
const drawn = (name, { came, sinceMs, untilMs }) => (came.length ? overTime({ name: `${name} by time`, came, from: sinceMs, to: untilMs }) : null);

/** @param {Rate} rate */
const ofRate = ({ many, isAll, sinceMs }) => (isAll ? `${many} in the last hour` : `the newest ${many} since ${ago(sinceMs)}`);

/** @param {Status} status */
function queues({ queues }) {
  const rows = Object.entries(queues).map(([name, queue]) => ({ name, ...queue }));
  if (!rows.length) return empty("No queues", "The runtime door alone needs none.");
  return table({
    name: "Queues",
    heads: ["queue", "waiting", "oldest", "in flight", "delayed", "dead letters", "oldest of them"],
    key: (row) => row.name,
    tone: (row) => (row.dead_letters ? "bad" : undefined),
    cells: (row) => [
      queueName(row.name),
      count(row.waiting), age(row.oldest_age_seconds), count(row.in_flight), count(row.delayed), count(row.dead_letters), age(row.oldest_dead_letter_age_seconds),
    ],
  }, rows);
}

/** @param {Found<Executions>} found */
function executions({ value, error }) {
  if (!value) return failure(error);
  if (!value.executions.length) return html`<p class="quiet">Nothing has failed among the newest.</p>`;
  return table({
    name: "Executions that failed",
    heads: ["execution", "agent", "error", "made"],
    key: (execution) => execution.id,
    cells: (execution) => [
      html`<a href=${link(`/executions/${encodeURIComponent(execution.id)}`)}>${id(execution.id)}</a>`, id(execution.agent_id),
      html`<span class="said">${execution.error ?? "–"}</span>`, time(Date.parse(String(execution.created_at))),
    ],
  }, value.executions);
}

/** @param {Found<Pieces>} found @param {string} none @param {string} name */
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
