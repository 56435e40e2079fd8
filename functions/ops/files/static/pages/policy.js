// @ts-check
/** The deployed policy, and what each of its rules says of a call: one that is pasted, or that of a step. */
import { get, part, post } from "../api.js";
import { isRounded, name } from "../parts/arguments.js";
import { badge, copy, empty, facts, failure } from "../parts/show.js";
import { table } from "../parts/table.js";
import { each, html } from "../render.js";
import { load } from "./deciding.js";

export const title = "Policy";

/** @typedef {import("#ops").KernelPolicy} Policy */
/** @typedef {import("#ops").KernelVerdict} Verdict */
/** @typedef {{ agent_id: string, tool_id: string, arguments: string, labels: string, step_count: string, note: string }} Call */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const policy = /** @type {Policy} */ (await get("kernel/policy", {}, signal));
  let [verdict, problem] = [/** @type {Verdict | null} */ (null), /** @type {unknown} */ (null)];
  let call = /** @type {Call} */ ({ agent_id: query.agent ?? "", tool_id: query.tool ?? "", arguments: "", labels: "", step_count: "", note: "" });
  const draw = () => signal.aborted || show(view(policy, call, verdict, problem, evaluate));
  const evaluate = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData(/** @type {HTMLFormElement} */ (event.target))].map(([key, value]) => [key, String(value)]));
    await asked({ ...call, ...given });
  };
  const asked = async (/** @type {Call} */ given) => {
    call = given;
    try {
      verdict = await post("kernel/policy/evaluate", body(call), signal);
      problem = null;
    } catch (error) {
      [verdict, problem] = [null, error];
    }
    draw();
  };
  if (query.execution && query.step) {
    try {
      call = await ofStep(query.execution, query.step, signal);
      await asked(call);
    } catch (error) {
      problem = error;
    }
  }
  draw();
}

/** The call of a step that a person is, or was, asked about. @param {string} execution @param {string} step @param {AbortSignal} signal
 * @returns {Promise<Call>} */
async function ofStep(execution, step, signal) {
  const [approval, whole] = await Promise.all([load(execution, step, signal), get(`kernel/executions/${part(execution)}`, {}, signal)]);
  const { shown, value } = approval.arguments;
  const isHere = shown === "whole" || shown === "none";
  return {
    agent_id: approval.agent_id,
    tool_id: approval.tool_id,
    arguments: shown === "whole" ? JSON.stringify(value, null, 2) : "",
    labels: Object.keys(whole.labels).length ? JSON.stringify(whole.labels, null, 2) : "",
    step_count: "",
    note: isHere ? "" : "The step's arguments cannot be shown to you: the answer below is for a call without them.",
  };
}

/** The question of a form: JSON is sent as it was written, so that no number is rounded. @param {Call} call */
function body(call) {
  const { rawJSON } = /** @type {any} */ (JSON);
  const steps = call.step_count.trim();
  return {
    agent_id: call.agent_id,
    tool_id: call.tool_id,
    ...(call.arguments.trim() && { arguments: parsed("The arguments", call.arguments) }),
    ...(call.labels.trim() && { labels: parsed("The labels", call.labels) }),
    ...(steps && { step_count: Number(steps) }),
  };

  /** @param {string} what @param {string} text */
  function parsed(what, text) {
    if (isRounded(text)) throw new Error(`${what} have a long number, which this browser would round: use a newer one.`);
    try {
      return JSON.parse(text, /** @param {string} _ @param {any} value @param {any} [context] */ (_, value, context) =>
        typeof value === "number" && context?.source !== undefined && rawJSON ? rawJSON(context.source) : value);
    } catch (error) {
      throw new Error(`${what} are not JSON: ${error instanceof Error ? error.message : error}`);
    }
  }
}

/** @param {Policy} policy @param {Call} call @param {Verdict | null} verdict @param {unknown} problem @param {(event: SubmitEvent) => unknown} evaluate */
function view(policy, call, verdict, problem, evaluate) {
  return html`
    <h1>Policy</h1>
    ${policy.problem === null ? null : html`<div class="failed" role="alert"><p><strong>The deployed policy does not load, so calls are refused:</strong></p>
      <p class="said">${policy.problem}</p></div>`}
    <section aria-labelledby="ask"><h2 id="ask">What would it say?</h2>
      <form class="call" @submit=${evaluate} aria-label="A call">
        <p class="field"><label for="agent">Agent</label><input id="agent" name="agent_id" required .value=${call.agent_id} autocomplete="off" spellcheck="false"></p>
        <p class="field"><label for="tool">Tool</label><input id="tool" name="tool_id" required .value=${call.tool_id} autocomplete="off" spellcheck="false"></p>
        <p class="field"><label for="given">Arguments, as JSON; empty: the call has none</label><textarea id="given" name="arguments" rows="5" .value=${call.arguments} spellcheck="false"></textarea></p>
        <details><summary>Labels and steps</summary>
          <p class="field"><label for="labels">Labels of the execution, as JSON</label><textarea id="labels" name="labels" rows="2" .value=${call.labels} spellcheck="false"></textarea></p>
          <p class="field"><label for="steps">Steps that came before</label><input id="steps" name="step_count" inputmode="numeric" pattern="[0-9]*" .value=${call.step_count}></p>
        </details>
        ${call.note ? html`<p class="said warned">${call.note}</p>` : null}
        <p class="verbs"><button class="main">Ask the policy</button></p>
      </form>
      ${problem ? failure(problem) : null}
      ${verdict && answer(verdict)}
    </section>
    <section aria-labelledby="files"><h2 id="files">What is deployed now</h2>
      ${policy.files.length ? each(policy.files, (file) => file.name, file) : empty("No files", html`The policy is the default of <code>PIECEWORK_POLICY_DEFAULT</code>.`)}
      ${policy.is_complete ? null : html`<p class="said warned">There are more files than one answer holds.</p>`}
    </section>`;
}

/** @param {Policy["files"][number]} file */
function file({ name, text }) {
  return html`<figure class="code"><figcaption>${name} ${copy(text, "the file")}</figcaption><pre tabindex="0">${text}</pre></figure>`;
}

/** @param {Verdict} verdict */
function answer({ decision, reason, rule_id, timeout_ms, rate_limit, wait, is_private, rules }) {
  const rows = rules.map((rule, at) => ({ ...rule, at }));
  return html`<div class="verdict" role="status">
    <h3>${badge(decision)} by ${name(rule_id)} <span class="said">${reason}</span></h3>
    ${facts([
      ["rate limit", rate_limit ? `${rate_limit.max} in ${rate_limit.window}; not taken from by this question` : "none"],
      ["waits", wait ? `${wait.timeout}, then ${wait.on_timeout === "fail" ? "the execution fails" : "it is denied"}` : "–"],
      ["step's time", timeout_ms === null ? "the step timeout" : `${timeout_ms} ms`],
      ["arguments", is_private ? "private: for approvers alone" : "for all readers"],
    ])}
    ${rows.length ? table({
      name: "Rules that were tried, in their order",
      heads: ["rule", "priority", "answer", "conditions that do not hold"],
      key: (rule) => rule.at,
      tone: (rule) => (rule.matches ? "wait" : undefined),
      cells: (rule) => [
        name(rule.id),
        rule.priority,
        rule.matches ? html`<strong>matches, and decides</strong>` : html`<span class="quiet">does not match</span>`,
        rule.problems.length ? html`<ul class="plain">${rule.problems.map(({ condition, problem }) => html`<li><code>${condition}</code> ${problem}</li>`)}</ul>` : "–",
      ],
    }, rows) : html`<p class="quiet">No rule was tried: this is the default.</p>`}
    ${rows.length && !rows.some((rule) => rule.matches) ? html`<p class="quiet">No rule matches: this is the default.</p>` : null}
  </div>`;
}
