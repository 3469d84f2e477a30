"""Distributed locks by the host's lock agent.

    from holdfast import Lock

    with Lock("db/migrate", ttl=10, wait=5) as lock:
        while work_left() and lock.held:
            do_a_little_work(fence=lock.fence)

docs/PYTHON.md of the project has the whole, and what a lock promises is in docs/SAFETY.md.
"""
from ._abi import LibraryError
from ._version import VERSION as __version__
from .aio import AsyncClient, AsyncExclusiveLock, AsyncLock, AsyncLockSet, AsyncSharedLock, AsyncSlots
from .client import Client, default_client
from .errors import (
    AgentShutdown,
    AlreadyHeld,
    BadName,
    BadTable,
    BadTTL,
    Busy,
    Cancelled,
    Drained,
    FleetDiffers,
    Forked,
    Full,
    HoldfastError,
    InvalidArgument,
    LimitReached,
    Lost,
    NoAgent,
    NoQuorum,
    NotAcquired,
    NotAllowed,
    NotHeld,
    OtherTimeNamespace,
    ProtocolError,
    SystemCallError,
    Timeout,
    Unavailable,
    VersionMismatch,
    WouldDeadlock,
)
from .job import job_beat
from .lock import ExclusiveLock, Lock, LockSet, SharedLock, Slots, all_of, synchronize
from .types import AgentInfo, Holder, Progress, State

__all__ = [
    "AgentShutdown",
    "AgentInfo",
    "AlreadyHeld",
    "AsyncClient",
    "AsyncExclusiveLock",
    "AsyncLock",
    "AsyncLockSet",
    "AsyncSharedLock",
    "AsyncSlots",
    "BadName",
    "BadTTL",
    "BadTable",
    "Busy",
    "Cancelled",
    "Client",
    "Drained",
    "ExclusiveLock",
    "FleetDiffers",
    "Forked",
    "Full",
    "Holder",
    "HoldfastError",
    "InvalidArgument",
    "LibraryError",
    "LimitReached",
    "Lock",
    "LockSet",
    "Lost",
    "NoAgent",
    "NoQuorum",
    "NotAcquired",
    "NotAllowed",
    "NotHeld",
    "OtherTimeNamespace",
    "Progress",
    "ProtocolError",
    "SharedLock",
    "Slots",
    "State",
    "SystemCallError",
    "Timeout",
    "Unavailable",
    "VersionMismatch",
    "WouldDeadlock",
    "__version__",
    "all_of",
    "default_client",
    "job_beat",
    "synchronize",
]
