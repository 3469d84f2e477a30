"""Locks for threads: Lock, LockSet, Slots."""
from __future__ import annotations

import functools
import inspect
from types import TracebackType
from typing import Any, Callable, Optional, Sequence, Tuple, Type, TypeVar, cast

from ._abi import ACQUIRE_BLOCKS, SET_MAX
from ._holding import CountedName, Holding, OneName, SeveralNames, WholeName, check_callback, decide_wait
from ._request import All, Exclusive, One, Op, Shared, Slot, Wanted, wait_ms
from ._session import Lease, Session, logger
from .client import Client, default_client, in_use
from .errors import Forked, HoldfastError, NotAcquired, NotHeld
from .types import Name, Progress, State

OnChange = Callable[[Any, State], None]
OnProgress = Callable[[Progress], None]
_Self = TypeVar("_Self", bound="ThreadHolding")
_F = TypeVar("_F", bound=Callable[..., Any])


class ThreadHolding(Holding):
    """acquire(), release() and `with`, for any thread. An object is one holder, and not reentrant: threads may share one
    that is held (to check it, to beat, to release it), and each that wants to compete makes an object of its own."""

    _in_use = in_use

    def __init__(
        self,
        wanted: Wanted,
        ttl: Optional[float],
        wait: Optional[float],
        max_hold: Optional[float],
        heartbeat: Optional[float],
        note: Optional[str],
        on_change: Optional[OnChange],
        on_progress: Optional[OnProgress],
        client: Optional[Client],
    ) -> None:
        super().__init__(wanted, ttl, wait, max_hold, heartbeat, note)
        wait_ms(wait)  # says what is wrong with it
        check_callback("on_change", on_change)
        check_callback("on_progress", on_progress)
        if client is not None and not isinstance(client, Client):
            raise TypeError(f"client is {client!r}: use a holdfast.Client, or None")
        self._on_change = on_change
        self._on_progress = on_progress
        self._client = client if client is not None else default_client()

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """True: it is held. False: another has it, or had it all the time (`conflict`: who). All else is an exception, such as
        NoAgent or NoQuorum: nobody could have got it.

        `timeout` is in seconds; None is the lock's own `wait`, -1 waits without limit. A signal whose handler raises, such
        as Ctrl-C, ends the wait, and nothing is held then; other signals do not disturb it. What was lost before is freed."""
        return self._acquire(decide_wait(blocking, timeout, self.wait)) is None

    def release(self) -> None:
        """From the first instruction on it is not held; then the agent deletes the keys. Lost: it had been lost before.
        Timeout, NoAgent: no answer came, so it may stay taken for its TTL. Ctrl-C ends the wait for the answer, not the release."""
        leases = self._leases
        try:
            failure = self._release(leases) if leases else self._not_held()
        except BaseException:  # of a signal's handler
            self._let_go(leases)
            raise
        if failure is not None:
            raise failure

    def __enter__(self: _Self) -> _Self:
        failure = self._acquire(self.wait)
        if failure is not None:
            raise failure
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        """Releases it, unless the body did. Raises Lost if it was lost; an exception of the body goes first, with a note."""
        leases = self._leases
        try:
            failure = self._release(leases) if leases else None
        except BaseException:  # of a signal's handler
            self._let_go(leases)
            raise
        if failure is None:
            return
        if not isinstance(failure, NotHeld):
            self._not_seen(failure)
        elif error is None:
            raise failure
        else:
            note = getattr(error, "add_note", None)  # Python 3.11
            if note is not None:
                note(f"holdfast: {failure}")

    # ---

    def _acquire(self, wait: Optional[float]) -> Optional[Exception]:
        """None: granted. NotAcquired is returned, all else raised."""
        options = self._terms.options(wait_ms(wait))
        if self._wanted.plain:
            options.flags = ACQUIRE_BLOCKS
        session = self._client._connected()
        op = Op(self._wanted.count)
        try:
            self._begin(op)
            if self._on_progress is not None:
                op.want_progress(options)
            self._wanted.start(session.handle, options, op)
            session.wait(op, functools.partial(self._tell_progress, op))
            if op.status < 0:
                failure = self._refused(op)
                if not isinstance(failure, NotAcquired):
                    raise failure
                self._end(op)
                return failure
            leases = session.granted(op, self._wanted.label)
            self._granted(leases)
            if self._on_change is not None:
                for lease in leases:
                    session.watch(lease, functools.partial(self._on_change, self))
            self._end(op)  # in here: where it is interrupted, nothing may be held
            return None
        except BaseException:
            # Also of a signal's handler, wherever it came: what was granted goes back.
            try:
                self._undo(op)
                session.discard(op, self._wanted.label)
            finally:  # amid which a second one may come
                self._undo(op)
                session.discard(op, self._wanted.label)
                self._end(op)
            raise

    def _tell_progress(self, op: Op) -> None:
        while op.news and not op.done:
            cast(OnProgress, self._on_progress)(op.news.pop(0))

    def _release(self, leases: Tuple[Lease, ...]) -> Optional[HoldfastError]:
        """What was wrong with it."""
        if self._forked:
            self._drop(leases)
            return Forked(name=self._wanted.label)
        begun = self._release_all(leases)
        failure: Optional[HoldfastError] = None if begun else self._not_held()
        for lease, op in begun:
            cast(Session, lease.session).wait(op)
            if op.status < 0 and failure is None:
                failure = cast(HoldfastError, op.error(self._wanted))
                if isinstance(failure, NotHeld):
                    self._final = State.LOST
        return failure

    def _give_up(self, session: Session) -> None:
        """The client is closed."""
        if self._leases and self._leases[0].session is session:
            try:
                self.release()
            except HoldfastError as failure:
                logger.warning("%s", failure)

    def _dispatch(self, lease: Lease) -> None:
        cast(Session, lease.session).dispatch()


class Lock(OneName, ThreadHolding):
    """An exclusive lock.

        with Lock("db/migrate", ttl=10, wait=5) as lock:
            while work_left() and lock.held:
                do_a_little_work(fence=lock.fence)

    The agent renews it until it is released or this process ends: `ttl` does not limit the work, but how long the lock stays
    taken when this host is gone. Times are seconds.

    ttl          None: the agent's default
    wait         how long `with` and acquire() wait: None without limit, 0 not at all
    max_hold     no longer than this
    heartbeat    lost after so long without beat(); at least 0.1
    note         up to 127 bytes for people to read
    on_change    called with this lock and its new State, in a thread of the package; it must not wait long
    on_progress  called with what the acquire waits for, in the thread that waits
    """

    def __init__(
        self,
        name: Name,
        *,
        ttl: Optional[float] = None,
        wait: Optional[float] = None,
        max_hold: Optional[float] = None,
        heartbeat: Optional[float] = None,
        note: Optional[str] = None,
        on_change: Optional[Callable[["Lock", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[Client] = None,
    ) -> None:
        super().__init__(One(name), ttl, wait, max_hold, heartbeat, note, on_change, on_progress, client)


class LockSet(SeveralNames, ThreadHolding):
    """Several locks at once, all or none, without deadlock whatever sets overlap. `held` is true while all are.

        with LockSet(["account/1", "account/2"], wait=5) as both:
            transfer(both.fences["account/1"], both.fences["account/2"])

    Its arguments are those of Lock, for each of the names."""

    def __init__(
        self,
        names: Sequence[Name],
        *,
        ttl: Optional[float] = None,
        wait: Optional[float] = None,
        max_hold: Optional[float] = None,
        heartbeat: Optional[float] = None,
        note: Optional[str] = None,
        on_change: Optional[Callable[["LockSet", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[Client] = None,
    ) -> None:
        super().__init__(All(names), ttl, wait, max_hold, heartbeat, note, on_change, on_progress, client)


class Slots(CountedName, ThreadHolding):
    """One of the `slots` slots of a lock that so many may hold. All programs must use the same number.

        with Slots("licence", 3, wait=60) as slot:
            use_licence(slot.slot)

    Its other arguments are those of Lock."""

    def __init__(
        self,
        name: Name,
        slots: int,
        *,
        ttl: Optional[float] = None,
        wait: Optional[float] = None,
        max_hold: Optional[float] = None,
        heartbeat: Optional[float] = None,
        note: Optional[str] = None,
        on_change: Optional[Callable[["Slots", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[Client] = None,
    ) -> None:
        super().__init__(Slot(name, slots), ttl, wait, max_hold, heartbeat, note, on_change, on_progress, client)


class SharedLock(CountedName, ThreadHolding):
    """Held with others who share the name, up to `slots` of them: for those who read.

        with SharedLock("index", wait=5) as shared:
            read(slot=shared.slot, fence=shared.fence)

    Its other arguments are those of Lock."""

    def __init__(
        self,
        name: Name,
        *,
        slots: int = SET_MAX,
        ttl: Optional[float] = None,
        wait: Optional[float] = None,
        max_hold: Optional[float] = None,
        heartbeat: Optional[float] = None,
        note: Optional[str] = None,
        on_change: Optional[Callable[["SharedLock", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[Client] = None,
    ) -> None:
        super().__init__(Shared(name, slots), ttl, wait, max_hold, heartbeat, note, on_change, on_progress, client)


class ExclusiveLock(WholeName, ThreadHolding):
    """Held alone: nobody shares the name, has it exclusively, or as a plain Lock. For those who write. A check looks at 65
    leases; who waits keeps later ones from sharing.

        with ExclusiveLock("index", wait=60) as alone:
            write(fence=alone.fence)

    Its arguments are those of Lock."""

    def __init__(
        self,
        name: Name,
        *,
        ttl: Optional[float] = None,
        wait: Optional[float] = None,
        max_hold: Optional[float] = None,
        heartbeat: Optional[float] = None,
        note: Optional[str] = None,
        on_change: Optional[Callable[["ExclusiveLock", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[Client] = None,
    ) -> None:
        super().__init__(Exclusive(name), ttl, wait, max_hold, heartbeat, note, on_change, on_progress, client)


def all_of(*names: Name, **terms: Any) -> LockSet:
    """LockSet(names, ...)"""
    return LockSet(names, **terms)


def synchronize(name: Name, **terms: Any) -> Callable[[_F], _F]:
    """A decorator: each call of the function holds the lock, with Lock's arguments. Calls in threads exclude each other, too."""
    if callable(name):
        raise TypeError(f"write @synchronize(NAME): without a lock's name it cannot decorate {name!r}")
    Lock(name, **terms)  # says what is wrong with them

    def decorate(function: _F) -> _F:
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"take the lock inside of {function!r}, by `with Lock` or `async with AsyncLock`: its body runs after the call")

        @functools.wraps(function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            with Lock(name, **terms):
                return function(*args, **kwargs)

        return cast(_F, locked)

    return decorate
