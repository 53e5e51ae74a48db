// gantt.js: single jobs: the Gantt chart by processor or host, finding one job, and what is known of it.

/** The single jobs of a source. */
class Jobs {
  constructor(about, array, facts) {
    this.n = about.n;
    this.all = about.all;
    this.tracks = about.tracks;
    for (const name of ["row", "id", "submit", "wait", "run", "size", "limit"]) this[name] = array(about[name]);
    this.codes = {};
    for (const [name, where] of Object.entries(about.codes)) this.codes[name] = array(where);
    this.box = {};
    for (const [name, where] of Object.entries(about.box)) this.box[name] = array(where);
    this.users = array(about.users);
    this.texts = array(about.texts);
    const { width } = facts.axis;
    this.begin = Float64Array.from(
      this.submit,
      (submit, k) => (submit + (this.wait[k] === this.wait[k] ? this.wait[k] : 0)) / width,
    );
    this.stop = Float64Array.from(
      this.begin,
      (begin, k) => begin + (this.run[k] === this.run[k] ? this.run[k] : 0) / width,
    );
    this.byId = new Map();
    this.id.forEach((id, k) => {
      if (!this.byId.has(id)) this.byId.set(id, k);
    });
    this.places = null;
  }

  /** The range of time that the single jobs lie in, in quanta: from the first start to the end of 19 of 20. */
  get range() {
    const ends = Float64Array.from(this.stop).sort();
    return [
      this.begin.reduce((least, value) => Math.min(least, value), Infinity),
      ends[Math.min(ends.length - 1, Math.floor(0.95 * ends.length))],
    ];
  }

  /** Whether a job is of the selected classes. */
  passes(k, ok, hours) {
    const { codes } = this;
    return (
      ok.size[codes.size[k]] &
      ok.run[codes.run[k]] &
      ok.user[codes.user[k]] &
      ok.status[codes.status[k]] &
      ok.queue[codes.queue[k]] &
      ok.met[codes.met[k]] &
      ok.hours[hours(k)]
    );
  }
}

const ganttView = {
  id: "gantt",
  title: "Gantt chart",
  kind: "gantt",
  wide: true,
  height: 360,
  rows: [0, 1], // the part of the tracks that is shown
  colour: "wait",
  note(scene) {
    const parts = scene.parts.filter((part) => part.jobs);
    if (!parts.length) return "single jobs are being unpacked";
    const outside = parts.every(
      (part) => part.jobs.range[1] < scene.selection.from || part.jobs.range[0] > scene.selection.to,
    );
    const hosts =
      parts[0].jobs.tracks.kind === "hosts"
        ? `by host; height is the share of its ${parts[0].jobs.tracks.by}`
        : `${scene.facts.unit} are numbered for the drawing only`;
    return `${told(scene, (part) => (part.jobs ? `${number(part.jobs.n)} of ${number(part.source.jobs)} jobs are here one by one` : "–"))}; ${hosts}${this.colour === "wait" && parts.some((part) => part.source.known.waits) ? "; colour: the wait, from none (dark) to the longest (yellow)" : ""}${outside ? ". They lie outside of this range of time: “Single jobs” goes there" : ""}`;
  },
  draw(pen, width, height, scene) {
    const { selection, facts, parts } = scene,
      gap = 26;
    const each = (height - 34 - gap * (parts.length - 1)) / parts.length,
      marks = [];
    const hosts = parts.some((part) => part.jobs?.tracks.kind === "hosts");
    scene.boxes.set("gantt", []);
    parts.forEach((part, s) => {
      const box = {
        x: hosts ? Math.min(110, width * 0.25) : 52,
        y: (parts.length > 1 ? 18 : 8) + s * (each + gap),
        width: 0,
        height: each - (parts.length > 1 ? 10 : 0),
      };
      box.width = width - box.x - 10;
      scene.boxes.get("gantt").push(box);
      if (parts.length > 1)
        pen.text(box.x, box.y - 5, part.source.name.slice(0, 60), { fill: pen.look.series[s], bold: true });
      pen.rect(box.x, box.y, box.width, box.height, pen.look.dark ? "#0d1116" : "#f1f3f5");
      if (part.jobs) pen.clip(box.x, box.y, box.width, box.height, () => this.boxes(pen, box, part, scene, marks));
      if (part.jobs) this.scale(pen, box, part.jobs.tracks);
      timeAxis(pen, box, facts.axis, selection.from, selection.to);
    });
    return marks;
  },
  boxes(pen, box, part, scene, marks) {
    const { jobs } = part,
      { selection, facts } = scene,
      ok = selection.tables(),
      [low, high] = this.rows;
    const across = box.width / (selection.to - selection.from),
      tall = jobs.tracks.height * (high - low),
      zero = jobs.tracks.height * low;
    const hours = (k) =>
      facts.axis.hours[Math.min(facts.axis.count - 1, Math.floor(jobs.submit[k] / facts.axis.width))];
    const ofHost = jobs.tracks.kind === "hosts";
    const logWait = Math.log1p(jobs.wait.reduce((most, value) => (value > most ? value : most), 10));
    const unit = box.height / tall;
    for (let b = 0; b < jobs.box.job.length; b++) {
      const k = jobs.box.job[b];
      if (jobs.stop[k] < selection.from || jobs.begin[k] > selection.to) continue;
      const x = box.x + (jobs.begin[k] - selection.from) * across,
        width = Math.max((jobs.stop[k] - jobs.begin[k]) * across, 0.7);
      const first = ofHost ? jobs.box.host[b] + 0.04 + 0.92 * jobs.box.first[b] : jobs.box.first[b];
      const units = ofHost ? 0.92 * jobs.box.count[b] : jobs.box.count[b];
      const y = box.y + (first - zero) * unit,
        height = Math.max(units * unit, 0.7);
      if (y > box.y + box.height || y + height < box.y) continue;
      const fill = jobs.passes(k, ok, hours) ? this.fill(pen.look, jobs, k, logWait) : pen.look.pale;
      const line = width > 3 && height > 3 ? 0.5 : 0;
      pen.rect(x, y, width - line, height - line, fill);
      if (k === part.chosen) {
        pen.line([x, y, x + width, y, x + width, y + height, x, y + height, x, y], pen.look.mark, 2.5);
      }
      if (width > 46 && height > 11)
        pen.text(x + 3, y + height / 2, String(jobs.id[k]), {
          base: "middle",
          size: 10,
          fill: this.textOn(jobs, k, logWait),
          bold: true,
        });
      if (marks.length < 60000) marks.push({ x, y, width, height, job: k, part, label: jobLine(part, k, facts) });
    }
  },
  /** Dark letters on bright boxes. */
  textOn(jobs, k, logWait) {
    return this.colour === "wait" && Math.log1p(jobs.wait[k]) > 0.55 * logWait ? "#111111" : "#ffffff";
  },
  fill(look, jobs, k, logWait) {
    if (this.colour === "status") return look.status[jobs.codes.status[k]];
    if (this.colour === "user") return look.status[(jobs.codes.user[k] * 7) % 5];
    return jobs.wait[k] === jobs.wait[k]
      ? heatColour(0.05 + (0.9 * Math.log1p(jobs.wait[k])) / logWait)
      : look.series[0];
  },
  scale(pen, box, tracks) {
    const [low, high] = this.rows,
      unit = box.height / (tracks.height * (high - low));
    if (tracks.kind === "hosts") {
      let lastY = -Infinity;
      tracks.names.forEach((name, k) => {
        const y = box.y + (k + 0.5 - low * tracks.height) * unit;
        if (y < box.y || y > box.y + box.height || y - lastY < 12) return;
        lastY = y;
        const most = Math.floor(box.x / 6.2);
        pen.text(box.x - 5, y, name.length > most ? `…${name.slice(1 - most)}` : name, {
          align: "right",
          base: "middle",
          size: 10.5,
        });
      });
      return;
    }
    for (const tick of niceTicks(low * tracks.height, high * tracks.height, Math.max(2, box.height / 40)))
      pen.text(box.x - 5, box.y + (tick - low * tracks.height) * unit, brief(tick), { align: "right", base: "middle" });
  },
  table(scene) {
    const rows = [
      [
        "source",
        "job",
        "submit",
        "start",
        "end",
        scene.facts.unit,
        "wait, s",
        "run time, s",
        "limit, s",
        "status",
        "user",
        "queue",
        "why it waited",
      ],
    ];
    const ok = scene.selection.tables(),
      { axis } = scene.facts;
    for (const part of scene.parts) {
      const { jobs } = part;
      if (!jobs) continue;
      const hours = (k) => axis.hours[Math.min(axis.count - 1, Math.floor(jobs.submit[k] / axis.width))];
      for (let k = 0; k < jobs.n; k++) {
        if (jobs.stop[k] < scene.selection.from || jobs.begin[k] > scene.selection.to || !jobs.passes(k, ok, hours))
          continue;
        rows.push([
          part.source.name,
          jobs.id[k],
          ...moments(part, k, axis),
          jobs.size[k],
          jobs.wait[k],
          jobs.run[k],
          jobs.limit[k],
          scene.facts.status[jobs.codes.status[k]],
          jobs.users[k] ?? "",
          scene.facts.queue.names[jobs.codes.queue[k]],
          jobs.texts[k] ?? "",
        ]);
      }
    }
    return rows;
  },
  /** Show a part of the tracks: `factor` below 1 is closer. */
  stretch(factor, shift = 0) {
    const [low, high] = this.rows,
      width = Math.max(0.01, Math.min(1, (high - low) * factor));
    const middle = Math.max(width / 2, Math.min(1 - width / 2, (low + high) / 2 + shift * (high - low)));
    this.rows = [middle - width / 2, middle + width / 2];
  },
};

const moments = (part, k, axis) =>
  [part.jobs.submit[k] / axis.width, part.jobs.begin[k], part.jobs.stop[k]].map((quantum) =>
    moment(axis, quantum, true),
  );

function jobLine(part, k, facts) {
  const { jobs } = part;
  return `job ${jobs.id[k]}: ${number(jobs.size[k])} ${facts.unit}, waited ${duration(jobs.wait[k])}, ran ${duration(jobs.run[k])}`;
}

/** Fill the panel about one job, in each source that has it. */
function describeJob(panel, scene, id) {
  panel.replaceChildren();
  const { facts } = scene;
  const put = (parent, tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = wellFormed(text);
    if (name) element.className = name;
    parent.append(element);
    return element;
  };
  const having = scene.parts.filter((part) => part.jobs?.byId.has(id));
  if (!having.length) {
    const there = scene.parts
      .filter((part) => part.jobs)
      .map((part) => `${part.source.name}: ${number(part.jobs.n)} of ${number(part.source.jobs)}`)
      .join("; ");
    put(
      panel,
      "p",
      `Job ${id} is not among the single jobs of this page (${there}). A window of other jobs is named by --window START:COUNT.`,
    );
    return [];
  }
  for (const part of having) {
    const k = part.jobs.byId.get(id),
      { jobs } = part,
      [submit, start, end] = moments(part, k, facts.axis);
    const card = put(panel, "article");
    put(card, "h3", `Job ${id}${scene.parts.length > 1 ? `, ${part.source.name}` : ""}`);
    if (jobs.texts[k]) put(card, "p", jobs.texts[k], "why");
    const list = put(card, "dl");
    const facts_ = [
      ["submitted", submit],
      ["started", jobs.wait[k] === jobs.wait[k] ? start : "unknown"],
      ["ended", end],
      ["wait", duration(jobs.wait[k])],
      ["run time", duration(jobs.run[k])],
      ["limit", duration(jobs.limit[k])],
      [facts.unit, number(jobs.size[k])],
      ["status", facts.status[jobs.codes.status[k]]],
      ["user", jobs.users[k] ?? "unknown"],
      [facts.queue.column, facts.queue.names[jobs.codes.queue[k]]],
    ];
    for (const [name, value] of facts_) {
      const row = put(list, "div");
      put(row, "dt", name);
      put(row, "dd", value);
    }
    if (jobs.texts[k] && part.source.kind === "schedule")
      put(card, "p", `“tracekit explain SCHEDULE TRACE --job ${id}” also tries other estimates.`, "quiet");
  }
  return having;
}
