"""The cache of compiled code: an edit below tracekit/sim is noticed, also in a function that is called or imported."""

import shutil
import subprocess
import sys

from shared_data import ROOT

WORK = """
import numpy as np
from tracekit.sim.policies.formulas import SAF, values_at_submit
values = np.empty(1)
one = np.ones(1)
values_at_submit(SAF, one, one, 3 * one, 5 * one, values)
print(values[0])
"""


def test_an_edit_of_a_called_function_in_a_subfolder_is_noticed(tmp_path):
    """`values_at_submit` calls `formula`; only `formula` changes, in a folder of the package."""
    for room in ("tracekit", "swf", "generators", "evaluation"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__", "data"))
    source = tmp_path / "tracekit" / "sim" / "policies" / "formulas.py"

    def value() -> float:
        done = subprocess.run([sys.executable, "-c", WORK], cwd=tmp_path, capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert value() == 15
    cached = list((tmp_path / "tracekit" / "sim" / "__pycache__").rglob("*.values_at_submit-*.nbc"))
    assert len(cached) == 1, "the compiled code was not kept"
    assert value() == 15
    text = source.read_text()
    helper = tmp_path / "tracekit" / "sim" / "policies" / "helper.py"
    helper.write_text(
        "from tracekit.sim.compile import jit_internal\n\n\n@jit_internal\ndef product(a, b):\n    return a * b\n"
    )
    source.write_text(
        text.replace("        return r * n\n", "        return product(r, n)\n", 1).replace(
            "from tracekit.sim.compile import jit\n",
            "from tracekit.sim.compile import jit\nfrom tracekit.sim.policies.helper import product\n",
        )
    )
    assert value() == 15
    helper.write_text(helper.read_text().replace("a * b", "a * b + 1"))  # the file of `values_at_submit` stays as it is
    assert value() == 16
