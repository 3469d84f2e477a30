"""Locks for asyncio: AsyncLock, AsyncLockSet, AsyncSlots. No thread, and nothing here blocks the loop."""
from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Type, TypeVar, cast

from . import _abi
from ._abi import SET_MAX
from ._holding import CountedName, Holding, OneName, SeveralNames, WholeName, check_callback, decide_wait
from ._request import All, Exclusive, One, Op, Shared, Slot, Wanted, raise_interrupted, wait_ms
from ._session import Base, Lease, logger, sessions
from .errors import Forked, HoldfastError, Lost, NotAcquired, NotHeld, WouldDeadlock, error_of
from .types import AgentInfo, Name, Progress, State

OnProgress = Callable[[Progress], None]
_Self = TypeVar("_Self", bound="AsyncHolding")

CANCEL, RAISE = "cancel", "raise"


class AsyncSession(Base):
    """One loop dispatches, whenever the library's descriptor is readable. All of it runs in that loop."""

    def __init__(self, agent: Optional[bytes]) -> None:
        super().__init__()
        client = ctypes.c_void_p()
        status = _abi.hf_connect_start(agent, ctypes.byref(client))
        if status < 0:
            raise error_of(status, _abi.last_failure()[0])
        self.handle = client.value or 0
        self._waiting: Dict["asyncio.Future[None]", Optional[Op]] = {}  # None: for the connection
        self._own: "weakref.WeakValueDictionary[bytes, AsyncHolding]" = weakref.WeakValueDictionary()
        self._fd: int = _abi.hf_fd(self.handle)
        if self._fd < 0:
            raise error_of(self._fd, _abi.last_failure()[0])
        asyncio.get_running_loop().add_reader(self._fd, self._readable)
        sessions.add(self)

    async def connected(self) -> None:
        while True:
            status = _abi.hf_connect_result(self.handle)
            if status == _abi.OK:
                return
            if status != _abi.EPENDING:
                raise error_of(status, _abi.last_failure()[0])
            await self._news(None)

    async def wait(self, op: Op, progress: Optional[Callable[[], None]] = None) -> None:
        while not op.collect():
            await self._news(op)
            if progress is not None and op.news:
                progress()

    async def _news(self, op: Optional[Op]) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = op
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def _readable(self) -> None:
        _abi.hf_dispatch(self.handle)
        raise_interrupted()
        for future, op in list(self._waiting.items()):
            if not future.done() and (op is None or op.done or op.collect() or op.news):
                future.set_result(None)
        while self.changes:
            lease, state = self.changes.popleft()
            if lease.callback is not None:
                try:
                    lease.callback(state)
                except Exception:
                    logger.exception("the callback of %s failed at %s", lease.name, state.name)

    def own(self, holding: "AsyncHolding", wanted: Wanted) -> None:
        for name in wanted.plain:
            self._own[name] = holding

    def check_own(self, wanted: Wanted) -> None:
        """A task that waits for a lock that it holds itself waits for ever; another task may be waited for."""
        for name in wanted.plain:
            holding = self._own.get(name)
            if holding is not None and holding.held and holding._task is asyncio.current_task():
                raise WouldDeadlock("this task holds the lock and would wait for itself; release it first", name=_abi.text(name))

    def end_waits(self) -> None:
        """Nobody acquires here any more. Releases go on."""
        for future, op in list(self._waiting.items()):
            if op is not None and op.acquires and not op.done:
                op.fail(_abi.ECANCELED, "the client was closed")
                if not future.done():
                    future.set_result(None)

    def retire(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)


class AsyncClient:
    """As Client, for one event loop. Without one, locks use the loop's default client."""

    def __init__(self, agent: Optional[str] = None) -> None:
        self.agent = agent
        self._session: Optional[AsyncSession] = None
        self._loop: Optional["weakref.ref[asyncio.AbstractEventLoop]"] = None

    async def __aenter__(self) -> "AsyncClient":
        await self.connect()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<holdfast.AsyncClient {self.agent or 'default'!r}>"

    async def connect(self) -> None:
        """Connects now; NoAgent when there is no agent."""
        await self._connected()

    async def _connected(self) -> AsyncSession:
        loop = asyncio.get_running_loop()
        if self._session is not None and self._session.forked:
            self._session = None
        if self._session is None:
            self._loop = weakref.ref(loop)
            self._session = AsyncSession(None if self.agent is None else os.fsencode(self.agent))
        elif self._loop is None or self._loop() is not loop:
            raise RuntimeError("make an AsyncClient for each event loop: this one belongs to another")
        session = self._session
        try:
            await session.connected()
        except HoldfastError:
            if self._session is session:
                self._session = None
                session.retire()
            raise
        return session

    async def close(self) -> None:
        """Releases all that is held, ends all waits (Cancelled), and disconnects."""
        session, self._session = self._session, None
        if session is None or session.forked:
            return
        session.end_waits()
        for lock in self.locks:
            await lock._give_up(session)
        session.retire()

    @property
    def locks(self) -> "Tuple[AsyncHolding, ...]":
        """Those that are held, or were lost and not released yet."""
        return tuple(lock for lock in list(_in_use.values()) if lock._client is self)

    async def info(self) -> AgentInfo:
        """The agent as it is now; NoAgent while it is away."""
        session = await self._connected()
        raw = _abi.AgentInfo(size=ctypes.sizeof(_abi.AgentInfo))
        status = _abi.hf_agent_info(session.handle, ctypes.byref(raw))
        if status < 0:
            raise error_of(status, _abi.last_failure()[0])
        return AgentInfo._of(raw)

    def lock(self, name: Name, **terms: Any) -> "AsyncLock":
        """AsyncLock(name, client=self, ...)"""
        return AsyncLock(name, client=self, **terms)

    def lock_set(self, names: Sequence[Name], **terms: Any) -> "AsyncLockSet":
        """AsyncLockSet(names, client=self, ...)"""
        return AsyncLockSet(names, client=self, **terms)

    def slots(self, name: Name, slots: int, **terms: Any) -> "AsyncSlots":
        """AsyncSlots(name, slots, client=self, ...)"""
        return AsyncSlots(name, slots, client=self, **terms)

    def shared_lock(self, name: Name, **terms: Any) -> "AsyncSharedLock":
        """AsyncSharedLock(name, client=self, ...)"""
        return AsyncSharedLock(name, client=self, **terms)

    def exclusive_lock(self, name: Name, **terms: Any) -> "AsyncExclusiveLock":
        """AsyncExclusiveLock(name, client=self, ...)"""
        return AsyncExclusiveLock(name, client=self, **terms)


_in_use: "Dict[int, AsyncHolding]" = {}
"""As `in_use` of the module client."""
os.register_at_fork(after_in_child=_in_use.clear)
_clients: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient]" = weakref.WeakKeyDictionary()


def _default_client() -> AsyncClient:
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        client = _clients[loop] = AsyncClient()
    return client


class AsyncHolding(Holding):
    """acquire(), release() and `async with`."""

    _in_use = _in_use

    def __init__(
        self,
        wanted: Wanted,
        ttl: Optional[float],
        wait: Optional[float],
        max_hold: Optional[float],
        heartbeat: Optional[float],
        note: Optional[str],
        on_loss: str,
        on_change: Optional[Callable[[Any, State], None]],
        on_progress: Optional[OnProgress],
        client: Optional[AsyncClient],
    ) -> None:
        super().__init__(wanted, ttl, wait, max_hold, heartbeat, note)
        wait_ms(wait)  # says what is wrong with it
        check_callback("on_change", on_change)
        check_callback("on_progress", on_progress)
        if client is not None and not isinstance(client, AsyncClient):
            raise TypeError(f"client is {client!r}: use a holdfast.AsyncClient, or None")
        if on_loss not in (CANCEL, RAISE):
            raise ValueError(f"on_loss is {on_loss!r}: use {CANCEL!r} or {RAISE!r}")
        self._cancels = on_loss == CANCEL
        self._on_change = on_change
        self._on_progress = on_progress
        self._given = client
        self._client = client  # of the last acquire
        self._body: Optional[_Body] = None
        self._task: "Optional[asyncio.Task[Any]]" = None  # that acquired it

    async def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """As Lock.acquire(). A task that is cancelled meanwhile holds nothing."""
        return await self._acquire(decide_wait(blocking, timeout, self.wait)) is None

    async def release(self) -> None:
        """As Lock.release(). A task that is cancelled meanwhile does not wait for the answer; the release goes on."""
        failure = await self._release(self._leases) if self._leases else self._not_held()
        if failure is not None:
            raise failure

    async def __aenter__(self: _Self) -> _Self:
        failure = await self._acquire(self.wait)
        if failure is not None:
            raise failure
        if self._cancels:
            self._body = _Body()
            self._may_be_lost(self.state)  # already
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        """Releases it, unless the body did. Raises Lost if it was lost, or the body was cancelled because of that; any other
        exception of the body goes first, with a note."""
        body, self._body = self._body, None
        lost: Optional[NotHeld] = body.lost if body is not None else None
        failure: Optional[HoldfastError] = None
        try:
            failure = await self._release(self._leases) if self._leases else None
        except asyncio.CancelledError as cancelled:
            if lost is None:
                raise
            kind, error = type(cancelled), cancelled  # ours: the body ended before it was delivered
        if isinstance(failure, NotHeld):
            lost = failure if lost is None else lost
        elif failure is not None:
            self._not_seen(failure)
        if lost is None:
            return
        others = body is not None and body.uncancel()
        if error is None or (isinstance(error, asyncio.CancelledError) and body is not None and body.lost is not None and not others):
            raise lost from error
        note = getattr(error, "add_note", None)  # Python 3.11
        if note is not None:
            note(f"holdfast: {lost}")

    # ---

    async def _acquire(self, wait: Optional[float]) -> Optional[Exception]:
        """None: granted. NotAcquired is returned, all else raised."""
        options = self._terms.options(wait_ms(wait))
        client = _default_client() if self._given is None else self._given
        session = await client._connected()
        op = Op(self._wanted.count)
        try:
            self._begin(op)
            if options.wait_ms != 0:
                session.check_own(self._wanted)
            self._client = client
            if self._on_progress is not None:
                op.want_progress(options)
            self._wanted.start(session.handle, options, op)
            await session.wait(op, functools.partial(self._tell_progress, op))
            if op.status < 0:
                failure = self._refused(op)
                if not isinstance(failure, NotAcquired):
                    raise failure
                return failure
            leases = session.granted(op, self._wanted.label)
            self._granted(leases)
            self._task = asyncio.current_task()
            session.own(self, self._wanted)
            for lease in leases:
                session.watch(lease, self._changed)
            return None
        except BaseException:
            self._undo(op)
            op.cancel()
            session.release_unseen(session.granted(op, self._wanted.label))
            raise
        finally:
            self._end(op)

    def _tell_progress(self, op: Op) -> None:
        while op.news and not op.done:
            cast(OnProgress, self._on_progress)(op.news.pop(0))

    def _changed(self, state: State) -> None:
        self._may_be_lost(state)
        if self._on_change is not None:
            self._on_change(self, state)

    def _may_be_lost(self, state: State) -> None:
        if self._body is not None and state in (State.LOSING, State.LOST):
            self._body.cancel(Lost(self._loss(state), name=self._wanted.label))

    async def _release(self, leases: Tuple[Lease, ...]) -> Optional[HoldfastError]:
        """What was wrong with it."""
        if self._forked:
            self._drop(leases)
            return Forked(name=self._wanted.label)
        begun = self._release_all(leases)
        failure: Optional[HoldfastError] = None if begun else self._not_held()
        try:
            for lease, op in begun:
                await cast(AsyncSession, lease.session).wait(op)
                if op.status < 0 and failure is None:
                    failure = cast(HoldfastError, op.error(self._wanted))
                    if isinstance(failure, NotHeld):
                        self._final = State.LOST
        finally:
            for _, op in begun:
                op.cancel()
        return failure

    async def _give_up(self, session: AsyncSession) -> None:
        """The client is closed."""
        if self._leases and self._leases[0].session is session:
            failure = await self._release(self._leases)
            if failure is not None:
                logger.warning("%s", failure)

    def _dispatch(self, lease: Lease) -> None:
        pass  # the loop does: the agent's restart wakes it


class _Body:
    """The body of an `async with`, which is cancelled when its lock is lost."""

    def __init__(self) -> None:
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._cancelling = self._count()
        self.lost: Optional[Lost] = None

    def _count(self) -> int:
        return int(self._task.cancelling()) if hasattr(self._task, "cancelling") else 0  # Python 3.11

    def cancel(self, lost: Lost) -> None:
        if self.lost is None:
            self.lost = lost
            self._task.cancel()

    def uncancel(self) -> bool:
        """Takes our cancellation back; whether others have cancelled it, too (before Python 3.11 that is not known)."""
        if self.lost is None or not hasattr(self._task, "uncancel"):
            return False
        return int(self._task.uncancel()) > self._cancelling


class AsyncLock(OneName, AsyncHolding):
    """An exclusive lock.

        async with AsyncLock("db/migrate", ttl=10, wait=5) as lock:
            await migrate(fence=lock.fence)

    Its arguments are those of Lock; callbacks are called in the loop. `on_loss` says what happens to the body of the `async
    with` when the lock is going to be lost: "cancel" cancels its task in time, and the `async with` raises Lost; with
    "raise" the body goes on, and Lost is raised at its end."""

    def __init__(
        self,
        name: Name,
        *,
        ttl: Optional[float] = None,
        wait: Optional[float] = None,
        max_hold: Optional[float] = None,
        heartbeat: Optional[float] = None,
        note: Optional[str] = None,
        on_loss: str = CANCEL,
        on_change: Optional[Callable[["AsyncLock", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[AsyncClient] = None,
    ) -> None:
        super().__init__(One(name), ttl, wait, max_hold, heartbeat, note, on_loss, on_change, on_progress, client)


class AsyncLockSet(SeveralNames, AsyncHolding):
    """Several locks at once, all or none, as LockSet."""

    def __init__(
        self,
        names: Sequence[Name],
        *,
        ttl: Optional[float] = None,
        wait: Optional[float] = None,
        max_hold: Optional[float] = None,
        heartbeat: Optional[float] = None,
        note: Optional[str] = None,
        on_loss: str = CANCEL,
        on_change: Optional[Callable[["AsyncLockSet", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[AsyncClient] = None,
    ) -> None:
        super().__init__(All(names), ttl, wait, max_hold, heartbeat, note, on_loss, on_change, on_progress, client)


class AsyncSlots(CountedName, AsyncHolding):
    """One of the slots of a lock that so many may hold, as Slots."""

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
        on_loss: str = CANCEL,
        on_change: Optional[Callable[["AsyncSlots", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[AsyncClient] = None,
    ) -> None:
        super().__init__(Slot(name, slots), ttl, wait, max_hold, heartbeat, note, on_loss, on_change, on_progress, client)


class AsyncSharedLock(CountedName, AsyncHolding):
    """Held with others who share the name, as SharedLock."""

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
        on_loss: str = CANCEL,
        on_change: Optional[Callable[["AsyncSharedLock", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[AsyncClient] = None,
    ) -> None:
        super().__init__(Shared(name, slots), ttl, wait, max_hold, heartbeat, note, on_loss, on_change, on_progress, client)



class AsyncExclusiveLock(WholeName, AsyncHolding):
    """Held alone, as ExclusiveLock."""

    def __init__(
        self,
        name: Name,
        *,
        ttl: Optional[float] = None,
        wait: Optional[float] = None,
        max_hold: Optional[float] = None,
        heartbeat: Optional[float] = None,
        note: Optional[str] = None,
        on_loss: str = CANCEL,
        on_change: Optional[Callable[["AsyncExclusiveLock", State], None]] = None,
        on_progress: Optional[OnProgress] = None,
        client: Optional[AsyncClient] = None,
    ) -> None:
        super().__init__(Exclusive(name), ttl, wait, max_hold, heartbeat, note, on_loss, on_change, on_progress, client)
