// @ts-check
/** A task's states as a picture: all that may follow which, where it stands, where it was and where it may go. */
import { visible } from "../text.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDE, HIGH] = [152, 34];

/** What may follow each state, as the worker's own table has it. @type {Record<string, string[]>} */
export const MOVES = {
  NONE: ["EXECUTING"],
  EXECUTING: ["RESULT_READY", "SETTLING", "UNPAID", "COMPLETED", "PARTIAL_FINAL", "FAILED_TRANSIENT", "FAILED_PERMANENT", "EXHAUSTED", "TIMED_OUT"],
  RESULT_READY: ["SETTLING", "UNPAID", "TIMED_OUT"],
  SETTLING: ["COMPLETED", "PARTIAL_FINAL", "RESULT_READY", "UNPAID", "UNKNOWN", "EXECUTING", "FAILED_PERMANENT"],
  UNKNOWN: ["SETTLING", "COMPLETED", "PARTIAL_FINAL", "UNPAID", "EXECUTING", "FAILED_PERMANENT"],
  UNPAID: ["RESULT_READY", "EXECUTING", "TIMED_OUT"],
  FAILED_TRANSIENT: ["EXECUTING", "TIMED_OUT"],
  FAILED_PERMANENT: ["EXECUTING"],
  COMPLETED: [],
  PARTIAL_FINAL: [],
  EXHAUSTED: [],
  TIMED_OUT: [],
};

/** What each state means, in a few words. @type {Record<string, string>} */
export const MEANS = {
  NONE: "nobody has paid yet",
  EXECUTING: "the work is being done",
  RESULT_READY: "the result is kept until its payment can be sent",
  SETTLING: "the payment is being settled",
  UNKNOWN: "the payment was sent, and nobody knows yet what became of it",
  UNPAID: "the payment was not taken; another one releases the result",
  COMPLETED: "paid and released",
  PARTIAL_FINAL: "paid, and released as far as it was finished",
  FAILED_TRANSIENT: "failed for now; the next attempt may work",
  FAILED_PERMANENT: "failed for good",
  EXHAUSTED: "every attempt failed",
  TIMED_OUT: "its time was over",
};

/** The middle of each state. @type {Record<string, [number, number]>} */
const PLACES = {
  NONE: [90, 130],
  EXECUTING: [290, 130],
  FAILED_TRANSIENT: [200, 330],
  FAILED_PERMANENT: [470, 330],
  RESULT_READY: [490, 40],
  SETTLING: [670, 130],
  UNKNOWN: [670, 240],
  UNPAID: [440, 215],
  COMPLETED: [890, 130],
  PARTIAL_FINAL: [890, 240],
  EXHAUSTED: [90, 230],
  TIMED_OUT: [200, 40],
};

/** The picture; `went` are the states that the task is known to have been in. @param {string} at @param {string[]} went */
export function graph(at, went) {
  const seen = new Set([...went, "NONE"]);
  const next = MOVES[at] ?? [];
  const picture = made("svg", { viewBox: "0 0 980 365", class: "graph", role: "img", "aria-label": said(at, next) });
  const marks = made("defs", {});
  for (const kind of ["faint", "next"]) {
    const mark = made("marker", { id: `tip-${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", class: kind });
    mark.append(made("path", { d: "M0 0 L8 4 L0 8 z" }));
    marks.append(mark);
  }
  picture.append(marks);
  const arrows = Object.entries(MOVES).flatMap(([from, all]) => all.map((to) => ({ from, to, kind: from === at ? "next" : "faint" })));
  arrows.sort((one, other) => Number(one.kind === "next") - Number(other.kind === "next")); // those that matter lie on top
  for (const { from, to, kind } of arrows) picture.append(made("path", { d: arrow(from, to), class: `arrow ${kind}`, "marker-end": `url(#tip-${kind})` }));
  for (const state of Object.keys(MOVES)) picture.append(box(state, state === at ? "at" : next.includes(state) ? "next" : seen.has(state) ? "seen" : "other"));
  return picture;
}

/** @param {string} at @param {string[]} next */
const said = (at, next) => `It stands in ${at}: ${MEANS[at] ?? "?"}. ${next.length ? `From there it may go to ${next.join(", ")}.` : "It ends here."}`;

/** A curve from the edge of one state to that of another, bowed to the right, so that two ways do not lie on each other.
 * @param {string} from @param {string} to */
function arrow(from, to) {
  const [[x1, y1], [x2, y2]] = [PLACES[from], PLACES[to]];
  const far = Math.hypot(x2 - x1, y2 - y1);
  const bow = MOVES[to].includes(from) || Math.abs(y2 - y1) < HIGH && far > 300 ? Math.min(0.16 * far, 46) : 0;
  const [cx, cy] = [(x1 + x2) / 2 + ((y2 - y1) / far) * bow, (y1 + y2) / 2 - ((x2 - x1) / far) * bow];
  const [[sx, sy], [ex, ey]] = [edge(x1, y1, cx, cy), edge(x2, y2, cx, cy)];
  return `M${sx} ${sy} Q${cx.toFixed(1)} ${cy.toFixed(1)} ${ex} ${ey}`;
}

/** Where a line from the middle of a state towards a point leaves its box. @param {number} x @param {number} y @param {number} px
 * @param {number} py */
function edge(x, y, px, py) {
  const [dx, dy] = [px - x, py - y];
  const part = Math.min(WIDE / 2 / Math.abs(dx || 1e-9), HIGH / 2 / Math.abs(dy || 1e-9), 1);
  return [(x + dx * part).toFixed(1), (y + dy * part).toFixed(1)];
}

/** @param {string} state @param {string} kind */
function box(state, kind) {
  const [x, y] = PLACES[state];
  const group = made("g", { class: `state ${kind}`, "data-state": state });
  const label = made("text", { x, y: y + 4, "text-anchor": "middle" });
  label.append(state);
  const about = made("title", {});
  about.append(MEANS[state]);
  group.append(about, made("rect", { x: x - WIDE / 2, y: y - HIGH / 2, width: WIDE, height: HIGH, rx: 6 }), label);
  return group;
}

/** @param {string} name @param {Record<string, string | number>} attributes */
function made(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, visible(value));
  return element;
}
