"""libholdfast as ctypes sees it: its structs, its functions, and what is wrong when it cannot be used.

ctypes, because it is of the standard library: one wheel for every Python, and no compiler where it is installed. What a call
costs is that of ctypes (tools/bench/python). Functions that read or write a few words of shared memory keep the interpreter's
lock (GIL): they are over before another thread could use it. All the others let go of it.
"""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Sequence, Tuple

from ._version import VERSION

SONAME = "libholdfast.so.1"

# --- codes, as in holdfast.h

OK = 0
EINVAL, ENAME, ETTL, EPERM = -101, -102, -103, -104
EBUSY, ETIMEDOUT, ECANCELED, EPENDING, EINTR, EDONE, EDEADLK = -201, -202, -203, -204, -205, -206, -207
ENOAGENT, ESHUTDOWN, ENOQUORUM, EFLEET, EFULL, ELIMIT = -301, -302, -303, -304, -305, -306
EVERSION, ETIMENS, EPROTO, ETABLE, EDRAINED = -307, -308, -309, -310, -311
ELOST, ENOTHELD, EFORKED = -401, -402, -403
ENOMEM, ESYS = -501, -502

SET_MAX = 64
EXCLUSIVE_NAME = SET_MAX

# --- structs
#
# Those that may grow begin with their size. Ours are larger than today's library knows: the rest is zero, which is
# "off" to every later library, and room for what that may write.

LATER = 256  # bytes of a struct that later versions may use


class Holder(ctypes.Structure):
    _fields_ = [
        ("fence", c_uint64),
        ("since_wall_ms", c_int64),
        ("pttl_ms", c_int64),
        ("pid", c_uint32),
        ("uid", c_uint32),
        ("host", c_char * 64),
        ("command", c_char * 16),
        ("note", c_char * 128),
        ("reserved", c_uint64 * 4),
    ]


class Progress(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("reason", c_int),
        ("nodes_voting", c_uint32),
        ("nodes_up", c_uint32),
        ("holder", Holder),
        ("text", c_char * 184),
        ("index", c_size_t),
        ("place", c_uint32),
    ]


ACQUIRE_BLOCKS = 4


class AcquireOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("name_len", c_size_t),
        ("ttl_ms", c_uint32),
        ("max_hold_ms", c_uint32),
        ("wait_ms", c_int64),
        ("flags", c_uint),
        ("note", c_char_p),
        ("heartbeat_ms", c_uint32),
        ("progress", c_void_p),
        ("arg", c_void_p),
        ("later", c_uint8 * LATER),
    ]


class Name(ctypes.Structure):
    _fields_ = [("bytes", c_char_p), ("len", c_size_t)]


class AgentInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("ttl_ms", c_uint32),
        ("ttl_max_ms", c_uint32),
        ("ttl_min_ms", c_uint32),
        ("nodes", c_uint32),
        ("quorum", c_uint32),
        ("agent_pid", c_uint32),
        ("agent_name", c_char * 64),
        ("version", c_char * 16),
        ("shadowed", c_char * 128),
        ("agent_pidns", c_uint64),
        ("later", c_uint8 * LATER),
    ]


PROGRESS_FN = ctypes.CFUNCTYPE(None, POINTER(Progress), c_void_p)
CHANGE_FN = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)

# --- the library


class LibraryError(ImportError):
    """libholdfast.so.1 is missing, or not one that this package can use."""


def _load(kind: Callable[..., ctypes.CDLL], **options: bool) -> ctypes.CDLL:
    try:
        return kind(SONAME, **options)
    except OSError as error:
        raise LibraryError(
            f"install the package libholdfast1, or put the folder of {SONAME} into LD_LIBRARY_PATH: {error}", name="holdfast", path=SONAME
        ) from None


_waiting = _load(ctypes.CDLL, use_errno=True)
_instant = _load(ctypes.PyDLL)


def _function(library: ctypes.CDLL, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise LibraryError(
            f"install the libholdfast1 of version {VERSION} or later: the {SONAME} that was found has no {name}(), which holdfast {VERSION} for Python calls",
            name="holdfast",
            path=SONAME,
        ) from None
    function.restype = result
    function.argtypes = list(arguments)
    return function


def waiting(name: str, *arguments: Any, result: Any = c_int) -> Any:
    """A function that may wait, or take a lock of the library."""
    return _function(_waiting, name, result, arguments)


def instant(name: str, *arguments: Any, result: Any = c_int) -> Any:
    """A function that reads or writes a few words of shared memory."""
    return _function(_instant, name, result, arguments)


_handle = POINTER(c_void_p)

hf_held = instant("hf_held", c_void_p)
hf_beat = instant("hf_beat", c_void_p)
hf_job_beat = instant("hf_job_beat")
hf_fence = instant("hf_fence", c_void_p, result=c_uint64)
hf_remaining_ms = instant("hf_remaining_ms", c_void_p, result=c_int64)
hf_valid_until_ns = instant("hf_valid_until_ns", c_void_p, result=c_int64)
hf_state = instant("hf_state", c_void_p)
hf_reason = instant("hf_reason", c_void_p, result=c_char_p)
hf_slot_number = instant("hf_slot_number", c_void_p)
hf_strerror = instant("hf_strerror", c_int, result=c_char_p)
hf_last_message = instant("hf_last_message", result=c_char_p)
hf_conflict = instant("hf_conflict", POINTER(Holder))
hf_conflict_index = instant("hf_conflict_index")

hf_connect = waiting("hf_connect", c_char_p, _handle)
hf_connect_start = waiting("hf_connect_start", c_char_p, _handle)
hf_connect_result = waiting("hf_connect_result", c_void_p)
hf_disconnect = waiting("hf_disconnect", c_void_p, result=None)
hf_agent_info = waiting("hf_agent_info", c_void_p, POINTER(AgentInfo))
hf_fd = waiting("hf_fd", c_void_p)
hf_dispatch = waiting("hf_dispatch", c_void_p)
hf_acquire_start = waiting("hf_acquire_start", c_void_p, POINTER(AcquireOptions), _handle)
hf_acquire_all_start = waiting("hf_acquire_all_start", c_void_p, POINTER(AcquireOptions), POINTER(Name), c_size_t, _handle)
hf_acquire_slot_start = waiting("hf_acquire_slot_start", c_void_p, POINTER(AcquireOptions), c_uint, _handle)
hf_acquire_shared_start = waiting("hf_acquire_shared_start", c_void_p, POINTER(AcquireOptions), c_uint, _handle)
hf_acquire_exclusive_start = waiting("hf_acquire_exclusive_start", c_void_p, POINTER(AcquireOptions), _handle)
hf_op_result = waiting("hf_op_result", c_void_p, _handle)
hf_op_cancel = waiting("hf_op_cancel", c_void_p, result=None)
hf_release_start = waiting("hf_release_start", c_void_p, _handle)
hf_on_change = waiting("hf_on_change", c_void_p, c_void_p, c_void_p)


def text(raw: bytes) -> str:
    """What the library says is UTF-8 where names are; other bytes stay as they are."""
    return raw.decode("utf-8", "surrogateescape")


def last_failure() -> Tuple[str, "Holder | None", "int | None"]:
    """Of this thread's last call that failed: its message, the conflicting holder, and which of several names it was."""
    holder, index = Holder(), hf_conflict_index()
    message = text(hf_last_message())  # before hf_conflict(), which may fail, too
    known = hf_conflict(ctypes.byref(holder)) == OK
    return message, holder if known else None, index if index >= 0 else None
