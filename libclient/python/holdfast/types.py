"""What the package tells: states of a lock, who holds one, what a wait is waiting for, the agent."""
from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Optional, Union

from . import _abi

Name = Union[str, bytes]
"""A lock's name: 1 to 255 bytes of any value; a str stands for its UTF-8."""


class State(enum.IntEnum):
    """Of a lock, for the better or the worse: the later, the worse."""

    NONE = 0  # never acquired by this object
    HELD = 1
    LATE = 2  # still held, but renewals fail: less than half the TTL is left
    LOSING = 3  # still held, but it will be lost: stop now
    LOST = 4
    RELEASED = 5

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Holder:
    """Who has a lock. What is not known is "", 0 or None."""

    host: str
    pid: int
    uid: int
    command: str
    note: str
    fence: int
    since: Optional[float]  # Unix time, in seconds
    expires_in: Optional[float]  # seconds until its key expires, if nobody renews it

    @classmethod
    def _of(cls, raw: _abi.Holder) -> "Holder":
        return cls(
            host=_abi.text(raw.host),
            pid=raw.pid,
            uid=raw.uid,
            command=_abi.text(raw.command),
            note=_abi.text(raw.note),
            fence=raw.fence,
            since=raw.since_wall_ms / 1000 if raw.since_wall_ms else None,
            expires_in=raw.pttl_ms / 1000 if raw.pttl_ms >= 0 else None,
        )


@dataclass(frozen=True)
class Progress:
    """What an acquire waits for."""

    reason: int  # a code of libholdfast: HF_EBUSY (another holds it), HF_ENOQUORUM, HF_EDRAINED, HF_ENOAGENT
    text: str  # the same as a sentence
    holder: Optional[Holder]
    place: int  # among the waiters of this host, 1 is next; 0: not known
    nodes_voting: int
    nodes_up: int
    index: int  # of several names or slots, which one

    @classmethod
    def _of(cls, raw: _abi.Progress) -> "Progress":
        return cls(
            reason=raw.reason,
            text=_abi.text(raw.text or _abi.hf_strerror(raw.reason)),
            holder=Holder._of(raw.holder) if raw.reason == _abi.EBUSY else None,
            place=raw.place,
            nodes_voting=raw.nodes_voting,
            nodes_up=raw.nodes_up,
            index=raw.index,
        )


@dataclass(frozen=True)
class AgentInfo:
    """The agent that a client is connected to. Times are seconds."""

    name: str
    version: str
    pid: int
    ttl: float
    ttl_max: float
    ttl_min: float
    nodes: int
    quorum: int

    @classmethod
    def _of(cls, raw: _abi.AgentInfo) -> "AgentInfo":
        return cls(
            name=_abi.text(raw.agent_name),
            version=_abi.text(raw.version),
            pid=raw.agent_pid,
            ttl=raw.ttl_ms / 1000,
            ttl_max=raw.ttl_max_ms / 1000,
            ttl_min=raw.ttl_min_ms / 1000,
            nodes=raw.nodes,
            quorum=raw.quorum,
        )
