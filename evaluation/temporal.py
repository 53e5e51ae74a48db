"""Time structure: when jobs arrive, and how each resembles the ones before it.

Autocorrelation, index of dispersion and the Hurst exponent are a few lines of numpy each; statsmodels has the first
only, and a test compares ours with it where it is installed.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from evaluation.base import NAN, Quantity, Score, Setting, absent
from evaluation.marginal import ks, shares_apart, tail_ratios, w1, worst_log
from evaluation.spreads import Lagged, log_seconds
from evaluation.view import SIZES, Floats, Seen

LAGS = 100
#: Window lengths of the index of dispersion, in seconds: one minute to one day.
IDC_WINDOWS = (60, 300, 900, 3_600, 21_600, 86_400)


class Interarrival:
    """ks., wasserstein. and tail.interarrival: the distribution of the seconds between consecutive submits."""

    name: ClassVar[str] = "interarrival"
    family: ClassVar[str] = "time"
    unit: ClassVar[str] = "as ks, wasserstein (ln seconds), tail"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare the gaps as any other column."""
        keys = ("ks.interarrival", "wasserstein.interarrival", "tail.interarrival")
        if not len(real.gaps) or not len(synth.gaps):
            return dict.fromkeys(keys, absent("fewer than two jobs"))
        ratios = tail_ratios(real.gaps, synth.gaps)
        worst = worst_log(ratios)
        return {
            keys[0]: Score(ks(real.gaps, synth.gaps)),
            keys[1]: Score(w1(log_seconds(real.gaps), log_seconds(synth.gaps))),
            keys[2]: Score(worst, detail=ratios, note="no real quantile above zero" if np.isnan(worst) else ""),
        }


def autocorrelation(values: Floats | Lagged, lags: int) -> Floats:
    """Return the autocorrelation at lags 1 … ``lags`` of the known values; NaN where it has no meaning.

    The usual estimator, Σ(x_t − m)(x_{t+k} − m) / Σ(x_t − m)², by fast Fourier transform.
    """
    if isinstance(values, Lagged):
        return values.curve(lags)
    values = values[np.isfinite(values)]
    if len(values) <= lags or (values == values[:1]).all():
        return np.full(lags, NAN)
    centred = values - values.mean()
    power = np.abs(np.fft.rfft(centred, 2 ** int(np.ceil(np.log2(2 * len(values)))))) ** 2
    products = np.fft.irfft(power)[: lags + 1]
    return np.asarray(products[1:] / products[0])


def series(view: Seen) -> dict[str, Floats | Lagged]:
    """Return the series whose autocorrelation is looked at, each as ln(1 + x), in submit order; sizes if they vary."""
    names = ("interarrival", "run_time", *(size for size in SIZES if view.varies(size)))
    return {name: view.logged(name) for name in names}


class Lag1(Quantity):
    """acf1.<series>: lag-1 autocorrelation of ln(1 + x), x = gap, run time or size, in submit order."""

    name = "acf1"
    family = "time"
    unit = "correlation"

    def measure(self, view: Seen) -> dict[str, float | str]:
        """Return one number a series."""
        found: dict[str, float | str] = {
            f"acf1.{name}": f"the trace has no {name}, or only one value of it"
            for name in ("interarrival", "run_time", "procs", "nodes")
        }
        for name, values in series(view).items():
            value = float(autocorrelation(values, 1)[0])
            found[f"acf1.{name}"] = "constant, or fewer than two jobs" if np.isnan(value) else value
        return found


class Autocorrelation:
    """acf.<series>: mean |real − synthetic| over the autocorrelations at lags 1 … 100."""

    name: ClassVar[str] = "acf"
    family: ClassVar[str] = "time"
    unit: ClassVar[str] = "correlation"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare the curves; a few of their points are in the detail."""
        ours, theirs = series(real), series(synth)
        scores = {}
        for name in ours:
            key = f"acf.{name}"
            if name not in theirs:
                scores[key] = absent(f"the synthetic trace has no {name}, or only one value of it")
                continue
            a, b = autocorrelation(ours[name], LAGS), autocorrelation(theirs[name], LAGS)
            if np.isnan(a).any() or np.isnan(b).any():
                side = "real" if np.isnan(a).any() else "synthetic"
                scores[key] = absent(f"{side} trace: constant, or no more than {LAGS} jobs")
                continue
            detail = {
                f"{side}_lag{lag}": float(curve[lag - 1])
                for lag in (1, 2, 5, 10, 50, 100)
                for side, curve in (("real", a), ("synthetic", b))
            }
            scores[key] = Score(float(np.abs(a - b).mean()), detail=detail)
        return scores


class HourOfWeek:
    """hour_of_week.tv, hour_of_day.tv: total variation between the shares of jobs by local hour."""

    name: ClassVar[str] = "hour_of_week"
    family: ClassVar[str] = "time"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare where both traces have a calendar."""
        for view, side in ((real, "real"), (synth, "synthetic")):
            if view.hours is None:
                return dict.fromkeys(("hour_of_week.tv", "hour_of_day.tv"), absent(f"the {side} trace has no calendar"))
        assert real.hours is not None
        assert synth.hours is not None
        days = [hours.reshape(7, 24).sum(axis=0) for hours in (real.hours, synth.hours)]
        return {
            "hour_of_week.tv": Score(shares_apart(real.hours, synth.hours)),
            "hour_of_day.tv": Score(shares_apart(*days)),
        }


class Dispersion(Quantity):
    """idc.<seconds>: variance over mean of the arrivals in windows of that length; a Poisson process has 1."""

    name = "idc"
    family = "time"
    unit = "variance / mean"

    def measure(self, view: Seen) -> dict[str, float | str]:
        """Return one number a window length."""
        found: dict[str, float | str] = {}
        for seconds in IDC_WINDOWS:
            if not view.span >= 5 * seconds:
                found[f"idc.{seconds}"] = f"shorter than five windows of {seconds:,} s"
                continue
            arrivals = view.arrivals(seconds)
            found[f"idc.{seconds}"] = float(arrivals.var() / arrivals.mean())
        return found


class Hurst(Quantity):
    """hurst: the Hurst exponent of arrivals, from how the variance of mean counts falls with the window's length.

    Aggregated variance (Taqqu, Teverovsky & Willinger 1995): H = 1 + slope/2 of ln variance against ln window, windows
    doubling from 10 minutes to a tenth of the trace. 0.5 = no memory, towards 1 = bursts at every scale.
    """

    name = "hurst"
    family = "time"
    unit = "exponent"

    def measure(self, view: Seen) -> dict[str, float | str]:
        """Return the exponent."""
        base = 600.0
        if not view.span >= 160 * base:
            return {"hurst": "shorter than 160 windows of ten minutes"}
        arrivals = view.arrivals(base)
        lengths, variances, width = [], [], 1
        while len(arrivals) // width >= 10:
            means = arrivals[: len(arrivals) // width * width].reshape(-1, width).mean(axis=1)
            if (variance := float(means.var())) > 0:
                lengths.append(width)
                variances.append(variance)
            width *= 2
        if len(lengths) < 3:
            return {"hurst": "arrivals do not vary"}
        slope = np.polynomial.polynomial.polyfit(np.log(lengths), np.log(variances), 1)[1]
        return {"hurst": float(1 + slope / 2)}
