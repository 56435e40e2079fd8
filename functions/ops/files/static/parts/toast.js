// @ts-check
/** Short news in a corner, which screen readers say too. */
import { render } from "../render.js";

const SECONDS = 6;

/** @param {string} text @param {"done" | "failed"} [kind] */
export function toast(text, kind = "done") {
  const news = document.createElement("p");
  news.className = `toast ${kind}`;
  render(text, news);
  document.getElementById("toasts")?.append(news);
  setTimeout(() => news.remove(), SECONDS * 1_000);
}
