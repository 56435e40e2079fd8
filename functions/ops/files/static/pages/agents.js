// @ts-check
/** Who works: agents with their connections and pauses, runners with their jobs, and the tools that runners offer. */
import { get, post } from "../api.js";
import { can } from "../auth.js";
import { counted } from "../format.js";
import { again } from "../parts/again.js";
import { name } from "../parts/arguments.js";
import { askReason } from "../parts/dialog.js";
import { called, person } from "../parts/people.js";
import { badge, empty, failure, json } from "../parts/show.js";
import { table } from "../parts/table.js";
import { toast } from "../parts/toast.js";
import { each, html } from "../render.js";
import { go, link } from "../router.js";
import { executionPage, moment } from "./deciding.js";

export const title = "Agents";
const AGAIN_MS = 10_000;

/** @typedef {import("#ops").KernelAgents["agents"][number]} Agent */
/** @typedef {import("#ops").KernelRunners["runners"][number]} Runner */
/** @typedef {import("#ops").KernelTools["tools"][number]} Tool */
/** @typedef {{ items: any[], next: string, pages: number, problem: unknown, isThere: boolean }} State */
/** @typedef {{ look: () => unknown, more: () => unknown, pause: (agent: Agent) => unknown }} Acts */

const KINDS = /** @type {Record<string, { name: string, draw: (items: any[], acts: Acts) => unknown, none: () => unknown }>} */ ({
  agents: {
    name: "Agents",
    draw: (items, acts) => each(items, (agent) => agent.agent_id, (agent) => agentCard(agent, acts)),
    none: () => empty("No agent has connected", html`An agent opens <code>GET /v0/agents/stream</code>; one in the executors' layer is listed by its name.`),
  },
  runners: {
    name: "Runners",
    draw: (items) => each(items, (runner) => runner.runner_id, runnerCard),
    none: () => empty("No runner has connected", html`A runner opens <code>GET /v0/runners/stream</code> and registers its tools.`),
  },
  tools: { name: "Tools", draw: tools, none: () => empty("No such tool", "Runners register their tools when they connect.") },
});

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const kind = Object.hasOwn(KINDS, query.show ?? "") ? query.show : "agents";
  const prefix = kind === "tools" ? (query.prefix ?? "") : "";
  const one = { agents: query.agent, runners: query.runner }[kind] ?? ""; // which alone is shown
  const asked = { prefix, ...(one && { [kind === "agents" ? "agent_id" : "runner_id"]: one }) };
  /** @type {State} */
  const state = { items: [], next: "", pages: 1, problem: null, isThere: false };
  const draw = () => show(view(kind, prefix, one, state, acts), KINDS[kind].name);
  const look = again(async () => {
    try {
      Object.assign(state, await pages(kind, asked, state.pages, signal), { problem: null, isThere: true });
    } catch (problem) {
      state.problem = problem;
    }
    if (!signal.aborted) draw();
  }, AGAIN_MS, signal);
  const acts = {
    look,
    more: () => ((state.pages += 1), look()),
    pause: async (/** @type {Agent} */ agent) => (await pauseOrResume(agent, signal)) && look(),
  };
  await look();
}

/** @param {string} kind @param {import("../api.js").Query} asked @param {number} count @param {AbortSignal} signal */
async function pages(kind, asked, count, signal) {
  let [items, next] = [/** @type {any[]} */ ([]), ""];
  for (let page = 0; page < count && (page === 0 || next); page += 1) {
    const found = await get(`kernel/${kind}`, { ...asked, cursor: next }, signal);
    items = [...items, ...found[kind]];
    next = found.next_cursor;
  }
  return { items, next };
}

/** Whether a pause holds. @param {Agent} agent */
const isPaused = ({ pause }) => pause !== null && pause.resumed_at === null;

/** @param {Agent} agent @param {AbortSignal} signal */
function pauseOrResume(agent, signal) {
  const holds = isPaused(agent);
  return askReason({
    title: holds ? "Give this agent executions again" : "Give this agent no new executions",
    about: agent.agent_id,
    intro: html`<p>${name(agent.agent_id)}. ${holds ? "What waits for it is given out." : "What it works on goes on; new executions are refused, and what waits stays."}</p>`,
    verb: holds ? "Resume" : "Pause",
    isGrave: !holds,
    act: async ({ reason }) => {
      const { pause } = await post(`kernel/agents/${holds ? "resume" : "pause"}`, { agent_id: agent.agent_id, reason }, signal);
      const isEarlier = !holds && pause.reason !== reason.trim(); // somebody's, which stands with its own reason
      const done = isEarlier ? `was paused already, by ${called(pause.by, true)}; that pause holds` : "is paused";
      toast(`${agent.agent_id} ${holds ? "gets executions again" : done}`);
    },
  });
}

/** @param {string} kind @param {string} prefix @param {string} one @param {State} state @param {Acts} acts */
function view(kind, prefix, one, state, acts) {
  const { items, next, problem, isThere } = state;
  return html`
    <h1>${KINDS[kind].name}</h1>
    <p class="tabs">${Object.entries(KINDS).map(
      ([name, each]) => html`<a href=${link("/agents", { show: name === "agents" ? null : name })} aria-current=${name === kind ? "page" : null}>${each.name}</a>`,
    )}</p>
    ${kind === "tools" ? html`<form class="filters" aria-label="Filters" @submit=${filter}>
      <label>Name, or its beginning up to a . or _ <input name="prefix" value=${prefix} autocomplete="off" spellcheck="false"></label><button>Filter</button></form>` : null}
    ${one ? html`<p class="quiet">Only ${name(one)}. <a href=${link("/agents", { show: kind === "agents" ? null : kind })}>Look at all</a>.</p>` : null}
    ${problem ? failure(problem, acts.look) : null}
    ${isThere && !items.length && !next ? (one ? unknown(one) : KINDS[kind].none()) : KINDS[kind].draw(items, acts)}
    ${next ? html`<p class="more"><button type="button" @click=${acts.more}>Load more</button></p>` : null}`;
}

/** @param {string} one */
const unknown = (one) => empty("It has not connected in the last 30 days", html`Look at the <a href=${link("/executions", { agent_id: one })}>executions of an agent of this name</a>.`);

/** @param {SubmitEvent} event */
function filter(event) {
  event.preventDefault();
  go(link("/agents", { show: "tools", prefix: String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("prefix")) }));
}

/** @param {{ executions: string[], more_executions: boolean }} work */
function work({ executions, more_executions }) {
  if (!executions.length) return html`<span class="quiet">nothing</span>`;
  return html`${executions.map((id) => html`<a href=${executionPage(id)}><code class="id">${id}</code></a> `)}${more_executions ? "and more" : null}`;
}

/** @param {{ connected: boolean }} one */
const connection = ({ connected }) => badge(connected ? "connected" : "gone, may come back");

/** @param {string | null} since */
const since = (since) => (since === null ? html`<span class="quiet" title="an earlier release opened the connection">not known</span>` : moment(since));

/** @param {Agent} agent @param {Acts} acts */
function agentCard(agent, acts) {
  const { agent_id, consumers, more_consumers, waiting, more_waiting, hosted, pause } = agent;
  return html`<article class="card" aria-label=${`Agent ${agent_id}`}>
    <h2>${name(agent_id)} ${isPaused(agent) ? badge("paused") : null}</h2>
    ${pause && html`<p>${isPaused(agent)
      ? html`Paused by ${person(pause.by, true)} ${moment(pause.at)}: <span class="said">${pause.reason}</span>`
      : html`<span class="quiet">Last paused by ${person(pause.by, true)} ${moment(pause.at)}: <span class="said">${pause.reason}</span>;
          resumed by ${person(pause.resumed_by, true)} ${moment(pause.resumed_at)}: <span class="said">${pause.resumed_reason}</span></span>`}</p>`}
    <dl class="facts">
      <div><dt>waiting</dt><dd>${more_waiting ? `${waiting} or more executions` : counted(waiting, "execution")}</dd></div>
      ${hosted && html`<div><dt>hosted work</dt><dd>${work(hosted)}</dd></div>`}
    </dl>
    ${consumers.length ? table({
      name: `Connections of ${agent_id}`,
      heads: ["consumer", "state", "since", "lease until", "works on"],
      key: (one) => one.consumer_id,
      cells: (one) => [name(one.consumer_id), connection(one), since(one.since), moment(one.lease_until), work(one)],
    }, consumers) : hosted ? null : html`<p class="quiet">Nobody is connected.</p>`}
    ${more_consumers ? html`<p class="quiet">There are more connections than are shown.</p>` : null}
    ${can("operator") ? html`<p class="verbs"><button type="button" class=${isPaused(agent) ? "main" : "grave"} @click=${() => acts.pause(agent)}>
      ${isPaused(agent) ? "Resume…" : "Pause…"}</button></p>` : null}
  </article>`;
}

/** @param {Runner} runner */
function runnerCard({ runner_id, connections, more_connections }) {
  return html`<article class="card" aria-label=${`Runner ${runner_id}`}>
    <h2>${name(runner_id)}</h2>
    ${connections.length ? table({
      name: `Connections of ${runner_id}`,
      heads: ["consumer", "state", "since", "lease until", "job", "tools"],
      key: (one) => one.consumer_id,
      cells: (one) => [
        name(one.consumer_id),
        connection(one),
        since(one.since),
        moment(one.lease_until),
        one.job ? html`${one.job.tool_id === null ? html`<span class="quiet">an ended step</span>` : name(one.job.tool_id)} of
          <a href=${executionPage(one.job.execution_id)}><code class="id">${one.job.execution_id}</code></a>` : html`<span class="quiet">none</span>`,
        html`${one.tools.map((tool) => html`${name(tool)} `)}${one.more_tools ? "and more" : null}`,
      ],
    }, connections) : html`<p class="quiet">It is not connected; its tools are in the directory all the same.</p>`}
    ${more_connections ? html`<p class="quiet">There are more connections than are shown.</p>` : null}
  </article>`;
}

/** @param {Tool[]} items */
function tools(items) {
  if (!items.length) return null;
  return table({
    name: "Tools",
    heads: ["tool", "what it does", "runner", "registered", "input"],
    key: (tool) => tool.id,
    cells: (tool) => [
      html`<a href=${link("/policy", { tool: tool.id })}>${name(tool.id)}</a>`,
      html`<span class="said">${tool.description}</span>`,
      name(tool.runner_id),
      moment(tool.registered_at),
      html`<details><summary>schema</summary>${json(tool.input_schema, "the schema")}</details>`,
    ],
  }, items);
}
