// cube.js: the rows of a source, the selection, and what is counted of the rows that are selected.

/** Return the first place of a rising array that is not below a value. */
function lowerBound(values, value) {
  let low = 0,
    high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The rows of one source: codes of bins by time, and start and end in quanta. */
class Rows {
  constructor(facts, source, array) {
    const about = source.rows;
    this.facts = facts;
    this.source = source;
    this.n = about.n;
    this.time = array(about.time);
    this.count = about.count ? array(about.count) : null;
    this.codes = {};
    for (const [name, where] of Object.entries(about.codes)) this.codes[name] = array(where);
    this.series = {};
    for (const [name, where] of Object.entries(source.series))
      this.series[name] = { values: array(where), top: where.top };
    this.exact = false;
    this.#place();
  }

  /** Work out start and end of each row from the mean wait and run time of its bins. */
  #place() {
    const { time, n, source, facts } = this;
    const { size, run, wait } = this.codes;
    const { width } = facts.axis;
    const seconds = { run: [...source.means.run, 0], wait: [...source.means.wait, 0] };
    const runs = Float32Array.from(seconds.run, (s) => s / width),
      waits = Float32Array.from(seconds.wait, (s) => s / width);
    const sizes = Float32Array.from([...source.means.size, 0]);
    this.submit = new Float32Array(n);
    this.start = new Float32Array(n);
    this.end = new Float32Array(n);
    this.units = new Float32Array(n);
    this.noWait = source.known.waits_half ? facts.wait.edges.length : -1; // where others wait, a job of unknown wait is left out
    const noRun = facts.run.edges.length,
      noWait = this.noWait;
    for (let i = 0; i < n; i++) {
      const submit = time[i] + 0.5;
      this.submit[i] = submit;
      this.start[i] = submit + waits[wait[i]];
      this.end[i] = this.start[i] + runs[run[i]];
      this.units[i] = run[i] === noRun || wait[i] === noWait ? 0 : sizes[size[i]];
    }
  }

  /** Take exact times from single jobs, which are the rows, one by one. */
  refine(jobs) {
    const { width } = this.facts.axis;
    const half = this.source.known.waits_half;
    for (let i = 0; i < this.n; i++) {
      const known =
        jobs.run[i] === jobs.run[i] && jobs.size[i] === jobs.size[i] && (!half || jobs.wait[i] === jobs.wait[i]);
      this.submit[i] = jobs.submit[i] / width;
      this.start[i] = (jobs.submit[i] + (half && known ? jobs.wait[i] : 0)) / width;
      this.end[i] = known ? this.start[i] + jobs.run[i] / width : this.start[i];
      this.units[i] = known ? jobs.size[i] : 0;
    }
    this.exact = true;
  }
}

/** What is selected: a range of time in quanta, and for each dimension the codes or classes that pass (null: all). */
class Selection {
  constructor(facts) {
    this.facts = facts;
    this.clear();
  }

  clear() {
    this.from = 0;
    this.to = this.facts.axis.count;
    this.dims = {
      sizes: null,
      lengths: null,
      status: null,
      user: null,
      queue: null,
      met: null,
      hours: null,
      sizeBins: null,
      runBins: null,
    };
  }

  get narrowed() {
    return Object.values(this.dims).some((set) => set !== null);
  }
  get whole() {
    return this.from <= 0 && this.to >= this.facts.axis.count;
  }

  /** Put a value into a dimension's set, or take it out; the last one out opens it for all. */
  toggle(dimension, value) {
    const set = new Set(this.dims[dimension] || []);
    if (!set.delete(value)) set.add(value);
    this.dims[dimension] = set.size ? set : null;
  }

  zoom(from, to) {
    const count = this.facts.axis.count;
    const least = Math.min(count, Math.max(2, 600 / this.facts.axis.width));
    let width = Math.min(count, Math.max(least, to - from));
    const middle = (from + to) / 2;
    this.from = Math.max(0, Math.min(count - width, width > to - from ? middle - width / 2 : from));
    this.to = this.from + width;
  }

  /** Return for each column a table of the codes that pass. */
  tables() {
    const { facts, dims } = this;
    const table = (count, pass) => Uint8Array.from({ length: count }, (_, code) => (pass(code) ? 1 : 0));
    const inSet = (set, value) => set === null || set.has(value);
    return {
      size: table(facts.size.class.length, (c) => inSet(dims.sizes, facts.size.class[c]) && inSet(dims.sizeBins, c)),
      run: table(facts.run.class.length, (c) => inSet(dims.lengths, facts.run.class[c]) && inSet(dims.runBins, c)),
      status: table(facts.status.length, (c) => inSet(dims.status, c)),
      user: table(facts.user.names.length, (c) => inSet(dims.user, c)),
      queue: table(facts.queue.names.length, (c) => inSet(dims.queue, c)),
      met: table(4, (c) => inSet(dims.met, c)),
      hours: table(168, (c) => inSet(dims.hours, c)),
    };
  }
}

const KINDS = 11,
  REPEAT = 16; // kinds of a user's jobs (the last: rarer ones); the bit of a repeated job

/** The rows of a source that are selected, and counts of them; each is made when a view first asks for it. */
class Found {
  #made = {};

  constructor(rows, selection, bins) {
    this.rows = rows;
    this.facts = rows.facts;
    this.bins = bins;
    this.from = selection.from;
    this.to = selection.to;
    this.first = lowerBound(rows.time, selection.from);
    this.last = lowerBound(rows.time, selection.to);
    this.list = null; // the rows, where not all of the range are selected
    if (selection.narrowed) this.#select(selection.tables());
  }

  #select(ok) {
    const { size, run, user, status, queue, met } = this.rows.codes,
      { time } = this.rows,
      hoursOf = this.facts.axis.hours;
    const okSize = ok.size,
      okRun = ok.run,
      okStatus = ok.status,
      okUser = ok.user,
      okQueue = ok.queue,
      okMet = ok.met,
      okHours = ok.hours;
    const list = new Uint32Array(this.last - this.first);
    let n = 0;
    for (let i = this.first; i < this.last; i++) {
      list[n] = i;
      n +=
        okSize[size[i]] &
        okRun[run[i]] &
        okUser[user[i]] &
        okStatus[status[i]] &
        okQueue[queue[i]] &
        okMet[met[i]] &
        okHours[hoursOf[time[i]]];
    }
    this.list = list;
    this.first = 0;
    this.last = n;
  }

  #of(name, make) {
    return (this.#made[name] ??= make.call(this));
  }

  get jobs() {
    return this.#basic.jobs;
  }
  get work() {
    return this.#basic.work;
  } // unit-seconds
  get joint() {
    return this.#basic.joint;
  } // by status, size and run time
  get waits() {
    return this.#basic.waits;
  } // by class of size, class of run time, and wait
  get arrivals() {
    return this.#times.arrivals;
  }
  get hours() {
    return this.#times.hours;
  }
  get gaps() {
    return this.#of("gaps", () => this.#count("gap", this.facts.gap.class.length));
  }
  get queues() {
    return this.#of("queues", () => this.#count("queue", this.facts.queue.names.length));
  }
  get kinds() {
    return this.#users.kinds;
  } // by user and kind of job
  get userWork() {
    return this.#users.work;
  }
  get statusWork() {
    return this.#basic.statusWork;
  }
  get metSize() {
    return this.#met.size;
  }
  get metRun() {
    return this.#met.run;
  }

  get #basic() {
    return this.#of("basic", () => {
      const { facts, list, first, last } = this,
        { size, run, wait, status } = this.rows.codes,
        { count, units, start, end } = this.rows;
      const nSize = facts.size.class.length,
        nRun = facts.run.class.length,
        nWait = facts.wait.class.length,
        lengths = facts.run.names.length;
      const sizeClass = Uint8Array.from(facts.size.class),
        runClass = Uint8Array.from(facts.run.class);
      const joint = new Float64Array(facts.status.length * nSize * nRun),
        waits = new Float64Array(facts.size.names.length * lengths * nWait);
      const statusWork = new Float64Array(facts.status.length);
      let jobs = 0,
        work = 0;
      for (let j = first; j < last; j++) {
        const i = list === null ? j : list[j],
          s = size[i],
          r = run[i],
          st = status[i],
          c = count === null ? 1 : count[i];
        jobs += c;
        joint[(st * nSize + s) * nRun + r] += c;
        waits[(sizeClass[s] * lengths + runClass[r]) * nWait + wait[i]] += c;
        statusWork[st] += c * units[i] * (end[i] - start[i]);
      }
      for (const amount of statusWork) work += amount;
      return { jobs, joint, waits, statusWork, work: work * facts.axis.width };
    });
  }

  get #times() {
    return this.#of("times", () => {
      const { list, first, last, from, bins } = this,
        { time, count } = this.rows,
        hoursOf = this.facts.axis.hours;
      const arrivals = new Float64Array(bins),
        hours = new Float64Array(168),
        scale = bins / Math.max(this.to - from, 1e-9);
      for (let j = first; j < last; j++) {
        const i = list === null ? j : list[j],
          t = time[i],
          c = count === null ? 1 : count[i];
        arrivals[((t - from) * scale) | 0] += c;
        hours[hoursOf[t]] += c;
      }
      return { arrivals, hours };
    });
  }

  #count(column, bins) {
    const { list, first, last } = this,
      codes = this.rows.codes[column],
      { count } = this.rows,
      found = new Float64Array(bins);
    for (let j = first; j < last; j++) {
      const i = list === null ? j : list[j];
      found[codes[i]] += count === null ? 1 : count[i];
    }
    return found;
  }

  get #users() {
    return this.#of("users", () => {
      const { list, first, last } = this,
        { user, kind } = this.rows.codes,
        { count, units, start, end } = this.rows,
        users = this.facts.user.names.length;
      const kinds = new Float64Array(users * 32),
        work = new Float64Array(users);
      for (let j = first; j < last; j++) {
        const i = list === null ? j : list[j],
          c = count === null ? 1 : count[i];
        kinds[user[i] * 32 + kind[i]] += c;
        work[user[i]] += c * units[i] * (end[i] - start[i]);
      }
      return { kinds, work };
    });
  }

  get #met() {
    return this.#of("met", () => {
      const { list, first, last } = this,
        { size, run, met } = this.rows.codes,
        { count } = this.rows;
      const nSize = this.facts.size.class.length,
        nRun = this.facts.run.class.length;
      const found = { size: new Float64Array(4 * nSize), run: new Float64Array(4 * nRun) };
      for (let j = first; j < last; j++) {
        const i = list === null ? j : list[j],
          c = count === null ? 1 : count[i];
        found.size[met[i] * nSize + size[i]] += c;
        found.run[met[i] * nRun + run[i]] += c;
      }
      return found;
    });
  }

  /** Waits and run times together, on the scale of the longer of both. */
  get turns() {
    return this.#of("turns", () => {
      const { list, first, last } = this,
        { run, wait } = this.rows.codes,
        { count } = this.rows,
        nRun = this.facts.run.class.length;
      const { table, bins } = turnTable(this.facts),
        found = new Float64Array(bins);
      for (let j = first; j < last; j++) {
        const i = list === null ? j : list[j];
        found[table[wait[i] * nRun + run[i]]] += count === null ? 1 : count[i];
      }
      return found;
    });
  }
}

/** Return the bin of wait + run time for each pair of bins, on the scale of run times. */
function turnTable(facts) {
  if (!facts.turn) {
    const nRun = facts.run.class.length,
      nWait = facts.wait.class.length;
    const edges = facts.run.edges.at(-1) > facts.wait.edges.at(-1) ? facts.run.edges : facts.wait.edges;
    const table = new Uint8Array(nWait * nRun).fill(edges.length);
    for (let w = 0; w < nWait - 1; w++) {
      for (let r = 0; r < nRun - 1; r++) {
        table[w * nRun + r] = Math.min(
          lowerBound(edges, middleOf(facts.wait.edges, w) + middleOf(facts.run.edges, r)),
          edges.length - 1,
        );
      }
    }
    facts.turn = { table, edges, bins: edges.length + 1 };
  }
  return facts.turn;
}

/** Return the middle of a bin of time, in seconds; the first one begins at 0. */
function middleOf(edges, code) {
  return code === 0 ? 0.5 * edges[0] : Math.sqrt(edges[code - 1] * edges[code]);
}

/**
 * Return the mean use of the machine and the mean number of waiting jobs in each of `bins` columns of the range.
 * Rows are spread over the columns that they touch, so areas are kept. All jobs that run or wait in the range count, also those
 * submitted before it.
 */
function spread(rows, selection, bins, ok) {
  const { size, run, status, user, queue, met } = rows.codes;
  const { time, count, submit, start, end, units, noWait } = rows;
  const wait = rows.codes.wait,
    hoursOf = rows.facts.axis.hours;
  const { from, to } = selection;
  const scale = bins / (to - from);
  const used = new Float64Array(bins + 1),
    usedStep = new Float64Array(bins + 2);
  const waiting = new Float64Array(bins + 1),
    waitingStep = new Float64Array(bins + 2);
  const last = lowerBound(time, to);
  function add(area, step, begin, stop, amount) {
    const a = begin > 0 ? begin : 0,
      b = stop < bins ? stop : bins;
    if (!(b > a)) return;
    const i = a | 0,
      j = b | 0;
    if (i === j) {
      area[i] += amount * (b - a);
      return;
    }
    area[i] += amount * (i + 1 - a);
    area[j] += amount * (b - j);
    step[i + 1] += amount;
    step[j] -= amount;
  }
  for (let i = 0; i < last; i++) {
    if (end[i] <= from) continue;
    if (
      ok !== null &&
      !(
        ok.size[size[i]] &
        ok.run[run[i]] &
        ok.user[user[i]] &
        ok.status[status[i]] &
        ok.queue[queue[i]] &
        ok.met[met[i]] &
        ok.hours[hoursOf[time[i]]]
      )
    )
      continue;
    const c = count === null ? 1 : count[i];
    const begin = (start[i] - from) * scale;
    if (units[i] > 0) add(used, usedStep, begin, (end[i] - from) * scale, c * units[i]);
    if (wait[i] !== noWait && start[i] > submit[i]) add(waiting, waitingStep, (submit[i] - from) * scale, begin, c);
  }
  for (const [area, step] of [
    [used, usedStep],
    [waiting, waitingStep],
  ]) {
    let level = 0;
    for (let k = 0; k < bins; k++) {
      level += step[k];
      area[k] += level;
    }
  }
  return { used: used.subarray(0, bins), waiting: waiting.subarray(0, bins) };
}

/** Return an exact series of the page as means over the columns of a range. */
function resampled(series, facts, selection, bins) {
  const found = new Float64Array(bins);
  const per = series.values.length / facts.axis.count,
    unit = series.top / 65535;
  const sums =
    series.sums ||
    (series.sums = series.values.reduce(
      (sums, value, k) => {
        sums[k + 1] = sums[k] + value;
        return sums;
      },
      new Float64Array(series.values.length + 1),
    ));
  const at = (x) => {
    const place = Math.max(0, Math.min(series.values.length, x)),
      whole = Math.floor(place);
    return sums[whole] + (whole < series.values.length ? (place - whole) * series.values[whole] : 0);
  };
  const step = (selection.to - selection.from) / bins;
  for (let k = 0; k < bins; k++) {
    const a = (selection.from + k * step) * per,
      b = (selection.from + (k + 1) * step) * per;
    found[k] = ((at(b) - at(a)) / (b - a)) * unit;
  }
  return found;
}

/**
 * Return use and queue over time of the selected classes. Exact where single jobs are the rows or nothing is filtered by class;
 * else the share of the selected classes comes from binned times, and the level of all jobs is exact.
 */
function occupancy(rows, selection, bins) {
  const { facts } = rows;
  if (rows.exact) return spread(rows, selection, bins, selection.narrowed ? selection.tables() : null);
  const exact = {
    used: resampled(rows.series.used, facts, selection, bins),
    waiting: resampled(rows.series.waiting, facts, selection, bins),
  };
  if (!selection.narrowed) return exact;
  const key = `${selection.from} ${selection.to} ${bins}`;
  if (rows.allKey !== key) {
    rows.all = spread(rows, selection, bins, null);
    rows.allKey = key;
  }
  const part = spread(rows, selection, bins, selection.tables());
  for (const name of ["used", "waiting"]) {
    for (let k = 0; k < bins; k++) {
      const all = rows.all[name][k];
      part[name][k] = all > 0 ? exact[name][k] * Math.min(1, part[name][k] / all) : 0;
    }
  }
  return part;
}
