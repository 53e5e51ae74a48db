"""Model `private`: what leaves the real trace is bought from a budget of differential privacy, and nothing else does.

`domain` says what is public, `statistics` what is counted and how far one user can change it, `noise` adds the noise
and keeps the account, `released` buys, `estimate` and `draw` use only what was released.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from generators.base import ModelInfo
from generators.common import check_count, not_fitted, read_config, write_config
from generators.private import estimate
from generators.private.domain import Domain
from generators.private.draw import Parameters, draw
from generators.private.noise import Mechanism, Spent, check_budget, epsilon_of, library, rho_of
from generators.private.released import measure
from generators.private.statistics import Facts
from generators.private.tables import Released
from tracekit.errors import FormatError, TracekitError, UnknownName, UsageError, loads
from tracekit.trace import Trace

UNITS = ("user", "job")
#: A model of fewer users (jobs for unit job) is refused: its noise would be all there is.
FEWEST_USERS, FEWEST_JOBS = 20, 200


class Private:
    """Differentially private traces: one user's jobs, or one job, change what is released by a bounded chance."""

    name: ClassVar[str] = "private"
    info: ClassVar[ModelInfo] = ModelInfo(
        family="private",
        summary="differentially private: a proof that one user (or job) hardly changes the result",
        licence="Apache-2.0 (with OpenDP, MIT)",
        extra="dp",
        paper="Bun & Steinke, Concentrated differential privacy, TCC 2016; Canonne, Kamath & Steinke, NeurIPS 2020",
    )

    def __init__(
        self,
        *,
        epsilon: float = 3.0,
        delta: float = 1e-6,
        unit: str = "user",
        cap: float | None = None,
        recorded: float | None = None,
        noise_seed: int | None = None,
    ) -> None:
        self.epsilon, self.delta, self.unit = epsilon, delta, unit
        self.cap, self.recorded, self.noise_seed = cap, recorded, noise_seed
        self.domain: Domain | None = None
        self.released: Released | None = None
        self.spent: list[Spent] = []

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Buy the statistics. ``seed`` has no effect: the noise is secret, from the system, without a noise_seed."""
        check_budget(self.epsilon, self.delta)
        if self.unit not in UNITS:
            raise UnknownName("unit", self.unit, UNITS)
        for flag, value in (("--cap", self.cap), ("--recorded", self.recorded)):
            if value is not None and not value >= 1:
                raise UsageError(f"{flag} must be a number from 1, not {value:g}")
        library()
        if "user" not in trace.jobs.columns:
            raise UsageError("model private needs a column of users; this trace has none")
        self.domain = Domain.of(trace.machine)
        mechanism = Mechanism(rho_of(self.epsilon, self.delta), self.noise_seed)
        facts = Facts.of(trace, self.domain, self.unit)
        released = measure(facts, self.domain, mechanism, cap=self.cap, span=self.recorded)
        self.spent = mechanism.spent
        self._check_amount(released)
        self.released = released
        return self

    def _check_amount(self, released: Released) -> None:
        """Refuse too small a trace, by its released number of users or jobs, so that the refusal costs no budget."""
        users = estimate.number_of_users(released.activity.values)
        jobs = float(released.run.values.sum())
        if self.unit == "user" and users < FEWEST_USERS:
            raise TracekitError(
                f"model private: the released number of users is {users:.0f} (with noise), and at least {FEWEST_USERS} "
                "are needed to hide one; use a longer trace, or --unit job, which protects single jobs only"
            )
        if self.unit == "job" and jobs < FEWEST_JOBS:
            raise TracekitError(
                f"model private: the released number of jobs is {jobs:.0f} (with noise), and at least {FEWEST_JOBS} "
                "are needed; use a longer trace or a larger --epsilon"
            )

    def sample(self, n_jobs: int, /, *, seed: int = 0) -> Trace:
        """Make ``n_jobs`` jobs from Monday 2024-01-01 on; needs no budget, so any number of traces may be made."""
        n_jobs = check_count(self.name, n_jobs)
        jobs, epoch = draw(self.parameters(), n_jobs, np.random.default_rng(seed))
        assert self.domain is not None
        machine = self.domain.machine(epoch)
        notes = (self._made(seed), *self.account())
        return Trace(jobs, machine.replace(source=notes[0], notes=notes), notes)

    def parameters(self) -> Parameters:
        """Return what traces are drawn from."""
        if self.released is None or self.domain is None:
            raise not_fitted(self.name)
        released, domain = self.released, self.domain
        activity = released.activity
        return Parameters(
            domain=domain,
            users=estimate.number_of_users(activity.values),
            jobs=estimate.number_of_jobs(activity.values, activity.noise),
            classes=estimate.users_by_class(activity.values, activity.noise),
            cells=estimate.joint(released, domain),
            pairs=estimate.pair_shares(released),
            speed=estimate.week_speed(released.week),
            load=estimate.load_of(released, by_job=self.unit == "job"),
        )

    def facts(self) -> dict[str, float]:
        """Return what may be remembered of the real trace: released numbers only."""
        known = self.parameters()
        assert self.released is not None
        return {
            "jobs": max(round(known.jobs), 1),
            "span": self.released.span,
            "demand": known.load * known.domain.size,
            "load": known.load,
        }

    def total(self) -> float:
        """Return the epsilon that was spent, at this delta."""
        return epsilon_of(sum(line.rho for line in self.spent), self.delta)

    def account(self) -> list[str]:
        """Return the spending of the budget, line by line, as it is printed and stored in the history."""
        rho = sum(line.rho for line in self.spent)
        scope = "all jobs of a user are protected together" if self.unit == "user" else "users are NOT protected"
        lines = [f"privacy budget: epsilon {self.epsilon:g}, delta {self.delta:g}, per {self.unit} ({scope})"]
        lines += [
            f"  {line.what}: {line.mechanism}, {line.numbers} number{'s' * (line.numbers != 1)}, sensitivity "
            f"{line.sensitivity:.6g}, noise {line.scale:.6g}, rho {line.rho:.3g} ({line.rho / rho:.0%})"
            for line in self.spent
        ]
        lines.append(f"  spent in all: rho {rho:.6g}, at most the epsilon and delta above")
        if self.noise_seed is not None:
            lines.append("NOT PRIVATE: the noise came from a seed (--noise-seed), which is for tests only")
        return lines

    @property
    def notes(self) -> list[str]:
        """Return what a person should know about the fit."""
        if self.released is None:
            return []
        given = [text for text, value in (("cap", self.cap), ("span", self.recorded)) if value is not None]
        public = ["machine size, unit and time zone", *(f"the given {text}" for text in given)]
        cap = "" if self.unit == "job" else f"; at most {self.released.cap:g} jobs of a user count in one cell"
        return [*self.account(), f"public, not bought: {', '.join(public)}, bins{cap}"]

    def _made(self, seed: int) -> str:
        return (
            f"MADE by tracekit, not recorded: model private (differentially private, epsilon {self.epsilon:g}, delta "
            f"{self.delta:g}, unit {self.unit}), seed {seed}"
        )

    def save(self, folder: Path) -> None:
        """Write config.json: public facts, released numbers and the account."""
        if self.released is None or self.domain is None:
            raise not_fitted(self.name)
        values: dict[str, Any] = {
            name: getattr(self, name) for name in ("epsilon", "delta", "unit", "cap", "recorded", "noise_seed")
        }
        values["domain"] = self.domain.to_dict()
        values["released"] = self.released.to_dict()
        values["spent"] = [line.to_dict() for line in self.spent]
        write_config(folder, self.name, values)

    @classmethod
    @loads("a saved model")
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote; needs no extra."""
        values, path = read_config(folder, cls.name), Path(folder) / "config.json"
        try:
            model = cls(**{n: values[n] for n in ("epsilon", "delta", "unit", "cap", "recorded", "noise_seed")})
            model.domain = Domain(**values["domain"])
            model.released = Released.from_dict(values["released"])
            model.spent = [Spent(**line) for line in values["spent"]]
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(path, f"not a saved private model: {error!r}") from None
        return model
