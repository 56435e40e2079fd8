// @ts-check
/** A call as one decides on it: each value of its arguments exactly, what is invisible made visible, what is left out said. */
import { html } from "../render.js";
import { visible } from "../text.js";
import { json } from "./show.js";

/** @typedef {import("#ops").KernelApproval["arguments"]} Arguments */

const DEEPEST = 5; // tables within tables
const MOST_ROWS = 500; // of all tables of a call
const LONG = /\d{16}|\de[+-]?\d/i; // more digits than JavaScript keeps, or an exponent

/** The name of a tool, an agent or a rule, as one word that nothing around it can change. @param {unknown} text */
export const name = (text) => (text == null ? html`<span class="quiet">–</span>` : html`<bdi class="id"><code>${visible(text)}</code></bdi>`);

/** Whether a person sees all of the arguments. @param {Arguments} found */
export const isWhole = (found) => found.shown === "whole" || found.shown === "none";

/** A call's arguments; what is not shown is said in words. @param {Arguments} found */
export function callArguments(found) {
  if (found.shown === "none") return html`<p class="quiet">The call has no arguments.</p>`;
  if (found.shown === "private") return html`<p class="said quiet">Private: the policy shows these arguments to approvers alone.</p>`;
  if (found.shown === "unknown") return html`<p class="said quiet">Kept by an earlier release: open the approval to see them.</p>`;
  if (found.shown === "whole") return wholeArguments(found.value);
  const text = String(found.text);
  return html`<p class="said warned"><strong>Shortened:</strong> the first ${text.length} of ${found.length} characters. Do not decide on a part.</p>
    <pre class="cut" tabindex="0">${visible(text)}…</pre>`;
}

/** Whether this browser rounds a number of some JSON: browsers of before 2025 do not tell a page how it is written. @param {string} text */
export const isRounded = (text) => !("rawJSON" in JSON) && LONG.test(text);

/** All of a call's arguments. @param {unknown} value */
export function wholeArguments(value) {
  const rows = countOf(value, 0);
  const note = isRounded(JSON.stringify(value) ?? "") && html`<p class="said warned"><strong>This browser rounds long numbers:</strong> use a newer one to decide on them.</p>`;
  if (rows === 0 || rows > MOST_ROWS) return html`${note}${json(value, "the arguments")}`;
  return html`${note}<div class="scroll arguments" tabindex="0" role="region" aria-label="Arguments">${tableOf(value)}</div>`;
}

/** @param {unknown} value @returns {unknown} */
function tableOf(value) {
  return html`<table><tbody>${Object.entries(/** @type {object} */ (value)).map(
    ([key, inner]) => html`<tr><th scope="row"><bdi>${visible(key)}</bdi></th><td>${valueOf(inner)}</td></tr>`,
  )}</tbody></table>`;
}

/** @param {unknown} value */
function valueOf(value) {
  if (typeof value === "string") return html`<bdi class="text" data-kind="text">${visible(value)}</bdi>`;
  if (isBranch(value)) return tableOf(value);
  return html`<code>${visible(JSON.stringify(value))}</code>`;
}

/** @param {unknown} value */
function isBranch(value) {
  return typeof value === "object" && value !== null && !isNumber(value) && Object.keys(value).length > 0;
}

/** A number that stands as it is written. @param {unknown} value */
const isNumber = (value) => /** @type {any} */ (JSON).isRawJSON?.(value) ?? false;

/** How many rows the tables of a value have; more than all where it is too deep. @param {unknown} value @param {number} depth @returns {number} */
function countOf(value, depth) {
  if (!isBranch(value)) return 0;
  if (depth === DEEPEST) return MOST_ROWS + 1;
  return Object.values(/** @type {object} */ (value)).reduce((/** @type {number} */ sum, inner) => sum + 1 + countOf(inner, depth + 1), 0);
}
