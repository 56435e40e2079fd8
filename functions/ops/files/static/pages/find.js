// @ts-check
/** Search by any id: each kind of thing has a finder, which knows its ids and where they are shown. */
import { ApiError, get, part } from "../api.js";
import { id } from "../format.js";
import { empty } from "../parts/show.js";
import { html } from "../render.js";
import { go, link } from "../router.js";

export const title = "Search";

/** @typedef {{ what: string, form: RegExp, look: (text: string, signal: AbortSignal) => Promise<string | null> }} Finder `look`: the view's address */

/** Add the finder of a page here. @type {Finder[]} */
const FINDERS = [
  { what: "execution, by its id", form: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    look: (text, signal) => there(`kernel/executions/${part(text)}`, link(`/executions/${part(text)}`), signal) },
  { what: "piece, by its key", form: /^[0-9a-f]{64}$/, look: (text, signal) => there(`pieces/${part(text)}`, link(`/pieces/${part(text)}`), signal) },
  { what: "hired task or contract, by the contract's id", form: /^ctr_[A-Za-z0-9_-]{1,60}$/, look: async (text) => link(`/hired/${part(text)}`) },
];

/** @param {string} path @param {string} address @param {AbortSignal} signal */
export async function there(path, address, signal) {
  try {
    await get(path, {}, signal);
    return address;
  } catch (error) {
    if (error instanceof ApiError && [400, 404].includes(error.status)) return null;
    throw error;
  }
}

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const text = (query.q ?? "").trim();
  const fitting = FINDERS.filter(({ form }) => form.test(text));
  const found = (await Promise.all(fitting.map(({ look }) => look(text, signal)))).filter((address) => address !== null);
  if (signal.aborted) return;
  if (found.length === 1) return go(found[0], { replace: true });
  show(html`<h1>Search</h1>
    ${text ? html`<p>For ${id(text)}</p>` : null}
    ${found.map((address) => html`<p><a href=${address}>${address}</a></p>`)}
    ${found.length ? null : empty("Nothing has this id", html`The search knows: ${FINDERS.map(({ what }) => what).join(", ")}. A piece is also in the
      <a href=${link("/pieces")}>list of pieces</a>.`)}`);
}
