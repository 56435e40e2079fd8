// @ts-check
/** Money of hired work by day: received, owed back, fees; and what is at risk now. Sums are of one network each. */
import { get } from "../api.js";
import { counted, form, id, time } from "../format.js";
import { inTurn } from "../parts/again.js";
import { inUsdc, networkName, sumsOf, usdc } from "../parts/money.js";
import { histogram } from "../parts/histogram.js";
import { badge, empty, facts, failure } from "../parts/show.js";
import { table } from "../parts/table.js";
import { html } from "../render.js";
import { link } from "../router.js";
import { filtered, nameOf, tabs } from "./hired.js";
import { paidBack, payBack } from "./refund.js";

export const title = "Money";
const DAY_MS = 86_400_000;
const DAYS = 7;
const RISK_DAYS = 30; // whose tasks are searched for doubts
const MOST_PAGES = 20; // of them
const KINDS = /** @type {Record<string, string>} */ ({ platform_fee_due: "platform fee", refund_due: "owed back" });

const SUMS = /** @type {const} */ ([["received", "received"], ["refund_due", "owed back"], ["still_owed_back", "still owed back"], ["refunded", "paid back"], ["platform_fee_due", "platform fees"]]);

/** @typedef {import("#ops").Ledger} Ledger */
/** @typedef {import("#ops").Tasks["items"][number]} Task */
/** @typedef {{ items: Task[], isAll: boolean }} Risk */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const today = dayOf(Date.now());
  const day = /^\d{4}-\d{2}-\d{2}$/.test(query.day ?? "") ? query.day : today;
  const ofDay = () => /** @type {Promise<Ledger>} */ (get("ledger", { day }, signal));
  let [ledger, risk] = await Promise.all([ofDay(), atRisk(signal).catch((error) => ({ error }))]);
  /** @type {any[] | null} */
  let week = null;
  let problem = /** @type {unknown} */ (null); // why the day was not read again after a word on a refund
  const stale = () => (problem ? html`${failure(problem, look)}<p class="said wait">This is what was owed before:</p>` : null);
  const draw = () => show(view(day, today, ledger, risk, week, pay, stale()), `Money of ${day}`);
  const look = inTurn(async () => {
    try {
      [ledger, problem] = [await ofDay(), null];
      week = week && week.map((each) => (each.day === day ? ledger : each));
    } catch (error) {
      problem = error;
    }
    if (!signal.aborted) draw();
  }, signal);
  const pay = (/** @type {Ledger["owed"][number]} */ { contract_id, debt }) => debt && payBack(contract_id, debt, signal, look);
  draw();
  const days = Array.from({ length: DAYS }, (_, at) => dayOf(Date.parse(day) - at * DAY_MS)).filter((each) => each >= "1970-01-01");
  const others = await Promise.all(days.map((each) => (each === day ? null : get("ledger", { day: each }, signal).catch((error) => ({ day: each, error })))));
  week = others.map((each) => each ?? ledger);
  if (!signal.aborted) draw();
}

/** @param {number} ms */
const dayOf = (ms) => new Date(ms).toISOString().slice(0, 10);

/** The tasks of the last days whose payment is in doubt now; `isAll` as far as the door knows the oldest doubt.
 * @param {AbortSignal} signal @returns {Promise<Risk>} */
async function atRisk(signal) {
  const { oldest } = /** @type {import("#ops").Status} */ (await get("status", {}, signal));
  const first = oldest.doubt;
  if (first?.is_known && !first.of) return { items: [], isAll: true };
  /** @type {Task[]} */
  const items = [];
  let cursor = /** @type {string | null} */ (null);
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await get("tasks", { state: "UNKNOWN", limit: 50, since_ms: Date.now() - RISK_DAYS * DAY_MS, cursor }, signal);
    items.push(...page.items);
    if (!(cursor = page.next)) return { items, isAll: Boolean(first?.is_known) && items.some((task) => task.contract_id === first?.of) };
  }
  return { items, isAll: false };
}

/** @param {string} day @param {string} today @param {Ledger} ledger @param {Risk | { error: unknown }} risk @param {any[] | null} week
 * @param {(row: Ledger["owed"][number]) => void} pay @param {unknown} stale what to say before debts that may have changed */
function view(day, today, ledger, risk, week, pay, stale) {
  const changed = filtered("/hired/money");
  return html`<h1>Hired work</h1>${tabs("money")}
    <form class="filters" @submit=${changed} @change=${changed} aria-label="Day">
      <label>Day (UTC) <input type="date" name="day" value=${day} max=${today} required></label><button>Show</button>
    </form>
    <section aria-labelledby="risk"><h2 id="risk">At risk now</h2>${"error" in risk ? failure(risk.error) : ofRisk(risk)}</section>
    <section aria-labelledby="sums"><h2 id="sums">${day}</h2>${completeness(ledger)}${sums(ledger)}</section>
    <section aria-labelledby="came"><h2 id="came">Received</h2>${received(ledger)}</section>
    <section aria-labelledby="owed"><h2 id="owed">Owed back, and fees</h2>${stale}${owed(ledger, pay)}</section>
    <section aria-labelledby="back"><h2 id="back">Paid back</h2>${refunds(ledger)}</section>
    <section aria-labelledby="week"><h2 id="week">The ${DAYS} days until then</h2>${week ? ofWeek(week) : html`<p class="quiet">Loading…</p>`}</section>`;
}

/** @param {Risk} risk */
function ofRisk({ items, isAll }) {
  const { sums, without } = sumsOf(items);
  const waiting = items.filter((task) => task.payment === "unresolved").length;
  if (!items.length && isAll) return html`<p class="quiet">No payment is in doubt.</p>`;
  return html`
    ${facts(sums.map(([network, sum]) => [networkName(network), usdc(sum)]))}
    <p><a href=${link("/hired", { doubt: 1 })}>${items.length} in doubt</a>,
      of which <a href=${link("/hired", { payment: "unresolved" })}>${waiting} ${form(waiting, "waits", "wait")} for an operator</a>.
      ${isAll ? null : `There may be more: these are among the tasks of the last ${RISK_DAYS} days.`} ${without ? `The sums lack ${counted(without, "payment")} whose amount is not known.` : null}</p>`;
}

/** Whether the day's totals are all. @param {Ledger} ledger */
function completeness({ is_complete, complete_from, without_amount }) {
  const since = complete_from ? `each payment has a row since ${complete_from}` : "nobody has said since when each payment has a row (LedgerCompleteFrom)";
  const said = is_complete === null ? ["wait", `It is not known whether this is all: ${since}.`]
    : is_complete ? ["good", `This is all: ${since}.`]
    : ["bad", `This is not all: ${complete_from ? `${since}, or the day has more rows than are shown` : "the day has more rows than are shown"}.`];
  return html`<p class=${`said ${said[0]}`}>${said[1]} ${without_amount ? `The sums lack ${counted(without_amount, "receipt")} whose amount is not known any more.` : null}</p>`;
}

/** @param {Ledger} ledger */
function sums({ totals_atomic }) {
  const rows = Object.entries(totals_atomic);
  if (!rows.length) return html`<p class="quiet">No money moved on this day.</p>`;
  return table({
    name: "Sums by network",
    heads: ["network", ...SUMS.map(([, name]) => name)],
    key: ([network]) => network,
    cells: ([network, sum]) => [networkName(network), ...SUMS.map(([kind]) => usdc(sum[kind]))],
  }, rows);
}

/** @param {Ledger} ledger */
function received({ received }) {
  if (!received.length) return empty("Nothing was received", "A payment is received when it is settled.");
  return table({
    name: "Received",
    heads: ["when", "contract", "amount", "network", "payer", "transaction", "payment"],
    key: (move) => `${move.contract_id}/${move.generation}/${move.version}`,
    cells: (move) => [
      time(move.at_ms), nameOf(move.contract_id), usdc(move.atomic), networkName(move.network), id(move.payer),
      id(move.transaction || null), html`${badge(move.payment)} ${move.resolution ? html`<span class="hint">an operator decided</span>` : null}`,
    ],
  }, received);
}

/** @param {Ledger} ledger */
function refunds({ refunds }) {
  if (!refunds.length) return empty("Nothing was paid back", "What is owed back is paid by a transfer of yours; then an operator says so.");
  return table({
    name: "Paid back",
    heads: ["when", "contract", "amount", "network", "to", "transaction", "who, and why"],
    key: (row) => row.transaction,
    cells: (row) => [
      time(row.at_ms), nameOf(row.contract_id), usdc(row.atomic), networkName(row.network), id(row.wallet), id(row.transaction), html`${row.operator || "an operator"}: ${row.reason}`,
    ],
  }, refunds);
}

/** @param {Ledger} ledger @param {(row: Ledger["owed"][number]) => void} pay */
function owed({ owed }, pay) {
  if (!owed.length) return empty("Nothing became owed", "A fee is owed when a task was paid; money that came under a payment that was given up is owed back.");
  return table({
    name: "Owed back, and fees",
    heads: ["when", "contract", "what", "amount", "network", "to", "transaction", "paid back"],
    key: (row) => `${row.contract_id}/${row.generation}/${row.kind}/${row.transaction}`,
    tone: (row) => (row.debt && !row.refund ? "bad" : undefined),
    cells: (row) => [
      time(row.at_ms), nameOf(row.contract_id), KINDS[row.kind] ?? row.kind, usdc(row.atomic), networkName(row.network), id(row.wallet), id(row.transaction || null), paidBack(row, () => pay(row)),
    ],
  }, owed);
}

/** @param {any[]} week days of the ledger, or of failures */
function ofWeek(week) {
  const rows = week.flatMap((ledger) => {
    const networks = Object.entries(ledger.totals_atomic ?? {});
    return (networks.length ? networks : [["", null]]).map(([network, sum]) => ({ ledger, network: String(network), sum }));
  });
  return html`<div class="histograms">${receivedByDay(week)}</div>${table({
    name: "Days",
    heads: ["day", "network", ...SUMS.map(([, name]) => name), "all of it"],
    key: ({ ledger, network }) => `${ledger.day}/${network}`,
    cells: ({ ledger, network, sum }) => [
      html`<a href=${link("/hired/money", { day: ledger.day })}>${ledger.day}</a>`,
      sum ? networkName(network) : html`<span class="quiet">–</span>`,
      ...SUMS.map(([kind]) => (sum ? usdc(sum[kind]) : "–")),
      ledger.error ? html`<span class="said bad">could not be read</span>` : { true: "yes", false: "no", null: "not known" }[String(ledger.is_complete)],
    ],
  }, rows)}`;
}

/** What was received on each day, the oldest first, each network for itself: heights alone are rounded. @param {any[]} week */
function receivedByDay(week) {
  const days = week.filter(({ error }) => !error).reverse();
  const networks = [...new Set(days.flatMap(({ totals_atomic }) => Object.keys(totals_atomic)))].sort();
  return networks.map((network) => {
    const bars = days.map(({ day, totals_atomic }) => {
      const received = String(totals_atomic[network]?.received ?? "0");
      return { said: `${day}: ${inUsdc(received)}`, href: link("/hired/money", { day }), parts: [{ tone: "good", size: Number(received) }] };
    });
    return histogram(`Received on ${networkName(network)}, by day`, bars, [days[0].day, days.at(-1).day]);
  });
}
