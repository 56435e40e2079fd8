// @ts-check
/**
 * A payment in doubt: the chain's evidence is asked for first and shown whole; then a person decides, upon that evidence alone.
 * The decision carries the evidence's name, so the door refuses it where something else holds by now.
 */
import { ApiError, post } from "../api.js";
import { can } from "../auth.js";
import { count, id, time } from "../format.js";
import { ask } from "../parts/dialog.js";
import { usdc } from "../parts/money.js";
import { badge, copy, empty, facts, failure, json } from "../parts/show.js";
import { toast } from "../parts/toast.js";
import { html } from "../render.js";

/** @typedef {import("#ops").Task} Task */
/** @typedef {import("#ops").Doubt} Doubt */
/** @typedef {"paid" | "not_paid"} Answer */
/** @typedef {{ draw: () => void, look: () => Promise<unknown>, signal: AbortSignal }} Around */

const SAYS = { paid: "It was paid", not_paid: "It was not paid" };

/** The section of a task's page. @param {string} path of the task @param {Around} around */
export function doubts(path, { draw, look, signal }) {
  let found = /** @type {Doubt | null} */ (null);
  let [seenAt, of, isBusy] = [0, "", false];
  let [problem, news] = /** @type {[unknown, string]} */ ([null, ""]);
  let task = /** @type {Task | null} */ (null);

  const fetchIt = async () => {
    (isBusy = true), (problem = null), (news = ""), draw();
    try {
      found = /** @type {Doubt} */ (await post(`${path}/payment/evidence`, {}, signal));
      [seenAt, of] = [Date.now(), standing(task)];
    } catch (error) {
      (found = null), (problem = error);
      if (error instanceof ApiError && error.status === 409) await look().catch(() => null); // it is not in doubt any more
    }
    isBusy = false;
    draw();
  };

  /** @param {Answer} answer */
  const decide = async (answer) => {
    if (!found) return;
    const seen = found;
    await ask({ ...question(seen, answer), act: (values) => send(seen, answer, values) });
    await look().catch(() => null);
  };

  /** @param {Doubt} seen @param {Answer} answer @param {Record<string, string>} values */
  const send = async (seen, answer, { reason, transaction, override }) => {
    const body = { decision: answer, evidence: seen.evidence, reason, ...(answer === "paid" && { transaction: transaction.trim() }), ...(override && { override: override.trim() }) };
    try {
      const done = await post(`${path}/payment/resolve`, body, signal);
      toast(`The payment is ${done.payment}, the task ${done.state}`, "done", { stays: true });
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status > 0 && error.status < 500 && error.status !== 409)) throw error; // to be mended in the dialog
      news = error.status === 409 ? `Nothing was decided by you: ${error.message}`
        : `It is not known whether the decision was made (${error.message}). The task is shown as it stands now; look at the evidence before you decide again.`;
    }
    found = null;
  };

  return {
    /** @param {Task} standingNow */
    shown(standingNow) {
      task = standingNow;
      const isMoved = found !== null && of !== standing(task);
      const notice = news ? html`<p class="failed" role="alert">${news}</p>` : null;
      if (!task.is_in_doubt) return problem || news ? html`<section class="evidence" aria-label="Payment in doubt">${notice}${problem ? failure(problem) : null}</section>` : null;
      return html`<section class="evidence" aria-labelledby="doubt"><h2 id="doubt">This payment is in doubt</h2>
        <p>${task.payment === "unresolved"
          ? "The worker has given up: its authorization is over, and nobody could tell whether it was taken. The result is withheld until an operator decides."
          : html`The worker looks again by itself ${time(task.next_look_at_ms)}. Nobody needs to decide yet.`}</p>
        ${notice}
        ${can("operator") ? html`<p class="verbs"><button type="button" ?disabled=${isBusy} @click=${fetchIt}>${isBusy ? "Asking…" : found ? "Ask the chain again" : "Ask the chain what it says"}</button></p>`
          : html`<p class="quiet">An operator can ask the chain, and decide.</p>`}
        ${problem ? failure(problem, fetchIt) : null}
        ${isMoved ? html`<p class="failed" role="alert">The task has moved on since this was read. Ask the chain again before you decide.</p>` : null}
        ${found ? evidence(found, seenAt, isMoved ? null : decide) : null}
      </section>`;
    },
  };
}

/** @param {Task | null} task */
const standing = (task) => `${task?.state}/${task?.payment}/${task?.looks}/${task?.moves.length}`;

/** @param {Doubt} doubt @param {number} at @param {((answer: Answer) => void) | null} decide */
function evidence(doubt, at, decide) {
  const { chain, answers } = doubt;
  return html`
    <h3>What the chain says, seen ${time(at)}</h3>
    ${chain.stale ? html`<p class="said bad"><strong>The chain was read too far back: ${chain.stale}. What is missing there proves nothing.</strong></p>` : null}
    ${facts([
      ["nonce", html`<strong>${chain.nonce}</strong>`],
      ["paid by", chain.paid_by ? html`${id(chain.paid_by)} ${copy(chain.paid_by, "the transaction")}` : "no transaction that it shows"],
      ["failed", chain.failed?.length ? chain.failed.map((hash) => html`${id(hash)} `) : "none"],
      ["block", chain.block == null ? html`<span class="quiet">not read</span>` : `${chain.block}`],
      ["block's time", chain.block_time ?? "–"],
      ["behind", chain.seconds_behind == null ? "–" : `${chain.seconds_behind} s`],
      ["facilitator", chain.facilitator ?? "not asked"],
      ["by itself", html`the worker would decide <code>${chain.decision}</code> ${chain.why}`],
    ])}
    <h3>The payment</h3>
    ${identity(doubt)}
    <details><summary>All of the evidence as JSON</summary>${json(doubt, "the evidence")}</details>
    <h3>What each answer does</h3>
    ${/** @type {Answer[]} */ (["paid", "not_paid"]).map((answer) => html`<p>${badge(SAYS[answer])} leads to ${badge(answers[answer].leads_to)}: ${answers[answer].then}.
      ${shownBy(answers[answer].is_shown)}</p>`)}
    ${doubt.can_be_decided
      ? html`<p class="verbs">${decide && /** @type {Answer[]} */ (["paid", "not_paid"]).map((answer) => html`<button type="button" class=${answers[answer].is_shown ? "main" : "grave"}
          @click=${() => decide(answer)}>${SAYS[answer]}…</button>`)}</p>`
      : empty("There is nothing to decide yet", "The worker still looks by itself.")}`;
}

/** @param {boolean} isShown */
const shownBy = (isShown) =>
  isShown ? html`<strong class="said good">✓ The chain shows it.</strong>` : html`<strong class="said bad">✗ The chain does not show it.</strong>`;

/** What identifies the payment, whole. @param {Doubt} doubt */
function identity(doubt) {
  return facts([
    ["contract", html`${id(doubt.contract_id)} ${copy(doubt.contract_id, "the contract's id")}`],
    ["price", html`${usdc(doubt.atomic)}, ${doubt.price}, ${doubt.atomic} atomic units`],
    ["payer", html`${id(doubt.payer)} ${copy(doubt.payer, "the payer")}`],
    ["pay to", html`${id(doubt.pay_to)} ${copy(doubt.pay_to, "the wallet")}`],
    ["nonce", html`${id(doubt.nonce)} ${copy(doubt.nonce, "the nonce")}`],
    ["valid until", doubt.valid_before],
    ["made", doubt.created_at],
    ["claim", doubt.claim],
    ["settle calls", count(doubt.settle_calls)],
    ["refused before", count(doubt.refused_payments)],
    ["transactions named", doubt.transactions_named.length ? doubt.transactions_named.map((hash) => html`${id(hash)} `) : "none"],
    ["evidence", html`${id(doubt.evidence)}`],
  ]);
}

/** @param {Doubt} doubt @param {Answer} answer @returns {import("../parts/dialog.js").Question} */
function question(doubt, answer) {
  const { is_shown, leads_to, then } = doubt.answers[answer];
  const transaction = { name: "transaction", label: "Transaction that paid", required: true, max: 66, value: doubt.chain.paid_by ?? "", hint: "0x and 64 hex digits." };
  const override = { name: "override", label: "The contract's id once more", required: true, max: 64, hint: "The chain does not show what you say. The record will say that you decided all the same." };
  return {
    title: `${SAYS[answer]}?`,
    intro: html`<p>The task goes to ${badge(leads_to)}, and <strong>${then}</strong>. This cannot be taken back. ${shownBy(is_shown)}</p>
      ${facts([
        ["contract", id(doubt.contract_id)],
        ["amount", html`${usdc(doubt.atomic)} (${doubt.atomic} atomic units), ${doubt.price}`],
        ["from", id(doubt.payer)],
        ["to", id(doubt.pay_to)],
        ["nonce", id(doubt.nonce)],
      ])}`,
    fields: [
      ...(answer === "paid" ? [transaction] : []),
      { name: "reason", label: "Reason", type: "area", required: true, max: 500, hint: "It is kept with the payment, with your name." },
      ...(is_shown ? [] : [override]),
    ],
    verb: SAYS[answer],
    isGrave: !is_shown,
  };
}
