"""What every registered format must do, so that a new one is tested the moment it is registered."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_data import DATA, shared_files

import tracekit
from swf import FORMATS
from swf.base import WritableFormat, detect
from tracekit import Trace
from tracekit.errors import FormatError

WRITABLE = [name for name in FORMATS if issubclass(FORMATS.get(name), WritableFormat)]
#: Every shared file that a registered format should claim, by folder.
EXPECTED = {"swf": "swf", "swf-variants": "swf", "gen-parallel-workloads": "gpw"}
EXPECTED |= {"alcf": "alcf", "acme": "acme", "rltune": "rltune"}
EXPECTED |= {"pbs": "pbs", "lsf": "lsf", "sge": "sge", "slurmsim": "slurmsim"}
#: Folders whose files are not all of one format: by name. Reduced tables and lone headers belong to none.
EXPECTED_FILES = {
    "helios_earth_readme_3rows.csv": "helios",
    "philly_readme_example.json": "philly",
    "openb_pod_list_default.csv": "alibaba-openb",
    "xdmod_phillips.sacct.log": "sacct",
    "rltune_slurm_jobcomp.log": "jobcomp",
    "jobcomp-22.05-130jobs.txt": "jobcomp",
    "sacct-22.05.json": "slurm-json",
    "squeue-22.05.json": "slurm-json",
}


@pytest.mark.parametrize("name", FORMATS.names())
def test_declares_itself(name: str) -> None:
    made = FORMATS.get(name)
    assert made.name == name
    assert made.title
    taken = set(inspect.signature(made.read).parameters) - {"self", "path", "options"}
    taken -= {"columns"} if getattr(made, "by_column", False) else set()  # no option of users
    assert taken == set(made.options)
    document = inspect.getmodule(made).__doc__ or ""  # type: ignore[union-attr]
    assert len(document) > 100, "the module's docstring holds the mapping of columns"


def test_endings_are_unique() -> None:
    endings = [suffix for name in FORMATS for suffix in FORMATS.get(name).suffixes]
    assert len(endings) == len(set(endings))


@pytest.mark.parametrize("name", FORMATS.names())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda t: t.encode("utf-8", "replace"))))
def test_sniffing_never_raises(name: str, head: bytes) -> None:
    assert FORMATS.get(name)().sniff(head, Path("nowhere")) in (True, False)


@pytest.mark.parametrize("name", WRITABLE)
def test_what_is_written_is_recognised_and_read(name: str, toy: Trace, tmp_path: Path) -> None:
    path = tmp_path / "file"
    tracekit.write(toy, path, name)
    assert detect(path, FORMATS).name == name
    back = tracekit.read(path)
    assert len(back) == len(toy)
    assert back.column("run_time").tolist() == toy.column("run_time").tolist()
    assert back.sizes().tolist() == toy.sizes().tolist()
    assert back.interarrival().tolist() == toy.interarrival().tolist()


GARBAGE = (b"", b"\0\1\2" * 50, b"hello\nworld\n", b"{}\n", b",,,\n,,,\n")


@pytest.mark.parametrize("name", FORMATS.names())
def test_garbage_is_a_format_error(name: str, tmp_path: Path) -> None:
    for content in GARBAGE:
        path = tmp_path / "garbage"
        path.write_bytes(content)
        with pytest.raises(FormatError):
            tracekit.read(path, name)


@pytest.mark.parametrize("path", shared_files("*/**/*.*"), ids=lambda p: p.name)
def test_shared_files_are_claimed_by_the_right_format_or_by_none(path: Path, tmp_path: Path) -> None:
    expected = EXPECTED_FILES.get(path.name) or EXPECTED.get(path.relative_to(DATA).parts[0])
    if path.name == "not-swf-semicolons.swf" or (expected is None and path.suffix != ".swf"):
        expected = None
    elif path.suffix == ".swf":
        expected = "swf"
    bare = tmp_path / "bare"
    bare.symlink_to(path)
    try:
        found = detect(bare, FORMATS).name
    except FormatError:
        found = None
    assert found == expected


def test_two_claims_are_an_error_that_names_both(tmp_path: Path) -> None:
    from swf.swf import SWF
    from tracekit.registry import Registry

    path = tmp_path / "t.swf"
    path.write_text("1 0 5 100 4 -1 -1 4 200 -1 1 1 1 3 1 -1 -1 -1\n")
    twice = Registry[type[SWF]]("format", {"swf": "swf.swf:SWF", "other": "swf.swf:SWF"})
    with pytest.raises(FormatError, match="swf and swf"):
        detect(path, twice)


@pytest.mark.parametrize("content", GARBAGE)
def test_the_template_keeps_the_contract_before_anything_is_changed(content: bytes, tmp_path: Path) -> None:
    from swf._template import Template

    (tmp_path / "garbage").write_bytes(content)
    with pytest.raises(FormatError):
        Template().read(tmp_path / "garbage")


def test_the_template_works_as_the_guide_says(tmp_path: Path) -> None:
    from swf._template import Template
    from tracekit.registry import Registry

    path = tmp_path / "jobs.txt"
    path.write_text("id,queued,duration,cores,owner,colour\n1,0,10,4,ann,red\n2,5,-1,8,bob,blue\n")
    formats = Registry[type[Template]]("format", {"swf": "swf.swf:SWF", "template": "swf._template:Template"})
    found = detect(path, formats)
    assert found.name == "template"
    trace = found.read(path)
    assert [problem.rule for problem in trace.validate()] == ["missing-run-time"]
    assert trace.jobs["x_colour"].tolist() == ["red", "blue"]
