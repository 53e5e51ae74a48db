// main.js: the page: what is shown, what is selected, and how pointer and keyboard change it.

const VIEWS = [
  arrivalsView,
  useView,
  queueView,
  hoursView,
  geometryView,
  waitsView("sizes"),
  waitsView("lengths"),
  sharesView("sizes"),
  sharesView("lengths"),
  statusView,
  statusByView("sizes"),
  statusByView("lengths"),
  usersView,
  repeatsView,
  queuesView,
  runByStatusView,
  metView("size"),
  metView("run"),
  runCdf,
  sizeCdf,
  gapCdf,
  waitCdf,
  turnCdf,
];
const $ = (id) => document.getElementById(id);
const scene = { facts: null, selection: null, parts: [], boxes: new Map() };
const cards = new Map(); // view -> {figure, canvas, marks, at}
let everything = []; // all sources of the page
let look = LIGHT;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map((child) => (typeof child === "string" ? wellFormed(child) : child)));
  return element;
}

// ---- counting and drawing ----------------------------------------------------------------------------------------------

let dirty = new Set();
const visible = new Set();

/** Count anew what is selected, and draw the views that are on the screen; the others follow when they come into sight. */
function update() {
  const begin = performance.now();
  for (const part of scene.parts) {
    part.found =
      scene.selection.whole && !scene.selection.narrowed
        ? part.all
        : new Found(part.rows, scene.selection, COLUMNS_OF_TIME);
    part.curves = null;
  }
  dirty = new Set(cards.keys());
  for (const view of visible) redraw(view);
  drawOverview();
  showSelection();
  performance.measure("tracekit-update", { start: begin, end: performance.now() });
}

let waiting = false;
/** Update once before the next picture, however often it is asked for. */
function soon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    update();
  });
}

function redraw(view) {
  const card = cards.get(view);
  if (!card || !card.canvas) return;
  dirty.delete(view);
  const width = card.canvas.parentElement.clientWidth;
  if (!width) return;
  card.canvas.style.height = `${view.height}px`;
  card.marks =
    view.draw(new CanvasPen(card.canvas, width, view.height, look, devicePixelRatio || 1), width, view.height, scene) ||
    [];
  const note = view.note ? view.note(scene) : "";
  card.note.textContent = note;
  card.canvas.setAttribute(
    "aria-label",
    `${view.title}. ${note}. ${card.marks.length ? "Arrows walk through it." : ""}`,
  );
  for (const outline of card.outlines) outline.remove();
  card.outlines = card.marks
    .filter((mark) => mark.on)
    .slice(0, 200)
    .map((mark) => outlined(card, mark));
  if (card.at !== null) point(view, Math.min(card.at, card.marks.length - 1), false);
}

function outlined(card, mark) {
  const element = make("div", { class: "brush mark" });
  place(element, mark.x, mark.y, mark.width, mark.height);
  card.canvas.parentElement.append(element);
  return element;
}

function place(element, x, y, width, height) {
  Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
}

function drawOverview() {
  const canvas = $("overview"),
    width = canvas.parentElement.clientWidth,
    height = 54;
  if (!width) return;
  const pen = new CanvasPen(canvas, width, height, look, devicePixelRatio || 1),
    { axis } = scene.facts;
  const box = { x: 0, y: 2, width, height: height - 20 };
  const curves = scene.parts.map((part) => part.all.arrivals),
    top = highest(curves);
  const up = (value) => box.y + box.height * (1 - Math.sqrt(value / top));
  curves.forEach((values, s) => {
    const points = stepPoints(box, values, up);
    if (s === 0) pen.area([0, box.y + box.height, ...points, width, box.y + box.height], pen.look.soft[0]);
    else pen.line(points, pen.look.series[1], 1.2, [5, 2]);
  });
  timeAxis(pen, box, axis, 0, axis.count);
  const { from, to } = scene.selection;
  if (!scene.selection.whole) {
    const left = (width * from) / axis.count,
      right = Math.max((width * to) / axis.count, left + 3);
    pen.context.globalAlpha = 0.72;
    pen.rect(0, 0, left, box.y + box.height, look.paper);
    pen.rect(right, 0, width - right, box.y + box.height, look.paper);
    pen.context.globalAlpha = 1;
    pen.line([left, 1, right, 1, right, box.y + box.height, left, box.y + box.height, left, 1], look.ink, 2);
  }
}

// ---- what is selected, in words and numbers ------------------------------------------------------------------------------

const DIMENSIONS = {
  sizes: { title: "Size", names: (facts) => known(facts.size.names) },
  lengths: { title: "Run time", names: (facts) => known(facts.run.names) },
  status: { title: "Status", names: (facts) => facts.status },
  queue: { title: "Queue", names: (facts) => facts.queue.names },
  user: { title: "User", names: (facts) => facts.user.names },
  met: { title: "Jobs waiting at the submit", names: (facts) => ["few", "some", "many", "unknown"] },
};

function showSelection() {
  const { selection, facts } = scene,
    { axis } = facts;
  $("range").textContent =
    `${moment(axis, selection.from)} – ${moment(axis, selection.to)} (${duration((selection.to - selection.from) * axis.width)})`;
  const chips = [];
  const chip = (text, clear) => {
    const button = make("button", { type: "button", "aria-label": `Remove the filter ${text}` }, `${text} ×`);
    button.addEventListener("click", () => {
      clear();
      update();
    });
    chips.push(button);
  };
  for (const [dimension, { title, names: list }] of Object.entries(DIMENSIONS)) {
    const set = selection.dims[dimension];
    if (set)
      chip(
        `${title}: ${[...set]
          .map((k) => list(facts)[k])
          .join(", ")
          .slice(0, 80)}`,
        () => {
          selection.dims[dimension] = null;
        },
      );
  }
  if (selection.dims.hours)
    chip(`${selection.dims.hours.size} hours of the week`, () => {
      selection.dims.hours = null;
    });
  if (selection.dims.runBins)
    chip("a part of sizes and run times", () => {
      selection.dims.runBins = selection.dims.sizeBins = null;
    });
  if (!selection.whole)
    chip("range of time", () => {
      selection.from = 0;
      selection.to = axis.count;
    });
  if (chips.length > 1) {
    const all = make("button", { type: "button" }, "Clear all");
    all.addEventListener("click", () => {
      selection.clear();
      update();
    });
    chips.push(all);
  }
  $("chips").replaceChildren(...chips);
  for (const button of document.querySelectorAll("#classes button"))
    button.setAttribute("aria-pressed", String(isOn(scene, button.dataset.dimension, Number(button.dataset.value))));
  showNumbers();
}

function showNumbers() {
  const heads = [
    "",
    "jobs",
    "of all",
    "median run time",
    "median wait",
    "mean wait",
    `${scene.facts.unit}-hours`,
    "in use",
    "mean queue",
  ];
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  const rows = scene.parts.map((part, s) => {
    const { facts, found, source } = part,
      waits = waitCounts(part),
      wait = boxOf(waits, facts.wait.edges, source.means.wait),
      run = boxOf(sums(part).run, facts.run.edges, source.means.run);
    const curves = part.spread(),
      mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const cells = [
      number(found.jobs),
      percent(share(found.jobs, source.jobs)),
      run ? duration(run.middle) : "–",
      wait ? duration(wait.middle) : "–",
      wait ? duration(wait.mean) : "–",
      number(found.work / 3600),
      source.known.runs && source.known.sizes ? percent(mean(curves.used) / source.total) : "–",
      source.known.waits ? number(mean(curves.waiting)) : "–",
    ];
    const name = make("th", { scope: "row" }, make("span", { class: s ? "swatch second" : "swatch" }), source.name);
    return make("tr", {}, name, ...cells.map((cell) => make("td", {}, cell)));
  });
  $("numbers").replaceChildren(
    make(
      "table",
      {},
      make("caption", { class: "hidden" }, "Numbers of the selection"),
      make("thead", {}, head),
      make("tbody", {}, ...rows),
    ),
  );
}

function buildClasses() {
  const { facts } = scene;
  const there = {
    sizes: "sizes",
    lengths: "runs",
    status: "status",
    queue: "queues",
    user: "users",
    met: "waits_half",
  };
  for (const [dimension, { title, names: list }] of Object.entries(DIMENSIONS)) {
    if (!everything.some((part) => part.source.known[there[dimension]])) continue;
    const counts =
      {
        status: (k) => everything.some((part) => sums({ ...part, found: part.all }).status[k]),
        queue: (k) => everything.some((part) => part.all.queues[k]),
        user: (k) =>
          (k < 24 || k >= facts.user.names.length - 2) && everything.some((part) => userJobs({ found: part.all }, k)),
        met: (k) =>
          everything.some((part) =>
            part.all.metSize.subarray(k * facts.size.class.length, (k + 1) * facts.size.class.length).some(Boolean),
          ),
      }[dimension] || (() => true);
    const buttons = list(facts)
      .map((name, k) => [name, k])
      .filter(([, k]) => counts(k))
      .map(([name, k]) =>
        make(
          "button",
          {
            type: "button",
            "aria-pressed": "false",
            "data-dimension": dimension,
            "data-value": String(k),
            title: name,
          },
          name,
        ),
      );
    $("classes").append(
      make("fieldset", {}, make("legend", {}, dimension === "queue" ? facts.queue.column : title), ...buttons),
    );
  }
  $("classes").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    scene.selection.toggle(button.dataset.dimension, Number(button.dataset.value));
    update();
  });
}

// ---- cards ---------------------------------------------------------------------------------------------------------------

function buildCard(view, parent) {
  const title = make("h2", {}, view.title),
    get = make("span", { class: "get" });
  for (const kind of ["svg", "png", "csv"]) {
    const button = make(
      "button",
      { type: "button", "aria-label": `Save ${view.title} as ${kind.toUpperCase()}` },
      kind.toUpperCase(),
    );
    button.addEventListener("click", () => save(view, scene, kind));
    get.append(button);
  }
  const canvas = make("canvas", {
    tabindex: "0",
    role: "application",
    "aria-roledescription": "chart",
    "aria-label": view.title,
  });
  const note = make("p", { class: "quiet" }),
    absent = make("p", { class: "absent", hidden: "" });
  const stage = make("div", { class: "stage" }, canvas);
  const figure = make(
    "figure",
    { id: `view-${view.id}`, class: view.wide ? "broad" : "", "data-kind": view.kind },
    make("figcaption", {}, title, get),
    stage,
    absent,
    note,
  );
  parent.append(figure);
  cards.set(view, { figure, canvas, note, absent, get, stage, marks: [], outlines: [], at: null });
  seen.observe(figure);
  steer(view);
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const view = [...cards.keys()].find((one) => cards.get(one).figure === entry.target);
      if (entry.isIntersecting) visible.add(view);
      else visible.delete(view);
      if (entry.isIntersecting && dirty.has(view) && scene.parts.length) redraw(view);
    }
  },
  { rootMargin: "150px" },
);

/** Show in place of a picture what is missing for it. */
function showAbsent() {
  for (const [view, card] of cards) {
    const missing = view.needs
      ? scene.parts.map((part) => [part, view.needs(part.source)]).filter(([, reason]) => reason)
      : [];
    const none = missing.length === scene.parts.length && missing.length > 0;
    card.stage.hidden = card.get.hidden = card.note.hidden = none;
    card.absent.hidden = !none;
    card.absent.textContent = none ? `Not drawn: ${missing[0][1]}.` : "";
  }
}

// ---- pointer and keyboard --------------------------------------------------------------------------------------------------

const tip = $("tip");

function tell(text, x, y) {
  tip.textContent = wellFormed(text);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 6))}px`;
  tip.style.top = `${y + 20 + height > innerHeight ? y - height - 12 : y + 18}px`;
}

const markAt = (marks, x, y) => {
  for (let k = marks.length - 1; k >= 0; k--) {
    const mark = marks[k];
    if (x >= mark.x && x <= mark.x + mark.width && y >= mark.y && y <= mark.y + mark.height) return k;
  }
  return -1;
};

function steer(view) {
  const card = cards.get(view),
    { canvas, stage } = card;
  let from = null,
    brush = null;
  const local = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = local(event);
    if (from) {
      if (!brush && Math.hypot(x - from[0], y - from[1]) > 5 && view.kind !== "plain") {
        brush = make("div", { class: "brush" });
        stage.append(brush);
        canvas.setPointerCapture(event.pointerId);
      }
      if (brush) {
        const flat = view.kind !== "heat",
          tall = canvas.clientHeight;
        place(
          brush,
          Math.min(x, from[0]),
          flat ? 0 : Math.min(y, from[1]),
          Math.abs(x - from[0]),
          flat ? tall : Math.abs(y - from[1]),
        );
        tip.hidden = true;
        return;
      }
    }
    const at = markAt(card.marks, x, y);
    if (at < 0) tip.hidden = true;
    else tell(card.marks[at].label, event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0) from = local(event);
  });
  canvas.addEventListener("pointercancel", () => {
    from = null;
    brush?.remove();
    brush = null;
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [x, y] = local(event),
      start = from;
    from = null;
    if (brush) {
      brush.remove();
      brush = null;
      const area = {
        x0: Math.min(x, start[0]),
        x1: Math.max(x, start[0]),
        y0: Math.min(y, start[1]),
        y1: Math.max(y, start[1]),
      };
      if (view.brush) view.brush(scene, area);
      else zoomTo(view, area);
      update();
      return;
    }
    const at = markAt(card.marks, x, y);
    if (at >= 0 && view.kind !== "time") choose(view, card.marks[at]);
  });
  canvas.addEventListener("dblclick", () => {
    if (view.kind === "time" || view.kind === "gantt") {
      zoomBy(3);
    }
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.altKey) return;
      event.preventDefault();
      if (event.altKey && view === ganttView) {
        view.stretch(event.deltaY > 0 ? 1.25 : 0.8);
        redraw(view);
      } else zoomBy(event.deltaY > 0 ? 1.25 : 0.8, place01(view, local(event)[0]));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => keyIn(view, event));
  canvas.addEventListener("blur", () => {
    point(view, null);
  });
}

/** The share of a range of time that lies left of a place of a view. */
function place01(view, x) {
  const box = [scene.boxes.get(view.id)].flat()[0];
  return box ? Math.max(0, Math.min(1, (x - box.x) / box.width)) : 0.5;
}

function zoomTo(view, area) {
  const { selection } = scene,
    [a, b] = [place01(view, area.x0), place01(view, area.x1)],
    width = selection.to - selection.from;
  selection.zoom(selection.from + a * width, selection.from + b * width);
}

function zoomBy(factor, at = 0.5) {
  const { selection } = scene,
    width = selection.to - selection.from,
    middle = selection.from + at * width;
  selection.zoom(middle - at * width * factor, middle + (1 - at) * width * factor);
  soon();
}

function pan(share_) {
  const { selection } = scene,
    shift = share_ * (selection.to - selection.from);
  const moved = Math.max(-selection.from, Math.min(scene.facts.axis.count - selection.to, shift));
  selection.zoom(selection.from + moved, selection.to + moved);
  soon();
}

function choose(view, mark) {
  if (mark.job !== undefined) {
    chooseJob(mark.part.jobs.id[mark.job], false);
    return;
  }
  if (!mark.choose) return;
  mark.choose(scene);
  update();
}

/** Move the mark that the keyboard points at; read it aloud. */
function point(view, at, aloud = true) {
  const card = cards.get(view);
  card.pointer?.remove();
  card.pointer = null;
  card.at = at;
  if (at === null || at < 0 || !card.marks[at]) {
    card.at = null;
    return;
  }
  card.pointer = outlined(card, card.marks[at]);
  if (!aloud) return;
  $("live").textContent = card.marks[at].label;
  const box = card.canvas.getBoundingClientRect();
  tell(
    card.marks[at].label,
    box.left + card.marks[at].x,
    box.top + card.marks[at].y + Math.min(card.marks[at].height, 60),
  );
}

function keyIn(view, event) {
  const card = cards.get(view),
    count = card.marks.length;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step && count) {
    event.preventDefault();
    point(view, card.at === null ? (step > 0 ? 0 : count - 1) : (card.at + step + count) % count);
  } else if ((event.key === "Enter" || event.key === " ") && card.at !== null) {
    event.preventDefault();
    choose(view, card.marks[card.at]);
  } else zoomKey(event);
}

function zoomKey(event) {
  const action = {
    "+": () => zoomBy(0.5),
    "=": () => zoomBy(0.5),
    "-": () => zoomBy(2),
    0: () => {
      scene.selection.zoom(0, scene.facts.axis.count);
      soon();
    },
    "[": () => pan(-0.5),
    "]": () => pan(0.5),
  }[event.key];
  if (!action || event.ctrlKey || event.metaKey) return false;
  event.preventDefault();
  action();
  return true;
}

function steerOverview() {
  const canvas = $("overview");
  let drag = null;
  const quantum = (event) => {
    const box = canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * scene.facts.axis.count;
  };
  canvas.addEventListener("pointerdown", (event) => {
    const { selection } = scene,
      at = quantum(event),
      near = (8 / canvas.clientWidth) * scene.facts.axis.count;
    const edge =
      Math.abs(at - selection.from) < near ? selection.to : Math.abs(at - selection.to) < near ? selection.from : null;
    if (!selection.whole && edge !== null) drag = { kind: "edge", fixed: edge };
    else if (!selection.whole && at > selection.from && at < selection.to)
      drag = { kind: "move", at, from: selection.from, to: selection.to };
    else drag = { kind: "edge", fixed: at, fresh: true };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const at = quantum(event),
      { selection } = scene;
    if (drag.kind === "move") {
      const shift = Math.max(-drag.from, Math.min(scene.facts.axis.count - drag.to, at - drag.at));
      selection.zoom(drag.from + shift, drag.to + shift);
    } else if (!drag.fresh || Math.abs(at - drag.fixed) > scene.facts.axis.count / 400) {
      drag.fresh = false;
      selection.zoom(Math.min(at, drag.fixed), Math.max(at, drag.fixed));
    } else return;
    soon();
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, () => {
      drag = null;
    });
  canvas.addEventListener("dblclick", () => {
    scene.selection.zoom(0, scene.facts.axis.count);
    soon();
  });
  canvas.addEventListener("keydown", (event) => {
    const share_ = { ArrowLeft: -0.1, ArrowRight: 0.1, PageUp: -1, PageDown: 1 }[event.key];
    if (share_) {
      event.preventDefault();
      pan(share_);
    } else zoomKey(event);
  });
}

function steerPage() {
  document.addEventListener("click", (event) => {
    const zoom = event.target.closest?.("[data-zoom]")?.dataset.zoom,
      rows = event.target.closest?.("[data-rows]")?.dataset.rows;
    if (zoom)
      ({
        in: () => zoomBy(0.5),
        out: () => zoomBy(2),
        left: () => pan(-0.5),
        right: () => pan(0.5),
        whole: () => {
          scene.selection.zoom(0, scene.facts.axis.count);
          soon();
        },
        jobs: toJobs,
      })[zoom]();
    if (rows) {
      ganttView.stretch({ in: 0.5, out: 2 }[rows] || 1, { up: -0.5, down: 0.5 }[rows] || 0);
      redraw(ganttView);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    tip.hidden = true;
    if (scene.selection.narrowed)
      Object.keys(scene.selection.dims).forEach((name) => {
        scene.selection.dims[name] = null;
      });
    else scene.selection.zoom(0, scene.facts.axis.count);
    update();
  });
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    chooseJob(Number($("job").value), true);
  });
  $("colour").addEventListener("change", () => {
    ganttView.colour = $("colour").value;
    redraw(ganttView);
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) {
      width = innerWidth;
      soon();
    }
  });
}

/** Go to the range of time of the single jobs. */
function toJobs() {
  const ranges = scene.parts.filter((part) => part.jobs?.n).map((part) => part.jobs.range);
  if (!ranges.length) return;
  scene.selection.zoom(Math.min(...ranges.map((range) => range[0])), Math.max(...ranges.map((range) => range[1])));
  update();
  $("single").scrollIntoView();
}

/** Show one job; `go` also moves the range of time to it. */
function chooseJob(id, go) {
  $("job").value = String(id);
  const having = describeJob($("about-job"), scene, id);
  for (const part of scene.parts) part.chosen = part.jobs?.byId.get(id) ?? -1;
  if (go && having.length) {
    const spans = having.map((part) => {
      const k = part.jobs.byId.get(id);
      return [part.jobs.submit[k] / scene.facts.axis.width, part.jobs.stop[k]];
    });
    const low = Math.min(...spans.map((span) => span[0])),
      high = Math.max(...spans.map((span) => span[1])),
      more = (high - low) * 0.6 + 3600 / scene.facts.axis.width;
    scene.selection.zoom(low - more, high + more);
    update();
  }
  redraw(ganttView);
}

// ---- dark and light ----------------------------------------------------------------------------------------------------------

const THEMES = ["auto", "light", "dark"];
const wantsDark = matchMedia("(prefers-color-scheme: dark)");

function show(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = `Theme: ${theme}`;
  look = theme === "dark" || (theme === "auto" && wantsDark.matches) ? DARK : LIGHT;
  if (scene.parts.length) update();
}

function steerTheme() {
  $("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "auto") + 1) % THEMES.length];
    show(next);
    try {
      localStorage.setItem("tracekit-theme", next);
    } catch {
      /* some browsers keep nothing for files */
    }
  });
  wantsDark.addEventListener("change", () => show(document.documentElement.dataset.theme || "auto"));
  let kept = null;
  try {
    kept = localStorage.getItem("tracekit-theme");
  } catch {
    /* as above */
  }
  show(THEMES.includes(kept) ? kept : "auto");
}

// ---- beginning -----------------------------------------------------------------------------------------------------------------

/** One of the sources of the page. */
function partOf(facts, source, array) {
  const part = { facts, source, rows: new Rows(facts, source, array), jobs: null, chosen: -1, curves: null };
  part.all = new Found(part.rows, new Selection(facts), COLUMNS_OF_TIME);
  part.spread = () => (part.curves ??= occupancy(part.rows, scene.selection, COLUMNS_OF_TIME));
  return part;
}

function chooseSources() {
  const [first, second] = [$("first"), $("second")].map((select) => (select ? Number(select.value) : -1));
  scene.parts =
    everything.length === 1
      ? everything
      : [first, second].filter((k, at) => k >= 0 && (at === 0 || k !== first)).map((k) => everything[k]);
  showAbsent();
  $("notes").replaceChildren(
    ...scene.parts.flatMap((part) =>
      [...part.source.notes, part.source.rows.level]
        .filter(Boolean)
        .map((note) => make("p", {}, `${part.source.name}: ${note}`)),
    ),
  );
}

function buildSources() {
  if (everything.length < 2) return;
  const select = (id, chosen, none) => {
    const made = make(
      "select",
      { id },
      ...(none ? [make("option", { value: "-1" }, "nothing")] : []),
      ...everything.map((part, k) => make("option", { value: String(k) }, part.source.name)),
    );
    made.value = String(chosen);
    made.addEventListener("change", () => {
      chooseSources();
      update();
    });
    return made;
  };
  $("sources").append(
    make("label", {}, make("span", { class: "swatch" }), select("first", 0, false)),
    make("label", {}, make("span", { class: "swatch second" }), "against ", select("second", 1, true)),
  );
}

async function begin() {
  if (typeof DecompressionStream === "undefined")
    throw new Error("this browser is too old: it cannot unpack compressed data (DecompressionStream)");
  const { facts, array } = await unpack("cubes");
  facts.axis.hours = array(facts.axis.hours);
  scene.facts = facts;
  scene.selection = new Selection(facts);
  everything = facts.sources.map((source) => partOf(facts, source, array));
  for (const view of VIEWS) buildCard(view, $("views"));
  buildCard(ganttView, $("gantt-place"));
  buildClasses();
  buildSources();
  chooseSources();
  steerOverview();
  steerPage();
  $("message").hidden = true;
  $("main").hidden = false;
  for (const view of VIEWS.slice(0, 6)) visible.add(view);
  steerTheme();
  performance.mark("tracekit-first-picture");
  await new Promise((done) => setTimeout(done));
  const single = await unpack("jobs");
  single.facts.sources.forEach((about, k) => {
    everything[k].jobs = new Jobs(about, single.array, facts);
    if (!everything[k].source.rows.exact) return;
    everything[k].rows.refine(everything[k].jobs);
    everything[k].all = new Found(everything[k].rows, new Selection(facts), COLUMNS_OF_TIME);
  });
  update();
  performance.mark("tracekit-ready");
}

begin().catch((error) => {
  $("message").hidden = false;
  $("message").textContent = `This page cannot be shown: ${error.message}`;
  console.error(error);
});
