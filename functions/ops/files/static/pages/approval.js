// @ts-check
/** One approval: all that is asked, whole; the answer, and how the execution goes on. */
import { get, part } from "../api.js";
import { who } from "../auth.js";
import { again, inTurn } from "../parts/again.js";
import { callArguments, name } from "../parts/arguments.js";
import { badge, copy, facts, failure } from "../parts/show.js";
import { table } from "../parts/table.js";
import { columns, sendAgain } from "../parts/webhooks.js";
import { html } from "../render.js";
import { link } from "../router.js";
import { answerOf, deadline, decide, executionPage, load, mayAnswer, moment, news, watch } from "./deciding.js";

export const title = "Approval";
const AGAIN_MS = 3_000;
const MOST_PAGES = 20; // of an execution's webhooks

/** @typedef {import("#ops").KernelApproval} Approval */
/** @typedef {import("#ops").KernelWebhooks["items"][number]} Hook */

/** @param {import("../router.js").Place} place */
export async function open({ params, show, signal }) {
  let approval = await load(params.execution, params.step, signal);
  let [outcome, problem] = [/** @type {import("./deciding.js").Outcome | null} */ (null), /** @type {unknown} */ (null)];
  let hooks = /** @type {Hook[]} */ ([]);
  const draw = () => signal.aborted || show(view(approval, outcome, problem, answer, webhooks(hooks, resend)), `${approval.tool_id} · ${title}`);
  const lookAtHooks = inTurn(() => hooksOf(params.execution, signal).then((found) => {
    hooks = found.filter((hook) => hook.step_id === params.step);
    draw();
  }, (error) => (signal.aborted || ((problem = error), draw()))), signal);
  const resend = (/** @type {Hook} */ hook) => sendAgain(hook, signal).then((done) => done && lookAtHooks());
  const look = again(async () => {
    await load(params.execution, params.step, signal).then((found) => ((approval = found), (problem = null)), (error) => (problem = error));
    draw();
  }, AGAIN_MS, signal, () => approval.state === "waiting");
  const answer = async (/** @type {boolean} */ approved) => {
    try {
      const found = await decide(approval, approved, signal);
      if (!found) return;
      outcome = found;
      watch(found, draw, signal);
      await look();
    } catch (error) {
      problem = error;
    }
    draw();
  };
  document.addEventListener("keydown", (event) => {
    const isElsewhere = /** @type {HTMLElement} */ (event.target).closest?.("input, textarea, select, dialog") || document.querySelector("dialog[open]");
    const isPlain = !event.defaultPrevented && !event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (!isPlain || isElsewhere || approval.state !== "waiting" || !mayAnswer() || !["y", "x"].includes(event.key)) return;
    event.preventDefault();
    answer(event.key === "y");
  }, { signal });
  draw();
  lookAtHooks();
}

/** The webhooks of an execution. @param {string} execution @param {AbortSignal} signal @returns {Promise<Hook[]>} */
async function hooksOf(execution, signal) {
  let [found, cursor] = [/** @type {Hook[]} */ ([]), /** @type {string | null} */ (null)];
  for (let pages = 0; pages < MOST_PAGES && (pages === 0 || cursor); pages += 1) {
    const page = /** @type {import("#ops").KernelWebhooks} */ (await get("kernel/webhooks", { execution_id: execution, cursor }, signal));
    [found, cursor] = [[...found, ...page.items], page.next];
  }
  return found;
}

/** @param {Approval} approval @param {import("./deciding.js").Outcome | null} outcome @param {unknown} problem
 * @param {(approved: boolean) => unknown} answer @param {unknown} told */
function view(approval, outcome, problem, answer, told) {
  const { tool_id, agent_id, execution_id, step_id, state } = approval;
  const isOpen = state === "waiting";
  return html`
    <h1>${name(tool_id)} ${badge(state)}</h1>
    ${outcome && news(outcome)}
    ${problem ? failure(problem) : null}
    ${approval.answer || state === "cancelled" ? html`<p>${answerOf(approval)}</p>` : null}
    ${facts([
      ["agent", name(agent_id)],
      ["rule", name(approval.rule_id)],
      ["why", approval.reason === null ? html`<span class="quiet">–</span>` : html`<span class="said">${approval.reason}</span>`],
      ["asked by", name(approval.asked_by)],
      ["since", moment(approval.since)],
      ["until", deadline(approval)],
      ["execution", html`<a href=${executionPage(execution_id)}><code class="id">${execution_id}</code></a> ${copy(execution_id, "the execution's id")}`],
      ["step", html`<code class="id">${step_id}</code> ${copy(step_id, "the step's id")}`],
    ])}
    <section aria-labelledby="arguments"><h2 id="arguments">Arguments</h2>
      ${callArguments(approval.arguments)}
      ${approval.arguments.shown === "private" ? html`<p class="said quiet">You are signed in${who()?.name ? html` as ${who()?.name}` : null} with ${who()?.roles.join(", ") || "no role"}.
        Each look of an approver is logged.</p>` : null}</section>
    ${isOpen && mayAnswer() ? html`<p class="verbs">
      <button type="button" class="main" @click=${() => answer(true)}>Grant…</button>
      <button type="button" class="grave" @click=${() => answer(false)}>Deny…</button>
      <span class="hint"><kbd>y</kbd> grants, <kbd>x</kbd> denies, after a question</span></p>` : null}
    ${isOpen && !mayAnswer() ? html`<p class="quiet">Answering needs the role <code>approver</code>.</p>` : null}
    ${told}
    <p><a href=${link("/policy", { execution: part(execution_id), step: part(step_id) })}>What the policy says of this call now</a></p>`;
}

/** Who was told of it by webhook; nothing where nobody was. @param {Hook[]} hooks @param {(hook: Hook) => void} resend */
function webhooks(hooks, resend) {
  return hooks.length ? html`<section aria-labelledby="webhooks"><h2 id="webhooks">Webhooks</h2>${table({ name: "Webhooks", ...columns(resend) }, hooks)}</section>` : null;
}
