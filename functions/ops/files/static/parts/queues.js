// @ts-check
/** What each queue is for, and what becomes of its dead letters when they are put back. */
import { html } from "../render.js";
import { link } from "../router.js";

const KNOWN = /** @type {Record<string, { what: string, after: string }>} */ ({
  task: { what: "hired work to be done", after: "The work goes on in the same attempt." },
  webhook: { what: "events for webhooks of hired work", after: "The next try follows." },
  due: { what: "due times of hired work", after: "A sweep each minute finds the same due times: putting them back is only faster." },
  kernel_due: { what: "due times of executions", after: "A sweep each minute finds the same due times: putting them back is only faster." },
  kernel_hosted: { what: "runs of hosted agents", after: "The executor starts again; steps that it has recorded are not repeated." },
  kernel_notices: { what: "notices about approvals", after: "The notice is published, or its webhook sent." },
  kernel_webhooks: { what: "webhooks about approvals", after: "The try follows. Most often a rule names a webhook that KernelWebhooksSecretArn does not list: mend that first." },
});

/** A queue as a link, with what it is for. @param {string} name @param {boolean} [isChosen] */
export const queueName = (name, isChosen) => html`<a href=${link("/operations", { queue: name })} aria-current=${isChosen ? "true" : null}>${name}</a>
  <span class="hint">${KNOWN[name]?.what}</span>`;

/** What follows when dead letters of a queue are put back. @param {string} name */
export const afterwards = (name) => KNOWN[name]?.after ?? "";
