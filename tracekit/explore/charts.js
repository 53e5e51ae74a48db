// charts.js: the kinds of chart. Each draws with a pen into a box and leaves marks: what can be pointed at, chosen and read aloud.
//
// A mark is {x, y, width, height, label, choose}; `choose` filters by what the mark stands for.

/** Return the box inside the margins of a picture. */
function inside(width, height, { left = 48, right = 10, top = 10, bottom = 28 } = {}) {
  return { x: left, y: top, width: Math.max(width - left - right, 20), height: Math.max(height - top - bottom, 20) };
}

/** Draw lines and numbers of an upright axis that begins at 0; return the function from values to places. */
function amountAxis(pen, box, top, text = brief) {
  const high = top > 0 ? top : 1;
  const place = (value) => box.y + box.height * (1 - value / high);
  for (const tick of niceTicks(0, high, Math.max(2, Math.floor(box.height / 38)))) {
    pen.line([box.x, place(tick), box.x + box.width, place(tick)], pen.look.line);
    pen.text(box.x - 5, place(tick), text(tick), { align: "right", base: "middle" });
  }
  return place;
}

/** Draw the axis of time below a box; return the function from quanta to places. */
function timeAxis(pen, box, axis, from, to) {
  const place = (quantum) => box.x + (box.width * (quantum - from)) / (to - from);
  const bottom = box.y + box.height;
  pen.line([box.x, bottom, box.x + box.width, bottom], pen.look.quiet);
  for (const [quantum, words] of timeTicks(axis, from, to, Math.max(2, Math.floor(box.width / 70)))) {
    const x = place(quantum);
    pen.line([x, bottom, x, bottom + 4], pen.look.quiet);
    const half = 3.1 * words.length; // of the words' width: none may be cut off
    pen.text(Math.min(Math.max(x, box.x + half), box.x + box.width - half), bottom + 16, words, { align: "center" });
  }
  return place;
}

/** Points of a curve of steps over the columns of a box. */
function stepPoints(box, values, place) {
  const points = [];
  const step = box.width / values.length;
  for (let k = 0; k < values.length; k++) {
    const y = place(values[k]);
    points.push(box.x + k * step, y, box.x + (k + 1) * step, y);
  }
  return points;
}

/** Curves of steps over time: one is filled, of two the second is a dashed line. */
function stepCurves(pen, box, curves, top, text) {
  const place = amountAxis(pen, box, top, text);
  const bottom = box.y + box.height;
  curves.forEach((values, k) => {
    const points = stepPoints(box, values, place);
    if (curves.length === 1) pen.area([box.x, bottom, ...points, box.x + box.width, bottom], pen.look.soft[0]);
    pen.line(points, pen.look.series[k], 1.4, k ? [5, 2] : []);
  });
}

/** Names of the sources in their colours, above the chart. */
function legend(pen, box, names) {
  if (names.length < 2) return;
  let x = box.x + 2;
  names.forEach((name, k) => {
    const words = name.length > 26 ? `${name.slice(0, 25)}…` : name;
    pen.line([x, box.y - 8, x + 18, box.y - 8], pen.look.series[k], 2.4, k ? [5, 2] : []);
    pen.text(x + 22, box.y - 8, words, { base: "middle", fill: pen.look.ink });
    x += 40 + words.length * 6.2;
  });
}

/** Cumulative shares over a scale with bins: `curves` are counts by bin. */
function cumulative(pen, box, { edges, curves, ticks, dashes = [[], [5, 2]] }) {
  const low = Math.log(edges[0]) - 0.15,
    high = Math.log(edges[edges.length - 1]) + 1e-9;
  const across = (value) => box.x + (box.width * (Math.log(Math.max(value, edges[0])) - low)) / (high - low);
  const up = amountAxis(pen, box, 1, (value) => `${Math.round(100 * value)} %`);
  const bottom = box.y + box.height;
  pen.line([box.x, bottom, box.x + box.width, bottom], pen.look.quiet);
  let lastX = -Infinity;
  for (const [value, words] of ticks) {
    const x = across(value);
    if (value < edges[0] || value > edges[edges.length - 1] || x - lastX < 7 * words.length + 6) continue;
    lastX = x;
    pen.line([x, bottom, x, bottom + 4], pen.look.quiet);
    pen.text(Math.min(x, box.x + box.width - 8), bottom + 16, words, { align: "center" });
  }
  const marks = [];
  curves.forEach(({ counts, name, colour }, k) => {
    const total = sumOf(counts, edges.length);
    if (!total) return;
    const points = [box.x, bottom];
    let sum = 0;
    for (let code = 0; code < edges.length; code++) {
      if (code) points.push(across(edges[code - 1]), up(sum / total));
      sum += counts[code];
      points.push(across(edges[code]), up(sum / total));
    }
    pen.line(points, colour, 1.8, dashes[k % dashes.length]);
    for (const share of [0.1, 0.25, 0.5, 0.75, 0.9, 0.99]) {
      const code = quantile(counts, share, edges.length);
      marks.push({
        x: across(edges[code]) - 7,
        y: up(share) - 7,
        width: 14,
        height: 14,
        label: `${name}: ${percent(share)} are at most ${words(ticks, edges[code])}`,
      });
    }
  });
  return marks;
}

const words = (ticks, value) => (ticks === TIME_TICKS ? duration(value) : number(value));

function sumOf(counts, bins) {
  let sum = 0;
  for (let k = 0; k < bins; k++) sum += counts[k];
  return sum;
}

/** Return the bin that a share of the counts is reached in. */
function quantile(counts, share, bins) {
  const goal = share * sumOf(counts, bins);
  let sum = 0;
  for (let k = 0; k < bins; k++) {
    sum += counts[k];
    if (sum >= goal && counts[k] > 0) return k;
  }
  return bins - 1;
}

/**
 * Upright bars by class. `groups`: {name, values: [one for each source], marks: shares of the whole trace, choose, on}.
 */
function bars(pen, box, groups, { top = 0, text = percent, faint = null } = {}) {
  const high = Math.max(
    top,
    ...groups.flatMap((group) => [...group.values, ...(group.all || [])]).filter(Number.isFinite),
    1e-9,
  );
  const up = amountAxis(pen, box, high * 1.05, text === percent ? (value) => `${Math.round(100 * value)} %` : brief);
  const step = box.width / groups.length,
    bottom = box.y + box.height;
  pen.line([box.x, bottom, box.x + box.width, bottom], pen.look.quiet);
  return groups.map((group, k) => {
    const x = box.x + k * step,
      count = group.values.length,
      width = Math.min((step * 0.76) / count, 46);
    group.values.forEach((value, s) => {
      const left = x + step / 2 + (s - count / 2) * width;
      const dim = faint && faint(group);
      if (value > 0)
        pen.rect(
          left,
          up(value),
          width - 1.5,
          bottom - up(value),
          dim
            ? pen.look.pale
            : pen.look[s % 2 === 0 || group.colours ? "series" : "soft"][group.colours ? group.colours[s] : 0],
        );
      if (group.all && group.all[s] !== undefined)
        pen.line([left - 1, up(group.all[s]), left + width, up(group.all[s])], pen.look.mark, 1.6);
    });
    classLabel(pen, x + step / 2, bottom + 14, group.name, step);
    return { x, y: box.y, width: step, height: box.height, label: group.label, choose: group.choose, on: group.on };
  });
}

function classLabel(pen, x, y, name, room) {
  const most = Math.max(3, Math.floor(room / 5.6));
  const shown = name.length > most ? `${name.slice(0, most - 1)}…` : name;
  pen.text(x, y, shown, { align: "center", size: 10.5 });
}

/** Boxes by class: the middle half, the median and the mean. `groups`: {name, boxes: [{low, middle, high, mean} | null]}. */
function boxes(pen, box, groups, { edges, ticks }) {
  const tops = groups
    .flatMap((group) => group.boxes)
    .filter(Boolean)
    .flatMap((one) => [one.high, one.mean]);
  const high = Math.log(Math.max(10 * edges[0], ...tops) * 1.3),
    low = Math.log(edges[0]);
  const up = (value) => box.y + box.height * (1 - (Math.log(Math.max(value, edges[0])) - low) / (high - low));
  let lastY = Infinity;
  for (const [value, text] of ticks) {
    const y = up(value);
    if (y < box.y - 1 || y > box.y + box.height + 1 || lastY - y < 15) continue;
    lastY = y;
    pen.line([box.x, y, box.x + box.width, y], pen.look.line);
    pen.text(box.x - 5, y, text, { align: "right", base: "middle" });
  }
  const step = box.width / groups.length,
    bottom = box.y + box.height;
  pen.line([box.x, bottom, box.x + box.width, bottom], pen.look.quiet);
  return groups.map((group, k) => {
    const x = box.x + k * step,
      count = group.boxes.length,
      width = Math.min((step * 0.76) / count, 40);
    group.boxes.forEach((one, s) => {
      if (!one) return;
      const left = x + step / 2 + (s - count / 2) * width;
      pen.rect(left, up(one.high), width - 2, Math.max(up(one.low) - up(one.high), 1.5), pen.look.soft[s]);
      pen.line([left, up(one.middle), left + width - 2, up(one.middle)], pen.look.mark, 2);
      const c = left + width / 2 - 1,
        y = up(one.mean);
      pen.line([c - 4, y - 4, c + 4, y + 4], pen.look.series[s], 2);
      pen.line([c - 4, y + 4, c + 4, y - 4], pen.look.series[s], 2);
    });
    classLabel(pen, x + step / 2, bottom + 14, group.name, step);
    return { x, y: box.y, width: step, height: box.height, label: group.label, choose: group.choose, on: group.on };
  });
}

/** Return {low, middle, high, mean} of counts over bins of time; null where there are none. */
function boxOf(counts, edges, means, offset = 0) {
  const part = counts.subarray(offset, offset + edges.length);
  const total = sumOf(part, edges.length);
  if (!total) return null;
  let sum = 0;
  for (let k = 0; k < edges.length; k++) sum += part[k] * means[k];
  const at = (share) => means[quantile(part, share, edges.length)];
  return { low: at(0.25), middle: at(0.5), high: at(0.75), mean: sum / total, n: total };
}

/** A grid of amounts: `cell(column, row)`; the scale is logarithmic where `log`. */
function heat(pen, box, columns, rows, cell, top, log) {
  const width = box.width / columns,
    height = box.height / rows;
  const share = (value) => (log ? Math.log1p(value) / Math.log1p(top) : value / top);
  pen.rect(box.x, box.y, box.width, box.height, pen.look.dark ? "#0d1116" : "#f1f3f5");
  for (let c = 0; c < columns; c++) {
    for (let r = 0; r < rows; r++) {
      const value = cell(c, r);
      if (value > 0)
        pen.rect(
          box.x + c * width,
          box.y + box.height - (r + 1) * height,
          width + 0.4,
          height + 0.4,
          heatColour(0.06 + 0.94 * share(value)),
        );
    }
  }
}

/** Shares of several kinds piled up, by class. `groups`: {name, stacks: [[share of each kind] for each source]}. */
function stacked(pen, box, groups, colours) {
  const up = amountAxis(pen, box, 1, (value) => `${Math.round(100 * value)} %`);
  const step = box.width / groups.length,
    bottom = box.y + box.height;
  const marks = groups.map((group, k) => {
    const x = box.x + k * step,
      count = group.stacks.length,
      width = Math.min((step * 0.76) / count, 46);
    group.stacks.forEach((shares, s) => {
      const left = x + step / 2 + (s - count / 2) * width;
      let sum = 0;
      shares.forEach((share, kind) => {
        if (share > 0) pen.rect(left, up(sum + share), width - 2, up(sum) - up(sum + share), colours[kind]);
        sum += share;
      });
      if (count > 1) pen.line([left, bottom + 2, left + width - 2, bottom + 2], pen.look.series[s], 3);
    });
    classLabel(pen, x + step / 2, bottom + 15, group.name, step);
    return { x, y: box.y, width: step, height: box.height, label: group.label, choose: group.choose, on: group.on };
  });
  pen.line([box.x, bottom, box.x + box.width, bottom], pen.look.quiet);
  return marks;
}
