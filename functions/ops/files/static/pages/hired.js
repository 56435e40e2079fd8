// @ts-check
/** Hired work: the lists of tasks and of contracts, with filters that are in the address. */
import { part } from "../api.js";
import { id, time } from "../format.js";
import { networkName, usdc } from "../parts/money.js";
import { badge, empty } from "../parts/show.js";
import { list } from "../parts/table.js";
import { html } from "../render.js";
import { go, link } from "../router.js";

export const title = "Hired work";
const STATES = ["EXECUTING", "RESULT_READY", "SETTLING", "UNKNOWN", "UNPAID", "COMPLETED", "PARTIAL_FINAL", "FAILED_TRANSIENT", "FAILED_PERMANENT", "EXHAUSTED", "TIMED_OUT"];
const PAYMENTS = ["authorized", "settling", "settled", "settled_unconfirmed", "unresolved", "not_charged", "failed"];
const OF_CONTRACTS = ["SIGNED", "NOT_KEPT", ...STATES];

/** @typedef {import("#ops").Tasks["items"][number]} Task */
/** @typedef {import("#ops").Contracts["items"][number]} Contract */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const asked = { state: query.doubt ? "UNKNOWN" : query.state ?? "", payment: query.payment ?? "" };
  await list(
    {
      path: "tasks",
      query: asked,
      name: "Tasks",
      heads: ["contract", "state", "payment", "executor", "attempt", "authorized", "next look", "made", "ended"],
      key: (/** @type {Task} */ task) => task.contract_id,
      tone: (task) => (task.payment === "unresolved" ? "bad" : task.is_in_doubt ? "wait" : undefined),
      cells: (task) => [
        nameOf(task.contract_id),
        badge(task.state),
        badge(task.payment),
        task.executor,
        `${task.attempt} of ${task.attempts}`,
        task.atomic == null ? html`<span class="quiet">–</span>` : html`${usdc(task.atomic)} <span class="hint">${networkName(task.network)}</span>`,
        task.payment === "unresolved" ? html`<strong class="bad">an operator decides</strong>` : time(task.next_look_at_ms),
        time(task.created_at_ms),
        time(task.finished_at_ms),
      ],
      none: () => none(asked, Boolean(query.doubt)),
    },
    (content) => show(html`<h1>Hired work</h1>${tabs("tasks")}${filters(asked, Boolean(query.doubt))}${content}`),
    signal,
  );
}

/** The views of hired work. @param {"tasks" | "contracts" | "money"} at */
export const tabs = (at) => html`<nav class="tabs" aria-label="Hired work">
  <a href=${link("/hired")} aria-current=${at === "tasks" ? "page" : null}>Tasks</a>
  <a href=${link("/hired/contracts")} aria-current=${at === "contracts" ? "page" : null}>Contracts</a>
  <a href=${link("/hired/money")} aria-current=${at === "money" ? "page" : null}>Money</a>
</nav>`;

/** A task by its contract's id, as a link. @param {string} contract */
export const nameOf = (contract) => html`<a href=${link(`/hired/${part(contract)}`)}>${id(contract)}</a>`;

/** Make a form's fields the query of a view. @param {string} path @returns {(event: Event) => void} */
export const filtered = (path) => (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (/** @type {Element} */ (event.currentTarget));
  go(link(path, Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]))));
};

/** A choice of one of some words, or any. @param {string} label @param {string} name @param {string[]} words @param {string} at */
export const choice = (label, name, words, at) => html`<label>${label} <select name=${name}>
  <option value="">any</option>
  ${words.map((word) => html`<option value=${word} ?selected=${word === at}>${word}</option>`)}
</select></label>`;

/** @param {{ state: string, payment: string }} asked @param {boolean} isDoubt */
function filters(asked, isDoubt) {
  const changed = filtered("/hired");
  return html`<form class="filters" @submit=${changed} @change=${changed} aria-label="Filters">
    ${isDoubt ? null : choice("State", "state", STATES, asked.state)}
    ${choice("Payment", "payment", PAYMENTS, asked.payment)}
    <label><input type="checkbox" name="doubt" value="1" ?checked=${isDoubt}> Only in doubt</label>
    <button>Filter</button>
    <a href=${link("/hired")} ?hidden=${!asked.state && !asked.payment}>Clear</a>
  </form>`;
}

/** @param {{ state: string, payment: string }} asked @param {boolean} isDoubt */
function none(asked, isDoubt) {
  if (isDoubt) return empty("No payment is in doubt", html`<a href=${link("/hired")}>Look at all tasks</a>.`);
  if (asked.state || asked.payment) return empty("No task matches", html`<a href=${link("/hired")}>Look at all tasks</a>.`);
  return empty("Nobody has hired this worker yet", html`<code>make demo-hire</code> signs a contract and pays for a task.
    What is signed and not paid for is among the <a href=${link("/hired/contracts")}>contracts</a>.`);
}

/** The list of contracts. @param {import("../router.js").Place} place */
export async function openContracts({ query, show, signal }) {
  const state = query.state ?? "";
  const changed = filtered("/hired/contracts");
  await list(
    {
      path: "contracts",
      query: { state },
      name: "Contracts",
      heads: ["contract", "state", "came", "kept until", "by", "hash"],
      key: (/** @type {Contract} */ contract) => contract.contract_id,
      cells: (contract) => [
        nameOf(contract.contract_id),
        badge(contract.state),
        time(contract.stored_at_ms),
        time(contract.expires_at_ms),
        contract.source,
        id(contract.hash),
      ],
      none: () => (state ? empty("No contract matches", html`<a href=${link("/hired/contracts")}>Look at all contracts</a>.`)
        : empty("No contracts yet", html`A seeker registers one with <code>POST /contracts</code> at the worker door.`)),
    },
    (content) => show(html`<h1>Hired work</h1>${tabs("contracts")}
      <form class="filters" @submit=${changed} @change=${changed} aria-label="Filters">
        ${choice("State", "state", OF_CONTRACTS, state)}<button>Filter</button>
        <a href=${link("/hired/contracts")} ?hidden=${!state}>Clear</a>
      </form>
      <p class="hint">SIGNED: nobody has paid for it. NOT_KEPT: its task, if it had one, may be gone by now.</p>${content}`, "Contracts"),
    signal,
  );
}
