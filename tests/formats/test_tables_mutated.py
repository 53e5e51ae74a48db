"""A hundred damaged copies of each source's file: a message or a trace, never a traceback, a hang or a wrong format."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_alcf import PBS_HEADER, PBS_ROWS
from test_alibaba import INSTANCES, JOBS, TASKS

import tracekit
from swf import FORMATS
from swf.base import detect
from tracekit.errors import TracekitError

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,uX,vcJ,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
12,uV,vch,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
13,uz,vcp,1,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0
"""
KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
dlcA,uf,8,64,960,1000,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,18,10,1
dlcB,uf,8,64,960,1000,Other,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,,82,12.0,5248.0
"""
PHILLY = """\
[{"status": "Pass", "vc": "ee", "jobid": "application_1", "attempts": [{"start_time": "2017-10-07 01:12:09",
 "end_time": "2017-10-07 01:13:23", "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}]}],
 "submitted_time": "2017-10-07 01:11:39", "user": "ce"},
{"status": "Killed", "vc": "ee", "jobid": "application_2", "attempts": [], "submitted_time": "2017-10-08 01:11:39",
 "user": "cf"}]
"""
RLTUNE = """\
deep-0_1,1201,0,25,8,-1,-1,-1,-1,-1,2,2,1,-1,0,-1,-1,-1,0
bert-2_1,1432,0,41,1,-1,-1,-1,-1,-1,2,7,2,-1,0,-1,-1,-1,1
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0
openb-pod-0001,6000,12288,1,460,V100M16|V100M32,BE,Pending,427061,12902960,
"""
CSWA = """\
u_id,user,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,job_status
1,ann,56,2,2019-03-01 08:00:00,10,100,3600,Pass
2,bob,28,1,2019-03-01 08:00:30,-1,5,-1,Killed
"""
SAMPLES = {
    "alcf": [f"{PBS_HEADER}\n{PBS_ROWS}\n"],
    "helios": [HELIOS],
    "acme": [KALOS],
    "philly": [PHILLY],
    "rltune": [RLTUNE],
    "alibaba-openb": [OPENB],
    "alibaba-pai": [TASKS, JOBS, INSTANCES],
    "cswa": [CSWA],
}


def mutations(data: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """A hundred ways to damage a file."""
    lines = data.splitlines(keepends=True)
    for _ in range(20):
        yield data[: rng.integers(1, len(data))]
    for _ in range(25):
        text = bytearray(data)
        for at in rng.integers(0, len(text), rng.integers(1, 8)):
            text[at] = rng.integers(0, 256)
        yield bytes(text)
    for _ in range(15):
        cut = int(rng.integers(0, 6))
        yield b"\n".join(b",".join(line.split(b",")[:cut] + line.split(b",")[cut + 1 :]) for line in data.splitlines())
    for _ in range(10):
        yield b"".join(lines[i] for i in rng.permutation(len(lines)))
    for _ in range(10):
        at = int(rng.integers(0, len(data)))
        yield data[:at] + b"\0" * int(rng.integers(1, 50)) + data[at:]
    for junk in (b"1e999", b"-9" * 30, b'"', b"\xff\xfe", b"nan", "é".encode(), b"2023-99-99 99:99:99", b"[" * 5000):
        at = int(rng.integers(0, len(data)))
        yield data[:at] + junk + data[at:]
    yield data * 3
    yield data.replace(b",", b";")
    yield data.replace(b"\n", b"\r\n")
    yield data.replace(b"\n", b"")
    yield data.replace(b"2", b"")
    yield data.replace(b"1", b"x")
    yield data.replace(b",", b",,")
    yield data.upper()
    yield b"\n\n" + data
    yield b"\xef\xbb\xbf" + data
    yield lines[0]
    yield b"".join(lines[1:])


def outcome(reader: str, path: Path, on_error: str) -> str:
    """Read a file, and look at it; return the message if it cannot be read."""
    made = FORMATS.get(reader)
    try:
        trace = made().read(path, **({"on_error": on_error} if "on_error" in made.options else {}))
        trace.validate()
    except TracekitError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in SAMPLES.items() for text in texts])
def test_a_hundred_damaged_copies(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    if text is TASKS:
        assert detect(path, FORMATS).name == name
        tracekit.read(path)
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    for number, data in enumerate(mutations(text.encode(), rng)):
        path.write_bytes(data)
        with contextlib.suppress(TracekitError):
            assert detect(path, FORMATS).name == name, number
        every = FORMATS.names() if number % 10 == 0 else [name]
        for reader in every:
            for on_error in ("stop", "skip"):
                message = outcome(reader, path, on_error)
                assert len(message) < 1000, (number, reader)
