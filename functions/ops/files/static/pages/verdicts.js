// @ts-check
/** Recent verdicts of POST /verify: how many of each status and reason in a stretch of time, and which. A page is an address. */
import { get } from "../api.js";
import { exact, id, time } from "../format.js";
import { overTime } from "../parts/histogram.js";
import { badge, empty } from "../parts/show.js";
import { table } from "../parts/table.js";
import { html } from "../render.js";
import { link } from "../router.js";
import { choice, filtered } from "./hired.js";
import { tabs } from "./pieces.js";

export const title = "Verdicts";
const STATUSES = ["passed", "failed", "inconclusive"];
const TEXTS = ["reason", "policy_id", "candidate_id", "execution_id", "caller", "output_digest"];
const LABELS = /** @type {Record<string, string>} */ ({ policy_id: "Policy", candidate_id: "Candidate", execution_id: "Execution", output_digest: "Output's digest", reason: "Reason", caller: "Caller" });
const MEANS = /** @type {Record<string, string>} */ ({
  0: "no reason", 100: "the output fits its schema", 101: "the output does not fit its schema", 102: "less confidence than wanted", 103: "larger than allowed",
  104: "no summary of the check", 105: "a lower score than wanted, or it contradicts its peers", 200: "evidence could not be had", 201: "evidence took too long", 202: "evidence was refused (401, 403)",
  203: "the evidence's bytes are not those that were named", 999: "a rule of the policy's own",
});

/** @typedef {import("#ops").Verdicts} Verdicts */
/** @typedef {Verdicts["items"][number]} Verdict */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const asked = Object.fromEntries(["status", ...TEXTS].map((name) => [name, query[name] ?? ""]));
  const page = /** @type {Verdicts} */ (await get("verdicts", { ...asked, cursor: query.cursor, limit: 50 }, signal));
  show(view(page, asked, query.cursor ?? ""));
}

/** What a piece's page lists. @param {string} path @returns {import("../parts/table.js").Listed<Verdict>} */
export const verdictsIn = (path) => ({
  path,
  query: {},
  mostEmpty: 1, // each page asks a log, which takes few questions a second
  ...OF_TABLE,
  none: () => empty("No verdicts", "Nobody has asked POST /verify about it since, or the log no longer keeps the lines."),
});

const OF_TABLE = {
  name: "Verdicts",
  heads: ["when", "verdict", "reasons", "score", "policy", "candidate", "execution", "caller", "output's digest"],
  key: (/** @type {Verdict} */ verdict) => `${verdict.at_ms}/${verdict.candidate_id}/${verdict.verifier_result_hash}`,
  cells: (/** @type {Verdict} */ verdict) => [
    time(verdict.at_ms),
    badge(verdict.verification_status),
    verdict.reason_codes.map((code) => html`<span title=${MEANS[code] ?? "a policy's own"}>${code}</span> `),
    verdict.score == null ? "–" : String(verdict.score),
    html`${id(verdict.policy_id)} ${verdict.policy_hash_rule ? html`<span class="hint">${verdict.policy_hash_rule}</span>` : null}`,
    id(verdict.candidate_id), id(verdict.execution_id), verdict.caller ?? "–", id(verdict.output_digest),
  ],
};

/** @param {Verdicts} page @param {Record<string, string>} asked @param {string} cursor */
function view(page, asked, cursor) {
  const { items, next, window, counts, reasons, is_logged } = page;
  const newest = link("/verdicts", asked);
  return html`<h1>Pieces</h1>${tabs("verdicts")}${filters(asked)}
    ${is_logged ? null : html`<p class="failed">Verdicts are not written to the log at this <code>LogLevel</code>: nothing new can be listed.</p>`}
    <section aria-labelledby="counts"><h2 id="counts">In this stretch of time</h2>
      <p class="quiet">${exact(window.since_ms)} to ${exact(window.until_ms)}. ${window.is_whole ? null : html`<strong>One moment of it held more than could be read.</strong>`}</p>
      <p>${STATUSES.map((status) => html`<a href=${link("/verdicts", { ...asked, status })}>${badge(status)}</a> ${counts[/** @type {"passed"} */ (status)]} `)}</p>
      ${items.length ? overTime({ name: "Verdicts by time", from: window.since_ms, to: window.until_ms,
        came: items.map(({ at_ms, verification_status }) => ({ ms: at_ms, state: verification_status })) }) : null}
      ${byReason(reasons, asked)}</section>
    <section aria-labelledby="which"><h2 id="which">Which</h2>
      ${items.length ? table(OF_TABLE, items) : none(next, asked)}
      <p class="verbs">${cursor ? html`<a href=${newest}>The newest</a>` : null} ${next ? html`<a href=${link("/verdicts", { ...asked, cursor: next })}>Older ones</a>` : null}</p>
    </section>`;
}

/** @param {Record<string, number>} reasons @param {Record<string, string>} asked */
function byReason(reasons, asked) {
  const rows = Object.entries(reasons).sort(([, one], [, other]) => other - one);
  if (!rows.length) return null;
  return table({
    name: "Reasons",
    heads: ["reason", "what it means", "verdicts"],
    key: ([code]) => code,
    cells: ([code, many]) => [html`<a href=${link("/verdicts", { ...asked, reason: code })}>${code}</a>`, MEANS[code] ?? "a policy's own", String(many)],
  }, rows);
}

/** @param {string | null} next @param {Record<string, string>} asked */
function none(next, asked) {
  if (next) return empty("None in this stretch of time", "The door reads a bounded part of the log at once. Go on to older ones.");
  if (Object.values(asked).some(Boolean)) return empty("No verdict matches", html`<a href=${link("/verdicts")}>Look at all verdicts</a>.`);
  return empty("No verdicts yet", html`They are given by <code>POST /verify</code>, and can be listed some seconds later.`);
}

/** @param {Record<string, string>} asked */
function filters(asked) {
  const changed = filtered("/verdicts");
  return html`<form class="filters" @submit=${changed} @change=${changed} aria-label="Filters">
    ${choice("Status", "status", STATUSES, asked.status)}
    ${TEXTS.map((name) => html`<label>${LABELS[name]} <input name=${name} value=${asked[name]}></label>`)}
    <button>Filter</button>
    <a href=${link("/verdicts")} ?hidden=${!Object.values(asked).some(Boolean)}>Clear</a>
  </form>`;
}
