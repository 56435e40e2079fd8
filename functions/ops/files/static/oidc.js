// @ts-check
/**
 * Signing in at an OpenID Connect issuer: the code flow with PKCE (RFC 7636, S256).
 *
 * What the way back needs is in this tab's session storage and used once. The access token is in this module's memory
 * alone. The page keeps neither an id token nor a refresh token. A reload or an expiry asks the issuer again.
 */
import { OPS } from "./auth.js";

/** @typedef {import("#ops").SignIn} Told */

const CONSOLE = new URL("../../", import.meta.url);
const BACK = new URL("signed-in", CONSOLE).href; // the issuer knows this address, character by character
const OUT = new URL("signed-out", CONSOLE).href;
const KEPT = "piecework.sign-in";
const TOLD_MS = 20_000; // within which the door says who signs people in

let token = "";

/** @returns {Promise<Told>} */
async function told() {
  const answer = await fetch(new URL("sign-in", OPS), { cache: "no-store", signal: AbortSignal.timeout(TOLD_MS) }).catch(() => null);
  if (!answer?.ok) throw new Error("Who signs people in cannot be asked now. Try again in a moment.");
  return answer.json();
}

/** @type {import("./auth.js").Way} */
export const oidc = {
  name: "Sign in with your account",
  headers: async () => ({ Authorization: `Bearer ${token}` }), // only asked after `resume` has found one
  isOffered: async () => (await told()).kind === "oidc",

  async resume() {
    const here = location.origin + location.pathname;
    if (here === OUT) history.replaceState(null, "", new URL("now", CONSOLE));
    if (here !== BACK) return false;
    const answer = new URLSearchParams(location.search);
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    sessionStorage.removeItem(KEPT);
    history.replaceState(null, "", ours(kept.from)); // the code does not stay in the history
    const isOurs = kept.state && (answer.get("state") ?? (answer.get("error") && kept.state)) === kept.state; // some issuers refuse without the state
    if (!isOurs) throw new Error("This sign-in was begun elsewhere, or used already. Sign in again.");
    if (answer.get("error")) throw new Error(`The issuer did not sign you in: ${answer.get("error_description") ?? answer.get("error")}`);
    token = await exchanged(answer.get("code") ?? "", kept.verifier);
    return true;
  },

  async begin() {
    const { authorization_endpoint, client_id, scope, audience } = await told();
    const [verifier, state] = [random(), random()];
    const from = location.href.startsWith(CONSOLE.href) ? location.href : "";
    sessionStorage.setItem(KEPT, JSON.stringify({ verifier, state, from }));
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
    const asked = { response_type: "code", client_id, redirect_uri: BACK, scope, state, code_challenge_method: "S256" };
    const url = new URL(authorization_endpoint ?? "");
    for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value ?? "");
    url.searchParams.set("code_challenge", base64(new Uint8Array(digest)));
    if (audience) url.searchParams.set("audience", audience);
    location.assign(url);
  },

  async end() {
    token = "";
    const { client_id, end_session_endpoint, end_session_return } = await told();
    if (!end_session_endpoint) return;
    const url = new URL(end_session_endpoint);
    url.searchParams.set("client_id", client_id ?? "");
    url.searchParams.set(end_session_return ?? "post_logout_redirect_uri", OUT);
    location.assign(url);
  },
};

/** The token for a code, which the issuer takes once. @param {string} code @param {string} verifier */
async function exchanged(code, verifier) {
  const { token_endpoint, client_id } = await told();
  const body = new URLSearchParams({ grant_type: "authorization_code", code, client_id: client_id ?? "", redirect_uri: BACK, code_verifier: verifier });
  const sent = { method: "POST", body, credentials: /** @type {const} */ ("omit"), redirect: /** @type {const} */ ("error") };
  const answer = await fetch(token_endpoint ?? "", sent).catch(() => null);
  if (!answer) throw new Error("The issuer's token endpoint could not be reached: it must let this origin read its answers.");
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok || typeof found.access_token !== "string") throw new Error("The issuer did not take this sign-in. Sign in again.");
  return found.access_token;
}

/** The view where one was, or the first one; never an address elsewhere. @param {unknown} from */
const ours = (from) => (typeof from === "string" && from.startsWith(CONSOLE.href) && from.split("?")[0] !== BACK ? from : new URL("now", CONSOLE).href);

const random = () => base64(crypto.getRandomValues(new Uint8Array(32)));

/** Base64 for URLs. @param {Uint8Array} bytes */
const base64 = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
