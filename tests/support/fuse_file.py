"""A file of a file system that hangs when a scenario wants it to: a server of one file, by the protocol of /dev/fuse, in a mount namespace
of its own.

    python3 fuse_file.py FOLDER     the server: mounts there, says "mounted", and serves FOLDER/log until it is killed
"""
import contextlib
import ctypes
import errno
import os
import pathlib
import signal
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, WRITE, INIT, FLUSH = 1, 2, 3, 4, 14, 16, 26, 25
INTERRUPT, BATCH_FORGET = 36, 42
UNHEARD = (FORGET, INTERRUPT, BATCH_FORGET)
HEADER = struct.Struct("<IIQQIIII")


class FuseFile:
    """The server, as a process of the run; skips the scenario where there is no FUSE."""

    def __init__(self, run):
        import rig
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            rig.skip("no /dev/fuse")
        folder = run.dir / "fuse"
        folder.mkdir(mode=0o777)
        self.process = run.spawn("unshare", "--mount", "--propagation=private", sys.executable, "-S", __file__, folder, label="fuse")
        rig.wait_until(lambda: "mounted" in self.process.out or not self.process.running, what="the file system is mounted")
        if not self.process.running:
            rig.skip(f"no FUSE here: {self.process.err.strip()}")
        self.path = pathlib.Path(f"/proc/{self.process.pid}/root{folder}/log")

    def open(self, flags):
        return os.open(self.path, flags | os.O_CLOEXEC)

    def hang(self):
        self.process.signal(signal.SIGSTOP)

    def end(self):
        """Whoever waits for it gets an error."""
        self.process.signal(signal.SIGKILL)
        with contextlib.suppress(Exception):
            self.process.wait()


def attributes(node):
    now = int(time.time())
    mode = 0o40777 if node == 1 else 0o100666
    return struct.pack("<QQQQQQIIIIIIIIII", node, 0, 0, now, now, now, 0, 0, 0, mode, 1, 65534, 65534, 0, 4096, 0)


def answer(operation, node, body):
    """Bytes, or an errno."""
    if operation == INIT:
        _, _, read_ahead, _ = struct.unpack_from("<IIII", body)
        return struct.pack("<IIIIHHIIHHIII", 7, 31, read_ahead, 0, 12, 9, 65536, 1, 16, 0, 0, 0, 0) + b"\0" * 16
    if operation == LOOKUP:
        return struct.pack("<QQQQII", 2, 1, 1, 1, 0, 0) + attributes(2) if body.rstrip(b"\0") == b"log" else errno.ENOENT
    if operation in (GETATTR, SETATTR):
        return struct.pack("<QII", 1, 0, 0) + attributes(node)
    if operation == OPEN:
        return struct.pack("<QII", 1, 1, 0)  # without a cache
    if operation == WRITE:
        return struct.pack("<II", struct.unpack_from("<QQI", body)[2], 0)
    return b"" if operation in (FLUSH, 18, 20) else errno.ENOSYS


def serve(folder):
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40777,user_id={os.getuid()},group_id={os.getgid()},allow_other".encode()
    if libc.mount(b"holdfast-test", folder.encode(), b"fuse", 0, options) < 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    while True:
        try:
            request = os.read(fd, 1 << 20)
        except OSError as e:
            if e.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                continue
            raise
        _, operation, unique, node, *_ = HEADER.unpack_from(request)
        if operation in UNHEARD:
            continue
        data = answer(operation, node, request[HEADER.size:])
        error, data = (-data, b"") if isinstance(data, int) else (0, data)
        with contextlib.suppress(OSError):  # who asked may have ended
            os.write(fd, struct.pack("<IiQ", 16 + len(data), error, unique) + data)


if __name__ == "__main__":
    serve(sys.argv[1])
