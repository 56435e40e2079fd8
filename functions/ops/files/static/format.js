// @ts-check
/** How values are written: times, amounts, sizes, ids. Nothing that one decides on is rounded or shortened. */
import { html } from "./render.js";

const UNITS = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([
  ["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1_000],
]);
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "long" });
const LATEST_MS = 8.64e15; // of a Date

/** The exact time in UTC with milliseconds; what is not a time is shown as it is. @param {unknown} ms */
export function exact(ms) {
  return typeof ms === "number" && Math.abs(ms) <= LATEST_MS ? new Date(ms).toISOString() : String(ms);
}

/** How long ago, or in how long. @param {number} ms @param {number} [now] */
export function ago(ms, now = Date.now()) {
  const apart = ms - now;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(apart) >= size) ?? UNITS[3];
  return relative.format(Math.trunc(apart / size), unit);
}

/** A time: relative to now, exact on hover and for machines. @param {number | null | undefined} ms */
export function time(ms) {
  if (ms == null) return html`<span class="quiet">–</span>`;
  if (typeof ms !== "number" || Math.abs(ms) > LATEST_MS) return String(ms);
  return html`<time datetime=${exact(ms)} title=${exact(ms)} data-ms=${ms}>${ago(ms)}</time>`;
}

/** Write the relative times under an element anew. @param {ParentNode} root */
export function refreshTimes(root) {
  for (const element of root.querySelectorAll("time[data-ms]")) {
    const text = ago(Number(/** @type {HTMLElement} */ (element).dataset.ms));
    if (element.textContent !== text) element.textContent = text;
  }
}

/** An amount of atomic units as a decimal, exact: amount("1500000", 6) is "1.5". @param {unknown} atomic @param {number} decimals */
export function amount(atomic, decimals) {
  if (!/^-?[0-9]{1,100}$/.test(String(atomic))) return String(atomic);
  const value = BigInt(/** @type {string} */ (atomic));
  const sign = value < 0n ? "-" : "";
  const digits = (value < 0n ? -value : value).toString().padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const part = decimals ? digits.slice(-decimals).replace(/0+$/, "") : "";
  return `${sign}${whole}${part && "."}${part}`;
}

/** A size in bytes with its unit; the exact number on hover. @param {unknown} count */
export function bytes(count) {
  const size = Number(count);
  if (!Number.isFinite(size) || size < 0) return String(count);
  const power = size < 1_000 ? 0 : Math.min(Math.floor(Math.log10(size) / 3), 4);
  const text = power ? `${(size / 1_000 ** power).toPrecision(3)} ${["B", "kB", "MB", "GB", "TB"][power]}` : `${size} B`;
  return html`<span title=${counted(size, "byte")}>${text}</span>`;
}

/** A count with thousands apart; null is not known. @param {number | null | undefined} value */
export function count(value) {
  return value == null ? html`<span class="quiet" title="not known">?</span>` : value.toLocaleString("en").replaceAll(",", "\u202f");
}

const plurals = new Intl.PluralRules("en");
/** So many of something: counted(1, "execution") is "1 execution". @param {number} value @param {string} one @param {string} [more] */
export const counted = (value, one, more = `${one}s`) => `${value.toLocaleString("en").replaceAll(",", "\u202f")} ${form(value, one, more)}`;
/** The form of a word beside a number: form(2, "waits", "wait"). @param {number} value @param {string} one @param {string} more */
export const form = (value, one, more) => (plurals.select(value) === "one" ? one : more);

/** An age in whole seconds; null is not known. @param {number | null | undefined} seconds */
export const age = (seconds) => (seconds == null ? count(null) : html`${count(seconds)} s`);

/** A long id for a list: wraps, is never cut, and reads as one word. @param {unknown} text */
export function id(text) {
  return text == null ? html`<span class="quiet">–</span>` : html`<code class="id">${text}</code>`;
}
