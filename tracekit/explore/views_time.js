// views_time.js: the views over time. A view has id, title, note(scene), draw(pen, width, height, scene) -> marks, and
// table(scene) -> rows of which the first are the heads. `scene.parts` are the one or two sources that are compared.

const COLUMNS_OF_TIME = 360;

const names = (scene) => scene.parts.map((part) => part.source.name);
const highest = (curves) =>
  Math.max(...curves.map((values) => values.reduce((most, value) => Math.max(most, value), 0)), 1e-9);

/** A view of curves over time; `curves(scene)` are arrays of columns. */
function timeView({ id, title, unit, curves, text, cap, note, needs }) {
  return {
    id,
    title,
    kind: "time",
    wide: true,
    height: 190,
    needs,
    note,
    draw(pen, width, height, scene) {
      const { selection, facts } = scene;
      const box = inside(width, height, { top: scene.parts.length > 1 ? 22 : 10 });
      const values = curves(scene);
      const top = cap ? cap(scene, highest(values)) : highest(values) * 1.05;
      stepCurves(pen, box, values, top, text);
      timeAxis(pen, box, facts.axis, selection.from, selection.to);
      legend(pen, box, names(scene));
      scene.boxes.set(id, box);
      return timeMarks(scene, box, values, unit);
    },
    table(scene) {
      const values = curves(scene),
        { selection, facts } = scene;
      const step = (selection.to - selection.from) / values[0].length;
      const rows = [["from", ...names(scene).map((name) => `${name}: ${unit}`)]];
      for (let k = 0; k < values[0].length; k++)
        rows.push([moment(facts.axis, selection.from + k * step, true), ...values.map((one) => one[k])]);
      return rows;
    },
  };
}

/** Marks of a curve: 24 stretches that can be walked through and read. */
function timeMarks(scene, box, values, unit) {
  const { selection, facts } = scene,
    count = 24,
    per = values[0].length / count;
  return Array.from({ length: count }, (_, k) => {
    const from = selection.from + ((selection.to - selection.from) * k) / count,
      to = from + (selection.to - selection.from) / count;
    const means = values.map((one) => {
      let sum = 0;
      for (let c = Math.floor(k * per); c < Math.floor((k + 1) * per); c++) sum += one[c];
      return sum / per;
    });
    const told = means
      .map((mean, s) => `${scene.parts.length > 1 ? `${scene.parts[s].source.name}: ` : ""}${number(mean)} ${unit}`)
      .join("; ");
    return {
      x: box.x + (box.width * k) / count,
      y: box.y,
      width: box.width / count,
      height: box.height,
      label: `${moment(facts.axis, from)}: ${told}`,
      choose: (scene_) => scene_.selection.zoom(from, to),
    };
  });
}

/** Seconds of one column of the curves. */
const columnSeconds = (scene) =>
  ((scene.selection.to - scene.selection.from) * scene.facts.axis.width) / COLUMNS_OF_TIME;

const arrivalsView = timeView({
  id: "arrivals",
  title: "Submitted jobs",
  unit: "jobs an hour",
  curves: (scene) => scene.parts.map((part) => part.found.arrivals.map((jobs) => (jobs * 3600) / columnSeconds(scene))),
  note: (scene) => `jobs an hour; each column is ${duration(columnSeconds(scene))}`,
});

const useView = timeView({
  id: "utilisation",
  title: "Machine in use",
  unit: "% in use",
  curves: (scene) => scene.parts.map((part) => part.spread().used.map((units) => (100 * units) / part.source.total)),
  text: (value) => `${Math.round(value)} %`,
  cap: (scene, top) => (scene.selection.narrowed ? top * 1.05 : Math.max(top, 100) * 1.02),
  needs: (source) => (source.known.runs && source.known.sizes ? "" : "run times or sizes are unknown"),
  note: (scene) => {
    const machines = scene.parts.map((part) => {
      const assumed = part.source.known.waits_half ? "" : ", as if every job had started at once";
      const size = part.source.known.machine ? "" : ", the largest use: its size is unknown";
      return `${number(part.source.total)} ${scene.facts.unit}${size}${assumed}`;
    });
    return [...new Set(machines)].join("; ") + estimated(scene);
  },
});

const queueView = timeView({
  id: "queue-length",
  title: "Jobs waiting",
  unit: "jobs waiting",
  curves: (scene) => scene.parts.map((part) => part.spread().waiting),
  needs: (source) => (source.known.waits ? "" : "waits are unknown"),
  note: (scene) => `mean length of the queue${estimated(scene)}`,
});

function estimated(scene) {
  return scene.selection.narrowed && scene.parts.some((part) => !part.rows.exact)
    ? "; the share of the chosen classes is estimated from binned times"
    : "";
}

const hoursView = {
  id: "hours",
  title: "Hours and weekdays of submits",
  kind: "heat",
  height: 264,
  note: (scene) =>
    `mean jobs in each hour of the week${scene.facts.axis.calendar ? ", local time" : "; no calendar, so second 0 counts as Monday midnight"}; drag to choose hours`,
  draw(pen, width, height, scene) {
    const parts = scene.parts,
      gap = 14,
      marks = [];
    const each = (width - 36 - gap * (parts.length - 1)) / parts.length;
    const weeks = Math.max(((scene.selection.to - scene.selection.from) * scene.facts.axis.width) / 604800, 1 / 7);
    const top = Math.max(...parts.map((part) => highest([part.found.hours]) / weeks));
    scene.boxes.set("hours", []);
    parts.forEach((part, s) => {
      const box = {
        x: 34 + s * (each + gap),
        y: parts.length > 1 ? 22 : 8,
        width: each - 6,
        height: height - (parts.length > 1 ? 102 : 88),
      };
      const cell = (hour, day) => part.found.hours[(6 - day) * 24 + hour] / weeks;
      heat(pen, box, 24, 7, cell, top, false);
      DAYS.forEach((name, day) => {
        if (s === 0)
          pen.text(box.x - 5, box.y + ((day + 0.5) * box.height) / 7, name, { align: "right", base: "middle" });
      });
      const below = { x: box.x, y: box.y + box.height + 6, width: box.width, height: 34 };
      const byHour = Array.from({ length: 24 }, (_, hour) =>
        DAYS.reduce((sum, _name, day) => sum + part.found.hours[day * 24 + hour], 0),
      );
      const most = Math.max(...byHour, 1e-9);
      byHour.forEach((jobs, hour) =>
        pen.rect(
          below.x + (hour * below.width) / 24 + 0.5,
          below.y + below.height * (1 - jobs / most),
          below.width / 24 - 1,
          (below.height * jobs) / most,
          pen.look.series[s],
        ),
      );
      for (let hour = 0; hour < 24; hour += each > 260 ? 3 : 6)
        pen.text(box.x + ((hour + 0.5) * box.width) / 24, below.y + below.height + 13, `${hour}h`, { align: "center" });
      if (parts.length > 1)
        pen.text(box.x, 14, part.source.name.slice(0, 40), { fill: pen.look.series[s], bold: true });
      scene.boxes.get("hours").push(box);
      DAYS.forEach((name, day) =>
        byHour.forEach((_jobs, hour) =>
          marks.push({
            x: box.x + (hour * box.width) / 24,
            y: box.y + (day * box.height) / 7,
            width: box.width / 24,
            height: box.height / 7,
            label: `${parts.length > 1 ? `${part.source.name}, ` : ""}${name} ${two(hour)}:00: ${number(part.found.hours[day * 24 + hour] / weeks)} jobs`,
            choose: (scene_) => scene_.selection.toggle("hours", day * 24 + hour),
            on: scene.selection.dims.hours !== null && scene.selection.dims.hours.has(day * 24 + hour),
          }),
        ),
      );
    });
    pen.text(34, height - 8, `none`, {});
    for (let k = 0; k < 60; k++) pen.rect(64 + k, height - 16, 1.2, 9, heatColour(0.06 + (0.94 * k) / 59));
    pen.text(130, height - 8, `${number(top)} jobs an hour`, {});
    return marks;
  },
  /** Choose the hours inside a rectangle of the picture. */
  brush(scene, area) {
    const box = scene.boxes.get("hours").find((one) => area.x0 <= one.x + one.width && area.x1 >= one.x);
    if (!box) return;
    const column = (x) => Math.max(0, Math.min(23, Math.floor((24 * (x - box.x)) / box.width)));
    const row = (y) => Math.max(0, Math.min(6, Math.floor((7 * (y - box.y)) / box.height)));
    const set = new Set();
    for (let day = row(area.y0); day <= row(area.y1); day++)
      for (let hour = column(area.x0); hour <= column(area.x1); hour++) set.add(day * 24 + hour);
    scene.selection.dims.hours = set;
  },
  table(scene) {
    const rows = [["weekday", "hour", ...names(scene)]];
    DAYS.forEach((name, day) => {
      for (let hour = 0; hour < 24; hour++)
        rows.push([name, hour, ...scene.parts.map((part) => part.found.hours[day * 24 + hour])]);
    });
    return rows;
  },
};
