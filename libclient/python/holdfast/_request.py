"""What is asked of the agent: which locks, on which terms, and the request itself while it is under way."""
from __future__ import annotations

import collections
import ctypes
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Deque, List, Optional, Sequence, Tuple

from . import _abi
from .errors import BadName, BadTTL, InvalidArgument, error_of
from .types import Holder, Name, Progress

if TYPE_CHECKING:
    from ._session import Lease

FOREVER_MS = -1


def bytes_of(name: Name) -> bytes:
    raw = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    if not isinstance(raw, bytes):
        raise TypeError(f"a lock's name is str or bytes, not {type(name).__name__}")
    if not 1 <= len(raw) <= 255:
        raise BadName(f"use a name of 1 to 255 bytes: this one has {len(raw)}")
    return raw


def bytes_of_note(note: Optional[str]) -> Optional[bytes]:
    if note is None:
        return None
    if not isinstance(note, str):
        raise TypeError(f"note is {note!r}: use a str, or None")
    if "\0" in note:
        raise InvalidArgument(f"use a note without a NUL character: this one is {note!r}")
    return note.encode("utf-8", "surrogateescape")


def milliseconds(what: str, seconds: Optional[float], most: int = 2**32 - 1) -> int:
    """0 for None. A span that is given is at least 1 ms."""
    if seconds is None:
        return 0
    check_seconds(what, seconds)
    if not seconds > 0 or not math.isfinite(seconds) or seconds * 1000 > most:
        kind = BadTTL if what == "ttl" else InvalidArgument
        raise kind(f"{what} is {seconds!r}: use seconds above 0 and up to {most // 1000}, or None")
    return max(1, round(seconds * 1000))


def check_seconds(what: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not hasattr(seconds, "__float__"):
        raise TypeError(f"{what} is {seconds!r}: use seconds, as an int or a float")


def wait_ms(seconds: Optional[float]) -> int:
    """None and -1: without limit; 0: a try."""
    if seconds is None or seconds == -1 or seconds == math.inf:
        return FOREVER_MS
    check_seconds("wait", seconds)
    if not seconds >= 0:
        raise InvalidArgument(f"wait is {seconds!r}: use seconds, or None to wait without limit")
    return min(math.ceil(seconds * 1000), 2**53)


@dataclass(frozen=True)
class Terms:
    """Of a lease: how long it outlives this host, how long it may last, and what people read of it."""

    ttl_ms: int
    max_hold_ms: int
    heartbeat_ms: int
    note: Optional[bytes]

    @classmethod
    def of(
        cls, ttl: Optional[float], max_hold: Optional[float], heartbeat: Optional[float], note: Optional[str]
    ) -> "Terms":
        return cls(
            milliseconds("ttl", ttl),
            milliseconds("max_hold", max_hold),
            milliseconds("heartbeat", heartbeat),
            bytes_of_note(note),
        )

    def options(self, wait: int) -> _abi.AcquireOptions:
        return _abi.AcquireOptions(
            size=ctypes.sizeof(_abi.AcquireOptions),
            ttl_ms=self.ttl_ms,
            max_hold_ms=self.max_hold_ms,
            wait_ms=wait,
            note=self.note,
            heartbeat_ms=self.heartbeat_ms,
        )


class Wanted:
    """Which locks: a kind of acquire. `names` are those of the leases in their order, `label` is for people."""

    label: str
    count = 1
    plain: Tuple[bytes, ...] = ()
    """The names of plain locks: who holds one would wait for itself."""

    def start(self, client: int, options: _abi.AcquireOptions, op: "Op") -> None:
        raise NotImplementedError

    def conflicting(self, index: Optional[int]) -> str:
        """The name that was in the way."""
        return self.label


class One(Wanted):
    def __init__(self, name: Name) -> None:
        self.raw = bytes_of(name)
        self.plain = (self.raw,)
        self.label = _abi.text(self.raw)

    def start(self, client: int, options: _abi.AcquireOptions, op: "Op") -> None:
        options.name, options.name_len = self.raw, len(self.raw)
        op.start(_abi.hf_acquire_start, client, ctypes.byref(options))


class All(Wanted):
    def __init__(self, names: Sequence[Name]) -> None:
        if isinstance(names, (str, bytes)):
            raise TypeError("names is a list of names; Lock takes a single one")
        self.raw = [bytes_of(name) for name in names]
        if not 1 <= len(self.raw) <= _abi.SET_MAX:
            raise InvalidArgument(f"use 1 to {_abi.SET_MAX} names: these are {len(self.raw)}")
        if len(set(self.raw)) != len(self.raw):
            raise InvalidArgument("use each name once in a set")
        self.plain = tuple(self.raw)
        self.names = tuple(_abi.text(raw) for raw in self.raw)
        self.label = ", ".join(self.names)
        self.count = len(self.raw)

    def start(self, client: int, options: _abi.AcquireOptions, op: "Op") -> None:
        names = (_abi.Name * self.count)(*[_abi.Name(raw, len(raw)) for raw in self.raw])
        op.start(_abi.hf_acquire_all_start, client, ctypes.byref(options), names, self.count)

    def conflicting(self, index: Optional[int]) -> str:
        return self.label if index is None else self.names[index]


class Slot(Wanted):
    def __init__(self, name: Name, slots: int) -> None:
        self.raw = bytes_of(name)
        if isinstance(slots, bool) or not hasattr(slots, "__index__"):
            raise TypeError(f"slots is {slots!r}: use an int")
        if not 1 <= slots <= _abi.SET_MAX:
            raise InvalidArgument(f"use 1 to {_abi.SET_MAX} slots, not {slots}")
        self.slots = slots
        self.label = _abi.text(self.raw)

    def start(self, client: int, options: _abi.AcquireOptions, op: "Op") -> None:
        options.name, options.name_len = self.raw, len(self.raw)
        op.start(_abi.hf_acquire_slot_start, client, ctypes.byref(options), self.slots)


class Shared(Slot):
    def start(self, client: int, options: _abi.AcquireOptions, op: "Op") -> None:
        options.name, options.name_len = self.raw, len(self.raw)
        op.start(_abi.hf_acquire_shared_start, client, ctypes.byref(options), self.slots)


class Exclusive(One):
    count = _abi.EXCLUSIVE_NAME + 1  # of all slots, and of the name itself

    def __init__(self, name: Name) -> None:
        super().__init__(name)
        self.plain = ()

    def start(self, client: int, options: _abi.AcquireOptions, op: "Op") -> None:
        options.name, options.name_len = self.raw, len(self.raw)
        op.start(_abi.hf_acquire_exclusive_start, client, ctypes.byref(options))


class Recorded:
    """Calls of the library whose effect and record are one step. A signal's handler may raise between any two lines of
    Python; map() and extend() run without one in between, so that what is recorded here, and only that, was done."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Deque[Any] = collections.deque(maxlen=1)

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        self._last.extend(map(function, *((arg,) for arg in args)))

    def __bool__(self) -> bool:
        return bool(self._last)

    @property
    def result(self) -> Any:
        return self._last[-1]


class Op:
    """A request that was started: an acquire of `count` leases, or a release (0). The library writes its handle and its
    leases into this object, so that whatever interrupts the caller finds them here. Its calls are made by one thread at a time;
    a signal's handler may make one amid another, which then passes NULL."""

    __slots__ = ("handle", "leases", "granted", "count", "news", "_start", "_answer", "_cancel", "_failure", "_callback", "_message", "_holder", "index")

    def __init__(self, count: int = 1) -> None:
        self.handle = ctypes.c_void_p()
        self.leases: Any = (ctypes.c_void_p * count)()
        self.granted: "Tuple[Lease, ...]" = ()
        self.count = count
        self.news: List[Progress] = []
        self._start, self._answer, self._cancel = Recorded(), Recorded(), Recorded()
        self._failure: Optional[int] = None  # what the session says of it
        self._message = ""
        self._holder: Optional[Holder] = None
        self.index: Optional[int] = None
        self._callback: Any = None

    @property
    def acquires(self) -> bool:
        return self.count > 0

    @property
    def live(self) -> bool:
        """The library has it."""
        return bool(self.handle.value) and not self._cancel and (not self._answer or self._answer.result == _abi.EPENDING)

    @property
    def done(self) -> bool:
        return bool(self._start) and not self.live

    @property
    def status(self) -> int:
        if self._failure is not None:
            return self._failure
        answer = self._answer or self._start
        return int(answer.result) if answer and not (self._cancel and not self._answer) else _abi.ECANCELED

    def want_progress(self, options: _abi.AcquireOptions) -> None:
        """To be called before the start: what it waits for will be in `news`."""

        def note(raw: Any, _arg: Optional[int]) -> None:
            try:
                self.news.append(Progress._of(raw.contents))
            except BaseException as error:
                interrupted.append(error)

        self._callback = _abi.PROGRESS_FN(note)
        options.progress = ctypes.cast(self._callback, ctypes.c_void_p).value

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        self.start_as(self._start, function, *args)

    def start_as(self, record: Recorded, function: Callable[..., Any], *args: Any) -> None:
        """Starts, which somebody else's record tells, too."""
        self._start = record
        record.call(function, *args, ctypes.byref(self.handle))
        if record.result < 0:
            self._note_failure()

    def collect(self) -> bool:
        """Asks for the result; whether it is there."""
        if self.live:
            self._answer.call(_abi.hf_op_result, self.handle, self.leases)
            if self._answer.result != _abi.EPENDING:
                self.handle.value = None
                if self._answer.result < 0:
                    self._note_failure()
        return self.done

    def _note_failure(self) -> None:
        self._message, holder, self.index = _abi.last_failure()
        self._holder = Holder._of(holder) if holder else None

    def fail(self, status: int, message: str) -> None:
        """Ends it for its caller; what the agent may still grant goes back."""
        self._failure, self._message = status, message
        self.cancel()

    def cancel(self) -> None:
        """Nobody wants it any more. Twice is fine. It does not undo a release."""
        if self.live:
            self._cancel.call(_abi.hf_op_cancel, self.handle)
            self.handle.value = None

    def error(self, wanted: Wanted) -> Exception:
        return error_of(self.status, self._message, wanted.conflicting(self.index), self._holder)

    @property
    def holder(self) -> Optional[Holder]:
        return self._holder


interrupted: List[BaseException] = []
"""What a signal's handler raised while the library ran a function of ours: from there no exception gets out."""


def raise_interrupted() -> None:
    if interrupted and threading.current_thread() is threading.main_thread():  # handlers run there
        raise interrupted.pop()
