// @ts-check
/** Pieces of the runtime door: the list and its filters, which are in the address. */
import { part } from "../api.js";
import { id, time } from "../format.js";
import { badge, empty } from "../parts/show.js";
import { list } from "../parts/table.js";
import { html } from "../render.js";
import { go, link } from "../router.js";

export const title = "Pieces";
const STATES = ["running", "done", "failed", "released"];
const FILTERS = ["caller", "executor", "state"];

/** @typedef {import("#ops").Pieces["items"][number]} Piece */

/** @param {import("../router.js").Place} place */
export async function open({ query, show, signal }) {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, query[name] ?? ""]));
  await list(
    {
      path: "pieces",
      query: asked,
      name: "Pieces",
      heads: ["piece", "state", "executor", "caller", "claimed", "kept until"],
      key: (/** @type {Piece} */ piece) => piece.key,
      cells: (piece) => [
        nameOf(piece),
        html`${badge(piece.is_lapsed ? "lapsed" : piece.state)} ${piece.forgotten ? badge("forgotten") : null}`,
        piece.executor,
        piece.caller,
        time(piece.claimed_at_ms),
        time(piece.expires_at_ms),
      ],
      none: () => none(asked),
    },
    (content) => show(html`<h1>Pieces</h1>${tabs("pieces")}${filters(asked)}${content}`),
    signal,
  );
}

/** The views of pieces. @param {"pieces" | "verdicts"} at */
export const tabs = (at) => html`<nav class="tabs" aria-label="Pieces">
  <a href=${link("/pieces")} aria-current=${at === "pieces" ? "page" : null}>Pieces</a>
  <a href=${link("/verdicts")} aria-current=${at === "verdicts" ? "page" : null}>Verdicts</a>
</nav>`;

/** A piece by its ids, as a link. @param {Piece} piece */
export function nameOf(piece) {
  return html`<a href=${link(`/pieces/${part(piece.key)}`)}>${id([piece.task_id, piece.execution_id, piece.attempt_id].map((each) => each ?? "?").join(" / "))}</a>`;
}

/** @param {Record<string, string>} asked */
function filters(asked) {
  const changed = (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (/** @type {Element} */ (event.currentTarget));
    go(link("/pieces", Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]))));
  };
  return html`<form class="filters" @submit=${changed} @change=${changed} aria-label="Filters">
    <label>State <select name="state">
      <option value="">any</option>
      ${STATES.map((state) => html`<option value=${state} ?selected=${state === asked.state}>${state}</option>`)}
    </select></label>
    <label>Executor <input name="executor" value=${asked.executor}></label>
    <label>Caller <input name="caller" value=${asked.caller}></label>
    <button>Filter</button>
    <a href=${link("/pieces")} ?hidden=${!Object.values(asked).some(Boolean)}>Clear</a>
  </form>`;
}

/** @param {Record<string, string>} asked */
function none(asked) {
  if (Object.values(asked).some(Boolean)) return empty("No piece matches", html`<a href=${link("/pieces")}>Look at all pieces</a>.`);
  return empty("No pieces yet", html`Send the runtime door a task: <code>POST /execute</code>. <code>make run</code> prints a command that does.`);
}
