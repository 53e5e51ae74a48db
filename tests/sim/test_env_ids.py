"""Ids of environments: Gymnasium finds them, whoever is imported first, and ``import tracekit`` stays light."""

import os
import subprocess
import sys

import pytest
from shared_data import ROOT

from tracekit.registry import imported
from tracekit.sim.tasks.ids import ENVIRONMENTS, PICK_JOB

MADE = "env = gymnasium.make('tracekit:tracekit/PickJob-v0', jobs=20); print(env.spec.id)"
MANY = "env = gymnasium.make_vec('tracekit:tracekit/PickJob-v0', num_envs=2, jobs=20); print(env.spec.id)"
HEAVY = "print([name for name in ('gymnasium', 'torch', 'numba', 'numpy', 'pandas') if name in sys.modules])"


def fresh(*lines, cwd):
    """Run lines in a new Python that finds tracekit as a folder on its path; return what it prints."""
    code = "\n".join(["import sys", *lines])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    "lines",
    [
        ("import gymnasium", MADE),
        ("import tracekit, gymnasium", MANY),
        ("import gymnasium, tracekit", MADE),
        ("from gymnasium.envs import registration as gymnasium", MADE),
        ("import tracekit", "from gymnasium.envs import registration as gymnasium", MANY),
    ],
)
def test_an_id_with_its_module_needs_no_other_import(lines, tmp_path):
    pytest.importorskip("gymnasium")
    assert fresh(*lines, cwd=tmp_path) == [PICK_JOB]


def test_importing_tracekit_imports_nothing_heavy(tmp_path):
    assert fresh("import tracekit", HEAVY, cwd=tmp_path) == ["[]"]


def test_without_gymnasium_nothing_is_missed(tmp_path):
    lines = ("sys.modules['gymnasium'] = None", "import tracekit", "print(tracekit.__version__)")
    assert len(fresh(*lines, cwd=tmp_path)) == 1


def test_gymnasium_is_loaded_as_ever(tmp_path):
    pytest.importorskip("gymnasium")
    told = fresh(
        "import importlib, importlib.util, tracekit",
        "spec = importlib.util.find_spec('gymnasium')",  # looking is not importing
        "print(spec.loader.get_filename() == spec.origin, 'gymnasium' in sys.modules)",
        "import gymnasium",
        "print(type(gymnasium.__loader__).__name__, type(gymnasium.__spec__.loader).__name__)",
        "importlib.reload(gymnasium); importlib.reload(tracekit)",
        "print(sum('tracekit' in type(finder).__module__ for finder in sys.meta_path))",
        f"print('{PICK_JOB}' in gymnasium.registry)",
        "for name in [name for name in sys.modules if name.split('.')[0] == 'gymnasium']: del sys.modules[name]",
        f"import gymnasium; print('{PICK_JOB}' in gymnasium.registry)",
        cwd=tmp_path,
    )
    assert told == ["True False", "SourceFileLoader SourceFileLoader", "1", "True", "True"]


def test_every_id_leads_somewhere():
    gymnasium = pytest.importorskip("gymnasium")
    for name, (one, many) in ENVIRONMENTS.items():
        assert issubclass(imported(one), gymnasium.Env)
        assert many is None or issubclass(imported(many), gymnasium.vector.VectorEnv)
        assert gymnasium.spec(name).entry_point == one


def test_a_missing_extra_is_told_with_its_pip_line(tmp_path):
    for blocked, module, extra in (("stable_baselines3", "sb3", "sb3"), ("gymnasium", "gym", "rl")):
        told = fresh(
            f"sys.modules['{blocked}'] = None",
            "from tracekit.errors import MissingExtra",
            f"try: import tracekit.sim.tasks.{module}",
            "except MissingExtra as error: print(error)",
            cwd=tmp_path,
        )
        assert f"pip install 'tracekit-hpc[{extra}]'" in told[0]
        assert blocked.replace("_", "-") in told[0]
