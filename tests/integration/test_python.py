#!/usr/bin/env python3
"""The Python package (libclient/python) with agents on real nodes: locks, loss, signals, fork, threads, asyncio, the library's versions.

HOLDFAST_PYTHON names another interpreter than the one that runs this."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, ROOT, agent_env, main, scenario, skip, wait_until  # noqa: E402

PACKAGE = ROOT / "libclient" / "python"
PYTHON = os.environ.get("HOLDFAST_PYTHON", sys.executable)

HEAD = """\
import asyncio, gc, json, os, signal, sys, threading, time
import holdfast
from holdfast import *
def say(*words, **more):
    print(*words, flush=True, **more)
def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "never"
        time.sleep(0.01)
def raises(kind, function, *args, **more):
    try:
        function(*args, **more)
    except kind as error:
        assert type(error) is kind, repr(error)
        return error
    raise AssertionError(f"no {kind.__name__}")
def elsewhere(function):  # a lock of this thread would not be waited for
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
"""


def start(run, code, *args, agent=None, env=None, **options):
    """A Python program with the package, in development mode; a warning is an error there."""
    path = run.dir / f"program{run.serial()}.py"
    path.write_text(HEAD + textwrap.dedent(code))
    env = {"LD_LIBRARY_PATH": BUILD / "lib", "PYTHONPATH": PACKAGE, **agent_env(agent), **(env or {})}
    return run.spawn(PYTHON, "-X", "dev", "-W", "error", path, *args, label="python", env=env, **options)


def done(process, code=0):
    got = process.wait(60)
    assert got == code, f"python ended with {got}: {process.out}\n{process.err}"
    return process.out


def go(process):
    process.popen.stdin.write(b"x")
    process.popen.stdin.flush()


def python(run, code, *args, **options):
    return done(start(run, code, *args, **options))


def fleet(run, *labels, **options):
    run.redis(3)
    return [run.agent(label, **options) for label in labels or ("a",)]


# --- what a lock is


@scenario("a lock is taken, looked at and released, as its users know it from threading and redis-py", sanitizers=False)
def lock(run):
    fleet(run)
    holder = start(run, """
        lock = Lock("db/migrate", ttl=10, wait=5, note="näm")
        assert not lock.held and lock.remaining == 0 and lock.state is State.NONE and lock.reason == ""
        assert "never acquired" in str(raises(NotHeld, lambda: lock.fence))
        with lock as entered:
            assert entered is lock and lock.held and 8 < lock.remaining <= 10 and lock.state is State.HELD
            assert lock.valid_until_ns > time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            lock.check()
            fence = lock.fence
            say("held")
            sys.stdin.read(1)
        assert not lock.held and lock.fence == fence and lock.state is State.RELEASED
        assert raises(NotHeld, lock.release).code == -402
        raises(NotHeld, lock.check)
        with lock:
            assert lock.fence > fence
        with lock:
            lock.release()  # the body may
        assert lock.acquire() is True
        assert "own" in str(raises(AlreadyHeld, lock.acquire))
        lock.release()
        """, stdin=subprocess.PIPE)
    holder.wait_out("held")
    shown = run.show("db/migrate")
    assert shown["pid"] == holder.pid and shown["note"] == "näm", shown
    python(run, f"""
        lock = Lock(b"db/migrate")
        assert lock.acquire(blocking=False) is False and lock.conflict.pid == {holder.pid} and lock.conflict.note == "näm"
        began = time.monotonic()
        assert lock.acquire(timeout=0.3) is False and 0.3 <= time.monotonic() - began < 5
        def enter(lock):
            with lock:
                pass
        busy = raises(Busy, enter, Lock("db/migrate", wait=0))
        assert busy.holder.pid == {holder.pid} and busy.name == "db/migrate" and busy.code == -201 and "db/migrate" in str(busy)
        late = raises(Timeout, enter, Lock("db/migrate", wait=0.1))
        assert isinstance(late, TimeoutError) and isinstance(late, NotAcquired) and late.holder.pid == {holder.pid}
        raises(ValueError, lock.acquire, blocking=False, timeout=1)
        import pickle
        copy = pickle.loads(pickle.dumps(busy))
        assert type(copy) is Busy and copy.holder == busy.holder and str(copy) == str(busy)
        """)
    go(holder)
    done(holder)


@scenario("names, times and limits that cannot be are refused by their own exceptions", sanitizers=False)
def arguments(run):
    fleet(run)
    python(run, r"""
        raises(BadName, Lock, "")
        raises(BadName, Lock, "é" * 128)
        raises(TypeError, Lock, 7)
        raises(BadName, Lock("holdfast:node").acquire)
        for ttl in (0, -1, float("nan"), float("inf"), 1e10):
            assert isinstance(raises(BadTTL, Lock, "a", ttl=ttl), ValueError)
        raises(BadTTL, Lock("a", ttl=0.01).acquire)
        raises(BadTTL, Lock("a", ttl=3600).acquire)
        raises(InvalidArgument, Lock, "a", wait=-2)
        raises(InvalidArgument, Lock("a", heartbeat=0.01).acquire)
        raises(InvalidArgument, Lock("a", note="n" * 128).acquire)
        raises(InvalidArgument, LockSet, [])
        raises(InvalidArgument, LockSet, ["a", "a"])
        raises(TypeError, LockSet, "ab")
        raises(InvalidArgument, Slots, "a", 65)
        raises(ValueError, AsyncLock, "a", on_loss="ignore")
        for slots in (3.0, "3", True):
            assert "slots" in str(raises(TypeError, Slots, "a", slots))
        for what in ("ttl", "wait", "heartbeat", "max_hold"):
            for seconds in (True, "5"):
                assert "seconds" in str(raises(TypeError, Lock, "a", **{what: seconds}))
        assert "seconds" in str(raises(TypeError, Lock("a").acquire, timeout=True))
        raises(InvalidArgument, Lock, "a", note="a\0b")
        async def wrong(*_): pass
        class Wrong:
            async def __call__(self, *_): pass
        for kind in (Lock, AsyncLock):
            assert "note" in str(raises(TypeError, kind, "a", note=5))
            assert "client" in str(raises(TypeError, kind, "a", client="x"))
            for what in ("on_change", "on_progress"):
                assert what in str(raises(TypeError, kind, "a", **{what: 5}))
                for function in (wrong, Wrong()):
                    assert "never awaited" in str(raises(TypeError, kind, "a", **{what: function}))
        odd = Lock(b"\xff\x00 odd")
        with odd:
            assert odd.name.encode("utf-8", "surrogateescape") == b"\xff\x00 odd"
            assert Lock(odd.name).acquire(blocking=False) is False
        """)


@scenario("a lock within the same lock is refused, of a thread and of a task; another thread or task waits", sanitizers=False)
def within_itself(run):
    fleet(run)
    python(run, """
        with Lock("job"):
            began = time.monotonic()
            for wait in (None, 5):
                error = raises(WouldDeadlock, Lock("job", wait=wait).acquire)
                assert error.code == -207 and error.name == "job", error
            assert time.monotonic() - began < 2
            assert Lock("job").acquire(blocking=False) is False
            raises(WouldDeadlock, LockSet(["a", "job"]).acquire)
            other = Lock("job")
            thread = threading.Thread(target=other.acquire)
            thread.start()
            time.sleep(0.1)
        thread.join(10)
        assert other.held
        assert Lock("job").acquire(timeout=0.05) is False  # another thread's
        other.release()

        async def waits():
            async with AsyncLock("job"):
                return True

        async def main():
            async with AsyncLock("job"):
                began = time.monotonic()
                try:
                    await AsyncLock("job").acquire()
                    raise AssertionError("it has it twice")
                except WouldDeadlock as error:
                    assert error.code == -207 and error.name == "job", error
                assert await AsyncLock("job").acquire(blocking=False) is False
                assert time.monotonic() - began < 2
                task = asyncio.create_task(waits())
                await asyncio.sleep(0.1)
            assert await asyncio.wait_for(task, 10)
            async with AsyncLock("job"):
                pass
        asyncio.run(main())
        """)


@scenario("a lock cannot be copied or pickled, and says so", sanitizers=False)
def copies(run):
    fleet(run)
    python(run, """
        import copy, pickle
        with Lock("a") as lock:
            for copier in (copy.copy, copy.deepcopy, pickle.dumps):
                for one in (lock, AsyncLock("b")):
                    assert "make a " in str(raises(TypeError, copier, one))
        """)


@scenario("sets are all or none, slots are counted, and a decorated function holds its lock", sanitizers=False)
def several(run):
    fleet(run)
    python(run, """
        with LockSet(["to", "from"]) as both:
            assert both.held and both.names == ("to", "from") and set(both.fences) == {"to", "from"} and both.remaining > 0
            assert not Lock("to").acquire(blocking=False)
            third = all_of("x", "from")
            assert third.acquire(blocking=False) is False and third.conflict.pid == os.getpid()
            assert raises(Busy, LockSet(["x", "from"], wait=0).__enter__).name == "from"
            assert Lock("x").acquire(timeout=5)  # it is not kept by a set that failed
        assert not both.held and Lock("to").acquire(timeout=5)
        pool = [Slots("pool", 3) for _ in range(3)]
        assert all(slot.acquire(timeout=5) for slot in pool) and {slot.slot for slot in pool} == {0, 1, 2}
        assert Slots("pool", 3).acquire(blocking=False) is False
        free = pool[1].slot
        pool[1].release()
        with Slots("pool", 3, wait=5) as slot:
            assert slot.slot == free and slot.fence > 0
        @synchronize("work", wait=5)
        def work(x):
            "Works."
            assert Lock("work").acquire(blocking=False) is False
            return x + 1
        assert work(1) == 2 and work(2) == 3 and work.__doc__ == "Works."
        async def coroutine(): pass
        def generator(): yield
        async def generator_of_asyncio(): yield
        for function in (coroutine, generator, generator_of_asyncio):
            assert "inside" in str(raises(TypeError, synchronize("work"), function))
        assert "@synchronize(NAME)" in str(raises(TypeError, synchronize, work))
        raises(BadName, synchronize, "")
        with Client() as client, client.lock("by/client") as one, client.lock_set(["u", "v"]) as two, client.slots("w", 2) as slot:
            assert set(client.locks) == {one, two, slot} and client.info.nodes == 3 and client.info.quorum == 2
            with client.shared_lock("r", slots=2) as reader, client.exclusive_lock("alone") as writer:
                assert set(client.locks) == {one, two, slot, reader, writer}
        async def main():
            async with AsyncClient() as client, client.lock("by/client") as one, client.lock_set(["u", "v"]) as two, client.slots("w", 2) as slot:
                async with client.shared_lock("r", slots=2) as reader, client.exclusive_lock("alone") as writer:
                    assert set(client.locks) == {one, two, slot, reader, writer}
        asyncio.run(main())
        """)


@scenario("readers share, and a writer is alone", sanitizers=False)
def shared(run):
    fleet(run)
    python(run, """
        readers = [SharedLock("index") for _ in range(3)]
        assert all(reader.acquire(timeout=5) for reader in readers) and len({reader.slot for reader in readers}) == 3
        writer = ExclusiveLock("index")
        assert writer.acquire(blocking=False) is False
        for reader in readers: reader.release()
        with ExclusiveLock("index", wait=10) as alone:
            assert alone.held and alone.fence and len(alone.slot_fences) == 64 and alone.remaining > 0 and alone.state is State.HELD
            assert SharedLock("index").acquire(blocking=False) is False and Lock("index").acquire(blocking=False) is False
        assert SharedLock("index", slots=1).acquire(timeout=5)
        assert SharedLock("index", slots=1).acquire(blocking=False) is False
        async def main():
            async with AsyncSharedLock("page", wait=5), AsyncSharedLock("page", wait=5):
                assert await AsyncExclusiveLock("page").acquire(timeout=0.1) is False
            async with AsyncExclusiveLock("page", wait=10) as alone:
                assert alone.held and alone.fence
        asyncio.run(main())
        """)


@scenario("nobody could have got it: no agent, a drained one, too few nodes, each told apart from 'another has it'", sanitizers=False)
def unavailable(run):
    agent, = fleet(run)
    python(run, """
        error = raises(NoAgent, Lock("a").acquire)
        assert isinstance(error, Unavailable) and not isinstance(error, NotAcquired) and "nobody-here" in str(error)
        async def take():
            async with AsyncLock("a"):
                pass
        raises(NoAgent, asyncio.run, take())
        """, env={"HOLDFAST_AGENT": "nobody-here"})
    assert run.holdfast("drain").rc == 0
    python(run, "raises(Drained, Lock('a').acquire, blocking=False)")
    assert run.holdfast("undrain").rc == 0
    for node in run.nodes[:2]:
        node.stop()
    wait_until(lambda: sum(row["state"] == "ok" for row in run.holdfast("nodes", "--json").json["nodes"]) < 2, what="too few nodes")
    python(run, """
        raises(NoQuorum, Lock("a").acquire, blocking=False)
        raises(NoQuorum, Lock("a").acquire, timeout=0.3)
        """)


@scenario("a heartbeat that stays away loses the lock, and beats go on beyond an agent's restart", sanitizers=False)
def heartbeat(run):
    agent, = fleet(run)
    beating = start(run, """
        with Lock("beats", ttl=5, heartbeat=0.5) as lock, Lock("plain", ttl=5):
            end = None
            say("beats")
            while end is None or time.monotonic() < end:
                lock.beat()
                lock.check()
                time.sleep(0.05)
                if end is None and os.path.exists(sys.argv[1]):
                    end = time.monotonic() + 2
        say("to the end")
        """, run.dir / "again")
    hangs = start(run, """
        lock = Lock("hangs", ttl=2, heartbeat=0.3)
        lock.acquire()
        wait_until(lambda: lock.state is State.LOST)
        assert not lock.held and "heartbeat" in lock.reason, lock.reason
        assert "heartbeat" in str(raises(Lost, lock.check))
        assert "heartbeat" in str(raises(Lost, lock.release)) and lock.state is State.LOST
        assert lock.acquire(timeout=5)
        lock.release()
        # Without that release() too: what is lost is in no one's way, and the rest of a set goes back.
        both = LockSet(["hangs", "other"], ttl=1, max_hold=0.3)
        both.acquire()
        wait_until(lambda: not both.held)
        fences = both.fences
        assert both.acquire(timeout=5) and both.held and both.fences["other"] > fences["other"] and default_client().locks == (both,)
        wait_until(lambda: not both.held)
        with Lock("hangs", wait=5), Lock("other", wait=5):
            raises(Lost, both.check)
            assert both.acquire(blocking=False) is False and both.state is State.LOST and default_client().locks != ()
            assert both not in default_client().locks
        with lock:
            wait_until(lambda: lock.state is State.LOST)
            assert lock.acquire(timeout=5) and lock.held
        async def main():
            alone = AsyncLock("hangs", ttl=1, max_hold=0.3)
            await alone.acquire()
            while alone.held:
                await asyncio.sleep(0.01)
            async with alone:
                assert alone.held
        asyncio.run(main())
        """)
    done(hangs)
    beating.wait_out("beats")
    agent.kill()
    run.agent(fresh=False)
    (run.dir / "again").touch()
    assert "to the end" in done(beating)


@scenario("what a wait waits for is told in the thread that waits; its exception ends the wait", sanitizers=False)
def progress(run):
    fleet(run)
    python(run, """
        seen = []
        def note(progress):
            assert threading.current_thread() is threading.main_thread()
            seen.append(progress)
            if len(seen) == 1:
                raise KeyError("enough")
        holder = Lock("a")
        elsewhere(holder.acquire)
        lock = Lock("a", wait=10, on_progress=note)
        raises(KeyError, lock.acquire)
        assert not lock.held and seen[0].holder.pid == os.getpid() and seen[0].reason == -201 and seen[0].text, seen
        holder.release()
        assert Lock("a").acquire(timeout=5)  # the wait was cancelled
        """)


# --- loss


@scenario("a lock that nodes do not renew is told to be late, losing and lost, and `with` raises Lost at its end", sanitizers=False)
def loss(run):
    fleet(run)
    body = start(run, """
        told = []
        def change(lock, state):
            assert threading.current_thread().name == "holdfast"
            told.append((state, lock.held))
            if state is State.LATE:
                raise ValueError("a callback's own trouble is only logged")
        class Mine(Exception):
            pass
        lock = Lock("a", ttl=2, on_change=change)
        other = Lock("b", ttl=2)
        caught = None
        try:
            with lock:
                try:
                    with other:
                        say("held")
                        wait_until(lambda: not lock.held and not other.held)
                        say("lost")
                        raise Mine("the body's own")
                except Mine as mine:
                    notes = getattr(mine, "__notes__", None)
                    assert notes is None and sys.version_info < (3, 11) or "b: the lease was over" in notes[0], notes
                wait_until(lambda: lock.state is State.LOST)
        except Lost as error:
            caught = error
        assert caught is not None and caught.name == "a", caught
        wait_until(lambda: told and told[-1][0] is State.LOST)
        assert told[-2:] == [(State.LOSING, True), (State.LOST, False)] and told[0] == (State.LATE, True), told
        assert lock.state is State.LOST and lock.remaining == 0
        say("told")
        assert lock.acquire(timeout=20) and lock.held
        lock.release()
        """)
    body.wait_out("held")
    for node in run.nodes:
        node.sigstop()
    body.wait_out("told", 15)
    assert "trouble is only logged" in body.err
    for node in run.nodes:
        node.sigcont()
    done(body)


@scenario("what a callback of a loss raises, sys.exit() too, keeps no other callback from being called", sanitizers=False)
def callback_exits(run):
    fleet(run)
    process = start(run, """
        told = []
        first = Lock("a", ttl=2, max_hold=0.3, on_change=lambda *_: sys.exit(1))
        second = Lock("b", ttl=2, max_hold=0.6, on_change=lambda lock, state: told.append(state))
        first.acquire(), second.acquire()
        wait_until(lambda: State.LOST in told)
        """)
    done(process)
    assert "the callback of a failed at" in process.err and "SystemExit" in process.err, process.err


@scenario("an agent that is killed costs a holder and a waiter nothing, if another starts in time", sanitizers=False)
def agent_killed(run):
    agent, = fleet(run)
    holder = start(run, """
        lock = Lock("a", ttl=20)
        lock.acquire()
        say("held")
        sys.stdin.read(1)
        lock.check()
        fence = lock.fence
        lock.release()
        say("fence", fence)
        """, stdin=subprocess.PIPE)
    holder.wait_out("held")
    waiter = start(run, """
        default_client().connect()
        say("waits")
        with Lock("a", wait=30) as lock:
            say("fence", lock.fence)
        """)
    waiter.wait_out("waits")
    agent.kill()
    python(run, "raises(NoAgent, Lock('a').acquire, blocking=False)")
    run.agent(fresh=False)
    go(holder)
    first, second = (int(done(process).split()[-1]) for process in (holder, waiter))
    assert second > first, (first, second)


@scenario("without an agent a lock is held to its validity's end, and not longer", sanitizers=False)
def agent_gone(run):
    agent, = fleet(run)
    holder = start(run, """
        lock = Lock("a", ttl=2)
        lock.acquire()
        say("held")
        wait_until(lambda: os.path.exists(sys.argv[1]))
        left, until, began = lock.remaining, lock.valid_until_ns, time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        assert lock.held and 0 < left < 2, left
        while lock.held:
            time.sleep(0.001)
        assert time.clock_gettime_ns(time.CLOCK_BOOTTIME) >= until
        raises(Lost, lock.release)
        """, run.dir / "gone")
    leaver = start(run, """
        with Lock("b", ttl=2):
            say("held")
            wait_until(lambda: os.path.exists(sys.argv[1]))
        """, run.dir / "gone")
    leaver_of_asyncio = start(run, """
        async def main():
            async with AsyncLock("c", ttl=2, on_loss="raise"):
                say("held")
                wait_until(lambda: os.path.exists(sys.argv[1]))
        asyncio.run(main())
        """, run.dir / "gone")
    holder.wait_out("held")
    leaver.wait_out("held")
    leaver_of_asyncio.wait_out("held")
    agent.kill()
    (run.dir / "gone").touch()
    done(holder)
    for process, name in ((leaver, "b"), (leaver_of_asyncio, "c")):
        done(process)
        assert re.search(f"^{name} may stay taken for its TTL, for its release was not answered: ", process.err, re.M), process.err


@scenario("SIGKILL to a holder frees its lock at once", sanitizers=False)
def holder_killed(run):
    fleet(run)
    code = """
        with Lock("a", ttl=30, wait=60), Slots("s", 2), LockSet(["x", "y"], wait=60):
            say("held")
            time.sleep(60)
        """
    first = start(run, code)
    first.wait_out("held")
    second = start(run, code)
    first.kill()
    second.wait_out("held", 15)  # Python has to start; the TTL is 30 s
    second.kill()
    run.keys_gone("a")


@scenario("two processes on two hosts never hold together, whatever is killed", sanitizers=False)
def exclusion(run):
    agents = fleet(run, "a", "b", ttl="2s")
    code = """
        now = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        place, how = sys.argv[1:]
        def note(begin, end, fence):
            with open(place, "a") as file:
                file.write(json.dumps([begin, end, fence]) + "\\n")
        def in_threads():
            while True:
                try:
                    with Lock("prize") as lock:
                        begin = last = None
                        for _ in range(20):
                            before = now()
                            if not lock.held:
                                break
                            begin, last = begin or before, before
                            time.sleep(0.0003)
                        if begin:
                            note(begin, last, lock.fence)
                except Lost:
                    pass
        async def task():
            while True:
                try:
                    async with AsyncLock("prize") as lock:
                        begin = last = None
                        for _ in range(20):
                            before = now()
                            if not lock.held:
                                break
                            begin, last = begin or before, before
                            await asyncio.sleep(0.0003)
                        if begin:
                            note(begin, last, lock.fence)
                except Lost:
                    pass
        async def tasks():
            await asyncio.gather(task(), task())
        default_client().connect()
        say("begins")
        if how == "threads":
            for _ in range(2):
                threading.Thread(target=in_threads, daemon=True).start()
            time.sleep(60)
        else:
            asyncio.run(tasks())
        """
    files = []

    def begin(agent, how):
        files.append(run.dir / f"holds{len(files)}")
        files[-1].touch()
        process = start(run, code, files[-1], how, agent=agent)
        process.wait_out("begins")
        return process

    def holds():
        rows = []
        for file in files:
            for line in file.read_text().splitlines():
                with contextlib.suppress(ValueError):  # its writer was killed
                    rows.append(json.loads(line))
        return sorted(rows)

    crew = [begin(agents[0], "threads"), begin(agents[1], "asyncio")]
    for turn in range(3):
        many = len(holds()) + 60
        wait_until(lambda: len(holds()) >= many and all(file.stat().st_size for file in files), 30, "they take turns")
        crew[turn % 2].kill()
        crew[turn % 2] = begin(agents[turn % 2], ("asyncio", "threads")[turn % 2])
        if turn == 1:
            agents[0].kill()
            agents[0] = run.agent("a", fresh=False, ttl="2s")
    many = len(holds()) + 60
    wait_until(lambda: len(holds()) >= many and all(file.stat().st_size for file in files), 30, "they go on")
    for process in crew:
        assert process.running, process.err
        process.kill()
    rows = holds()
    for (_, end, fence), (begin_next, _, fence_next) in zip(rows, rows[1:]):
        assert end <= begin_next and fence < fence_next, f"overlap: {end} {fence}, {begin_next} {fence_next}"


# --- signals, processes, threads, the garbage collector


@scenario("Ctrl-C ends a wait and nothing is held; a handler that returns keeps the place in the queue", sanitizers=False)
def interrupts(run):
    fleet(run)
    python(run, """
        holder = Lock("a")
        elsewhere(holder.acquire)
        def interrupt(number, after):
            threading.Timer(after, os.kill, (os.getpid(), number)).start()
        lock = Lock("a", wait=20)
        for _ in range(3):
            interrupt(signal.SIGINT, 0.2)
            began = time.monotonic()
            raises(KeyboardInterrupt, lock.acquire)
            assert time.monotonic() - began < 5 and not lock.held
        interrupt(signal.SIGINT, 0.2)
        raises(KeyboardInterrupt, LockSet(["b", "a"], wait=20).acquire)
        assert Lock("b").acquire(timeout=5)
        # A handler that returns
        ran = []
        signal.signal(signal.SIGUSR1, lambda *_: ran.append(time.monotonic()))
        order = []
        def queue(name):
            with Lock("a", wait=20):
                order.append(name)
        first = threading.Timer(0.5, holder.release)
        later = threading.Timer(0.3, queue, ("later",))
        for timer in (first, later):
            timer.start()
        interrupt(signal.SIGUSR1, 0.1)
        interrupt(signal.SIGUSR1, 0.4)
        queue("sooner")
        later.join()
        assert len(ran) == 2 and order == ["sooner", "later"], (ran, order)
        # A handler that raises while a release is waited for, or anywhere: the object can be used on
        inside, caught = False, 0
        def bad(*_):
            global inside
            if inside:
                inside = False
                raise KeyError
        signal.signal(signal.SIGALRM, bad)
        lock = Lock("a", wait=20)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.0037)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            try:
                inside = True
                while True:
                    lock.acquire()
                    lock.release()
            except KeyError:
                caught += 1
            if lock._leases:
                try:
                    lock.release()
                except NotHeld:
                    pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert caught > 20, caught
        assert Lock("a").acquire(timeout=10), "something still holds it"
        """)


@scenario("whatever line a signal's handler raises at, acquire() that raises holds nothing, and the end of a `with` releases", sanitizers=False)
def interrupted_anywhere(run):
    fleet(run)
    python(run, """
        import traceback
        # A tracer that raises at the n-th line of the package stands for a handler, which can raise at fewer.
        class Interrupt(BaseException):
            pass
        here = os.path.dirname(holdfast.__file__)
        left = 0
        def trace(frame, event, _):
            global left
            if not frame.f_code.co_filename.startswith(here) or frame.f_code.co_name in ("note", "__del__"):
                return None
            if event in ("call", "line"):
                left -= 1
                if left == 0:
                    sys.settrace(None)
                    raise Interrupt
            return trace
        def interrupted(after, function):
            "Whether it was, and where."
            global left
            left = after
            sys.settrace(trace)
            try:
                function()
            except Interrupt as error:
                place = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name != "trace"][-1]
                return place.name, place.line
            finally:
                sys.settrace(None)
            return None
        def block():
            with lock:
                pass
        def calls():
            lock.acquire()
            lock.release()
        locks = LockSet(["a", "b"], wait=5), Lock("a", wait=5)
        for lock in locks:
            for function in (calls, block):
                after = caught = 0
                while True:
                    after += 1
                    place = interrupted(after, function)
                    if place is None:
                        break
                    caught += 1
                    what = (place, after, lock, default_client().locks)
                    if lock.held and (place[0] in ("__enter__", "acquire", "release", "__exit__") or place[1].startswith("return ")):
                        lock.release()  # Python's own instants, before and after what these call
                    assert not lock.held and not lock._leases and lock not in default_client().locks, what
                    assert lock.state in (State.NONE, State.RELEASED), what
                assert caught > 50, caught
        # What was released is free for others
        assert Lock("a").acquire(timeout=5) and Lock("b").acquire(timeout=5)
        """)


@scenario("SIGINT of a terminal ends the program while it waits, and its place in the queue is gone", sanitizers=False)
def terminal(run):
    fleet(run)
    holder = run.holder()
    holder.acquire("a")
    waiter = start(run, """
        say("waits")
        with Lock("a"):
            pass
        """)
    waiter.wait_out("waits")
    wait_until(lambda: len(run.show("a")["waiters"]) == 1)
    waiter.signal(signal.SIGINT)
    assert waiter.wait() in (-signal.SIGINT, 130), waiter.err
    assert "KeyboardInterrupt" in waiter.err
    wait_until(lambda: not run.show("a")["waiters"])
    holder.release()


@scenario("a forked child holds nothing and takes nothing from its parent; it can have locks of its own", sanitizers=False)
def fork(run):
    fleet(run)
    python(run, """
        def in_child(function):
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    function()
                    code = 0
                except BaseException:
                    import traceback
                    traceback.print_exc()
                finally:
                    os._exit(code)
            assert os.waitpid(pid, 0)[1] == 0
        lock, other = Lock("a", ttl=5), LockSet(["x", "y"])
        lock.acquire(), other.acquire()
        def child():
            assert not lock.held and lock.remaining == 0 and not other.held and default_client().locks == ()
            raises(Forked, lock.check)
            raises(Forked, lock.release)
            lock.beat()
            assert not Lock("a").acquire(blocking=False)
            with Lock("child") as mine:
                assert mine.held
            assert lock.acquire(timeout=0.1) is False and lock.conflict.pid == os.getppid()
            gc.collect()
        in_child(child)
        def child_without_release():
            assert lock.acquire(timeout=0.1) is False and lock.conflict.pid == os.getppid()
            assert raises(Timeout, LockSet(["x", "y"], wait=0.1).__enter__) and other.acquire(timeout=0.1) is False
            raises(NotHeld, lock.release)
            # Another thread of the parent is amid an acquire of it.
            assert waiting.acquire(timeout=0.1) is False and waiting.conflict.pid == os.getppid()
            raises(AlreadyHeld, lambda: [free.acquire(), free.acquire()])
        client, free = Client(), Lock("free")
        waiting = client.lock("a")
        thread = threading.Thread(target=raises, args=(Cancelled, waiting.acquire))
        thread.start()
        wait_until(lambda: waiting._acquiring)
        in_child(child_without_release)
        raises(AlreadyHeld, waiting.acquire)
        client.close()
        thread.join()
        lock.check(), other.check()
        def leaves_the_block():
            with Lock("block") as block:
                if os.fork() == 0:
                    return block
                os.wait()
            say("parent's end")
        try:
            leaves_the_block()
        except Forked:
            os._exit(0)
        with Client() as mine, mine.lock("c") as third:
            in_child(lambda: (mine.close(), gc.collect()))
            third.check()
        lock.release(), other.release()
        """)
    python(run, """
        # A server that takes locks before it forks its workers
        with Lock("before"):
            pass
        shared = Lock("work", wait=20)
        for _ in range(4):
            if os.fork() == 0:
                for _ in range(20):
                    with shared:
                        with open(sys.argv[1], "r+") as file:
                            value = int(file.read())
                            time.sleep(0.001)
                            file.seek(0)
                            file.write(str(value + 1))
                os._exit(0)
        for _ in range(4):
            assert os.wait()[1] == 0
        assert open(sys.argv[1]).read() == "80"
        """, counter(run))


def counter(run):
    path = run.dir / "counter"
    path.write_text("0")
    return path


@scenario("a program that closes all descriptors, itself or in a child, keeps the files that it opens then", sanitizers=False)
def closerange(run):
    fleet(run)
    python(run, """
        import select
        def close_all_and_open():
            os.closerange(3, 256)
            mine = []
            for _ in range(20):
                mine += os.pipe()
                mine.append(os.memfd_create("mine"))
            return {fd: os.fstat(fd) for fd in mine}
        def look(mine):
            for fd, file in mine.items():
                now = os.fstat(fd)
                assert (now.st_dev, now.st_ino, now.st_size) == (file.st_dev, file.st_ino, file.st_size), fd
            pipes = [fd for fd in mine if not os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd")]
            assert select.select(pipes, [], [], 0)[0] == []
        client = Client()
        lock = Lock("a", wait=20, client=client)
        lock.acquire()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                mine = close_all_and_open()
                with Lock("b", wait=20, client=client) as other:  # a session of its own: the parent's ends
                    assert other.held
                gc.collect()
                look(mine)
                code = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert lock.held
        mine = close_all_and_open()
        with Lock("c", wait=20, client=client) as other:
            assert other.held
        client.close()
        del lock, other, client
        gc.collect()
        look(mine)
    """)


@scenario("without select.poll, which eventlet takes away, locks work by select.select", sanitizers=False)
def no_poll(run):
    fleet(run)
    python(run, """
        import select
        del select.poll, select.epoll
        calls, real = [], select.select
        select.select = lambda *args: calls.append(args) or real(*args)
        def hold():
            with Lock("a", wait=20):
                time.sleep(0.3)
        holder = threading.Thread(target=hold)
        holder.start()
        time.sleep(0.1)
        with Lock("a", wait=20) as lock:
            assert lock.held
        holder.join()
        assert calls
        with Lock("a", wait=20, on_change=lambda *_: None):
            pass
    """)


@scenario("threads share a client: they exclude each other, wait without the interpreter's lock, and one of two releases", sanitizers=False)
def threads(run):
    fleet(run)
    python(run, """
        inside, most, total = 0, 0, 0
        def work():
            global inside, most, total
            for _ in range(25):
                with Lock("a", wait=60):
                    inside += 1
                    most = max(most, inside)
                    total += 1
                    time.sleep(0.0005)
                    inside -= 1
        crew = [threading.Thread(target=work) for _ in range(8)]
        for thread in crew: thread.start()
        for thread in crew: thread.join()
        assert most == 1 and total == 200, (most, total)
        # A held lock is any thread's to check and to release; of two that release one does.
        for _ in range(50):
            lock = Lock("a", wait=20)
            lock.acquire()
            said, gate = [], threading.Barrier(3)
            def release():
                gate.wait()
                try:
                    lock.release()
                    said.append("released")
                except NotHeld:
                    said.append("not held")
            def look():
                gate.wait()
                for _ in range(100):
                    lock.held, lock.remaining, lock.state, lock.reason
                lock.beat()
            crew = [threading.Thread(target=target) for target in (release, release, look)]
            for thread in crew: thread.start()
            for thread in crew: thread.join()
            assert sorted(said) == ["not held", "released"], said
        # One object is one holder.
        lock.acquire()
        assert isinstance(raises(AlreadyHeld, lock.acquire), HoldfastError)
        # A wait does not stop other threads.
        counted = 0
        def wait():
            assert Lock("a").acquire(timeout=1) is False
        waiting = threading.Thread(target=wait)
        waiting.start()
        while waiting.is_alive():
            counted += 1
            time.sleep(0.001)
        assert counted > 100, counted
        """)


@scenario("close() releases what is held, ends waits, and the client can be used again", sanitizers=False)
def closing(run):
    fleet(run)
    python(run, """
        client = Client()
        lock = client.lock("a", on_change=lambda *_: None)
        lock.acquire()
        ended = []
        def wait():
            try:
                client.lock("a").acquire()
            except Cancelled as error:
                ended.append(error)
        crew = [threading.Thread(target=wait) for _ in range(3)]
        for thread in crew: thread.start()
        time.sleep(0.3)
        taker = Client()
        client.close()
        for thread in crew: thread.join(10)
        assert len(ended) == 3 and not lock.held and client.locks == (), ended
        raises(NotHeld, lock.release)
        with taker.lock("a", wait=5):
            pass
        with client.lock("a", wait=5):
            client.close()
        client.close()
        taker.close()
        wait_until(lambda: threading.active_count() == 1)
        """)


@scenario("no lock is released by the garbage collector, and nothing is left of what was", sanitizers=False)
def garbage(run):
    fleet(run)
    holder = start(run, """
        def descriptors():
            return len(os.listdir("/proc/self/fd"))
        Lock("kept").acquire()
        Client().lock("kept/too", on_change=lambda *_: None).acquire()
        gc.collect()
        say("held")
        sys.stdin.read(1)
        gc.collect()
        assert Lock("kept").acquire(blocking=False) is False and Lock("kept/too").acquire(blocking=False) is False
        default_client().close()
        assert Lock("kept").acquire(timeout=5)
        # Clients and locks that nobody holds any more are gone with all they had.
        before = descriptors()
        for i in range(50):
            client = Client()
            with client.lock(f"c{i}", on_change=lambda *_: None):
                pass
            lock = client.lock("d")
            lock.acquire(), lock.release()
            del client, lock
        gc.collect()
        wait_until(lambda: threading.active_count() <= 2)
        gc.collect()
        wait_until(lambda: descriptors() <= before)
        """, stdin=subprocess.PIPE)
    holder.wait_out("held")
    assert run.show("kept") and run.show("kept/too")
    go(holder)
    done(holder)


@scenario("at the interpreter's end locks are held until the process is gone, and then free", sanitizers=False)
def interpreter_end(run):
    fleet(run)
    python(run, """
        import atexit
        lock = Lock("a", on_change=lambda *_: None)
        @atexit.register  # before the lock's own
        def last():
            lock.check()
            say("still held")
        lock.acquire()
        class AtTheVeryEnd:
            def __init__(self, held):
                self.held = held
            def __del__(self):
                assert self.held()
        builtins = __import__("builtins")
        builtins.kept = AtTheVeryEnd(lambda lock=lock: lock.held)
        """)
    python(run, "assert Lock('a').acquire(timeout=5)")


# --- asyncio


@scenario("asyncio: tasks exclude each other, and a wait that is cancelled leaves nothing", sanitizers=False)
def tasks(run):
    fleet(run)
    python(run, """
        async def main():
            inside, total = 0, 0
            async def work():
                nonlocal inside, total
                for _ in range(25):
                    async with AsyncLock("a", wait=60) as lock:
                        assert lock.held and lock.fence
                        inside += 1
                        assert inside == 1
                        total += 1
                        await asyncio.sleep(0)
                        inside -= 1
            await asyncio.gather(*(work() for _ in range(8)))
            assert total == 200
            lock = AsyncLock("a")
            assert await asyncio.create_task(lock.acquire(blocking=False))
            waiting = [asyncio.ensure_future(AsyncLock("a").acquire()) for _ in range(5)]
            await asyncio.sleep(0.1)
            for task in waiting: task.cancel()
            for said in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(said, asyncio.CancelledError)
            try:
                await asyncio.wait_for(AsyncLockSet(["b", "a"]).acquire(), 0.2)
                raise AssertionError
            except asyncio.TimeoutError:
                pass
            assert await AsyncLock("b").acquire(timeout=5)
            other = AsyncLock("a")
            assert await other.acquire(timeout=0.1) is False and other.conflict.pid == os.getpid()
            try:
                async with AsyncLock("a", wait=0.1):
                    raise AssertionError
            except Timeout as error:
                assert error.holder.pid == os.getpid()
            # Cancelled at any instant
            for i in range(200):
                task = asyncio.ensure_future(AsyncLock("quick").acquire())
                for _ in range(i % 4):
                    await asyncio.sleep(0)
                await asyncio.sleep(i % 7 * 0.0001)
                task.cancel()
                try:
                    await task
                    await AsyncClient().connect()
                    break
                except asyncio.CancelledError:
                    pass
            held = [lock for lock in holdfast.aio._in_use.values() if lock.name == "quick"]
            for kept in held:
                await kept.release()
            assert await AsyncLock("quick").acquire(timeout=5)
            async with AsyncSlots("pool", 2) as slot, AsyncLockSet(["x", "y"]) as both:
                assert slot.slot in (0, 1) and both.held and len(both.fences) == 2
            await lock.release()
            try:
                await lock.release()
                raise AssertionError
            except NotHeld:
                pass
            seen = []
            async with AsyncClient() as client:
                assert (await client.info()).nodes == 3
                async with AsyncLock("c", client=client):
                    assert len(client.locks) == 1
                    assert await AsyncLock("c", wait=0.3, on_progress=seen.append).acquire() is False
            assert seen and seen[0].holder.pid == os.getpid()
        asyncio.run(main())
        async def again():  # another loop has another client
            async with AsyncLock("again"):
                pass
        asyncio.run(again())
        of_module = AsyncLock("module")  # a loop's default client is that of the loop which runs it
        async def with_it():
            async with of_module:
                assert of_module.held
        asyncio.run(with_it())
        asyncio.run(with_it())
        """)


@scenario("asyncio: a loss cancels the body in time, or is told at its end; cancellations of others pass", sanitizers=False)
def async_loss(run):
    fleet(run)
    body = start(run, """
        told = []
        async def cancelled_in_time():
            lock = AsyncLock("a", ttl=2, on_change=lambda lock, state: told.append(state))
            try:
                async with lock:
                    try:
                        await asyncio.sleep(60)
                    except asyncio.CancelledError:
                        assert lock.held and lock.state is State.LOSING, lock.state
                        raise
            except Lost as error:
                assert told[-1] is State.LOSING
                if hasattr(asyncio.current_task(), "cancelling"):
                    assert asyncio.current_task().cancelling() == 0
                await asyncio.sleep(0)  # the task lives on
                return str(error)
        async def told_at_the_end():
            lock = AsyncLock("b", ttl=2, on_loss="raise")
            try:
                async with lock:
                    while lock.held:
                        await asyncio.sleep(0.01)
            except Lost as error:
                return str(error)
        async def of_its_own():
            try:
                async with AsyncLock("c", ttl=2):
                    try:
                        await asyncio.sleep(60)
                    except asyncio.CancelledError:
                        raise KeyError("the body's own")
            except KeyError as error:
                return "KeyError " + str(getattr(error, "__notes__", ["the lock will be lost"]))
        async def by_others():
            async def body():
                async with AsyncLock("d", ttl=2):
                    await asyncio.sleep(60)
            task = asyncio.ensure_future(body())
            await asyncio.sleep(0.2)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return "cancelled"
        async def main():
            say(await by_others())
            tasks = [asyncio.ensure_future(coroutine) for coroutine in (cancelled_in_time(), told_at_the_end(), of_its_own())]
            await asyncio.sleep(0.5)
            say("held")
            say(*await asyncio.gather(*tasks), sep="|")
        asyncio.run(main())
        """)
    body.wait_out("held")
    for node in run.nodes:
        node.sigstop()
    body.wait_out(r"\|")
    for node in run.nodes:
        node.sigcont()
    out = done(body)
    assert out.startswith("cancelled\n"), out
    first, second, third = out.splitlines()[-1].split("|")
    assert "will be lost" in first and first.startswith("a: ") and second.startswith("b: the lease was over"), out
    assert "KeyError" in third and "will be lost" in third, out


# --- the library, the package


def offsets_of(code, name, structs):
    lines = [f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));' for field in structs]
    return lines + [f'printf("{name} %zu\\n", sizeof({name}));']


@scenario("structs and codes are those of the header", sanitizers=False)
def abi(run):
    described = json.loads(python(run, """
        from holdfast import _abi
        structs = {"hf_holder": _abi.Holder, "hf_progress": _abi.Progress, "hf_acquire_options": _abi.AcquireOptions,
                   "hf_name": _abi.Name, "hf_agent_info": _abi.AgentInfo}
        import ctypes
        found = {}
        for name, struct in structs.items():
            for field, *_ in struct._fields_:
                if field != "later":
                    found[f"offsetof(struct {name}, {field})"] = getattr(struct, field).offset
                    found[f"sizeof(((struct {name} *)0)->{field})"] = getattr(struct, field).size
            later = any(field == "later" for field, *_ in struct._fields_)
            found[f"sizeof(struct {name})"] = struct.later.offset if later else ctypes.sizeof(struct)
        found["HF_OK"] = 0
        for name, value in vars(_abi).items():
            if name.startswith("E") and isinstance(value, int):
                found["HF_" + name] = value
        for state in State:
            if state:
                found["HF_STATE_" + state.name] = int(state)
        found["HF_SET_MAX"] = _abi.SET_MAX
        say(json.dumps(found))
        """))
    header = (ROOT / "libclient" / "holdfast.h").read_text()
    assert {name for name in described if name.startswith("HF_")} >= set(re.findall(r"\b(HF_E[A-Z]+) =", header)), "a code of the header is missing in _abi.py"
    source = run.dir / "abi.c"
    checks = "\n".join(f'_Static_assert((long)({what}) == {value}, "{what}");' for what, value in described.items())
    source.write_text(f"#include <stddef.h>\n#include <holdfast_sets.h>\n{checks}\nint main(void) {{ return 0; }}\n")
    said = subprocess.run(["cc", "-std=gnu11", "-I", ROOT / "libclient", "-fsyntax-only", source], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


@scenario("a libholdfast that is missing, older, or of another agent's version says so", sanitizers=False)
def versions(run):
    fleet(run)
    code = "raise AssertionError('imported')"
    empty = run.dir / "empty"
    empty.mkdir()
    missing = start(run, code, env={"LD_LIBRARY_PATH": empty})
    assert missing.wait() == 1 and "LibraryError: install the package libholdfast1" in missing.err, missing.err
    old = run.dir / "old"
    old.mkdir()
    symbols = re.findall(r"^    (hf_\w+);", (ROOT / "libclient" / "libholdfast.map").read_text(), re.M)
    (run.dir / "old.c").write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in symbols if name != "hf_acquire_slot_start"))
    subprocess.run(["cc", "-w", "-fno-builtin", "-shared", "-fPIC", "-Wl,-soname,libholdfast.so.1", "-o", old / "libholdfast.so.1", run.dir / "old.c"], check=True)
    older = start(run, code, env={"LD_LIBRARY_PATH": old})
    assert older.wait() == 1 and re.search(r"LibraryError: install the libholdfast1 of version [\d.]+ or later: .*no hf_acquire_slot_start\(\)", older.err), older.err
    major = run.agent("major", program=BUILD / "tests" / "holdfastd_major")
    python(run, "assert raises(VersionMismatch, Lock('a').acquire).code == -307", agent=major)


@scenario("mypy --strict accepts the package and a program that uses it", sanitizers=False)
def typed(run):
    if not shutil.which("mypy"):
        skip("there is no mypy")
    program = run.dir / "typed_program.py"
    program.write_text(textwrap.dedent("""
        from holdfast import AsyncLock, Client, Lock, LockSet, Slots, State, synchronize

        def told(lock: Lock, state: State) -> None:
            print(lock.fence + 1, state.name)

        with Lock("a", ttl=10, on_change=told) as lock:
            held: bool = lock.held
            left: float = lock.remaining
        taken: bool = lock.acquire(blocking=False)
        with LockSet(["a", "b"]) as both, Slots("c", 3) as slot:
            number: int = slot.slot + both.fences["a"]

        async def main() -> None:
            async with AsyncLock("a", on_loss="raise") as mine:
                fence: int = mine.fence
        """))
    for argv in (["mypy", "--cache-dir", run.dir / "mypy", "--config-file", PACKAGE / "pyproject.toml"],
                 ["mypy", "--strict", "--cache-dir", run.dir / "mypy", "--config-file", "/dev/null", program]):
        said = subprocess.run(argv, cwd=PACKAGE, env={**os.environ, "MYPYPATH": str(PACKAGE)}, capture_output=True, text=True)
        assert said.returncode == 0, said.stdout + said.stderr
    wrong = run.dir / "wrong.py"
    wrong.write_text("from holdfast import Lock\nlock: str = Lock('a').held\n")
    said = subprocess.run(["mypy", "--strict", "--cache-dir", run.dir / "mypy", wrong], cwd=run.dir,
                          env={**os.environ, "MYPYPATH": str(PACKAGE)}, capture_output=True, text=True)
    assert said.returncode == 1 and 'expression has type "bool"' in said.stdout, said.stdout


@scenario("the examples of docs/PYTHON.md and of the package's README run as they stand there", sanitizers=False)
def documents(run):
    fleet(run)
    pages = [ROOT / "docs" / "PYTHON.md", PACKAGE / "README.md", ROOT / "docs" / "MIGRATING.md"]
    examples = [example for page in pages for example in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)]
    assert len(examples) >= 7
    out = ""
    for example in examples:
        path = run.dir / f"example{run.serial()}.py"
        path.write_text(example)
        env = {"LD_LIBRARY_PATH": BUILD / "lib", "PYTHONPATH": PACKAGE}
        out += done(run.spawn(PYTHON, "-W", "error", path, label="example", env=env))
    for text in ("step 2 with fence ", "this host makes the report", "['account/1', 'account/2']", "one of three: ", "one at a time", "fence 1", "beside other readers", "alone, fence", "nothing to extend True"):
        assert text in out, (text, out)
    exported = set(python(run, "say(*holdfast.__all__)").split()) - {"__version__"}
    told = set(re.findall(r"\b\w+\b", pages[0].read_text()))
    assert exported - told <= {"BadTable", "Holder", "OtherTimeNamespace", "ProtocolError", "SystemCallError"}, exported - told
    members = set(python(run, """
        kinds = [kind for kind in vars(holdfast).values() if isinstance(kind, type) and kind.__name__.endswith(("Client", "Lock", "Set", "Slots"))]
        say(*{name for kind in kinds for name in dir(kind) if not name.startswith("_")})
        """).split())
    assert members <= told, members - told


@scenario("the bench of the package runs", sanitizers=False)
def bench(run):
    said = run.spawn(ROOT / "tools" / "bench" / "python", "--quick", "--build", BUILD, "--python", PYTHON, label="bench")
    assert said.wait(120) == 0, said.err
    for row in ("lock.held", "lock.beat()", "with Lock: acquire and release", "async with AsyncLock: acquire and release"):
        assert re.search(rf"^{re.escape(row)} +\d+ +\d+ [nu]s$", said.out, re.M), said.out


@scenario("the wheel is built without a network, is of any Python 3, and has the product's version", sanitizers=False)
def wheel(run):
    fleet(run)
    maker = next((path for path in (PYTHON, "/usr/bin/python3") if subprocess.run([path, "-c", "import setuptools, wheel, pip"], capture_output=True).returncode == 0), None)
    if not maker:
        skip("there is no pip, setuptools or wheel")
    source = run.dir / "source"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    said = subprocess.run([maker, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-build-isolation", "--no-index", "--no-deps",
                           "--no-cache-dir", "-w", run.dir / "wheels", source], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    made, = (run.dir / "wheels").glob("*.whl")
    version = re.search(r"project\(holdfast VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert made.name == f"holdfast-{version}-py3-none-any.whl", made.name
    shutil.unpack_archive(made, run.dir / "unpacked", "zip")
    files = {str(path.relative_to(PACKAGE)) for path in (PACKAGE / "holdfast").iterdir() if path.name != "__pycache__"}
    assert files == {str(path.relative_to(run.dir / "unpacked")) for path in (run.dir / "unpacked" / "holdfast").iterdir()}
    python(run, f"""
        assert holdfast.__version__ == {version!r} and "unpacked" in holdfast.__file__
        import importlib.metadata
        assert importlib.metadata.version("holdfast") == {version!r}
        with Lock("a"):
            pass
        """, env={"PYTHONPATH": run.dir / "unpacked"})


if __name__ == "__main__":
    main()
