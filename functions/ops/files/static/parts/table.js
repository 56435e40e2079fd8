// @ts-check
/** A list with pages: rows, what stands where there are none, and a button for the following page. */
import { get } from "../api.js";
import { each, html } from "../render.js";
import { empty, failure } from "./show.js";

const MOST_EMPTY = 10; // pages without an item that are passed by themselves

/**
 * @template T
 * @typedef {object} Listed
 * @property {string} path under /ops, whose answer is { items, next }
 * @property {import("../api.js").Query} query
 * @property {string} name of the list, for screen readers
 * @property {string[]} heads
 * @property {(item: T) => unknown} key
 * @property {(item: T) => unknown[]} cells one for each head
 * @property {() => unknown} none what to do next where the list is empty
 * @property {(item: T) => string | undefined} [tone]
 * @property {number} [mostEmpty] pages without an item that are passed by themselves
 */

/** Draw a list into `draw`, page after page. A page of the door may be empty and still have a following one.
 * @template T @param {Listed<T>} listed @param {(content: unknown) => void} draw @param {AbortSignal} signal */
export async function list(listed, draw, signal) {
  let items = /** @type {T[]} */ ([]);
  let [next, isBusy, error] = /** @type {[string | null, boolean, unknown]} */ ([null, false, null]);
  const show = () => draw(shown(listed, items, next, isBusy, error, more));
  const more = async () => {
    if (isBusy) return;
    (isBusy = true), (error = null), show();
    try {
      for (let pages = 0, found = 0; pages < (listed.mostEmpty ?? MOST_EMPTY) && !found && (pages === 0 || next); pages += 1) {
        const page = await get(listed.path, { ...listed.query, cursor: next }, signal);
        items = [...items, ...page.items];
        next = page.next;
        found = page.items.length;
      }
    } catch (problem) {
      error = problem;
    }
    isBusy = false;
    if (!signal.aborted) show();
  };
  await more();
}

/** @template T @param {Listed<T>} listed @param {T[]} items @param {string | null} next @param {boolean} isBusy @param {unknown} error
 * @param {() => void} more */
function shown(listed, items, next, isBusy, error, more) {
  const isEmpty = !items.length && !next && !isBusy && !error;
  return html`
    ${items.length ? table(listed, items) : null}
    ${isEmpty ? listed.none() : null}
    ${!items.length && next ? empty("Nothing on this part of the list", "The door reads a bounded number of rows at once. Go on for the rest.") : null}
    ${error ? failure(error, more) : null}
    <p class="more" aria-live="polite">
      ${isBusy ? "Loading…" : next ? html`<button type="button" @click=${more}>Load more</button>` : null}
    </p>`;
}

/** A table without pages. @template T @param {Pick<Listed<T>, "name" | "heads" | "key" | "cells" | "tone">} listed @param {T[]} items */
export function table({ name, heads, key, cells, tone }, items) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${name}>
    <table>
      <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
      <tbody>
        ${each(items, key, (item) => html`<tr data-tone=${tone?.(item)}>
          ${cells(item).map((cell, at) => html`<td data-head=${heads[at]}>${cell}</td>`)}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}
