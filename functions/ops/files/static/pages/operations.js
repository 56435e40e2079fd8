// @ts-check
/** Operations: dead letters that are looked at and put back, what operators did, settings. */
import { get, part, post } from "../api.js";
import { can } from "../auth.js";
import { age, count, counted, form, id, time } from "../format.js";
import { inTurn } from "../parts/again.js";
import { ask, askReason } from "../parts/dialog.js";
import { afterwards, queueName } from "../parts/queues.js";
import { called, person } from "../parts/people.js";
import { badge, empty, facts, failure } from "../parts/show.js";
import { list, table } from "../parts/table.js";
import { toast } from "../parts/toast.js";
import { columns, sendAgain } from "../parts/webhooks.js";
import { html } from "../render.js";
import { link } from "../router.js";

export const title = "Operations";
const DAY_MS = 86_400_000;

/** @typedef {import("#ops").Status} Status */
/** @typedef {import("#ops").Letters} Letters */
/** @typedef {import("#ops").Records["items"][number]} Kept */
/** @typedef {import("#ops").Pauses["items"]} Pauses */
/** @typedef {{ status?: Status, pauses?: Pauses, records?: unknown, hooks?: unknown, letters?: Letters["letters"] | null, problem?: unknown }} Known */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  /** @type {Known} */
  const known = {};
  const draw = () => known.status && show(view(known, query.queue ?? "", Boolean(query.until_ms), look, redrive, pauseOrResume));
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
      intro: html`<p>Up to 10 go back into their queue, and are worked on again. What fails again is a dead letter again.</p><p>${afterwards(query.queue)}</p>`,
      verb: "Put back",
      act: async ({ reason }) => {
        const made = await post(`dead-letters/${part(query.queue)}/redrive`, { reason }, signal);
        const doubt = made.uncertain.length ? `; for ${made.uncertain.length} it is not known: look before you repeat it` : "";
        toast(`${made.put_back} of ${counted(made.taken, "dead letter")} ${form(made.put_back, "is", "are")} back in the queue${doubt}`, doubt ? "failed" : "done", { stays: true });
      },
    });
    if (done) await Promise.all([refresh(), look()]);
  };
  const pauseOrResume = async (/** @type {string} */ scope) => {
    if (await (scope ? resume(scope, signal) : pause(signal))) await refresh();
  };
  let lists = new AbortController(); // of those that are shown; what is still read for earlier ones is not shown any more
  const refresh = /** @type {() => Promise<unknown>} */ (inTurn(async () => {
    const [status, pauses] = await Promise.all([get("status", {}, signal), get("pauses", {}, signal)]);
    Object.assign(known, { status, pauses: pauses.items });
    draw();
    lists.abort();
    const shown = AbortSignal.any([signal, (lists = new AbortController()).signal]);
    if (status.doors.kernel) hooks((content) => ((known.hooks = content), draw()), refresh, signal, shown);
    records(query.until_ms ?? "", (content) => ((known.records = content), draw()), shown);
  }, signal));
  await refresh();
}

/** @param {AbortSignal} signal */
function pause(signal) {
  return ask({
    title: "Pause a door or an executor",
    intro: html`<p>It gets no new work within 5 seconds; what has begun goes on.</p>`,
    fields: [
      { name: "scope", label: "What", required: true, max: 80, hint: "door:runtime, door:worker, door:kernel, or executor: and its name" },
      { name: "reason", label: "Reason", type: "area", required: true, max: 500, hint: "It is recorded with your name." },
    ],
    verb: "Pause",
    isGrave: true,
    act: async ({ scope, reason }) => {
      const made = await post("pause", { scope: scope.trim(), reason }, signal);
      toast(made.is_new ? `${made.pause.scope} is paused` : `${made.pause.scope} was paused already, by ${called(made.pause.by)}; that pause holds`);
    },
  });
}

/** @param {string} scope @param {AbortSignal} signal */
function resume(scope, signal) {
  return askReason({
    title: `Give ${scope} work again`,
    verb: "Resume",
    act: async ({ reason }) => {
      const made = await post("resume", { scope, reason }, signal);
      toast(made.was_paused ? `${scope} gets work again` : `${scope} was not paused any more`);
    },
  });
}

/** What operators did, the newest first, or from a time backwards. @param {string} until a time in ms
 * @param {(content: unknown) => void} draw @param {AbortSignal} signal */
function records(until, draw, signal) {
  const listed = {
    path: "records",
    query: /^\d{1,15}$/.test(until) ? { until_ms: until, since_ms: Math.max(0, Number(until) - DAY_MS) } : {},
    name: "What operators did",
    heads: ["when", "who", "what", "of", "reason", "came of it"],
    key: (/** @type {Kept} */ record) => record.record_id,
    cells: (/** @type {Kept} */ record) => [
      time(record.at_ms),
      person(record.by),
      html`<code>${record.verb}</code>`,
      id(record.target),
      html`<span class="said">${record.reason}</span>`,
      record.outcome ? html`<code>${JSON.stringify(record.outcome)}</code>` : html`${badge("in doubt")} <span class="hint">nobody knows how far it came</span>`,
    ],
    none: () => empty("Nothing in the last 30 days", "What operators do here, or with bin/piecework ops, is kept for 400 days."),
  };
  return list(listed, draw, signal);
}

/** @param {(content: unknown) => void} draw @param {() => Promise<unknown>} then @param {AbortSignal} signal of the page, for what one does
 * @param {AbortSignal} shown as long as this list is the one that is shown */
function hooks(draw, then, signal, shown) {
  const resend = (/** @type {import("../parts/webhooks.js").Hook} */ hook) => sendAgain(hook, signal).then((done) => done && then());
  const none = () => empty("None in the last 8 days", html`A rule of the policy names whom to tell: <code>notify: webhook:NAME</code>.`);
  return list({ path: "kernel/webhooks", query: {}, name: "Webhooks about approvals", ...columns(resend), none }, draw, shown);
}

/** @param {Known} known @param {string} queue @param {boolean} isOlder @param {() => void} look @param {() => void} redrive
 * @param {(scope: string) => void} pauseOrResume without a scope it asks for one */
function view({ status, pauses, records, hooks, letters, problem }, queue, isOlder, look, redrive, pauseOrResume) {
  const { queues, settings, version } = /** @type {Status} */ (status);
  const rows = Object.entries(queues).map(([name, each]) => ({ name, ...each }));
  return html`
    <h1>Operations</h1>
    <section aria-labelledby="letters"><h2 id="letters">Dead letters</h2>
      ${rows.length ? table({
        name: "Queues",
        heads: ["queue", "dead letters", "oldest of them", "waiting", "oldest", "in flight", "delayed"],
        key: (row) => row.name,
        tone: (row) => (row.dead_letters ? "bad" : undefined),
        cells: (row) => [
          queueName(row.name, row.name === queue),
          count(row.dead_letters), age(row.oldest_dead_letter_age_seconds), count(row.waiting), age(row.oldest_age_seconds), count(row.in_flight), count(row.delayed),
        ],
      }, rows) : empty("No queues", "The runtime door alone needs none.")}
      ${queue && ofQueue(queue, letters, problem, look, redrive)}
    </section>
    <section aria-labelledby="pauses"><h2 id="pauses">Pauses of doors and executors</h2>${paused(pauses ?? [], pauseOrResume)}</section>
    ${hooks && html`<section aria-labelledby="hooks"><h2 id="hooks">Webhooks about approvals</h2>${hooks}</section>`}
    <section aria-labelledby="records"><h2 id="records">What operators did</h2>
      ${isOlder ? html`<p class="quiet">On the day before that time. <a href=${link("/operations")}>The newest</a></p>` : null}${records}</section>
    <details><summary>Settings of version ${version}</summary>${facts(Object.entries(settings))}</details>`;
}

/** @param {Pauses} pauses @param {(scope: string) => void} pauseOrResume */
function paused(pauses, pauseOrResume) {
  const mayWrite = can("operator");
  return html`${pauses.length ? table({
      name: "Pauses",
      heads: ["what", "since", "by", "reason", ...(mayWrite ? ["then"] : [])],
      key: (one) => one.scope,
      tone: () => "wait",
      cells: (one) => [
        html`<code>${one.scope}</code>`,
        time(one.since_ms),
        person(one.by),
        html`<span class="said">${one.reason}</span>`,
        ...(mayWrite ? [html`<button type="button" @click=${() => pauseOrResume(one.scope)}>Resume…</button>`] : []),
      ],
    }, pauses) : html`<p class="quiet">No door or executor is paused. Agents are paused one by one: see <a href=${link("/agents")}>Agents</a>.</p>`}
    ${mayWrite ? html`<p class="verbs"><button type="button" class="grave" @click=${() => pauseOrResume("")}>Pause…</button></p>` : null}`;
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
