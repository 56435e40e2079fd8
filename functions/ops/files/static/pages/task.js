// @ts-check
/** One hired task: where it stands, every move of its money, its webhooks, and its payment where that is in doubt. */
import { ApiError, address, get, part, post } from "../api.js";
import { can } from "../auth.js";
import { count, id, time } from "../format.js";
import { again } from "../parts/again.js";
import { askReason } from "../parts/dialog.js";
import { forget } from "../parts/forget.js";
import { graph, MEANS } from "../parts/graph.js";
import { networkName, usdc } from "../parts/money.js";
import { person } from "../parts/people.js";
import { badge, command, copy, empty, facts, failure, json, quoted } from "../parts/show.js";
import { table } from "../parts/table.js";
import { toast } from "../parts/toast.js";
import { tries } from "../parts/webhooks.js";
import { html } from "../render.js";
import { link } from "../router.js";
import { doubts } from "./doubt.js";
import { tabs } from "./hired.js";
import { debtsOf, payBack } from "./refund.js";

export const title = "Task";
const AGAIN_MS = 10_000;
const ENDED = ["COMPLETED", "PARTIAL_FINAL", "FAILED_PERMANENT", "EXHAUSTED", "TIMED_OUT"];

/** @typedef {import("#ops").Task} Task */
/** @typedef {Task["webhooks"][number]} Webhook */
/** @typedef {{ resend: (hook: Webhook) => void, erase: () => void, pay: (debt: Task["debts"][number]) => void, doubt: unknown }} Verbs */

/** @param {import("../router.js").Place} place */
export async function open({ params, show, signal }) {
  const path = `tasks/${part(params.contract)}`;
  let task = /** @type {Task | null} */ (null);
  let [isThere, problem] = /** @type {[boolean, unknown]} */ ([false, null]);
  const draw = () => !signal.aborted && show(html`${problem ? failure(problem, look) : null}
    ${task ? view(task, { resend, erase, pay, doubt: doubt.shown(task) }) : without(params.contract, erase)}`, `Task ${params.contract}`);
  const look = again(async () => {
    try {
      [task, isThere, problem] = [await known(path, signal), true, null];
    } catch (error) {
      if (!isThere) throw error; // there is nothing to show yet
      problem = error;
    }
    draw();
  }, AGAIN_MS, signal, () => task !== null && !ENDED.includes(task.state));
  const doubt = doubts(path, { draw, look, signal });
  const erase = () => forget({ path: `${path}/forget`, what: "what this contract and its task were about", signal }, look);
  const resend = (/** @type {Webhook} */ hook) => sendAgain(path, hook, signal).then((done) => done && look());
  const pay = (/** @type {Task["debts"][number]} */ { debt }) => payBack(params.contract, debt, signal, look);
  await look();
}

/** The task; null if there is none. @param {string} path @param {AbortSignal} signal @returns {Promise<Task | null>} */
const known = (path, signal) => get(path, {}, signal).catch((error) => {
  if (error instanceof ApiError && error.status === 404) return null;
  throw error;
});

/** @param {string} path @param {Webhook} hook @param {AbortSignal} signal */
function sendAgain(path, hook, signal) {
  return askReason({
    title: "Send this webhook again",
    about: hook.event_id,
    intro: html`<p>${id(hook.event_id)} to ${id(hook.host)} is sent again, from the first try on. A seeker who has it already knows it by its id.</p>`,
    verb: "Send again",
    act: async ({ reason }) => {
      const done = await post(`${path}/webhooks/${part(hook.event_id)}/resend`, { reason }, signal);
      if (done.is_asked_for) toast(`It was ${done.was}, and will be sent again`);
      else toast("The seeker's server has said that it wants no more (410): nothing is sent", "failed");
    },
  });
}

/** @param {string} contract @param {() => void} erase */
function without(contract, erase) {
  return html`<h1>Hired work</h1>${tabs("tasks")}
    <h2>${id(contract)}</h2>
    ${empty("This contract has no task", html`The contract is not known, nobody has paid for it yet, or its task is not kept any more.
      It may be among the <a href=${link("/hired/contracts")}>contracts</a>.`)}
    ${can("operator") ? html`<p class="verbs"><button type="button" class="grave" @click=${erase}>Forget the contract…</button></p>` : null}`;
}

/** @param {Task} task @param {Verbs} verbs */
function view(task, { resend, erase, pay, doubt }) {
  const { forgotten } = /** @type {{ forgotten?: { at_ms: number, by: string, complete: boolean, record_id: string } | null }} */ (task);
  return html`
    <h1>Task ${badge(task.state)} ${badge(task.payment)}</h1>
    ${forgotten && html`<p class="said bad">What it was about was forgotten ${time(forgotten.at_ms)} by ${person(forgotten.by)}, record ${id(forgotten.record_id)}.
      ${forgotten.complete ? null : "Not all of it is erased yet: forget it once more."}</p>`}
    ${doubt}
    ${facts([
      ["contract", html`${id(task.contract_id)} ${copy(task.contract_id, "the contract's id")}`],
      ["executor", task.executor],
      ["attempt", `${task.attempt} of ${task.attempts}`],
      ["generation", count(task.generation)],
      ["made", time(task.created_at_ms)],
      ["ended", time(task.finished_at_ms)],
      ["next look", task.payment === "unresolved" ? "none: an operator decides" : time(task.next_look_at_ms)],
      ["looks", count(task.looks)],
    ])}
    <section aria-labelledby="state"><h2 id="state">Where it stands</h2>
      <p>${badge(task.state)} ${MEANS[task.state] ?? ""}</p>
      <div class="scroll" tabindex="0" role="region" aria-label="States">${graph(task.state, task.moves.map((move) => move.state))}</div>
      <p class="hint">Thick: where it stands and may go. Filled: where its money is known to have moved before.</p></section>
    ${task.failure && html`<section aria-labelledby="failure"><h2 id="failure">Failure</h2>
      ${facts(Object.entries(task.failure).map(([name, value]) => [name, html`<span class="said">${value}</span>`]))}</section>`}
    <section aria-labelledby="payment"><h2 id="payment">Payment</h2>${payment(task)}</section>
    ${task.debts.length ? html`<section aria-labelledby="debts"><h2 id="debts">Owed back</h2>${debtsOf(task.debts, pay)}</section>` : null}
    <section aria-labelledby="moves"><h2 id="moves">Every move of its money</h2>${moves(task)}</section>
    <section aria-labelledby="webhooks"><h2 id="webhooks">Webhooks</h2>${webhooks(task, resend)}</section>
    <section aria-labelledby="again"><h2 id="again">In a shell</h2>
      ${command(`curl -s -H "Authorization: Bearer $TOKEN" ${quoted(String(address(`tasks/${part(task.contract_id)}`)))}`, "This page's data")}</section>
    ${can("operator") && ENDED.includes(task.state) ? html`<p class="verbs"><button type="button" class="grave" @click=${erase}>Forget what it was about…</button></p>` : null}
    <details><summary>All of it as JSON</summary>${json(task, "the task")}</details>`;
}

/** @param {Task} task */
function payment(task) {
  const last = task.moves.find((move) => move.atomic != null);
  return html`${facts([
    ["payment", badge(task.payment)],
    ["amount", usdc(task.atomic ?? last?.atomic)],
    ["network", networkName(task.network)],
    ["payer", html`${id(task.payer)} ${copy(task.payer, "the payer")}`],
    ["nonce", html`${id(task.nonce)} ${copy(task.nonce, "the nonce")}`],
    ["claim", badge(task.claim)],
    ["valid until", time(task.valid_before_ms)],
    ["transactions named", task.transactions_named.length ? task.transactions_named.map((hash) => html`${id(hash)} ${copy(hash, "the transaction")} `) : "none"],
  ])}
  ${task.receipt && json(task.receipt, "Receipt")}
  ${task.resolution && json(task.resolution, "An operator's decision")}`;
}

/** @param {Task} task */
function moves({ moves, has_more_moves }) {
  if (!moves.length) return empty("No moves are kept", "Its money has not moved yet, or moved before an upgrade that keeps each move.");
  return html`${table({
    name: "Moves",
    heads: ["when", "state", "payment", "claim", "amount", "network", "transactions", "calls", "looks", "reason"],
    key: (move) => `${move.generation}/${move.version}/${move.at_ms}`,
    cells: (move) => [
      time(move.at_ms), badge(move.state || "–"), badge(move.payment), move.claim, usdc(move.atomic), networkName(move.network),
      named(move), count(move.calls), count(move.looks),
      html`<span class="said">${move.reason}</span>${move.resolution ? html` <code>${JSON.stringify(move.resolution)}</code>` : null}`,
    ],
  }, moves)}${has_more_moves && html`<p class="quiet">There are older moves, which the door does not list.</p>`}`;
}

/** @param {Task["moves"][number]} move */
function named({ transaction, hashes }) {
  const all = [...new Set([transaction, ...hashes])].filter(Boolean);
  return all.length ? all.map((hash) => html`<p class="plain">${id(hash)}</p>`) : html`<span class="quiet">–</span>`;
}

/** @param {Task} task @param {(hook: Webhook) => void} resend */
function webhooks({ webhooks, has_more_webhooks }, resend) {
  if (!webhooks.length) return empty("No webhooks", "The contract names no address, or its task has not ended.");
  const isOperator = can("operator");
  return html`${table({
    name: "Webhooks",
    heads: ["webhook", "to", "state", "attempt", "tries", ...(isOperator ? ["verbs"] : [])],
    key: (hook) => hook.event_id,
    cells: (hook) => [
      id(hook.event_id), html`<span class="id">${hook.host}</span>`, badge(hook.state), count(hook.attempt), tries(hook),
      ...(isOperator ? [html`<button type="button" @click=${() => resend(hook)}>Send again…</button>`] : []),
    ],
  }, webhooks)}${has_more_webhooks && html`<p class="quiet">There are more webhooks, which the door does not list.</p>`}`;
}
