// Before the first paint, so that the page does not flash: the theme that this browser has chosen, else the system's.
"use strict";
try {
  const chosen = localStorage.getItem("piecework.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // storage is switched off: the system's theme holds
}
