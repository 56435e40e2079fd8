// @ts-check
/**
 * What an execution's log tells about time: rows with spans of work and of waiting, event by event.
 *
 * A span without `to` goes on. The log may be that of earlier code or of a forgotten execution, so every member may be missing.
 */

/** @typedef {import("#ops").KernelEvent} Event */
/** @typedef {"work" | "model" | "agent" | "runner" | "person" | "signal" | "retry"} Kind the last five are waits */
/** @typedef {{ from: number, to: number | null, kind: Kind, why: string }} Span */
/**
 * `step` is the step's id, which its events have; `isFailed` draws a mark at its end.
 * @typedef {{ key: string, name: string, what: string, step: string, spans: Span[], state: string, attempt: number, note: string,
 *   isFailed: boolean, marks: { at: number, what: string }[] }} Row
 */

export const WAITS = new Set(["agent", "runner", "person", "signal", "retry"]);
const ENDS = /** @type {Record<string, string>} */ ({
  "execution.completed": "completed", "execution.failed": "failed", "execution.cancelled": "cancelled",
});

/** The time of an event. @param {{ timestamp: string }} event */
export const at = (event) => Date.parse(event.timestamp);

export class Timeline {
  rows = /** @type {Row[]} */ ([]);
  begins = 0;
  ends = /** @type {number | null} */ (null);
  last = 0;
  progress = /** @type {{ pct: number, text: string, at: number } | null} */ (null);
  tokens = /** @type {Record<string, unknown> | null} */ (null);
  #byStep = /** @type {Map<string, Row>} */ (new Map());
  #remote = /** @type {Set<string>} */ (new Set()); // steps that a runner does
  #signal = /** @type {Row | null} */ (null); // the wait for a signal that stands
  #isAttended = false; // an agent's process has the execution

  /** The row of the execution itself. */
  get whole() {
    return this.rows[0];
  }
  /** The type of the signal that is waited for, or an empty text. */
  get awaited() {
    return this.#signal?.name ?? "";
  }

  /** Take the next event. @param {Event} event */
  add(event) {
    const now = at(event);
    this.last = now;
    if (!this.rows.length) this.begins = now, this.#row({ key: "execution", name: "execution", what: "execution", state: "pending" });
    const take = TAKES[event.type];
    if (event.type in ENDS) this.#ended(now, ENDS[event.type], told(event.payload.error ?? event.payload.reason));
    else take?.call(this, event, now, /** @type {Record<string, any>} */ (event.payload), this.#byStep.get(event.step_id));
  }

  /** @param {Partial<Row> & { key: string, name: string, what: string }} given */
  #row(given) {
    const row = { step: "", spans: [], state: "", attempt: 1, note: "", isFailed: false, marks: [], ...given };
    this.rows.push(row);
    return row;
  }
  /** @param {number} now @param {string} state @param {string} note */
  #ended(now, state, note) {
    for (const row of this.rows) if (close(row, now)) row.state = row === this.whole ? row.state : state;
    Object.assign(this.whole, { state, note, isFailed: state === "failed" });
    this.#signal = null;
    this.ends = now;
  }

  /** @type {Take} */
  created({}, now, { agent_id }) {
    this.whole.name = told(agent_id);
    next(this.whole, now, "agent", "an agent to take it");
  }
  /** @type {Take} */
  started({}, now, { consumer_id }) {
    this.#isAttended = true;
    this.whole.state = "running";
    next(this.whole, now, "work", told(consumer_id));
  }
  /** @type {Take} */
  blocked({}, now, { reason, ref, tool_id }) {
    this.whole.state = "blocked";
    next(this.whole, now, reason === "signal" ? "signal" : "person", told(reason === "signal" ? ref : tool_id));
    if (reason !== "signal") return;
    this.#signal = this.#row({ key: `signal-${this.rows.length}`, name: told(ref), what: "signal", state: "waiting" });
    next(this.#signal, now, "signal", told(ref));
  }
  /** @type {Take} */
  resumed({}, now, { reason }) {
    this.#unblocked(now, "received");
    this.whole.state = "running";
    next(this.whole, now, this.#isAttended ? "work" : "agent", told(reason));
  }
  /** @type {Take} */
  reset({}, now, { reason }) {
    this.#unblocked(now, "given up");
    this.#isAttended = false;
    this.whole.state = "pending";
    next(this.whole, now, "agent", told(reason));
  }
  /** @type {Take} */
  lost({}, now) {
    this.#isAttended = false;
    this.whole.marks.push({ at: now, what: "its agent was lost" });
    if (open(this.whole)?.kind === "work") next(this.whole, now, "agent", "its agent was lost");
  }
  /** @type {Take} */
  denied(event, now, { tool_id, reason, rule_id }) {
    const row = this.#row({ key: `denied-${event.sequence}`, name: told(tool_id), what: "call", state: "denied", isFailed: true });
    row.note = rule_id ? `${told(reason)} (rule ${told(rule_id)})` : told(reason);
    row.spans.push({ from: now, to: now, kind: "work", why: "denied" });
  }
  /** @type {Take} */
  called({ step_id }, now, { tool_id, remote, max_attempts, attempt }) {
    const row = this.#row({ key: step_id, step: step_id, name: told(tool_id), what: "call", state: "pending" });
    row.attempt = Number(attempt ?? 1);
    if (remote ?? max_attempts > 1) this.#remote.add(step_id);
    this.#byStep.set(step_id, row);
    next(row, now, this.#remote.has(step_id) ? "runner" : "work", "");
  }
  /** @type {Take} */
  asked({ step_id }, now, { remote, reason }, row) {
    this.#remote[remote ? "add" : "delete"](step_id);
    if (row) Object.assign(row, { state: "waiting", note: told(reason) }), next(row, now, "person", told(reason));
  }
  /** @type {Take} */
  dispatched({ step_id }, now, { runner_id }, row) {
    const isRemote = this.#remote.has(step_id);
    if (row) (row.state = isRemote ? "queued" : "running"), (row.note = ""), next(row, now, isRemote ? "runner" : "work", told(runner_id));
  }
  /** @type {Take} */
  begun({}, now, { runner_id }, row) {
    if (row) (row.state = "running"), next(row, now, "work", told(runner_id));
  }
  /** @type {Take} */
  failed({}, now, { error, retryable }, row) {
    if (!row) return;
    Object.assign(row, { state: retryable ? "failed, tried again" : "failed", note: told(error), isFailed: !retryable });
    close(row, now);
    if (retryable) row.marks.push({ at: now, what: told(error) });
  }
  /** @type {Take} */
  retried({}, now, { next_attempt }, row) {
    if (row) Object.assign(row, { attempt: Number(next_attempt), state: "waiting" }), next(row, now, "retry", `attempt ${told(next_attempt)}`);
  }
  /** @param {string} state @param {boolean} isFailed @returns {Take} */
  static end = (state, isFailed) =>
    function ({}, now, { reason }, row) {
      if (row) close(row, now), Object.assign(row, { state, isFailed, note: told(reason) });
    };
  /** @type {Take} */
  signalled({}, now, { signal_type }) {
    this.whole.marks.push({ at: now, what: `signal ${told(signal_type)}` });
  }
  /** @type {Take} */
  ran(event, now, { name, place, started_at, ended_at, bytes, left_out }) {
    const kind = /^model-\d+$/.test(told(name)) ? "model" : "work"; // as `completion` names its calls
    const row = this.#row({ key: `run-${event.sequence}`, name: told(name), what: kind === "model" ? "model call" : "run.step", state: "done" });
    row.spans.push({ from: Date.parse(started_at) || now, to: Date.parse(ended_at) || now, kind, why: "" });
    const more = left_out ? `; ${told(left_out)} further ${told(left_out) === "1" ? "step was" : "steps were"} not told` : "";
    row.note = `${told(bytes)} ${told(bytes) === "1" ? "byte" : "bytes"}${place > 1 ? `, number ${told(place)} of this name` : ""}${more}`;
  }
  /** @type {Take} */
  advanced({}, now, { pct, text: said }) {
    this.progress = { pct: Number(told(pct)), text: told(said), at: now };
    this.whole.marks.push({ at: now, what: `${told(pct)}% ${told(said)}` });
  }
  /** @type {Take} */
  counted({}, now, figures) {
    this.tokens = figures;
    this.whole.marks.push({ at: now, what: `model calls so far: ${told(figures.model_calls ?? "?")}` });
  }

  /** @param {number} now @param {string} state */
  #unblocked(now, state) {
    if (this.#signal) close(this.#signal, now), (this.#signal.state = state);
    this.#signal = null;
  }
}

/** @typedef {(this: Timeline, event: Event, now: number, payload: Record<string, any>, row?: Row) => void} Take */
const of = Timeline.prototype;
const TAKES = /** @type {Record<string, Take>} */ ({
  "execution.created": of.created,
  "execution.started": of.started,
  "execution.blocked": of.blocked,
  "execution.resumed": of.resumed,
  "execution.reset": of.reset,
  "agent.timeout": of.lost,
  "intent.denied": of.denied,
  "step.created": of.called,
  "step.approval_required": of.asked,
  "step.dispatched": of.dispatched,
  "step.started": of.begun,
  "step.failed": of.failed,
  "step.retried": of.retried,
  "step.completed": Timeline.end("done", false),
  "step.timed_out": Timeline.end("timed out", true),
  "step.cancelled": Timeline.end("cancelled", true),
  "signal.received": of.signalled,
  "run.step": of.ran,
  "run.progress": of.advanced,
  "run.tokens": of.counted,
});

/** A value as a text. Numbers that are kept as they were written are objects. @param {unknown} value */
export const told = (value) => (value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));

/** The span that goes on. @param {Row} row */
const open = (row) => (row.spans.at(-1)?.to === null ? row.spans.at(-1) : undefined);

/** @param {Row} row @param {number} now @returns {boolean} whether one was open */
function close(row, now) {
  const span = open(row);
  if (span) span.to = now;
  return Boolean(span);
}

/** @param {Row} row @param {number} now @param {Kind} kind @param {string} why */
function next(row, now, kind, why) {
  const span = open(row);
  if (span?.kind === kind && span.why === why) return;
  close(row, now);
  row.spans.push({ from: now, to: null, kind, why });
}

/** How long a row waited and worked until `now`, in milliseconds. @param {Row} row @param {number} now */
export function durations({ spans }, now) {
  let [waited, worked] = [0, 0];
  for (const { from, to, kind } of spans) WAITS.has(kind) ? (waited += (to ?? now) - from) : (worked += (to ?? now) - from);
  return { waited: Math.max(0, waited), worked: Math.max(0, worked) };
}

/** A length of time in words: exact under a second. @param {number} ms */
export function lasting(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(2)} s`;
  const [days, hours, minutes] = [Math.floor(ms / 86_400_000), Math.floor(ms / 3_600_000) % 24, Math.floor(ms / 60_000) % 60];
  const seconds = Math.floor(ms / 1_000) % 60;
  return [[days, "d"], [hours, "h"], [minutes, "min"], [seconds, "s"]].filter(([count]) => count).slice(0, 2).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

/** What a wait is for, in words. @type {Record<Kind, string>} */
export const WORDS = {
  work: "at work", model: "model call", agent: "waits for an agent", runner: "waits for a runner", person: "waits for a person",
  signal: "waits for a signal", retry: "waits for its next attempt",
};
