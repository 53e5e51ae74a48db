"""Two experiments side by side: whether question, numbers and verdicts are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.experiment import results as tidy
from evaluation.experiment.about import TABLE, read_run
from tracekit.errors import loads

_BY = ["kind", "learner", "arm", "model", "seed", "agent_seed", "load", "window", "key"]
_NUMBERS = ["value", "real", "low", "high"]


@loads("a finished experiment")
def compare(first: str | Path, second: str | Path) -> dict[str, Any]:
    """Return what differs. Timings (rows of kind cost) do not count."""
    (about_a, verdict_a), (about_b, verdict_b) = read_run(first), read_run(second)
    tables = []
    for folder in (first, second):
        frame = tidy.read(Path(folder) / TABLE)
        tables.append(
            frame[frame["kind"] != "cost"].fillna({"seed": -1, "agent_seed": -1, "window": -1}).set_index(_BY)
        )
    one, two = tables
    common = one.index.intersection(two.index)
    a, b = one.loc[common, _NUMBERS].to_numpy(), two.loc[common, _NUMBERS].to_numpy()
    apart = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    with np.errstate(invalid="ignore"):
        gap = np.abs(a - b)
    different = int(apart.any(axis=1).sum())
    rows = {
        "both": len(common),
        "different": different,
        "only_first": len(one) - len(common),
        "only_second": len(two) - len(common),
        "largest_difference": float(np.nanmax(gap[apart])) if different and not np.isnan(gap[apart]).all() else 0.0,
        "first_different": [dict(zip(_BY, index, strict=True)) for index in list(common[apart.any(axis=1)][:5])],
    }
    same = not (different or rows["only_first"] or rows["only_second"])
    plan = list(_differences(about_a["plan"], about_b["plan"]))
    sentence = (
        f"the same numbers: {len(common):,} rows, timings aside"
        if same
        else f"{different:,} of {len(common):,} common rows differ; {rows['only_first']:,} rows are only in the first, "
        f"{rows['only_second']:,} only in the second"
    )
    return {
        "same": same,
        "same_data": about_a["real"]["sha256"] == about_b["real"]["sha256"] and about_a["parts"] == about_b["parts"],
        "sentence": sentence,
        "rows": rows,
        "plan": plan,
        "verdicts": _verdicts(verdict_a, verdict_b),
    }


def _differences(a: Any, b: Any, place: str = "") -> Iterator[dict[str, Any]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            yield from _differences(a.get(key), b.get(key), f"{place}.{key}" if place else key)
    elif a != b and not place.endswith("path"):
        yield {"key": place, "first": a, "second": b}


def _verdicts(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    sides = []
    for found in (a, b):
        rows = [*found["verdicts"], *found["baselines"], *found["arms"]]
        sides.append({(one.get("learner", ""), one["model"]): one for one in rows})
    kept = ("verdict", "difference", "low", "high", "sentence")
    return [
        {
            "learner": learner,
            "model": model,
            **{
                side: {key: own[learner, model][key] for key in kept} if (learner, model) in own else None
                for side, own in zip(("first", "second"), sides, strict=True)
            },
        }
        for learner, model in dict.fromkeys([*sides[0], *sides[1]])
    ]
