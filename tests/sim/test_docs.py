"""docs/simulator.md says what the code says, and its examples run."""

import re
from pathlib import Path

from tracekit.sim.policies.builtin import POLICIES
from tracekit.sim.policies.protocol import BuiltIn
from tracekit.sim.switches import BACKFILLS, ESTIMATES, MULTIFACTOR_DEFAULTS

TEXT = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()


def test_every_name_is_documented():
    for name in POLICIES:
        policy = POLICIES.get(name)
        assert (f"| `{name}` | {policy.formula} |" if isinstance(policy, BuiltIn) else f"| `{name}` |") in TEXT
    for name in (*BACKFILLS, *ESTIMATES, *MULTIFACTOR_DEFAULTS):
        assert name in TEXT


def test_the_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        names = {}
        exec(compile(block, "docs/simulator.md", "exec"), names)
        assert len(names["result"]) > 0
