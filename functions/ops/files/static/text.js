// @ts-check
/** Texts as a reader sees them: what is invisible is written out, and a text of the other direction stays by itself. */

const PLAIN = /^[\n\t\x20-\x7e]*$/;
// Control and format characters, other spaces, lone surrogates: a reader would not see them, or see another text.
const UNSEEN = /(?![\n\t ])[\p{Cc}\p{Cf}\p{Cs}\p{Zs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu;
const THOUSANDS = /(?<=[0-9])\u202f(?=[0-9]{3})/; // the space by which `format.js` sets them apart
const TO_THE_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A text in which characters that cannot be seen, or that turn others round, are written as ⟦U+202E⟧. @param {unknown} text */
export function visible(text) {
  return String(text).replace(UNSEEN, (found) => `⟦U+${/** @type {number} */ (found.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}⟧`);
}

/** The same of a text that may hold numbers of ours: what the renderer shows. @param {unknown} text */
export function seen(text) {
  const whole = String(text);
  return PLAIN.test(whole) ? whole : whole.split(THOUSANDS).map(visible).join("\u202f");
}

/** Whether a text has letters that are read from the right, and so may turn round what stands beside it. @param {string} text */
export const isTurning = (text) => TO_THE_LEFT.test(text);
