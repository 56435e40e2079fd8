// @ts-check
/** Histograms as our own SVG: how many fell into each stretch of time, or how much into each day. Every bar says its numbers in words. */
import { exact } from "../format.js";
import { html } from "../render.js";
import { toneOf } from "./show.js";

const STRETCHES = 12;
const LEAST = 4; // percent of the height, so that little is not nothing

/** @typedef {{ tone: string, size: number }} Part of a bar, from the ground up */
/** @typedef {{ said: string, parts: Part[], href?: string }} Bar */

/** Bars beside each other; those with an address are links.
 * @param {string} name what the bars count @param {Bar[]} bars @param {[unknown, unknown]} ends what the first and the last bar are */
export function histogram(name, bars, [first, last]) {
  const highest = Math.max(...bars.map(total));
  if (!(highest > 0)) return null;
  return html`<figure class="histogram">
    <ol aria-label=${name}>${bars.map((each) => html`<li title=${each.said}>${each.href
      ? html`<a href=${each.href} aria-label=${each.said}>${drawn(each, highest)}</a>`
      : html`<span class="unseen">${each.said}</span>${drawn(each, highest)}`}</li>`)}</ol>
    <figcaption><span>${first}</span><span>${name}</span><span>${last}</span></figcaption>
  </figure>`;
}

/** @param {Bar} bar */
const total = ({ parts }) => parts.reduce((sum, { size }) => sum + size, 0);

/** @param {Bar} bar @param {number} highest */
function drawn({ parts }, highest) {
  const seen = parts.filter(({ size }) => size > 0).map(({ tone, size }) => ({ tone, size: Math.max(LEAST, (size / highest) * 100) }));
  const room = Math.max(100, seen.reduce((sum, { size }) => sum + size, 0));
  let ground = 100;
  return html`<svg aria-hidden="true" focusable="false">${seen.map(({ tone, size }) => {
    const height = (size / room) * 100;
    ground -= height;
    return html`<svg><rect data-tone=${tone} x="6%" width="88%" y=${`${ground.toFixed(2)}%`} height=${`${height.toFixed(2)}%`}></rect></svg>`;
  })}</svg>`;
}

/** How many of what came fell into each of twelve equal stretches, by how they stand.
 * @param {{ name: string, came: { ms: number, state: string }[], from: number, to: number, href?: (from: number, to: number) => string }} asked */
export function overTime({ name, came, from, to, href }) {
  const long = Math.max(STRETCHES, to - from); // ms; whole numbers alone, so that a bar and its address agree
  const edge = (/** @type {number} */ at) => from + Math.ceil((at * long) / STRETCHES);
  const of = (/** @type {number} */ ms) => Math.min(STRETCHES - 1, Math.max(0, Math.floor(((ms - from) * STRETCHES) / long)));
  const bars = Array.from({ length: STRETCHES }, (_, at) => {
    const [begins, ends] = [edge(at), edge(at + 1)];
    const here = came.filter(({ ms }) => of(ms) === at);
    const states = [...new Set(here.map(({ state }) => state))].sort();
    const parts = states.map((state) => ({ state, tone: toneOf(state), size: here.filter((each) => each.state === state).length }));
    const counts = parts.map(({ state, size }) => `${size} ${state}`).join(", ") || "0";
    return { said: `${clock(begins)} to ${clock(ends)}: ${counts}`, parts, href: here.length ? href?.(begins, ends) : undefined };
  });
  return histogram(name, bars, [clock(from), clock(to)]);
}

/** @param {number} ms */
const clock = (ms) => exact(ms).slice(0, 19).replace("T", " ");
