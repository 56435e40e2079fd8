// @ts-check
/** Who did something, as a reader knows them; on hover as it is recorded. */
import { who } from "../auth.js";
import { html } from "../render.js";

const AT_OPS = "ops:"; // before the names of this door's callers, where the kernel door records them
const PERSON = "person:"; // before a subject of the issuer: no token's name has a colon

/** "you", "person 7b5c…", the name of a token, or that of a token of the kernel door.
 * @param {string | null | undefined} by as it is recorded @param {boolean} [isOfKernel] whether the kernel door has recorded it */
export function called(by, isOfKernel = false) {
  if (!by) return "–";
  if (isOfKernel && !by.startsWith(AT_OPS)) return `${by} of the kernel door`;
  const name = isOfKernel ? by.slice(AT_OPS.length) : by;
  if (name === who()?.name) return "you";
  return name.startsWith(PERSON) ? `person ${name.slice(PERSON.length)}` : name;
}

/** The same in a template. @param {string | null | undefined} by @param {boolean} [isOfKernel] */
export const person = (by, isOfKernel) => html`<span class="said" title=${by}>${called(by, isOfKernel)}</span>`;
