// Replaces the content of a page by its latest state, while nobody is at work on it.
"use strict";

const EVERY_MS = 3000;
const main = document.querySelector("main");
const live = document.querySelector("#live");
let isHovered = false;
main.addEventListener("mouseenter", () => { isHovered = true; });
main.addEventListener("mouseleave", () => { isHovered = false; });

function isBusy() {
  const fields = [...main.querySelectorAll("input:not([type=hidden]), textarea")];
  return isHovered
    || document.hidden
    || main.contains(document.activeElement)
    || main.querySelector("details[open]") !== null
    || fields.some((field) => field.value !== field.defaultValue)
    || !getSelection().isCollapsed;
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  const latest = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = latest.querySelector("main");
  if (!answer.ok || next === null) throw new Error(answer.status);
  if (!isBusy() && next.innerHTML !== main.innerHTML) main.replaceChildren(...next.childNodes);
}

async function run() {
  let state = "paused";
  if (!isBusy()) {
    state = await refresh().then(() => "live", () => "no answer");
  }
  if (live.textContent !== state) live.textContent = state;
  setTimeout(run, EVERY_MS);
}

live.textContent = "live";
setTimeout(run, EVERY_MS);
