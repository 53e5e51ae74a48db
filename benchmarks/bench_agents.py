"""How fast agents play, learn and decide; the alternative (a dense network over all 128 slots) runs in the same run.

    python benchmarks/bench_agents.py [--quick] [--json] [--trace FILE.swf.gz]

Times are CPU seconds of this process with one thread, the best of a few runs from a warm cache: on a shared machine
wall-clock time measures the neighbours. Latencies of single decisions are wall-clock: that is what a caller waits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import tracekit
from tracekit.sim.agents import Config
from tracekit.sim.agents.inference import room, score
from tracekit.sim.agents.ppo import PPO
from tracekit.sim.agents.rollout import play
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.tasks.played import Played
from tracekit.sim.tasks.rewards import Baseline, rewards
from tracekit.trace import Trace

CONFIG = Config(minibatch=1024, target_kl=0.0)  # four epochs, none cut short
SLOTS = 128


def best(work: Callable[[], Any], times: int) -> tuple[float, Any]:
    """Return the least CPU seconds of a few runs, and what came out."""
    least, made = float("inf"), None
    for _ in range(times):
        begin = time.process_time()
        made = work()
        least = min(least, time.process_time() - begin)
    return least, made


class Dense(nn.Module):
    """The naive sketch: every decision is 128 slots wide, whatever is in them; the same layers for actor and critic."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(features, 32),
            nn.ReLU(),
            nn.Linear(32, 16),
            nn.ReLU(),
            nn.Linear(16, 8),
            nn.ReLU(),
            nn.Linear(8, 1),
        )
        self.each = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
        self.all = nn.Sequential(nn.Linear(SLOTS, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, jobs: torch.Tensor, there: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities (decisions, slots) and values (decisions,)."""
        scores = self.actor(jobs).squeeze(2).masked_fill(~there, -1e9)
        return scores.log_softmax(1), self.all(self.each(jobs).squeeze(2)).squeeze(1)


def dense_update(played: Played, config: Config) -> None:
    """Four epochs of PPO on 128-wide batches, with the same minibatches; advantages are given, to be generous."""
    features = played.rows.shape[1]
    jobs = np.zeros((len(played), SLOTS, features), np.float32)
    there = np.arange(SLOTS)[None, :] < played.count[:, None]
    jobs[there] = played.rows
    all_jobs, mask = torch.from_numpy(jobs), torch.from_numpy(there)
    action, gain = torch.from_numpy(played.chosen), torch.randn(len(played))
    model = Dense(features)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with torch.no_grad():
        parts = torch.arange(len(played)).split(config.minibatch)
        old = torch.cat([model(all_jobs[p], mask[p])[0].gather(1, action[p, None])[:, 0] for p in parts])
    for _ in range(config.epochs):
        for part in torch.randperm(len(played)).split(config.minibatch):
            every, value = model(all_jobs[part], mask[part])
            ratio = (every.gather(1, action[part, None])[:, 0] - old[part]).exp()
            clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
            loss = -torch.min(ratio * gain[part], clipped * gain[part]).mean() + (value - gain[part]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
            optimiser.step()


def latencies(ppo: PPO, jobs: int, times: int) -> dict[str, float]:
    """Return p50 and p99 in milliseconds of one decision among so many jobs, called from Python."""
    net, rng = ppo.model.actor.net(ppo.model.flat()), np.random.default_rng(0)
    shown, scratch = rng.random((SLOTS, net.features), dtype=np.float32), room(net, SLOTS + 1)
    seconds = np.empty(times)
    score(net, shown, jobs, False, scratch)
    for i in range(times):
        begin = time.perf_counter()
        score(net, shown, jobs, False, scratch)
        int(scratch.score[:jobs].argmax())
        seconds[i] = time.perf_counter() - begin
    return {"p50_ms": 1e3 * float(np.quantile(seconds, 0.5)), "p99_ms": 1e3 * float(np.quantile(seconds, 0.99))}


def measure(trace: Trace, *, quick: bool) -> dict[str, Any]:
    """Return every figure."""
    torch.set_num_threads(1)
    times, count, jobs = (2, 8, 256) if quick else (4, 24, 512)
    source = EpisodeSource(trace, PickJob())
    batch = Batch(source, lanes=count, threads=1)
    step = max((len(source) - jobs) // count, 1)
    windows = [(i * step, jobs) for i in range(count)]
    ppo = PPO(CONFIG, source.task, seed=1)
    keys = np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64)
    net = ppo.model.play_by()
    play(batch, windows, net, keys=keys)  # compiles
    kept_s, played = best(lambda: play(batch, windows, net, keys=keys), times)
    greedy_s, _ = best(lambda: play(batch, windows, net, keep=False), times)
    baseline = Baseline(source, "sjf")

    def learn() -> None:
        reward, context = rewards(played, windows, baseline, dense=True)
        ppo.update(played, reward, context, 1, 0.0)

    learn()
    update_s, _ = best(learn, times)
    dense_s, _ = best(lambda: dense_update(played, CONFIG), 1 if quick else 2)
    made = len(played)
    return {
        "decisions": made,
        "jobs_per_decision": float(played.count.mean()),
        "rollout_per_s": made / kept_s,
        "greedy_play_per_s": made / greedy_s,
        "update_per_s": made / update_s,
        "ppo_end_to_end_per_s": made / (kept_s + update_s),
        "dense_end_to_end_per_s": made / (kept_s + dense_s),
        "ratio_to_dense": (kept_s + dense_s) / (kept_s + update_s),
        "decision_128_jobs": latencies(ppo, SLOTS, 500 if quick else 5000),
        "decision_10_jobs": latencies(ppo, 10, 500 if quick else 5000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--trace", type=Path)
    chosen = parser.parse_args()
    trace = tracekit.read(chosen.trace) if chosen.trace else tracekit.sample()
    measured = measure(trace, quick=chosen.quick)
    if chosen.json:
        print(json.dumps(measured, indent=1))
        return
    print(f"{measured['decisions']:,} decisions among {measured['jobs_per_decision']:.1f} jobs on average, one thread")
    print(f"rollout with the kernel network   {measured['rollout_per_s']:>10,.0f} decisions/s")
    print(f"greedy play                       {measured['greedy_play_per_s']:>10,.0f} decisions/s")
    print(f"PPO, four epochs, end to end      {measured['ppo_end_to_end_per_s']:>10,.0f} decisions/s")
    print(f"the same on 128 slots (dense)     {measured['dense_end_to_end_per_s']:>10,.0f} decisions/s")
    print(f"ratio                             {measured['ratio_to_dense']:>10.1f}")
    for name in ("decision_128_jobs", "decision_10_jobs"):
        print(f"{name:<33} p50 {measured[name]['p50_ms']:.4f} ms, p99 {measured[name]['p99_ms']:.4f} ms")


if __name__ == "__main__":
    main()
