// @ts-check
/** Operations: dead letters that are looked at and put back, what operators did, settings. */
import { get, part, post } from "../api.js";
import { can } from "../auth.js";
import { count, id, time } from "../format.js";
import { askReason } from "../parts/dialog.js";
import { badge, empty, facts, failure } from "../parts/show.js";
import { list, table } from "../parts/table.js";
import { toast } from "../parts/toast.js";
import { html } from "../render.js";
import { link } from "../router.js";

export const title = "Operations";

/** @typedef {import("#ops").Status} Status */
/** @typedef {import("#ops").Letters} Letters */
/** @typedef {import("#ops").Records["items"][number]} Kept */
/** @typedef {{ status?: Status, records?: unknown, letters?: Letters["letters"] | null, problem?: unknown }} Known */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  /** @type {Known} */
  const known = {};
  const draw = () => known.status && show(view(known, query.queue ?? "", look, redrive));
  const look = async () => {
    try {
      const found = /** @type {Letters} */ (await post(`dead-letters/${part(query.queue)}/look`, {}, signal));
      known.letters = found.letters;
      known.problem = null;
    } catch (error) {
      known.problem = error;
    }
    draw();
  };
  const redrive = async () => {
    const done = await askReason({
      title: `Put dead letters of ${query.queue} back`,
      intro: html`<p>Up to 10 go back into their queue, and are worked on again. What fails again is a dead letter again.</p>`,
      verb: "Put back",
      act: async ({ reason }) => {
        const made = await post(`dead-letters/${part(query.queue)}/redrive`, { reason }, signal);
        const doubt = made.uncertain.length ? `; of ${made.uncertain.length} it is not known: look before you repeat it` : "";
        toast(`${made.put_back} of ${made.taken} are back in their queue${doubt}`, doubt ? "failed" : "done");
      },
    });
    if (done) await Promise.all([refresh(), look()]);
  };
  const refresh = async () => {
    known.status = await get("status", {}, signal);
    draw();
    await records((content) => ((known.records = content), draw()), signal);
  };
  await refresh();
}

/** @param {(content: unknown) => void} draw @param {AbortSignal} signal */
function records(draw, signal) {
  const listed = {
    path: "records",
    query: {},
    name: "What operators did",
    heads: ["when", "who", "what", "of", "reason", "came of it"],
    key: (/** @type {Kept} */ record) => record.record_id,
    cells: (/** @type {Kept} */ record) => [
      time(record.at_ms),
      record.by || "–",
      html`<code>${record.verb}</code>`,
      id(record.target),
      html`<span class="said">${record.reason}</span>`,
      record.outcome ? html`<code>${JSON.stringify(record.outcome)}</code>` : html`${badge("in doubt")} <span class="hint">nobody knows how far it came</span>`,
    ],
    none: () => empty("Nothing in the last 30 days", "What operators do here, or with bin/piecework ops, is kept for 400 days."),
  };
  return list(listed, draw, signal);
}

/** @param {Known} known @param {string} queue @param {() => void} look @param {() => void} redrive */
function view({ status, records, letters, problem }, queue, look, redrive) {
  const { queues, settings, version } = /** @type {Status} */ (status);
  const rows = Object.entries(queues).map(([name, each]) => ({ name, ...each }));
  return html`
    <h1>Operations</h1>
    <section aria-labelledby="letters"><h2 id="letters">Dead letters</h2>
      ${rows.length ? table({
        name: "Queues",
        heads: ["queue", "dead letters", "wait", "in flight", "delayed"],
        key: (row) => row.name,
        tone: (row) => (row.dead_letters ? "bad" : undefined),
        cells: (row) => [
          html`<a href=${link("/operations", { queue: row.name })} aria-current=${row.name === queue ? "true" : null}>${row.name}</a>`,
          ...[row.dead_letters, row.waiting, row.in_flight, row.delayed].map(count),
        ],
      }, rows) : empty("No queues", "The runtime door alone needs none.")}
      ${queue && ofQueue(queue, letters, problem, look, redrive)}
    </section>
    <section aria-labelledby="records"><h2 id="records">What operators did</h2>${records}</section>
    <details><summary>Settings of version ${version}</summary>${facts(Object.entries(settings))}</details>`;
}

/** @param {string} queue @param {Letters["letters"] | null | undefined} letters @param {unknown} problem @param {() => void} look
 * @param {() => void} redrive */
function ofQueue(queue, letters, problem, look, redrive) {
  if (!can("operator")) return html`<p class="quiet">An operator can look at the letters of ${queue} and put them back.</p>`;
  return html`<h3>${queue}</h3>
    <p class="verbs">
      <button type="button" @click=${look}>Look at some</button>
      <button type="button" class="grave" @click=${redrive}>Put back…</button>
    </p>
    ${problem ? failure(problem, look) : null}
    ${letters && (letters.length ? table({
      name: `Dead letters of ${queue}`,
      heads: ["message", "sent", "receives", "body"],
      key: (letter) => letter.message_id,
      cells: (letter) => [id(letter.message_id), time(letter.sent_at_ms), count(letter.receives), html`<pre class="said">${letter.body}</pre>`],
    }, letters) : empty("No dead letters", "SQS may show none for a moment although there are some: look again."))}`;
}
