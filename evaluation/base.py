"""What a metric is, what it returns, and the table of all metrics by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np

from tracekit.registry import Registry

if TYPE_CHECKING:
    from evaluation.view import Seen, View

Better = Literal["lower", "higher", "real"]  # real: the nearer to the real trace's own value, the better
NAN = float("nan")

#: The families, in the order of every table, with the question that each of them answers.
FAMILIES: dict[str, str] = {
    "marginal": "is each column of the jobs right by itself?",
    "joint": "do the columns of one job belong together?",
    "time": "do jobs follow each other as they do in the real trace?",
    "validity": "what share of the rows breaks a rule?",
    "load": "does it ask as much of the machine?",
    "privacy": "does it give real jobs or users away?",
    "scheduling": "does a scheduler fare with it as with the real trace?",
    "hosts": "do its jobs pack onto the cluster's hosts as the real ones do?",
}


@dataclass(frozen=True)
class Score:
    """One number in the metric's own unit; NaN = not computable, and ``note`` says why."""

    value: float
    better: Better = "lower"
    real: float = NAN  # the real trace's own value, or the level that real jobs reach; NaN = has no meaning here
    low: float = NAN  # 95 % bootstrap interval
    high: float = NAN
    note: str = ""
    detail: Mapping[str, float] = field(default_factory=dict)

    def with_interval(self, low: float, high: float) -> Score:
        """Return the score with another interval."""
        return replace(self, low=low, high=high)


def absent(reason: str, better: Better = "lower", real: float = NAN) -> Score:
    """Return the score of what cannot be computed."""
    return Score(NAN, better, real, note=reason)


@dataclass(frozen=True)
class Setting:
    """How much work may be done. Budgets are counts, never seconds, so that the same seed gives the same numbers."""

    quick: bool = False
    holdout: View | None = None

    @property
    def detection_rows(self) -> int:
        """Return how many jobs of each trace the classifiers look at, at most."""
        return 5_000 if self.quick else 20_000

    @property
    def trees(self) -> int:
        """Return how many trees the classifiers grow."""
        return 50 if self.quick else 100

    @property
    def draws(self) -> int:
        """Return how many bootstrap draws a metric makes for its own interval."""
        return 40 if self.quick else 100

    @property
    def neighbour_rows(self) -> int:
        """Return how many jobs of each trace the nearest-neighbour metrics look at, at most."""
        return 2_000 if self.quick else 10_000

    @property
    def windows(self) -> tuple[int, int]:
        """Return how many windows are simulated, and how many jobs each holds at most."""
        return (20, 200) if self.quick else (24, 1_000)

    @property
    def host_windows(self) -> tuple[int, int]:
        """Return how many windows are simulated on hosts, and how many jobs each holds: the same for any trace."""
        return (10, 500) if self.quick else (20, 1_000)

    @property
    def host_steps(self) -> int:
        """Return about how many hosts are looked at, over all arrivals, for one allocator and one order of arrivals."""
        return 500_000 if self.quick else 2_000_000


class Metric(Protocol):
    """A comparison of two traces that yields one or more keys, all of which start with what it measures.

    ``resampled``: cheap and a function of the jobs alone, so its interval comes from resampling weeks. The others
    bring their own interval, or none.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    unit: ClassVar[str]
    resampled: ClassVar[bool]

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare ``synth`` with ``real``."""
        ...


class Quantity:
    """A property of a single trace; the real and the synthetic value are shown side by side."""

    name: ClassVar[str]
    family: ClassVar[str]
    unit: ClassVar[str]
    resampled: ClassVar[bool] = True
    better: ClassVar[Better] = "real"

    def measure(self, view: Seen) -> dict[str, float | str]:
        """Return each key's value, or why it has none."""
        raise NotImplementedError

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Measure both traces."""
        ours, theirs = self.measure(real), self.measure(synth)
        return {
            key: beside(
                ours.get(key, "not in the real trace"), theirs.get(key, "not in the synthetic trace"), self.better
            )
            for key in {**ours, **theirs}
        }


def beside(real: float | str, synth: float | str, better: Better = "real") -> Score:
    """Put two measurements, or the reasons why there are none, into one score."""
    own = NAN if isinstance(real, str) else float(real)
    if isinstance(synth, str):
        return absent(synth, better, own)
    return Score(float(synth), better, own, note=f"real trace: {real}" if isinstance(real, str) else "")


#: Metrics by name, in the order of every table; other packages may add theirs by the entry point ``tracekit.metrics``.
METRICS: Registry[type[Metric]] = Registry(
    "metric",
    {
        "ks": "evaluation.marginal:KolmogorovSmirnov",
        "wasserstein": "evaluation.marginal:Wasserstein",
        "tail": "evaluation.marginal:Tail",
        "tv": "evaluation.marginal:TotalVariation",
        "unseen": "evaluation.marginal:Unseen",
        "user_shares": "evaluation.marginal:UserShares",
        "correlation": "evaluation.joint:Correlation",
        "association": "evaluation.joint:Association",
        "c2st": "evaluation.detection:JobDetection",
        "prdc": "evaluation.joint:PrecisionRecall",
        "interarrival": "evaluation.temporal:Interarrival",
        "acf1": "evaluation.temporal:Lag1",
        "acf": "evaluation.temporal:Autocorrelation",
        "hour_of_week": "evaluation.temporal:HourOfWeek",
        "idc": "evaluation.temporal:Dispersion",
        "hurst": "evaluation.temporal:Hurst",
        "user_repeat": "evaluation.users:UserRepeat",
        "job_repeat": "evaluation.users:JobRepeat",
        "sessions": "evaluation.users:Sessions",
        "c2st_window": "evaluation.detection:WindowDetection",
        "validity": "evaluation.validity:Validity",
        "offered_load": "evaluation.validity:OfferedLoad",
        "submit_gaps": "evaluation.attacks.gaps:SubmitGaps",
        "submit_rhythm": "evaluation.attacks.gaps:SubmitRhythm",
        "rare_requests": "evaluation.attacks.requests:RareRequests",
        "request_sequences": "evaluation.attacks.requests:RequestSequences",
        "run_times": "evaluation.attacks.requests:RunTimes",
        "session_sequences": "evaluation.attacks.working:SessionSequences",
        "hours_of_week_profile": "evaluation.attacks.profiles:HoursOfWeek",
        "job_shapes": "evaluation.attacks.profiles:JobShapes",
        "session_habits": "evaluation.attacks.profiles:SessionHabits",
        "user_linkage": "evaluation.attacks.named:UserLinkage",
        "linkability": "evaluation.attacks.linking:Linkability",
        "inference_user": "evaluation.attacks.linking:UserInference",
        "copies": "evaluation.attacks.distance:Copies",
        "distance_to_closest": "evaluation.attacks.distance:DistanceToClosest",
        "nearer_fitted": "evaluation.attacks.membership:NearerFitted",
        "membership": "evaluation.attacks.membership:Membership",
        "membership_classifier": "evaluation.attacks.membership:TrainedMembership",
        "isolated_jobs": "evaluation.attacks.isolation:IsolatedJobs",
        "inference_job": "evaluation.attacks.isolation:JobInference",
        "in_step": "evaluation.attacks.copying:InStep",
        "same_numbers": "evaluation.attacks.copying:SameNumbers",
        "scheduling": "evaluation.scheduling:Scheduling",
        "hosts": "evaluation.hosts:Packing",
        "host_requests": "evaluation.hosts:HostRequests",
    },
    group="tracekit.metrics",
)
