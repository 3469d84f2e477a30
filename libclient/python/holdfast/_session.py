"""A connection of this process with its agent, and who waits at it.

The library tells of everything through one descriptor. Of all threads that wait for something here one is the leader:
it polls the descriptor, has the library dispatch, collects the results of all ops, and wakes those whose op is done.
When it has what it waited for, another one leads. So a program that has no callbacks gets no thread of ours, waits end
by signals as Python's own do, and a signal whose handler returns costs no place in the queue.

A thread of ours (Watcher) leads where callbacks are wanted and nobody else is there.
"""
from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import itertools
import logging
import os
import select
import sys
import threading
import time
import weakref
from typing import Callable, Deque, Dict, Iterable, List, Optional, Tuple

from . import _abi
from ._request import Op, Recorded, interrupted, raise_interrupted
from .errors import error_of
from .types import State

logger = logging.getLogger("holdfast")

# The longest sleep without a look: a signal that comes in the instant before a sleep is noticed then.
SLICE_MS = 500
# How long a cancelled acquire is looked after: a grant that crossed the cancellation goes back.
CROSSING_MS = 50
# Between two looks of a program that closed the descriptors.
CLOSED_MS = 10

Change = Tuple["Lease", State]


class Lease:
    """A handle of the library. It keeps the session's memory, so that a thread which is about to check a lock can do so
    whatever the others do."""

    __slots__ = ("session", "handle", "name", "fence", "callback", "key", "_release")

    def __init__(self, session: "Base", handle: int, name: str) -> None:
        self.session = session
        self.handle = ctypes.c_void_p(handle)  # NULL when it is released
        self.name = name
        self.fence: int = _abi.hf_fence(self.handle)
        self.callback: Optional[Callable[[State], None]] = None
        self.key = 0  # of its callback
        self._release = Recorded()

    @property
    def state(self) -> State:
        state = _abi.hf_state(self.handle)
        return State(state) if state > 0 else State.LOST  # HF_EFORKED


class Base:
    """What a session is with threads and with asyncio: a client of the library, and callbacks of its leases."""

    def __init__(self) -> None:
        self.handle = 0
        self.pid = os.getpid()
        self.mutex = threading.RLock()  # a signal's handler may come back in
        self.changes: Deque[Change] = collections.deque()
        self._watched: Dict[int, Lease] = {}
        self._keys = itertools.count(1)  # never used twice: a change may be told when its lease is over
        changes, watched = self.changes, self._watched

        def note(_lease: Optional[int], state: int, key: Optional[int]) -> None:
            try:
                lease = watched.get(key or 0)
                if lease is not None:
                    changes.append((lease, State(state)))
            except BaseException as error:  # of a signal's handler
                interrupted.append(error)

        self._on_change = _abi.CHANGE_FN(note)

    def __del__(self, disconnect: Callable[[int], None] = _abi.hf_disconnect, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # No lease, op or thread refers to it any more. In a forked child this frees memory only. At the interpreter's end
        # the process's end does it.
        handle, self.handle = self.handle, 0
        if handle and not ending():
            disconnect(handle)

    @property
    def forked(self) -> bool:
        return self.pid != os.getpid()

    def watch(self, lease: Lease, callback: Callable[[State], None]) -> None:
        """Has `callback` called with each new state, in the session's own way."""
        lease.callback, lease.key = callback, next(self._keys)
        self._watched[lease.key] = lease
        _abi.hf_on_change(lease.handle, ctypes.cast(self._on_change, ctypes.c_void_p), lease.key)

    def unwatch(self, lease: Lease) -> None:
        lease.callback = None
        self._watched.pop(lease.key, None)

    def granted(self, op: Op, label: str) -> Tuple[Lease, ...]:
        """The leases of an acquire that is done: the same ones whenever it is asked."""
        if not op.granted:
            op.granted = tuple(Lease(self, handle, label) for handle in op.leases if handle)
        return op.granted

    def release(self, lease: Lease) -> Optional[Op]:
        """Begins to release; the lease is over at once, and its handle the library's again. None: it is another's affair."""
        op = Op(0)
        try:
            with self.mutex:
                if not lease._release:
                    self.unwatch(lease)
                    op.start_as(lease._release, _abi.hf_release_start, lease.handle)
                    lease.handle.value = None
                    return op
            return None
        except BaseException:  # of a signal's handler
            self.release_unseen([lease])
            raise

    def release_unseen(self, leases: Iterable[Lease]) -> None:
        """Begins to release, and wants no answer. Twice is fine. What is the parent's stays so."""
        for lease in () if self.forked else leases:
            op = Op(0)
            with self.mutex:
                if not lease._release:
                    self.unwatch(lease)
                    op.start_as(lease._release, _abi.hf_release_start, lease.handle)
                    lease.handle.value = None
                op.cancel()

    def after_fork(self) -> None:
        """In a child: nothing here is its own."""
        self.mutex = threading.RLock()
        self._watched.clear()
        self.changes.clear()


class Session(Base):
    """For threads."""

    def __init__(self, agent: Optional[bytes]) -> None:
        super().__init__()
        client = ctypes.c_void_p()
        while True:
            status = _abi.hf_connect(agent, ctypes.byref(client))
            if status != _abi.EINTR:  # by a signal whose handler has returned
                break
        if status < 0:
            raise error_of(status, _abi.last_failure()[0])
        self.handle = client.value or 0
        fd = _abi.hf_fd(self.handle)
        if fd < 0:
            raise error_of(fd, _abi.last_failure()[0])
        self._ops: Dict[int, Tuple[Op, "_Bell"]] = {}
        self._leader = 0  # a thread
        self._leads_until = 0.0
        self._watcher: Optional[Watcher] = None
        self._closed = False
        self._kicks = _Pipe()
        weakref.finalize(self, self._kicks.close).atexit = False
        self._sleep = _sleeper((fd, self._kicks.reader))
        sessions.add(self)

    def wait(self, op: Op, progress: Optional[Callable[[], None]] = None) -> None:
        """Until it is done. `progress` is called in this thread when there is news."""
        bell = _Bell()
        try:
            with self.mutex:
                if self._closed and op.acquires:
                    op.fail(_abi.ECANCELED, "the client was closed")
                if not op.done and not op.collect():
                    self._ops[id(op)] = (op, bell)
            while not op.done:
                self._lead_or_follow(bell, SLICE_MS)
                if progress is not None and op.news:
                    progress()
        finally:
            self._leave(op)

    def _lead_or_follow(self, bell: "_Bell", slice_ms: int) -> None:
        me, now = threading.get_ident(), time.monotonic()
        with self.mutex:
            # A handler that raised may have kept a leader from resigning: it leads for so long only.
            leads = self._leader in (0, me) or now > self._leads_until
            if leads:
                self._leader, self._leads_until = me, now + slice_ms / 1000 + 1
        if leads:
            self._turn(slice_ms)
        else:
            bell.wait(slice_ms / 1000)

    def _turn(self, slice_ms: int) -> None:
        """The leader's: one sleep, and all that is due."""
        if not self._kicks.is_ours():  # the program closed all descriptors
            time.sleep(min(slice_ms, CLOSED_MS) / 1000)
        elif self._kicks.reader in self._sleep(slice_ms):
            self._kicks.empty()
        _abi.hf_dispatch(self.handle)
        raise_interrupted()
        with self.mutex:
            for op, bell in list(self._ops.values()):
                if op.done or op.collect():
                    del self._ops[id(op)]
                    bell.ring()
                elif op.news:
                    bell.ring()
            if self.changes and self._watcher is not None:
                self._watcher.bell.ring()

    def _leave(self, op: Optional[Op]) -> None:
        """This thread waits for it no more, and leads no more: somebody else may."""
        with self.mutex:
            self._ops.pop(id(op), None)
            if self._leader == threading.get_ident():
                self._leader = 0
            if self._leader == 0:
                for _, bell in self._ops.values():
                    bell.ring()
                    return
                if self._watcher is not None:
                    self._watcher.bell.ring()

    def dispatch(self) -> None:
        """For hf_beat(): the leader does it, if there is one, since the agent's restart wakes it."""
        try:
            self._lead_or_follow(_Bell(), 0)
        finally:
            self._leave(None)

    def discard(self, op: Op, label: str) -> None:
        """An acquire that something interrupted: what was granted goes back."""
        with self.mutex:
            crossing = op.live
            op.cancel()
        self.release_unseen(self.granted(op, label))
        if crossing:  # a grant that crossed the cancellation comes now
            try:
                self._lead_or_follow(_Bell(), CROSSING_MS)
            finally:
                self._leave(None)

    def watch(self, lease: Lease, callback: Callable[[State], None]) -> None:
        with self.mutex:
            if self._watcher is None:
                self._watcher = Watcher(self)
                self._watcher.thread.start()
        super().watch(lease, callback)
        self.kick()

    def kick(self) -> None:
        """The leader looks again."""
        self._kicks.fill()

    def end_waits(self) -> None:
        """Nobody acquires here any more. Releases go on."""
        with self.mutex:
            self._closed = True
            for op, bell in self._ops.values():
                if op.acquires and not op.done:
                    op.fail(_abi.ECANCELED, "the client was closed")
                bell.ring()
        self.kick()

    def retire(self) -> None:
        """Ends the thread; what is held is the caller's to release before."""
        with self.mutex:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()

    def leave(self) -> None:
        """Nobody uses it any more. For the garbage collector."""
        if self._watcher is not None and not self.forked:
            self._watcher.leave()

    def after_fork(self) -> None:
        super().after_fork()
        self._ops = {}
        self._leader, self._watcher = 0, None
        self._closed = True


def _sleeper(fds: Tuple[int, ...]) -> Callable[[int], List[int]]:
    """A function that sleeps for so many milliseconds, or until some of `fds` can be read, which it returns."""
    if not hasattr(select, "poll"):  # eventlet has taken it away: its select() lets other green threads run
        return lambda ms: select.select(fds, [], [], ms / 1000)[0]
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return lambda ms: [fd for fd, _ in poll.poll(ms)]


class _Pipe:
    """Both ends, for as long as they are its own: a program may close all descriptors, and open files that get the numbers."""

    __slots__ = ("reader", "_writer", "_file")

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._file = _file_of(self.reader)

    def is_ours(self) -> bool:
        return _file_of(self.reader) == self._file == _file_of(self._writer)

    def empty(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 4096)

    def fill(self) -> None:
        if self.is_ours():
            with contextlib.suppress(BlockingIOError):
                os.write(self._writer, b"k")

    def close(self) -> None:
        for fd in (self.reader, self._writer):
            if _file_of(fd) == self._file:
                os.close(fd)


def _file_of(fd: int) -> Optional[Tuple[int, int]]:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Bell:
    """Rung with the session's mutex held."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float) -> None:
        self._lock.acquire(timeout=seconds)

    def ring(self) -> None:
        if self._lock.locked():
            self._lock.release()


class Watcher:
    """The thread in which callbacks are called. It never leads while it calls one."""

    def __init__(self, session: Session) -> None:
        self.bell = _Bell()
        self._session = session
        self._ended = False
        self.thread = threading.Thread(target=self._run, name="holdfast", daemon=True)

    def stop(self) -> None:
        self.leave()
        if self.thread is not threading.current_thread():
            self.thread.join(1)  # its callback may take long

    def leave(self) -> None:
        """It ends by itself. Takes no lock: the garbage collector may call it."""
        self._ended = True
        self._session.kick()

    def _run(self) -> None:
        session = self._session
        while not self._ended:
            try:
                with session.mutex:
                    others = bool(session._ops)
                if others:
                    self.bell.wait(SLICE_MS / 1000)
                else:
                    session._lead_or_follow(self.bell, SLICE_MS)
            finally:
                session._leave(None)
            self._tell()

    def _tell(self) -> None:
        while self._session.changes:
            lease, state = self._session.changes.popleft()
            callback = lease.callback
            if callback is None:
                continue
            try:
                callback(state)
            except BaseException:  # sys.exit() too: it would end this thread only, and with it the callbacks of all others
                logger.exception("the callback of %s failed at %s", lease.name, state.name)


sessions: "weakref.WeakSet[Base]" = weakref.WeakSet()


def _after_fork() -> None:
    for session in list(sessions):
        session.after_fork()


def _at_exit() -> None:
    """Threads end before the interpreter does. Nothing is released: the process may still work, and its end releases."""
    for session in list(sessions):
        if isinstance(session, Session) and not session.forked and session._watcher is not None:
            session._watcher.stop()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
