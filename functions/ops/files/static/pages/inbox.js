// @ts-check
/** The inbox: what waits for a person, what was answered. One chooses with j and k, and answers with a question before it. */
import { getExact } from "../api.js";
import { who } from "../auth.js";
import { counted, form } from "../format.js";
import { again } from "../parts/again.js";
import { callArguments, name } from "../parts/arguments.js";
import { empty, failure } from "../parts/show.js";
import { each, html } from "../render.js";
import { go, link } from "../router.js";
import { answerOf, deadline, decide, executionPage, mayAnswer, moment, news, pageOf, watch } from "./deciding.js";

export const title = "Inbox";
const AGAIN_MS = 5_000;
const LIMIT = 25; // on a page
const MOST_OUTCOMES = 5; // of answers that are followed at once

/** @typedef {import("#ops").KernelApproval} Approval */
/** @typedef {import("./deciding.js").Outcome} Outcome */
/** @typedef {{ items: Approval[], next: string, pages: number, chosen: string, outcomes: Outcome[], problem: unknown, isThere: boolean }} State */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const isHistory = query.state === "answered";
  /** @type {State} */
  const state = { items: [], next: "", pages: 1, chosen: "", outcomes: [], problem: null, isThere: false };
  const draw = () => show(view(state, isHistory, acts), isHistory || !state.items.length ? title : `(${state.items.length}${state.next ? "+" : ""}) ${title}`);
  const look = again(async () => {
    try {
      const found = await pages(isHistory, state.pages, signal);
      Object.assign(state, found, { problem: null, isThere: true });
    } catch (problem) {
      state.problem = problem;
    }
    chooseOne(state);
    if (!signal.aborted) draw();
  }, AGAIN_MS, signal);
  const acts = {
    look,
    more: () => ((state.pages += 1), look()),
    choose: (/** @type {Approval} */ one) => ((state.chosen = idOf(one)), draw()),
    answer: async (/** @type {Approval} */ one, /** @type {boolean} */ approved) => {
      state.chosen = idOf(one);
      try {
        const found = await decide(one, approved, signal);
        if (!found) return;
        state.outcomes = [found, ...state.outcomes].slice(0, MOST_OUTCOMES);
        state.items = state.items.filter((other) => idOf(other) !== idOf(one)); // it is answered; the next look says the same
        chooseOne(state);
        draw();
        watch(found, draw, signal, () => state.outcomes.includes(found));
        await look();
      } catch (problem) {
        if (!signal.aborted) (state.problem = problem), draw();
      }
    },
  };
  document.addEventListener("keydown", (event) => pressed(event, state, isHistory, acts), { signal });
  await look();
}

/** @typedef {{ look: () => unknown, more: () => unknown, choose: (one: Approval) => void, answer: (one: Approval, approved: boolean) => unknown }} Acts */

/** @param {Approval} one */
const idOf = (one) => `${one.execution_id}/${one.step_id}`;

/** Choose the first where the chosen one is gone. @param {State} state */
function chooseOne(state) {
  if (!state.items.some((one) => idOf(one) === state.chosen)) state.chosen = state.items.length ? idOf(state.items[0]) : "";
}

/** So many pages of the list, as they are now. @param {boolean} isHistory @param {number} count @param {AbortSignal} signal */
async function pages(isHistory, count, signal) {
  let [items, next] = [/** @type {Approval[]} */ ([]), ""];
  for (let page = 0; page < count && (page === 0 || next); page += 1) {
    const found = await getExact("kernel/approvals", { state: isHistory ? "answered" : "waiting", limit: LIMIT, cursor: next }, signal);
    items = [...items, ...found.approvals];
    next = found.next_cursor;
  }
  return { items, next };
}

/** @param {KeyboardEvent} event @param {State} state @param {boolean} isHistory @param {Acts} acts */
function pressed(event, state, isHistory, acts) {
  const isElsewhere = /** @type {HTMLElement} */ (event.target).closest?.("input, textarea, select, dialog") || document.querySelector("dialog[open]");
  if (isElsewhere || event.defaultPrevented || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = state.items.findIndex((one) => idOf(one) === state.chosen);
  const one = state.items[at];
  if (!one) return;
  if (event.key === "j" || event.key === "k") {
    event.preventDefault();
    acts.choose(state.items[Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), state.items.length - 1)]);
    document.querySelector("[data-chosen]")?.scrollIntoView({ block: "nearest" });
  } else if (event.key === "Enter" && !isOn(event, "a, button, summary")) event.preventDefault(), go(pageOf(one));
  else if (!isHistory && mayAnswer() && (event.key === "y" || event.key === "x")) event.preventDefault(), acts.answer(one, event.key === "y");
}

/** Whether the focus is on such an element, which the key is for. @param {KeyboardEvent} event @param {string} selector */
const isOn = (event, selector) => Boolean(/** @type {HTMLElement} */ (event.target).closest?.(selector));

/** @param {State} state @param {boolean} isHistory @param {Acts} acts */
function view(state, isHistory, acts) {
  return html`
    <h1>Inbox</h1>
    <p class="tabs">
      <a href=${link("/inbox")} aria-current=${isHistory ? null : "page"}>What waits</a>
      <a href=${link("/inbox", { state: "answered" })} aria-current=${isHistory ? "page" : null}>What was answered</a>
    </p>
    ${isHistory ? null : html`<p class="quiet">${mayAnswer()
      ? html`<kbd>j</kbd> <kbd>k</kbd> choose, <kbd>y</kbd> grant, <kbd>x</kbd> deny, <kbd>Enter</kbd> opens. Nothing is decided without a question.`
      : html`You may look${who()?.name ? html`, ${who()?.name}` : null}. Answering needs the role <code>approver</code>.`}</p>`}
    ${each(state.outcomes, (found) => idOf(found.approval), news)}
    ${state.problem ? failure(state.problem, acts.look) : null}
    <p class="unseen" role="status">${state.isThere && !isHistory ? state.next ? `${state.items.length} or more calls wait for a person` : `${counted(state.items.length, "call")} ${form(state.items.length, "waits", "wait")} for a person` : null}</p>
    ${state.isThere && !state.items.length ? none(isHistory, Boolean(state.next)) : null}
    ${each(state.items, idOf, (one) => card(one, idOf(one) === state.chosen, isHistory, acts))}
    ${state.next ? html`<p class="more"><button type="button" @click=${acts.more}>Load more</button></p>` : null}`;
}

/** @param {Approval} one @param {boolean} isChosen @param {boolean} isHistory @param {Acts} acts */
function card(one, isChosen, isHistory, acts) {
  return html`<article class="card" data-chosen=${isChosen ? "yes" : null} aria-label=${`${one.tool_id} for ${one.agent_id}`}
      @click=${() => acts.choose(one)}>
    <h2><a href=${pageOf(one)}>${name(one.tool_id)}</a> <span class="quiet">wanted by</span> ${name(one.agent_id)}</h2>
    ${isHistory ? html`<p>${answerOf(one)}</p>` : null}
    ${callArguments(one.arguments)}
    <dl class="facts">
      <div><dt>rule</dt><dd>${name(one.rule_id)} <span class="said">${one.reason === null ? null : one.reason}</span></dd></div>
      <div><dt>since</dt><dd>${moment(one.since)}</dd></div>
      ${isHistory ? null : html`<div><dt>until</dt><dd>${deadline(one)}</dd></div>`}
      <div><dt>asked by</dt><dd>${name(one.asked_by)}</dd></div>
      <div><dt>execution</dt><dd><a href=${executionPage(one.execution_id)}><code class="id">${one.execution_id}</code></a></dd></div>
    </dl>
    ${isHistory || !mayAnswer() ? null : html`<p class="verbs">
      <button type="button" class="main" @click=${() => acts.answer(one, true)}>Grant…</button>
      <button type="button" class="grave" @click=${() => acts.answer(one, false)}>Deny…</button>
    </p>`}
  </article>`;
}

/** @param {boolean} isHistory @param {boolean} isPart whether the list goes on */
function none(isHistory, isPart) {
  if (isPart) return empty("Nothing on this part of the list", "The door reads a bounded number of rows at once. Go on for the rest.");
  if (isHistory) return empty("Nothing was answered lately", "Answers are listed as long as their executions are kept.");
  return empty("Nobody waits for you", html`A rule of the <a href=${link("/policy")}>policy</a> that says <code>require_approval</code> puts calls here.`);
}
