// @ts-check
/** Sums of USDC on their networks: exact, never of two networks together. */
import { amount } from "../format.js";
import { html } from "../render.js";

const DECIMALS = 6;
const NAMES = /** @type {Record<string, string>} */ ({ "eip155:8453": "base", "eip155:84532": "base-sepolia (test coins)" });

/** A sum in USDC as a text, exact. @param {string} atomic */
export const inUsdc = (atomic) => `${amount(atomic, DECIMALS)} USDC`;

/** A sum in USDC, exact, with its atomic units on hover; null is not known. @param {string | null | undefined} atomic */
export const usdc = (atomic) =>
  atomic == null ? html`<span class="quiet" title="not known">?</span>` : html`<span class="sum" title=${`${atomic} atomic units`}>${inUsdc(atomic)}</span>`;

/** A network by its name, beside how x402 names it. @param {string} network */
export const networkName = (network) => (network ? `${NAMES[network] ?? "network"} ${network}` : "network not known");

/** The sums of each network, and how many had no amount. @param {{ network: string, atomic: string | null }[]} rows
 * @returns {{ sums: [string, string][], without: number }} */
export function sumsOf(rows) {
  /** @type {Map<string, bigint>} */
  const sums = new Map();
  const known = rows.filter(({ atomic }) => atomic != null && /^[0-9]{1,100}$/.test(atomic));
  for (const { network, atomic } of known) sums.set(network, (sums.get(network) ?? 0n) + BigInt(String(atomic)));
  return { sums: [...sums].map(([network, sum]) => [network, String(sum)]), without: rows.length - known.length };
}
