// format.js: numbers, durations, dates and ticks as text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(Math.round(value));
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

/** Large numbers in few letters, for axes. */
function brief(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (size >= unit) return `${Number((value / unit).toPrecision(3))}${letter}`;
  }
  return String(Number(value.toPrecision(3)));
}

function percent(value) {
  if (!Number.isFinite(value)) return "–";
  return value > 0 && value < 0.001 ? "< 0.1 %" : `${Number((100 * value).toPrecision(value >= 0.1 ? 3 : 2))} %`;
}

function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1) return seconds > 0 ? "< 1 s" : "0 s";
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const units = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const total = Math.round(seconds);
  for (let k = 0; k < 3; k++) {
    const [unit, name] = units[k],
      [small, smallName] = units[k + 1];
    if (total >= unit) {
      const rest = Math.floor((total % unit) / small);
      return `${whole.format(Math.floor(total / unit))} ${name}${rest ? ` ${rest} ${smallName}` : ""}`;
    }
  }
  return `${total} s`;
}

/** Seconds of the local clock at a quantum of the axis. */
function localSeconds(axis, quantum) {
  let ahead = 0;
  for (const [from, seconds] of axis.clock) if (quantum >= from) ahead = seconds;
  return axis.begin + quantum * axis.width + ahead;
}

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (value) => String(value).padStart(2, "0");

/** A moment of the axis: a date on the machine's clock, or days since the beginning where there is no calendar. */
function moment(axis, quantum, seconds = false) {
  if (!axis.calendar) {
    const days = (quantum * axis.width) / 86400;
    return `day ${Math.floor(days)}, ${clock(Math.round((days % 1) * 86400), seconds)}`;
  }
  const date = new Date(Math.round(localSeconds(axis, quantum)) * 1000);
  const day = `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  return `${DAYS[(date.getUTCDay() + 6) % 7]} ${day} ${clock(date.getUTCHours() * 3600 + date.getUTCMinutes() * 60 + date.getUTCSeconds(), seconds)}`;
}

function clock(total, seconds) {
  const text = `${two(Math.floor(total / 3600) % 24)}:${two(Math.floor(total / 60) % 60)}`;
  return seconds ? `${text}:${two(total % 60)}` : text;
}

/** Ticks of a range of time: [quantum, text]. */
function timeTicks(axis, from, to, most) {
  const span = (to - from) * axis.width;
  const begin = localSeconds(axis, from),
    end = localSeconds(axis, to);
  const found = [];
  const put = (seconds, text) => {
    const quantum = from + ((seconds - begin) / (end - begin)) * (to - from);
    if (quantum >= from && quantum <= to) found.push([quantum, text]);
  };
  if (!axis.calendar) {
    const zero = axis.begin;
    for (const tick of niceTicks((begin - zero) / 86400, (end - zero) / 86400, most))
      put(zero + tick * 86400, `day ${Number(tick.toPrecision(6))}`);
    return found;
  }
  const steps = [60, 300, 900, 3600, 10800, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 14 * 86400];
  const step = steps.find((one) => span / one <= most);
  if (step) {
    const shift = step >= 7 * 86400 ? 4 * 86400 : 0; // weeks begin on Mondays; 1970-01-01 was a Thursday
    for (let t = Math.ceil((begin - shift) / step) * step + shift; t <= end; t += step) {
      const date = new Date(t * 1000),
        midnight = t % 86400 === 0;
      put(t, midnight ? `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}` : clock(t % 86400, false));
    }
    return found;
  }
  const months = [1, 2, 3, 6, 12, 24, 60, 120].find((one) => span / (one * 30.4 * 86400) <= most) || 240;
  const first = new Date(begin * 1000);
  for (let m = first.getUTCFullYear() * 12; ; m += months) {
    const t = Date.UTC(Math.floor(m / 12), m % 12, 1) / 1000;
    if (t > end) return found;
    put(t, m % 12 === 0 || months >= 12 ? String(Math.floor(m / 12)) : MONTHS[m % 12]);
  }
}

function niceTicks(low, high, most) {
  const raw = (high - low) / Math.max(most, 1);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

/** Ticks of a scale of times: [seconds, text]. */
const TIME_TICKS = [
  [1, "1 s"],
  [10, "10 s"],
  [60, "1 min"],
  [600, "10 min"],
  [3600, "1 h"],
  [21600, "6 h"],
  [86400, "1 d"],
  [604800, "7 d"],
  [2592000, "30 d"],
  [31536000, "1 y"],
];
