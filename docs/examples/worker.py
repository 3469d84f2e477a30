#!/usr/bin/env python3
"""The library from another language: what C programs inline are functions of libholdfast as well.

    worker.py NAME
"""
import ctypes
import sys

lib = ctypes.CDLL("libholdfast.so.1")
lib.hf_last_message.restype = ctypes.c_char_p
lib.hf_fence.restype = ctypes.c_uint64
lib.hf_remaining_ms.restype = ctypes.c_int64
for call in (lib.hf_held, lib.hf_beat, lib.hf_fence, lib.hf_remaining_ms, lib.hf_release, lib.hf_disconnect):
    call.argtypes = [ctypes.c_void_p]


class Options(ctypes.Structure):
    """struct hf_acquire_options"""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("name_len", ctypes.c_size_t),
                ("ttl_ms", ctypes.c_uint32), ("max_hold_ms", ctypes.c_uint32), ("wait_ms", ctypes.c_int64),
                ("flags", ctypes.c_uint), ("note", ctypes.c_char_p), ("heartbeat_ms", ctypes.c_uint32),
                ("progress", ctypes.c_void_p), ("arg", ctypes.c_void_p)]


def must(status):
    if status < 0:
        sys.exit(f"worker.py: {lib.hf_last_message().decode()}")


name = sys.argv[1].encode()
client, lease = ctypes.c_void_p(), ctypes.c_void_p()
options = Options(size=ctypes.sizeof(Options), name=name, name_len=len(name), wait_ms=10000, heartbeat_ms=1000)
must(lib.hf_connect(None, ctypes.byref(client)))
must(lib.hf_acquire_with(client, ctypes.byref(options), ctypes.byref(lease)))
steps = 0
while steps < 1000 and lib.hf_held(lease):
    lib.hf_beat(lease)
    steps += 1  # a step of the work; what it writes to gets the fence along
print(f"{steps} steps with fence {lib.hf_fence(lease)}, {lib.hf_remaining_ms(lease)} ms left")
must(lib.hf_release(lease))
lib.hf_disconnect(client)
