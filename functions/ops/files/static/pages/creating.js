// @ts-check
/** A new execution: agent, input and labels are asked for and checked here; one question creates one, however often it is sent. */
import { exactly, get, part, post } from "../api.js";
import { ask } from "../parts/dialog.js";
import { html } from "../render.js";
import { go, link } from "../router.js";

const MOST_AGENTS = 50; // that are offered; any other may be typed
const MOST_INPUT = 500_000; // characters

let isLoading = false; // the agents that are offered; from then on the open dialog keeps other questions away

/** Ask, create it, and go there; one question at a time. @param {string} agent that is offered first @param {AbortSignal} signal */
export async function create(agent, signal) {
  if (isLoading) return;
  isLoading = true;
  const seen = await agents(signal).finally(() => (isLoading = false));
  if (signal.aborted) return;
  const key = crypto.randomUUID(); // of this question: to send it again after a lost answer makes no second execution
  let made = "";
  const done = await ask({
    title: "New execution",
    intro: html`<p>Its agent gets it as soon as one is connected. It is yours in the log.</p>`,
    fields: [
      { name: "agent_id", label: "Agent", required: true, max: 256, value: agent, choices: seen, hint: seen.length ? "One that was seen lately, or another." : "No agent was seen lately: type one." },
      { name: "input", label: "Input", type: "area", max: MOST_INPUT, hint: "JSON, or nothing. A text needs quotes." },
      { name: "labels", label: "Labels", type: "area", max: 20_000, hint: "One a line: name: value" },
    ],
    verb: "Create it",
    act: async ({ agent_id, input, labels }) => {
      const body = { agent_id: agent_id.trim(), labels: labelsOf(labels), idempotency_key: key, ...(input.trim() ? { input: parsed(input, "input") } : {}) };
      made = /** @type {import("#ops").KernelExecution} */ (await post("kernel/executions", body)).id;
    },
  });
  if (done) go(link(`/executions/${part(made)}`));
}

/** The agents that were seen lately; empty where the door does not tell them. @param {AbortSignal} signal @returns {Promise<string[]>} */
const agents = (signal) => get("kernel/agents", { limit: MOST_AGENTS }, signal).then(({ agents }) => agents.map((/** @type {{ agent_id: string }} */ one) => one.agent_id), () => []);

/** A text as JSON, with long numbers as they were typed. Throws an Error with what is wrong. @param {string} text @param {string} what */
export function parsed(text, what) {
  try {
    return exactly(text);
  } catch (error) {
    throw new Error(`The ${what} is not JSON: ${error instanceof Error ? error.message : error}. A text needs quotes.`);
  }
}

/** Labels of lines `name: value`. Throws an Error that names the line. @param {string} text @returns {Record<string, string>} */
function labelsOf(text) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  const pairs = lines.map((line) => {
    const [name, ...value] = line.split(":");
    if (!name.trim() || !value.length) throw new Error(`A label must read name: value, and this does not: ${line}`);
    return [name.trim(), value.join(":").trim()];
  });
  const names = pairs.map(([name]) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Error(`The label ${twice} stands there twice.`);
  return Object.fromEntries(pairs);
}
