"""How an agent is trained: every choice a field with a default, from the command line or a TOML file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, get_type_hints

from tracekit.errors import UnknownName, UsageError, loads
from tracekit.files import read_toml
from tracekit.registry import Registry

#: Every network by name; other packages add theirs by the entry point group ``tracekit.networks``.
NETWORKS: Registry[Any] = Registry(
    "network",
    {
        **{name.lower(): f"tracekit.sim.agents.networks:{name}" for name in ("Kernel", "Attention", "Mlp", "Hosts")},
        "gat": "tracekit.sim.agents.networks_graph:Gat",
        "pointer": "tracekit.sim.agents.order.network:Pointer",
    },
    group="tracekit.networks",
)
ALGORITHMS = ("ppo", "a2c", "grpo")
#: How validation windows are summed up: the arithmetic mean of costs, or the geometric one.
MEANS = ("mean", "geometric")
#: Settings by name, for ``--config NAME``. gat-drl: those of GAT-DRL's code, a window of 200 jobs per update; its
#: discount, entropy bonus and learning rate; advantages are returns less the critic's values, normalised. informed: for
#: agents that know predicted run times, a weighted sum of the features.
PRESETS: dict[str, dict[str, Any]] = {
    "gat-drl": {
        "algorithm": "a2c",
        "network": "gat",
        "hidden": (128, 128),
        "windows": 1,
        "jobs": 200,
        "gamma": 0.99,
        "learning_rate": 3e-4,
        "critic_speed": 1.0,
        "entropy": 0.01,
        "entropy_schedule": "constant",
        "target_kl": 0.0,
        "max_grad_norm": 0.5,
        "validate_every": 20,
    },
    "informed": {
        "algorithm": "grpo",
        "hidden": (),
        "steps": 100_000,
        "windows": 128,
        "loads": (1.0, 1.2),
        "keep": 0.5,
        "minibatch": 2048,
        "learning_rate": 0.03,
        "entropy": 0.0,
        "average": 0.9,
        "validation_windows": 128,
        "validate_every": 8,
        "validate_by": "geometric",
        "sure": True,
    },
}
SCHEDULES = ("constant", "linear", "exponential", "cosine")


@dataclass(frozen=True)
class Settings:
    """Settings of a training as plain values, and as a TOML file."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, origin: str = "configuration") -> Self:
        """Read plain values; an unknown name or a value of the wrong type is an error that names it."""
        kinds = get_type_hints(cls)
        chosen: dict[str, Any] = {}
        for name, value in values.items():
            if name not in kinds:
                raise UnknownName(f"setting in {origin}", name, kinds)
            chosen[name] = _convert(name, value, kinds[name], origin)
        return cls(**chosen)

    @classmethod
    @loads("settings of a training")
    def load(cls, path: str | Path) -> Self:
        """Read a TOML file: the fields above, at the top level or in a table ``[train]``."""
        data = read_toml(path)
        inner = data.get("train", data)
        if not isinstance(inner, dict):
            raise UsageError(f"{path}: [train] must be a table of settings")
        if inner is not data and len(data) > 1:
            raise UnknownName(f"table in {path}", next(name for name in data if name != "train"), ["train"])
        return cls.from_dict(inner, origin=str(path))

    def to_toml(self) -> str:
        """Return the settings as a TOML file that `load` reads."""
        rows = (f"{name} = {json.dumps(value)}" for name, value in self.to_dict().items())
        return "\n".join(["[train]", *rows, ""])

    def replace(self, **changes: Any) -> Self:
        """Return these settings with some changed; None changes nothing."""
        return type(self).from_dict(self.to_dict() | {name: v for name, v in changes.items() if v is not None})


@dataclass(frozen=True)
class Config(Settings):
    """The settings of one training. Budgets are counts of decisions and windows, never seconds."""

    network: str = (
        "kernel"  # kernel: one small network for every row; attention: rows attend to each other; mlp: all slots;
        # hosts: for rows that are hosts, of any number; gat: rows look along the edges of the graph of jobs
    )
    algorithm: str = "ppo"  # ppo; a2c: the plain policy gradient, each decision used once; grpo: no critic, plays of
    # the same window are compared with each other
    hidden: tuple[int, ...] = (32, 16, 8)  # widths of the layers between a job's features and its score; none: a
    # weighted sum of the features (network kernel)

    steps: int = 500_000  # decisions to learn from, all iterations together
    windows: int = 64  # windows played in each iteration
    plays: int = 16  # grpo: so many of these windows are plays of the same one
    jobs: int = 256  # jobs of a window
    loads: tuple[float, ...] = ()  # training windows also at so many times the load; empty: as they are
    live: bool = False  # ask the predictor of run times in every play; else once a window, in a play by its index
    keep: float = 1.0  # share of the decisions, drawn at random, that an update uses

    epochs: int = 4  # passes over the decisions of an iteration
    minibatch: int = 4096  # decisions of a gradient step
    clip: float = 0.2  # of the ratio of probabilities, new to old
    gamma: float = 1.0  # discount; 1 = the window's whole score counts
    # of generalised advantage estimation. Decisions are not evenly spaced in time: below 1, a choice that is soon
    # followed by many others has its costs discounted away and appears cheap
    lam: float = 1.0
    critic_lam: float = 1.0  # the same for what the critic learns; 1 = what really followed
    dense: bool = True  # spread the score over the decisions after which it accrued, where the objective allows it

    base: str = ""  # policy that rewards are measured against; empty: the best heuristic on some training windows

    learning_rate: float = 1e-3
    schedule: str = "constant"  # of the learning rate: constant, linear, exponential or cosine
    final_learning_rate: float = 1e-5  # where the schedule ends
    warmup: float = 0.0  # share of the steps in which the learning rate rises from zero
    kl_adaptive: bool = False  # halve or raise the learning rate when the policy changes too fast or too slowly
    entropy: float = 0.001  # weight of the entropy bonus
    entropy_schedule: str = "linear"
    final_entropy: float = 0.0
    exploration: float = 0.0  # added to the deviation of priorities, where actions are such
    exploration_schedule: str = "exponential"  # how it decays
    final_exploration: float = 0.0
    critic_speed: float = 3.0  # the critic's learning rate, in units of the actor's
    critic_first: int = 0  # iterations in which only the critic learns (warm-up)
    average: float = (
        0.0  # share that a running mean of the actor's weights keeps per iteration; the mean is what is validated
    )
    value_norm: bool = True  # learn values in units of their running mean and deviation
    advantage_norm: bool = True
    target_kl: float = (
        0.03  # an iteration's updates end when the policy has moved further than 1.5 times this; 0 = never
    )
    max_grad_norm: float = 0.5

    validation_windows: int = 16  # windows of the validation slice, played greedily
    validate_by: str = "mean"  # mean or geometric: which mean of the validation windows decides
    validate_every: int = 5  # iterations
    sure: bool = False  # keep only what validation shows to be better than the start: 95 %, and no loss in the mean
    patience: int = 0  # validations without a better score before training ends; 0 = never
    least_gain: float = 0.0  # share by which a score must be better than the best one to count for patience
    checkpoint_every: int = 1  # iterations between checkpoints; the last iteration is always kept
    teacher_windows: int = 64  # windows on which an imitated heuristic is recorded
    teacher_epochs: int = 20
    teacher_rounds: int = 0  # rounds in which a slow teacher, such as search, labels what the agent itself came to
    search_rounds: int = 20  # of a search for weights of the features (--init search)
    search_tries: int = 32  # weights tried in a round, in mirrored pairs
    search_windows: int = 64  # windows that each of them plays
    soften: float = 1.0  # scores are divided by this after imitation: the same best choice, but others are tried
    threads: int = 0  # threads that play windows; 0 = one per core. The result does not depend on it.

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a TOML file: the fields above, at the top level or in a table ``[train]``; or a name of `PRESETS`."""
        if str(path) in PRESETS and not Path(path).exists():
            return cls(**PRESETS[str(path)])
        return super().load(path)

    def __post_init__(self) -> None:
        NETWORKS.target(self.network)
        if self.network == "pointer":
            raise UsageError("network pointer orders whole queues; it is for 'tracekit train --task order'")
        _one_of("algorithm", self.algorithm, ALGORITHMS)
        _one_of("mean", self.validate_by, MEANS)
        if self.algorithm == "grpo" and (self.plays < 2 or self.windows % self.plays):
            raise UsageError(f"grpo: windows ({self.windows}) must be a multiple of plays ({self.plays}), 2 or more")
        for load in self.loads:
            _check("loads", load, load > 0)
        _one_of("schedule", self.schedule, SCHEDULES)
        _one_of("schedule", self.entropy_schedule, SCHEDULES)
        _one_of("schedule", self.exploration_schedule, SCHEDULES)
        least = dict.fromkeys(
            ("steps", "windows", "jobs", "epochs", "minibatch", "validate_every", "checkpoint_every"), 1
        )
        for name, few in (least | {"validation_windows": 1, "search_windows": 1, "search_tries": 2}).items():
            if getattr(self, name) < few:
                raise UsageError(f"{name} must be at least {few}, not {getattr(self, name)}")
        teaching = ("teacher_windows", "teacher_epochs", "teacher_rounds")
        for name in ("patience", "critic_first", *teaching, "search_rounds", "threads"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must be 0 or more, not {getattr(self, name)}")
        for name in ("learning_rate", "critic_speed", "clip", "keep", "max_grad_norm", "soften"):
            _check(name, getattr(self, name), getattr(self, name) > 0)
        for name in ("gamma", "lam", "critic_lam", "warmup"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) <= 1)
        rates = ("entropy", "final_entropy", "target_kl", "final_learning_rate", "least_gain")
        for name in (*rates, "exploration", "final_exploration"):
            _check(name, getattr(self, name), getattr(self, name) >= 0)
        _check("keep", self.keep, self.keep <= 1)
        _check("average", self.average, 0 <= self.average < 1)
        if any(not 1 <= width <= 1024 for width in self.hidden):
            raise UsageError(f"hidden widths must lie between 1 and 1024, not {list(self.hidden)}")
        if not self.hidden and self.network != "kernel":
            raise UsageError(f"network {self.network} needs hidden widths; only kernel can be a weighted sum")


def _convert(name: str, value: Any, kind: Any, origin: str) -> Any:
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value):
        return int(value)
    if kind in (bool, str) and isinstance(value, kind):
        return value
    if kind == tuple[int, ...] and isinstance(value, (list, tuple)) and all(type(item) is int for item in value):
        return tuple(value)
    if kind == tuple[float, ...] and isinstance(value, (list, tuple)):
        return tuple(_convert(name, item, float, origin) for item in value)
    wanted = "a list of integers" if kind == tuple[int, ...] else {float: "a number", int: "a whole number"}.get(kind)
    raise UsageError(f"{origin}: {name} must be {wanted or kind.__name__}, not {value!r}")


def _one_of(kind: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UnknownName(kind, value, known)


def _check(name: str, value: float, good: bool) -> None:
    if not (math.isfinite(value) and good):
        raise UsageError(f"{value} is not a valid value of {name}")
