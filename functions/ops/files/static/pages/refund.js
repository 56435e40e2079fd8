// @ts-check
/**
 * Money that is owed back: its table, and the word that it was paid. The transfer is asked for first, then what the chain says of it
 * is shown; the word carries the evidence's name, so the door refuses it where something else holds by now.
 */
import { ApiError, part, post } from "../api.js";
import { can } from "../auth.js";
import { id, time } from "../format.js";
import { ask } from "../parts/dialog.js";
import { networkName, usdc } from "../parts/money.js";
import { facts } from "../parts/show.js";
import { table } from "../parts/table.js";
import { toast } from "../parts/toast.js";
import { html } from "../render.js";

/** @typedef {import("#ops").Task["debts"][number]} Debt */
/** @typedef {import("#ops").RefundSeen} Seen */
/** @typedef {Pick<Debt, "refund"> & { debt: string | null }} Owed */

/** Whether and how a debt was paid back, with the button that says so; nothing for what is not owed back.
 * @param {Owed} debt @param {() => void} pay */
export function paidBack({ debt, refund }, pay) {
  if (refund) return html`<span class="said good">paid back</span> ${time(refund.at_ms)} <span class="hint">${refund.operator || "an operator"}: ${refund.reason}${refund.by === "override" ? " (not shown by the chain)" : null}</span> ${id(refund.transaction)}`;
  if (!debt) return html`<span class="quiet">–</span>`;
  return html`<span class="said bad">owed</span> ${can("operator") ? html`<button type="button" @click=${pay}>It was paid back…</button>` : null}`;
}

/** What a task owes back, or did. @param {Debt[]} debts @param {(debt: Debt) => void} pay */
export const debtsOf = (debts, pay) => table({
  name: "Debts",
  heads: ["since", "amount", "network", "to", "payment", "paid back"],
  key: (row) => row.debt,
  cells: (row) => [time(row.at_ms), usdc(row.atomic), networkName(row.network), id(row.wallet), id(row.transaction || null), paidBack(row, () => pay(row))],
}, debts);

/** Ask which transaction paid a debt back, show what the chain says, and say it; `then` follows whatever came of it.
 * @param {string} contract @param {string} debt @param {AbortSignal} signal @param {() => Promise<unknown>} then */
export async function payBack(contract, debt, signal, then) {
  const path = `tasks/${part(contract)}/payment/refunded`;
  let seen = /** @type {Seen | null} */ (null);
  await ask({
    title: "Which transaction paid it back?",
    intro: html`<p>The worker pays nothing out. Name the transfer that you made: it must move the whole amount, in one transaction. The chain is asked, and nothing is said yet.</p>`,
    fields: [{ name: "transaction", label: "Transaction of the transfer back", required: true, max: 66, hint: "0x and 64 hex digits." }],
    verb: "Ask the chain what it says",
    act: async ({ transaction }) => {
      const found = /** @type {Seen} */ (await post(`${path}/evidence`, { debt, transaction: transaction.trim() }, signal));
      if (!found.is_shown && !found.can_be_overridden) throw new Error(`This transaction does not pay it back: ${found.chain.why}`);
      seen = found;
    },
  });
  if (seen) await ask(question(path, seen, signal));
  await then();
}

/** @param {string} path @param {Seen} seen @param {AbortSignal} signal @returns {import("../parts/dialog.js").Question} */
function question(path, seen, signal) {
  const { chain, is_shown } = seen;
  const override = { name: "override", label: "The contract's id once more", required: true, max: 64, hint: "The chain does not show that it was paid back. It will be kept that you said so all the same." };
  return {
    title: "It was paid back?",
    about: seen.debt,
    intro: html`<p>${is_shown ? html`<strong class="said good">✓ The chain shows it: ${chain.why}.</strong>` : html`<strong class="said bad">✗ The chain does not show it: ${chain.why}.</strong>`}
        The debt is then settled, and this transaction counts for no other. This cannot be taken back.</p>
      ${facts([
        ["contract", id(seen.contract_id)],
        ["owed", html`${usdc(seen.atomic)} (${seen.atomic} atomic units) on ${networkName(seen.network)}`],
        ["to", id(seen.wallet)],
        ["transaction", id(seen.transaction)],
        ["moved", chain.atomic == null ? "not known" : html`${usdc(chain.atomic)} (${chain.atomic} atomic units)`],
        ["sent by", chain.from?.length ? chain.from.map((wallet) => html`${id(wallet)} `) : "not known"],
        ["block", chain.block == null ? "not known" : `${chain.block}; the payment's: ${chain.payments_block ?? "not known"}`],
        ["the payment", id(seen.paid_by || null)],
        ["evidence", id(seen.evidence)],
      ])}`,
    fields: [
      { name: "reason", label: "Reason", type: "area", required: true, max: 500, hint: "It is kept with the refund, with your name." },
      ...(is_shown ? [] : [override]),
    ],
    verb: "It was paid back",
    isGrave: !is_shown,
    act: async (values) => {
      const body = { debt: seen.debt, transaction: seen.transaction, evidence: seen.evidence, reason: values.reason, ...(values.override && { override: values.override.trim() }) };
      try {
        await post(path, body, signal);
        toast("It is paid back", "done", { stays: true });
      } catch (error) {
        if (!(error instanceof ApiError) || error.status === 400) throw error;
        const isKnown = error.status > 0 && error.status < 500;
        throw new Error(isKnown ? `Nothing was said by you: ${error.message}` : `It is not known whether this was said (${error.message}). Close this, and look at the debt as it stands.`);
      }
    },
  };
}
