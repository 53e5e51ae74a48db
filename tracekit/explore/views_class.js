// views_class.js: the views by class: sizes, lengths, waits, status, users, queues. Same shape as in views_time.js.

/** Sums of the counts of a source that several views need; worked out once for each selection. */
function sums(part) {
  const { found, facts, source } = part;
  if (found.sums) return found.sums;
  const nSize = facts.size.class.length,
    nRun = facts.run.class.length,
    nStatus = facts.status.length;
  const made = {
    size: new Float64Array(nSize),
    run: new Float64Array(nRun),
    sizeRun: new Float64Array(nSize * nRun),
    status: new Float64Array(nStatus),
    runByStatus: new Float64Array(nStatus * nRun),
    sizes: facts.size.names.map(() => ({ jobs: 0, work: 0, status: new Float64Array(nStatus) })),
    lengths: facts.run.names.map(() => ({ jobs: 0, work: 0, status: new Float64Array(nStatus) })),
  };
  const sizes = [...source.means.size, 0],
    runs = [...source.means.run, 0];
  for (let st = 0; st < nStatus; st++) {
    for (let s = 0; s < nSize; s++) {
      const bySize = made.sizes[facts.size.class[s]];
      for (let r = 0, at = (st * nSize + s) * nRun; r < nRun; r++, at++) {
        const jobs = found.joint[at];
        if (!jobs) continue;
        const byLength = made.lengths[facts.run.class[r]],
          work = jobs * sizes[s] * runs[r];
        made.size[s] += jobs;
        made.run[r] += jobs;
        made.sizeRun[s * nRun + r] += jobs;
        made.status[st] += jobs;
        made.runByStatus[st * nRun + r] += jobs;
        bySize.jobs += jobs;
        bySize.work += work;
        bySize.status[st] += jobs;
        byLength.jobs += jobs;
        byLength.work += work;
        byLength.status[st] += jobs;
      }
    }
  }
  found.sums = made;
  return made;
}

const share = (value, total) => (total > 0 ? value / total : 0);
const filtered = (scene) => scene.selection.narrowed || !scene.selection.whole;
const known = (classes) => classes.slice(0, -1);
const allSums = (part) => sums({ ...part, found: part.all });
/** "name: words; name: words" of the sources of a scene. */
const told = (scene, text) =>
  scene.parts.map((part, k) => `${scene.parts.length > 1 ? `${part.source.name}: ` : ""}${text(part, k)}`).join("; ");
const sizeTicks = (facts) =>
  facts.size.edges
    .filter((edge, k, all) => Number.isInteger(Math.log2(edge)) || k === all.length - 1)
    .map((edge) => [edge, brief(edge)]);

const geometryView = {
  id: "sizes-run-times",
  title: "Sizes and run times",
  kind: "heat",
  height: 280,
  needs: (source) => (source.known.runs && source.known.sizes ? "" : "run times or sizes are unknown"),
  note: (scene) => `jobs by size (${scene.facts.unit}) and run time, logarithmic; drag to choose a part`,
  draw(pen, width, height, scene) {
    const { facts, parts, selection } = scene,
      gap = 14;
    const nRun = facts.run.edges.length,
      nSize = facts.size.edges.length,
      all = nRun + 1;
    const each = (width - 52 - gap * (parts.length - 1)) / parts.length;
    const top = Math.max(...parts.map((part) => highest([sums(part).sizeRun])));
    const boxes_ = parts.map((_, s) => ({
      x: 50 + s * (each + gap),
      y: parts.length > 1 ? 22 : 8,
      width: each - 6,
      height: height - (parts.length > 1 ? 52 : 38),
    }));
    scene.boxes.set("sizes-run-times", boxes_);
    const marks = [];
    parts.forEach((part, s) => {
      const box = boxes_[s],
        { sizeRun } = sums(part);
      heat(pen, box, nRun, nSize, (r, k) => sizeRun[k * all + r], top, true);
      if (s === 0) {
        let lastY = Infinity;
        facts.size.edges.forEach((edge, k) => {
          const y = box.y + box.height * (1 - (k + 0.5) / nSize);
          if (lastY - y < 15) return;
          lastY = y;
          pen.text(box.x - 5, y, brief(edge), { align: "right", base: "middle" });
        });
      }
      let lastX = -Infinity;
      for (const [value, text] of TIME_TICKS) {
        const k = lowerBound(facts.run.edges, value);
        const x = box.x + (box.width * (k + 1)) / nRun;
        if (k >= nRun || x - lastX < 42) continue;
        lastX = x;
        pen.text(Math.min(x, box.x + box.width - 10), box.y + box.height + 16, text, { align: "center" });
        pen.line([x, box.y + box.height, x, box.y + box.height + 4], pen.look.quiet);
      }
      if (parts.length > 1)
        pen.text(box.x, 14, part.source.name.slice(0, 40), { fill: pen.look.series[s], bold: true });
      facts.size.names.slice(0, -1).forEach((sizeName, sc) =>
        facts.run.names.slice(0, -1).forEach((lengthName, lc) => {
          const sizeCodes = codesOf(facts.size.class, sc, nSize),
            runCodes = codesOf(facts.run.class, lc, nRun);
          if (!sizeCodes.length || !runCodes.length) return;
          let jobs = 0;
          for (const k of sizeCodes) for (const r of runCodes) jobs += sizeRun[k * all + r];
          marks.push({
            x: box.x + (box.width * runCodes[0]) / nRun,
            width: (box.width * runCodes.length) / nRun,
            y: box.y + box.height * (1 - (sizeCodes.at(-1) + 1) / nSize),
            height: (box.height * sizeCodes.length) / nSize,
            label: `${parts.length > 1 ? `${part.source.name}, ` : ""}${sizeName} ${facts.unit}, ${lengthName}: ${number(jobs)} jobs, ${percent(share(jobs, part.found.jobs))}`,
            choose: (scene_) => {
              scene_.selection.dims.sizes = new Set([sc]);
              scene_.selection.dims.lengths = new Set([lc]);
            },
            on: Boolean(selection.dims.sizes?.has(sc) && selection.dims.lengths?.has(lc)),
          });
        }),
      );
    });
    return marks;
  },
  brush(scene, area) {
    const box = scene.boxes.get("sizes-run-times").find((one) => area.x0 <= one.x + one.width && area.x1 >= one.x);
    if (!box) return;
    const { facts, selection } = scene,
      range = (low, high, count) => {
        const set = new Set();
        for (let k = Math.max(0, Math.floor(low * count)); k <= Math.min(count - 1, Math.floor(high * count)); k++)
          set.add(k);
        return set;
      };
    selection.dims.runBins = range(
      (area.x0 - box.x) / box.width,
      (area.x1 - box.x) / box.width,
      facts.run.edges.length,
    );
    selection.dims.sizeBins = range(
      1 - (area.y1 - box.y) / box.height,
      1 - (area.y0 - box.y) / box.height,
      facts.size.edges.length,
    );
  },
  table(scene) {
    const { facts } = scene,
      nRun = facts.run.class.length,
      rows = [["size at most", "run time at most, s", ...names(scene)]];
    facts.size.edges.forEach((size, s) =>
      facts.run.edges.forEach((run, r) => {
        const jobs = scene.parts.map((part) => sums(part).sizeRun[s * nRun + r]);
        if (jobs.some(Boolean)) rows.push([size, run, ...jobs]);
      }),
    );
    return rows;
  },
};

const codesOf = (classes, one, count) => Array.from({ length: count }, (_, k) => k).filter((k) => classes[k] === one);

/** A view of cumulative shares. */
function cdfView({ id, title, edges, counts, ticks, needs, note }) {
  const curvesOf = (scene) =>
    scene.parts.flatMap((part, s) =>
      counts(part).map(({ name, values }, k) => ({
        counts: values,
        name: [scene.parts.length > 1 ? part.source.name : "", name].filter(Boolean).join(", ") || "jobs",
        colour: k ? "soft" : "series",
        s,
      })),
    );
  return {
    id,
    title,
    kind: "plain",
    height: 210,
    needs,
    note,
    draw(pen, width, height, scene) {
      const box = inside(width, height, { top: scene.parts.length > 1 ? 22 : 10 });
      const curves = curvesOf(scene).map((curve) => ({ ...curve, colour: pen.look[curve.colour][curve.s] }));
      const marks = cumulative(pen, box, {
        edges: edges(scene.facts),
        curves,
        ticks: ticks(scene.facts),
        dashes: curves.length > scene.parts.length ? [[], [], [5, 2], [5, 2]] : [[], [5, 2]],
      });
      legend(pen, box, names(scene));
      return marks;
    },
    table(scene) {
      const curves = curvesOf(scene),
        at = edges(scene.facts),
        rows = [["at most", ...curves.map((curve) => `${curve.name}: share of jobs`)]];
      const totals = curves.map((curve) => sumOf(curve.counts, at.length)),
        sofar = curves.map(() => 0);
      at.forEach((edge, k) => {
        curves.forEach((curve, c) => {
          sofar[c] += curve.counts[k];
        });
        rows.push([edge, ...sofar.map((sum, c) => share(sum, totals[c]))]);
      });
      return rows;
    },
  };
}

const medianNote = (edges, counts, text) => (scene) =>
  `median ${told(scene, (part) => text(edges(scene.facts)[quantile(counts(part), 0.5, edges(scene.facts).length)]))}`;
const timeTicksOf = () => TIME_TICKS;
const runCdf = cdfView({
  id: "cdf-run-time",
  title: "Run times",
  edges: (facts) => facts.run.edges,
  counts: (part) => [{ name: "", values: sums(part).run }],
  ticks: timeTicksOf,
  needs: (source) => (source.known.runs ? "" : "run times are unknown"),
  note: medianNote(
    (facts) => facts.run.edges,
    (part) => sums(part).run,
    duration,
  ),
});
const sizeCdf = cdfView({
  id: "cdf-size",
  title: "Sizes",
  edges: (facts) => facts.size.edges,
  counts: (part) => [{ name: "", values: sums(part).size }],
  ticks: sizeTicks,
  needs: (source) => (source.known.sizes ? "" : "sizes are unknown"),
  note: medianNote(
    (facts) => facts.size.edges,
    (part) => sums(part).size,
    number,
  ),
});
const gapCdf = cdfView({
  id: "cdf-gap",
  title: "Time since the submit before",
  edges: (facts) => facts.gap.edges,
  counts: (part) => [{ name: "", values: part.found.gaps }],
  ticks: timeTicksOf,
  note: medianNote(
    (facts) => facts.gap.edges,
    (part) => part.found.gaps,
    duration,
  ),
});
const waitCounts = (part) => {
  const nWait = part.facts.wait.class.length,
    values = new Float64Array(nWait);
  for (let k = 0; k < part.found.waits.length; k++) values[k % nWait] += part.found.waits[k];
  return values;
};
const waitCdf = cdfView({
  id: "cdf-wait",
  title: "Waits",
  edges: (facts) => facts.wait.edges,
  counts: (part) => [{ name: "", values: waitCounts(part) }],
  ticks: timeTicksOf,
  needs: (source) => (source.known.waits ? "" : "waits are unknown"),
  note: medianNote((facts) => facts.wait.edges, waitCounts, duration),
});
const turnCdf = cdfView({
  id: "cdf-turnaround",
  title: "Turnaround: wait and run time",
  edges: (facts) => turnTable(facts).edges,
  counts: (part) => [{ name: "", values: part.found.turns }],
  ticks: timeTicksOf,
  needs: (source) => (source.known.waits && source.known.runs ? "" : "waits or run times are unknown"),
  note: medianNote(
    (facts) => turnTable(facts).edges,
    (part) => part.found.turns,
    duration,
  ),
});

/** Classes of sizes or lengths: [dimension, names, what is counted of a source]. */
const CLASSES = {
  sizes: {
    title: "size",
    names: (facts) => known(facts.size.names),
    of: (part) => sums(part).sizes,
    all: (part) => allSums(part).sizes,
    unit: (facts) => ` ${facts.unit}`,
  },
  lengths: {
    title: "run time",
    names: (facts) => known(facts.run.names),
    of: (part) => sums(part).lengths,
    all: (part) => allSums(part).lengths,
    unit: () => "",
  },
};

const choosing = (dimension, value) => (scene) => scene.selection.toggle(dimension, value);
const isOn = (scene, dimension, value) => Boolean(scene.selection.dims[dimension]?.has(value));

function sharesView(dimension) {
  const about = CLASSES[dimension];
  const groups = (scene) =>
    about.names(scene.facts).map((name, k) => {
      const values = scene.parts.flatMap((part) => [
        share(about.of(part)[k].jobs, part.found.jobs),
        share(about.of(part)[k].work, totalWork(about.of(part))),
      ]);
      const all = filtered(scene)
        ? scene.parts.flatMap((part) => [
            share(about.all(part)[k].jobs, part.all.jobs),
            share(about.all(part)[k].work, totalWork(about.all(part))),
          ])
        : [];
      return {
        name,
        values,
        all,
        colours: null,
        choose: choosing(dimension, k),
        on: isOn(scene, dimension, k),
        label: `${name}${about.unit(scene.facts)}: ${told(scene, (_part, s) => `${percent(values[2 * s])} of the jobs, ${percent(values[2 * s + 1])} of the work`)}`,
      };
    });
  return {
    id: `shares-${dimension}`,
    title: `Jobs and work by ${about.title}`,
    kind: "plain",
    height: 210,
    needs: (source) => (source.known[dimension === "sizes" ? "sizes" : "runs"] ? "" : `${about.title}s are unknown`),
    note: (scene) =>
      `${scene.parts.length > 1 ? "in pairs for each source: " : ""}share of the jobs (strong) and of the ${scene.facts.unit}-seconds (soft)${filtered(scene) ? "; black: the whole trace" : ""}`,
    draw(pen, width, height, scene) {
      const box = inside(width, height, { top: scene.parts.length > 1 ? 22 : 10 });
      const marks = pairBars(pen, box, groups(scene), scene);
      legend(pen, box, names(scene));
      return marks;
    },
    table: (scene) => [
      [about.title, ...names(scene).flatMap((name) => [`${name}: share of jobs`, `${name}: share of work`])],
      ...groups(scene).map((group) => [group.name, ...group.values]),
    ],
  };
}

const totalWork = (classes) => classes.reduce((sum, one) => sum + one.work, 0);

/** Bars in pairs: jobs in strong and work in soft colours, for each source. */
function pairBars(pen, box, groups, scene) {
  const high = Math.max(...groups.flatMap((group) => [...group.values, ...group.all]), 1e-9);
  const up = amountAxis(pen, box, Math.min(1, high * 1.08), (value) => `${Number((100 * value).toPrecision(3))} %`);
  const step = box.width / groups.length,
    bottom = box.y + box.height;
  pen.line([box.x, bottom, box.x + box.width, bottom], pen.look.quiet);
  return groups.map((group, k) => {
    const x = box.x + k * step,
      count = group.values.length,
      width = Math.min((step * 0.8) / count, 30);
    group.values.forEach((value, s) => {
      const left = x + step / 2 + (s - count / 2) * width,
        source = Math.floor(s / 2);
      if (value > 0)
        pen.rect(
          left,
          up(value),
          width - 1.5,
          bottom - up(value),
          s % 2 ? pen.look.soft[source] : pen.look.series[source],
        );
      if (group.all[s] !== undefined)
        pen.line([left - 1, up(group.all[s]), left + width - 0.5, up(group.all[s])], pen.look.mark, 1.5);
    });
    classLabel(pen, x + step / 2, bottom + 14, group.name, step);
    return {
      x,
      y: box.y,
      width: step,
      height: box.height + 18,
      label: group.label,
      choose: group.choose,
      on: group.on,
    };
  });
}

function waitsView(dimension) {
  const about = CLASSES[dimension];
  const groups = (scene) =>
    about.names(scene.facts).map((name, k) => {
      const found = scene.parts.map((part) => waitBox(part, dimension, k));
      return {
        name,
        boxes: found,
        choose: choosing(dimension, k),
        on: isOn(scene, dimension, k),
        label: `${name}${about.unit(scene.facts)}: ${told(scene, (_part, s) => (found[s] ? `median wait ${duration(found[s].middle)}, mean ${duration(found[s].mean)}, ${number(found[s].n)} jobs` : "no jobs"))}`,
      };
    });
  return {
    id: `waits-${dimension}`,
    title: `Waits by ${about.title}`,
    kind: "plain",
    height: 220,
    needs: (source) => (source.known.waits ? "" : "waits are unknown"),
    note: () => "box: middle half of the jobs; line: median; cross: mean",
    draw(pen, width, height, scene) {
      const box = inside(width, height, { top: scene.parts.length > 1 ? 22 : 10 });
      const marks = boxes(pen, box, groups(scene), { edges: scene.facts.wait.edges, ticks: TIME_TICKS });
      legend(pen, box, names(scene));
      return marks;
    },
    table: (scene) => boxTable(scene, about.title, groups(scene)),
  };
}

function boxTable(scene, title, groups) {
  const heads = ["jobs", "lower quarter, s", "median, s", "upper quarter, s", "mean, s"];
  const rows = [[title, ...names(scene).flatMap((name) => heads.map((head) => `${name}: ${head}`))]];
  for (const group of groups)
    rows.push([
      group.name,
      ...group.boxes.flatMap((one) => (one ? [one.n, one.low, one.middle, one.high, one.mean] : [0, "", "", "", ""])),
    ]);
  return rows;
}

/** The waits of one class of sizes or lengths. */
function waitBox(part, dimension, k) {
  const { facts, found, source } = part,
    nWait = facts.wait.class.length,
    lengths = facts.run.names.length,
    sizes = facts.size.names.length;
  const counts = new Float64Array(nWait);
  const add = (sc, lc) => {
    for (let w = 0, at = (sc * lengths + lc) * nWait; w < nWait; w++, at++) counts[w] += found.waits[at];
  };
  if (dimension === "sizes") for (let lc = 0; lc < lengths; lc++) add(k, lc);
  else for (let sc = 0; sc < sizes; sc++) add(sc, k);
  return boxOf(counts, facts.wait.edges, source.means.wait);
}

const statusView = {
  id: "status",
  title: "How jobs ended",
  kind: "plain",
  height: 210,
  needs: (source) => (source.known.status ? "" : "how jobs ended is unknown"),
  note: (scene) =>
    `share of the jobs (strong) and of the ${scene.facts.unit}-seconds (soft)${filtered(scene) ? "; black: the whole trace" : ""}`,
  groups(scene) {
    return scene.facts.status
      .map((name, k) => {
        const pair = (part, found) => [
          share(sums({ ...part, found }).status[k], found.jobs),
          share(
            found.statusWork[k],
            found.statusWork.reduce((a, b) => a + b, 0),
          ),
        ];
        const values = scene.parts.flatMap((part) => pair(part, part.found));
        return {
          name,
          values,
          all: filtered(scene) ? scene.parts.flatMap((part) => pair(part, part.all)) : [],
          choose: choosing("status", k),
          on: isOn(scene, "status", k),
          label: `${name}: ${told(scene, (_part, s) => `${percent(values[2 * s])} of the jobs, ${percent(values[2 * s + 1])} of the work`)}`,
        };
      })
      .filter((group) => group.values.some(Boolean) || group.all.some(Boolean) || group.on);
  },
  draw(pen, width, height, scene) {
    const box = inside(width, height, { top: scene.parts.length > 1 ? 22 : 10 });
    const groups = this.groups(scene);
    const marks = groups.length ? pairBars(pen, box, groups, scene) : [];
    legend(pen, box, names(scene));
    return marks;
  },
  table(scene) {
    return [
      ["status", ...names(scene).flatMap((name) => [`${name}: share of jobs`, `${name}: share of work`])],
      ...this.groups(scene).map((group) => [group.name, ...group.values]),
    ];
  },
};

function statusByView(dimension) {
  const about = CLASSES[dimension];
  const groups = (scene) =>
    about.names(scene.facts).map((name, k) => {
      const stacks = scene.parts.map((part) => {
        const one = about.of(part)[k];
        return Array.from(one.status, (jobs) => share(jobs, one.jobs));
      });
      return {
        name,
        stacks,
        choose: choosing(dimension, k),
        on: isOn(scene, dimension, k),
        label: `${name}${about.unit(scene.facts)}: ${told(
          scene,
          (_part, s) =>
            stacks[s]
              .map((value, st) => [value, scene.facts.status[st]])
              .filter(([value]) => value > 0)
              .map(([value, status]) => `${percent(value)} ${status}`)
              .join(", ") || "no jobs",
        )}`,
      };
    });
  return {
    id: `status-${dimension}`,
    title: `How jobs ended, by ${about.title}`,
    kind: "plain",
    height: 230,
    needs: (source) => (source.known.status ? "" : "how jobs ended is unknown"),
    note: () => "shares of the jobs of each class",
    draw(pen, width, height, scene) {
      const box = inside(width, height, { top: 26 });
      const marks = stacked(pen, box, groups(scene), pen.look.status);
      let x = box.x;
      scene.facts.status.forEach((name, st) => {
        if (!scene.parts.some((part) => sums(part).status[st])) return;
        pen.rect(x, 8, 9, 9, pen.look.status[st]);
        pen.text(x + 12, 13, name, { base: "middle", size: 10.5 });
        x += 22 + name.length * 5.6;
      });
      return marks;
    },
    table: (scene) => [
      [about.title, ...names(scene).flatMap((name) => scene.facts.status.map((status) => `${name}: ${status}`))],
      ...groups(scene).map((group) => [group.name, ...group.stacks.flat()]),
    ],
  };
}

const runByStatusView = {
  id: "run-time-status",
  title: "Run times by how jobs ended",
  kind: "plain",
  height: 220,
  needs: (source) => (source.known.status && source.known.runs ? "" : "how jobs ended or run times are unknown"),
  note: () => "box: middle half of the jobs; line: median; cross: mean. Choose a user to see theirs",
  groups(scene) {
    const nRun = scene.facts.run.class.length;
    return scene.facts.status
      .map((name, k) => {
        const found = scene.parts.map((part) =>
          boxOf(sums(part).runByStatus, scene.facts.run.edges, part.source.means.run, k * nRun),
        );
        return {
          name,
          boxes: found,
          choose: choosing("status", k),
          on: isOn(scene, "status", k),
          label: `${name}: ${told(scene, (_part, s) => (found[s] ? `median ${duration(found[s].middle)}, mean ${duration(found[s].mean)}, ${number(found[s].n)} jobs` : "no jobs"))}`,
        };
      })
      .filter((group) => group.boxes.some(Boolean));
  },
  draw(pen, width, height, scene) {
    const box = inside(width, height, { top: scene.parts.length > 1 ? 22 : 10 });
    const marks = boxes(pen, box, this.groups(scene), { edges: scene.facts.run.edges, ticks: TIME_TICKS });
    legend(pen, box, names(scene));
    return marks;
  },
  table(scene) {
    return boxTable(scene, "status", this.groups(scene));
  },
};

/** Horizontal bars of labels, the largest first: users and queues. */
function labelsView({ id, title, dimension, labels, jobs, work, most, needs, note }) {
  const groups = (scene) => {
    const list = labels(scene.facts);
    const rows = list.map((name, k) => ({
      name,
      k,
      values: scene.parts.flatMap((part) => [
        share(jobs(part, k), part.found.jobs),
        ...(work ? [share(work(part, k), total(part.found.userWork))] : []),
      ]),
    }));
    const shown = rows.filter((row) => row.values.some(Boolean) || isOn(scene, dimension, row.k));
    shown.sort((a, b) => Math.max(...b.values) - Math.max(...a.values) || a.k - b.k);
    return shown;
  };
  const total = (values) => values.reduce((sum, value) => sum + value, 0);
  return {
    id,
    title,
    kind: "plain",
    height: 300,
    needs,
    note,
    draw(pen, width, height, scene) {
      const rows = groups(scene).slice(0, most),
        left = Math.min(130, width * 0.32);
      const top = scene.parts.length > 1 ? 22 : 6,
        step = Math.min((height - top - 4) / Math.max(rows.length, 1), 26);
      const high = Math.max(...rows.flatMap((row) => row.values), 1e-9),
        room = width - left - (work ? 92 : 56);
      legend(pen, { x: left, y: top }, names(scene));
      const per = work ? 2 : 1;
      return rows.map((row, n) => {
        const y = top + n * step,
          thick = (step * 0.8) / row.values.length,
          on = isOn(scene, dimension, row.k);
        const letters = Math.floor(left / 6.4),
          name = row.name.length > letters ? `${row.name.slice(0, letters - 1)}…` : row.name;
        pen.text(left - 6, y + step / 2, name, {
          align: "right",
          base: "middle",
          fill: on ? pen.look.ink : pen.look.quiet,
          bold: on,
        });
        row.values.forEach((value, s) =>
          pen.rect(
            left,
            y + step * 0.1 + s * thick,
            Math.max((room * value) / high, value > 0 ? 1 : 0),
            thick - 0.5,
            per === 2 && s % 2 ? pen.look.soft[Math.floor(s / per)] : pen.look.series[Math.floor(s / per)],
          ),
        );
        pen.text(
          left + (room * Math.max(...row.values)) / high + 5,
          y + step / 2,
          row.values
            .filter((_, s) => s < per)
            .map(percent)
            .join(" · "),
          { base: "middle", size: 10.5 },
        );
        return {
          x: 0,
          y,
          width,
          height: step,
          choose: choosing(dimension, row.k),
          on,
          label: `${row.name}: ${told(scene, (_part, s) => `${percent(row.values[s * per])} of the jobs${work ? `, ${percent(row.values[s * per + 1])} of the work` : ""}`)}`,
        };
      });
    },
    table: (scene) => [
      [
        title.toLowerCase(),
        ...names(scene).flatMap((name) => [`${name}: share of jobs`, ...(work ? [`${name}: share of work`] : [])]),
      ],
      ...groups(scene).map((row) => [row.name, ...row.values]),
    ],
  };
}

const userJobs = (part, k) => {
  let jobs = 0;
  for (let code = 0; code < 32; code++) jobs += part.found.kinds[k * 32 + code];
  return jobs;
};
const usersView = labelsView({
  id: "users",
  title: "Users",
  dimension: "user",
  labels: (facts) => facts.user.names,
  jobs: userJobs,
  work: (part, k) => part.found.userWork[k],
  most: 14,
  needs: (source) => (source.known.users ? "" : "users are unknown"),
  note: (scene) =>
    `share of the jobs (strong) and of the work (soft); ${told(scene, (part) => `${number(part.source.users)} users in all`)}`,
});
const queuesView = labelsView({
  id: "queues",
  title: "Queues",
  dimension: "queue",
  labels: (facts) => facts.queue.names,
  jobs: (part, k) => part.found.queues[k],
  work: null,
  most: 14,
  needs: (source) => (source.known.queues ? "" : "queues are unknown"),
  note: (scene) => `share of the jobs by ${scene.facts.queue.column}`,
});

const repeatsView = {
  id: "repeats",
  title: "Users repeat their jobs",
  kind: "plain",
  height: 220,
  needs: (source) => (source.known.users ? "" : "users are unknown"),
  note: (scene) =>
    told(
      scene,
      (part) => `${percent(repeatShare(part))} are of the same kind (size and limit) as their user's job before`,
    ),
  shares(part) {
    const byKind = new Float64Array(KINDS);
    for (let k = 0; k < part.found.kinds.length; k++) {
      const code = k % REPEAT;
      if (code < KINDS) byKind[code] += part.found.kinds[k];
    }
    const total = byKind.reduce((a, b) => a + b, 0);
    let sum = 0;
    return Array.from({ length: KINDS - 1 }, (_, k) => share((sum += byKind[k]), total));
  },
  draw(pen, width, height, scene) {
    const box = inside(width, height, { top: scene.parts.length > 1 ? 22 : 10, bottom: 40 });
    const up = amountAxis(pen, box, 1, (value) => `${Math.round(100 * value)} %`),
      bottom = box.y + box.height;
    const across = (k) => box.x + (box.width * (k + 0.5)) / (KINDS - 1);
    pen.line([box.x, bottom, box.x + box.width, bottom], pen.look.quiet);
    for (let k = 0; k < KINDS - 1; k++) pen.text(across(k), bottom + 14, String(k + 1), { align: "center" });
    pen.text(box.x + box.width / 2, bottom + 30, "commonest kinds of a user's jobs, taken together", {
      align: "center",
    });
    const marks = [];
    scene.parts.forEach((part, s) => {
      const shares = this.shares(part);
      pen.line(
        shares.flatMap((value, k) => [across(k), up(value)]),
        pen.look.series[s],
        1.8,
        s ? [5, 2] : [],
      );
      shares.forEach((value, k) => {
        pen.rect(across(k) - 2.5, up(value) - 2.5, 5, 5, pen.look.series[s]);
        marks.push({
          x: across(k) - 9,
          y: up(value) - 9,
          width: 18,
          height: 18,
          label: `${part.source.name}: ${percent(value)} of the jobs are of their user's ${k + 1} commonest kind${k ? "s" : ""}`,
        });
      });
    });
    legend(pen, box, names(scene));
    return marks;
  },
  table(scene) {
    const all = scene.parts.map((part) => this.shares(part));
    return [["kinds taken together", ...names(scene)], ...all[0].map((_, k) => [k + 1, ...all.map((one) => one[k])])];
  },
};

/** The share of jobs that repeat their user's job before. */
function repeatShare(part) {
  let all = 0,
    same = 0;
  part.found.kinds.forEach((jobs, k) => {
    if (k % REPEAT < KINDS) {
      all += jobs;
      if (k % 32 >= REPEAT) same += jobs;
    }
  });
  return share(same, all);
}

/** What is submitted while the queue is short, middling and long. */
function metView(what) {
  const isRun = what === "run";
  const groups = (scene) => {
    const { facts } = scene,
      [short_, long] = facts.met,
      bins = isRun ? facts.run.class.length : facts.size.class.length;
    const rangeNames = [
      short_ ? `0 to ${number(short_)}` : "0",
      `${number(short_ + 1)} to ${number(long)}`,
      `over ${number(long)}`,
    ];
    return rangeNames.map((name, k) => {
      const found = scene.parts.map((part) =>
        boxOf(
          isRun ? part.found.metRun : part.found.metSize,
          isRun ? facts.run.edges : facts.size.edges,
          isRun ? part.source.means.run : part.source.means.size,
          k * bins,
        ),
      );
      const text = isRun ? duration : number;
      return {
        name,
        boxes: found,
        choose: choosing("met", k),
        on: isOn(scene, "met", k),
        label: `${name} jobs waiting: ${told(scene, (_part, s) => (found[s] ? `median ${text(found[s].middle)}, mean ${text(found[s].mean)}, ${number(found[s].n)} jobs` : "no jobs"))}`,
      };
    });
  };
  return {
    id: `behaviour-${isRun ? "run-time" : "size"}`,
    title: `${isRun ? "Run times" : "Sizes"} submitted, by length of the queue`,
    kind: "plain",
    height: 220,
    needs: (source) =>
      source.known.waits_half
        ? source.known[isRun ? "runs" : "sizes"]
          ? ""
          : "unknown"
        : "waits, and so the length of the queue, are unknown",
    note: () => "by the number of jobs waiting at the submit; box: middle half, line: median, cross: mean",
    draw(pen, width, height, scene) {
      const box = inside(width, height, { top: scene.parts.length > 1 ? 22 : 10 });
      const marks = boxes(
        pen,
        box,
        groups(scene),
        isRun
          ? { edges: scene.facts.run.edges, ticks: TIME_TICKS }
          : { edges: scene.facts.size.edges, ticks: sizeTicks(scene.facts) },
      );
      legend(pen, box, names(scene));
      return marks;
    },
    table: (scene) => boxTable(scene, "jobs waiting at the submit", groups(scene)),
  };
}
