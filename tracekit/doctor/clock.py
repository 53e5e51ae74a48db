"""Clocks that jump: submit times that step back while records continue, and days that shift by an hour with the season.

Records are numbered, or at least written, in the order in which they happen. Where submit times step back in that order
and stay back, the clock was set, or a part of the log was shifted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import stats
from tracekit.doctor.copies import twins
from tracekit.doctor.finding import LAST_DATE, CannotLook, Finding, Floats, counted, days, picture, submits, when
from tracekit.doctor.rhythm import Rhythm

if TYPE_CHECKING:
    from tracekit.trace import Trace

HOUR = 3600.0
SMALLEST = 600.0  # seconds: less is the usual disorder of records
MATCHED = 4 * HOUR  # from this size on, a step back and a step forward are taken to belong together
MAX_STEPS = 0.01  # of the jobs: with more steps back, the records are in no order of submits
FARTHEST = 30 * 24 * HOUR  # ids that step back farther were given to records that were added later
MIN_JOBS = 20  # jobs
#: Log-likelihood for other hours from some moment on, in all and for each session: note, warning. Sound public logs
#: reach 20 or 0.04, but not both together.
OTHER_HOURS = ((9.0, 0.0095), (15.0, 0.012))
CLEARLY = 10.0  # log-likelihood: the rest of the log keeps other hours than what came before
MAX_OPTIONS = 300  # steps forward that are tried on either side


@dataclass(frozen=True)
class Jump:
    """A stretch of records whose clock is off by ``offset`` seconds (below 0: behind); ``rows`` are those records."""

    at: float  # the last submit before the step, seconds
    size: float  # of the step back, seconds
    offset: float
    rows: NDArray[np.intp]
    lasting: bool  # the clock never came back: everything after the step is behind


def record_order(trace: Trace) -> tuple[NDArray[np.intp], bool]:
    """Return the rows in the order in which records were written, and whether that is by job id, not as in the file.

    Whichever is in order of submits counts, and only rows with a submit time. `CannotLook` when neither is near it.
    """
    submit = trace.column("submit_time")
    in_file = np.flatnonzero(np.isfinite(submit))
    if len(in_file) < MIN_JOBS:
        raise CannotLook(f"fewer than {MIN_JOBS} jobs")
    by_id = in_file[np.argsort(trace.jobs["job_id"].to_numpy()[in_file], kind="stable")]
    backs = {name: int((np.diff(submit[order]) < 0).sum()) for name, order in (("file", in_file), ("id", by_id))}
    # a file sorted by submit hides its jumps; ids then show them, if they follow the submits nearly everywhere
    ids_help = 0 < backs["id"] <= MAX_STEPS * len(in_file)
    use_ids = (backs["file"] == 0 and ids_help) or backs["file"] > MAX_STEPS * len(in_file)
    order = by_id if use_ids else in_file
    if (np.diff(submit[order]) < 0).sum() > MAX_STEPS * len(order):
        raise CannotLook("neither file order nor job ids follow the submit times")
    return order, use_ids


def find_jumps(trace: Trace) -> list[Jump]:
    """Return the jumps of the clock, in order of the records."""
    order, by_id = record_order(trace)
    submit = trace.column("submit_time")[order]
    step = np.diff(submit)
    if not (step < -SMALLEST).any():
        return []
    copied = twins(trace)[order]
    found: list[Jump] = []
    rhythm: Rhythm | None = None
    done = 0
    for k in np.flatnonzero(step < -SMALLEST):
        at = int(k) + 1  # the first record after the step back
        if at < done:
            continue
        size = float(-step[k])
        if copied[at] or (by_id and size > FARTHEST):
            continue  # records that were joined to the file, not a clock
        if _lone(submit, at):
            continue  # one stray record, not a change of the clock
        rhythm = rhythm or Rhythm(trace, order)
        low, high, offset = _stretch(step, at, size) or _by_rhythm(step, at, _whole(size), rhythm)
        found.append(Jump(float(submit[at - 1]), size, offset, order[low:high], high == len(submit) and offset < 0))
        done = high
    return found


def _lone(submit: Floats, at: int) -> bool:
    """Return whether all would be in order around record ``at`` without it, or without the one before it."""
    if at < 2 or at + 1 >= len(submit):
        return True
    return bool(submit[at - 2] <= submit[at] or submit[at - 1] <= submit[at + 1])


def _stretch(step: Floats, at: int, size: float) -> tuple[int, int, float] | None:
    """Return which records are off (from, to) and by how much, for a step back of ``size`` before record ``at``.

    A step forward of about that size, before or after, bounds the stretch; without one all later records are behind.
    None for steps so small that many steps forward are as large.
    """
    if size < MATCHED:
        return None
    most = size + max(HOUR, 0.5 * size)
    ahead = np.flatnonzero((step[: at - 1] >= size) & (step[: at - 1] <= most))
    behind = np.flatnonzero((step[at:] >= size) & (step[at:] <= most)) + at
    options = []
    if len(ahead):
        k = int(ahead[-1])
        options.append((float(step[k]) - size, k + 1, at, size + (float(step[k]) - size) / 2))
    if len(behind):
        k = int(behind[0])
        options.append((float(step[k]) - size, at, k + 1, -(size + (float(step[k]) - size) / 2)))
    if options:
        _, low, high, offset = min(options)
        return low, high, _whole(offset)
    return at, len(step) + 1, -_whole(size)


def _by_rhythm(step: Floats, at: int, size: float, rhythm: Rhythm) -> tuple[int, int, float]:
    """Return the same for a small step: of all stretches that it could end or begin, the one that fits the day best."""
    lasting = (rhythm.of_rest(at, size), at, len(step) + 1, -size)
    options = [lasting]
    wide = np.flatnonzero(step >= 0.9 * size)
    for k in wide[wide < at - 1][-MAX_OPTIONS:].tolist():
        options.append((rhythm.of_stretch(k + 1, at, -size) + rhythm.missed(k + 1, size), k + 1, at, size))
    for k in wide[wide >= at][:MAX_OPTIONS].tolist():
        options.append((rhythm.of_stretch(at, k + 1, size) + rhythm.missed(k + 1, size), at, k + 1, -size))
    _, low, high, offset = lasting if lasting[0] > CLEARLY else max(options)
    return low, high, offset


def _whole(offset: float) -> float:
    """Return the whole number of hours nearest to an offset where it is close to one: clocks are set by hours."""
    hours = round(offset / HOUR)
    return hours * HOUR if hours and abs(offset - hours * HOUR) <= 0.25 * HOUR else float(np.round(offset))


def jumps(trace: Trace) -> list[Finding]:
    """Report jumps of the clock; steps back of up to an hour at a change of daylight saving are called that."""
    found = []
    for jump in find_jumps(trace):
        saving = jump.size <= HOUR + 300 and _near_saving(trace, jump.at)
        side = "ahead" if jump.offset > 0 else "behind"
        what = f"{counted(len(jump.rows), 'record')} are {days(abs(jump.offset))} {side} of the others"
        found.append(
            Finding(
                "daylight-saving" if saving else "clock-jump",
                "warning",
                f"submits step back by {days(jump.size)} after {when(trace, jump.at)} while records continue: {what}"
                + (" (the clock was set back for winter time: these are local times, not seconds)" if saving else ""),
                {"at": jump.at, "step_back_s": jump.size, "offset_s": jump.offset, "records": len(jump.rows)},
                jump.rows,
                "mend-jumps",
                "gaps, hours of day and waits across the jump are wrong",
                picture("record_times", rows=jump.rows),
            )
        )
    return found


def other_hours(trace: Trace) -> list[Finding]:
    """Report a jump that no step back shows: from some moment on everybody keeps other hours than before."""
    if find_jumps(trace):
        return []  # these are fixed first
    submits(trace)  # not for logs of centuries
    try:
        order, _ = record_order(trace)
    except CannotLook:
        order = trace.order()[np.isfinite(trace.column("submit_time")[trace.order()])]
    if len(order) < 1000:
        raise CannotLook("fewer than 1,000 jobs")
    found = Rhythm(trace, order).lasting()
    if found is None:
        raise CannotLook("fewer than eight weeks")
    record, later, gain, each = found
    first = float(trace.column("submit_time")[order[record]])
    strength = sum(gain >= least and each >= least_each for least, least_each in OTHER_HOURS)
    if not strength or _near_saving(trace, first, 5 * 24 * HOUR):
        return []
    return [
        Finding(
            "clock-jump",
            "warning" if strength > 1 else "note",
            f"from {when(trace, first)} on people come {days(abs(later))} {'later' if later > 0 else 'earlier'} in the "
            f"day than before: the clock was set {'forward' if later > 0 else 'back'}, or to another time zone",
            {"at": first, "offset_s": later, "log_likelihood": round(gain, 1), "per_session": round(each, 5)},
            order[record:],
            f"shift-submits:{-later:.0f} where submit>={np.floor(first):.0f}",
            "hours of day are not the same before and after",
            picture("hours_before_and_after", second=first),
        )
    ]


def _near_saving(trace: Trace, second: float, around: float = 3 * HOUR) -> bool:
    """Return whether the machine's zone changes its offset within some hours of a moment."""
    if not (stats.has_calendar(trace) and trace.machine.timezone) or second + (trace.machine.epoch or 0.0) > LAST_DATE:
        return False
    zone = ZoneInfo(trace.machine.timezone)
    moment = second + (trace.machine.epoch or 0.0)
    offsets = {datetime.fromtimestamp(moment + shift, UTC).astimezone(zone).utcoffset() for shift in (-around, around)}
    return len(offsets) > 1


def daylight_saving(trace: Trace) -> list[Finding]:
    """Report a daily rhythm that moves by an hour between summer and winter time.

    People keep to their local clock. Where the hours of submits, read on it, differ by an hour between the seasons, the
    log was written in another time than it says, or with a fixed offset. Weekdays only; sessions, not jobs; the lag
    must be the same in 19 of 20 resamples of the weeks.
    """
    if not stats.has_calendar(trace):
        raise CannotLook("the trace has no calendar")
    if not trace.machine.timezone:
        raise CannotLook("the time zone is unknown")
    if np.nanmax(trace.column("submit_time")) + (trace.machine.epoch or 0.0) > LAST_DATE:
        raise CannotLook("some submit times lie centuries ahead")
    table, summer = sessions_by_day(trace)
    if min(summer.sum(), (~summer).sum()) < 40:
        raise CannotLook("fewer than 40 weekdays of summer and of winter time")
    lag, agreement = season_lag(table, summer)
    if lag == 0 or agreement < 0.95:
        return []
    return [
        Finding(
            "daylight-saving",
            "warning",
            f"people seem to start {abs(lag)} hour{'s' if abs(lag) > 1 else ''} {'later' if lag > 0 else 'earlier'} in "
            f"summer than in winter on the clock of {trace.machine.timezone} ({agreement:.0%} of resamples agree): the "
            "log's times do not follow daylight saving as its header says",
            {"lag_hours": lag, "agreement": round(agreement, 4), "summer_days": int(summer.sum())},
            advice="check the time zone (--timezone); hours of day are off by that much for half of the year",
            draw=picture("hours_by_season"),
        )
    ]


def sessions_by_day(trace: Trace) -> tuple[Floats, NDArray[np.bool_]]:
    """Return sessions by weekday and local hour, (days, 24), and which of these days have summer time."""
    _, rows = submits(trace)
    stamps = stats.local_times(trace.take(rows))
    zone = ZoneInfo(str(trace.machine.timezone))
    users = np.maximum(trace.column("user")[rows], 0)
    minutes = np.asarray(stamps.minute) // 5
    what = users if len(np.unique(users)) > 1 else minutes
    day = stamps.normalize()
    table = pd.DataFrame({"day": day, "hour": np.asarray(stamps.hour), "what": what})
    table = table[np.asarray(stamps.day_of_week) < 5]
    counts = table.drop_duplicates().groupby(["day", "hour"]).size().unstack(fill_value=0).reindex(columns=range(24))
    noon = [moment.to_pydatetime().replace(hour=12) for moment in counts.index]
    summer = np.array([bool(moment.astimezone(zone).dst()) for moment in noon], dtype=bool)
    return counts.fillna(0).to_numpy(dtype=np.float64), summer


def season_lag(table: Floats, summer: NDArray[np.bool_], draws: int = 200) -> tuple[int, float]:
    """Return by how many hours (−2 … 2) summer days lag behind winter days, and how many resamples of days agree."""
    rng = np.random.default_rng(0)
    lags = (0, 1, -1, 2, -2)

    def best(first: Floats, second: Floats) -> int:
        a, b = first.sum(axis=0), second.sum(axis=0)
        a, b = a / max(a.sum(), 1), b / max(b.sum(), 1)
        return lags[int(np.argmin([np.abs(np.roll(a, lag) - b).sum() for lag in lags]))]

    winter_days, summer_days = table[~summer], table[summer]
    lag = best(winter_days, summer_days)
    same = sum(
        best(
            winter_days[rng.integers(0, len(winter_days), len(winter_days))],
            summer_days[rng.integers(0, len(summer_days), len(summer_days))],
        )
        == lag
        for _ in range(draws)
    )
    return lag, same / draws
