// @ts-check
/** Forgetting what something was about: asked with a reason, and repeated until all of it is erased. */
import { post } from "../api.js";
import { html } from "../render.js";
import { askReason } from "./dialog.js";
import { toast } from "./toast.js";

const MOST_CALLS = 20; // of 15 s each

/** @param {{ path: string, what: string, signal: AbortSignal }} asked @param {() => Promise<unknown>} then */
export async function forget({ path, what, signal }, then) {
  const done = await askReason({
    title: "Forget what it was about",
    intro: html`<p>This erases ${what}: texts, files, results. Nobody can bring it back. Ids, states and what proves money stay.</p>`,
    verb: "Erase for good",
    isGrave: true,
    act: async ({ reason }) => {
      for (let calls = 1; ; calls += 1) {
        const { complete } = await post(path, { reason }, signal);
        if (complete) return toast("It is forgotten");
        if (calls === MOST_CALLS) throw new Error("Not all of it is erased yet: ask once more.");
      }
    },
  });
  if (done) await then();
}
