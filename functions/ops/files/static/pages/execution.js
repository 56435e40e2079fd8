// @ts-check
/** One execution: what it waits for, its time as a waterfall while it happens, its log, and what one can do about it. */
import { address, exactly, getExact, part } from "../api.js";
import { count, counted, exact, id, time } from "../format.js";
import { again } from "../parts/again.js";
import { person } from "../parts/people.js";
import { badge, copy, empty, facts, json } from "../parts/show.js";
import { table } from "../parts/table.js";
import { at, durations, lasting, Timeline, told, WORDS } from "../parts/timeline.js";
import { standing, waterfall } from "../parts/waterfall.js";
import { html } from "../render.js";
import { go, link, matched } from "../router.js";
import { follow } from "../stream.js";
import { verbs } from "./execution_verbs.js";

export const title = "Execution";
const PAGE = 1_000; // events that are read at once
const TICK_MS = 1_000; // between two places of the line that is now
const FRESH_MS = 2_000; // at least, between two looks at what it waits for
const AGAIN_MS = 15_000; // between looks that no event has asked for: an agent may have connected, where one is needed
const MOST_ROWS = 500; // of the table, and again with each press of its button
const SUMMARY = 200; // characters

/** @typedef {import("#ops").KernelExecution} Execution */
/** @typedef {import("#ops").KernelEvent} Event */
/** @typedef {import("../parts/timeline.js").Row} Row */
/**
 * @typedef {object} Seen what the page knows and what is chosen
 * @property {Execution} execution
 * @property {unknown} texts input, output and all else of the execution as it was last read
 * @property {Event[]} events
 * @property {Timeline} timeline
 * @property {import("../stream.js").StreamState | "loading"} stream
 * @property {number} breaks how often the stream broke
 * @property {string} step the row that is chosen
 * @property {number} event the sequence of the event that is chosen
 * @property {boolean} isTable
 * @property {number} rows of the table that are shown
 * @property {boolean} isTrue drawn true to scale, nothing folded
 * @typedef {Partial<Pick<Seen, "step" | "event" | "isTable" | "rows" | "isTrue">>} Choice
 */
const STREAMS = /** @type {Record<Seen["stream"], string>} */ ({
  loading: "Its log is read…",
  connecting: "Connecting to what happens…",
  live: "Live: what happens is shown as it happens.",
  broken: "The connection broke. It is opened again by itself; nothing is lost meanwhile.",
  resting: "Paused while this page is hidden.",
  over: "It has ended.",
  refused: "The door does not show what happens from now on. Load the page again.",
});

/** @param {import("../router.js").Place} place */
export async function open({ params, query, signal, show }) {
  const path = `kernel/executions/${part(params.id)}`;
  const here = `/executions/${part(params.id)}`;
  const timeline = new Timeline();
  const execution = /** @type {Execution} */ (await getExact(path, {}, signal));
  /** @type {Seen} */
  const seen = { execution, texts: texts(execution), events: [], timeline, stream: "loading", breaks: 0, step: query.step ?? "", event: Number(query.event) || 0, isTable: query.view === "table", rows: MOST_ROWS, isTrue: query.scale === "true" };
  const last = () => seen.events.at(-1)?.sequence ?? 0;
  const draw = once(() => signal.aborted || show(view(seen, choose, reload), `Execution ${execution.id}`));
  const watching = new AbortController(); // until one leaves, or it has ended
  signal.addEventListener("abort", () => watching.abort());
  const lookNow = again(async () => {
    seen.execution = await getExact(path, {}, signal);
    seen.texts = texts(seen.execution);
    draw();
  }, AGAIN_MS, watching.signal, () => seen.stream !== "loading" && timeline.whole?.state !== "blocked");
  const look = paced(lookNow, signal);

  /** @param {Event} event @returns {boolean} whether it follows what is known */
  function take(event) {
    if (event.sequence !== last() + 1) return event.sequence <= last(); // known already
    seen.events.push(event);
    timeline.add(event);
    return true;
  }
  let isReading = false;
  async function read() {
    if (isReading) return;
    isReading = true;
    try {
      await readOn();
    } finally {
      isReading = false;
    }
  }
  async function readOn() {
    for (;;) {
      const { events } = /** @type {import("#ops").KernelEvents} */ (await getExact(`${path}/events`, { after_sequence: last(), limit: PAGE }, signal));
      const before = last();
      events.forEach(take);
      draw();
      if (last() === before || timeline.ends !== null) return;
    }
  }
  /** @param {Choice} chosen */
  function choose(chosen) {
    Object.assign(seen, chosen);
    history.replaceState(null, "", link(here, { step: seen.step, event: seen.event || "", view: seen.isTable ? "table" : "", scale: seen.isTrue ? "true" : "" }));
    draw();
  }
  const reload = () => go(location.href, { replace: true });

  draw();
  await read();
  if (timeline.ends !== null) return watching.abort(), (seen.stream = "over"), draw();
  const ticks = setInterval(() => document.hidden || draw(), TICK_MS);
  watching.signal.addEventListener("abort", () => clearInterval(ticks));
  await follow(address(`${path}/stream`), {
    signal,
    after: String(last()),
    onState: (state) => {
      if (state === "broken") seen.breaks += 1;
      seen.stream = state;
      draw();
    },
    onEvent: ({ data }) => {
      if (!take(exactly(data))) read().catch(() => null); // what lies between is read, or comes with the next event
      look();
      draw();
      return timeline.ends !== null;
    },
  });
  watching.abort();
  if (timeline.ends !== null) (seen.stream = "over"), look(), draw();
}

/** Do it once a frame, however often it is asked for. @param {() => unknown} act */
function once(act) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => ((isAsked = false), act()));
  };
}

/** Do it soon, never twice within FRESH_MS; what fails is done with the next. @param {() => Promise<unknown>} act @param {AbortSignal} signal */
function paced(act, signal) {
  let timer = 0;
  let lately = 0;
  signal.addEventListener("abort", () => clearTimeout(timer));
  return () => {
    if (timer) return;
    const wait = Math.max(0, lately + FRESH_MS - Date.now());
    timer = setTimeout(() => {
      (timer = 0), (lately = Date.now());
      if (!signal.aborted) act().catch(() => null);
    }, wait);
  };
}

/** What is large and seldom changes. @param {Execution} execution */
function texts({ input, output, error, ...rest }) {
  return html`
    ${error == null ? null : html`<section aria-labelledby="error"><h2 id="error">Error</h2><p class="failed said">${error}</p></section>`}
    <section aria-labelledby="input"><h2 id="input">Input and output</h2>
      ${json(input, "the input")}
      ${rest.status === "completed" ? json(output, "the output") : html`<p class="quiet">${rest.status in WORDLESS ? "It has no output" : "It has no output yet"}.</p>`}</section>`;
}
const WORDLESS = { failed: 1, cancelled: 1 };

/** @param {Seen} seen @param {(chosen: Choice) => void} choose @param {() => void} reload */
function view(seen, choose, reload) {
  const { execution, timeline, stream } = seen;
  const state = timeline.whole?.state || execution.status;
  const now = Math.max(Date.now(), timeline.last);
  const row = timeline.rows.find(({ key }) => key === seen.step);
  return html`
    <h1>Execution ${badge(state)}</h1>
    <p role="status" class="stream" data-state=${stream}>${STREAMS[stream]}
      ${seen.breaks && stream !== "over" ? html`<span class="quiet">It broke ${counted(seen.breaks, "time")} so far.</span>` : null}</p>
    ${verbs({ execution, state, awaited: timeline.awaited, reload })}
    ${waits(seen)}
    ${about(execution)}
    ${hosted(timeline)}
    <section aria-labelledby="time"><h2 id="time">As it happened</h2>
      ${timeline.rows.length ? waterfall({ timeline, now, isFolding: !seen.isTrue, selected: seen.step, select: (key) => choose({ step: key === seen.step ? "" : key }) }) : empty("No events", "Its log is empty, or is being read.")}
      <p><label><input type="checkbox" .checked=${seen.isTrue} @change=${(/** @type {any} */ event) => choose({ isTrue: event.target.checked })}>
        True to scale</label> <span class="hint">Otherwise long waits are folded.</span></p>
      ${row ? chosen(row, timeline.ends ?? now, () => choose({ step: "" })) : null}
      <details .open=${seen.isTable} @toggle=${(/** @type {any} */ event) => event.target.open !== seen.isTable && choose({ isTable: event.target.open })}>
        <summary>As a table</summary>${seen.isTable ? listed(timeline, timeline.ends ?? now, seen.rows, (rows) => choose({ rows })) : null}</details>
    </section>
    ${seen.texts}
    ${log(seen, row, choose)}`;
}

/** What it waits for, and where a person can answer. @param {Seen} seen */
function waits({ execution, timeline }) {
  if (timeline.ends !== null) return null;
  const asked = timeline.rows.filter(({ step, spans }) => step && spans.at(-1)?.to === null && spans.at(-1)?.kind === "person");
  if (!execution.waiting_for && !asked.length) return null;
  return html`<p class="waits"><strong>Waits for</strong> <span class="said">${execution.waiting_for ?? ""}</span>
    ${asked.map(({ step, name }) => inbox(execution.id, step) && html`<a href=${inbox(execution.id, step)}>Answer about ${name}</a>`)}</p>`;
}

/** The view in which one answers, where the console has it. @param {string} execution @param {string} step */
function inbox(execution, step) {
  const one = `/inbox/${part(execution)}/${part(step)}`;
  return matched(one) ? link(one) : matched("/inbox") ? link("/inbox") : null;
}

/** @param {Execution} execution */
function about({ id: own, agent_id, labels, created_at, updated_at, again_of, forgotten }) {
  return facts([
    ["id", html`${id(own)} ${copy(own, "the id")}`],
    ["agent", html`<a href=${link("/executions", { agent_id })}>${agent_id}</a>`],
    ["created", time(Date.parse(created_at))],
    ["last change", time(Date.parse(updated_at))],
    ...(again_of ? [/** @type {[string, unknown]} */ (["run again from", html`<a href=${link(`/executions/${part(again_of)}`)}>${id(again_of)}</a>`])] : []),
    ...Object.entries(labels).map(([name, value]) => /** @type {[string, unknown]} */ ([name, html`<a href=${link("/executions", { label: `${name}:${value}` })}>${value}</a>`])),
    ...(forgotten ? [/** @type {[string, unknown]} */ (["forgotten", html`${time(Date.parse(forgotten.at))} by ${person(forgotten.by, true)}: <span class="said">${forgotten.reason}</span>
      ${forgotten.complete ? null : html`<strong>Not complete: forget it again.</strong>`}`])] : []),
  ]);
}

/** What a hosted run reports. @param {Timeline} timeline */
function hosted({ progress, tokens }) {
  if (!progress && !tokens) return null;
  return html`<section aria-labelledby="run"><h2 id="run">Hosted run</h2>
    ${progress ? html`<p><progress max="100" value=${progress.pct} aria-label="Progress"></progress> ${progress.pct}% <span class="said">${progress.text}</span></p>` : null}
    ${tokens ? facts(Object.entries(tokens).map(([name, value]) => /** @type {[string, unknown]} */ ([name.replaceAll("_", " "), typeof value === "number" ? count(value) : told(value)]))) : null}
  </section>`;
}

/** The row that is chosen, with each of its spans. @param {Row} row @param {number} until @param {() => void} close */
function chosen(row, until, close) {
  const spans = row.spans.map((span, number) => ({ ...span, number }));
  return html`<section class="evidence" aria-label="The chosen step">
    <h3>${row.what} <span class="said">${row.name}</span> ${badge(row.state)}</h3>
    ${facts([...(row.step ? [/** @type {[string, unknown]} */ (["step", html`${id(row.step)} ${copy(row.step, "the step's id")}`])] : []), ["attempt", row.attempt], ["note", html`<span class="said">${row.note || "–"}</span>`]])}
    ${table({
      name: "Its times",
      heads: ["from", "what", "who or why", "lasted"],
      key: (span) => span.number,
      cells: (span) => [exact(span.from), WORDS[span.kind], html`<span class="said">${span.why || "–"}</span>`, span.to === null ? `${lasting(until - span.from)} so far` : lasting(span.to - span.from)],
    }, spans)}
    ${row.marks.length ? html`<ul>${row.marks.slice(-50).map((mark) => html`<li><code>${exact(mark.at)}</code> <span class="said">${mark.what}</span></li>`)}</ul>` : null}
    <p class="verbs"><button type="button" @click=${close}>Close</button></p></section>`;
}

/** The waterfall as a table, a part of it at first. @param {Timeline} timeline @param {number} until @param {number} shown
 * @param {(rows: number) => void} show */
function listed({ rows }, until, shown, show) {
  return html`${table({
    name: "Steps as a table",
    heads: ["what", "name", "state", "began", "waited", "worked", "attempt", "note"],
    key: (row) => row.key,
    tone: (row) => (row.isFailed ? "bad" : row.spans.at(-1)?.to === null && row.what !== "execution" ? "wait" : undefined),
    cells: (row) => {
      const { waited, worked } = durations(row, until);
      const state = standing(row, until).replace(/, [^,]*$/, "");
      return [row.what, html`<code class="id">${row.name}</code>`, state, row.spans[0] ? exact(row.spans[0].from) : "–", lasting(waited), lasting(worked), row.attempt, html`<span class="said">${row.note || "–"}</span>`];
    },
  }, rows.slice(0, shown))}
  ${rows.length > shown ? html`<p class="more">The first ${count(shown)} of ${counted(rows.length, "row")}.
    <button type="button" @click=${() => show(shown + MOST_ROWS)}>Show ${count(Math.min(MOST_ROWS, rows.length - shown))} more</button></p>` : null}`;
}

/** The log; of the chosen step alone, where one is chosen. @param {Seen} seen @param {Row | undefined} row
 * @param {(chosen: { event: number }) => void} choose */
function log({ events, event, timeline }, row, choose) {
  const shown = row?.step ? events.filter(({ step_id }) => step_id === row.step) : events;
  const found = events[event - 1];
  return html`<section aria-labelledby="log"><h2 id="log">Log</h2>
    <p class="quiet">${counted(shown.length, "event")}${row?.step ? ` of the chosen step, of ${counted(events.length, "event")} in all` : ""}. Choose one to see it whole.</p>
    <pw-rows class="log" follow aria-label="Events" .items=${shown} .itemkey=${(/** @type {Event} */ each) => each.sequence}
      .row=${(/** @type {Event} */ each) => entry(each, timeline.begins, each.sequence === event, choose)}></pw-rows>
    ${found ? json(found, `event ${found.sequence}`) : null}</section>`;
}

/** @param {Event} event @param {number} begins @param {boolean} isChosen @param {(chosen: { event: number }) => void} choose */
function entry(event, begins, isChosen, choose) {
  const { sequence, type, payload, by } = event;
  return html`<button type="button" class="step" aria-pressed=${String(isChosen)} @click=${() => choose({ event: isChosen ? 0 : sequence })}>
      ${sequence} <span class="unseen">${type}</span></button>
    <span class="when" title=${exact(at(event))}>+${lasting(at(event) - begins)}</span> <code>${type}</code>
    ${by ? html`<span class="by">${person(by, true)}</span>` : null} <span class="quiet">${JSON.stringify(payload).slice(0, SUMMARY)}</span>`;
}
