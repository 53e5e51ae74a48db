// Tabs, sorting, saving figures, dark and light. No library, nothing loaded, nothing sent.
"use strict";

const all = (what, where = document) => [...where.querySelectorAll(what)];

// ---- tabs: arrows, Home and End move; a link to a panel opens it ------------------------------------------------------

function choose(tab, focus) {
  for (const other of all("[role=tab]", tab.parentElement)) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus();
}

for (const list of all("[role=tablist]")) {
  const tabs = all("[role=tab]", list);
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab, true);
  });
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    choose(tabs[(to + tabs.length) % tabs.length], true);
  });
}

function openLinked() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const panel = target && target.closest("[role=tabpanel]");
  if (!panel) return;
  choose(document.getElementById(panel.getAttribute("aria-labelledby")), false);
  target.closest(".tabs").scrollIntoView();
}
addEventListener("hashchange", openLinked);
openLinked();

// ---- tables: a click on a heading sorts, a second one turns it round; what has no value stays last --------------------

for (const table of all("table.sortable")) {
  const heads = all("thead th", table);
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const value = (row) => {
      const cell = row.cells[column];
      if (cell.dataset.sort !== undefined) return Number(cell.dataset.sort);
      const text = cell.textContent.trim();
      return text === "" || text === "–" ? null : text;
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    [...body.rows].map((row) => [value(row), row]).sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return down ? -compare(a, b) : compare(a, b);
    }).forEach(([, row]) => body.append(row));
  }));
}

// ---- saving: the figure as it is drawn (in its light colours) and the numbers that were drawn -------------------------

function picture(figure) {
  const svg = figure.querySelector("svg");
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const copy = svg.cloneNode(true);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ width: "100%", height: "100%", fill: "#ffffff" })) paper.setAttribute(name, value);
  copy.prepend(paper);
  const text = new XMLSerializer().serializeToString(copy).replace(/var\(--[a-z]+, ([^)]*)\)/g, "$1");
  return { text, width, height };
}

async function png(figure) {
  const { text, width, height } = picture(figure);
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2.5 * width;
  canvas.height = 2.5 * height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const makers = {
  svg: async (figure) => new Blob([picture(figure).text], { type: "image/svg+xml" }),
  png,
  csv: async (figure) => new Blob([figure.querySelector("template").content.textContent], { type: "text/csv" }),
};

async function save(figure, kind) {
  const blob = await makers[kind](figure);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${figure.dataset.name}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  return blob;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-get]");
  if (button) save(button.closest("figure"), button.dataset.get);
});

// ---- dark and light ---------------------------------------------------------------------------------------------------

const themes = ["auto", "light", "dark"];
const themeButton = document.querySelector(".theme");

function show(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = `Theme: ${theme}`;
}
themeButton.addEventListener("click", () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme || "auto") + 1) % themes.length];
  show(next);
  try { localStorage.setItem("tracekit-theme", next); } catch { /* some browsers keep nothing for files */ }
});
let kept = null;
try { kept = localStorage.getItem("tracekit-theme"); } catch { /* as above */ }
show(themes.includes(kept) ? kept : "auto");

// ---- paper: unfold everything -----------------------------------------------------------------------------------------

addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
