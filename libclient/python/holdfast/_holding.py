"""What can be asked of a lock without waiting, for threads and asyncio alike."""
from __future__ import annotations

import inspect
import os
import threading
from typing import Any, ClassVar, Dict, List, NoReturn, Optional, Tuple, cast

from . import _abi
from ._request import All, Op, Terms, Wanted
from ._session import Lease, logger
from .errors import AlreadyHeld, Forked, HoldfastError, Lost, NotHeld
from .types import Holder, State

_held = _abi.hf_held
_beat = _abi.hf_beat
_remaining_ms = _abi.hf_remaining_ms


class Holding:
    """One holder: none, one or several leases, which are acquired and released together.

    All that is here may be called from any thread, also while another one releases. Nothing here waits for the agent."""

    _in_use: ClassVar[Dict[int, Any]]
    """Locks that have a lease. Here they are referred to whatever the program does, so that none is garbage while it is held."""

    def __init__(
        self,
        wanted: Wanted,
        ttl: Optional[float],
        wait: Optional[float],
        max_hold: Optional[float],
        heartbeat: Optional[float],
        note: Optional[str],
    ) -> None:
        self._wanted = wanted
        self._terms = Terms.of(ttl, max_hold, heartbeat, note)
        self.wait = wait
        self._leases: Tuple[Lease, ...] = ()
        self._acquiring: Dict[int, Tuple[Op, int]] = {}  # by process: in a forked child the parent's acquire does not go on
        self._fences: Tuple[int, ...] = ()
        self._final = State.NONE
        self.conflict: Optional[Holder] = None
        """Who had it when the last acquire() returned False, or raised Busy or Timeout; None: not known."""

    def __repr__(self) -> str:
        return f"<holdfast.{type(self).__name__} {self._wanted.label!r} {self.state.name}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"make a {type(self).__name__} of its own there: a lock is one holder, and cannot be copied or pickled")

    @property
    def held(self) -> bool:
        """Whether it is held, at the moment of the call: a load and a clock read in shared memory. False for good
        once it was False, and in a forked child."""
        leases = self._leases
        for lease in leases:
            if not _held(lease.handle):
                return False
        return bool(leases)

    @property
    def remaining(self) -> float:
        """Seconds until the validity ends, if it is not renewed; 0.0 when it is not held."""
        least = None
        for lease in self._leases:
            left = _remaining_ms(lease.handle)
            if least is None or left < least:
                least = left
        return (least or 0) / 1000

    @property
    def valid_until_ns(self) -> int:
        """The instant of CLOCK_BOOTTIME at which the validity now ends; 0 when it is not held."""
        return min([int(_abi.hf_valid_until_ns(lease.handle)) for lease in self._leases], default=0)

    @property
    def state(self) -> State:
        """The worst of its leases' states; after release() RELEASED, or LOST."""
        return max([lease.state for lease in self._leases], default=self._final)

    @property
    def reason(self) -> str:
        """Why it is LOSING or LOST; "" otherwise."""
        for lease in self._leases:
            reason = _abi.text(_abi.hf_reason(lease.handle))
            if reason:
                return reason
        return ""

    def check(self) -> None:
        """Raises Lost, or NotHeld, unless it is held."""
        if not self.held:
            raise self._not_held()

    def beat(self) -> None:
        """Shows progress, for a lock with a heartbeat: a store to shared memory."""
        for lease in self._leases:
            if _beat(lease.handle):  # the agent has restarted, and must learn which leases beat
                self._dispatch(lease)

    # --- for the classes above

    def _dispatch(self, lease: Lease) -> None:
        raise NotImplementedError

    @property
    def _forked(self) -> bool:
        return any(lease.session.forked for lease in self._leases)

    def _not_held(self) -> NotHeld:
        leases, label = self._leases, self._wanted.label
        if self._forked:
            return Forked(name=label)
        if leases:
            return Lost(self._loss(), name=label)
        if self._final == State.LOST:
            return Lost(name=label)
        return NotHeld("it is not held: acquire it first" if self._final == State.NONE else "it was released", name=label)

    def _loss(self, state: State = State.LOST) -> str:
        return f"the lock {'is' if state == State.LOST else 'will be'} lost: {self.reason or 'its validity ended'}"

    def _fence_of(self, index: int) -> int:
        if not self._fences:
            raise NotHeld("it was never acquired, so it has no fence", name=self._wanted.label)
        return self._fences[index]

    def _begin(self, op: Op) -> None:
        """One acquire at a time. What is taken by this thread is taken by `op`, or stale: a handler kept it from being given back.
        What was lost, or is a parent's, is in nobody's way."""
        mine = (op, threading.get_ident())
        first = self._acquiring.setdefault(os.getpid(), mine)
        if first is not mine and first[0].done and first[1] == mine[1]:
            self._acquiring[os.getpid()] = first = mine
        if first is not mine or self.held:
            raise AlreadyHeld(
                "use an object of your own to compete for it: this one is being acquired"
                if first is not mine
                else "use an object of your own to compete for it, or release() this one first",
                name=self._wanted.label,
            )
        self._let_go(self._leases, State.RELEASED if self._forked else State.LOST)
        self.conflict = None

    def _end(self, op: Op) -> None:
        if self._acquiring.get(os.getpid(), (None, 0))[0] is op:
            self._acquiring.clear()

    def _granted(self, leases: Tuple[Lease, ...]) -> None:
        self._fences = tuple(lease.fence for lease in leases)
        self._in_use[id(self)] = self
        self._leases = leases

    def _undo(self, op: Op) -> None:
        """What interrupted the acquire goes on; the session gives back what was granted."""
        if op.granted and (not self._leases or self._leases is op.granted):
            self._in_use.pop(id(self), None)
            self._final, self._leases = State.RELEASED, ()

    def _drop(self, leases: Tuple[Lease, ...], final: State = State.RELEASED) -> None:
        if leases and self._leases is leases:
            self._in_use.pop(id(self), None)
            self._final, self._leases = final, ()

    def _let_go(self, leases: Tuple[Lease, ...], final: State = State.RELEASED) -> None:
        """Releases what is not yet released, and wants no answer. Twice is fine: what a handler breaks off, the next acquire frees."""
        for lease in leases:
            lease.session.release_unseen([lease])
        self._drop(leases, final)

    def _release_all(self, leases: Tuple[Lease, ...]) -> List[Tuple[Lease, Op]]:
        """Begins to; empty: another thread does, or did."""
        self._drop(leases)  # first: whatever interrupts it, nothing is left of them here
        begun = [(lease, lease.session.release(lease)) for lease in leases]
        return [(lease, op) for lease, op in begun if op is not None]

    def _not_seen(self, failure: HoldfastError) -> None:
        """The body of a `with` had the lock to its end."""
        logger.warning("%s may stay taken for its TTL, for its release was not answered: %s", self._wanted.label, failure.message)

    def _refused(self, op: Op) -> Exception:
        self.conflict = op.holder
        return op.error(self._wanted)


class OneName(Holding):
    @property
    def name(self) -> str:
        return self._wanted.label

    @property
    def fence(self) -> int:
        """Rises with every grant of the name, on all hosts: let the resource refuse one lower than it has seen. Kept after a
        loss. Of slots: another slot's cannot be compared with it."""
        return self._fence_of(0)


class WholeName(OneName):
    """All slots and the name itself, as one."""

    @property
    def fence(self) -> int:
        """Of the name, as who alone holds it has it: for what only exclusive holders write to."""
        return self._fence_of(_abi.EXCLUSIVE_NAME)

    @property
    def slot_fences(self) -> Tuple[int, ...]:
        """Of each slot: for what those who share write to, too. A resource keeps the highest of each slot."""
        self._fence_of(0)
        return self._fences[: _abi.EXCLUSIVE_NAME]


class SeveralNames(Holding):
    @property
    def names(self) -> Tuple[str, ...]:
        return cast(All, self._wanted).names

    @property
    def fences(self) -> Dict[str, int]:
        """Of each name."""
        self._fence_of(0)
        return dict(zip(self.names, self._fences))


class CountedName(OneName):
    _slot = -1

    def _granted(self, leases: Tuple[Lease, ...]) -> None:
        self._slot = _abi.hf_slot_number(leases[0].handle)
        super()._granted(leases)

    @property
    def slot(self) -> int:
        """Which one it got, from 0."""
        self._fence_of(0)
        return self._slot


def decide_wait(blocking: bool, timeout: Optional[float], default: Optional[float]) -> Optional[float]:
    """As threading.Lock.acquire() has it; without a timeout the lock's own `wait`."""
    if not blocking:
        if timeout is not None and timeout != -1:
            raise ValueError("give no timeout to a call that does not block")
        return 0
    return default if timeout is None else timeout


def check_callback(what: str, function: object) -> None:
    if function is None:
        return
    if not callable(function):
        raise TypeError(f"{what} is {function!r}: use a function, or None")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):
        raise TypeError(f"make {what} a plain function, which may start a task: an async one is never awaited")
