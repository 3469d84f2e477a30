"""A client: this process's connection with one agent. Most programs use the default one, and never see it."""
from __future__ import annotations

import ctypes
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple, Type

from . import _abi
from ._session import Session
from .errors import error_of
from .types import AgentInfo, Name

if TYPE_CHECKING:
    from .lock import ExclusiveLock, Lock, LockSet, SharedLock, Slots, ThreadHolding


class Client:
    """`agent` is an agent's name, the path of its socket, or None: $HOLDFAST_AGENT, else the default agent.

    Any number of threads may use one. It connects when it is first needed, and in a forked child anew. What is held by
    its locks stays held until it is released, close() is called, or the process ends: never because of the garbage collector."""

    def __init__(self, agent: Optional[str] = None) -> None:
        self.agent = agent
        self._session: Optional[Session] = None
        self._connecting = threading.Lock()
        self._pid = os.getpid()

    def __enter__(self) -> "Client":
        self.connect()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        session = self.__dict__.get("_session")
        if session is not None:
            session.leave()

    def __repr__(self) -> str:
        return f"<holdfast.Client {self.agent or 'default'!r}>"

    def connect(self) -> None:
        """Connects now; NoAgent when there is no agent."""
        self._connected()

    def _connected(self) -> Session:
        session = self._session
        if session is not None and not session.forked:
            return session
        if self._pid != os.getpid():  # whoever had the lock here is in the other process
            self._connecting, self._pid = threading.Lock(), os.getpid()
        with self._connecting:
            session = self._session
            if session is None or session.forked:
                session = self._session = Session(None if self.agent is None else os.fsencode(self.agent))
            return session

    def close(self) -> None:
        """Releases all that is held, ends all waits (Cancelled), and disconnects. It connects again when it is used again."""
        session, self._session = self._session, None
        if session is None or session.forked:
            return
        session.end_waits()
        for lock in self.locks:
            lock._give_up(session)
        session.retire()

    @property
    def locks(self) -> "Tuple[ThreadHolding, ...]":
        """Those that are held, or were lost and not released yet."""
        return tuple(lock for lock in list(in_use.values()) if lock._client is self)

    @property
    def info(self) -> AgentInfo:
        """The agent as it is now; NoAgent while it is away."""
        raw = _abi.AgentInfo(size=ctypes.sizeof(_abi.AgentInfo))
        status = _abi.hf_agent_info(self._connected().handle, ctypes.byref(raw))
        if status < 0:
            raise error_of(status, _abi.last_failure()[0])
        return AgentInfo._of(raw)

    def lock(self, name: Name, **terms: Any) -> "Lock":
        """Lock(name, client=self, ...)"""
        from .lock import Lock

        return Lock(name, client=self, **terms)

    def lock_set(self, names: Sequence[Name], **terms: Any) -> "LockSet":
        """LockSet(names, client=self, ...)"""
        from .lock import LockSet

        return LockSet(names, client=self, **terms)

    def slots(self, name: Name, slots: int, **terms: Any) -> "Slots":
        """Slots(name, slots, client=self, ...)"""
        from .lock import Slots

        return Slots(name, slots, client=self, **terms)

    def shared_lock(self, name: Name, **terms: Any) -> "SharedLock":
        """SharedLock(name, client=self, ...)"""
        from .lock import SharedLock

        return SharedLock(name, client=self, **terms)

    def exclusive_lock(self, name: Name, **terms: Any) -> "ExclusiveLock":
        """ExclusiveLock(name, client=self, ...)"""
        from .lock import ExclusiveLock

        return ExclusiveLock(name, client=self, **terms)


in_use: "Dict[int, ThreadHolding]" = {}
"""See Holding."""


_default: Optional[Client] = None
_default_made = threading.Lock()


def default_client() -> Client:
    """The client of locks that name none."""
    global _default
    if _default is None:
        with _default_made:
            if _default is None:
                _default = Client()
    return _default


def _after_fork() -> None:
    global _default_made
    _default_made = threading.Lock()
    in_use.clear()


os.register_at_fork(after_in_child=_after_fork)
