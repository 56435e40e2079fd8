// @ts-check
/** The console: signs in, draws its frame, opens the page of its address. */
import * as auth from "./auth.js";
import { drawFrame } from "./frame.js";
import { oidc } from "./oidc.js";
import { failure } from "./parts/show.js";
import { html, render } from "./render.js";
import * as router from "./router.js";

auth.addWay(oidc);
const icon = document.querySelector("link[rel=icon]");
if (icon instanceof HTMLLinkElement) icon.href = String(icon.href); // absolute: a relative one is looked for anew at each address

let isInside = false;

/** Once somebody is signed in, whenever that is. */
function enter() {
  if (isInside || !auth.who()) return;
  isInside = true;
  router.start();
}

async function begin() {
  try {
    await auth.start();
    if (!auth.who()) await auth.signIn();
  } catch (error) {
    const out = html`<p><button type="button" @click=${() => auth.signOut()}>Sign in as somebody else</button></p>`;
    render(html`${failure(error, begin)}${auth.isRefused() ? out : null}`, /** @type {Element} */ (document.getElementById("main")));
  }
}

drawFrame();
auth.onCaller(enter);
begin();
