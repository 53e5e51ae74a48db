"""Score synthetic traces against a real one, beside the noise floor and the trivial baselines.

There is no averaged quality score: each key keeps its own unit, and a score that could not be computed has a note with
the reason.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from evaluation.base import FAMILIES, METRICS, NAN, Metric, Score, Setting, absent
from evaluation.noise import Floor, Scoring, noise_floor, with_intervals
from evaluation.streamed import FAMILIES_IN_PARTS, prepare_streamed
from evaluation.view import Seen, hosts_of, prepare
from tracekit import notebook
from tracekit.clusters import cluster_of
from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.large.source import Source, gigabytes
from tracekit.machine import Machine
from tracekit.trace import Trace, check_trace
from tracekit.units import left_out, scheduled_in

PRESETS = ("poster",)
MIN_JOBS = 10

#: Progress callback: (steps done, steps in all, current step).
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Scored:
    """One trace's scores by key."""

    name: str
    jobs: int
    scores: dict[str, Score]


@dataclass(frozen=True)
class Scores:
    """All scores of one comparison. ``scores["acf1.run_time"]`` is that key of the first synthetic trace."""

    real: str
    real_jobs: int
    synthetic: list[Scored]
    baselines: list[Scored]
    noise_floor: dict[str, Floor]
    family: dict[str, str]  # key -> family
    switches: dict[str, Any]

    def __getitem__(self, key: str) -> Score:
        first = self.synthetic[0].scores
        if key not in first:
            raise UnknownName("score", key, first)
        return first[key]

    def keys_of(self, family: str | None = None) -> list[str]:
        """Return every key in order, or those of one family."""
        return [key for key, own in self.family.items() if family in (None, own)]

    def values(self) -> dict[str, float]:
        """Return the real trace's own quantities."""
        return {
            key: score.real
            for key, score in self.synthetic[0].scores.items()
            if self.family[key] != "privacy" and np.isfinite(score.real)
        }

    def within_noise(self, key: str, scored: Scored) -> bool | None:
        """Return whether a score is no worse than half of the real trace against the other half; None = unknown."""
        floor = self.noise_floor.get(key)
        return None if floor is None else floor.holds(scored.scores[key])

    def not_better_than(self, key: str, scored: Scored) -> list[str]:
        """Name the trivial baselines that this score does not beat."""
        score = scored.scores[key]
        if np.isnan(score.value):
            return []
        found = []
        for baseline in self.baselines:
            other = baseline.scores.get(key)
            if other is None or np.isnan(other.value):
                continue
            mine, theirs = badness(key, score), badness(key, other)
            if mine > theirs or (mine == theirs and mine > 0):
                found.append(baseline.name)
        return found

    def _repr_html_(self) -> str:
        """Return what a notebook shows: each key that some trace has, with the real value and the noise floor."""
        keys = [key for key in self.family if any(np.isfinite(one.scores[key].value) for one in self.synthetic)]
        rows = [
            [
                self.family[key],
                key,
                self.synthetic[0].scores[key].real,
                *(one.scores[key].value for one in self.synthetic),
                self.noise_floor[key].value if key in self.noise_floor else None,
            ]
            for key in keys
        ]
        heads = ["family", "score", "real", *(one.name for one in self.synthetic), "noise floor"]
        left_out = len(self.family) - len(keys)
        notes = [f"{left_out} scores could not be computed: see the notes in to_dict()"] if left_out else []
        return notebook.table(f"Scores of {self.real}, {self.real_jobs:,} jobs", heads, rows, notes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `tracekit score --json` prints them."""
        return {
            "real": {
                "name": self.real,
                "jobs": self.real_jobs,
                "left_out": self._left_out(self.real),
                "values": self.values(),
            },
            "noise_floor": {
                key: {"value": _plain(f.value), "low": _plain(f.low), "high": _plain(f.high), "note": f.note}
                for key, f in self.noise_floor.items()
            },
            "synthetic": [self._one(scored) for scored in self.synthetic],
            "baselines": [self._one(scored) for scored in self.baselines],
            "families": dict(FAMILIES),
            "switches": self.switches,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scores:
        """Return the scores that `to_dict` turned into plain values."""
        everyone = [*data["synthetic"], *data.get("baselines", [])]
        found = [Scored(one["name"], one["jobs"], {k: _score(v) for k, v in one["scores"].items()}) for one in everyone]
        family = {key: cell["family"] for one in everyone for key, cell in one["scores"].items()}
        order = sorted(family, key=lambda key: list(FAMILIES).index(family[key]))
        count = len(data["synthetic"])
        floors = {
            key: Floor(_number(floor["value"]), _number(floor["low"]), _number(floor["high"]), floor.get("note", ""))
            for key, floor in data["noise_floor"].items()
        }
        real = data["real"]
        return cls(
            real["name"],
            real["jobs"],
            found[:count],
            found[count:],
            floors,
            {key: family[key] for key in order},
            dict(data["switches"]),
        )

    def _left_out(self, name: str) -> int:
        """Return how many jobs of a trace have none of the scheduled unit."""
        return int(self.switches.get("left_out", {}).get(name, 0))

    def _one(self, scored: Scored) -> dict[str, Any]:
        scores: dict[str, dict[str, Any]] = {}
        for key, score in scored.scores.items():
            scores[key] = {
                "value": _plain(score.value),
                "real": _plain(score.real),
                "low": _plain(score.low),
                "high": _plain(score.high),
                "better": score.better,
                "note": score.note,
                "family": self.family[key],
                "within_noise": self.within_noise(key, scored),
            }
            if scored in self.synthetic:
                scores[key]["not_better_than"] = self.not_better_than(key, scored)
            if score.detail:
                scores[key]["detail"] = {name: _plain(value) for name, value in score.detail.items()}
        left = self._left_out(scored.name)
        return {"name": scored.name, "jobs": scored.jobs, "left_out": left, "scores": scores}


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _number(value: float | None) -> float:
    return NAN if value is None else float(value)


def _score(cell: Mapping[str, Any]) -> Score:
    value, real, low, high = (_number(cell[name]) for name in ("value", "real", "low", "high"))
    detail = {name: _number(number) for name, number in cell.get("detail", {}).items()}
    return Score(value, cell["better"], real, low, high, cell["note"], detail)


def badness(key: str, score: Score) -> float:
    """Return how far from perfect a score is; only ever compared within one key."""
    if score.better == "real":
        return abs(score.value - score.real)
    if score.better == "higher":
        return max(0.0, 1 - score.value)
    return max(0.0, score.value - 0.5) if key.endswith("auc") else score.value


def chosen_metrics(preset: str | None, families: Iterable[str] | None) -> list[Metric]:
    """Return the metrics of some families (default: all), in the order of the tables."""
    if preset is not None and preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    wanted = set(FAMILIES if families is None else families)
    for name in wanted:
        if name not in FAMILIES:
            raise UnknownName("family of metrics", name, FAMILIES)
    metrics = [METRICS.get(name)() for name in METRICS.names()]
    if preset == "poster":
        from evaluation.poster import POSTER

        metrics += [metric() for metric in POSTER]
    return [metric for metric in metrics if metric.family in wanted]


def score(
    real: Trace,
    synth: Trace | Sequence[Trace],
    *,
    holdout: Trace | None = None,
    preset: str | None = None,
    quick: bool = False,
    families: Iterable[str] | None = None,
    baselines: bool = True,
    floor: bool = True,
    seed: int = 0,
    names: Sequence[str] | None = None,
    cluster: str | Path | Machine | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Score one or several synthetic traces against a real one.

    ``holdout``: real jobs that the models were not fitted on, without which privacy has no scores. ``preset="poster"``
    takes the definitions of the published study for the keys that it has, with the rest as under ``quick``. ``names``
    are those of the real trace and of each synthetic one. ``cluster`` (a preset, a TOML file or a machine with groups)
    has the hosts that jobs are placed on, where the real trace's own machine has none or others are meant. The same
    seed gives the same numbers.
    """
    traces = list(synth) if isinstance(synth, Sequence) and not isinstance(synth, str) else [synth]
    check_trace(real, *traces)
    if not traces:
        raise UsageError("nothing to score: give at least one synthetic trace")
    names = list(names) if names is not None else _names(real, traces)
    if len(names) != len(traces) + 1:
        raise UsageError(f"{len(names)} names for {len(traces) + 1} traces")
    metrics = chosen_metrics(preset, families)
    traces = [scheduled_in(trace, real.machine.unit) for trace in traces]
    holdout = None if holdout is None else scheduled_in(holdout, real.machine.unit)
    quick = quick or preset is not None
    aside = {"hold-out": holdout} if holdout is not None else {}
    for trace, label in zip([real, *traces, *aside.values()], [*names, *aside], strict=True):
        _check_jobs(label, int(np.isfinite(trace.column("submit_time")).sum()))
    made = _baselines(real, seed) if baselines else {}
    everyone = [*traces, *made.values(), *aside.values()]
    labels = [*names, *made, *aside]
    views = prepare(real, everyone, labels, None if cluster is None else cluster_of(cluster))
    setting = Setting(quick, views.pop() if holdout is not None else None)
    switches = {
        "preset": preset,
        "left_out": {label: left_out(trace) for label, trace in zip(names, [real, *traces], strict=True)},
        "cluster": _name_of(views[0].machine.hosts),
    }
    steps = _Steps(progress)
    return _compared(views, len(traces), metrics, setting, steps, floor=floor, seed=seed, switches=switches)


def _compared(
    views: Sequence[Seen],
    asked: int,
    metrics: list[Metric],
    setting: Setting,
    steps: _Steps,
    *,
    floor: bool,
    seed: int,
    switches: dict[str, Any],
) -> Scores:
    """Score all views against the first; ``asked`` of them are synthetic traces, the others baselines."""
    ours, theirs = views[0], views[1:]
    draws = _draws(len(ours), setting.quick)
    steps.total = len(metrics) * (len(theirs) + floor) + draws[0] * floor + draws[1] * asked

    def run(metric: Any, a: Seen, b: Seen, how: Setting) -> dict[str, Score]:
        found: dict[str, Score] = metric(
            a, b, setting=how, rng=np.random.default_rng([seed, zlib.crc32(metric.name.encode())])
        )
        return found

    scoring = Scoring(metrics, setting, run, steps)
    family: dict[str, str] = {}
    scored: list[Scored] = []
    for view in theirs:
        found: dict[str, Score] = {}
        for metric in metrics:
            steps.doing(f"{view.name}: {metric.name}")
            new = run(metric, ours, view, setting)
            found.update(new)
            family.update(dict.fromkeys(new, metric.family))
            steps()
        if len(scored) < asked:
            steps.doing(f"{view.name}: intervals")
            rng = np.random.default_rng([seed, 1])
            found = with_intervals(scoring, ours, view, found, draws[1], rng)
        scored.append(Scored(view.name, len(view) + view.dropped, found))
    steps.doing("noise floor")
    rng = np.random.default_rng([seed, 2])
    floors, how = noise_floor(scoring, ours, draws[0], rng) if floor else ({}, "not asked for")
    for one in scored:  # scores that only another trace has are listed as missing, with a note
        for key in family:
            one.scores.setdefault(key, absent("cannot be computed for this trace"))
    order = sorted(family, key=lambda key: list(FAMILIES).index(family[key]))
    switches = {
        "seed": seed,
        "quick": setting.quick,
        "preset": switches["preset"],
        "holdout": setting.holdout is not None,
        "noise_floor": how,
        "draws": draws[0] if floor else 0,
        "unit": ours.machine.unit,
        "left_out": switches["left_out"],
        "machine_size": _plain(ours.machine.capacity),
        "machine_note": ours.machine.note,
        **{name: value for name, value in switches.items() if name not in ("preset", "left_out")},
    }
    jobs = len(ours) + ours.dropped
    ordered = {key: family[key] for key in order}
    return Scores(ours.name, jobs, scored[:asked], scored[asked:], floors, ordered, switches)


def score_parts(
    real: Source,
    synth: Sequence[Source],
    *,
    names: Sequence[str],
    families: Iterable[str] = FAMILIES_IN_PARTS,
    quick: bool = False,
    seed: int = 0,
    cluster: str | Path | Machine | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Score traces that are read in batches, in memory that does not grow with them; see docs/large.md.

    The numbers are those of `score` with ``baselines=False``, to 12 digits; jobs must be in submit order. Other
    families than `FAMILIES_IN_PARTS` are an error before anything is read.
    """
    wanted = list(families)
    metrics = chosen_metrics(None, wanted)
    check_families(wanted, [real, *synth])
    steps = _Steps(progress)
    hosts = None if cluster is None else cluster_of(cluster)
    with TemporaryDirectory(prefix="tracekit-", ignore_cleanup_errors=True) as folder:
        views = prepare_streamed([real, *synth], names, Path(folder), hosts, steps.reading)
        for view in views:
            _check_jobs(view.name, len(view))
        switches = {
            "preset": None,
            "left_out": {view.name: view.survey.left_out for view in views},
            "cluster": _name_of(hosts_of(real.machine, hosts)),
            "in_parts": True,
        }
        return _compared(views, len(synth), metrics, Setting(quick), steps, floor=True, seed=seed, switches=switches)


def _name_of(hosts: Machine | None) -> str | None:
    return None if hosts is None else hosts.name or "the real trace's machine"


def check_families(wanted: Iterable[str], sources: Sequence[Source]) -> None:
    """Raise an error if traces that are read in batches are to be scored by families that need them whole."""
    whole = [name for name in FAMILIES if name in set(wanted) - set(FAMILIES_IN_PARTS)]
    if not whole:
        return
    size = gigabytes(sum(source.bytes_whole() for source in sources))
    several = "families" if len(whole) > 1 else "family"
    verb = "need" if len(whole) > 1 else "needs"
    raise TracekitError(
        f"the {several} {', '.join(whole)} {verb} the whole traces in memory, about {size} to read them and more to "
        "score them: use --whole if there is as much, slice to score a stretch, or "
        f"--families {','.join(FAMILIES_IN_PARTS)}, which are scored in parts"
    )


def _check_jobs(name: str, jobs: int) -> None:
    if jobs < MIN_JOBS:
        raise TracekitError(f"{name}: a score needs at least {MIN_JOBS} jobs with a submit time")


class _Steps:
    """Counts steps and calls the caller's progress function."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.total, self.done, self.label = progress, 1, 0, ""

    def reading(self, label: str, share: float) -> None:
        """Tell how much of a trace was read."""
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total, f"{label}, {share:.0%}")

    def doing(self, label: str) -> None:
        self.label = label
        self._tell()

    def __call__(self) -> None:
        self.done += 1
        self._tell()

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total, self.label)


def _draws(jobs: int, quick: bool) -> tuple[int, int]:
    """Return the number of bootstrap draws of weeks, for the floor and each synthetic trace; fewer for long traces."""
    if quick:
        return max(6, min(10, 400_000 // jobs)), 0
    return max(10, min(40, 1_500_000 // jobs)), max(6, min(20, 600_000 // jobs))


def _names(real: Trace, traces: Sequence[Trace]) -> list[str]:
    if len(traces) == 1:
        return [real.machine.name or "real", "synthetic"]
    return [real.machine.name or "real", *(f"synthetic {k}" for k in range(1, len(traces) + 1))]


def _baselines(real: Trace, seed: int) -> dict[str, Trace]:
    """Return what the trivial models make of the real trace: as many jobs as it has."""
    from generators.baseline import Independent, Resample

    made: dict[str, Trace] = {}
    for model in (Resample(), Independent()):
        made[model.name] = model.fit(real, seed=seed).sample(len(real), seed=seed)
    return made
