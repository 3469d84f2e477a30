"""For the jobs of `holdfast run`, whose lock is another process's."""
from __future__ import annotations

from . import _abi


def job_beat() -> bool:
    """Shows progress for the job of `holdfast run --heartbeat`, from any of its processes. False: there is no such `run`."""
    return bool(_abi.hf_job_beat())
