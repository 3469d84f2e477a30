"""What can go wrong, a class for each kind.

    HoldfastError
        InvalidArgument (ValueError): BadName, BadTTL, AlreadyHeld
        NotAllowed
        NotAcquired: Busy, Timeout (TimeoutError)                    another has it
        Unavailable: NoAgent, NoQuorum, Drained, ...                 nobody could have got it
        NotHeld: Lost, Forked                                        it is not held, or not any more
        WouldDeadlock                                                this thread or task holds it
        Cancelled, SystemCallError
"""
from __future__ import annotations

from typing import Dict, Optional, Type

from . import _abi
from .types import Holder


class HoldfastError(Exception):
    """`code` is libholdfast's (HF_EBUSY is -201), `message` its sentence. `name` is the lock's, where there is one; `holder`
    who has it instead, where that is known."""

    code = 0

    def __init__(self, message: str = "", *, name: Optional[str] = None, holder: Optional[Holder] = None, code: Optional[int] = None) -> None:
        if code is not None:
            self.code = code
        self.message = message or _abi.text(_abi.hf_strerror(self.code))
        self.name = name
        self.holder = holder
        super().__init__(f"{name}: {self.message}" if name is not None else self.message)

    def __reduce__(self) -> "tuple[object, ...]":
        return _restored, (type(self), self.message, self.name, self.holder, self.code)


def _restored(kind: Type[HoldfastError], message: str, name: Optional[str], holder: Optional[Holder], code: int) -> HoldfastError:
    return kind(message, name=name, holder=holder, code=code)


class InvalidArgument(HoldfastError, ValueError):
    code = _abi.EINVAL


class BadName(InvalidArgument):
    """Not 1 to 255 bytes, or with the prefix `holdfast:`."""

    code = _abi.ENAME


class BadTTL(InvalidArgument):
    """Below what the timing allows, or above the fleet's ttl_max."""

    code = _abi.ETTL


class AlreadyHeld(InvalidArgument):
    """This very object is held, or is being acquired: who wants to compete makes an object of its own."""


class NotAllowed(HoldfastError):
    """A rule of the agent keeps the name for others."""

    code = _abi.EPERM


class NotAcquired(HoldfastError):
    """Another has the lock."""


class Busy(NotAcquired):
    """... and waiting was not asked for."""

    code = _abi.EBUSY


class Timeout(NotAcquired, TimeoutError):
    """... and the wait is over. From release(): no answer came in time, so the lock may stay taken for its TTL."""

    code = _abi.ETIMEDOUT


class WouldDeadlock(HoldfastError):
    """This thread, or this task, holds the lock by this client, and would wait for itself."""

    code = _abi.EDEADLK


class Cancelled(HoldfastError):
    """The client was closed while this was waiting."""

    code = _abi.ECANCELED


class Unavailable(HoldfastError):
    """Nobody could have got the lock here: no agent, too few nodes, no room."""


class NoAgent(Unavailable):
    code = _abi.ENOAGENT


class AgentShutdown(Unavailable):
    code = _abi.ESHUTDOWN


class NoQuorum(Unavailable):
    code = _abi.ENOQUORUM


class Drained(Unavailable):
    code = _abi.EDRAINED


class FleetDiffers(Unavailable):
    code = _abi.EFLEET


class Full(Unavailable):
    code = _abi.EFULL


class LimitReached(Unavailable):
    code = _abi.ELIMIT


class VersionMismatch(Unavailable):
    """The agent is of a version that this libholdfast cannot speak with."""

    code = _abi.EVERSION


class OtherTimeNamespace(Unavailable):
    code = _abi.ETIMENS


class ProtocolError(Unavailable):
    code = _abi.EPROTO


class BadTable(Unavailable):
    code = _abi.ETABLE


class NotHeld(HoldfastError):
    code = _abi.ENOTHELD


class Lost(NotHeld):
    """It was held, and is lost: somebody else may have it."""

    code = _abi.ELOST


class Forked(NotHeld):
    """It is held by the process before fork(): a child holds nothing."""

    code = _abi.EFORKED


class SystemCallError(HoldfastError):
    code = _abi.ESYS


def _kinds(kind: Type[HoldfastError]) -> Dict[int, Type[HoldfastError]]:
    found = {} if kind in (AlreadyHeld, NotAcquired, Unavailable) or not kind.code else {kind.code: kind}
    for below in kind.__subclasses__():
        found.update(_kinds(below))
    return found


_KIND_OF = _kinds(HoldfastError)


def error_of(code: int, message: str = "", name: Optional[str] = None, holder: Optional[Holder] = None) -> Exception:
    """The exception for a code of libholdfast."""
    if code == _abi.ENOMEM:
        return MemoryError(message)
    return _KIND_OF.get(code, HoldfastError)(message, name=name, holder=holder, code=code)
