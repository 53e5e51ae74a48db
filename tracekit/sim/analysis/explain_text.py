"""An explanation in plain sentences, for the owner of the job."""

from __future__ import annotations

import itertools

from tracekit.sim.analysis.explain import FRAGMENTATION, Explanation


def duration(seconds: float) -> str:
    """Return a time in its two largest units.

    >>> duration(45), duration(3900), duration(200000), duration(0.5)
    ('45 s', '1 h 5 min', '2 d 7 h', '0.5 s')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for (unit, name), (small, small_name) in itertools.pairwise(_UNITS):
        if whole >= unit:
            rest = (whole % unit) // small
            return f"{whole // unit} {name}" + (f" {rest} {small_name}" if rest else "")
    return f"{whole} s"


def moment(found: Explanation, seconds: float) -> str:
    """Return a time as a date on the machine's clock, or in seconds where the trace has no calendar."""
    if found.epoch is None or not abs(found.epoch + seconds) < 9.2e9:  # no calendar, or beyond the year 2261
        return f"{seconds:.15g}"
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(found.timezone) if found.timezone else UTC
    return datetime.fromtimestamp(found.epoch + seconds, zone).strftime("%Y-%m-%d %H:%M:%S")


_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def text(found: Explanation) -> str:
    """Return three or four sentences: how long, why the machine, why the others, why the estimate."""
    head = f"Job {found.job} asked for {found.procs:g} of {found.total:g} processors"
    if found.wait <= 0:
        at_once = f"{head} and did not wait: it started at {moment(found, found.start)}, the moment it was submitted."
        return " ".join([at_once, *_dependency(found)])
    begin, end = moment(found, found.submit), moment(found, found.start)
    sentences = [f"{head} and waited {duration(found.wait)}, from {begin} to {end}."]
    sentences += _dependency(found)
    sentences.append(_machine(found))
    sentences += [s for s in (_scattered(found), *_levers(found), _order(found), _estimate(found)) if s]
    return " ".join(sentences)


def _dependency(found: Explanation) -> list[str]:
    if found.after is None:
        return []
    later = f", {duration(found.think)} after it had ended" if found.think > 0 else " had ended"
    return [f"It was submitted only when job {found.after}{' was done' if found.think > 0 else ''}{later}."]


def _scattered(found: Explanation) -> str:
    seconds = found.parts.get(FRAGMENTATION, 0.0)
    if seconds <= 0:
        return ""
    return f"For {duration(seconds)} it was blocked by fragmentation: {found.fragmented}."


#: What each lever of energy did.
_BY_LEVER = {
    "shifted": "For {} it was held back for hours of less carbon, or of a lower price.",
    "power_cap": "For {} it was held back by the power cap: processors were free, but not the watts that it draws.",
    "waking": "For {} it had its hosts, and waited until they had woken up.",
}


def _levers(found: Explanation) -> list[str]:
    shares = [(words, found.parts.get(name, 0.0)) for name, words in _BY_LEVER.items()]
    return [words.format(duration(seconds)) for words, seconds in shares if seconds > 0]


def _machine(found: Explanation) -> str:
    full, outage = found.parts["full"], found.parts["outage"]
    if full + outage <= 0 and _levers(found):
        return "The machine had room for it."
    if full + outage <= 0 and found.parts.get(FRAGMENTATION, 0.0) > 0:
        return "Enough was free in all when it was submitted."
    if full + outage <= 0:
        return "Enough processors were free when it was submitted, so the machine itself was not the reason."
    why = []
    if full > 0:
        why.append(f"for {duration(full)} the machine was too full with jobs that were running before it was submitted")
    if outage > 0:
        why.append(f"for {duration(outage)} part of the machine was out of service, or about to be")
    line = " and ".join(why)
    if full + outage >= found.wait:
        return f"{line[0].upper()}{line[1:]}, and then it started: it could not have started any earlier."
    first = moment(found, found.first_in_line)
    return f"{line[0].upper()}{line[1:]}; even first in line it could not have started before {first}."


def _order(found: Explanation) -> str:
    ahead, overtaken, held = (found.parts[name] for name in ("ahead", "overtaken", "held_back"))
    why = []
    if ahead > 0:
        why.append(f"for {duration(ahead)} it was blocked by {_jobs(found.jobs_ahead)} submitted before it")
    if overtaken > 0:
        why.append(f"for {duration(overtaken)} by {_jobs(found.jobs_overtaking)} submitted after it")
    if overtaken > 0 and not ahead:
        why[0] = f"for {duration(overtaken)} it was blocked by {_jobs(found.jobs_overtaking)} submitted after it"
    if held > 0:
        known = found.method == "resimulated" or not found.others
        kept = (
            "reserved for jobs of higher priority"
            if known
            else "not given to it (reserved for other jobs, or out of service)"
        )
        why.append(f"for {duration(held)} enough processors were free, but were {kept}")
    if len(why) < 2:
        return "".join(f"{line[0].upper()}{line[1:]}." for line in why)
    return f"The order of jobs is the reason for {duration(found.policy)}: {', '.join(why)}."


def _jobs(count: int) -> str:
    return "one job" if count == 1 else f"{count} jobs"


def _estimate(found: Explanation) -> str:
    if found.method == "recorded":  # no other estimate was tried
        return ""
    if FRAGMENTATION in found.parts and found.method != "resimulated":
        return "Other estimates are only tried for schedules on hosts that can be simulated again."
    if not found.others:
        if found.estimate > 0:
            return "Its estimate was no longer than its run, so a better one would have changed nothing."
        return "It had no estimate, so nothing can be said about a better one."
    exact = found.others[0]
    said = f"it was expected to take {duration(found.estimate)} and took {duration(found.run)}"
    how = "" if found.method == "resimulated" else ", in a gap that stayed open beside all others"
    if found.parts["estimate"] > 0:
        enough = [other for other in found.others if other.earlier == exact.earlier]
        best = enough[-1] if len(enough) == 1 else max(enough, key=lambda other: other.estimate)
        hint = f" ({best.words}, {duration(best.estimate)}, would have been enough)" if best is not exact else ""
        return (
            f"The last {duration(found.parts['estimate'])} are due to its estimate: {said}; with the true time it "
            f"would have started at {moment(found, exact.start)}{how}{hint}."
        )
    if exact.earlier < 0:
        return f"A shorter estimate would not have helped: {said}, but with the true time it would have started later."
    return f"A shorter estimate would not have helped: {said}, but with the true time it would have started no earlier."
