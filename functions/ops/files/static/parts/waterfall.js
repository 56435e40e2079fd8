// @ts-check
/** Rows of time as our own SVG: work is filled, waits are hatched, a line is now. Only rows that are seen are drawn. */
import { html } from "../render.js";
import { durations, lasting, WAITS, WORDS } from "./timeline.js";
import "./rows.js";

const TICKS = 5;
const AHEAD = 1.06; // of what has passed: room behind the line that is now
const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 18e5, 36e5, 108e5, 432e5, 864e5, 6048e5];
const LEGEND = /** @type {[string, string][]} */ ([["work", "work"], ["model", "model call"], ["wait", "waits"], ["failed", "failed"]]);

/** @typedef {import("./timeline.js").Row} Row */
/** @typedef {{ timeline: import("./timeline.js").Timeline, now: number, selected: string, select: (key: string) => void }} Drawn */

/** The waterfall. @param {Drawn} drawn */
export function waterfall({ timeline, now, selected, select }) {
  const { rows, begins, ends } = timeline;
  const until = begins + Math.max(1, (ends ?? now) - begins) * (ends === null ? AHEAD : 1);
  /** @param {number} ms */
  const place = (ms) => `${Math.min(100, Math.max(0, ((ms - begins) / (until - begins)) * 100)).toFixed(3)}%`;
  return html`
    <svg class="unseen" aria-hidden="true" focusable="false"><defs>
      <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="hatch" width="6" height="6"></rect><line class="hatch" x1="0" y1="0" x2="0" y2="6"></line>
      </pattern></defs></svg>
    <div class="waterfall">
      ${axis(begins, until, place)}
      <pw-rows class="lanes" aria-label="Steps in time" .items=${rows} .itemkey=${(/** @type {Row} */ row) => row.key}
        .row=${(/** @type {Row} */ row) => lane(row, now, ends, place, row.key === selected, select)}></pw-rows>
      <ul class="legend" aria-label="What the bars mean">${LEGEND.map(([kind, what]) => html`<li>
        <svg class="key" aria-hidden="true" focusable="false"><rect class="bar" data-kind=${kind} fill=${kind === "wait" ? "url(#hatch)" : null}
          width="100%" height="100%"></rect></svg>${what}</li>`)}</ul>
    </div>`;
}

/** @param {number} begins @param {number} until @param {(ms: number) => string} place */
function axis(begins, until, place) {
  const wide = until - begins;
  const step = STEPS_MS.find((each) => wide / each <= TICKS) ?? Math.ceil(wide / TICKS / 6048e5) * 6048e5;
  const ticks = Array.from({ length: Math.floor(wide / step) + 1 }, (_, number) => number * step);
  return html`<div class="lane axis" aria-hidden="true"><span></span><svg class="time" focusable="false">${ticks.map((tick) => html`<svg class="tick">
    <line class="tick" x1=${place(begins + tick)} x2=${place(begins + tick)} y1="0" y2="100%"></line>
    <text x=${place(begins + tick)} dx="4" y="14">${tick ? `+${plain(tick)}` : "0"}</text></svg>`)}</svg><span></span></div>`;
}

/** @param {number} ms */
const plain = (ms) => (ms < 1_000 ? `${ms} ms` : ms < 60_000 ? `${ms / 1_000} s` : lasting(ms));

/** @param {Row} row @param {number} now @param {number | null} ends @param {(ms: number) => string} place @param {boolean} isSelected
 * @param {(key: string) => void} select */
function lane(row, now, ends, place, isSelected, select) {
  const until = ends ?? now;
  return html`<div class="lane" data-selected=${isSelected ? "true" : null}>
    <button type="button" class="step" aria-pressed=${String(isSelected)} title=${row.name} @click=${() => select(row.key)}>
      <span class="what">${row.what}</span> ${row.name}</button>
    <svg class="time" aria-hidden="true" focusable="false">
      ${row.spans.map((span) => bar(span, until, place))}
      ${row.marks.map((mark) => html`<svg><circle class="mark" cx=${place(mark.at)} cy="50%" r="3"></circle></svg>`)}
      ${row.isFailed ? html`<svg><rect class="bar" data-kind="failed" x=${place(last(row, until))} y="3" width="4" height="16"></rect></svg>` : null}
      ${ends === null ? html`<svg><line class="now" x1=${place(now)} x2=${place(now)} y1="0" y2="100%"></line></svg>` : null}
    </svg>
    <span class="said-short">${standing(row, until)}</span>
  </div>`;
}

/** @param {import("./timeline.js").Span} span @param {number} until @param {(ms: number) => string} place */
function bar({ from, to, kind }, until, place) {
  const [left, right] = [place(from), place(to ?? until)];
  const isWait = WAITS.has(kind);
  return html`<svg><rect class="bar" data-kind=${kind} data-wait=${isWait ? "true" : null} fill=${isWait ? "url(#hatch)" : null}
    x=${left} width=${`${(parseFloat(right) - parseFloat(left)).toFixed(3)}%`} y="5" height="12" rx="2"></rect></svg>`;
}

/** @param {Row} row @param {number} until */
const last = (row, until) => row.spans.at(-1)?.to ?? until;

/** How a row stands, in words. @param {Row} row @param {number} until */
export function standing(row, until) {
  const span = row.spans.at(-1);
  const { waited, worked } = durations(row, until);
  const state = span?.to === null ? WORDS[span.kind] : row.state;
  return `${state}, ${lasting(waited + worked)}`;
}
