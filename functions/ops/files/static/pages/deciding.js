// @ts-check
/** What the inbox and an approval's page share: the question, the answer, who was faster, and how the execution ends. */
import { ApiError, get, getExact, part, post } from "../api.js";
import { can } from "../auth.js";
import { exact, time } from "../format.js";
import { callArguments, isWhole, name } from "../parts/arguments.js";
import { ask } from "../parts/dialog.js";
import { called, person } from "../parts/people.js";
import { badge } from "../parts/show.js";
import { html } from "../render.js";
import { link } from "../router.js";

/** @typedef {import("#ops").KernelApproval} Approval */
/** @typedef {import("#ops").KernelExecution} Execution */
/** @typedef {{ approval: Approval, news: string, isOurs: boolean, execution: Execution | null, problem: unknown }} Outcome */

const REASON_CHARACTERS = 4_096;
const EVENTS = 1_000; // on a page of a log
const MOST_PAGES = 20; // of a log that is looked through for one call
const ENDED = ["completed", "failed", "cancelled"];
const LOOKS = /** @type {[number, number][]} */ ([[5_000, 200], [60_000, 1_000], [Infinity, 5_000]]); // until so long after: every so many ms

/** The address of an approval's page. @param {Approval} approval */
export const pageOf = (approval) => link(`/inbox/${part(approval.execution_id)}/${part(approval.step_id)}`);
/** The address of an execution's page. @param {string} id */
export const executionPage = (id) => link(`/executions/${part(id)}`);
/** A time of the kernel, which is a text. @param {string | null} text */
export const moment = (text) => (text === null ? time(null) : time(Date.parse(text)));
/** Whether an execution has ended. @param {Execution | null} execution */
export const hasEnded = (execution) => execution !== null && ENDED.includes(execution.status);
/** Whether the signed-in person may answer. */
export const mayAnswer = () => can("approver");

/** One approval with its arguments, from the log where they are long. @param {string} execution @param {string} step @param {AbortSignal} signal
 * @returns {Promise<Approval>} */
export async function load(execution, step, signal) {
  const approval = /** @type {Approval} */ (await getExact(`kernel/executions/${part(execution)}/approvals/${part(step)}`, {}, signal));
  if (approval.arguments.shown !== "beginning") return approval;
  const found = await fromLog(approval, signal);
  return found === undefined ? approval : { ...approval, arguments: { shown: "whole", value: found } };
}

/** @param {Approval} approval @param {AbortSignal} signal */
async function fromLog({ execution_id, step_id }, signal) {
  for (let after = 0, pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await getExact(`kernel/executions/${part(execution_id)}/events`, { after_sequence: after, limit: EVENTS }, signal);
    const made = page.events.find((/** @type {any} */ event) => event.type === "step.created" && event.step_id === step_id);
    if (made) return made.payload.private && !mayAnswer() ? undefined : made.payload.arguments; // others get a mark in their place
    if (!page.events.length) return undefined;
    after = page.latest_sequence;
  }
  return undefined;
}

/** What happens when nobody answers. @param {Approval} approval */
export function deadline({ expires_at, on_timeout, state }) {
  if (expires_at === null) return html`<span class="quiet">none: as long as the execution lives</span>`;
  const then = on_timeout === "fail" ? "the execution fails" : "it is denied";
  if (state === "waiting" && Date.parse(expires_at) <= Date.now()) return html`${moment(expires_at)}; its time is over: ${then} when the kernel looks, within a minute`;
  return html`${moment(expires_at)}, then ${then}`;
}

/** How an approval was answered. @param {Approval} approval */
export function answerOf({ answer, state }) {
  if (!answer) return state === "cancelled" ? badge("cancelled") : badge("waiting");
  const word = answer.timed_out ? html`${badge("denied")} nobody answered in time` : badge(answer.approved ? "granted" : "denied");
  return html`${word} ${answer.by ? html`by ${person(answer.by, true)}` : null} ${moment(answer.at)}
    ${answer.reason ? html`<br><span class="said">“${answer.reason}”</span>` : null}`;
}

let isLoading = false; // a call to ask about; from then on its open dialog keeps other questions away

/** Ask whether to grant or deny, with the call before one's eyes; then do it. Null if the person says no, or if another call is being loaded.
 * @param {Approval} listed @param {boolean} approved @param {AbortSignal} signal @returns {Promise<Outcome | null>} */
export async function decide(listed, approved, signal) {
  if (isLoading) return null;
  isLoading = true;
  const approval = await load(listed.execution_id, listed.step_id, signal).finally(() => (isLoading = false));
  if (approval.state !== "waiting") return outcome(approval, standing(approval), false);
  const verb = approved ? "Grant" : "Deny";
  let made = /** @type {Outcome | null} */ (null);
  const done = await ask({
    title: `${verb} this call?`,
    about: `${listed.execution_id}/${listed.step_id}`,
    intro: html`<p>${name(approval.agent_id)} wants ${name(approval.tool_id)}:</p>
      <div class="within">${callArguments(approval.arguments)}</div>
      ${isWhole(approval.arguments) ? null : html`<p class="failed">You do not see all that you would answer about.</p>`}`,
    fields: [{
      name: "reason",
      label: approved ? "Reason, if there is something to say" : "Reason",
      type: "area",
      required: !approved,
      max: REASON_CHARACTERS,
      hint: "The agent reads it, and it is kept with your name.",
    }],
    verb,
    isGrave: !approved,
    act: async ({ reason }) => (made = await answer(approval, approved, reason.trim(), signal)),
  });
  return done && made;
}

/** @param {Approval} approval @param {boolean} approved @param {string} reason @param {AbortSignal} signal @returns {Promise<Outcome>} */
async function answer(approval, approved, reason, signal) {
  const path = `kernel/executions/${part(approval.execution_id)}/approvals/${part(approval.step_id)}`;
  try {
    const told = await post(path, reason ? { approved, reason } : { approved }, signal);
    return outcome(approval, told.already ? "You had given this answer already." : `You ${said(approved)} it.`, true);
  } catch (error) {
    const isStanding = error instanceof ApiError && typeof error.details?.approved === "boolean";
    const isUnknown = error instanceof ApiError && (error.status === 0 || error.status >= 500);
    if (!isStanding && !isUnknown) throw error;
    const now = await load(approval.execution_id, approval.step_id, signal).catch(() => null);
    if (now && now.state !== "waiting") return outcome(now, isStanding ? standing(now) : `The door's answer was lost. ${standing(now)}`, false);
    if (isStanding) return outcome(approval, `Somebody was faster. ${error.message}`, false);
    throw new Error("The door's answer was lost, and it is not known whether yours was taken. Answer once more: the same answer counts once.");
  }
}

/** @param {Approval} approval @param {string} news @param {boolean} isOurs @returns {Outcome} */
const outcome = (approval, news, isOurs) => ({ approval, news, isOurs, execution: null, problem: null });
/** @param {boolean} approved */
const said = (approved) => (approved ? "granted" : "denied");

/** The answer that stands, in words; who was faster, if it is known that another was. @param {Approval} approval */
function standing({ answer, state }) {
  if (!answer) return state === "cancelled" ? "It was cancelled unanswered." : "";
  const [at, why] = [exact(Date.parse(answer.at)), answer.reason ? `: “${answer.reason}”` : ""];
  if (answer.timed_out) return `It was denied at ${at}, because nobody answered in time.`;
  const by = answer.by && called(answer.by, true);
  if (!by) return `It was ${said(answer.approved)} at ${at}${why}. That stands.`; // an open door knows no names
  return `${by === "you" ? "You" : `Somebody was faster: ${by}`} ${said(answer.approved)} it at ${at}${why}. That stands.`;
}

/** Look at an outcome's execution until it has ended, as long as it is shown. @param {Outcome} found @param {() => void} draw
 * @param {AbortSignal} signal @param {() => boolean} [isShown] */
export async function watch(found, draw, signal, isShown = () => true) {
  const from = Date.now();
  while (!signal.aborted && !hasEnded(found.execution) && isShown()) {
    if (!document.hidden) {
      await get(`kernel/executions/${part(found.approval.execution_id)}`, {}, signal).then(
        (execution) => ((found.execution = execution), (found.problem = null)),
        (problem) => (found.problem = problem),
      );
      if (!signal.aborted) draw();
      if (found.problem instanceof ApiError && [403, 404].includes(found.problem.status)) return;
    }
    const [, wait] = /** @type {[number, number]} */ (LOOKS.find(([until]) => Date.now() - from < until));
    await new Promise((resolve) => setTimeout(resolve, hasEnded(found.execution) ? 0 : wait));
  }
}

/** What came of an answer, and where its execution stands. @param {Outcome} found */
export function news(found) {
  const { approval, execution, problem, isOurs } = found;
  return html`<div class=${isOurs ? "news" : "news other"} role=${isOurs ? "status" : "alert"}>
    <p><strong class="said">${found.news}</strong> <a href=${pageOf(approval)}>${name(approval.tool_id)}</a></p>
    <p><a href=${executionPage(approval.execution_id)}>The execution</a> ${execution ? badge(execution.status) : html`<span class="quiet">…</span>`}
      ${execution?.waiting_for ? html`<span class="said quiet">${execution.waiting_for}</span>` : null}
      ${execution?.error ? html`<span class="said bad">${execution.error}</span>` : null}
      ${problem ? html`<span class="said bad">${problem instanceof Error ? problem.message : "It cannot be read."}</span>` : null}</p>
  </div>`;
}
