// @ts-check
/** Short news in a corner, which screen readers say too. What is not as it should be, or concerns money, stays until it is closed. */
import { render } from "../render.js";

const SECONDS = 6;
document.addEventListener("pw-signed-out", () => document.getElementById("toasts")?.replaceChildren());

/** @param {string} text @param {"done" | "failed"} [kind] @param {{ stays?: boolean }} [how] */
export function toast(text, kind = "done", { stays = kind === "failed" } = {}) {
  const news = document.createElement("div");
  news.className = `toast ${kind}`;
  const said = document.createElement("p");
  render(text, said);
  news.append(said);
  document.getElementById("toasts")?.append(news);
  if (!stays) return void setTimeout(() => news.remove(), SECONDS * 1_000);
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
  close.addEventListener("click", () => news.remove());
  news.append(close);
}
