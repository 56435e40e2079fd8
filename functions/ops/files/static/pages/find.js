// @ts-check
/** Search by any id: the doors say what has it. If nothing has, the page says where it was looked for, and what cannot be searched. */
import { ApiError, get, part } from "../api.js";
import { exact, id } from "../format.js";
import { badge, empty, failure } from "../parts/show.js";
import { table } from "../parts/table.js";
import { html } from "../render.js";
import { go, link } from "../router.js";

export const title = "Search";
const LOOKS = 4; // that follow each other by themselves, each further back, while nothing is found

/** @typedef {import("#ops").Found["items"][number] | import("#ops").KernelFound["items"][number]} Item */
/** @typedef {import("#ops").Found["looked"][number] | import("#ops").KernelFound["looked"][number]} Looked */
/** @typedef {{ name: string, items: Item[], looked: Looked[], error: ApiError | null }} Answer of one door */

/** Where each kind is shown. @type {Record<Item["kind"], (item: Item) => string>} */
const ADDRESSES = {
  execution: (item) => link(`/executions/${part(item.id)}`),
  step: (item) => link(`/executions/${part(item.of ?? "")}`, { step: item.id }),
  approval: (item) => link(`/inbox/${part(item.of ?? "")}/${part(item.id)}`),
  agent: (item) => (item.by === "agent_id" ? link("/agents", { agent: item.id }) : link("/executions", { agent_id: item.id })),
  runner: (item) => link("/agents", { show: "runners", runner: item.id }),
  piece: (item) => link(`/pieces/${part(item.id)}`),
  task: (item) => link(`/hired/${part(item.id)}`),
  contract: (item) => link(`/hired/${part(item.id)}`),
  webhook: (item) => link(`/hired/${part(item.of ?? "")}`),
  record: (item) => link("/operations", { until_ms: Number(item.at_ms) + 1 }),
};
const NAMES = /** @type {Record<Item["kind"], string>} */ ({ execution: "Execution", step: "Step", approval: "Approval", agent: "Agent", runner: "Runner",
  piece: "Piece", task: "Hired task", contract: "Contract", webhook: "Webhook", record: "Record of what an operator did" });
const BY = /** @type {Record<Item["by"], string>} */ ({ key: "its key", task_id: "the task's id", execution_id: "the execution's id", attempt_id: "the attempt's id",
  contract_id: "the contract's id", nonce: "the payment's nonce", transaction: "a transaction of the payment", payer: "the wallet that pays", event_id: "the event's id",
  hash: "the contract's hash", record_id: "its id", agent_id: "its id", runner_id: "its id", step_id: "the step's id", notice_id: "the id of a notice about it", execution: "an execution that names it" });

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const text = (query.q ?? "").trim();
  if (!text) return show(html`<h1>Search</h1>${empty("Nothing to look for", html`Type an id above; <kbd>/</kbd> goes there.`)}`);
  let answers = /** @type {Answer[]} */ ([]);
  let isBusy = true;
  const draw = () => show(view(text, answers, isBusy, further));
  async function look(until = /** @type {number | null} */ (null)) {
    isBusy = true;
    draw();
    for (let looks = 0; looks < LOOKS; looks += 1) {
      answers = await Promise.all([asked("find", text, until, signal), asked("kernel/find", text, until, signal)]);
      if (signal.aborted) return;
      const next = reached(answers);
      if (itemsOf(answers).length || next === null) break;
      until = until !== null && next >= until ? until - 1 : next;
      draw();
    }
    isBusy = false;
    const [found, ...others] = itemsOf(answers);
    if (found && !others.length && found.is_whole && found.kind !== "record" && !answers.some(isBroken)) return go(ADDRESSES[found.kind](found), { replace: true });
    draw();
  }
  const further = () => look(reached(answers));
  await look();
}

/** @param {string} path @param {string} text @param {number | null} until @param {AbortSignal} signal @returns {Promise<Answer>} */
async function asked(path, text, until, signal) {
  const name = path === "find" ? "the runtime and the worker door" : "the kernel door";
  try {
    return { name, error: null, ...(await get(path, { id: text, until_ms: until }, signal)) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { name, items: [], looked: [], error };
  }
}

/** @param {Answer[]} answers */
const itemsOf = (answers) => answers.flatMap(({ items }) => items).filter(({ kind }) => Object.hasOwn(ADDRESSES, kind)); // a newer door may know more kinds
/** Whether a door that is there, and may be asked, has not answered. @param {Pick<Answer, "error">} answer */
const isBroken = ({ error }) => error !== null && ![403, 404].includes(error.status);

/** The time from which lists would have to be looked through next, the newest of all; null where nothing is left. @param {Answer[]} answers */
function reached(answers) {
  const times = answers.flatMap(({ looked }) => looked.map(({ since_ms }) => since_ms)).filter((since) => since !== null);
  return times.length ? Math.max(...times) : null;
}

/** @param {string} text @param {Answer[]} answers @param {boolean} isBusy @param {() => unknown} further */
function view(text, answers, isBusy, further) {
  const items = itemsOf(answers);
  const since = reached(answers);
  return html`<h1>Search</h1>
    <p>For ${id(text)}</p>
    ${answers.filter(isBroken).map(({ name, error }) => html`<p class="quiet">From ${name}:</p>${failure(error)}`)}
    ${items.length ? table({
      name: "What has this id",
      heads: ["what", "id", "of", "found by"],
      key: (item) => `${item.kind}/${item.id}/${item.of}`,
      cells: (item) => [badge(NAMES[item.kind]), html`<a href=${ADDRESSES[item.kind](item)}>${id(item.id)}</a>`, id(item.of), item.is_whole ? BY[item.by] : html`the beginning of ${BY[item.by]}: lists keep 77 bytes of a long id`],
    }, items) : null}
    <p aria-live="polite">${isBusy ? `Looking${since === null ? "" : `, back to ${exact(since)} so far`}…` : null}</p>
    ${items.length || isBusy ? null : nothing(text, answers, since, further)}`;
}

/** @param {string} text @param {Answer[]} answers @param {number | null} since @param {() => unknown} further */
function nothing(text, answers, since, further) {
  const looked = answers.flatMap((answer) => answer.looked);
  return html`
    ${empty("Nothing that was looked at has this id", since === null ? "It may have expired, or be of a kind that cannot be searched." : html`Something older may have it.
      <button type="button" @click=${further}>Look further back</button>`)}
    ${looked.length ? html`<section aria-labelledby="looked"><h2 id="looked">What was looked at</h2>${table({
      name: "Kinds that were looked at",
      heads: ["what", "by", "how far back"],
      key: (one) => `${one.kind}/${one.by}`,
      cells: (one) => [NAMES[one.kind], BY[one.by], one.since_ms === null ? "all that is kept" : html`to <code>${exact(one.since_ms)}</code>`],
    }, looked)}</section>` : null}
    ${answers.map(({ name, error }) => error && !isBroken({ error })
      ? html`<p class="quiet">Not at ${name}: ${error.status === 404 ? "it is not deployed." : "your roles do not cover it."}</p>` : null)}
    <section aria-labelledby="not"><h2 id="not">What cannot be searched here</h2>
      <ul>
        <li>Verdicts are lines of a log. Filter them: <a href=${link("/verdicts", { candidate_id: text })}>by this candidate</a>,
          <a href=${link("/verdicts", { execution_id: text })}>by this execution</a>, <a href=${link("/verdicts", { output_digest: text })}>by this output's digest</a>.</li>
        <li>Tools and labels are not ids: look at the <a href=${link("/agents", { show: "tools", prefix: text })}>tools of this name</a>, or filter
          <a href=${link("/executions")}>executions</a> by a label.</li>
        <li>Dead letters: SQS gives none by its id. <a href=${link("/operations")}>Look at some</a>.</li>
        <li>Evidence by its digest, and events of a log: nothing that is stored leads from their ids to them.</li>
        <li>Ids of sessions: they are credentials.</li>
        <li>A transaction by which money came under a payment that had been given up: it is in the <a href=${link("/hired/money")}>money of its day</a>.</li>
      </ul></section>`;
}
