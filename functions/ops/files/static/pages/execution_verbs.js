// @ts-check
/** What one can do about an execution. A button that the roles or the state would refuse is not there. */
import { part, post } from "../api.js";
import { can } from "../auth.js";
import { ask, askReason } from "../parts/dialog.js";
import { toast } from "../parts/toast.js";
import { html } from "../render.js";
import { go, link } from "../router.js";
import { parsed } from "./creating.js";

const REPEATS = 50; // of forgetting: each erases a bounded number of rows

/** @typedef {import("#ops").KernelExecution} Execution */
/** @typedef {{ execution: Execution, state: string, awaited: string, reload: () => void }} Subject */

/** @param {Subject} subject */
export function verbs({ execution, state, awaited, reload }) {
  const hasEnded = ["completed", "failed", "cancelled"].includes(state);
  const isClient = can("operator", "client");
  const shown = [
    isClient && !hasEnded && button("Cancel…", () => cancel(execution), true),
    isClient && !hasEnded && button("Signal…", () => signal(execution, awaited)),
    isClient && hasEnded && !execution.forgotten && button("Run again…", () => again(execution)),
    can("operator") && hasEnded && !execution.forgotten?.complete && button("Forget…", () => forget(execution, reload), true),
  ].filter(Boolean);
  return shown.length ? html`<p class="verbs">${shown}</p>` : null;
}

/** @param {string} name @param {() => void} act @param {boolean} [isGrave] */
const button = (name, act, isGrave) => html`<button type="button" class=${isGrave ? "grave" : null} @click=${act}>${name}</button>`;

/** @param {Execution} execution */
const path = (execution) => `kernel/executions/${part(execution.id)}`;

/** @param {Execution} execution */
const named = (execution) => html`<p>${execution.agent_id}, <code class="id">${execution.id}</code></p>`;

/** @param {Execution} execution */
function cancel(execution) {
  return ask({
    title: "Cancel this execution",
    intro: html`${named(execution)}<p>It ends now, for good, and its steps with it. What its tools have done already stays done.</p>`,
    verb: "Cancel the execution",
    no: "Let it go on",
    isGrave: true,
    act: () => post(`${path(execution)}/cancel`, {}),
  });
}

/** @param {Execution} execution @param {string} awaited */
function signal(execution, awaited) {
  const hint = awaited ? "It waits for this one." : "It waits for none; this one is kept until it does.";
  return ask({
    title: "Send a signal",
    intro: named(execution),
    fields: [
      { name: "signal_type", label: "Type", required: true, value: awaited, max: 256, hint },
      { name: "payload", label: "Payload", type: "area", max: 500_000, hint: "JSON, or nothing." },
    ],
    verb: "Send",
    act: async ({ signal_type, payload }) => {
      await post(`${path(execution)}/signal`, { signal_type, ...(payload.trim() ? { payload: parsed(payload, "payload") } : {}) });
      toast(`Sent the signal ${signal_type}`);
    },
  });
}

/** @param {Execution} execution */
async function again(execution) {
  const key = crypto.randomUUID(); // of this question: to try it again after a lost answer makes no second execution
  let made = "";
  const done = await ask({
    title: "Run this again",
    intro: html`${named(execution)}<p>A new execution with the same agent, input and labels begins. This one stays as it is.</p>`,
    verb: "Run again",
    act: async () => {
      made = /** @type {Execution} */ (await post(`${path(execution)}/again`, { idempotency_key: key })).id;
    },
  });
  if (done) go(link(`/executions/${part(made)}`));
}

/** @param {Execution} execution @param {() => void} reload */
async function forget(execution, reload) {
  const done = await askReason({
    title: "Forget what this was about",
    intro: html`${named(execution)}<p>Input, output, arguments, results and texts are erased for good; ids, times and the shape of the log stay.
      The reason stays too: write nothing into it that is to be forgotten.</p>`,
    verb: "Forget it",
    no: "Keep it",
    isGrave: true,
    act: async ({ reason }) => {
      for (let times = 0; times < REPEATS; times += 1) {
        const { forgotten } = /** @type {Execution} */ (await post(`${path(execution)}/forget`, { reason }));
        if (forgotten?.complete) return toast("It is forgotten");
      }
      throw new Error("Something is left to erase: forget it again.");
    },
  });
  if (done) reload();
}
