// Replaces the content of a page by its latest state, unless the operator works on it. Keys: j and
// k move through the rows of a table, x marks a row, / goes to the filter, ? lists the keys.
"use strict";

const EVERY_MS = 3000;
const KEYS = [
  ["j", "next row"],
  ["k", "row before"],
  ["Enter", "open the row"],
  ["x", "mark the row"],
  ["/", "go to the filter"],
  ["?", "show or hide these keys"],
];
const main = document.querySelector("main");
const live = document.querySelector("#live");
let isHovered = false;
let isTouched = false;
// The time since which the sidecar does not answer.
let silentSince = null;
// The content as the sidecar has sent it: marks of all rows are added to it here.
let sent = main.innerHTML;
main.addEventListener("mouseenter", () => { isHovered = true; });
main.addEventListener("mouseleave", () => { isHovered = false; });
main.addEventListener("change", () => { isTouched = true; });

// A click into the box of a table focuses it, which is no work on the page.
function isFocused() {
  const focused = document.activeElement;
  return main.contains(focused)
    && (!focused.matches(".table") || focused.matches(":focus-visible"));
}

function tableBoxes() {
  return [...main.querySelectorAll(".table")];
}

function isBusy() {
  const fields = [...main.querySelectorAll("input:not([type=hidden]), textarea")];
  return isHovered
    || isTouched
    || document.hidden
    || isFocused()
    || main.querySelector("details[open]") !== null
    || document.querySelector("dialog[open]") !== null
    || fields.some((field) => field.value !== field.defaultValue)
    || !getSelection().isCollapsed;
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  const latest = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = latest.querySelector("main");
  if (!answer.ok || next === null) throw new Error(answer.status);
  if (isBusy() || next.innerHTML === sent) return;
  sent = next.innerHTML;
  const scrolled = tableBoxes().map((box) => box.scrollLeft);
  main.replaceChildren(...next.childNodes);
  for (const [at, box] of tableBoxes().entries()) box.scrollLeft = scrolled[at] ?? 0;
  addMarks();
  showAges();
}

async function run() {
  let state = "paused";
  if (!isBusy() || silentSince !== null) {
    state = await refresh().then(() => "live", () => "no answer");
    tellSilence(state === "no answer");
  }
  if (live.textContent !== state) live.textContent = state;
  showAges();
  setTimeout(run, EVERY_MS);
}

// A banner over a page whose sidecar does not answer; its buttons would not work.
function tellSilence(isSilent) {
  silentSince = isSilent ? silentSince ?? new Date() : null;
  document.querySelector("#silent")?.remove();
  for (const button of document.querySelectorAll("main button")) button.disabled = isSilent;
  if (!isSilent) return;
  const banner = document.createElement("p");
  banner.id = "silent";
  banner.className = "alarm";
  banner.setAttribute("role", "alert");
  banner.textContent = `No answer since ${silentSince.toTimeString().slice(0, 5)}; this is old.`;
  main.before(banner);
}

// Times as ages, such as 3 min ago; the time itself shows when one points at it.
function showAges() {
  for (const time of main.querySelectorAll("time")) {
    time.title ||= time.textContent;
    const s = Math.round((Date.now() - Date.parse(time.title)) / 1000);
    if (Number.isNaN(s)) continue;
    const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]]
      .find(([size]) => Math.abs(s) >= 2 * size) ?? [1, "s"];
    const span = `${Math.floor(Math.abs(s) / size)} ${unit}`;
    time.textContent = s < 0 ? `in ${span}` : `${span} ago`;
  }
}

// A box in the head of a column of marks, for all rows of the table.
function addMarks() {
  for (const head of main.querySelectorAll("th.mark")) {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", "Mark all rows of this page");
    const marks = [...head.closest("table").querySelectorAll("td.mark input")];
    box.addEventListener("change", () => {
      for (const mark of marks) mark.checked = box.checked;
    });
    head.replaceChildren(box);
  }
}

// Links of the rows, one each.
function rowLinks() {
  const rows = [...main.querySelectorAll("tbody tr")];
  return rows.map((row) => row.querySelector("a")).filter((link) => link !== null);
}

function currentRow() {
  return document.activeElement.closest("main tbody tr");
}

function move(by) {
  const links = rowLinks();
  const at = links.findIndex((link) => link.closest("tr") === currentRow());
  const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), links.length - 1);
  links[next]?.focus();
}

function mark() {
  currentRow()?.querySelector("td.mark input")?.click();
}

function goToFilter() {
  main.querySelector("#filter, input:not([type=hidden]):not([type=checkbox])")?.focus();
}

function showKeys() {
  const open = document.querySelector("dialog");
  if (open !== null) {
    open.remove();
    return;
  }
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", "Keys");
  const list = document.createElement("dl");
  for (const [key, says] of KEYS) {
    const name = document.createElement("dt");
    const text = document.createElement("dd");
    name.textContent = key;
    text.textContent = says;
    list.append(name, text);
  }
  dialog.append(list);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const ACTIONS = {
  j: () => move(1),
  k: () => move(-1),
  x: mark,
  "/": goToFilter,
  "?": showKeys,
};

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input:not([type=checkbox]), textarea, select");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = Object.hasOwn(ACTIONS, event.key) ? ACTIONS[event.key] : undefined;
  if (action === undefined) return;
  event.preventDefault();
  action();
});

addMarks();
showAges();
// A page that is expensive to render, or that has a form, stays as it is.
if (main.dataset.still === undefined) {
  live.textContent = "live";
  setTimeout(run, EVERY_MS);
}
