"""Clocks that jump: submit times that step back while records go on, and days that shift by an hour with the season.

Records are numbered, or at least written, in the order in which they happen. Where submit times step back in that order
and stay back, somebody set the clock, or a part of the log was shifted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import stats
from tracekit.doctor.copies import twins
from tracekit.doctor.finding import LAST_DATE, CannotLook, Finding, Floats, days, submits, when

if TYPE_CHECKING:
    from tracekit.trace import Trace

HOUR = 3600.0
SMALLEST = 600.0  # seconds: less is the usual disorder of records
MATCHED = 4 * HOUR  # from this size on, a step back and a step forward are taken to belong together
MOST_STEPS = 0.01  # of the jobs: with more steps back, the records are in no order of submits
FARTHEST = 30 * 24 * HOUR  # ids that step back farther were given to records that were added later
FEWEST = 20  # jobs
_AROUND = 4  # jobs on either side that must agree that the clock has changed


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
    if len(in_file) < FEWEST:
        raise CannotLook(f"fewer than {FEWEST} jobs")
    by_id = in_file[np.argsort(trace.jobs["job_id"].to_numpy()[in_file], kind="stable")]
    backs = {name: int((np.diff(submit[order]) < 0).sum()) for name, order in (("file", in_file), ("id", by_id))}
    # a file sorted by submit hides its jumps; ids then tell, if they follow the submits nearly everywhere
    ids_help = 0 < backs["id"] <= MOST_STEPS * len(in_file)
    use_ids = (backs["file"] == 0 and ids_help) or backs["file"] > MOST_STEPS * len(in_file)
    order = by_id if use_ids else in_file
    if (np.diff(submit[order]) < 0).sum() > MOST_STEPS * len(order):
        raise CannotLook("records stand neither in the file nor by job id in order of submits")
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
    done = 0
    for k in np.flatnonzero(step < -SMALLEST):
        at = int(k) + 1  # the first record after the step back
        if at < done:
            continue
        size = float(-step[k])
        if copied[at] or (by_id and size > FARTHEST):
            continue  # records that were joined to the file, not a clock
        before, after = submit[max(0, at - _AROUND) : at], submit[at : at + _AROUND]
        if len(after) < 3 or len(before) < 3 or np.median(before) - np.median(after) < size / 2:
            continue  # one stray record, not a change of the clock
        low, high, offset = _stretch(step, at, size)
        found.append(Jump(float(submit[at - 1]), size, offset, order[low:high], high == len(submit) and offset < 0))
        done = high
    return found


def _stretch(step: Floats, at: int, size: float) -> tuple[int, int, float]:
    """Return which records are off (from, to) and by how much, for a step back of ``size`` before record ``at``.

    A step forward of about that size, before or after, bounds the stretch; without one all later records are behind.
    """
    if size >= MATCHED:
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


def _whole(offset: float) -> float:
    """Return the whole number of hours nearest to an offset where it is close to one: clocks are set by hours."""
    hours = round(offset / HOUR)
    return hours * HOUR if hours and abs(offset - hours * HOUR) <= 0.25 * HOUR else float(np.round(offset))


def jumps(trace: Trace) -> list[Finding]:
    """Report jumps of the clock; steps back of up to an hour at a change of daylight saving are called that."""
    from tracekit.plots.evidence import record_times

    found = []
    for jump in find_jumps(trace):
        saving = jump.size <= HOUR + 300 and _near_saving(trace, jump.at)
        side = "ahead" if jump.offset > 0 else "behind"
        what = f"{len(jump.rows):,} records are {days(abs(jump.offset))} {side} of the others"
        found.append(
            Finding(
                "daylight-saving" if saving else "clock-jump",
                "warning",
                f"submit times step back by {days(jump.size)} after {when(trace, jump.at)} while records go on: {what}"
                + (" (the clock was set back for winter time: these are local times, not seconds)" if saving else ""),
                {"at": jump.at, "step_back_s": jump.size, "offset_s": jump.offset, "records": len(jump.rows)},
                jump.rows,
                "mend-jumps",
                "gaps, hours of day and waits across the jump are wrong",
                partial(record_times, rows=jump.rows),
            )
        )
    return found


def _near_saving(trace: Trace, second: float) -> bool:
    """Tell whether the machine's zone changes its offset within three hours of a moment."""
    if not (stats.has_calendar(trace) and trace.machine.timezone) or second + (trace.machine.epoch or 0.0) > LAST_DATE:
        return False
    zone = ZoneInfo(trace.machine.timezone)
    moment = second + (trace.machine.epoch or 0.0)
    offsets = {
        datetime.fromtimestamp(moment + shift, UTC).astimezone(zone).utcoffset() for shift in (-3 * HOUR, 3 * HOUR)
    }
    return len(offsets) > 1


def daylight_saving(trace: Trace) -> list[Finding]:
    """Report a daily rhythm that moves by an hour between summer and winter time.

    People keep to their local clock. Where the hours of submits, read on it, differ by an hour between the seasons, the
    log was written in another time than it says, or with a fixed offset. Weekdays only; sessions, not jobs; the lag
    must be the same in 19 of 20 resamples of the weeks.
    """
    from tracekit.plots.evidence import hours_by_season

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
            draw=partial(hours_by_season),
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
    table = pd.DataFrame({"day": day, "hour": np.asarray(stamps.hour), "what": what})[np.asarray(stamps.dayofweek) < 5]
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
