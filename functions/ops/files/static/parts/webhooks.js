// @ts-check
/** Webhooks about approvals: their columns, their tries, and how one is sent again. */
import { part, post } from "../api.js";
import { can } from "../auth.js";
import { count, id, time } from "../format.js";
import { html } from "../render.js";
import { link } from "../router.js";
import { askReason } from "./dialog.js";
import { badge } from "./show.js";
import { toast } from "./toast.js";

/** @typedef {import("#ops").KernelWebhooks["items"][number]} Hook */

/** The columns of a list of webhooks. @param {(hook: Hook) => void} resend */
export const columns = (resend) => ({
  heads: ["handed over", "notice", "to", "state", "attempt", "tries", ...(can("operator") ? ["verbs"] : [])],
  key: (/** @type {Hook} */ hook) => `${hook.execution_id}/${hook.event_id}`,
  tone: (/** @type {Hook} */ hook) => (hook.state === "given_up" ? "bad" : undefined),
  cells: (/** @type {Hook} */ hook) => [
    time(hook.at_ms), what(hook), html`<span class="id">${hook.name}</span>`, badge(hook.state), count(hook.attempt), tries(hook),
    ...(can("operator") ? [html`<button type="button" @click=${() => resend(hook)}>Send again…</button>`] : []),
  ],
});

/** @param {Hook} hook */
const what = ({ notice, execution_id, step_id, event_id }) => html`<a href=${link(`/inbox/${part(execution_id)}/${part(step_id || "-")}`)}>${notice || "–"}</a> ${id(event_id)}`;

/** Each try with its status and time. @param {{ tries: Hook["tries"] }} hook */
export function tries({ tries }) {
  if (!tries.length) return html`<span class="quiet">no try is kept</span>`;
  return html`<ol class="plain">${tries.map((made) => html`<li>${made.attempt}: ${made.status ?? "no answer"} ${time(made.at_ms)}</li>`)}</ol>`;
}

/** Ask for the reason, and have one sent again; whether it was asked for.
 * @param {Hook} hook @param {AbortSignal} signal */
export const sendAgain = (hook, signal) => askReason({
  title: "Send this webhook again",
  intro: html`<p>${id(hook.event_id)} to ${id(hook.name)} is sent again, from the first try on. Who has it already knows it by its id.</p>`,
  verb: "Send again",
  act: async ({ reason }) => {
    const done = await post(`approvals/${part(hook.execution_id)}/webhooks/${part(hook.event_id)}/resend`, { reason }, signal);
    if (done.is_asked_for) toast(`It was ${done.was}, and is asked to be sent again`);
    else toast("Your server has said that it wants no more of this execution (410): nothing is sent", "failed");
  },
});
