"""Mixed-type tabular diffusion in one file of torch: masked categories first, then Gaussian numbers given them.

After TabDDPM (Kotelnikov et al., ICML 2023) and FinDiff (Sattarov, Schreyer, Borth, ICAIF 2023), with two changes for
job traces. Categories are noised by *masking* instead of by random flips or by noise on embeddings, because
columns with a hundred levels (users, limits) cannot be recovered from either. And the two kinds are noised one after
the other: the reverse process first uncovers the categories, one column a step in random order, while the numbers are
pure noise, and then denoises the numbers with all categories in sight. Every network call is spent on a conditional
that sampling really needs, so some thirty calls are enough; and since the order of columns is random, any column can
be given instead of sampled.

Shapes: B rows, N numbers, C categorical columns with K_c levels each; code K_c means masked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

#: Called after each step; returning True ends the training.
After = Callable[[int], bool]


@dataclass(frozen=True)
class Settings:
    """Sizes of the network and of its training; budgets are counts of steps, never wall-clock."""

    steps: int = 4_000  # training steps at most
    width: int = 192  # of the hidden layers
    blocks: int = 3  # residual blocks
    embedding: int = 24  # numbers per categorical column
    batch: int = 256  # rows per training step
    learning_rate: float = 2e-3  # at its peak; warmed up, then lowered along a cosine
    weight_decay: float = 1e-4
    dropout: float = 0.05
    average: float = 0.995  # decay of the running mean of weights that is used for sampling
    denoising_steps: int = 16  # network calls for the numbers
    check_every: int = 200  # steps between validations on the held-out rows
    patience: int = 8  # validations without improvement before the training ends


class Denoiser(nn.Module):
    """Predicts clean numbers and categories from noisy numbers, partly masked categories and the noise level."""

    def __init__(self, numbers: int, levels: Sequence[int], settings: Settings) -> None:
        super().__init__()
        self.numbers, self.levels, width = numbers, list(levels), settings.width
        self.embed = nn.ModuleList(nn.Embedding(k + 1, settings.embedding) for k in levels)
        self.enter = nn.Linear(2 * numbers + settings.embedding * len(self.levels) + 16, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.SiLU(),
                nn.Dropout(settings.dropout),
                nn.Linear(2 * width, width),
            )
            for _ in range(settings.blocks)
        )
        self.leave = nn.LayerNorm(width)
        self.velocity = nn.Linear(width, max(numbers, 1))  # from hidden to what moves the numbers, (B, N)
        self.logits = nn.ModuleList(
            nn.Linear(width, k) for k in levels
        )  # from hidden to each column's levels, (B, K_c)
        self.register_buffer("waves", math.pi * 2.0 ** torch.arange(-1, 7), persistent=False)

    def forward(self, x: Tensor, codes: Tensor, level: Tensor) -> Tensor:
        """Take x (B, N), codes (B, C), noise level (B,) in 0 … 1; return the hidden state, (B, width)."""
        angle = level[:, None] * self.waves
        parts = [x, torch.tanh(x), *(e(codes[:, c]) for c, e in enumerate(self.embed)), angle.sin(), angle.cos()]
        hidden = self.enter(torch.cat(parts, dim=1))
        for block in self.blocks:
            hidden = hidden + block(hidden)
        found: Tensor = self.leave(hidden)
        return found


def _mix(level: Tensor) -> tuple[Tensor, Tensor]:
    """Return how much of the data and of the noise is left at a noise level: the cosine schedule, shapes (B, 1)."""
    angle = 0.5 * math.pi * level[:, None]
    return angle.cos(), angle.sin()


def loss_of(model: Denoiser, x: Tensor, codes: Tensor, dice: torch.Generator) -> Tensor:
    """Return the training loss of a batch: half of it uncovers categories, half denoises numbers."""
    rows, columns = codes.shape
    half = rows // 2 if columns and model.numbers else (rows if columns else 0)
    noise = torch.randn(x.shape, generator=dice)
    level = torch.rand(rows, generator=dice)
    level[:half] = 1.0
    keep, stir = _mix(level)
    noisy = keep * x + stir * noise
    noisy[:half] = noise[:half]
    # In the first half every number of masked columns, from one to all, is equally likely.
    rank = torch.rand(half, columns, generator=dice).argsort(dim=1).argsort(dim=1)
    masked = rank < torch.randint(1, columns + 1, (half, 1), generator=dice) if columns else rank.bool()
    seen = codes.clone()
    for c, k in enumerate(model.levels):
        seen[:half, c][masked[:, c]] = k
    hidden = model(noisy, seen, level)
    total = torch.zeros(())
    if model.numbers and half < rows:
        wanted = keep * noise - stir * x
        total = total + ((model.velocity(hidden[half:]) - wanted[half:]) ** 2).mean()
    if half:
        each = torch.stack(
            [
                nn.functional.cross_entropy(say(hidden[:half]), codes[:half, c], reduction="none")
                for c, say in enumerate(model.logits)
            ],
            dim=1,
        )
        # A row with few masked columns counts as much as one with many, which makes this a bound on the likelihood.
        total = total + (each * masked / masked.sum(dim=1, keepdim=True)).sum(dim=1).mean()
    return total


def train(x: Tensor, codes: Tensor, levels: Sequence[int], settings: Settings, seed: int, after: After) -> Denoiser:
    """Fit to rows x (B, N) and codes (B, C); torch itself is seeded by the caller. Returns the best state.

    Every twentieth row is held out; the state that explains those best is kept, and when none has been better for a
    while, or ``after`` returns True, the training ends.
    """
    model = Denoiser(x.shape[1], levels, settings)
    average = Denoiser(x.shape[1], levels, settings)
    average.load_state_dict(model.state_dict())
    average.eval()
    dice = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=dice)
    held = order[: max(len(x) // 20, 1)] if len(x) >= 200 else order
    learnt = order[len(held) :] if len(x) >= 200 else order
    held = held.repeat(max(1, 2_000 // len(held)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    batch = min(settings.batch, len(learnt))
    best, best_loss, stale = {k: v.clone() for k, v in average.state_dict().items()}, math.inf, 0
    for step in range(1, settings.steps + 1):
        for group in optimiser.param_groups:
            warm, done = min(1.0, step / 100), step / settings.steps
            group["lr"] = settings.learning_rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        rows = learnt[torch.randint(len(learnt), (batch,), generator=dice)]
        optimiser.zero_grad(set_to_none=True)
        loss = loss_of(model, x[rows], codes[rows], dice)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        with torch.no_grad():
            decay = min(settings.average, step / (step + 10))
            for mean, new in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(new, 1 - decay)
        stop = after(step)
        if stop or step % settings.check_every == 0 or step == settings.steps:
            with torch.no_grad():
                found = float(loss_of(average, x[held], codes[held], torch.Generator().manual_seed(seed)))
            if found < best_loss - 1e-4:
                best, best_loss, stale = {k: v.clone() for k, v in average.state_dict().items()}, found, 0
            else:
                stale += 1
            if stop or stale >= settings.patience:
                break
    average.load_state_dict(best)
    return average


@torch.no_grad()
def draw(
    model: Denoiser, rows: int, settings: Settings, seed: int, given: Mapping[int, Tensor]
) -> tuple[Tensor, Tensor]:
    """Sample x (rows, N) and codes (rows, C); ``given`` holds the codes of columns that are not to be sampled."""
    dice = torch.Generator().manual_seed(seed)
    columns = len(model.levels)
    codes = torch.tensor(model.levels, dtype=torch.long).repeat(rows, 1)
    for c, values in given.items():
        codes[:, c] = values
    x = torch.randn(rows, model.numbers, generator=dice)
    pure = torch.ones(rows)
    turn = torch.rand(rows, columns, generator=dice)
    for c in given:
        turn[:, c] = 2.0  # last, and then not at all
    order = turn.argsort(dim=1)
    for place in range(columns - len(given)):
        hidden = model(x, codes, pure)
        for c, say in enumerate(model.logits):
            mine = (order[:, place] == c).nonzero()[:, 0]
            if len(mine):
                share = torch.softmax(say(hidden[mine]), dim=1)
                codes[mine, c] = torch.multinomial(share, 1, generator=dice)[:, 0]
    # Numbers: the deterministic sampler (DDIM; Song et al., ICLR 2021) from pure noise down.
    levels = torch.linspace(1.0, 0.0, settings.denoising_steps + 1)
    for now, then in pairwise(levels) if model.numbers else ():
        velocity = model.velocity(model(x, codes, now.expand(rows)))
        keep, stir = _mix(now[None])
        clean, noise = keep * x - stir * velocity, stir * x + keep * velocity
        keep, stir = _mix(then[None])
        x = keep * clean + stir * noise
    return x, codes


def describe(model: Denoiser, settings: Settings) -> dict[str, Any]:
    """Return what is needed to build the same network again, as plain values."""
    return {"numbers": model.numbers, "levels": model.levels, "settings": asdict(settings)}
