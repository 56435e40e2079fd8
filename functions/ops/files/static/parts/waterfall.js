// @ts-check
/** Rows of time as our own SVG: work is filled, waits are hatched, a line is now. Only rows that are seen are drawn. */
import { html } from "../render.js";
import { scale } from "./scale.js";
import { durations, lasting, WAITS, WORDS } from "./timeline.js";
import "./rows.js";

const TICKS = 5;
const AHEAD = 1.06; // of what has passed: room behind the line that is now
const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 18e5, 36e5, 108e5, 432e5, 864e5, 6048e5];
const LEGEND = /** @type {[string, string][]} */ ([["work", "work"], ["model", "model call"], ["wait", "waits"], ["failed", "failed"]]);

/** @typedef {import("./timeline.js").Row} Row */
/** @typedef {{ timeline: import("./timeline.js").Timeline, now: number, isFolding: boolean, selected: string, select: (key: string) => void }} Drawn */
/** @typedef {{ place: (ms: number) => string, folds: import("./scale.js").Stretch[], now: number, ends: number | null }} Axis */

/** The waterfall. @param {Drawn} drawn */
export function waterfall({ timeline, now, isFolding, selected, select }) {
  const { rows, begins, ends } = timeline;
  const until = ends ?? now;
  const { place, folds } = scale(rows, begins, Math.max(until, begins + 1), isFolding);
  const room = ends === null ? AHEAD : 1;
  /** @type {Axis} */
  const along = { place: (ms) => `${(place(ms) / room).toFixed(3)}%`, folds, now, ends };
  return html`
    <svg class="unseen" aria-hidden="true" focusable="false"><defs>
      <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="hatch" width="6" height="6"></rect><line class="hatch" x1="0" y1="0" x2="0" y2="6"></line>
      </pattern></defs></svg>
    <div class="waterfall">
      ${head(begins, until, along)}
      <pw-rows class="lanes" aria-label="Steps in time" .items=${rows} .itemkey=${(/** @type {Row} */ row) => row.key}
        .row=${(/** @type {Row} */ row) => lane(row, along, row.key === selected, select)}></pw-rows>
      <ul class="legend" aria-label="What the bars mean">${LEGEND.map(([kind, what]) => html`<li>
        <svg class="key" aria-hidden="true" focusable="false"><rect class="bar" data-kind=${kind} fill=${kind === "wait" ? "url(#hatch)" : null}
          width="100%" height="100%"></rect></svg>${what}</li>`)}</ul>
    </div>`;
}

/** Times above the rows: regular ones, or where there are folds, those at which work goes on.
 * @param {number} begins @param {number} until @param {Axis} along */
function head(begins, until, { place, folds }) {
  const wide = until - begins;
  const step = STEPS_MS.find((each) => wide / each <= TICKS) ?? Math.ceil(wide / TICKS / 6048e5) * 6048e5;
  const regular = Array.from({ length: Math.floor(wide / step) + 1 }, (_, number) => begins + number * step);
  const ticks = folds.length ? [begins, ...folds.map(({ to }) => to).filter((to) => to < until)] : regular;
  return html`<div class="lane axis" aria-hidden="true"><span></span><svg class="time" focusable="false">
    ${folds.map(({ from, to }) => html`<svg><text x=${place(from)} dx="4" y="14">⋯ ${lasting(to - from)}</text></svg>`)}
    ${ticks.map((tick) => html`<svg class="tick"><line class="tick" x1=${place(tick)} x2=${place(tick)} y1="0" y2="100%"></line>
      <text x=${place(tick)} dx="4" y="14">${tick > begins ? `+${plain(tick - begins)}` : folds[0]?.from === begins ? "" : "0"}</text></svg>`)}</svg><span></span></div>`;
}

/** @param {number} ms */
const plain = (ms) => (ms < 1_000 ? `${ms} ms` : ms < 60_000 ? `${ms / 1_000} s` : lasting(ms));

/** @param {Row} row @param {Axis} along @param {boolean} isSelected @param {(key: string) => void} select */
function lane(row, { place, folds, now, ends }, isSelected, select) {
  const until = ends ?? now;
  return html`<div class="lane" data-selected=${isSelected ? "true" : null}>
    <button type="button" class="step" aria-pressed=${String(isSelected)} title=${row.name} @click=${() => select(row.key)}>
      <span class="what">${row.what}</span> ${row.name}</button>
    <svg class="time" aria-hidden="true" focusable="false">
      ${folds.map(({ from, to }) => html`<svg><rect class="fold" x=${place(from)} width=${apart(place(from), place(to))} height="100%"></rect></svg>`)}
      ${row.spans.map((span) => bar(span, until, place))}
      ${row.marks.map((mark) => html`<svg><circle class="mark" cx=${place(mark.at)} cy="50%" r="3"></circle></svg>`)}
      ${row.isFailed ? html`<svg><rect class="bar" data-kind="failed" x=${place(last(row, until))} y="3" width="4" height="16"></rect></svg>` : null}
      ${ends === null ? html`<svg><line class="now" x1=${place(now)} x2=${place(now)} y1="0" y2="100%"></line></svg>` : null}
    </svg>
    <span class="said-short">${standing(row, until)}</span>
  </div>`;
}

/** @param {string} left @param {string} right */
const apart = (left, right) => `${(parseFloat(right) - parseFloat(left)).toFixed(3)}%`;

/** @param {import("./timeline.js").Span} span @param {number} until @param {(ms: number) => string} place */
function bar({ from, to, kind }, until, place) {
  const [left, right] = [place(from), place(to ?? until)];
  const isWait = WAITS.has(kind);
  return html`<svg><rect class="bar" data-kind=${kind} data-wait=${isWait ? "true" : null} fill=${isWait ? "url(#hatch)" : null}
    x=${left} width=${apart(left, right)} y="5" height="12" rx="2"></rect></svg>`;
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
