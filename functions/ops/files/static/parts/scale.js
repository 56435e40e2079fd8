// @ts-check
/** Where a time lies on the waterfall's axis. Long stretches in which nothing works may be folded, so that work is seen. */
import { WAITS } from "./timeline.js";

const LEAST_SHARE = 0.2; // of the whole, that a stretch has which is folded
const SHOWN_SHARE = 0.25; // of the time of work, that is left of it
const LEAST_MS = 200; // that is left of it

/** @typedef {{ from: number, to: number }} Stretch */
/** @typedef {{ place: (ms: number) => number, folds: Stretch[] }} Scale `place`: in percent */

/** @param {import("./timeline.js").Row[]} rows @param {number} begins @param {number} until @param {boolean} isFolding @returns {Scale} */
export function scale(rows, begins, until, isFolding) {
  const whole = until - begins;
  const gaps = isFolding ? idle(rows, begins, until) : [];
  const busy = whole - gaps.reduce((sum, { from, to }) => sum + to - from, 0);
  const left = Math.max(busy * SHOWN_SHARE, LEAST_MS);
  const folds = gaps.filter(({ from, to }) => to - from > whole * LEAST_SHARE && to - from > 2 * left);
  const shown = whole - folds.reduce((sum, { from, to }) => sum + (to - from) - left, 0);
  /** @param {number} ms */
  const place = (ms) => {
    let passed = ms - begins;
    for (const { from, to } of folds) {
      if (ms >= to) passed -= to - from - left;
      else if (ms > from) passed -= (ms - from) * (1 - left / (to - from));
    }
    return Math.min(100, Math.max(0, (passed / shown) * 100));
  };
  return { place, folds };
}

/** The stretches in which nothing works. @param {import("./timeline.js").Row[]} rows @param {number} begins @param {number} until */
function idle(rows, begins, until) {
  const work = rows.flatMap(({ spans }) => spans.filter(({ kind }) => !WAITS.has(kind))).sort((one, other) => one.from - other.from);
  const found = /** @type {Stretch[]} */ ([]);
  let end = begins;
  for (const { from, to } of work) {
    if (from > end) found.push({ from: end, to: Math.min(from, until) });
    end = Math.max(end, to ?? until);
  }
  if (until > end) found.push({ from: end, to: until });
  return found;
}
