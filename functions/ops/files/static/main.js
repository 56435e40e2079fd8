// @ts-check
/** The console: signs in, draws its frame, opens the page of its address. */
import * as auth from "./auth.js";
import { drawFrame } from "./frame.js";
import { oidc } from "./oidc.js";
import { failure } from "./parts/show.js";
import { render } from "./render.js";
import * as router from "./router.js";

auth.addWay(oidc);
const icon = document.querySelector("link[rel=icon]");
if (icon instanceof HTMLLinkElement) icon.href = String(icon.href); // absolute: a relative one is looked for anew at each address

async function begin() {
  drawFrame();
  try {
    await auth.start();
    if (!auth.who()) await auth.signIn();
    await router.start();
  } catch (error) {
    render(failure(error, begin), /** @type {Element} */ (document.getElementById("main")));
  }
}

begin();
