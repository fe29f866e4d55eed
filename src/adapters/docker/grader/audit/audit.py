"""Runs hidden tests a second time, under another user, and says what happened to them.

    python3 -I -S -B audit.py SPEC.json        as root, in a container that holds the tree to test

The parent stays root. It never imports from the repository, writes canaries beside the hidden test modules, forks a child, reads
its records from a pipe, kills every process of the child's user and prints one JSON object. The child gives up root before it
imports anything of the environment, and imports nothing of the repository before the tests do.

What this proves and what it cannot prove: docs/decisions/2026-11-22-what-an-audit-in-one-process-proves.md.
Syntax and library of Python 3.6: it is run by the interpreter of the task.
"""
import ast
import builtins
import collections
import copy
import errno
import functools
import gc
import hashlib
import hmac
import json
import os
import random
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import tokenize

SCHEMA = 1
RUNNERS = ("pytest", "unittest", "django")

# Of the channel. A record is a test or a canary; suites of 60,000 tests exist.
MAX_LINE = 16 * 1024
MAX_BYTES = 64 * 1024 * 1024
MAX_RECORDS = 200000
MAX_DETAIL = 300
MAX_ID = 2000
# Of the audit's user. The kernel counts over all containers of a host that use the same number.
MAX_PROCESSES = 512
MAX_FILE_BYTES = 2 * 1024 * 1024 * 1024
# A module's canaries: its own tests once more, and its own tests with an assertion that must fail.
MAX_CHOSEN = 24
# Where the specification names no tests: how many run once more as they are. Some tests fail when they run twice in a process.
MAX_REPEATED = 3
# How many tests, of those that cannot run twice in a process, may run in processes of their own.
MAX_ALONE = 8
# How many tests of a module, of those that the code under test answered otherwise in both rehearsals, are rehearsed once more, each as the
# only altered one of its module.
MAX_ONLY = 3
# Of what was raised in a test: how many calls are looked at.
MAX_FRAMES = 1000
# Of a test that the specification names: how many assertions are turned in copies. One more is, in the rehearsal.
MAX_TURNED = 2
# What the canaries behind a module may take, as a share of what its own tests took, and at least.
CANARY_SHARE = 0.2
CANARY_FLOOR_S = 0.15

# Where a repository keeps pytest itself. Such a project is the judge of its own tests: a runner of ours in its place would leave
# untested what the patch changes, and the patched one may report what it likes.
OWN_RUNNERS = ("src/_pytest/__init__.py", "_pytest/__init__.py")

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
# Must a copy fail whose assertion was turned? The test itself may return before it, or swallow what it raises; then only the mark
# behind the assertion counts.
ALWAYS, IF_REACHED, IF_SURVIVED = 2, 1, 0
# Of assertions that expect another error than the test does.
RAISED = "raised what it must not"
# Where in a test an altered assertion makes honest code raise nothing.
NOWHERE, BEFORE_IT, ANYWHERE = 0, 1, 2


# ---------------------------------------------------------------- parent


def main(arguments):
    if len(arguments) != 1:
        raise SystemExit("Expected one argument, the path of the specification, got %d" % len(arguments))
    spec = read_spec(arguments[0])
    # What was laid beside the tests and opened to others is taken back also where the audit itself is ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    result = audit(spec)
    text = json.dumps(result, ensure_ascii=True, separators=(",", ":")) + "\n"
    write_all(spec["descriptor"], text.encode("ascii"))


def read_spec(path):
    with open(path, "rb") as file:
        spec = json.loads(file.read().decode("utf-8"))
    if spec.get("schema") != SCHEMA:
        raise SystemExit("Expected schema %d, got %r" % (SCHEMA, spec.get("schema")))
    if spec.get("runner") not in RUNNERS:
        raise SystemExit("Expected runner to be one of %s, got %r" % (", ".join(RUNNERS), spec.get("runner")))
    for key in ("uid", "gid"):
        if not isinstance(spec.get(key), int) or spec[key] <= 0:
            raise SystemExit("Expected %s to be a number above 0, got %r" % (key, spec.get(key)))
    spec = dict({"arguments": [], "modules": [], "labels": [], "roots": [], "focus": [], "timeout_s": 1800, "descriptor": 1,
                 "processes": MAX_PROCESSES}, **spec)
    spec["repository"] = os.path.realpath(spec["repository"])
    spec["modules"] = [os.path.normpath(name) for name in spec["modules"]]
    for name in spec["modules"] + spec["roots"]:
        if os.path.isabs(name) or name.split(os.sep)[0] == os.pardir:
            raise SystemExit("Expected a path inside the repository, got %r" % name)
    if not os.path.isdir(spec["repository"]):
        raise SystemExit("Expected a directory, got %r" % spec["repository"])
    if not spec["modules"] and not spec["labels"]:
        raise SystemExit("Expected modules or labels, got neither")
    return spec


def audit(spec):
    started = time.monotonic()
    pristine = read_pristine(spec["repository"])
    # Told by the commit alone: no patch can make a project one that cannot be audited.
    own = [path for path in OWN_RUNNERS if path in pristine]
    if spec["runner"] == "pytest" and own:
        detail = "the repository is the test runner itself: %s" % own[0]
        return {"schema": SCHEMA, "ended": "own-runner", "detail": detail, "seconds": 0.0, "tests": [], "canaries": [], "changed": []}
    home = tempfile.mkdtemp(prefix="lh-audit-")
    spec = dict(spec, shared={})
    opened = []
    written = []
    try:
        os.chmod(home, 0o711)
        make_homes(spec, home)
        opened = open_ways([spec["repository"], sys.prefix, sys.exec_prefix, os.path.dirname(os.path.realpath(sys.executable)),
                            os.path.dirname(sys.executable), os.path.dirname(os.__file__), home])
        share_folders(spec["repository"], spec["shared"])
        return run_child(spec, pristine, home, started, written)
    finally:
        end_all(spec["uid"], spec["gid"])
        for path in written:
            remove_quietly(path)
        for path, mode in [(folder, before[0]) for folder, before in spec["shared"].items()] + opened[::-1]:
            try:
                os.chmod(path, mode)
            except OSError:
                pass
        sweep_folders(spec["shared"])
        sweep(spec["uid"], home)
        remove_whole(home)
        remove_kernel_objects(spec["uid"], spec["gid"])


def open_ways(paths):
    """Lets other users pass through the directories above what the tests need: interpreters of root lie below /root.
    Returns what to undo."""
    changed = []
    seen = set()
    for path in paths:
        while path not in seen:
            seen.add(path)
            try:
                mode = stat.S_IMODE(os.stat(path).st_mode)
                if not mode & stat.S_IXOTH:
                    os.chmod(path, mode | stat.S_IXOTH)
                    changed.append((path, mode))
            except OSError:
                pass
            path = os.path.dirname(path)
    return changed


def share_folders(repository, shared):
    """Lets tests make files beside themselves, as many do. Those that are there they can neither change nor replace. `shared` gets of each
    folder its mode, when its last file was made, and what it holds."""
    # Neither Git's nor an interpreter's that lies in the repository.
    others = {os.path.join(repository, ".git")} | {os.path.realpath(path) for path in (sys.prefix, sys.exec_prefix, sys.base_prefix)}
    for folder, folders, files in os.walk(repository):
        before = os.lstat(folder)
        shared[folder] = stat.S_IMODE(before.st_mode), before.st_mtime_ns, frozenset(folders + files)
        folders[:] = [name for name in folders if os.path.join(folder, name) not in others]
        os.chmod(folder, stat.S_IMODE(before.st_mode) | stat.S_ISVTX | 0o777)


def sweep_folders(shared, written=()):
    """Takes away what the tests have made there, and not what the audit has written. None of their processes may run code of the repository."""
    for folder, (_, made, names) in shared.items():
        if os.lstat(folder).st_mtime_ns != made:
            for name in set(os.listdir(folder)) - names:
                if os.path.join(folder, name) not in written:
                    remove_whole(os.path.join(folder, name))


def run_child(spec, pristine, home, started, written):
    requests_read, requests_write = os.pipe()
    ends_read, ends_write = os.pipe()
    records_read, records_write = os.pipe()
    # One of many numbers, so that code that tries the small ones finds nothing.
    records_high = move_high(records_write)
    wakeup_read, wakeup_write = os.pipe()
    for descriptor in (wakeup_read, wakeup_write, records_read, ends_read):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for descriptor in (wakeup_read, wakeup_write, records_read, requests_write, ends_read):
                os.close(descriptor)
            if spec["descriptor"] > 2:
                os.close(spec["descriptor"])
            live_as_child(spec, home, pristine, requests_read, ends_write, records_high)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(70)
    for descriptor in (records_high, requests_read, ends_write):
        os.close(descriptor)
    child = Child(spec, home, pid, requests_write, ends_read, records_read, wakeup_read, started + spec["timeout_s"])
    # While the child starts. Trees of the tests hold no cycles that would have to be looked for.
    gc.disable()
    spec = dict(spec, pristine=pristine)
    canaries = make_canaries(spec)
    # In a rehearsal too, which plays none of them: code under test would tell it by what lies beside the tests.
    for name, text in canaries["texts"]:
        put(spec, written, name, text)
    rehearsed = rehearse(spec, canaries, child, written)
    whole = Channel(b"")
    alone = []
    if rehearsed.ended is None:
        # Before the tests themselves: a process that has seen what they expect can tell no later rehearsal.
        rehearse_amid(spec, canaries, rehearsed, child, written)
    if rehearsed.ended is None:
        whole = child.play(child_plan(canaries, canaries["files"]))
        alone = play_alone(spec, canaries, child, (rehearsed, whole), written)
    for descriptor in (requests_write, ends_read, records_read):
        os.close(descriptor)
    signal.set_wakeup_fd(-1)
    os.close(wakeup_read)
    os.close(wakeup_write)
    return judge(spec, canaries, rehearsed, whole, alone, time.monotonic() - started)


class Child(object):
    """The process that plays the tests: each plan in a process of its own, which is forked before any code of the repository has run."""

    def __init__(self, spec, home, pid, requests, ends, records, wakeup, deadline):
        self.spec = spec
        self.home = home
        self.pid = pid
        self.requests = requests
        self.ends = ends
        self.records = records
        self.wakeup = wakeup
        self.deadline = deadline
        self.is_alive = True

    def play(self, plan):
        """Returns what the process of this plan has said until its end."""
        channel = Channel(os.urandom(32))
        request = {"key": "".join("%02x" % byte for byte in bytearray(channel.key)), "plan": plan}
        try:
            write_all(self.requests, json.dumps(request).encode("ascii") + b"\n")
        except OSError:
            # It has ended, which is heard.
            pass
        channel.ended, channel.status = self.hear(channel)
        return channel

    def hear(self, channel):
        """Returns how the process ended, and its status. Descendants that were forked and not executed hold the pipe, so its end is not
        waited for."""
        status = None
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                return "timeout", status
            if status is None:
                select.select([self.records, self.ends, self.wakeup], [], [], min(left, 5.0))
                read_now(self.wakeup)
                status = self.status_now()
            # What the process has written lies in the pipe when its end is known.
            while True:
                data = read_now(self.records)
                if not data:
                    break
                channel.feed(data)
                if channel.noise is not None:
                    return "noise", status
            if status is not None:
                if channel.rest:
                    channel.noise = "a torn record"
                    return "noise", status
                return ("complete" if channel.end is not None else "early"), status

    def status_now(self):
        text = read_now(self.ends)
        if text:
            return int(text)
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid != self.pid:
            return None
        self.is_alive = False
        return status

    def clear(self, written):
        """Nothing that a process has left may tell the next one what came before."""
        end_others(self.spec["uid"], self.pid)
        sweep_folders(self.spec["shared"], written)
        sweep(self.spec["uid"], self.home)
        remove_kernel_objects(self.spec["uid"], self.spec["gid"])
        make_homes(self.spec, self.home)


def read_now(descriptor):
    """Returns what can be read without waiting, b"" at the end, None where there is nothing yet."""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EINTR):
            raise
        return None


def rehearse(spec, canaries, child, written):
    """The hidden tests once before all others, in a process and under names and paths that are those of the real ones, each with an
    assertion that is turned: whatever finds the expected value anywhere, or keeps what it was compared with first, passes here.
    Returns what was said; it has ended the audit unless its `ended` is None."""
    turned = canaries["turned"]
    channel = Channel(b"")
    if not turned:
        return channel
    channel = play_turned(spec, turned, child, child_plan(canaries, turned))
    if child.is_alive and channel.ended in ("complete", "early"):
        # A rehearsal that ends early has no results of tests, which is judged by what is missing.
        channel.ended = None
        child.clear(written)
    return channel


def play_turned(spec, turned, child, plan):
    """Copies that lie beside a rehearsed module, and may be read or loaded, expect what it expects then."""
    held = []
    try:
        for one in turned + [module["beside"] for module in turned if "beside" in module]:
            path = os.path.join(spec["repository"], one["file"])
            held.append((path, write_over(path, one["text"])))
        return child.play(plan)
    finally:
        for path, text in held:
            write_over(path, text)


def rehearse_amid(spec, canaries, rehearsed, child, written):
    """Only expectations are altered in the rehearsal, so honest code answers there as it does elsewhere. Code under test that answered otherwise
    may depend on tests that were not rehearsed, so its tests are rehearsed amid all others too. What ended otherwise before it may still
    have changed an answer there: at last each is the only altered one of its module. What is answered otherwise even then tells the
    rehearsal from the tests, by whatever sign, or by chance."""
    strayed = strayed_in(rehearsed.records)
    turned = [one for one in canaries["turned"] if any(place[0] == one["file"] for place in strayed)]
    if not turned:
        return
    started = time.monotonic()
    left = sorted(strayed & strayed_in(play_amid(spec, canaries, turned, strayed, rehearsed, child, written)))
    took = time.monotonic() - started
    random.SystemRandom().shuffle(left)
    for at in range(MAX_ONLY):
        # One of each module, by its file.
        chosen = dict(left)
        # Of a long suite one is enough, and its tests need the rest.
        if not chosen or (at > 0 and child.deadline - time.monotonic() < 3 * took):
            return
        only, known = only_turned(spec, canaries, turned, [(file, record_at(rehearsed.records, (file, of))["c"]) for file, of in chosen.items()])
        told = strayed_in(play_amid(spec, known, only, chosen.items(), rehearsed, child, written))
        for record in rehearsed.records:
            record["two_faced"] = record.get("two_faced", False) or any(is_at(record, place) for place in told)
        left = [place for place in left if place not in chosen.items() and place[0] not in dict(told)]


def strayed_in(records):
    return set((record["file"], record["of"]) for record in records if record["k"] == "test" and record.get("strayed"))


def is_at(record, place):
    return record["k"] == "test" and (record.get("file"), record["of"]) == place


def record_at(records, place):
    return next(record for record in records if is_at(record, place))


def play_amid(spec, canaries, turned, places, rehearsed, child, written):
    """Plays all tests, of which these modules are altered. Returns what was said of the tests at these places; it is judged as the
    rehearsal is."""
    if not child.is_alive or rehearsed.ended is not None:
        return []
    child.clear(written)
    beside = {one["beside"]["file"]: one["beside"]["keep"] for one in turned if "beside" in one}
    files = [dict(one, keep=beside.get(one["file"], one["keep"])) for one in canaries["files"]]
    said = play_turned(spec, turned, child, child_plan(canaries, files + turned, amid=True))
    if said.ended in ("noise", "timeout"):
        # Code under test may take the time away on purpose.
        rehearsed.ended, rehearsed.noise = said.ended, said.noise
    found = [record for record in said.records if any(is_at(record, place) for place in places)]
    rehearsed.records.extend(found)
    child.clear(written)
    return found


def only_turned(spec, canaries, turned, chosen):
    """Rehearsed modules of which nothing is altered but one test, and what the child must know of them. `chosen`: files with canaries.
    Code under test may find the same value in another test: what a test has in common with the chosen ones is altered too, where that does
    not end it before its end."""
    known = dict(canaries, reals=list(canaries["reals"]), turns=list(canaries["turns"]))
    names = {file: next(name for name, kept in turned_of(turned, file)["keep"].items() if kept == number) for file, number in chosen}
    parts = []
    for one in turned:
        found = {"names": canaries["names"], "helper": canaries["helper"], "canaries": [], "reals": known["reals"], "turns": known["turns"]}
        with open(os.path.join(spec["repository"], one["file"]), "rb") as module:
            source = module.read()
        code = source_of(spec, one["file"], decoded(source), found)
        tests = [(name_of_test(cls, function), (cls, function, variants)) for cls, function, variants in chosen_tests(one["file"], source, code, focus_of(spec))[0]]
        parts.append((one, source, code, found, tests))
    said = set(value for one, _, _, _, tests in parts for name, test in tests if names.get(one["file"]) == name for value in values_in(test[1]))
    only = []
    for one, source, code, found, tests in parts:
        name = names.get(one["file"])
        if name == WHOLE:
            # No function has the name of the test.
            only.append(one)
            continue
        named = [test for other, test in tests if other == name]
        beside = [test for other, test in tests if other != name and said & values_in(test[1])]
        if not named and not beside:
            continue
        numbers = {name: one["keep"].get(name), WHOLE: one["keep"][WHOLE]}
        made = turned_module(one["file"], source, code, named, {name}, found, lambda canary: numbers[canary["of"]], beside)
        if made is not None:
            only.append(dict(one, text=made[0], keep=made[1]))
    return only, known


def turned_of(turned, file):
    return next(one for one in turned if one["file"] == file)


def values_in(tree):
    """Numbers and texts of a test, with their kinds: those that others have too."""
    return set((type(one.value), one.value) for one in ast.walk(tree) if isinstance(one, ast.Constant) and type(one.value) in (int, float, complex, str, bytes))


def play_alone(spec, canaries, child, channels, written):
    """Some tests cannot run twice in a process: what they register may be registered once. Where a copy ended differently although
    nothing was altered in it, that one and the altered ones of its test run again, each in a process of its own.
    Returns of each such test the copies with what was said."""
    if channels[1].ended != "complete":
        return []
    facts = judge(spec, canaries, channels[0], channels[1], [], 0)["canaries"]
    bad = [canary for canary, fact in zip(canaries["canaries"], facts) if not fact["ok"]]
    shaky = set(place_of(canary) for canary in bad if is_plain_copy(canary))
    # Another accusation of the same module stays.
    lost = set(canary["module"] for canary in bad if not (is_copy(canary) and place_of(canary) in shaky))
    places = sorted(place for place in shaky if place[0] not in lost)
    found = []
    for place in places if len(places) <= MAX_ALONE else ():
        copies = [canary for canary in canaries["canaries"] if is_copy(canary) and place_of(canary) == place]
        first = next(canary for canary in copies if canary["must"] == "pass")
        # In any order, and each several times: code under test may know how many processes came before its own, or guess what it is asked.
        order = [first] * random.SystemRandom().choice((2, 3)) + [canary for canary in copies if canary["must"] == "fail"] * 2
        random.SystemRandom().shuffle(order)
        played = []
        for canary in order:
            if not child.is_alive:
                return found
            child.clear(written)
            files = [one for one in canaries["files"] if one["file"] == canary["file"]]
            played.append((canary, child.play(child_plan(canaries, files, canary["c"]))))
        found.append((place, played))
    return found


def is_copy(canary):
    return canary["of"] not in (None, WHOLE) and canary["file"] != canary["module"]


def place_of(canary):
    return canary["module"], canary["of"]


def is_plain_copy(canary):
    return is_copy(canary) and canary["must"] == "pass"


def write_over(path, text):
    """In place: owner and mode stay. Returns what stood there."""
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        before = b""
        while True:
            data = os.read(descriptor, 1 << 20)
            if not data:
                break
            before += data
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(descriptor, 0)
        write_all(descriptor, text)
    finally:
        os.close(descriptor)
    return before


def end_others(uid, kept):
    """Every process of the user but one, which waits for its plan."""
    for attempt in range(500):
        others = [process for process in processes_of(uid) if process != kept]
        if not others:
            return
        for sign in (signal.SIGSTOP, signal.SIGKILL):
            for process in others:
                try:
                    os.kill(process, sign)
                except OSError:
                    pass
        time.sleep(0.005 if attempt < 20 else 0.02)
    raise RuntimeError("processes of user %d could not be ended" % uid)


def sweep(uid, home):
    """Files that tests have left where all may write, and where they live."""
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.lstat(path).st_uid == uid:
                    remove_whole(path)
            except OSError:
                pass
    for name in HOMES:
        remove_whole(os.path.join(home, name))


def remove_kernel_objects(uid, gid):
    """System V shared memory, message queues and semaphores outlive their processes, and only a process of their user may remove them."""
    found = kernel_objects_of(uid)
    if not found:
        return
    child = os.fork()
    if child == 0:
        try:
            import ctypes

            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            for kind, number in found:
                # The order to remove is 0, and nothing else is said.
                getattr(ctypes.CDLL(None), kind + "ctl")(number, 0, 0)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    if kernel_objects_of(uid):
        raise RuntimeError("objects of user %d could not be removed from the kernel" % uid)


def kernel_objects_of(uid):
    found = []
    for kind in ("shm", "msg", "sem"):
        try:
            with open("/proc/sysvipc/" + kind) as file:
                rows = [line.split() for line in file]
        except OSError:
            continue
        for row in rows[1:]:
            entry = dict(zip(rows[0], row))
            if str(uid) in (entry.get("uid"), entry.get("cuid")):
                found.append((kind, int(row[1])))
    return found


def remove_whole(path):
    """Whole, or the audit ends: what the rehearsal leaves would tell the real tests what came before."""
    if os.path.isdir(path) and not os.path.islink(path):
        try:
            shutil.rmtree(path)
        except (OSError, RecursionError):
            # It needs a frame or a descriptor for each level, and `rm` does not.
            subprocess.call(["rm", "-rf", "--", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        remove_quietly(path)
    if os.path.lexists(path):
        raise RuntimeError("%r could not be removed" % path)


HOMES = ("home", "tmp", "cwd")


def make_homes(spec, home):
    for name in HOMES:
        os.mkdir(os.path.join(home, name), 0o700)
        os.chown(os.path.join(home, name), spec["uid"], spec["gid"])


def move_high(descriptor):
    import fcntl

    limit = os.sysconf("SC_OPEN_MAX")
    limit = 1024 if limit < 1024 else min(limit, 65536)
    wanted = random.SystemRandom().randrange(200, limit - 100)
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, wanted)
    os.close(descriptor)
    return high


class Channel(object):
    """Records of the child: `MAC NUMBER JSON`, one a line, numbered from 0. The first that does not fit ends the audit."""

    def __init__(self, key):
        self.key = key
        self.rest = b""
        self.size = 0
        self.number = 0
        self.records = []
        self.plan = None
        self.end = None
        self.noise = None
        self.ended = self.status = None

    def feed(self, data):
        self.size += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            self.noise = self.noise or self.read(line)
        if len(self.rest) > MAX_LINE:
            self.noise = self.noise or "a record without an end"
        if self.size > MAX_BYTES or self.number > MAX_RECORDS:
            self.noise = self.noise or "too many records"

    def read(self, line):
        parts = line.split(b" ", 2)
        if len(line) > MAX_LINE or len(parts) != 3 or not hmac.compare_digest(parts[0], mac(self.key, parts[1] + b" " + parts[2])):
            return "a record that the audit had not sent"
        if parts[1] != str(self.number).encode("ascii"):
            return "a record out of its order"
        self.number += 1
        record = json.loads(parts[2].decode("ascii"))
        if self.end is not None:
            return "a record after the last"
        kind = record.get("k")
        if kind == "plan":
            if any(one["k"] == "test" for one in self.records):
                return "a plan after its tests"
            self.plan = (self.plan or []) + record["ids"]
        elif kind == "end":
            self.end = record
        elif kind in ("test", "collect", "changed", "left-out", "lied"):
            self.records.append(record)
        else:
            return "a record of no kind"
        return None


def mac(key, text):
    return hashlib.blake2b(text, key=key, digest_size=16).hexdigest().encode("ascii")


def judge(spec, canaries, rehearsed, channel, alone, seconds):
    ended, status = (channel.ended, channel.status) if rehearsed.ended is None else (rehearsed.ended, rehearsed.status)
    detail = rehearsed.noise or channel.noise
    changed = []
    tests = []
    by_canary = {}
    left_out = set()
    reported = {}
    for record in rehearsed.records:
        if record["k"] == "changed":
            changed.extend(name for name in record["names"] if name not in changed)
        elif record.get("c") is not None:
            by_canary.setdefault(record["c"], []).append(record)
    owners = {canary["file"] for canary in canaries["files"]}
    asked = {record["file"] for record in rehearsed.records if record["k"] == "test"}
    for record in channel.records:
        kind = record["k"]
        if kind == "changed":
            changed.extend(name for name in record["names"] if name not in changed)
            continue
        if kind == "left-out":
            left_out.add(record["c"])
            continue
        if record.get("c") is not None:
            by_canary.setdefault(record["c"], []).append(record)
            continue
        if record.get("file") in owners:
            # A module of canaries that could not be imported.
            by_canary.setdefault("module " + record["file"], []).append(record)
            continue
        if record["id"] in reported and kind == "test":
            ended, detail = "noise", detail or "two results of %s" % record["id"]
        reported[record["id"]] = record
        tests.append(record)
    for place, played in alone:
        for _, said in played:
            changed.extend(name for record in said.records if record["k"] == "changed" for name in record["names"] if name not in changed)
            if said.ended == "noise":
                ended, detail = "noise", said.noise
        if all(has_run(canary, said) for canary, said in played):
            replace_records(canaries["canaries"], place, played, by_canary)
    if ended == "complete":
        if channel.plan is None or channel.end.get("problem"):
            ended, detail = "early", channel.end.get("problem") or "no test was collected"
        else:
            missing = [name for name in channel.plan if name not in reported]
            if missing:
                ended, detail = "early", "no result of %s" % missing[0]
    if ended == "early" and detail is None:
        detail = "the process of the tests ended by itself%s" % how(status)
    return {
        "schema": SCHEMA,
        "ended": ended,
        "detail": detail if detail is None else clean(detail),
        "seconds": round(seconds, 3),
        "tests": [{"id": clean(record["id"], MAX_ID), "outcome": record["outcome"]} for record in tests],
        "canaries": [judge_canary(canary, by_canary, left_out, reported, asked, focus_of(spec)) for canary in canaries["canaries"]],
        "changed": sorted(clean(name) for name in changed),
    }


def has_run(canary, said):
    return said.ended == "complete" and not said.end.get("problem") and bool(records_of(canary, said))


def records_of(canary, said):
    return [record for record in said.records if record["k"] == "test" and record.get("c") == canary["c"]]


def replace_records(canaries, place, played, by_canary):
    """What ran alone says how the test's copies end: beside the others, what an earlier test has left may change the end of each of them."""
    plain = [record for canary, said in played if canary["must"] == "pass" for record in records_of(canary, said)]
    for canary in canaries:
        if is_plain_copy(canary) and place_of(canary) == place:
            by_canary[canary["c"]] = plain
    for canary in [canary for canary, _ in played if canary["must"] == "fail"]:
        by_canary[canary["c"]] = [record for other, said in played if other is canary for record in records_of(canary, said)]


def how(status):
    if status is None:
        return ""
    if os.WIFSIGNALED(status):
        return " by signal %d" % os.WTERMSIG(status)
    return " with code %d" % os.WEXITSTATUS(status)


def clean(text, limit=MAX_DETAIL):
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in str(text))[:limit]


def judge_canary(canary, by_canary, left_out, reported, asked, focus):
    real_tests = {(record.get("file"), record.get("of"), record.get("with")): record for record in reported.values()}
    records = by_canary.get(canary["c"], [])
    broken = by_canary.get("module " + canary["file"], [])
    fact = {"module": canary["module"], "must": canary["must"], "of": canary["of"], "outcome": "missing", "ok": True, "detail": None}
    if canary["of"] == WHOLE:
        return judge_whole(canary, fact, records, real_tests, focus if canary["module"] not in asked else ())
    if canary["of"] is None:
        # One of ours, which every honest repository collects and runs.
        if records:
            fact["outcome"] = worst(record["outcome"] for record in records)
            fact["ok"] = fact["outcome"] == ("passed" if canary["must"] == "pass" else "failed")
            # Its base is that of the module's tests, and may skip all of them: they then pay nothing.
            fact["ok"] = fact["ok"] or (fact["outcome"] == "skipped" and honest_skip(canary, broken, reported))
        elif broken and canary["must"] == "fail":
            fact["outcome"] = broken[0]["outcome"]
        else:
            fact["outcome"] = broken[0]["outcome"] if broken else "missing"
            fact["ok"] = honest_skip(canary, broken, reported)
        fact["detail"] = None if fact["ok"] else canary["what"]
        return fact
    if not records:
        fact["outcome"] = "left-out" if canary["c"] in left_out or broken else "missing"
        real = [record["outcome"] for place, record in real_tests.items() if place[:2] == (canary["module"], canary["of"])]
        if fact["outcome"] == "missing" and "passed" in real and not canary.get("optional"):
            fact["ok"], fact["detail"] = False, "%s ran, and its canary did not" % canary["of"]
        return fact
    fact["outcome"] = worst(record["outcome"] for record in records)
    for record in records:
        of = real_name(record, canary)
        real = real_tests.get((canary["module"], of, record.get("with")), {}).get("outcome")
        strayed = record.get("two_faced")
        if real is None and canary.get("is_turned"):
            # Parameters that were altered have other names. A wrong answer to those of a test that fails is none to another.
            others = [one["outcome"] for place, one in real_tests.items() if place[:2] == (canary["module"], of)]
            real = "passed" if others and all(one == "passed" for one in others) else None
            strayed = strayed and (real == "passed" or not others)
        if canary["must"] == "pass":
            bad = real == "passed" and record["outcome"] != "passed"
        else:
            # A test that did not pass proves nothing about its assertions, and is not paid for: a wrong answer may well satisfy
            # the opposite of what is asserted. Where it is not known what became of it, the mark alone counts.
            must_fail = canary["strict"] == ALWAYS or (canary["strict"] == IF_REACHED and record.get("reached"))
            wrong_end = record["outcome"] not in ("failed", "error") and (must_fail or record["outcome"] != "passed")
            bad = ((record.get("survived") or record.get("lied") or strayed) and real in ("passed", None)) or (wrong_end and real == "passed")
        if bad:
            what = "was answered otherwise where other values were expected" if strayed else canary["what"]
            fact["ok"], fact["detail"] = False, clean("%s: %s" % (record["id"], what))
            break
    return fact


def judge_whole(canary, fact, records, real_tests, unasked):
    """Of a rehearsed module: none of its tests that passed may have been told a lie. `unasked`: words of named tests where none of the
    module's has ended in the rehearsal. A module may hold no function that a canary could be made of, and code under test that tells the
    rehearsal from the tests may keep it from being imported."""
    passed = {place[1:] for place, record in real_tests.items() if place[0] == canary["module"] and record["outcome"] == "passed"}
    fact["outcome"] = "passed" if any(record["k"] == "lied" for record in records) else "failed"
    for record in records:
        lied = record.get("lied") or record.get("survived") or record.get("two_faced")
        if (record["k"] == "lied" and passed) or (lied and (record["of"], record.get("with")) in passed):
            fact["outcome"], fact["ok"], fact["detail"] = "passed", False, clean("%s: %s" % (record.get("id", canary["module"]), canary["what"]))
            return fact
    # Doctests and the like are named by what they are of.
    for of in sorted(of for of, _ in passed if of.rpartition(".")[2].startswith("test") and of.rpartition(".")[2] in unasked):
        fact["outcome"], fact["ok"], fact["detail"] = "missing", False, clean("%s ran, and no test of its module was rehearsed" % of)
        break
    return fact


def real_name(record, canary):
    """Of the test that a copy was made of, in the class that it ran in: that may have inherited both."""
    cls, name = record["of"].rpartition(".")[0], canary["of"].rpartition(".")[2]
    return cls + "." + name if cls else name


def kept_as(one, cls, name):
    """The canary that a function of a module of canaries is, also where a class inherits it within the module."""
    keep = one["keep"]
    if cls is None or cls.__name__ + "." + name in keep:
        return keep.get(name if cls is None else cls.__name__ + "." + name)
    # Copies have a random word behind their name.
    real = name if one["place"] == "turned" else name[:-9]
    for base in cls.__mro__:
        if real in vars(base):
            return keep.get(base.__name__ + "." + name)
    return None


def focus_of(spec):
    return set(word for name in spec["focus"] for word in re.findall(r"\w+", name))


def canary_in(one, cls, name, focus):
    """In a rehearsal the module's own canary stands for each named test that has none: another function may have made it."""
    found = kept_as(one, cls, name)
    return one["keep"].get(WHOLE) if found is None and name in focus else found


def honest_skip(canary, broken, reported):
    """Is a canary of ours left out because the hidden module itself was?"""
    of_module = [record for record in reported.values() if record.get("file") == canary["module"]]
    return bool(of_module) and all(record["outcome"] not in ("passed", "failed") for record in of_module)


def worst(outcomes):
    order = ("error", "failed", "xpassed", "xfailed", "skipped", "passed")
    return min(outcomes, key=order.index)


def write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view):]


def remove_quietly(path):
    try:
        os.remove(path)
    except OSError:
        pass


def read_pristine(repository):
    """Paths of the commit that the image holds. What the patch adds to them may not take the name of an installed module."""
    found = ask_git(repository, ["ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD"])
    return frozenset(os.fsdecode(name) for name in (found or b"").split(b"\0") if name)


def pristine_text(repository, path):
    """A file of that commit, None where it cannot be had."""
    return ask_git(repository, ["cat-file", "blob", "HEAD:./" + path])


def ask_git(repository, words):
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
                   "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"] + words
    try:
        found = subprocess.run(command, cwd=repository, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout if found.returncode == 0 else None


# ---------------------------------------------------------------- canaries


def random_word(chance=random.SystemRandom()):
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "".join(chance.choice(letters) for _ in range(8))


def sibling_name(module, word):
    folder, name = os.path.split(module)
    stem, ending = os.path.splitext(name)
    stem = stem[: -len("_test")] + "_" + word + "_test" if stem.endswith("_test") else stem + "_" + word
    return os.path.join(folder, stem + ending)


def make_canaries(spec):
    """Files beside the hidden modules, with their texts: `early` ones run before all hidden tests, `late` ones and copies behind them. And
    what the hidden modules themselves are while they are rehearsed."""
    found = {"files": [], "texts": [], "turned": [], "canaries": [], "helper": None, "names": {}}
    found["helper"] = random_word()
    found["names"] = {name: "_" + random_word() for name in HELPERS + ("held", "questions")}
    counter = [0]

    def add(canary):
        canary["c"] = counter[0]
        counter[0] += 1
        canary.setdefault("strict", ALWAYS)
        found["canaries"].append(canary)
        return canary["c"]

    for module, source, tree in modules_with_tests(spec):
        path = os.path.join(spec["repository"], module)
        for place in ("early", "late"):
            text, keep = plain_canaries(spec, module, source, tree, place, add)
            place_canaries(found, module, sibling_name(module, random_word()), place, text, keep)
        for place, (text, keep) in turned_canaries(spec, module, source, found, add):
            if place == "beside":
                if found["turned"] and found["turned"][-1]["of"] == module:
                    found["turned"][-1]["beside"] = {"file": name, "text": text, "keep": keep}
                continue
            # What leads elsewhere is not written over, and nothing of the rehearsal must be missing then.
            if place == "turned" and os.path.realpath(path) != path:
                found["canaries"][:] = [one for one in found["canaries"] if one["c"] not in keep.values()]
                continue
            name = module if place == "turned" else sibling_name(module, random_word())
            place_canaries(found, module, name, place, text, keep)
    return found


def place_canaries(found, module, name, place, text, keep):
    for canary in found["canaries"]:
        if canary["c"] in keep.values():
            canary["file"] = name
    one = {"file": name, "of": module, "place": place, "keep": keep}
    if place == "turned":
        found["turned"].append(dict(one, text=text))
    else:
        found["files"].append(one)
        found["texts"].append((name, text))


def put(spec, written, name, text):
    path = os.path.join(spec["repository"], name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o644)
    written.append(path)
    try:
        os.fchmod(descriptor, 0o644)
        write_all(descriptor, text)
    finally:
        os.close(descriptor)


def module_files(spec):
    """Hidden test modules. Django names them by labels."""
    found = []
    for name in list(spec["modules"]) + [label_file(spec, label) for label in spec["labels"]]:
        if name is not None and name.endswith(".py") and os.path.basename(name) not in ("__init__.py", "conftest.py") and name not in found:
            if os.path.isfile(os.path.join(spec["repository"], name)):
                found.append(name)
    return found


def modules_with_tests(spec):
    """Hidden modules with text and tree. Test patches hold others beside them, as models and migrations, in whose folders nothing else may lie."""
    found = []
    for module in module_files(spec):
        try:
            with open(os.path.join(spec["repository"], module), "rb") as file:
                source = file.read()
            found.append((module, source, ast.parse(source)))
        except (OSError, SyntaxError, ValueError):
            # It will fail by itself, and pay nothing.
            continue
    # Tests may be inherited, or made by a function: then the name of their file says so, or that of a named test. Models have methods of any name.
    return [one for one in found if (spec["runner"] != "django" and any(tests_of(one[2]))) or "test" in os.path.basename(one[0]).lower()
            or any(is_module_of(one[0], name) for name in spec["focus"])] or found


def label_file(spec, label):
    parts = label.split(".")
    for folder in ("tests", ""):
        for length in range(len(parts), 0, -1):
            name = os.path.join(folder, *parts[:length]) + ".py"
            if os.path.isfile(os.path.join(spec["repository"], name)):
                return name
    return None


def child_plan(canaries, files, alone=None, amid=False):
    """What the child is told: where canaries lie, which functions are some, which of them run first, which one runs alone, and whether
    rehearsed tests run amid all others. `modules` are those of the hidden ones that it plays, None for all."""
    turned = [one["file"] for one in files if one["place"] == "turned"]
    return {
        "modules": None if amid else turned if turned else None if alone is None else [],
        "alone": alone,
        "amid": amid,
        "helper": canaries["helper"],
        "names": canaries["names"],
        "always": canaries.get("always", []),
        "first": canaries.get("first", []),
        "reals": canaries.get("reals", []),
        "turns": canaries.get("turns", []) if turned else [],
        "calm": {str(one["c"]): one["calm"] for one in canaries["canaries"] if "calm" in one} if turned else {},
        "files": [{"file": one["file"], "of": one["of"], "place": one["place"], "keep": one["keep"]} for one in files],
    }


# Of each assertion that the hidden module uses, a call that fails.
FAILING = (
    ("assertEqual", "1, 2"), ("assertEquals", "1, 2"), ("assertNotEqual", "1, 1"), ("assertTrue", "False"), ("assertFalse", "True"),
    ("assertIs", "1, None"), ("assertIsNone", "0"), ("assertIsNotNone", "None"), ("assertIn", "1, []"), ("assertNotIn", "1, [1]"),
    ("assertIsInstance", "1, str"), ("assertRaises", "ValueError, int, '1'"), ("assertRaisesRegex", "ValueError, 'x', int, '1'"),
    ("assertRaisesMessage", "ValueError, 'x', int, '1'"), ("assertAlmostEqual", "1, 2"), ("assertGreater", "1, 2"), ("assertLess", "2, 1"),
    ("assertGreaterEqual", "1, 2"), ("assertLessEqual", "2, 1"), ("assertRegex", "'a', 'b'"), ("assertCountEqual", "[1], [2]"),
    ("assertListEqual", "[1], [2]"), ("assertTupleEqual", "(1,), (2,)"), ("assertDictEqual", "{}, {1: 1}"), ("assertSetEqual", "{1}, {2}"),
    ("assertSequenceEqual", "[1], [2]"), ("assertMultiLineEqual", "'a', 'b'"), ("assertHTMLEqual", "'<p>a</p>', '<p>b</p>'"),
    ("assertJSONEqual", "'1', '2'"), ("assertQuerysetEqual", "[1], [2]"), ("assertQuerySetEqual", "[1], [2]"),
)
KNOWN_CASES = ("TestCase", "SimpleTestCase", "TransactionTestCase", "IsolatedAsyncioTestCase")


def plain_canaries(spec, module, source, tree, place, add):
    """A module with the imports of the hidden one, and trivial tests."""
    text = [imports_of(source, tree)]
    keep = {}
    functions, classes = tests_of(tree)
    word = random_word()
    chance = random.SystemRandom()
    failing = ["assert False", "assert 1 == 2", "assert [] == [object()]", "raise AssertionError('x')", "assert not 'x'", "assert 'x' in []"]
    if spec["runner"] == "pytest":
        prefix = functions[0][1].name if functions else "test"
        failing.append("import pytest; pytest.fail('x')")
        for number, line in enumerate(chance.sample(failing, 5)):
            name = "%s_%s%d" % (prefix, word, number)
            text.append("\n\ndef %s():\n    %s\n" % (name, line))
            keep[name] = add({"module": module, "must": "fail", "of": None, "what": "a test that says %r did not fail" % line})
        name = "%s_%s%d" % (prefix, word, len(failing))
        text.append("\n\ndef %s():\n    value = %d\n    assert value == %d\n    assert value in [value]\n    assert not value == -1\n" % ((name,) + (chance.randrange(1000),) * 2))
        keep[name] = add({"module": module, "must": "pass", "of": None, "what": "a test of trivial truths did not pass"})
    if spec["runner"] != "pytest" or classes:
        base, known, head, settings = base_of(tree, classes, source)
        used = set(re.findall(br"self\.(assert\w+)", source))
        # Other classes of the module may have assertions that this base does not have.
        failing = ["self.%s(%s)" % (name, words) if name == "assertEqual" else "self.%s(%s) if hasattr(self, %r) else self.fail('x')" % (name, words, name)
                   for name, words in FAILING if name.encode("ascii") in used or name == "assertEqual"]
        failing += ["self.fail('x')", "assert False", "raise self.failureException('x')"]
        title = (classes[0].name if classes else "Test") + word.capitalize()
        text.append("\n\nimport unittest as _unittest_%s\n" % word)
        text.append("\n\n%sclass %sA(%s):\n%s" % (head, title, base or "_unittest_%s.TestCase" % word, settings))
        chance.shuffle(failing)
        for number, line in enumerate(failing):
            name = "test_%s%d" % (word, number)
            text.append("    def %s(self):\n        %s\n\n" % (name, line))
            keep[title + "A." + name] = add({"module": module, "must": "fail", "of": None, "what": "a test that says %r did not fail" % line})
        head, settings = (head, settings) if known else ("", "")
        text.append("\n%sclass %sB(%s):\n%s" % (head, title, base if base and known else "_unittest_%s.TestCase" % word, settings))
        text.append("    def test_%sz(self):\n        self.assertEqual([1, 'a'], [1, 'a'])\n        self.assertTrue(True)\n        self.assertRaises(ValueError, int, 'x')\n" % word)
        keep["%sB.test_%sz" % (title, word)] = add({"module": module, "must": "pass", "of": None, "what": "a test of trivial truths did not pass"})
    return "".join(text).encode("utf-8"), keep


def tests_of(tree):
    """Test functions of a module with the class that holds each, and its classes of tests."""
    functions = []
    classes = []
    for node in tree.body:
        if is_function(node) and node.name.startswith("test"):
            functions.append((None, node))
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if is_function(one) and one.name.startswith("test")]
            if methods:
                classes.append(node)
    return functions, classes


def sides_in(tree):
    """Nodes that are compared, and nothing else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and all(isinstance(one, ast.Eq) for one in node.ops):
            yield from (id(one) for one in [node.left] + node.comparators)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else None
            if name in EQUAL_CALLS or name in PAIR_CALLS:
                yield from (id(one) for one in node.args[:2])


# Of Python's own, through which a value that is compared may be looked at.
LOOKS = frozenset(["len", "list", "tuple", "set", "frozenset", "dict", "sorted", "str", "repr", "type", "sum", "max", "min", "abs", "round", "bool", "int", "float"])

def is_plainly_made(node):
    """By Python alone."""
    calls = [one for one in ast.walk(node) if isinstance(one, (ast.Call, ast.Lambda, ast.Await))]
    return all(isinstance(one, ast.Call) and ((isinstance(one.func, ast.Name) and one.func.id in LOOKS) or (dotted(one.func) or [""])[-1] in WRAPPING | {"approx"}
                                              or (isinstance(one.func, ast.Attribute) and one.func.attr in WRAPPING_METHODS)) for one in calls)


SHOWING = frozenset(["subTest", "info", "debug", "warning"])
# What gives the parts of what it is given.
PARTS = LOOKS | {"zip", "enumerate", "items", "values", "keys"}


def only_asserted_in(tree):
    """Nodes whose values reach assertions and their messages, and no code under test."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            parts, said = [], [node.msg]
        elif isinstance(node, ast.Compare):
            parts, said = [node.left] + node.comparators, []
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) in COMPARING_CALLS:
            parts, said = node.args[:2], node.args[2:] + [one.value for one in node.keywords if one.arg in ("msg", "message", "err_msg")]
        elif isinstance(node, ast.Call) and (getattr(node.func, "attr", None) in SHOWING or getattr(node.func, "id", None) == "print"):
            # What a sub-test is named by, and what is printed or logged.
            parts, said = [], node.args + [one.value for one in node.keywords]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) in RAISING | WARNING | PATTERN_CALLS:
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            parts, said = node.args[: 2 if name in PATTERN_CALLS else 1] + [one.value for one in node.keywords if one.arg in ("match", "expected_exception")], []
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) in ("startswith", "endswith"):
            parts, said = node.args[:1], []
        else:
            continue
        for part in parts:
            if is_plainly_made(part):
                yield from (id(one) for one in ast.walk(part))
        yield from (id(one) for part in said if part is not None for one in ast.walk(part))


def tables_in(tree):
    """Nodes of which a loop or the parameters of a test take one row after another."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            yield node.iter
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            if name == "parametrize":
                yield from argument_of(node, ["argnames", "argvalues"]).values()
            elif name in ("zip", "enumerate"):
                yield from node.args
            elif name == "items" and isinstance(node.func, ast.Attribute):
                yield node.func.value


def matchers_in(tree):
    """Names of classes with an equality of their own, and of values that hold an object of one."""
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and any(is_function(one) and one.name == "__eq__" for one in node.body)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            words = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
            words |= {one.attr for one in ast.walk(node.value) if isinstance(one, ast.Attribute)}
            if words & found or "ANY" in words:
                found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    return found


def bound_names(tree):
    """What a name may mean in a module besides what Python means by it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif is_function(node) or isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0]


def at_import(tree):
    """Nodes that run when a module is read."""
    rest = list(tree.body)
    while rest:
        node = rest.pop()
        yield node
        rest += node.decorator_list if is_function(node) else [] if isinstance(node, ast.Lambda) else list(ast.iter_child_nodes(node))


def answers_of(tree):
    """Functions and lambdas of a module that say whether one parameter equals another: name to the two, and all parameters."""
    found = {}
    for node in tree.body:
        made = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda) and len(node.targets) == 1 else None
        if made is not None and isinstance(node.targets[0], ast.Name):
            name, parameters, tests = node.targets[0].id, made.args, [made.body]
        elif is_function(node) and not node.decorator_list and not node.name.startswith("test"):
            name, parameters = node.name, node.args
            # Before its first answer nothing may change what is compared.
            tests = [node.body[-1].value] if len(node.body) == 1 and isinstance(node.body[0], ast.Return) and node.body[0].value is not None else []
        else:
            continue
        names = [one.arg for one in parameters.args]
        for test in tests:
            for operator, sides in needed(test):
                if operator == "Eq" and all(isinstance(side, ast.Name) and side.id in names for side in sides):
                    found.setdefault(name, ([side.id for side in sides], names))
    return found


def is_function(node):
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def is_fixture(function):
    return any((dotted(one.func if isinstance(one, ast.Call) else one) or [""])[-1] in ("fixture", "yield_fixture") for one in function.decorator_list)


def requested_in(body):
    """Names of parameters of fixtures."""
    return {one.arg for outer in body for node in ast.walk(outer) if is_function(node) and is_fixture(node) for one in ast.walk(node.args) if isinstance(one, ast.arg)}


def base_of(tree, classes, source):
    """Of a class of tests, sooner of one that empties no database, and sooner of one without decorators: its base as it is written, if that is
    imported; whether the base is a known one; and what stands above the class and in it that the base may want, as that of Django's own
    tests wants `available_apps`."""
    imported = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                imported.add((alias.asname or alias.name).split(".")[0])
    found = [(node, words) for node in classes for words in map(dotted, node.bases)
             if words and words[0] in imported and words[-1].endswith(("TestCase", "Test", "Case"))]
    if not found:
        return None, False, "", ""
    node, words = min(found, key=lambda one: (one[1][-1].endswith(("TransactionTestCase", "LiveServerTestCase")), bool(one[0].decorator_list)))
    return (".".join(words), words[-1] in KNOWN_CASES) + settings_of(node, imported, source)


def settings_of(cls, imported, source):
    """The decorators of a class that are Django's settings, and lines that give its attributes again whose values are literals or imported. Of
    decorators that skip, the attributes alone; of others neither."""
    above = []
    for node in cls.decorator_list:
        name = dotted(node.func if isinstance(node, ast.Call) else node)
        if name is not None and name[-1].startswith("skip"):
            continue
        if name is None or name[-1] not in ("override_settings", "modify_settings"):
            return "", ""
        above.append(node)
    if any(one.id not in imported for node in above for one in ast.walk(node) if isinstance(one, ast.Name)):
        return "", ""
    head = ""
    if len(above) == len(cls.decorator_list):
        for line in decoded(source).split("\n")[first_line(cls) - 1:]:
            if line.startswith("class "):
                break
            head += line + "\n"
    elif above:
        return "", ""
    lines = []
    for node in cls.body:
        if not isinstance(node, ast.Assign) or not all(isinstance(one, ast.Name) and not one.id.startswith(("test", "__")) for one in node.targets):
            continue
        words = dotted(node.value)
        try:
            value = ".".join(words) if words and words[0] in imported else repr(ast.literal_eval(node.value))
        except (ValueError, TypeError, SyntaxError):
            continue
        lines += ["    %s = %s\n" % (one.id, value) for one in node.targets]
    return head, "".join(lines)


def dotted(node):
    words = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    words.append(node.id)
    return words[::-1]


def imports_of(source, tree):
    """The head of a module up to its last import, without functions and classes of tests."""
    lines = decoded(source).split("\n")
    last = -1
    for index, node in enumerate(tree.body):
        tried = isinstance(node, ast.Try) and all(isinstance(one, (ast.Import, ast.ImportFrom)) for one in node.body)
        if tried or isinstance(node, (ast.Import, ast.ImportFrom)):
            last = index
    text = []
    done = 0
    for index, node in enumerate(tree.body[: last + 1]):
        end = first_line(tree.body[index + 1]) - 1 if index + 1 < len(tree.body) else len(lines)
        start = max(first_line(node), done + 1)
        end = max(end, first_line(node))
        done = max(done, end)
        if not isinstance(node, ast.ClassDef) and not (is_function(node) and node.name.startswith("test")):
            text.extend(lines[start - 1:end])
    return "\n".join(text) + "\n"


def first_line(node):
    if sys.version_info < (3, 8) and isinstance(node, ast.Expr) and isinstance(node.value, (ast.Str, ast.Constant)):
        # Before Python 3.8 a string of several lines carries the number of its last.
        text = node.value.s if isinstance(node.value, ast.Str) else node.value.value
        return node.lineno - (text.count("\n") if isinstance(text, str) else 0)
    return min([node.lineno] + [one.lineno for one in getattr(node, "decorator_list", [])])


def encoding_of(source):
    import io
    import tokenize

    return tokenize.detect_encoding(io.BytesIO(source).readline)[0]


def decoded(source):
    """As Python reads it: its encoding, its ends of lines."""
    return source.decode(encoding_of(source)).replace("\r\n", "\n").replace("\r", "\n")


# ---------------------------------------------------------------- canaries made of the hidden tests themselves
#
# Each chosen test is written twice into a copy of its module, under random names: once as it is, and once with one assertion
# that honest code cannot satisfy, because the value that it is compared with became another one. Both say when they come to that
# assertion and when they get beyond it, so an exception that the test itself swallows misleads the judgement as little as one that
# came before.

# Before Python 3.10 there is no such statement.
MATCH = getattr(ast, "Match", ())

# By the name of a decorator, never by its arguments: parameters are called `given`, and settings are overridden.
UNCHOSEN = re.compile(r"(?:\w+\.)*(?:given|benchmark|retry|parametrize_from_file)\b|.*\bANY\b", re.S)
# Nothing but the test catches these: a copy that expects another exception would end the whole run.
ENDS_RUNS = re.compile(r"\b(?:KeyboardInterrupt|exit\.Exception|Exit)\b")
# What tests call the value that they want.
EXPECTED = re.compile(r"_*(?:expect|exp(?:_|$)|want|correct|target|reference|ref(?:_|$)|gold|truth|desired)", re.I)
# What a test reads itself by, and how it finds what lies beside it.
OWN_FILE = re.compile(r"\b__file__\b")
BESIDE_OWN_FILE = re.compile(r"dirname\((?:[\w.]*(?:abspath|realpath)\()?\s*__file__|Path\(__file__\)(?:\.\w+\(\))*\.parents?\b")
# With these, tests give code what stands in them without naming it.
LOOKS_AT_TESTS = frozenset(["__doc__", "__code__", "globals", "locals", "vars", "eval", "exec", "inspect", "linecache", "doctest", "getsource", "getdoc",
                            "_getframe", "currentframe", "getmembers", "getfixturevalue", "from_object", "import_module", "modules"])
# What stands in words as it does in a literal.
SAID = re.compile(r"[\w .+-]+$")
# Objects of the tests that compare equal to every value.
MATCHER = re.compile(r"\bANY\b|\b[Aa]ny\w*|[Mm]atch|[Cc]ontain|\bapprox\b|\bHas\w+")
EQUAL_CALLS = frozenset(["assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual",
                         "assertMultiLineEqual", "assertSequenceEqual"])
TEXT_CALLS = frozenset(["assertHTMLEqual", "assertJSONEqual", "assertXMLEqual"])
ALMOST_CALLS = frozenset(["assertAlmostEqual", "assertAlmostEquals"])
LIST_CALLS = frozenset(["assertCountEqual", "assertItemsEqual", "assertQuerysetEqual", "assertQuerySetEqual"])
FINDING_CALLS = frozenset(["assertIn"])
ORDER_CALLS = {"assertLess": "Lt", "assertLessEqual": "LtE", "assertGreater": "Gt", "assertGreaterEqual": "GtE"}
TURNED = ("Eq", "Is", "Lt", "LtE", "Gt", "GtE", "In")
# Of libraries, with the two values in front.
PAIR_CALLS = frozenset(["assert_equal", "assert_equals", "assert_list_equal", "assert_dict_equal", "assert_tuple_equal", "assert_set_equal",
                        "assert_multi_line_equal", "assert_sequence_equal", "eq_"])
CLOSE_CALLS = frozenset(["assert_allclose", "assert_array_equal", "assert_almost_equal", "assert_almost_equals", "assert_array_almost_equal",
                         "assert_approx_equal", "assert_close", "assert_frame_equal", "assert_series_equal", "assert_index_equal",
                         "allclose", "isclose", "array_equal", "array_equiv"])
# All that give what they are given to no code under test.
COMPARING_CALLS = (EQUAL_CALLS | TEXT_CALLS | ALMOST_CALLS | LIST_CALLS | frozenset(ORDER_CALLS) | PAIR_CALLS | CLOSE_CALLS
                   | frozenset(["assertIs", "assertIsNot", "assertIn", "assertNotIn", "assertNotEqual", "assertIsInstance", "assertTrue", "assertFalse"]))
OPPOSITES = {"assertTrue": "assertFalse", "assertFalse": "assertTrue", "assert_": "assertFalse", "assertIsNone": "assertIsNotNone",
             "assertIsNotNone": "assertIsNone"}
# Others that say so by their names; some of them look at a part of what they are given.
SAYS_EQUAL = re.compile(r"assert\w*?([Ee]quals?|[Ii]dentical|_eq)$")
LOOKS_AT_PART = re.compile(r"not|un(equal|ident)|less|greater|shape|type|len|size|keys|column|count|structure|num", re.I)
# What is given there must be found in text.
FOUND_CALLS = {"fnmatch_lines": 0, "fnmatch_lines_random": 0, "re_match_lines": 0, "re_match_lines_random": 0, "assertContains": 1, "assertInHTML": 0}
# Blocks of the tests that may swallow what an assertion raises.
SWALLOWING = re.compile(r"[Rr]aises|suppress|ignor|swallow|expect|[Tt]hrows")
# Blocks of the test runner, which hear what is raised inside.
PART_OF_TEST = re.compile(r"(?:self\.subTest|subtests\.test)\(")
# Methods that are given what an altered statement compares, or that end a block in which it fails.
JUDGING = frozenset(DECIDING) | frozenset(["__hash__", "__bool__", "__len__", "__iter__", "__array__", "__exit__", "__aexit__"])
# What a project calls a function that asserts.
CHECKING = re.compile(r"assert|check|compare|equal|verify|expect", re.I)
# Decorators that want a test to raise.
WANTS_RAISE = re.compile(r"raises|throws|fails?$|should_?(fail|raise)|expect\w*(fail|error|raise|exception)", re.I)
RAISING = frozenset(["raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "assertRaisesMessage", "assert_raises", "assert_raises_regex",
                     "assert_raises_regexp"])
WARNING = frozenset(["warns", "assertWarns", "assertWarnsRegex", "assertWarnsMessage", "assert_warns"])
# With a pattern behind what must fit it.
PATTERN_CALLS = frozenset(["assertRegex", "assertRegexpMatches", "assertRaisesRegex", "assertRaisesRegexp", "assertRaisesMessage",
                           "assertWarnsRegex", "assertWarnsMessage", "assert_raises_regex", "assert_raises_regexp"])
# Of a mock, which code under test is given and may change: none of them holds for one that was not called.
MOCK_CALLS = frozenset(["assert_called", "assert_called_once", "assert_called_with", "assert_called_once_with", "assert_any_call",
                        "assert_has_calls", "assert_awaited", "assert_awaited_once", "assert_awaited_with", "assert_awaited_once_with",
                        "assert_any_await", "assert_has_awaits"])


def turned_canaries(spec, module, source, found, add):
    """Texts by their place: a copy of the module with the chosen tests, and the module itself with those turned that the specification
    names. None of what there is nothing for."""
    text = decoded(source)
    code = source_of(spec, module, text, found)
    focus = focus_of(spec)
    named, copied = chosen_tests(module, source, code, focus)
    is_named = bool(named) or any(is_module_of(module, name) for name in spec["focus"])
    turned = turned_module(module, source, code, named, focus, found, add) if is_named else None
    copy = copied_module(module, source, code, copied, focus, found, add)
    beside = None if turned is None or copy is None else copied_again(spec, module, source, decoded(turned[0]), focus, found, add)
    return [one for one in (("turned", turned), ("copy", copy), ("beside", beside)) if one[1] is not None]


def copied_again(spec, module, source, text, focus, found, add):
    """What the copies are during the rehearsal: of the module as it is then. Nothing is judged by them, but they say what it expects."""
    def unjudged(canary):
        number = add(canary)
        found["canaries"].pop()
        return number

    code = source_of(spec, module, text, found)
    made = copied_module(module, source, code, chosen_tests(module, source, code, focus)[1], focus, found, unjudged)
    return (encoded(text, source), {}) if made is None else made


def source_of(spec, module, text, found):
    parsed = parse(text)
    code = Source(text, parsed, found["names"], helpers_of(spec, module, parsed))
    for level in range(1, module.count(os.sep) + 2):
        code.requested |= requested_in(helper_file(spec, module, "conftest", level))
    return code


def chosen_tests(module, source, code, focus):
    """Those that are rehearsed and those that are copied, with the ways to turn them."""
    # The choice depends on nothing but the tests, so that the gate of a task makes the same.
    chance = random.Random(hashlib.sha256(source).digest())
    chosen = []
    for cls, function in code.functions():
        variants = code.variants(function)
        chance.shuffle(variants)
        # Values of literals first: only they look like the tests' own.
        variants.sort(key=lambda variant: variant.rank)
        chosen.append((function.name not in focus, chance.random(), cls, function, variants))
    chosen.sort(key=lambda one: one[:2])
    named = [one[2:] for one in chosen if not one[0]]
    # A test that knows the name of its module, or reads its file, is another one in a copy.
    stem = os.path.splitext(os.path.basename(module))[0]
    copied = [one for one in chosen if stem not in code.text(one[3]) and not OWN_FILE.search(BESIDE_OWN_FILE.sub("", code.text(one[3])))
              and not code.is_named(label_of(module), one[2], one[3])]
    return named, copied


def once(edits, real):
    """Two tests may expect the same constant, which is altered once. What is given as it was before is so only where nothing else is altered."""
    replaced = set()
    found = []
    for edit in sorted(edits, key=lambda edit: edit[2].startswith(real + "(")):
        first, last = edit[:2]
        if edit not in found and (first == last or not any(one < last and first < other for one, other in replaced)):
            found.append(edit)
            if first != last:
                replaced.add((first, last))
    return found


def turned_module(module, source, code, named, focus, found, add, beside=()):
    """The module in which each of these tests has one assertion that honest code cannot satisfy. In those `beside` them, and in those of which
    there are too many, assertions are altered only where a test goes on after them."""
    keep = {}
    edits = []
    taken = {}
    for cls, function, variants in named[:MAX_CHOSEN]:
        name = name_of_test(cls, function)
        first, inside, outside = code.rehearsed(function, variants)
        # Of two tests of one name the later one is the test.
        taken[name] = first
        edits.append((name, first, inside, outside))
    soft = [code.softened(variants) for _, _, variants in named[MAX_CHOSEN:] + list(beside)]
    for name, first, _, _ in edits:
        if taken[name] is first:
            keep[name] = add({"module": module, "must": "fail", "of": name, "name": name, "what": first.what, "strict": first.strict, "is_turned": True, "calm": first.calm})
    own = [edit for inside in [one[2] for one in edits] + [one[0] for one in soft] for edit in inside]
    wide = [edit for outside in [one[3] for one in edits] + [one[1] for one in soft] for edit in outside]
    for name, made in code.made_tests():
        if name in focus:
            keep[name] = add({"module": module, "must": "fail", "of": name, "name": name, "what": "passed although its maker was given another value"})
            own += made
            wide += made
    keep[WHOLE] = add({"module": module, "must": "fail", "of": WHOLE, "what": "the tests were told what no honest code says, or ended before their end"})
    result = code.with_edits(once(code.in_words(wide) + code.asked_elsewhere(), code.names["real"]), found["helper"])
    if not is_code(result, module):
        result = code.with_edits(once(own, code.names["real"]), found["helper"])
    found.setdefault("reals", []).extend(code.reals)
    found.setdefault("turns", []).extend(code.turns)
    return (encoded(result, source), keep) if compiles(result, module, found, keep) else None


def name_of_test(cls, function):
    return function.name if cls is None else cls.name + "." + function.name


def is_module_of(module, name):
    """Does the name of a test say that it stands in this module? Its function may be one that another has made."""
    stem = os.path.splitext(module)[0]
    return module in name or stem.replace(os.sep, ".") in name or label_of(module) in name.split("(")[-1]


def is_code(result, module):
    try:
        compile(result, module, "exec", dont_inherit=True)
        return True
    except (SyntaxError, ValueError):
        return False


def compiles(result, module, found, keep):
    if is_code(result, module):
        return True
    taken = set(keep.values())
    found["canaries"][:] = [one for one in found["canaries"] if one["c"] not in taken]
    return False


def encoded(result, source):
    return result.decode("utf-8").encode(encoding_of(source))


def copied_module(module, source, code, chosen, focus, found, add):
    """The module with further tests: each of the chosen ones as it is, and with one assertion turned, under random names."""
    if not chosen:
        return None
    keep = {}
    inserts = []
    for number, (unfocused, _, cls, function, variants) in enumerate(chosen[:MAX_CHOSEN]):
        prefix = cls.name + "." if cls is not None else ""
        variants = variants or [code.planted(function)]
        first = variants[0]
        copies = []
        if not unfocused or (not focus and number < MAX_REPEATED):
            # One or two, so that code that counts its calls does not know when the others come.
            copies += [(first.plain, "pass", first.strict, "a copy of the test ended differently")] * random.SystemRandom().choice((1, 2))
        copies += [(one.edits, "fail", one.strict, one.what) for one in variants[: 1 if unfocused else MAX_TURNED]]
        random.SystemRandom().shuffle(copies)
        for edits, must, strict, what in copies:
            name = function.name + "_" + random_word()
            inserts.append((code.end_of(function), code.copy_of(function, name, edits)))
            canary = {"module": module, "must": must, "of": prefix + function.name, "name": name, "what": what, "strict": strict}
            canary["optional"] = function in code.optional
            canary["c"] = add(canary)
            keep[prefix + name] = canary["c"]
            if not unfocused:
                found.setdefault("always", []).append(canary["c"])
            if must == "pass":
                found.setdefault("first", []).append(canary["c"])
    result = code.with_inserts(inserts, found["helper"])
    return (encoded(result, source), keep) if compiles(result, module, found, keep) else None


class Variant(object):
    """An assertion that is turned: the edits that turn it, and the ones that only watch it."""

    def __init__(self, edits, plain, strict, what, rank):
        self.edits = edits
        self.plain = plain
        self.strict = strict
        self.what = what
        self.rank = rank
        # Inside of a block of the code under test, which may swallow what it raises: a failure behind the block would hide that.
        self.in_block = False
        # Where code under test that is honest raises nothing because of it.
        self.calm = NOWHERE if what == RAISED else ANYWHERE
        # Edits outside of the test, for the rehearsal alone: they are in the place of those inside.
        self.wide = None
        # Names of which what they hold is altered, and how.
        self.ways = []
        # The name of what is compared with it.
        self.keeps = None
        self.is_literal = False
        # Where the function cannot return: the edits for that, and those after which the assertion may fail and the test goes on.
        self.closing = None
        self.soft = self.wide_soft = None
        self.at = 0


def order_of(variant):
    return variant.rank, variant.soft is None


class NoEnd(Exception):
    """Of a node whose place in the text is not known for sure."""


class Literals(ast.NodeTransformer):
    """What Python calls constants from version 3.8 on."""

    def constant(self, node, value):
        result = ast.Constant(value)
        return ast.copy_location(result, node)

    def visit_Num(self, node):
        return self.constant(node, node.n)

    def visit_Str(self, node):
        return self.constant(node, node.s)

    def visit_Bytes(self, node):
        return self.constant(node, node.s)

    def visit_NameConstant(self, node):
        return self.constant(node, node.value)

    def visit_Ellipsis(self, node):
        return self.constant(node, Ellipsis)


def parse(text):
    tree = ast.parse(text)
    return tree if sys.version_info >= (3, 8) else Literals().visit(tree)


class Places(object):
    """Begins and ends of nodes for a Python before 3.8, which does not say where they end: a statement ends where its tokens do, and
    an expression with the first token up to which the text means the same."""

    def __init__(self, text):
        import io
        import tokenize

        self.types = tokenize
        self.lines = text.split("\n")
        self.tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        self.index = {}
        for number, token in enumerate(self.tokens):
            if token.string.strip():
                self.index.setdefault(self.place(token.start), number)

    def place(self, position):
        row, column = position
        return row, len(self.lines[row - 1][:column].encode("utf-8"))

    def begin(self, node):
        """The first token of a node; of a function the one behind its decorators."""
        number = self.index.get((node.lineno, node.col_offset))
        if number is None:
            raise NoEnd()
        if is_function(node) or isinstance(node, ast.ClassDef):
            line_begins = True
            while not (line_begins and self.tokens[number].string in ("def", "async", "class")):
                line_begins = self.tokens[number].type in (self.types.NEWLINE, self.types.NL, self.types.COMMENT)
                number += 1
        return number

    def start(self, node):
        return self.place(self.tokens[self.begin(node)].start)

    def end(self, node):
        number = self.begin(node)
        return self.place(self.tokens[self.last_of(node, number) if isinstance(node, ast.stmt) else self.last_part(node, number)].end)

    def last_of(self, node, number):
        """A block ends with the line before it goes back, another statement with its line or a semicolon."""
        blocks = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try)
        depth = brackets = 0
        last = number
        while number < len(self.tokens):
            token = self.tokens[number]
            if token.type == self.types.INDENT:
                depth += 1
            elif token.type == self.types.DEDENT:
                depth -= 1
                if depth <= 0:
                    return last
            elif token.type == self.types.NEWLINE:
                following = [one.type for one in self.tokens[number + 1:number + 40] if one.type not in (self.types.NL, self.types.COMMENT)]
                if depth == 0 and following[:1] != [self.types.INDENT]:
                    return last
            elif token.type == self.types.OP and token.string in "([{":
                brackets += 1
            elif token.type == self.types.OP and token.string in ")]}":
                brackets -= 1
            elif token.string == ";" and brackets == 0 and not isinstance(node, blocks):
                return last
            if token.string.strip() and token.type != self.types.COMMENT:
                last = number
            number += 1
        return last

    def last_part(self, node, first):
        wanted = ast.dump(node)
        begin = self.tokens[first].start
        for number in range(first, min(first + 400, len(self.tokens))):
            token = self.tokens[number]
            if token.type == self.types.NEWLINE:
                break
            if token.type in (self.types.NL, self.types.COMMENT):
                continue
            row, column = token.end
            lines = self.lines[begin[0] - 1:row]
            lines[-1] = lines[-1][:column]
            lines[0] = lines[0][begin[1]:]
            try:
                found = Literals().visit(ast.parse("(" + "\n".join(lines) + "\n)", mode="eval"))
            except (SyntaxError, ValueError):
                continue
            if ast.dump(found.body) == wanted:
                return number
        raise NoEnd()


class Source(object):
    """A module's text with edits by position. Positions count bytes of UTF-8, as those of nodes do."""

    def __init__(self, text, tree, names, helpers):
        self.data = text.encode("utf-8")
        self.tree = tree
        self.names = names
        self.helpers = helpers
        self.places = Places(text) if sys.version_info < (3, 8) else None
        self.ends = {}
        self.others = {}
        self.kept = None
        # Where expectations are compared by their names.
        self.bases = set()
        # Literals that were altered where they stand and are given to calls as they were: new and old texts.
        self.reals = []
        # Literals that were altered, with what they were.
        self.turns = []
        # Do the tests give themselves, or all that they hold, to code under test?
        words = {getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(tree)} | {alias.name for node in ast.walk(tree) for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)}
        self.looks_at_itself = bool(words & LOOKS_AT_TESTS)
        # What fixtures take under the name of a parameter may reach code under test.
        self.requested = requested_in([tree])
        self.optional = set()
        self.inline = False
        # Both sides of what is compared anywhere, and the names that lead to functions that say whether two values are equal.
        self.sides = set(sides_in(tree))
        self.asserted = self.sides | set(only_asserted_in(tree))
        self.tables = {id(one) for one in tables_in(tree)}
        self.answers = answers_of(tree)
        self.matchers = matchers_in(tree)
        self.bound = set(bound_names(tree))
        self.speaks_of_interrupts = ENDS_RUNS.search(text) is not None
        self.imported = {(alias.asname or alias.name).split(".")[0] for one in ast.walk(tree) if isinstance(one, (ast.Import, ast.ImportFrom)) for alias in one.names}
        self.starts = [0]
        for index, byte in enumerate(self.data):
            if byte == 10:
                self.starts.append(index + 1)

    def at(self, line, column):
        return self.starts[line - 1] + column

    def start(self, node):
        return self.at(node.lineno, node.col_offset) if self.places is None else self.at(*self.places.start(node))

    def end(self, node):
        return self.at(*self.place_of_end(node))

    def place_of_end(self, node):
        if self.places is None:
            return node.end_lineno, node.end_col_offset
        if node not in self.ends:
            self.ends[node] = self.places.end(node)
        return self.ends[node]

    def text(self, node):
        return self.data[self.start(node):self.end(node)].decode("utf-8")

    def line_end(self, line):
        return self.starts[line] if line < len(self.starts) else len(self.data)

    def end_of(self, function):
        return self.line_end(self.place_of_end(function)[0])

    def functions(self):
        return self.functions_in(self.tree.body, None, False)

    def functions_in(self, body, cls, is_optional):
        """Of classes inside of classes too, and of blocks that may not run."""
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from self.functions_in(node.body, node, is_optional)
            elif is_function(node):
                try:
                    if self.may_copy(node):
                        if is_optional:
                            self.optional.add(node)
                        yield cls, node
                except NoEnd:
                    continue
            elif isinstance(node, (ast.If, ast.Try)):
                for part in [node.body, node.orelse] + [one.body for one in getattr(node, "handlers", [])]:
                    yield from self.functions_in(part, cls, True)

    def may_copy(self, function):
        if not function.name.startswith("test") or self.starts[first_line(function.body[0]) - 1] <= self.start(function):
            return False
        if any(UNCHOSEN.match(self.text(one)) for one in function.decorator_list):
            return False
        if any(WANTS_RAISE.search(word) and not (word == "raises" and getattr(one, "args", ())) for one in function.decorator_list for word in names_in(one)):
            return False
        # Something else on the last line, or a name that is used inside.
        rest = self.data[self.end(function):self.end_of(function)].strip()
        before = self.data[self.starts[first_line(function) - 1]:self.at(first_line(function), 0) + function.col_offset].strip()
        return (rest == b"" or rest.startswith(b"#")) and before in (b"", b"@")

    def is_named(self, label, cls, function):
        """Does a test name itself, or name a decorator of it, or its class outside of tests, this module? Its copies have other names."""
        around = [] if cls is None else [one for one in cls.body if not is_function(one) or not one.name.startswith("test")]
        around = [(label, node) for node in around + function.decorator_list + getattr(cls, "decorator_list", [])]
        own = [(function.name, node) for node in function.body if function.name != "test"]
        return any(name in one.value for name, node in around + own for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))

    def copy_of(self, function, name, edits):
        start, end = self.starts[first_line(function) - 1], self.end_of(function)
        head = re.compile(br"(?:async\s+)?def\s+" + function.name.encode("utf-8")).match(self.data, self.start(function))
        edits = edits + [(head.end() - len(function.name.encode("utf-8")), head.end(), name)]
        result = self.data[start:end]
        # Of two edits at one place the one that was given first comes to stand in front.
        for first, last, text in sorted(reversed(edits), key=lambda edit: edit[0], reverse=True):
            result = result[: first - start] + text.encode("utf-8") + result[last - start:]
        return b"\n" + (result if result.endswith(b"\n") else result + b"\n")

    def with_edits(self, edits, helper):
        result = self.data
        # Of two edits at one place the one that was given first comes to stand in front.
        for first, last, text in sorted(reversed(edits), key=lambda edit: edit[0], reverse=True):
            result = result[:first] + text.encode("utf-8") + result[last:]
        place, imports = self.imports(helper)
        return result[:place] + imports + result[place:]

    def imports(self, helper):
        imports = "from %s import %s\n" % (helper, ", ".join("%s as %s" % pair for pair in sorted(self.names.items()) if pair[0] in HELPERS))
        place = 0
        for index, node in enumerate(self.tree.body):
            is_text = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                place = self.starts[first_line(node) - 1]
                break
        return place, imports.encode("ascii")

    def with_inserts(self, inserts, helper):
        place, imports = self.imports(helper)
        result = self.data
        by_place = {}
        for position, text in inserts:
            by_place[position] = by_place.get(position, b"") + text
        for position in sorted(by_place, reverse=True):
            glue = b"" if result[:position].endswith(b"\n") else b"\n"
            result = result[:position] + glue + by_place[position] + result[position:]
        return result[:place] + imports + result[place:]

    # ---- what can be turned

    def variants(self, function):
        found = []
        self.function = function
        self.loads = [node.id for node in ast.walk(function) if isinstance(node, ast.Name)]
        wanted = [one for one in function.decorator_list if any(WANTS_RAISE.search(word) for word in names_in(one))]
        if wanted:
            # No assertion of it has to be reached.
            found = []
            for kinds in [one.args for one in wanted if isinstance(one, ast.Call) and one.args]:
                edits = [(self.end(kinds[0]), self.end(kinds[-1]), "")] if len(kinds) > 1 else []
                found += [Variant(self.replace(kinds[0], value) + edits, [], ALWAYS, RAISED, rank) for value, rank in self.unlike(kinds[0], "problem")]
            return found
        closed = self.closed(function)
        self.bases = set()
        self.walk(function.body, IF_REACHED if closed is None else ALWAYS, found)
        for variant in found:
            # What one of them compares is not given to a call, for another either.
            for name in ("edits", "wide", "soft", "wide_soft"):
                edits = getattr(variant, name)
                if edits is not None:
                    setattr(variant, name, [edit for edit in edits if edit[:2] not in self.bases or not edit[2].startswith(self.names["real"])])
        for variant in found:
            if variant.in_block and any(edit[2].startswith(self.names["real"] + "(") for edit in variant.edits):
                # The block may swallow by design what the test does not raise by itself: any other assertion says more.
                variant.rank += 2
            if variant.strict == IF_SURVIVED or variant.rank > 0:
                # What is asserted there may be wrong, or mean another value too.
                variant.soft = None
            if closed is not None and not variant.in_block:
                variant.closing = closed
                variant.edits = variant.edits + closed
                variant.strict = ALWAYS
        return found

    def rehearsed(self, function, variants):
        """The first variant, with edits for it and for all assertions beside it that may fail without an end of the test: code may compute what it
        can, and look up the rest. Edits within the test, and those that are also outside of it."""
        first = min(variants, key=order_of) if variants else self.planted(function)
        is_soft = first.closing is not None and first.soft is not None
        own, wide = self.softened(variants, [] if is_soft else [first])
        last = first.closing if is_soft else first.edits
        return first, own + last, wide + (last if is_soft or first.wide is None else first.wide)

    def softened(self, variants, taken=()):
        """Edits for all assertions that may fail without an end of the test, beside these that are altered in another way."""
        own, wide = [], []
        places = {one.at for one in taken}
        ways = {name: way for one in taken for name, way in one.ways}
        keeps = {one.keeps for one in taken}
        for one in sorted(variants, key=order_of):
            # What is altered in two ways may be what it was.
            if one.soft is not None and one.at not in places and all(ways.get(name, way) == way for name, way in one.ways):
                # Nor may both of two that are equal be.
                if one.keeps in ways or any(name in keeps for name, _ in one.ways):
                    continue
                places.add(one.at)
                ways.update(one.ways)
                keeps.add(one.keeps)
                own += one.soft
                wide += one.soft if one.wide_soft is None else one.wide_soft
        return own, wide

    def closed(self, function):
        """Edits after which a function cannot return: code under test may end a test before it comes to any assertion, and have it
        called passed. None where that cannot be had."""
        nodes = list(own_nodes(function))
        if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes):
            return None
        fail = "raise AssertionError('x')"
        try:
            # What is returned is still made: a rehearsal looks at it.
            edits = [edit for node in nodes if isinstance(node, ast.Return)
                     for edit in self.replace(node, fail if node.value is None else "raise AssertionError('x', (%s) is None)" % self.text(node.value))]
        except NoEnd:
            return None
        at = self.end_of(function)
        glue = "" if self.data[:at].endswith(b"\n") else "\n"
        return edits + [(at, at, "%s%s%s\n" % (glue, self.indent_of(function.body[0]), fail))]

    def indent_of(self, node):
        return re.match(br"[ \t]*", self.data[self.starts[first_line(node) - 1]:]).group().decode("ascii")

    def planted(self, function):
        """Of a test of which no assertion can be turned: a failure at its end, or at its begin where it may not come to its end."""
        what = "passed although a failure was planted in it"
        closed = self.closed(function)
        if closed is not None:
            return Variant(closed, [], ALWAYS, what, 9)
        start = self.starts[first_line(function.body[0]) - 1]
        indent, mark = self.indent_of(function.body[0]), self.names["mark"]
        text = "%s%s(1)\n" % (indent, mark)
        return Variant([(start, start, "%s%sraise AssertionError('x')\n%s%s(2)\n" % (text, indent, indent, mark))], [(start, start, text)],
                       IF_REACHED, what, 9)

    def walk(self, body, strict, found):
        for node in body:
            try:
                self.turn(node, strict, found)
            except NoEnd:
                continue

    def turn(self, node, strict, found):
        if isinstance(node, ast.Assert):
            found.extend(list(self.of_assert(node, strict)))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found.extend(list(self.of_call(node, node.value, strict)))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            turned = self.of_with(node, strict)
            found.extend(turned)
            if not turned:
                swallows = any(SWALLOWING.search(self.text(one.context_expr)) for one in node.items)
                before = len(found)
                self.walk(node.body, IF_SURVIVED if swallows else min(strict, IF_REACHED), found)
                is_runners = all(PART_OF_TEST.match(self.text(one.context_expr)) for one in node.items)
                for variant in found[before:]:
                    variant.in_block = variant.in_block or not (swallows or is_runners)
        elif is_function(node):
            # It may run where what it raises is swallowed.
            self.walk_inline(node.body, IF_SURVIVED, found)
        elif isinstance(node, ast.If) and compared_in(node) and not self.text(node).startswith("elif"):
            before, self.inline = self.inline, True
            for pair in compared_in(node):
                what = "passed although `%s` is compared with another value" % self.text(node.test)[:80]
                turned = list(self.of_pair(node, "Eq", pair, strict, what))
                for variant in turned:
                    # The test may go another way then.
                    variant.calm = NOWHERE
                found.extend(turned)
            self.inline = before
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try)):
            inner = IF_SURVIVED if isinstance(node, ast.Try) else min(strict, IF_REACHED)
            for part in ("body", "orelse", "finalbody"):
                self.walk(getattr(node, part, []), inner, found)
            for handler in getattr(node, "handlers", []):
                self.walk(handler.body, inner, found)
                if handler.type is not None:
                    for value, rank in self.unlike(handler.type, "problem", True):
                        found.extend(self.entered(handler.body, self.replace(handler.type, value), RAISED, rank))
        elif isinstance(node, MATCH):
            for case in node.cases:
                self.walk(case.body, IF_SURVIVED, found)
                values = [one.value for one in ast.walk(case.pattern) if type(one).__name__ == "MatchValue"]
                for value in [one for one in values if self.altered(one)][:1]:
                    what = "passed although `%s` is matched with another value" % self.text(node.subject)[:80]
                    found.extend(self.entered(case.body, self.replace(value, self.altered(value)[-1]), what, 0))

    def entered(self, body, change, what, rank):
        """A block that honest code cannot come to any more."""
        first = body[0]
        if is_function(first) or isinstance(first, ast.ClassDef):
            return []
        is_block = hasattr(first, "body") or isinstance(first, MATCH)
        glue = "\n" + self.indent_of(first) if is_block else "; "
        at = self.start(first)
        return [Variant(change + [(at, at, self.names["mark"] + "(2)" + glue)], [], IF_SURVIVED, what, rank)]

    def walk_inline(self, body, strict, found):
        """Where a name cannot be bound again before the statement."""
        before, self.inline = self.inline, True
        self.walk(body, strict, found)
        self.inline = before

    def watched(self, node, change):
        """Edits of a statement that stays one, with marks on both sides of it: on lines of their own where it has its lines for itself, so
        that code that reads it finds what it finds in the hidden tests."""
        mark = self.names["mark"]
        first, last = self.starts[node.lineno - 1], self.line_end(self.place_of_end(node)[0])
        indent, rest = self.data[first:self.start(node)], self.data[self.end(node):last].strip()
        if indent.strip() or (rest and not rest.startswith(b"#")):
            reach = [(self.start(node), self.start(node), mark + "(1); ")]
            survive = [(self.end(node), self.end(node), "; " + mark + "(2)")]
        else:
            space = indent.decode("ascii")
            glue = "" if self.data[:last].endswith(b"\n") else "\n"
            reach = [(first, first, "%s%s(1)\n" % (space, mark))]
            survive = [(last, last, "%s%s%s(2)\n" % (glue, space, mark))]
        return reach + change + survive, reach + survive

    def turned(self, node, value, is_bound=True, test=None):
        """Keeps what an expected literal of a test becomes, of another function what it becomes for all: it may be what another test computes. A collection with a name may be changed by the code that is given it."""
        if is_literal(node) and not (is_bound and isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set))):
            name = self.function.name if test is None else test
            self.turns.append((name if name.startswith("test") else None, value, self.text(node)))

    def is_asked_first(self, node, kept, replaced):
        """Does a statement compare what it calls with something, and nothing else? If it raises before, the call did."""
        is_plain = kept is not None and has_call(kept) and not has_call(replaced)
        test = node.test if isinstance(node, ast.Assert) else None
        call = node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        return is_plain and ((isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.In)) and replaced in (test.left, test.comparators[0]))
                             or (call is not None and getattr(call.func, "attr", None) in EQUAL_CALLS | FINDING_CALLS and replaced in call.args[:2]))

    def other(self):
        return self.names["other"]

    def replace(self, node, text):
        return [(self.start(node), self.end(node), text)]

    def around(self, node, before, after):
        """What stands inside may be altered too."""
        return [(self.start(node), self.start(node), before), (self.end(node), self.end(node), after)]

    def of_assert(self, node, strict):
        test = node.test
        compare = test if isinstance(test, ast.Compare) and len(test.ops) == 1 else None
        turned = 0
        what = "passed although `%s` is compared with another value" % self.text(test)[:80]
        for variant in self.of_answers(node, test, strict):
            turned += 1
            yield variant
        for operator, pair in needed(test):
            for variant in self.of_pair(node, operator, pair, strict, what):
                turned += 1
                yield variant
        for variant in self.of_distance(node, test, strict) if isinstance(test, ast.Compare) else ():
            turned += 1
            yield variant
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            change = self.of_each(test.values)
            if change:
                edits, plain = self.watched(node, change)
                yield Variant(edits, plain, strict, what, 0)
                return
        if turned or (compare is not None and type(compare.ops[0]).__name__ in TURNED):
            return
        if compare is not None:
            pair = (compare.left, compare.comparators[0])
            operator = type(compare.ops[0]).__name__
            if operator == "NotEq" and not is_literal(pair[0]):
                held = self.names["held"]
                text = "%s = (%s); assert %s != (%s); " % (held, self.text(pair[0]), held, self.text(pair[1]))
                yield self.held(node, text, "assert %s != %s" % (held, held), strict, "is not equal to itself")
                return
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in ("isinstance", "issubclass") and len(test.args) == 2:
            yield from self.of_error(node, test.args[1], strict)
            if test.func.id == "isinstance":
                yield from self.of_instance(node, test.args, strict)
                return
        if is_literal(test) or isinstance(test, (ast.GeneratorExp, ast.Tuple, ast.Starred)):
            return
        if any(isinstance(one, ast.Call) for one in ast.walk(test)):
            edits, plain = self.watched(node, self.around(test, "not (", ")"))
            yield Variant(edits, plain, strict, "passed although the opposite of `%s` is asserted" % self.text(test)[:80], 2)
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        held = self.names["held"]
        inner = test.operand if negated else test
        if isinstance(inner, ast.Starred):
            return
        signs = ("not ", "") if negated else ("", "not ")
        text = "%s = (%s); assert %s%s; " % (held, self.text(inner), signs[0], held)
        yield self.held(node, text, "assert %s%s" % (signs[1], held), strict, "is true and false")

    def of_distance(self, node, test, strict):
        """A small difference, and what lies between two numbers: honest code is not near what is far from it."""
        sides = [test.left] + test.comparators
        names = [type(one).__name__ for one in test.ops]
        numbers = [ast.literal_eval(one) if isinstance(one, ast.Constant) and type(one.value) in (int, float) else None for one in (sides[0], sides[-1])]
        what = "passed although `%s` is compared with another value" % self.text(test)[:80]
        if len(sides) == 3 and None not in numbers and len({one[:2] for one in names}) == 1 and names[0][:2] in ("Lt", "Gt"):
            far_off = (abs(numbers[0] - numbers[1]) + 1) * random.SystemRandom().randrange(1000, 100000)
            change = [edit for one, number in zip((sides[0], sides[-1]), numbers) for edit in self.replace(one, "%r" % (number + far_off))]
            # Before one bound alone is out of reach.
            yield self.variant(node, [], change, None, strict, what, -1)
        elif len(sides) == 2:
            small, limit = sides if names[0] in ("Lt", "LtE") else sides[::-1] if names[0] in ("Gt", "GtE") else (None, None)
            yield from self.of_small(node, small, limit, strict, what) if small is not None else ()

    def of_small(self, node, small, limit, strict, what):
        try:
            is_small = made_of_literals(limit) and 0 <= value_of(limit) <= 100
        except Exception:
            is_small = False
        difference = small.args[0] if isinstance(small, ast.Call) and getattr(small.func, "id", getattr(small.func, "attr", None)) in ("abs", "fabs") and len(small.args) == 1 else None
        if is_small and isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub):
            yield from self.of_pair(node, "Close", (difference.left, difference.right), strict, what)

    def of_answers(self, node, test, strict):
        """Calls that say whether two values are equal, and lists that are asked for one."""
        for call in [test] + (test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else []):
            what = "passed although `%s` is given another value" % self.text(call)[:80]
            if isinstance(call, ast.Call) and getattr(call.func, "id", None) in self.answers:
                sides, parameters = self.answers[call.func.id]
                given = argument_of(call, parameters)
                if all(side in given for side in sides):
                    yield from self.of_pair(node, "Eq", tuple(given[side] for side in sides), strict, what)
            looked = call.left if isinstance(call, ast.Compare) and len(call.ops) == 1 else call
            least = call.comparators[0] if looked is not call else None
            if least is not None and not (isinstance(call.ops[0], ast.Eq) and isinstance(least, ast.Constant) and type(least.value) is int):
                continue
            method = looked.func.attr if isinstance(looked, ast.Call) and isinstance(looked.func, ast.Attribute) else None
            if method == "index" or (method == "count" and (least is None or least.value > 0)):
                yield from self.of_look(node, looked, strict, what)

    def of_look(self, node, call, strict, what):
        """A list that is known to be one does not hold what is far from all that it holds."""
        place = call.func.value
        if isinstance(place, ast.Name):
            bound = [one.value for one in own_nodes(self.function) if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", None) == place.id]
            place = bound[0] if len(bound) == 1 else None
        if isinstance(place, (ast.List, ast.ListComp)) and len(call.args) == 1 and is_literal(call.args[0]):
            for value in self.altered(call.args[0])[-1:]:
                edits, plain = self.watched(node, self.replace(call.args[0], value))
                yield Variant(edits, plain, strict, what, -1)

    def of_each(self, tests):
        """Edits that turn all of these comparisons, none where one of them cannot be."""
        change = []
        for test in tests:
            pairs = [pair for operator, pair in needed(test) if operator == "Eq"]
            sides = [(kept, replaced) for pair in pairs[:1] for kept, replaced in (pair[::-1], pair) if not is_literal(kept)]
            if not sides or MATCHER.search(self.text(sides[-1][0])):
                return []
            replaced = sides[-1][1]
            change += self.replace(replaced, (self.altered(replaced) or ["%s((%s))" % (self.names["alter"], self.text(replaced))])[-1])
        return change

    def of_error(self, node, expected, strict):
        if self.known_error(expected) is not None:
            for value, rank in self.unlike(expected, "problem")[:1]:
                edits, plain = self.watched(node, self.replace(expected, value))
                yield Variant(edits, plain, strict, "is an exception of every kind", rank)

    def of_instance(self, node, pair, strict):
        edits, plain = self.watched(node, self.replace(pair[1], self.names["kind"]))
        yield Variant(edits, plain, strict, "is an instance of every class", 2)
        if self.text(pair[1]) != "object":
            edits, plain = self.watched(node, self.replace(pair[0], self.other()))
            yield Variant(edits, plain, strict, "has every object as an instance", 2)

    def held(self, node, text, turned, strict, what):
        """The value is made once, found right, and then must not be wrong as well."""
        mark = self.names["mark"]
        edits = self.replace(node, text + "%s(1, %s); %s; %s(2)" % (mark, self.names["held"], turned, mark))
        plain = self.watched(node, [])[1]
        return Variant(edits, plain, strict, "what the test looks at " + what, 3)

    def of_pair(self, node, operator, pair, strict, what):
        """Of `kept`, which the code under test has made, and of what the tests compare it with. None for a side that is made elsewhere."""
        for kept, replaced in (pair, pair[::-1]) if operator != "Pattern" else (pair,):
            if replaced is None or (kept is not None and (made_of_literals(kept) or self.is_matcher(kept))):
                continue
            self.kept = kept
            base = base_of_side(replaced)[0]
            if base is not None:
                self.bases.add((self.start(base), self.end(base)))
            # Of two sides the one that calls something is rather what the code under test has made.
            late = 0 if kept is None or self.is_made(kept) or not self.is_made(replaced) else 2
            if kept is not None and all(isinstance(one, ast.Name) and self.is_made(one, has_call) and not self.is_made(one) for one in pair):
                # Two objects of the project, of which neither says what the other must be: its classes may call them equal by design.
                late = 2
            if late == 0 and isinstance(kept, ast.Name) and EXPECTED.match(kept.id) and not EXPECTED.match(getattr(replaced, "id", "")):
                late = 2
            variant = self.of_name(node, operator, kept, replaced, strict, what, late) if operator in EITHER or (operator in ONE_SIDE and replaced is pair[ONE_SIDE[operator]]) else None
            if variant is not None:
                yield variant
                continue
            values = self.instead(operator, replaced, replaced is pair[1], strict)
            for at, (value, rank) in enumerate(values):
                is_turned = operator in ("Eq", "In") and self.is_asked_first(node, kept, replaced)
                if operator in ("Eq", "In", "Close") and strict != IF_SURVIVED:
                    self.turned(replaced, value, False)
                variant = self.variant(node, [], self.replace(replaced, value), None, strict, what, rank + late, is_turned, makes_expected(replaced))
                variant.is_literal = is_literal(replaced)
                if at == 0 and len(values) == 2 and values[1][1] == rank:
                    # Where a test goes on after it, the next value of a counter may be the one that is like the expected one.
                    variant.soft = None
                yield variant

    def of_name(self, node, operator, kept, replaced, strict, what, rank):
        """An expectation that is altered where it gets its value, None for those that are altered where they are compared."""
        if kept is not None and self.is_on_both(kept, replaced):
            return None
        way = "shift" if operator in EITHER and "approx" in self.text(replaced) else WAYS[operator]
        change = self.altered_name(node, kept, replaced, way)
        wide = self.altered_afar(replaced, way)
        if change is None and (wide is None or operator not in EITHER):
            return None
        inside = [] if change is not None else self.around(replaced, self.names["alter"] + "(", ")")
        variant = self.variant(node, change or [], inside, wide, strict, what, rank, operator in ("Eq", "In") and self.is_asked_first(node, kept, replaced))
        base = base_of_side(replaced)[0]
        if base is not None:
            variant.keeps = getattr(base_of_side(kept)[0], "id", None)
            variant.ways = [(base.id, (way, change is None, wide is None))]
        if self.is_made(replaced):
            # Altered, it would fail the other assertions as well.
            variant.soft = None
        return variant

    def is_on_both(self, kept, replaced):
        """Would both sides be altered alike? What a call of the code under test is given is not."""
        base, key = base_of_side(replaced)
        for one in ast.walk(kept):
            if base is None:
                found = isinstance(one, ast.Attribute) and one.attr == getattr(replaced, "attr", None)
            elif key is None:
                found = isinstance(one, ast.Name) and one.id == base.id
            else:
                found = key_of(one) == key[0] and getattr(one.value, "id", None) == base.id
            if found and (id(one) in self.asserted or key is not None):
                return True
        return False

    def is_made(self, node, counts=None):
        """Does it call something, or is it a local that was given what a call made?"""
        counts = counts or is_called
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        bound = [(one.targets, one.value) for one in ast.walk(self.function) if isinstance(one, ast.Assign)]
        bound += [([item.optional_vars], item.context_expr) for one in ast.walk(self.function) if isinstance(one, (ast.With, ast.AsyncWith)) for item in one.items]
        return counts(node) or any(counts(value) and getattr(one, "id", None) in names for targets, value in bound for target in targets
                                     if target is not None for one in ast.walk(target))

    def variant(self, node, before, inside, wide, strict, what, rank, is_turned=False, may_raise=False):
        """Of a statement: edits in front of it, of itself, and those that are in the place of both in a rehearsal. `is_turned`: does the statement
        compare with a plain literal? `may_raise`: is code given an altered literal in it?"""
        edits, plain = self.watched(node, inside)
        found = Variant(before + edits, plain, strict, what, rank)
        found.at = node.lineno
        found.calm = BEFORE_IT if may_raise else found.calm
        found.wide = None if wide is None else wide + plain
        first, last = self.starts[node.lineno - 1], self.line_end(self.place_of_end(node)[0])
        indent, rest = self.data[first:self.start(node)].decode("utf-8"), self.data[self.end(node):last].strip()
        if isinstance(node, (ast.Assert, ast.Expr)) and not indent.strip() and (not rest or rest.startswith(b"#")):
            glue = "" if self.data[:last].endswith(b"\n") else "\n"
            begin = [(self.start(node), self.start(node), "try: ")]
            mark = self.names["mark"]
            failed = mark + "(3)" if is_turned else "pass" if may_raise else mark + "(4)"
            end = [(last, last, "%s%sexcept Exception: %s\n%selse: %s(2)\n" % (glue, indent, failed, indent, mark))]
            # What stands in front of it on its line comes to stand inside of the block.
            found.soft = begin + before + inside + end
            found.wide_soft = None if wide is None else wide + begin + end
        return found

    def altered_name(self, node, kept, replaced, way="alter"):
        """A local that holds what is expected becomes another value where it is bound, so that code that looks for it finds that."""
        base, key = base_of_side(replaced)
        if base is None or kept is None or self.inline:
            return None
        name = base.id
        if any(isinstance(one, ast.Name) and one.id == name for node in ast.walk(self.function) if isinstance(node, ast.comprehension)
               for one in ast.walk(node.target)):
            return None
        arguments = self.function.args
        parameters = [one.arg for one in arguments.args + arguments.kwonlyargs + getattr(arguments, "posonlyargs", [])]
        binders = [one for one in ast.walk(self.function) if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)]
        if not binders and name not in parameters:
            return None
        in_kept = [one for one in ast.walk(kept) if isinstance(one, ast.Name) and one.id == name]
        edits = None
        if self.is_only_asserted(name, base, key) and not (in_kept and key is None):
            edits = self.where_bound(name, name in parameters, binders, self.change(name, key, way), way)
            edits = edits or (self.behind_last(node, name, base, self.change(name, key, way)) if key is None else None)
        elif key is None:
            # Where the test gives it to a call, it gives what was there.
            given = self.given(name, base)
            change = self.change(name, key, "away" if way == "alter" else way)
            edits = given and self.where_bound(name, name in parameters, binders, change, "away" if way == "alter" else way)
            edits = edits + given if edits else self.behind_last(node, name, base, change)
        if edits or in_kept or key is not None or base is not replaced:
            return edits or None
        if way != "alter" or self.is_taken_later(name, self.function.body):
            return None
        # Else it is altered behind all that the code under test may make of it.
        return [(self.start(node), self.start(node), self.change(name, None, "alter") + "; ")] if has_call(kept) else None

    def change(self, name, key, way):
        if way == "unlike":
            number = int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:4], "big")
            return "%s = %s(%s, %d)" % (name, self.names[way], name, number)
        if key is None:
            return "%s = %s(%s)" % (name, self.names[way], name)
        return "%s = %s(%s, %r, %s)" % (name, self.names["part"], name, key, self.names[way])

    def is_taken_later(self, name, body):
        """Does something that may be called later take what a local holds then?"""
        return any(inner.id == name and id(inner) not in self.asserted for one in body for scope in ast.walk(one)
                   if is_function(scope) or isinstance(scope, (ast.Lambda, ast.ClassDef, ast.GeneratorExp)) for inner in ast.walk(scope) if isinstance(inner, ast.Name))

    def behind_last(self, node, name, side, change):
        """Behind the last statement that makes a local what it is, where it is made in steps: a statement of the function itself, before the
        one with the assertion, after which the local is only compared, or given to calls as it was."""
        body = self.function.body
        at = next((at for at, one in enumerate(body) if node in list(ast.walk(one))), None)
        if at is None:
            return None
        last = None
        for place, one in enumerate(body[:at]):
            loads = [inner for inner in ast.walk(one) if isinstance(inner, ast.Name) and inner.id == name]
            steps = {id(inner.value) for inner in ast.walk(one) if isinstance(inner, (ast.Attribute, ast.Subscript))}
            if any(not isinstance(inner.ctx, ast.Load) or id(inner) in steps and id(inner) not in self.asserted for inner in loads):
                last = place
        if last is None or is_function(body[last]) or isinstance(body[last], ast.ClassDef):
            return None
        if self.is_taken_later(name, body[:last + 1]):
            return None
        rest = [inner for one in body[last + 1:] for inner in ast.walk(one) if isinstance(inner, ast.Name) and inner.id == name]
        if any(not isinstance(one.ctx, ast.Load) for one in rest):
            return None
        given = self.given_from(self.function, side, rest)
        end = self.line_end(self.place_of_end(body[last])[0])
        tail = self.data[self.end(body[last]):end].strip()
        if given is None or (tail and not tail.startswith(b"#")):
            return None
        return [(end, end, "%s%s\n" % (self.indent_of(body[last]), change))] + given

    def given(self, name, side):
        """Edits that give all calls what a local held before; None where it may be changed, or is used elsewhere."""
        return self.given_from(self.function, side, [one for one in ast.walk(self.function) if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)])

    def given_from(self, tree, side, loads):
        parents = {one: node for node in ast.walk(tree) for one in ast.iter_child_nodes(node)}
        found = []
        for one in loads:
            if one is side or id(one) in self.asserted:
                continue
            over = parents.get(one)
            over = parents.get(over) if isinstance(over, ast.keyword) else over
            if not isinstance(over, (ast.Call, ast.BinOp, ast.List, ast.Tuple, ast.Dict, ast.Compare)) or over is None:
                return None
            found += self.replace(one, "%s(%s)" % (self.names["real"], self.text(one)))
        return found

    def is_only_asserted(self, name, side, key=None, depth=0):
        """Is a local only compared and shown, also part by part in a loop? Of a part of it: are the others used by themselves?"""
        loops = [(set(map(id, ast.walk(one.iter))), [part.id for part in ast.walk(one.target) if isinstance(part, ast.Name)])
                 for one in ast.walk(self.function) if isinstance(one, (ast.For, ast.AsyncFor, ast.comprehension))
                 and all(getattr(call.func, "attr", getattr(call.func, "id", None)) in PARTS for call in ast.walk(one.iter) if isinstance(call, ast.Call))]
        if key is not None and not all(way == "entry" for way, _ in key) and not self.is_record_of_tests(name):
            # Its methods and its other attributes may be made of that part.
            return False
        others = {id(one.value) for one in ast.walk(self.function) if key is not None and isinstance(one, (ast.Attribute, ast.Subscript)) and (key_of(one) or key)[0] == key[0][0]
                  and key_of(one) != key[0]}
        others |= {id(one.value) for one in ast.walk(self.function) if key is not None and id(one) in self.asserted and key_of(one) == key[0]}
        return name != "self" and all(
            one is side or id(one) in others or (key is None and id(one) in self.asserted)
            or (depth < 3 and any(id(one) in inside and all(self.is_only_asserted(part, None, None, depth + 1) for part in parts) for inside, parts in loops))
            for one in ast.walk(self.function) if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load))

    def is_record_of_tests(self, name):
        """Is a local made by classes of this file that do no more than hold what they are given?"""
        plain = {one.name for one in ast.walk(self.tree) if isinstance(one, ast.ClassDef) and all(isinstance(inner, (ast.AnnAssign, ast.Pass, ast.Expr)) for inner in one.body)}
        plain |= {target.id for one in ast.walk(self.tree) if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and (dotted(one.value.func) or [""])[-1] == "namedtuple"
                  for target in one.targets if isinstance(target, ast.Name)}
        made = [one.value for one in ast.walk(self.function) if isinstance(one, ast.Assign) and any(getattr(target, "id", None) == name for target in one.targets)]
        for row in self.rows_of(name):
            made += row or [None]
        return bool(made) and all(isinstance(one, ast.Call) and (dotted(one.func) or [""])[-1] in plain | {"SimpleNamespace"} for one in made)

    def where_bound(self, name, is_parameter, binders, change, way):
        """Edits behind all places where a function gives this name a value, None where there are others."""
        edits = []
        left = set(map(id, binders))
        if is_parameter:
            if isinstance(self.function.body[0], (ast.FunctionDef, ast.ClassDef)):
                return None
            edits += self.line_before(self.function.body[0], change)
            # What the runner holds for the test.
            edits = [(first, last, re.sub(r"\n$", "; %s(%r, %s)\n" % (self.names["held_too"], name, name), text)) for first, last, text in edits]
        for one in ast.walk(self.function):
            if isinstance(one, (ast.Global, ast.Nonlocal)) and name in one.names:
                return None
            if isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None:
                targets, first = one.targets if isinstance(one, ast.Assign) else [one.target], None
            elif isinstance(one, (ast.For, ast.AsyncFor)):
                targets, first = [one.target], one.body[0]
            elif isinstance(one, (ast.With, ast.AsyncWith)):
                targets, first = [item.optional_vars for item in one.items if item.optional_vars is not None], one.body[0]
            else:
                continue
            bound = left & {id(inner) for target in targets for inner in ast.walk(target)}
            if bound:
                left -= bound
                edits += [(self.end(one), self.end(one), "; " + change + self.taken_from(one, name, way))] if first is None else self.before(first, change)
        return None if left else edits

    def taken_from(self, node, name, way):
        """What alters the record that a statement takes apart, in which code under test may look for a part of it."""
        source, target = node.value, node.targets[0] if isinstance(node, ast.Assign) else None
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        at = next((at for at, one in enumerate(parts) if getattr(one, "id", None) == name), None)
        uses = [one for one in ast.walk(self.function) if isinstance(one, ast.Name) and one.id == getattr(source, "id", None)]
        if at is None or not isinstance(source, ast.Name) or any(isinstance(one, ast.Starred) for one in parts):
            return ""
        if any(isinstance(one.ctx, ast.Load) and one is not source for one in uses):
            return ""
        local = {one.arg for one in ast.walk(self.function.args) if isinstance(one, ast.arg)} | {one.id for one in uses if isinstance(one.ctx, ast.Store)}
        if source.id not in local:
            return ""
        return "; %s; %s(%r, %s)" % (self.change(source.id, (("entry", at),), way), self.names["held_too"], source.id, source.id)

    def before(self, node, text):
        """A statement in front of the first one of a block, which may stand on the line of its head."""
        is_alone = not self.data[self.starts[first_line(node) - 1]:self.at(first_line(node), 0) + node.col_offset].strip(b" \t@")
        return self.line_before(node, text) if is_alone else [(self.start(node), self.start(node), text + "; ")]

    def is_matcher(self, node):
        """May it equal more than one value, by itself or by what a name in it was bound to?"""
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        return bool(MATCHER.search(self.text(node))) or bool(names & self.matchers)

    def elsewhere(self, node, way):
        """Another literal, for where an expectation stands. Whatever it is given to may take numbers alone."""
        if way != "alter" and isinstance(node, ast.Constant) and type(node.value) is bool:
            return None
        if way == "shift":
            return self.shifted(node) if is_literal(node) else None
        if way == "strange" and isinstance(node, ast.Constant) and type(node.value) in (str, bytes):
            return self.other_pattern(node)[0][0]
        if way in ("strange", "away") and not isinstance(node, ast.Constant):
            return (self.altered(node) or [None])[-1] if way == "away" else None
        values = self.altered(node)
        is_number = isinstance(node, ast.Constant) and type(node.value) is str and node.value.strip().replace(".", "").isdigit()
        return values[0 if is_number else -1] if values else None

    def altered_afar(self, replaced, way="alter"):
        """Edits that alter what is expected where it stands: among the parameters of a test, in a constant of the module or of a class that
        is used for nothing else. Code that reads the file finds that."""
        base, key = base_of_side(replaced)
        if base is not None:
            change = self.altered_cells(base.id, base, key, way)
            if change is not None or (isinstance(replaced, ast.Subscript) and key is not None):
                return change or self.altered_table(replaced.value)
            if key is not None:
                return None
            replaced, name = base, base.id
            uses = [one for one in ast.walk(self.tree) if isinstance(one, ast.Name) and one.id == name]
            own = {id(one) for one in ast.walk(self.function)}
            arguments = {one.arg for one in ast.walk(self.function.args) if isinstance(one, ast.arg)}
            if name in arguments and any(id(one) in own and isinstance(one.ctx, ast.Store) for one in uses):
                return None
            is_local = name in arguments or any(id(one) in own and isinstance(one.ctx, ast.Store) for one in uses)
            body = [one for one in own_nodes(self.function)] if is_local else self.tree.body
            if is_local:
                uses = [one for one in uses if id(one) in own]
        elif isinstance(replaced, ast.Subscript):
            return self.altered_table(replaced.value)
        elif isinstance(replaced, ast.Attribute) and isinstance(replaced.value, ast.Name) and replaced.value.id in ("self", "cls"):
            body = [one for cls in ast.walk(self.tree) if isinstance(cls, ast.ClassDef) for one in cls.body]
            uses = [one for one in ast.walk(self.tree) if isinstance(one, ast.Attribute) and one.attr == replaced.attr]
            name = replaced.attr
        else:
            return None
        loads = [one for one in uses if isinstance(one.ctx, ast.Load)]
        stores = [one for one in uses if not isinstance(one.ctx, ast.Load)]
        if self.looks_at_itself or (isinstance(replaced, ast.Attribute) and self.is_of_others()):
            return None
        if stores and isinstance(replaced, ast.Attribute):
            # What is set up for each test, and not by the code under test.
            body = [one for node in ast.walk(self.tree) if is_function(node) and not node.name.startswith("setUp") or getattr(node, "name", "") == "setUp" or getattr(node, "name", "") == "setUpClass"
                    for one in ast.walk(node) if isinstance(one, ast.Assign) and is_plainly_made(one.value)]
        bound = [one for one in body if isinstance(one, ast.Assign) and len(one.targets) == 1 and name in (getattr(one.targets[0], "id", None), getattr(one.targets[0], "attr", None))]
        if len(bound) != 1 or len(stores) > 1:
            return None
        value = self.elsewhere(bound[0].value, way)
        given = self.given_from(self.tree, replaced, loads)
        if given is None or (given and (value is None or not is_literal(bound[0].value))):
            return None
        if value is None and stores and isinstance(replaced, ast.Attribute):
            place = "%s.%s" % (getattr(bound[0].targets[0].value, "id", "self"), name)
            return [(self.end(bound[0]), self.end(bound[0]), "; %s = %s(%s)" % (place, self.names[way], place))]
        if value is None:
            return None
        if given:
            self.reals.append((value, self.text(bound[0].value)))
        if way in ("alter", "shift"):
            self.turned(bound[0].value, value)
        return self.replace(bound[0].value, value) + given

    def is_of_others(self):
        """Has the class of the test a base in another file, which may give the attributes of the case to code under test?"""
        known = {one.name for one in ast.walk(self.tree) if isinstance(one, ast.ClassDef)}
        owners = [one for one in ast.walk(self.tree) if isinstance(one, ast.ClassDef) and self.function in one.body]
        return any(not (isinstance(base, ast.Name) and base.id in known) and not (dotted(base) or [""])[-1].endswith(("TestCase", "object"))
                   for one in ast.walk(self.tree) if isinstance(one, ast.ClassDef) and owners and (one in owners or one.name in {getattr(base, "id", None) for owner in owners for base in owner.bases})
                   for base in one.bases)

    def altered_table(self, place):
        """Of a list or a dictionary whose entries are expected, and which is used for nothing else: all of them at once, for code under test
        may change it meanwhile."""
        if isinstance(place, ast.Name):
            name, uses = place.id, [one for one in ast.walk(self.tree) if isinstance(one, ast.Name) and one.id == place.id]
        elif isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id in ("self", "cls"):
            name, uses = place.attr, [one for one in ast.walk(self.tree) if isinstance(one, ast.Attribute) and one.attr == place.attr]
        else:
            return None
        expected = {id(one.value) for one in ast.walk(self.tree) if isinstance(one, ast.Subscript) and id(one) in self.sides}
        bound = [one for one in ast.walk(self.tree) if isinstance(one, ast.Assign) and len(one.targets) == 1 and getattr(one.targets[0], "id", None) == name]
        if len(bound) != 1 or not isinstance(bound[0].value, (ast.List, ast.Tuple, ast.Dict)) or not is_literal(bound[0].value):
            return None
        if isinstance(bound[0].value, ast.Dict):
            # A loop over it takes what it is asked for.
            expected |= {id(one.iter) for one in ast.walk(self.tree) if isinstance(one, (ast.For, ast.comprehension))}
        expected |= {id(one.args[0]) for one in ast.walk(self.tree) if isinstance(one, ast.Call) and getattr(one.func, "id", None) == "len" and len(one.args) == 1}
        if not all(id(one) in expected for one in uses if one is not bound[0].targets[0]):
            return None
        try:
            value = unlike(ast.literal_eval(bound[0].value), random_word())
            return self.replace(bound[0].value, "(%r)" % (value,))
        except (ValueError, TypeError, SyntaxError):
            return None

    def altered_cells(self, name, side, key=None, way="alter"):
        """In the tables that give a parameter or the variable of a loop its values, or a part of them."""
        given = [] if self.is_only_asserted(name, side, key) else self.given(name, side) if key is None else None
        if given is None:
            return None
        change = []
        stores = [one for one in ast.walk(self.function) if isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load)]
        if self.looks_at_itself or len(stores) > (name not in {one.arg for one in ast.walk(self.function.args) if isinstance(one, ast.arg)}):
            # It may be another value by then.
            return None
        for found in self.rows_of(name):
            found = found if key is None or found is None else [functools.reduce(cell_of, [part for _, part in key], one) for one in found]
            values = [self.elsewhere(one, "away" if given and way == "alter" else way) if one is not None and (not given or is_literal(one)) else None for one in found or ()]
            if not values or None in values:
                return None
            change += [edit for one, value in zip(found, values) for edit in self.replace(one, value)]
            if way in ("alter", "shift"):
                for one, value in zip(found, values):
                    self.turned(one, value)
            if given:
                self.reals += [(value, self.text(one)) for one, value in zip(found, values)]
        return change and change + given or None

    def rows_of(self, name, depth=0):
        """For each of its sources, the nodes that a local gets one after another, None where they are not all known."""
        function = self.function
        if name in self.requested:
            # A fixture takes it, and may give it to code under test.
            yield None
        sources = [(one.target, one.iter) for one in ast.walk(function) if isinstance(one, (ast.For, ast.AsyncFor, ast.comprehension))]
        sources += [(ast.Name(id=one.arg, ctx=ast.Store()), ast.List(elts=[value], ctx=ast.Load()))
                    for one, value in zip(function.args.args[::-1], function.args.defaults[::-1])]
        owners = [one for one in ast.walk(self.tree) if isinstance(one, ast.ClassDef) and function in one.body]
        for call in [call for one in [function] + owners for call in one.decorator_list]:
            words = dotted(call.func) if isinstance(call, ast.Call) else None
            if words and words[-1] == "parametrize" and not any(one.arg == "indirect" for one in call.keywords):
                given = argument_of(call, ["argnames", "argvalues"])
                titles = given.get("argnames")
                if "argvalues" in given:
                    names = [one.strip() for one in titles.value.split(",") if one.strip()] if isinstance(titles, ast.Constant) and isinstance(titles.value, str) else [
                        getattr(one, "value", None) for one in getattr(titles, "elts", [])]
                    if name in names and any(one.arg == "indirect" for one in call.keywords):
                        yield None
                    parts = [ast.Name(id=one, ctx=ast.Store()) for one in names]
                    sources.append((parts[0] if len(parts) == 1 else ast.Tuple(elts=parts, ctx=ast.Store()), given["argvalues"]))
        if any(one.arg == name for one in function.args.args):
            for one in self.tree.body:
                if is_function(one) and one.name == name:
                    # Other tests may give it to the code under test.
                    takers = [taker for taker in ast.walk(self.tree) if is_function(taker) and taker is not function and any(part.arg == name for part in taker.args.args)]
                    loads = [inner for taker in takers for inner in ast.walk(taker) if isinstance(inner, ast.Name) and inner.id == name]
                    yield from self.given_by(one) if all(id(inner) in self.asserted for inner in loads) else [None]
        for target, table in sources:
            if any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(target)):
                yield self.cells(target, name, table)
        for node in own_nodes(function):
            target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
            at = next((at for at, one in enumerate(parts) if getattr(one, "id", None) == name), None)
            if at is not None and depth < 3 and not any(isinstance(one, ast.Starred) for one in parts):
                if isinstance(node.value, ast.Name):
                    yield from ([cell_of(one, at) for one in found] if found else None for found in self.rows_of(node.value.id, depth + 1))
                elif isinstance(node.value, ast.Subscript) and isinstance(node.value.value, ast.Name):
                    table = [one.value for one in self.tree.body if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", None) == node.value.value.id]
                    row = cell_of(table[0], (key_of(node.value) or (None, None))[1]) if len(table) == 1 else None
                    yield [cell_of(row, at)] if row is not None else None
                else:
                    yield [cell_of(node.value, at)] if isinstance(node.value, (ast.Tuple, ast.List)) else None

    def given_by(self, fixture):
        """The literals that a fixture of the module gives: its own, or its parameters as they are."""
        for one in fixture.decorator_list:
            words = dotted(one.func if isinstance(one, ast.Call) else one)
            if not words or words[-1] != "fixture":
                continue
            given = [node.value for node in own_nodes(fixture) if isinstance(node, (ast.Return, ast.Yield))]
            table = argument_of(one, []).get("params") if isinstance(one, ast.Call) else None
            if len(given) == 1 and isinstance(given[0], ast.Attribute) and given[0].attr == "param" and table is not None:
                yield self.cells(ast.Name(id="x", ctx=ast.Store()), "x", table)
            elif len(given) == 1:
                yield given

    def cells(self, target, name, table):
        """The literals that a name gets one after another, None where they are not all known."""
        if isinstance(table, ast.Name):
            bound = [one for one in ast.walk(self.tree) if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", None) == table.id]
            uses = [one for one in ast.walk(self.tree) if isinstance(one, ast.Name) and one.id == table.id]
            # What else takes its rows may give them to the code under test.
            if len(bound) != 1 or len(uses) != 2 or not all(id(one) in self.tables for one in uses if one is not bound[0].targets[0]):
                return None
            table = bound[0].value
        elif isinstance(table, ast.Attribute) and getattr(table.value, "id", None) in ("self", "cls"):
            bound = [one for cls in ast.walk(self.tree) if isinstance(cls, ast.ClassDef) for one in cls.body if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", None) == table.attr]
            uses = [one for one in ast.walk(self.tree) if isinstance(one, ast.Attribute) and one.attr == table.attr]
            if len(bound) != 1 or len(uses) != 1:
                return None
            table = bound[0].value
        rows = [one.args if isinstance(one, ast.Call) and getattr(one.func, "attr", getattr(one.func, "id", None)) == "param" else one
                for one in getattr(table, "elts", ())]
        if isinstance(target, ast.Name):
            return [one[0] if isinstance(one, list) else one for one in rows]
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        at = next((at for at, one in enumerate(parts) if any(getattr(inner, "id", None) == name for inner in ast.walk(one))), None)
        if at is None or any(isinstance(one, ast.Starred) for one in parts):
            return None
        if isinstance(table, ast.Call):
            word = getattr(table.func, "attr", getattr(table.func, "id", None))
            if word == "zip" and at < len(table.args) and not any(isinstance(one, ast.Starred) for one in table.args):
                return self.cells(parts[at], name, table.args[at])
            if word == "enumerate" and at == 1:
                return self.cells(parts[1], name, table.args[0])
            if word == "items" and at == 1 and isinstance(getattr(table.func, "value", None), ast.Dict) and isinstance(parts[1], ast.Name):
                return table.func.value.values
            return None
        rows = [one if isinstance(one, list) else getattr(one, "elts", ()) for one in rows]
        return [one[at] for one in rows] if isinstance(parts[at], ast.Name) and all(len(one) == len(parts) for one in rows) else None

    def made_tests(self):
        """Tests that a function of the module makes, with edits that alter what it is given to expect."""
        makers = {}
        for node in self.tree.body:
            if is_function(node) and not node.decorator_list:
                parameters = [one.arg for one in node.args.args]
                found = [side.id for inner in node.body if is_function(inner) for one in ast.walk(inner) if isinstance(one, ast.stmt)
                         for sides in compared_in(one) for side in sides if isinstance(side, ast.Name) and side.id in parameters]
                uses = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
                found = [name for name in found if all(id(one) in self.sides for one in uses if one.id == name)]
                if found:
                    makers[node.name] = (parameters, set(found))
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", None) in makers:
                parameters, expected = makers[node.value.func.id]
                given = argument_of(node.value, parameters)
                for target in node.targets:
                    for name in sorted(expected & set(given)):
                        values = self.altered(given[name])
                        if isinstance(target, ast.Name) and values:
                            try:
                                edit = self.replace(given[name], values[-1])
                                self.turned(given[name], values[-1], test=target.id)
                                yield target.id, edit
                            except NoEnd:
                                continue
                            break

    def in_words(self, edits):
        """These edits, and with them what comments, descriptions and messages say of the same literals."""
        changed = {}
        for first, last, text in edits:
            try:
                before, after = [ast.literal_eval(one.strip()) for one in (self.data[first:last].decode("utf-8"), text)]
            except (ValueError, TypeError, SyntaxError, MemoryError):
                continue
            if type(before) is type(after) and type(before) in (int, float, str) and len(str(before)) > 1 and SAID.match(str(before)) and SAID.match(str(after)):
                changed[str(before)] = str(after)
        if not changed:
            return edits
        pattern = re.compile(r"(?<![\w.])(?:%s)(?![\w]|\.\d)" % "|".join(re.escape(one) for one in sorted(changed, key=len, reverse=True)))
        found = []
        for first, last in self.said():
            before = self.data[first:last].decode("utf-8")
            after = pattern.sub(lambda one: changed[one.group()], before)
            if after != before:
                found.append((first, last, after))
        return edits + found

    def said(self):
        """Places of comments, descriptions and messages. None of what stands inside a function or a class that a test makes, nor of a helper:
        code under test is given these, and shows what they say. None at all where tests ask for descriptions or sources."""
        lines = self.data.decode("utf-8").splitlines(True)
        inner = [(first_line(node), self.place_of_end(node)[0]) for outer in ast.walk(self.tree) if is_function(outer) for node in ast.walk(outer)
                 if node is not outer and (is_function(node) or isinstance(node, ast.ClassDef))]
        if self.looks_at_itself:
            return
        try:
            for one in tokenize.generate_tokens(iter(lines).__next__):
                if one.type == tokenize.COMMENT and one.start[0] > 2 and not any(first <= one.start[0] <= last for first, last in inner):
                    yield tuple(self.at(row, len(lines[row - 1][:column].encode("utf-8"))) for row, column in (one.start, one.end))
        except (tokenize.TokenError, SyntaxError, IndexError, StopIteration):
            pass
        described = [self.tree] + [node for node in self.tree.body if isinstance(node, ast.ClassDef)]
        described += [node for one in described for node in one.body if is_function(node) and node.name.startswith("test")]
        for node in ast.walk(self.tree):
            if node in described:
                words = [one.value for one in node.body[:1] if isinstance(one, ast.Expr)]
            elif isinstance(node, ast.Assert):
                words = [node.msg]
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) in COMPARING_CALLS:
                words = node.args[2:] + [one.value for one in node.keywords if one.arg in ("msg", "message", "err_msg")]
            else:
                continue
            for one in words:
                if isinstance(one, ast.Constant) and type(one.value) is str:
                    try:
                        yield self.start(one), self.end(one)
                    except NoEnd:
                        continue

    def asked_elsewhere(self):
        """Edits of functions that are no tests: in each one assertion that compares with a literal is turned. Only what is said to get beyond
        it counts, for the tests may want it to be wrong."""
        called = {getattr(one.func, "id", getattr(one.func, "attr", None)) for one in at_import(self.tree) if isinstance(one, ast.Call)}
        called |= {getattr(one, "id", getattr(one, "attr", None)) for one in at_import(self.tree)}
        edits = []
        rest = [(one, True) for one in self.tree.body]
        while rest:
            node, is_outer = rest.pop()
            if isinstance(node, ast.ClassDef):
                rest += [(one, True) for one in node.body]
            elif is_function(node) and not node.name.startswith("test"):
                if node.name in called or node.name in ("setUpClass", "setUpModule", "setUpTestData"):
                    # Where an error would end more than one test.
                    rest += [(one, False) for one in node.body]
                    continue
                self.function = node
                self.loads = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
                found = []
                self.walk(node.body, IF_SURVIVED, found)
                for variant in [one for one in found if one.is_literal and one.rank == 0][:1]:
                    reached, quiet = self.names["mark"] + "(1)", self.names["mark"] + "(0)"
                    edits += [(first, last, text.replace(reached, quiet)) for first, last, text in variant.edits]
        return edits

    def line_before(self, node, text):
        start = self.starts[first_line(node) - 1]
        indent = re.match(br"[ \t]*", self.data[start:]).group().decode("ascii")
        return [(start, start, indent + text + "\n")]

    def instead(self, operator, replaced, is_right, strict):
        """What to compare with so that honest code fails, with the rank of each: values in the source first, for only they look
        like the tests' own."""
        text = self.text(replaced)
        if isinstance(replaced, ast.Call) and text.split("(")[0].endswith("approx") and replaced.args and operator == "Eq":
            # Numbers whose differences lie are equal to no object, but to every approximation.
            first, begin = replaced.args[0], self.start(replaced)
            inner = self.shifted(first)
            if strict != IF_SURVIVED:
                self.turned(first, inner, False)
            parts = [self.data[begin:self.start(first)], inner.encode("utf-8"), self.data[self.end(first):self.end(replaced)]]
            return [(b"".join(parts).decode("utf-8"), 0)]
        plain = self.other() if MATCHER.search(text) else "%s((%s))" % (self.names["alter"], text)
        if operator == "Eq":
            values = self.altered(replaced)
            if strict == IF_SURVIVED:
                # What is asserted there may be wrong, and a value that is like it right.
                values = values[-1:]
            # A longer collection says nothing of what its parts are told.
            is_longer = len(values) == 2 and not isinstance(replaced, (ast.Constant, ast.UnaryOp))
            found = [(value, 0.5 if at and is_longer else 0) for at, value in enumerate(values)]
            # Of what a call makes of literals, another kind of object is asked for as well.
            return found if is_literal(replaced) and found else found + [(plain, 1)]
        if operator == "Text":
            # Where texts that differ may mean the same.
            value = self.unknown(replaced)
            return [(value, 0) if value is not None else (self.other(), 1)]
        if operator == "Pattern":
            return self.other_pattern(replaced)
        if operator == "Close":
            return [(self.shifted(replaced), 0 if is_literal(replaced) else 1)]
        if operator == "In":
            if is_right:
                values = [self.unknown(one) for one in replaced.elts] if isinstance(replaced, (ast.List, ast.Tuple, ast.Set)) else [None]
                return [("[%s]" % self.other(), 1)] + ([("[%s]" % ", ".join(values), 0)] if values and None not in values else [])
            value = self.unknown(replaced) if isinstance(replaced, ast.Constant) else None
            if value is not None and type(replaced.value) in (int, float):
                # Beyond what a range of the project may hold.
                value = "(%r)" % (replaced.value + random.SystemRandom().randrange(10 ** 12, 10 ** 13))
            return [(value, 0) if value is not None else (self.other(), 1)]
        if operator == "Begin":
            parts = list(replaced.elts) if isinstance(replaced, ast.Tuple) else [replaced]
            values = [self.unknown(one) for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, (str, bytes))]
            return [("(%s,)" % ", ".join(values), 0)] if is_right and values and len(values) == len(parts) else []
        if operator == "Is":
            is_bool = isinstance(replaced, ast.Constant) and isinstance(replaced.value, bool)
            # A member of an enumeration has others beside it.
            return [(repr(not replaced.value), 0) if is_bool else (plain if isinstance(replaced, (ast.Attribute, ast.Call)) else self.other(), 1)]
        number = isinstance(replaced, ast.Constant) and type(replaced.value) in (int, float)
        if number or (isinstance(replaced, ast.UnaryOp) and is_literal(replaced)):
            # No number lies beyond.
            below = is_right == (operator in ("Lt", "LtE"))
            return [("(%s1e999)" % ("-" if below else ""), 0)]
        return [(self.other(), 1)]

    def shifted(self, node):
        """A literal beyond every tolerance, so that code that looks for it finds that; else what makes one."""
        if isinstance(node, ast.Call) and (dotted(node.func) or [""])[-1] in ARRAY_MAKERS and node.args and is_literal(node.args[0]):
            return self.with_part(node, node.args[0], self.shifted(node.args[0]).strip("()"))
        try:
            return ("%r" if isinstance(node, ast.Constant) else "(%r)") % (beyond(ast.literal_eval(node), random.SystemRandom()),) if is_literal(node) else "%s((%s))" % (self.names["shift"], self.text(node))
        except (ValueError, TypeError, SyntaxError):
            return "%s((%s))" % (self.names["shift"], self.text(node))

    def other_pattern(self, node):
        """A pattern that fits nothing but text that was made for it: code may say all that stands in its caller."""
        value = node.value if isinstance(node, ast.Constant) else ""
        return [("(%r)" % (random_word() if type(value) is str else random_word().encode("ascii")), 0)] if type(value) in (str, bytes) else []

    def unknown(self, node):
        """A literal with a value that does not happen to be right: no part of it is kept."""
        value = node.value if isinstance(node, ast.Constant) else None
        if type(value) in (str, bytes):
            text = random_text(value if isinstance(value, str) else value.decode("latin-1"))
            return repr(text if isinstance(value, str) else text.encode("latin-1")).join("()")
        if type(value) in (int, float) and abs(value) < 10 ** 9:
            return "(%r)" % (value + random.SystemRandom().randrange(1000, 100000))
        return None

    def altered(self, node):
        """A literal with other values of the same kind, none where none is known: one that is like it, and one far from it. The same for all of
        one value: code may look for what another test wants of the same call."""
        if not is_literal(node):
            return self.altered_inside(node)
        if isinstance(node, ast.Constant) or isinstance(node, ast.UnaryOp):
            try:
                value = ast.literal_eval(node)
            except (ValueError, TypeError):
                return []
            name = type(value), repr(value)
            if name not in self.others:
                self.others[name] = [repr(one) for one in (near(value), far(value)) if one is not MISSING]
            return list(self.others[name])
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            inner, brackets = list(node.elts), {"List": "[]", "Tuple": "()", "Set": "{}"}[type(node).__name__]
            parts = [self.text(one) for one in inner]
        elif all(key is not None for key in node.keys):
            inner, brackets = list(node.values), "{}"
            parts = ["%s: %s" % (self.text(key), self.text(value)) for key, value in zip(node.keys, node.values)]
        else:
            return []
        more = random_word()
        if inner and all(isinstance(one, ast.Constant) and type(one.value) in (int, float) for one in inner):
            # It may be sorted.
            more = random.SystemRandom().randrange(1000, 100000)
        longer = parts + [repr(more) if not isinstance(node, ast.Dict) else "%r: %r" % (more, random_word())]
        found = [brackets[0] + ", ".join(longer) + ("," if brackets == "()" else "") + brackets[1]]
        places = list(range(len(inner)))
        random.SystemRandom().shuffle(places)
        for place in places:
            values = self.altered(inner[place])
            if values:
                parts[place] = values[0] if not isinstance(node, ast.Dict) else "%s: %s" % (self.text(node.keys[place]), values[0])
                found.insert(0, brackets[0] + ", ".join(parts) + ("," if brackets == "()" else "") + brackets[1])
                break
        return found

    def altered_inside(self, node):
        """What literals make, with one of them altered: code may fold, find or evaluate it. Only where both are known to differ."""
        is_array = isinstance(node, ast.Call) and (dotted(node.func) or [""])[-1] in ARRAY_MAKERS and node.args and is_literal(node.args[0])
        if is_array and len(node.args) == 1 and not any("bool" in self.text(one.value) for one in node.keywords):
            return [self.with_part(node, node.args[0], value) for value in self.altered(node.args[0])[:1]]
        if is_array:
            return []
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            # Whatever the other side is, the sum is another one.
            ends = [one for one in (node.left, node.right) if isinstance(one, ast.Constant) and type(one.value) in (int, float, str, bytes)]
            if len(ends) == 1 and not made_of_literals(node):
                return [self.with_part(node, ends[0], value) for value in self.altered(ends[0])[:1]]
        if not made_of_literals(node):
            return self.altered_records(node)
        leaves = [one for one in ast.walk(node) if isinstance(one, ast.Constant) and type(one.value) in (int, float, str, bytes)]
        # Parts rather than their number.
        times = {id(one.right) for one in ast.walk(node) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)}
        leaves.sort(key=lambda one: id(one) in times)
        tries = [(leaf, value) for leaf in leaves for value in self.altered(leaf)]
        # A day may not exist, and letters are no number.
        tries += [(leaf, repr(near(leaf.value))) for leaf in leaves for _ in range(5) if near(leaf.value) is not MISSING]
        if any(isinstance(one, (ast.JoinedStr, ast.FormattedValue)) for one in ast.walk(node)):
            return []
        for leaf, value in tries[:60]:
            text = self.with_part(node, leaf, value)
            try:
                before, after = value_of(node), value_of(ast.parse("(%s)" % text, mode="eval").body)
                if type(before) is type(after) and before != after:
                    return [text]
            except Exception:
                continue
        return []

    def altered_records(self, node):
        """Objects of classes that are given literals, with all of these altered: two that were given nothing alike are not equal. Within a test
        only, for what a class refuses must end no more than that."""
        made = [one for one in ast.walk(node) if is_made_of_literals(one)]
        if not made or not is_record(node) or node.lineno < first_line(self.function.body[0]) or node.lineno > self.place_of_end(self.function)[0]:
            return []
        if self.kept is not None and any(is_made_of_literals(one) for one in ast.walk(self.kept)):
            return []
        leaves = {id(leaf): leaf for call in made for leaf in ast.walk(call) if isinstance(leaf, ast.Constant) and type(leaf.value) in (int, float, str, bytes)}
        edits = [(self.start(leaf), self.end(leaf), value) for leaf in leaves.values() for value in self.altered(leaf)[:1]]
        first, result = self.start(node), self.data[self.start(node):self.end(node)]
        for start, end, value in sorted(edits, reverse=True):
            result = result[:start - first] + value.encode("utf-8") + result[end - first:]
        return [result.decode("utf-8")] if edits else []

    def with_part(self, node, part, text):
        """The text of a node with another one for a part of it."""
        first, last = self.start(part), self.end(part)
        return (self.data[self.start(node):first] + text.encode("utf-8") + self.data[last:self.end(node)]).decode("utf-8")

    def of_call(self, node, call, strict):
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else None
        arguments = call.args
        if name is None or any(isinstance(one, (ast.Starred, ast.GeneratorExp)) for one in arguments):
            return
        owner = function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else None
        if name in PATTERN_CALLS and len(arguments) >= 2:
            for value, rank in self.other_pattern(arguments[1]):
                edits, plain = self.watched(node, self.replace(arguments[1], value))
                yield Variant(edits, plain, strict, "fits every pattern", rank)
            if name not in RAISING:
                return
        if name in RAISING and len(arguments) >= 2:
            for value, rank in self.unlike(arguments[0], "problem"):
                edits, plain = self.watched(node, self.replace(arguments[0], value))
                yield Variant(edits, plain, strict, RAISED, rank)
            return
        if name in MOCK_CALLS and isinstance(function, ast.Attribute) and dotted(function.value) is not None:
            if not arguments or not isinstance(arguments[0], ast.List) or arguments[0].elts:
                for given in (arguments + [one.value for one in call.keywords]) if name.endswith("_with") or name.startswith("assert_any") else ():
                    for value in self.altered(given)[-1:]:
                        edits, plain = self.watched(node, self.replace(given, value))
                        yield Variant(edits, plain, strict, "passed although `%s` was called with another value" % self.text(function.value)[:80], 0)
                forget = (self.start(node), self.start(node), "%s.reset_mock(); " % self.text(function.value))
                edits, plain = self.watched(node, [forget])
                yield Variant(edits, plain, strict, "passed although `%s` was never called" % self.text(function.value)[:80], 1)
            return
        what = "passed although `%s` is given another value" % self.text(call)[:80]
        if name in ("index", "remove"):
            yield from self.of_look(node, call, strict, what)
        for sides, parameters in self.helpers.get((owner, name), ()):
            given = argument_of(call, parameters)
            pair = tuple(None if side is None else given.get(side) for side in sides)
            if all(side is None or one is not None for side, one in zip(sides, pair)):
                yield from self.of_pair(node, "Eq", pair, strict, what)
        at = FOUND_CALLS.get(name, len(arguments))
        if at == len(arguments) - 1 and not any(one.arg == "count" for one in call.keywords):
            parts = getattr(arguments[at], "elts", None)
            values = [self.unknown(one) for one in ([arguments[at]] if parts is None else parts)]
            if values and None not in values:
                change = self.replace(arguments[at], values[0] if parts is None else "[%s]" % ", ".join(values))
                yield self.variant(node, [], change, None, strict, what, 0)
        says_equal = SAYS_EQUAL.match(name) and not LOOKS_AT_PART.search(name) and not any(name in known for known in (EQUAL_CALLS, TEXT_CALLS, ALMOST_CALLS, LIST_CALLS))
        if name in CLOSE_CALLS or name in PAIR_CALLS or says_equal:
            if len(arguments) >= 2 and (owner != "self" or says_equal):
                yield from self.of_pair(node, "Close" if name in CLOSE_CALLS else "Eq", tuple(arguments[:2]), strict, what)
            if owner != "self":
                return
        if owner != "self":
            return
        if name in ("assertTrue", "assert_", "assertFalse") and arguments:
            yield from self.of_answers(node, arguments[0], strict) if name != "assertFalse" else ()
            if name != "assertFalse" and isinstance(arguments[0], ast.Compare):
                yield from self.of_distance(node, arguments[0], strict)
            for operator, pair in needed(arguments[0]) if name != "assertFalse" else needed_not(arguments[0]):
                yield from self.of_pair(node, operator, pair, strict, what)
        if name in OPPOSITES and len(arguments) in (1, 2) and not call.keywords and not is_literal(arguments[0]):
            held = self.names["held"]
            text = "%s = (%s); self.%s(%s); " % (held, self.text(arguments[0]), name, held)
            yield self.held(node, text, "self.%s(%s)" % (OPPOSITES[name], held), strict, "is true and false")
            if name in ("assertTrue", "assertFalse") and any(isinstance(one, ast.Call) for one in ast.walk(arguments[0])):
                edits, plain = self.watched(node, self.replace(function, "self." + OPPOSITES[name]))
                yield Variant(edits, plain, strict, "passed although the opposite of `%s` is asserted" % self.text(call)[:80], 2)
            return
        if len(arguments) < 2 or any(keyword.arg is None for keyword in call.keywords):
            return
        pair = (arguments[0], arguments[1])
        if name == "assertNotEqual" and not is_literal(pair[0]):
            held = self.names["held"]
            text = "%s = (%s); self.assertNotEqual(%s, %s); " % (held, self.text(pair[0]), held, self.text(pair[1]))
            yield self.held(node, text, "self.assertNotEqual(%s, %s)" % (held, held), strict, "is not equal to itself")
            return
        if name == "assertIsInstance":
            yield from self.of_error(node, pair[1], strict)
            yield from self.of_instance(node, pair, strict)
            return
        if name in ("assertLess", "assertLessEqual"):
            yield from self.of_small(node, pair[0], pair[1], strict, what)
        operator = ("Is" if name == "assertIs" else "Text" if name in TEXT_CALLS else "Close" if name in ALMOST_CALLS else "Eq" if name in EQUAL_CALLS
                    else ORDER_CALLS.get(name) or ("In" if name == "assertIn" else "List" if name in LIST_CALLS else None))
        if operator is None:
            return
        if operator != "List":
            yield from self.of_pair(node, operator, pair, strict, what)
            return
        for kept, replaced in (pair, pair[::-1]):
            named = self.of_name(node, "List", kept, replaced, strict, what, 0) if not is_literal(kept) else None
            if named is not None:
                yield named
            elif not is_literal(kept):
                values = self.altered(replaced)[-1:]
                yield self.variant(node, [], self.replace(replaced, (values or ["[%s]" % self.other()])[0]), None, strict, what, 0 if values else 1, False, makes_expected(replaced))

    def of_with(self, node, strict):
        calls = [one.context_expr for one in node.items if isinstance(one.context_expr, ast.Call)]
        calls = [(one, getattr(one.func, "attr", getattr(one.func, "id", None))) for one in calls]
        call, name = next((one for one in calls if one[1] in RAISING or one[1] in WARNING), (None, None))
        given = {} if call is None else argument_of(call, ["expected_exception" if name == "raises" else "expected_warning" if name == "warns" else "exception"])
        indent = self.data[self.starts[node.lineno - 1]:self.start(node)]
        if not given or indent.strip():
            # Another form of it: what happens inside may be swallowed.
            return []
        expected = next((one for word, one in given.items() if word.startswith(("expected_", "exception"))), None)
        expected = None if expected is not None and self.may_end_run(expected) else expected
        space = indent.decode("utf-8")
        start = self.starts[node.lineno - 1]
        end = self.end_of(node)
        glue = "" if self.data[:end].endswith(b"\n") else "\n"
        reach = [(start, start, "%s%s(1)\n" % (space, self.names["mark"]))]
        survive = [(end, end, "%s%s%s(2)\n" % (glue, space, self.names["mark"]))]
        at = next(at for at, one in enumerate(node.items) if one.context_expr is call)
        if at > 0:
            # What stands in front of it, as `subTest` does, may swallow what is raised, and the line behind the block is reached.
            if self.data[self.end(node.items[at - 1].context_expr):self.start(call)].rstrip().endswith(b"("):
                return []
            survive = [(self.start(call), self.start(call), self.names["unraised"] + ", ")]
        patterns = [one.value for one in call.keywords if one.arg == "match"] + (call.args[1:2] if name in PATTERN_CALLS else [])
        changes = [(one, value, rank) for one in patterns for value, rank in self.other_pattern(one)]
        if expected is not None:
            changes += [(expected, value, rank) for value, rank in self.unlike(expected, "problem" if name in RAISING else "warning")]
        found = []
        for one, way, rank in [(one, "strange", 0) for one in patterns] + ([] if expected is None or name in WARNING else [(expected, "unlike", 1)]):
            # A local that code under test may find.
            before = self.altered_name(node, ast.Constant(value=None), one, way) if isinstance(one, ast.Name) else None
            wide = self.altered_afar(one, way) if isinstance(one, ast.Name) and way == "strange" else None
            if before or wide:
                inside = [] if before else self.replace(one, "%s(%s)" % (self.names[way], self.text(one)))
                found.append(Variant((before or []) + reach + inside + survive, reach + survive, strict, RAISED, rank))
                found[-1].wide = None if wide is None else wide + reach + survive
                changes = [change for change in changes if change[0] is not one]
        return found + [Variant(reach + self.replace(one, value) + survive, reach + survive, strict, RAISED, rank)
                        for one, value, rank in changes]

    def unlike(self, expected, unknown, is_caught=False):
        """Another kind of exception than the expected one: a known one, for code may raise one of all known kinds, and one that no code
        knows. Which one depends on the tests alone: an honest exception may be of two kinds, and the gate must see that."""
        if self.may_end_run(expected):
            return []
        text = self.text(expected)
        number = int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:4], "big")
        known = self.known_error(expected)
        if known is not None:
            # By its name, for code may raise what its caller names.
            kinds = OTHER_WARNINGS if issubclass(known, Warning) else OTHER_ERRORS
            found = [kind.__name__ for kind in unrelated(kinds, (known,))]
            return [(found[number % len(found)], 1), (self.names[unknown], 2)] if found else [(self.names[unknown], 2)]
        is_imported = {one.id for one in ast.walk(expected) if isinstance(one, ast.Name)} <= self.imported
        return [("%s((%s), %d, %r, %r)" % (self.names["unlike"], text, number, is_imported, is_caught), 1), (self.names[unknown], 2)]

    def may_end_run(self, expected):
        if expected.__class__ is ast.Name and self.known_error(expected) is BaseException:
            return True
        return ENDS_RUNS.search(self.text(expected)) is not None or (self.speaks_of_interrupts and self.known_error(expected) is None)

    def known_error(self, node):
        """The exception of Python's own that a name is, None for other nodes."""
        found = getattr(builtins, node.id, None) if isinstance(node, ast.Name) and node.id not in self.bound else None
        return found if isinstance(found, type) and issubclass(found, BaseException) else None


def needed(test):
    """Comparisons without which an assertion does not hold: operator and the two sides of each."""
    if isinstance(test, ast.Compare):
        sides = [test.left] + test.comparators
        inner = list(needed(sides[0])) if is_truth(test) else []
        if inner:
            yield from inner
            return
        for at, operator in enumerate(test.ops):
            name = type(operator).__name__
            if name in TURNED:
                yield name, (sides[at], sides[at + 1])
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for one in test.values:
            yield from needed(one)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from needed_not(test.operand)
    elif isinstance(test, ast.Call):
        function = test.func
        name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else None
        if name in ("startswith", "endswith") and isinstance(function, ast.Attribute) and test.args:
            yield "Begin", (function.value, test.args[0])
        elif name in CLOSE_CALLS and len(test.args) >= 2 and not any(isinstance(one, ast.Starred) for one in test.args):
            yield "Close", tuple(test.args[:2])
        elif name == "bool" and len(test.args) == 1:
            yield from needed(test.args[0])
        elif name == "eq" and len(test.args) == 2:
            yield "Eq", tuple(test.args)
        elif name == "equals" and isinstance(function, ast.Attribute) and len(test.args) == 1:
            yield "Eq", (function.value, test.args[0])
        elif name in ("search", "match", "fullmatch") and dotted(function) == ["re", name] and len(test.args) >= 2:
            yield "Pattern", (test.args[1], test.args[0])
        elif name == "all":
            for one in test.args[:1]:
                made = [one.elt] if isinstance(one, (ast.GeneratorExp, ast.ListComp)) else [one]
                for part in one.elts if isinstance(one, (ast.List, ast.Tuple)) else made:
                    yield from needed(part)
            if not test.args and isinstance(function, ast.Attribute):
                yield from needed(function.value)


def needed_not(test):
    """Of what must not hold."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        name = {"NotEq": "Eq", "IsNot": "Is", "NotIn": "In"}.get(type(test.ops[0]).__name__)
        if name is not None:
            yield name, (test.left, test.comparators[0])


def is_truth(test):
    """Is it a comparison with True?"""
    last = test.comparators[0]
    return len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.Eq)) and isinstance(last, ast.Constant) and last.value is True


def argument_of(call, parameters):
    """Arguments of a call by the name of the parameter."""
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args):
        return {}
    return dict(list(zip(parameters, call.args)) + [(keyword.arg, keyword.value) for keyword in call.keywords])


def near(value, chance=random.SystemRandom()):
    """Another value of the same kind that is like this one, or MISSING."""
    kind = type(value)
    if kind is bool:
        return not value
    if kind is int or (kind is float and abs(value) < 10 ** 9):
        return value + chance.choice((1, -1, 2))
    if kind in (str, bytes):
        text = value if kind is str else value.decode("latin-1")
        places = [at for at, letter in enumerate(text) if letter.isascii() and letter.isalnum()] if hasattr(text, "isascii") else []
        if places:
            at = chance.choice(places)
            alphabet = "0123456789" if text[at].isdigit() else "abcdefghijklmnopqrstuvwxyz"
            letter = chance.choice([one for one in alphabet if one != text[at].lower()])
            text = text[:at] + (letter.upper() if text[at].isupper() else letter) + text[at + 1:]
            return text if kind is str else text.encode("latin-1")
    return MISSING


def far(value, chance=random.SystemRandom()):
    kind = type(value)
    if kind is int or (kind is float and value - value == 0):
        # A test may compare with a tolerance, which may be a share of the value.
        return value + chance.randrange(1000, 100000) + (abs(value) // 4 if abs(value) >= 10 ** 9 else 0)
    if kind is str:
        return value + random_word(chance)
    if kind is bytes:
        return value + random_word(chance).encode("ascii")
    return random_word(chance) if value is None else MISSING


def beyond(value, chance):
    """A number beyond every tolerance, or such numbers. For what holds nothing, or nothing that is a number: what nothing else equals."""
    number = chance.randrange(1000, 100000)
    if isinstance(value, (list, tuple)):
        # A single number is compared with as many as there are, also with none.
        return type(value)(beyond(one, chance) for one in value) if value else type(value)((number, number + 1))
    if isinstance(value, dict):
        return {name: beyond(one, chance) for name, one in value.items()} if value else {random_word(chance): number}
    if getattr(value, "size", None) == 0:
        return number, number + 1
    found = value + (abs(value) + 1) * number
    numpy = sys.modules.get("numpy")
    is_other = found == found if numpy is None else numpy.any((found != value) & (found == found))
    return found if is_other else type(random_word(chance).capitalize(), (), {})()


def random_text(text):
    """Looks like this text, and is found in no other."""
    chance = random.SystemRandom()
    letters = "abcdefghijklmnopqrstuvwxyz"
    kinds = [(chance.choice(letters.upper()) if one.isupper() else chance.choice(letters)) if one.isalpha() else chance.choice("0123456789") if one.isdigit() else one
             for one in text]
    missing = 5 - sum(one.isalnum() for one in text)
    return "".join(kinds) + "".join(chance.choice(letters) for _ in range(max(0, missing)))


def has_call(node):
    return any(isinstance(one, ast.Call) for one in ast.walk(node))


def is_called(node):
    """Does it call anything but what makes a value or an object of literals?"""
    return has_call(node) and not made_of_literals(node) and not is_record(node)


def helpers_of(spec, module, tree):
    """Functions that assert for the tests that an argument equals another value: (owner or None, name) to what is compared."""
    found = {(None, name): pairs for name, pairs in equal_pairs(tree.body).items()}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found.update((("self", name), pairs) for name, pairs in equal_pairs(node.body).items())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            body = helper_file(spec, module, node.module or "", node.level)
            pairs = equal_pairs(body)
            classes = {one.name for one in body if isinstance(one, ast.ClassDef)}
            for alias in node.names:
                name = alias.asname or alias.name
                if alias.name == "*":
                    found.update(((None, one), at) for one, at in pairs.items())
                elif alias.name in pairs:
                    found[None, name] = pairs[alias.name]
                elif alias.name in classes:
                    # What the tests' own classes inherit.
                    found.update((("self", one), at) for one, at in methods_of(spec, module, body, alias.name).items())
                else:
                    inner = ".".join(part for part in (node.module, alias.name) if part)
                    found.update(((name, one), at) for one, at in equal_pairs(helper_file(spec, module, inner, node.level)).items())
        elif isinstance(node, ast.Import):
            for alias in node.names:
                pairs = equal_pairs(helper_file(spec, module, alias.name, 0))
                found.update(((alias.asname or alias.name, one), at) for one, at in pairs.items())
    return found


def methods_of(spec, module, body, name, depth=0):
    """What a class of a helper asserts, with what it inherits from other helpers."""
    found = {}
    for node in body if depth < 4 else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            for base in node.bases:
                found.update(methods_of(spec, module, body, (dotted(base) or [""])[-1], depth + 1))
            found.update(equal_pairs(node.body))
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    found.update(methods_of(spec, module, helper_file(spec, module, node.module or "", node.level), alias.name, depth + 1))
    return found


def helper_file(spec, module, name, level):
    """Statements of a module of the repository: beside the tests as it lies there, for that was put back whole, elsewhere as the
    image has it, for what the patch makes of a helper is not asked."""
    repository = os.path.realpath(spec["repository"])
    parts = [part for part in name.split(".") if part]
    folder = os.path.dirname(os.path.join(repository, module))
    if level:
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        bases = [folder]
    else:
        bases = [folder, repository] + [os.path.join(repository, root) for root in spec["roots"]]
    for base in bases:
        for path in (os.path.join(base, *parts) + ".py", os.path.join(base, *(parts + ["__init__.py"]))):
            inside = os.path.relpath(path, repository)
            if inside.split(os.sep)[0] == os.pardir:
                continue
            text = None
            if not is_of_tests(inside) and inside.replace(os.sep, "/") in spec.get("pristine", ()):
                text = pristine_text(repository, inside)
            if text is None and os.path.isfile(path):
                with open(path, "rb") as file:
                    text = file.read()
            if text is not None:
                try:
                    return parse(decoded(text)).body
                except (SyntaxError, ValueError):
                    return []
    return []


TEST_FOLDER = re.compile(r"^(?:(?:unit|functional|integration)?_?tests?|testing|specs?)$", re.I)


def is_of_tests(path):
    return any(TEST_FOLDER.match(word) for word in path.split(os.sep)[:-1])


def equal_pairs(body):
    """Functions that fail where an argument does not equal another one, or what the function itself makes: for each the two sides
    by the names of parameters, None for what it makes, and all parameters."""
    found = {}
    for node in body:
        if not is_function(node) or node.decorator_list or node.name.startswith("test"):
            continue
        parameters = [one.arg for one in getattr(node.args, "posonlyargs", []) + node.args.args]
        if parameters[:1] == ["self"]:
            del parameters[0]
        names = parameters + [one.arg for one in node.args.kwonlyargs]
        used = set()
        pairs = []
        for one in node.body:
            if isinstance(one, ast.Return):
                break
            for sides in compared_in(one):
                pair = tuple(side.id if isinstance(side, ast.Name) and side.id in names else None for side in sides)
                others = [side for side, name in zip(sides, pair) if name is None]
                taken = used | {inner.id for side in others for inner in ast.walk(side) if isinstance(inner, ast.Name)}
                is_made = all(not is_literal(side) and not MATCHER.search(ast.dump(side)) for side in others)
                # An argument that the other side is made of would change on both.
                if is_made and pair != (None, None) and not taken & {name for name in pair if name is not None}:
                    pairs.append((pair, parameters))
            if not isinstance(one, (ast.Assert, ast.If)):
                used |= {inner.id for inner in ast.walk(one) if isinstance(inner, ast.Name)}
        if pairs:
            found[node.name] = pairs
    return found


def compared_in(node):
    """Pairs of which a statement demands that they are equal."""
    if isinstance(node, ast.Assert):
        return [sides for operator, sides in needed(node.test) if operator == "Eq"]
    if isinstance(node, ast.If) and not node.orelse:
        test, wanted = node.test, ast.NotEq
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, wanted = test.operand, ast.Eq
        last = node.body[-1]
        ends = isinstance(last, ast.Raise) or (isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
                                               and getattr(last.value.func, "attr", getattr(last.value.func, "id", "")) == "fail")
        if ends and isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], wanted):
            return [(test.left, test.comparators[0])]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) >= 2:
        function = node.value.func
        name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else None
        if name in EQUAL_CALLS or name in PAIR_CALLS:
            return [tuple(node.value.args[:2])]
    return []


HELPERS = ("mark", "alter", "away", "part", "strange", "real", "held_too", "shift", "unlike", "unraised", "other", "kind", "problem", "warning")


def is_literal(node):
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(is_literal(one) for one in node.elts)
    if isinstance(node, ast.Dict):
        return all(one is None or is_literal(one) for one in node.keys) and all(is_literal(one) for one in node.values)
    return isinstance(node, ast.UnaryOp) and is_literal(node.operand)


# What makes a value of literals alone, and what Python's library makes of them: known here, so both values can be compared.
MAKERS = {"Decimal": "decimal", "Fraction": "fractions", "date": "datetime", "datetime": "datetime", "time": "datetime", "timedelta": "datetime", "Path": "pathlib",
          "PurePath": "pathlib", "PurePosixPath": "pathlib", "OrderedDict": "collections", "Counter": "collections", "deque": "collections", "dedent": "textwrap",
          "cleandoc": "inspect", "UUID": "uuid", "loads": "json"}
PLAIN_MAKERS = frozenset(["set", "frozenset", "list", "tuple", "dict", "bytes", "bytearray", "complex", "float", "int", "str", "sorted", "len", "sum", "min", "max",
                          "abs", "round", "range", "ord", "chr", "repr"])
# Of arrays, which are made of their first argument.
ARRAY_MAKERS = frozenset(["array", "asarray", "Series", "tensor"])
TEXT_METHODS = frozenset(["strip", "lstrip", "rstrip", "split", "splitlines", "encode", "decode", "lower", "upper", "title", "join", "replace", "format"])
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.BitOr, ast.BitAnd, ast.BitXor)


# How an expectation is altered, by how it is compared; and which side it is where that is not either of them.
WAYS = {"Eq": "alter", "Is": "alter", "Close": "shift", "Text": "away", "List": "away", "In": "strange", "Begin": "strange", "Pattern": "strange"}
EITHER = frozenset(["Eq", "Is", "Close", "Text", "List"])
ONE_SIDE = {"In": 0, "Begin": 1, "Pattern": 1}

# What gives the same for the same, and something else for each other value that is made in the place of one.
WRAPPING = frozenset(["list", "tuple", "set", "frozenset", "sorted", "dict", "str", "int", "float", "bytes", "array", "asarray", "Series", "DataFrame", "tensor", "Decimal", "Fraction", "Path",
                      "PurePath", "PurePosixPath", "OrderedDict", "deque", "Counter", "dedent", "cleandoc"])
WRAPPING_METHODS = frozenset(["strip", "lstrip", "rstrip", "split", "splitlines", "encode", "decode", "lower", "upper", "copy"])


def base_of_side(node):
    """The name that a side of a comparison is made of by nothing but wrapping, and the node of the key where it is a part of it."""
    while isinstance(node, ast.Call):
        words = dotted(node.func)
        if words is not None and words[-1] == "approx" and node.args:
            node = node.args[0]
        elif node.keywords:
            break
        elif words is not None and words[-1] in WRAPPING and len(node.args) == 1:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in WRAPPING_METHODS and not node.args:
            node = node.func.value
        else:
            break
    keys = ()
    while key_of(node) is not None:
        keys, node = (key_of(node),) + keys, node.value
    return (node, keys or None) if isinstance(node, ast.Name) and (not keys or node.id not in ("self", "cls")) else (None, None)


def cell_of(node, key):
    """The node of a part of a literal, None where there is none."""
    if isinstance(node, (ast.Tuple, ast.List)) and type(key) is int and -len(node.elts) <= key < len(node.elts):
        return node.elts[key]
    if isinstance(node, ast.Dict):
        return next((value for name, value in zip(node.keys, node.values) if isinstance(name, ast.Constant) and name.value == key and type(name.value) is type(key)), None)
    return None


def key_of(node):
    """Of a part of a value, as a literal; None for other nodes."""
    if isinstance(node, ast.Attribute):
        return "attribute", node.attr
    place = getattr(node, "slice", None)
    place = getattr(place, "value", place) if type(place).__name__ == "Index" else place
    return ("entry", place.value) if isinstance(place, ast.Constant) and type(place.value) in (int, str) else None


def makes_expected(node):
    """Is an expected value made by a call, to which an altered literal may be strange? pytest's approximations take any number."""
    return has_call(node) and not (isinstance(node, ast.Call) and (dotted(node.func) or [""])[-1] == "approx")


def made_of_literals(node):
    """Does a side hold nothing but literals, operators and what is known to make a value of them?"""
    if is_literal(node):
        return True
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(made_of_literals(one) for one in node.elts)
    if isinstance(node, ast.Dict):
        return all(one is not None and made_of_literals(one) for one in node.keys + node.values)
    if isinstance(node, ast.UnaryOp):
        return made_of_literals(node.operand)
    if isinstance(node, ast.BinOp):
        # No number of which the parent would not find the end.
        is_large = isinstance(node.op, (ast.Pow, ast.LShift)) and not (isinstance(node.right, ast.Constant) and type(node.right.value) is int and node.right.value <= 64)
        is_large = is_large or (isinstance(node.op, ast.Mult) and any(isinstance(one, ast.Constant) and type(one.value) is int and one.value > 10 ** 6 for one in (node.left, node.right)))
        return isinstance(node.op, OPERATORS) and not is_large and made_of_literals(node.left) and made_of_literals(node.right)
    if isinstance(node, ast.Call):
        given = node.args + [one.value for one in node.keywords]
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            return False
        words = dotted(node.func) or [""]
        if words[-1] in MAKERS or (len(words) == 1 and words[0] in PLAIN_MAKERS):
            return all(made_of_literals(one) for one in given)
        is_text = isinstance(node.func, ast.Attribute) and node.func.attr in TEXT_METHODS
        return is_text and all(made_of_literals(one) for one in given + [node.func.value])
    return False


def is_record(node):
    """An object that a class makes of literals, or a collection of such."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(is_record(one) for one in node.elts)
    if isinstance(node, ast.Dict):
        return all(one is not None and is_literal(one) for one in node.keys) and all(is_record(one) for one in node.values)
    return is_literal(node) or is_made_of_literals(node)


def value_of(node):
    """What literals make. No name of the tests has a say."""
    names = {}

    class Known(ast.NodeTransformer):
        def visit_Call(self, call):
            self.generic_visit(call)
            words = dotted(call.func)
            if words is not None and words[-1] in MAKERS and not (len(words) == 1 and words[0] in PLAIN_MAKERS):
                names["made_" + words[-1]] = getattr(__import__(MAKERS[words[-1]]), words[-1])
                call.func = ast.copy_location(ast.Name(id="made_" + words[-1], ctx=ast.Load()), call.func)
            return call

    names.update((name, getattr(builtins, name)) for name in PLAIN_MAKERS)
    tree = ast.Expression(body=Known().visit(copy.deepcopy(node)))
    return eval(compile(ast.fix_missing_locations(tree), "literals", "eval"), dict(names, __builtins__={}))


# ---------------------------------------------------------------- child


def live_as_child(spec, home, pristine, requests, ends, records):
    """Plays one plan after the other, each in a process of its own. No code of the repository runs before they part."""
    give_up_root(spec, home)
    guard = start_site(spec, pristine)
    load_runner(spec["runner"])
    rest = b""
    while True:
        line, rest = read_line(requests, rest)
        if line is None:
            os._exit(0)
        # Its key comes with a plan, so that no process knows another's.
        request = json.loads(line.decode("ascii"))
        del line
        child = os.fork()
        if child == 0:
            os.close(requests)
            os.close(ends)
            plan, send = request["plan"], sender(records, bytes(bytearray.fromhex(request["key"])))
            del request
            if plan["modules"] is not None:
                spec = dict(spec, modules=plan["modules"], labels=[])
            run_to_end(spec, guard, send, plan)
        del request
        write_all(ends, b"%d\n" % os.waitpid(child, 0)[1])


def read_line(descriptor, rest):
    """Returns the next line and what was read behind it; None at the end."""
    while b"\n" not in rest:
        data = os.read(descriptor, 1 << 16)
        if not data:
            return None, rest
        rest += data
    return tuple(rest.split(b"\n", 1))


def load_runner(name):
    """With what it imports by itself when it starts."""
    if name != "pytest":
        __import__("unittest.mock")
        return
    __import__("pytest")
    import _pytest.config

    for plugin in getattr(_pytest.config, "default_plugins", ()):
        try:
            __import__("_pytest." + plugin)
        except ImportError:
            # The runner says so itself, if it needs it.
            continue


def run_to_end(spec, guard, send, plan):
    run = {"pytest": run_pytest, "unittest": run_unittest, "django": run_django}[spec["runner"]]
    problem = run(spec, guard, send, plan)
    for say in AT_END:
        say(send)
    send({"k": "end", "problem": problem})
    os._exit(0)


def sender(descriptor, key):
    """The one way to the parent. What it needs later is held here, for modules are replaced by tests."""
    state = [0]
    write, authenticate, pid, getpid, frame = os.write, mac, os.getpid(), os.getpid, sys._getframe
    own_globals = globals()
    quote = json.encoder.encode_basestring_ascii

    def dumps(value):
        """Not by `json`: code under test may have replaced its parts."""
        if value is None or value is True or value is False:
            return {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, int):
            return "%d" % value
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, (list, tuple)):
            return "[%s]" % ",".join([dumps(one) for one in value])
        return "{%s}" % ",".join(["%s:%s" % (quote(name), dumps(one)) for name, one in value.items()])

    def send(record):
        # A test that forks and lets the copy return from the test would report twice.
        if getpid() != pid:
            return
        if frame(1).f_globals is not own_globals:
            # Found and called by other code: what follows fits nothing, which ends the audit.
            record = None
        text = ("%d " % (state[0] if record is not None else -1) + dumps(record)).encode("ascii")
        state[0] += 1
        line = authenticate(key, text) + b" " + text + b"\n"
        while line:
            line = line[write(descriptor, line):]

    return send


def is_rehearsal(plan):
    return any(one["place"] == "turned" for one in plan["files"])


def send_plan(send, names):
    for start in range(0, max(1, len(names)), 5):
        send({"k": "plan", "ids": names[start:start + 5]})


def give_up_root(spec, home):
    import resource

    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    keep_errors = spec.get("debug")
    for descriptor in (0, 1) if keep_errors else (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NPROC, spec["processes"]), (resource.RLIMIT_FSIZE, MAX_FILE_BYTES)):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError):
        # Without it the change of user alone makes the process untraceable, until it executes something else.
        libc = None
    os.setgroups([])
    os.setresgid(spec["gid"], spec["gid"], spec["gid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    if libc is not None:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o022)
    for name in list(os.environ):
        if name.startswith(("PYTHON", "PYTEST", "COVERAGE", "LD_", "LH_", "lh_", "DJANGO_")):
            del os.environ[name]
    os.environ.update({
        "HOME": os.path.join(home, "home"),
        "TMPDIR": os.path.join(home, "tmp"),
        "USER": "audit",
        "LOGNAME": "audit",
        "PWD": spec["repository"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    })
    sys.dont_write_bytecode = True
    tempfile.tempdir = None
    os.chdir(spec["repository"])


# ---------------------------------------------------------------- child: a start without the repository


def start_site(spec, pristine):
    """What `site` does, for the environment's own directories only."""
    import site

    repository = spec["repository"]
    site.ENABLE_USER_SITE = False
    own = site.addpackage

    def addpackage(folder, name, known):
        if is_inside(folder, repository):
            return known
        before = list(sys.path)
        found = own(folder, name, known)
        # Of an editable project. Until all of these files are read, their own imports must not find the repository.
        for entry in [entry for entry in sys.path if entry not in before]:
            if is_inside(entry, repository):
                sys.path.remove(entry)
                later.append(entry)
        return found

    later = []
    site.addpackage = addpackage
    known = site.removeduppaths()
    known = site.venv(known)
    site.addsitepackages(known)
    site.addpackage = own
    for set_up in ("setquit", "setcopyright", "sethelper"):
        getattr(site, set_up)()
    trusted = [entry for entry in sys.path if not is_inside(entry, repository)]
    guard = Guard(repository, trusted, pristine, top_of(spec))
    sys.meta_path.insert(0, guard)
    sys.path_hooks.insert(0, repository_hook(spec))
    sys.path_importer_cache.clear()
    roots = [repository] + [os.path.join(repository, root) for root in spec["roots"]]
    sys.path[:] = [root for root in roots if root not in later] + trusted + later
    if repository in later:
        sys.path.remove(repository)
        sys.path.insert(0, repository)
    hide_entry_points(repository)
    return guard


def is_inside(path, folder):
    path = os.path.realpath(path or os.curdir)
    return path == folder or path.startswith(folder + os.sep)


def top_of(spec):
    """Names that the hidden tests themselves are imported by."""
    found = set()
    for name in spec["modules"]:
        parts = name.split(os.sep)
        found.update(part[:-3] if part.endswith(".py") else part for part in parts)
    return found


class Guard(object):
    """Finds the standard library and what is installed where they are, even if files of the repository have the same names.

    A name that the repository had before the patch stays the repository's: it is the project that is installed, or a folder
    of tests that shares its name with one of the library's."""

    def __init__(self, repository, trusted, pristine, allowed):
        from importlib.machinery import PathFinder

        self.find = PathFinder.find_spec
        self.repository = repository
        self.trusted = trusted
        self.pristine = pristine
        self.compiled = {name.split(".")[0] for name in pristine if name.endswith(".so")}
        self.names = installed_names(trusted) - allowed

    def find_spec(self, name, path=None, target=None):
        if path is not None or "." in name or name not in self.names or name in sys.modules:
            return None
        if name not in RUNNER_NAMES and self.is_pristine(name):
            return None
        return self.find(name, self.trusted)

    def find_module(self, name, path=None):
        return None

    def invalidate_caches(self):
        return None

    def is_pristine(self, name):
        """Does what the path gives lie in the repository, and did it before the patch?"""
        for entry in sys.path:
            folder = os.path.realpath(entry or os.curdir)
            if folder != self.repository and not folder.startswith(self.repository + os.sep):
                if self.find(name, [entry]) is not None:
                    return False
                continue
            inside = os.path.relpath(folder, self.repository)
            inside = "" if inside == os.curdir else inside + "/"
            if inside + name + ".py" in self.pristine or inside + name + "/__init__.py" in self.pristine:
                return True
            if inside + name in self.compiled:
                return True
        return False


# Always those of the environment: what judges the tests.
RUNNER_NAMES = frozenset(["unittest", "pytest", "_pytest", "pluggy", "importlib", "json", "os", "re", "types", "functools", "traceback", "inspect"])


def installed_names(trusted):
    names = set(sys.builtin_module_names) | set(getattr(sys, "stdlib_module_names", ()))
    for folder in trusted:
        try:
            entries = os.listdir(folder)
        except OSError:
            continue
        for entry in entries:
            stem = entry.split(".")[0]
            if stem.isidentifier() and ("." not in entry or entry.endswith((".py", ".so", ".pyc"))):
                names.add(stem)
    return names


# In a rehearsal: what puts questions into the trees of the tests' files. It gives None for other files.
ASKING = [None]


def is_made(path, spec):
    """Did the tests make this file, or a way to it? A second name of another's file has the owner of that file."""
    names = spec["shared"].get(os.path.realpath(os.path.dirname(path)), (0, 0, ()))[2]
    found = os.stat(path)
    made = found.st_uid == spec["uid"] or (found.st_nlink > 1 and names and os.path.basename(path) not in names)
    while not made and path != os.path.dirname(path):
        made = os.lstat(path).st_uid == spec["uid"]
        path = os.path.dirname(path)
    return made


def repository_hook(spec):
    """Modules of the repository come from their sources: a file of compiled code may say anything. What the tests have made there, and the
    code under test with them, is no module."""
    from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader

    class SourceLoader(SourceFileLoader):
        def path_stats(self, path):
            # The one question that is asked before compiled code is looked for.
            raise OSError("compiled code of the repository is not read")

        def source_to_code(self, data, path, **rest):
            tree = None if ASKING[0] is None else ASKING[0](ast.parse(data, path), path)
            if tree is None:
                return super(SourceLoader, self).source_to_code(data, path, **rest)
            return compile(tree, path, "exec", dont_inherit=True, optimize=rest.get("_optimization", -1))

    SourceLoader.__name__ = SourceLoader.__qualname__ = "SourceFileLoader"

    class Finder(FileFinder):
        def find_spec(self, name, target=None):
            found = super(Finder, self).find_spec(name, target)
            if found is not None and found.has_location and is_made(found.origin, spec):
                raise ImportError("made by the tests", name=name, path=found.origin)
            return found

    Finder.__name__ = Finder.__qualname__ = "FileFinder"

    def hook(path):
        if not is_inside(path, spec["repository"]) or not os.path.isdir(path or os.curdir):
            raise ImportError("not of the repository", path=path)
        return Finder(path or os.getcwd(), (ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceLoader, SOURCE_SUFFIXES))

    return hook


def hide_entry_points(repository):
    """Metadata in the repository names the project and its version, but gives no code to load."""

    def hide(cls):
        read_text = cls.read_text

        def read(self, filename):
            if filename == "entry_points.txt" and is_inside(str(getattr(self, "_path", "")), repository):
                return None
            return read_text(self, filename)

        cls.read_text = read

    try:
        from importlib import metadata
    except ImportError:
        metadata = None
    if metadata is not None:
        hide(metadata.PathDistribution)
    for name in ("importlib_metadata", "pkg_resources"):
        after_import(name, lambda module: hide_in(module, hide, repository))


def hide_in(module, hide, repository):
    if hasattr(module, "PathDistribution"):
        hide(module.PathDistribution)
    if hasattr(module, "Distribution") and hasattr(module, "WorkingSet"):
        get_entry_map = module.Distribution.get_entry_map

        def get(self, group=None):
            if self.location is not None and is_inside(self.location, repository):
                return {}
            return get_entry_map(self, group)

        module.Distribution.get_entry_map = get


def after_import(name, act):
    class Finder(object):
        def find_spec(self, wanted, path=None, target=None):
            if wanted != name:
                return None
            sys.meta_path.remove(self)
            import importlib.util

            spec = importlib.util.find_spec(name)
            if spec is None or spec.loader is None:
                return spec
            own = spec.loader.exec_module

            def exec_module(module):
                own(module)
                act(module)

            spec.loader.exec_module = exec_module
            return spec

        def find_module(self, wanted, path=None):
            return None

    sys.meta_path.insert(0, Finder())


# ---------------------------------------------------------------- child: what must not change

# Of the builtins only these: programs set `_`, wrap `print` and `open`, and mean no harm.
BUILTINS = ("AssertionError", "BaseException", "Exception", "__build_class__", "__import__", "all", "any", "bool", "callable", "compile", "eval",
            "exec", "float", "getattr", "hasattr", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "dict", "set", "next", "object",
            "repr", "setattr", "sorted", "str", "sum", "super", "tuple", "type", "vars", "zip")
OF_SYSTEM = {"os": ("write", "_exit", "getpid", "fork", "read", "stat", "lstat", "listdir", "scandir", "access"), "sys": ("exc_info", "_getframe", "settrace", "setprofile"),
             "time": ("monotonic", "time", "perf_counter"), "hashlib": ("blake2b",)}


def function_of(value):
    """The function that a value is or wraps, None where it is none. No method that wraps one can be given another."""
    held = value if type(value) is FUNCTION else getattr(value, "__func__", None)
    return held if type(held) is FUNCTION else None


class Kept(object):
    """Values that must stay where they were found. Every test is followed by a look at thousands of them, so the look makes no objects, and
    it asks by identity: objects of a test may claim to be equal to anything."""

    def __init__(self, entries):
        places = {}
        for name, place, key, value in entries:
            kept = places.setdefault(id(place), (place, vars(place), {}))[2]
            function = function_of(value)
            code = (None, None, None) if function is None else (function.__code__, function.__defaults__, function.__kwdefaults__)
            # Classes are found by more than one way.
            kept.setdefault((key, id(value)), (name, key, value, function) + code)
        self.places = [(place, namespace, list(kept.values())) for place, namespace, kept in places.values()]

    def compare(self):
        found = []
        for _, namespace, kept in self.places:
            for name, key, value, function, code, defaults, keywords in kept:
                try:
                    now = namespace[key]
                except KeyError:
                    now = MISSING
                if now is not value:
                    found.append(name)
                elif function is not None and (function.__code__ is not code or function.__defaults__ is not defaults
                                               or function.__kwdefaults__ is not keywords):
                    found.append(name + " (its code)")
        return found


class Snapshot(object):
    """Trusted code as it was before the repository was imported. `compare` names what is something else now."""

    def __init__(self, classes, patched=()):
        core, rest = [], []
        self.modules = {}
        import builtins

        for name in BUILTINS:
            core.append(("builtins." + name, builtins, name, getattr(builtins, name)))
        for module, names in OF_SYSTEM.items():
            held = sys.modules[module]
            for name in names:
                if hasattr(held, name):
                    rest.append((module + "." + name, held, name, getattr(held, name)))
        for name, module in list(sys.modules.items()):
            if module is None or not (name.split(".")[0] in ("unittest", "_pytest", "pluggy", "pytest", "mock", "asgiref", "__main__")):
                continue
            self.modules[name] = module
            is_core = name in ("__main__", "asgiref.sync", "unittest.case", "unittest.result", "_pytest.runner", "_pytest.reports", "_pytest.unittest", "_pytest.python",
                               "_pytest.outcomes", "_pytest.python_api", "_pytest.raises", "pluggy._callers", "pluggy.callers")
            self.hold(name, module, core if is_core else rest)

        for cls in classes:
            self.hold_class(cls.__name__, cls, core)
        patched = tuple(patched)
        self.core, self.rest = [self.part([one for one in entries if not one[0].startswith(patched)]) for entries in (core, rest)]

    @staticmethod
    def part(entries):
        """What classes hold and inherit is one entry without a key."""
        classes = [(name, cls, vars(cls).keys()) + value for name, cls, key, value in entries if key is None]
        return Kept([one for one in entries if one[2] is not None]), classes

    def hold(self, name, module, into):
        for key, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == name:
                into.append((name + "." + key, module, key, value))
                self.hold_class(name + "." + key, value, into)
            elif type(value) is FUNCTION:
                into.append((name + "." + key, module, key, value))

    def hold_class(self, name, cls, into):
        names = frozenset(vars(cls))
        for key, value in list(vars(cls).items()):
            if function_of(value) is not None or isinstance(value, (property, staticmethod, classmethod)):
                into.append((name + "." + key, cls, key, value))
        into.append((name, cls, None, (names, cls.__mro__)))

    def compare(self, whole):
        found = []
        for kept, classes in (self.core, self.rest) if whole else (self.core,):
            found.extend(kept.compare())
            for name, cls, keys, names, bases in classes:
                now = cls.__mro__
                if now is not bases and now != bases:
                    found.append(name + " (its bases)")
                if not keys <= names:
                    # A new name is a change where it hides one that was inherited.
                    found.extend(name + "." + one for one in set(keys) - names if one not in QUIET and hides(bases[1:], one))
        if whole:
            for name, module in self.modules.items():
                if sys.modules.get(name) is not module:
                    found.append("sys.modules[%r]" % name)
            if sys.gettrace() is not None and "trace" not in QUIET:
                found.append("sys.settrace")
            if sys.getprofile() is not None:
                found.append("sys.setprofile")
        return found


def from_repository(repository):
    """Modules of the repository that the runner itself has needed: such a project is the judge of its own tests."""
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name != "__main__" and is_inside(path, repository):
            found.append("%s (it lies in the repository)" % name)
    return found


class Outside(object):
    """While it is asked first, no module of the repository is found. A plugin that looks whether its project is installed, as those of astropy do,
    must not run code under test before what judges the tests is held."""

    def __init__(self, repository):
        self.repository = repository

    def find_spec(self, name, path=None, target=None):
        for finder in [one for one in sys.meta_path if one is not self and hasattr(one, "find_spec")]:
            found = finder.find_spec(name, path, target)
            if found is not None:
                places = [found.origin] if found.has_location else list(found.submodule_search_locations or ())
                if any(is_inside(place, self.repository) for place in places):
                    raise ModuleNotFoundError("No module named %r" % name, name=name)
                return found
        return None

    def find_module(self, name, path=None):
        return None


# Plugins of the environment that put something else in place while they are set up.
PATCHING_PLUGINS = {"subtests": ("_pytest.unittest.TestCaseFunction",)}


def hides(bases, name):
    for base in bases:
        if name in vars(base):
            value = vars(base)[name]
            return callable(value) or isinstance(value, (property, staticmethod, classmethod))
    return False


FUNCTION = type(hides)
MISSING = object()
# Written by the language itself.
QUIET = frozenset(["__abstractmethods__", "_abc_impl", "__doc__", "__annotations__", "__annotate_func__", "__annotations_cache__",
                   "__static_attributes__", "__firstlineno__", "__weakref__", "__dict__"])


PUBLIC_BUILTINS = frozenset(name for name in dir(sys.modules["builtins"]) if not name.startswith("_"))


class TestNames(object):
    """What a hidden test module binds at its top. Code under test reaches it, and could give its tests other values to expect."""

    def __init__(self, sources):
        import unittest

        self.names = {}
        self.values = {}
        self.skipping = unittest.skip("x")(lambda: None).__code__
        # Builtins that the module binds nowhere: another one of that name in it is another's.
        self.foreign = {}
        for path in sources:
            try:
                with open(path, "rb") as file:
                    tree = ast.parse(file.read())
            except (OSError, SyntaxError, ValueError):
                continue
            changing = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
            names = set()
            for node in tree.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    names.add(node.name)
                elif isinstance(node, (ast.Import, ast.ImportFrom)):
                    names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
                elif isinstance(node, ast.Assign):
                    names.update(one.id for one in node.targets if isinstance(one, ast.Name))
            self.names[path] = names - changing
            bound = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)} | names
            is_open = any(isinstance(one, ast.ImportFrom) and one.names[0].name == "*" for one in ast.walk(tree))
            imported = {alias.asname or alias.name for one in ast.walk(tree) if isinstance(one, (ast.Import, ast.ImportFrom)) for alias in one.names}
            defined = {one.name for one in ast.walk(tree) if is_function(one) or isinstance(one, ast.ClassDef)}
            self.foreign[path] = frozenset() if is_open else PUBLIC_BUILTINS - bound - imported - defined

    def compare(self, path, namespace):
        """Against what was there when this was asked first."""
        if path not in self.names or not isinstance(namespace, dict):
            return []
        before = self.values.get(path)
        if before is None:
            before = self.values[path] = {name: namespace.get(name) for name in self.names[path]}
        changed = [name for name, value in before.items() if namespace.get(name) is not value and not self.is_skipped(namespace.get(name), value)]
        return ["%s of %s" % (name, os.path.basename(path)) for name in changed + sorted(self.foreign[path].intersection(namespace))]

    def is_skipped(self, value, before):
        """What the decorator of unittest makes of a function: whoever calls it is skipped."""
        return type(value) is FUNCTION and value.__code__ is self.skipping and getattr(value, "__wrapped__", None) is before


class TestTexts(object):
    """The compiled hidden tests as they stand in their files, made before the repository was imported. A test that is about to
    run, or has run, must be made of nothing else: that is how stripped assertions and replaced functions show. Their helpers, in
    the modules of the tests around them, are held against their sources likewise."""

    # Others may put a function of their own in the place of the test.
    PLAIN = re.compile(r"^(pytest\.mark\.(parametrize|usefixtures|filterwarnings|slow|django_db|skip\w*|xfail)|parametrize|unittest\.(skip\w*|expectedFailure)"
                       r"|(unittest\.)?mock\.patch|(mock\.)?patch|staticmethod|classmethod)\b")

    def __init__(self, paths, compile_file, repository, program=None):
        self.files = {}
        self.codes = {}
        self.given = {} if program is None else given_functions(program, compile_file)
        self.constants = {}
        self.defaults = {}
        self.written = set()
        self.compile = compile
        self.repository = repository
        # Where no file of the tests lies.
        self.installed = tuple(os.path.join(one, "") for one in (sys.prefix, sys.base_prefix) if not is_inside(repository, one))
        self.adapter = getattr(sys.modules.get("asgiref.sync"), "AsyncToSync", None)
        for path in paths:
            try:
                with open(path, "rb") as file:
                    source = file.read()
                self.hold(os.path.realpath(path), source, [compile_file(path)])
            except Exception:
                # Unreadable ones fail by themselves.
                continue

    def hold(self, path, source, codes):
        """Code by class and function, of what is defined once and not wrapped by the unknown; and all code there is."""
        lines = decoded(source).split("\n")
        found = {}
        tree = parse(decoded(source))
        for node in tree.body:
            if is_function(node):
                self.add(found, lines, codes, None, node)
            elif isinstance(node, ast.ClassDef):
                inner = [one for code in codes for one in code.co_consts if type(one) is type(code) and one.co_name == node.name]
                if len(inner) == len(codes):
                    for one in node.body:
                        if is_function(one):
                            self.add(found, lines, inner, node.name, one)
        for place in rebound(tree):
            found[place] = None
        self.constants[path] = constants_of(tree)
        self.written.update(written_names(tree))
        self.files[path] = found
        self.codes[path] = {one for code in codes for one in all_code(code)}

    def add(self, found, lines, codes, cls, node):
        place = (cls, node.name)
        texts = [lines[one.lineno - 1][one.col_offset:] for one in node.decorator_list]
        inner = [one for code in codes for one in code.co_consts if type(one) is type(code) and one.co_name == node.name]
        usable = len(inner) == len(codes) and all(self.PLAIN.match(text) for text in texts)
        found[place] = inner if usable and place not in found else None

    def compare(self, path, cls, test, has_run=False):
        """Of one test. A case of Django that has run holds an adapter of its coroutine."""
        name = getattr(test, "_testMethodName", None)
        if name is None:
            name = getattr(test, "originalname", None) or test.name.split("[")[0]
            function = getattr(test, "obj", None)
        else:
            function = getattr(test, name, None)
            if has_run and self.adapter is not None and type(function) is self.adapter:
                function = function.awaitable
        module = getattr(test, "module", None) or sys.modules.get(getattr(cls, "__module__", None))
        return self.judge(path, (None if cls is None else cls.__name__, name), function, getattr(module, "__dict__", None))

    def compare_helpers(self):
        """Of all functions in loaded modules of the tests."""
        found = []
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if type(path) is not str or not path.endswith(".py") or path.startswith(self.installed):
                continue
            path = os.path.realpath(path)
            if path not in self.files:
                inside = os.path.relpath(path, self.repository)
                if inside.split(os.sep)[0] == os.pardir or not (is_of_tests(inside) or os.path.basename(path) == "conftest.py"):
                    continue
                try:
                    with open(path, "rb") as file:
                        source = file.read()
                    # Some of them have their assertions rewritten.
                    self.hold(path, source, [self.compile(source, path, "exec", dont_inherit=True)])
                except Exception:
                    self.files[path] = {}
            for (cls, name), codes in self.files[path].items():
                holder = vars(module).get(cls) if cls is not None else module
                if codes is None or holder is None:
                    continue
                function = vars(holder).get(name, MISSING)
                if function is MISSING:
                    continue
                held = function_of(function)
                if held is not None:
                    given = held.__defaults__, held.__kwdefaults__
                    before = self.defaults.setdefault(id(held), (held, given))[1]
                    if any(now is not one for now, one in zip(given, before)):
                        found.append("%s of %s has other defaults" % (name, os.path.basename(path)))
                if type(function) is FUNCTION and function.__code__ not in codes and is_rewritten(function.__code__):
                    continue
                found.extend(self.judge(path, (cls, name), function, vars(module)))
            for (cls, name), value in self.constants.get(path, {}).items():
                holder = module if cls is None else vars(module).get(cls)
                if name not in self.written and isinstance(holder, (type, type(sys))) and not is_same(vars(holder).get(name, value), value):
                    found.append("%s of %s is not what stands in its file" % (name, os.path.basename(path)))
        return found

    def judge(self, path, place, function, namespace):
        codes = self.files.get(path, {}).get(place)
        for _ in range(20):
            if type(function) is not FUNCTION:
                inner = getattr(function, "__func__", None)
            else:
                inner = vars(function).get("__wrapped__")
            if inner is None:
                break
            function = inner
        found = function.__code__ if type(function) is FUNCTION else None
        if codes is None:
            # A decorator may have put anything there, but nothing that says it was written in this file and was not.
            if found is None or namespace is None or function.__globals__ is not namespace or found in self.codes.get(path, (found,)):
                return []
        elif any(found is code or (type(found) is type(code) and found == code) for code in codes + self.given.get(place[1], [])):
            return []
        return ["%s of %s is not what stands in its file" % (place[1], os.path.basename(path))]


PLAIN_CONSTANTS = (bool, int, float, str, bytes, type(None))


def constants_of(tree):
    """What a module calls a plain value once and for all."""
    found = {}
    bound = [one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)]
    # Lists and dictionaries that only give their parts, to which nothing can be done.
    taken = set(only_asserted_in(tree)) | {id(one) for one in tables_in(tree)}
    taken |= {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load)}
    loads = [one for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
    used, given = {one.id for one in loads}, {one.id for one in loads if id(one) not in taken}
    given |= {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)} | {alias.name for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) for alias in one.names}
    # Other classes may make something else of what stands in them.
    classes = [one for one in tree.body if isinstance(one, ast.ClassDef) and any(is_function(part) and part.name.startswith("test") for part in one.body)]
    for cls, node in [(None, one) for one in tree.body] + [(cls.name, one) for cls in classes for one in cls.body]:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and bound.count(node.targets[0].id) == 1:
            try:
                value = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError):
                continue
            name = node.targets[0].id
            if is_plain(value) or (type(value) in (list, dict) and name in used - given and is_plain(tuple(value.values() if type(value) is dict else value))):
                found[cls, name] = value
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                found.pop((None, name), None)
    return found


def is_plain(value):
    return type(value) in PLAIN_CONSTANTS or (type(value) is tuple and all(is_plain(one) for one in value))


def is_same(one, other):
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        one, other = list(one.items()), list(other.items())
    if type(one) in (tuple, list):
        return len(one) == len(other) and all(is_same(*pair) for pair in zip(one, other))
    return one == other or one != one


def given_functions(program, compile_file):
    """By attribute: the program's own functions that it puts there, as Django's does with a class in a folder named `test`. Another
    function in that place, or one of these in another place, is a change."""
    try:
        with open(program, "rb") as file:
            tree = parse(decoded(file.read()))
        code = compile_file(program)
    except Exception:
        return {}
    names = [node.name for node in tree.body if is_function(node)]
    own = {one.co_name: one for one in code.co_consts if type(one) is type(code) and names.count(one.co_name) == 1}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in own:
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    found.setdefault(target.attr, []).append(own[node.value.id])
    return found


def written_names(tree):
    """Names that tests give to the modules of others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def all_code(code):
    yield code
    for one in code.co_consts:
        if type(one) is type(code):
            for inner in all_code(one):
                yield inner


def rebound(tree):
    """Names of functions that a module or a class binds again by itself."""
    for cls, body in [(None, tree.body)] + [(node.name, node.body) for node in tree.body if isinstance(node, ast.ClassDef)]:
        for node in body:
            for one in ast.walk(node) if cls is None and not is_function(node) and not isinstance(node, ast.ClassDef) else [node]:
                if isinstance(one, ast.Assign):
                    for target in one.targets:
                        for name in ast.walk(target):
                            if isinstance(name, ast.Name):
                                yield (cls, name.id)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                yield (None, name)


def is_rewritten(code):
    """By pytest, which leaves the names of its own helpers in every function with an assertion, also where that stands in a function
    inside of this one."""
    return any("@pytest_ar" in one.co_names for one in all_code(code))


def overlaid(case, repository):
    """Assertions that an object of tests has in the place of those of its class. Tests may put their own there."""
    found = []
    for name, value in getattr(case, "__dict__", {}).items():
        if name.startswith(("assert", "fail")) and callable(getattr(type(case), name, None)):
            function = function_of(value)
            inside = "" if function is None else os.path.relpath(os.path.realpath(function.__code__.co_filename), repository)
            if not is_of_tests(inside) and not os.path.basename(inside).startswith("test"):
                found.append("%s of a test" % name)
    return found


class Unwatched(object):
    """Of a rehearsal."""

    @staticmethod
    def compare(*given):
        return []

    compare_helpers = compare


class Borrowed(object):
    """What hidden tests use of the library and of what is installed. Code under test could give them others, which find everything
    right."""

    def __init__(self, paths, repository, ours):
        self.repository = repository
        held, wide = [], []
        self.asked = 0
        self.foreign = set()
        # Whether a path lies in the repository. It is asked for after each test, and the system follows each of its folders.
        self.inside = {}
        used = set()
        for path in paths:
            try:
                with open(path, "rb") as file:
                    tree = ast.parse(file.read())
            except (OSError, SyntaxError, ValueError):
                continue
            used.update(one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
            if any(isinstance(one, ast.AsyncFunctionDef) for one in ast.walk(tree)):
                # What runs a coroutine could leave it out.
                self.hold("asyncio", (), held)
            for module, names in borrowed_names(tree):
                # Any code in this process can replace its hooks and streams.
                # What the rehearsed modules import of ours is no file's.
                if module in ("sys", ours):
                    continue
                if module.split(".")[0] in getattr(sys, "stdlib_module_names", LIBRARY):
                    self.hold(module, names, held)
                elif names:
                    self.foreign.add((module, names))
        builtins = sys.modules["builtins"]
        for name in sorted(used & PUBLIC_BUILTINS - WRAPPED):
            held.append(("builtins." + name, builtins, name, vars(builtins)[name]))
        for name, module in sorted(sys.modules.items()):
            if name.split(".")[0] in REACHED and isinstance(module, type(sys)):
                self.hold_whole(name, module, wide)
        self.held, self.wide = Kept(held), Kept(wide)

    @staticmethod
    def hold_whole(name, module, into):
        for key, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != name:
                continue
            if type(value) is FUNCTION:
                into.append((name + "." + key, module, key, value))
            elif isinstance(value, type):
                for inner, method in list(vars(value).items()):
                    if type(method) is FUNCTION or isinstance(method, (property, staticmethod, classmethod)):
                        into.append(("%s.%s" % (key, inner), value, inner, method))

    @staticmethod
    def hold(name, names, into):
        try:
            __import__(name)
            place = sys.modules[name]
        except Exception:
            return
        for at, one in enumerate(names):
            value = vars(place).get(one, MISSING) if isinstance(place, (type, type(sys))) else MISSING
            if value is MISSING:
                return
            if isinstance(value, (type, FUNCTION, type(len))):
                into.append((".".join((name,) + names[:at + 1]), place, one, value))
            if isinstance(value, type):
                for cls in value.__mro__[:-1]:
                    for key, inner in list(vars(cls).items()):
                        if type(inner) is FUNCTION or isinstance(inner, (property, staticmethod, classmethod)):
                            into.append(("%s.%s" % (cls.__name__, key), cls, key, inner))
            place = value

    def compare(self, whole=False):
        self.asked += 1
        # It is long: suites of thousands of tests are asked now and then.
        is_wide = whole or self.asked < 200 or self.asked % 50 == 0
        found = self.held.compare() + (self.wide.compare() if is_wide else [])
        for name, names in self.foreign:
            place = sys.modules.get(name)
            if place is None or self.is_ours(getattr(place, "__file__", None)):
                continue
            for at, one in enumerate(names):
                place = vars(place).get(one) if isinstance(place, (type, type(sys))) else None
                if place is not None and self.is_made_here(place):
                    found.append("%s (it lies in the repository)" % ".".join((name,) + names[:at + 1]))
        return found

    def is_ours(self, path):
        if type(path) is not str:
            return False
        if path not in self.inside:
            self.inside[path] = is_inside(path, self.repository)
        return self.inside[path]

    def is_made_here(self, value):
        value = getattr(value, "__func__", value)
        # A function that a library makes of text has no file: it belongs to its module, as a class does.
        if type(value) is FUNCTION and not value.__code__.co_filename.startswith("<"):
            return self.is_ours(value.__code__.co_filename)
        kind = value if isinstance(value, (type, FUNCTION)) else type(value)
        name = kind.__module__
        return self.is_ours(getattr(sys.modules.get(name) if type(name) is str else None, "__file__", None))


# Programs wrap these, and mean no harm.
WRAPPED = frozenset(["print", "open", "input", "help", "exit", "quit", "copyright", "credits", "license"])
# Of the library: what reaches tests without a name, as values of fixtures and results of programs do, where it is loaded before the project.
REACHED = frozenset(["pathlib", "collections", "contextlib", "functools", "operator", "fractions", "uuid", "ipaddress", "dataclasses", "copy", "re",
                     "sre_compile", "sre_parse", "statistics", "difflib", "filecmp", "posixpath", "genericpath", "shutil", "tempfile", "subprocess",
                     "asyncio", "concurrent", "csv", "textwrap", "heapq", "bisect", "fnmatch", "glob", "io", "_pydecimal", "_pydatetime"])
# Of Pythons that cannot name their own: what tests compare and look with.
LIBRARY = frozenset(["math", "cmath", "os", "os.path", "posixpath", "re", "json", "filecmp", "difflib", "operator", "itertools", "functools", "pathlib",
                     "collections", "datetime", "decimal", "fractions", "io", "subprocess", "shutil", "tempfile", "textwrap", "string", "struct",
                     "hashlib", "pickle", "copy", "inspect", "statistics", "csv", "glob", "contextlib", "types", "warnings"])


def borrowed_names(tree):
    """Modules that are imported by name, each with the names of it that are used."""
    modules = {}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level and node.module != "__future__":
            found.update((node.module, (alias.name,)) for alias in node.names if alias.name != "*")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            words = dotted(node)
            if words and words[0] in modules:
                found.add((modules[words[0]], tuple(words[1:])))
    return sorted(found)


# ---------------------------------------------------------------- child: pytest


def run_pytest(spec, guard, send, plan):
    import importlib

    import pytest
    import _pytest.config

    names = entry_points(guard.trusted, "pytest11")
    reporter = make_reporter(pytest, spec, guard, send, plan, names)
    early = [one["file"] for one in plan["files"] if one["place"] == "early"]
    late = [one["file"] for one in plan["files"] if one["place"] in ("late", "copy")]
    arguments = list(spec["arguments"]) + ["-p", "no:cacheprovider", "--continue-on-collection-errors", "--maxfail=0", "-q", "--tb=no"]
    if "xdist" in names:
        arguments += ["-n", "0"]
    if "pytest_cov" in names:
        arguments += ["--no-cov"]
    if "pytest_mock" in names:
        # It puts functions of its own in the place of the assertions of all mocks, only to shorten tracebacks.
        arguments += ["-o", "mock_traceback_monkeypatch=false"]
    try:
        unraisable = importlib.import_module("_pytest.unraisableexception")
        # It collects garbage five times at the end of each process, for warnings that nobody reads here.
        if hasattr(unraisable, "gc_collect_harder"):
            unraisable.gc_collect_harder = lambda *given: None
    except ImportError:
        pass
    code = int(pytest.main(arguments + early + spec["modules"] + late, plugins=[reporter]))
    reporter.compare(True)
    if code not in (0, 1):
        return "pytest ended with code %d" % code
    return None


def entry_points(trusted, group):
    """Of what is installed outside of the repository: name to module."""
    from importlib.machinery import PathFinder

    found = {}
    for folder in trusted:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            if not entry.endswith((".dist-info", ".egg-info")):
                continue
            try:
                with open(os.path.join(folder, entry, "entry_points.txt"), "r", encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            inside = False
            for line in text.split("\n"):
                line = line.strip()
                if line.startswith("["):
                    inside = line == "[%s]" % group
                elif inside and "=" in line and not line.startswith(("#", ";")):
                    name, value = [part.strip() for part in line.split("=", 1)]
                    value = value.split("[")[0].split(":")[0].strip()
                    # A project that is installed in place has its plugin in the repository.
                    if name not in found and PathFinder.find_spec(value.split(".")[0], trusted) is not None:
                        found[name] = value
    return found


def make_reporter(pytest, spec, guard, send, plan, plugins):
    import importlib

    repository = spec["repository"]
    files = {os.path.join(repository, one["file"]): one for one in plan["files"]}
    hidden = {os.path.join(repository, name): name for name in spec["modules"]}
    runs = {"item": None, "phases": {}, "twice": None, "parts": [], "real": 0.0, "canary": 0.0}
    repeats = bool({"rerunfailures", "flaky"} & set(plugins))
    clock = time.monotonic
    focus = focus_of(spec)
    marks = make_helper(plan)
    if is_rehearsal(plan):
        start_questions(spec, plan, marks)
    seen = set()
    snapshots = []
    compiled = {}
    names = TestNames(hidden)
    paths = {}

    def path_of(node):
        path = str(getattr(node, "path", None) or node.fspath)
        if path not in paths:
            paths[path] = os.path.realpath(path)
        return paths[path]

    def canary_of(item):
        one = files.get(path_of(item))
        if one is None:
            return None, None
        cls = getattr(item, "cls", None)
        name = names_of(item)[0].rpartition(".")[2]
        return one, canary_in(one, cls, name, focus)

    def say_changed(names):
        names = [name for name in names if name not in seen][:50]
        if names:
            seen.update(names)
            send({"k": "changed", "names": [name[:200] for name in names]})

    def compile_file(config):
        def compile_once(path):
            compiled[path] = rewritten(path, config)
            return compiled[path]

        return compile_once

    class Reporter(object):
        def compare(self, whole):
            if snapshots:
                say_changed(snapshots[0].compare(whole) + snapshots[1].compare(whole))
            if whole and snapshots[2:]:
                say_changed(snapshots[2].compare_helpers())

        @pytest.hookimpl(tryfirst=True)
        def pytest_cmdline_parse(self, pluginmanager, args):
            outside = Outside(repository)
            sys.meta_path.insert(0, outside)
            for name, module in plugins.items():
                if pluginmanager.is_blocked(name) or pluginmanager.hasplugin(name):
                    continue
                try:
                    pluginmanager.register(importlib.import_module(module), name=name)
                except Exception:
                    # As one that is not installed: its options are then unknown, which the gate of the task shows.
                    continue
            sys.meta_path.remove(outside)
            try:
                from _pytest.assertion import rewrite

                if hasattr(rewrite, "_read_pyc"):
                    # Compiled files of the repository may say anything. What was compiled here is not compiled twice.
                    rewrite._read_pyc = lambda source, *arguments, **named: compiled.get(str(source))
            except ImportError:
                pass
            if is_rehearsal(plan):
                # Whatever is changed there, a rehearsed test that passes is one too many.
                return
            patched = [prefix for name, prefixes in PATCHING_PLUGINS.items() if name in plugins for prefix in prefixes]
            snapshots.append(Snapshot((Reporter,), patched))
            snapshots.append(Borrowed(hidden, repository, plan["helper"]))
            say_changed(from_repository(repository))

        def pytest_plugin_registered(self, plugin):
            path = getattr(plugin, "__file__", None)
            if type(path) is str and is_inside(path, repository) and is_made(path, spec):
                say_changed(["%s (the tests made it)" % os.path.basename(path)])

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(self, session, config, items):
            ours = [item for item in items if canary_of(item)[0] is not None and not is_amid(canary_of(item)[0], plan)]
            yield
            theirs = [item for item in items if canary_of(item)[0] is None or is_amid(canary_of(item)[0], plan)]
            kept = [item for item in ours if is_played(canary_of(item)[1], plan) and is_function_item(item)]
            if is_rehearsal(plan) and not plan["amid"]:
                items[:] = kept
                return
            early = [item for item in kept if canary_of(item)[0]["place"] == "early"]
            late = [item for item in kept if canary_of(item)[0]["place"] != "early"]
            # Copies come behind: what they leave in the process must not reach the hidden tests. Code that counts its calls gains
            # nothing by that, for a copy that is not turned must pass like the test itself. These come before the turned ones, which
            # end at an assertion, in front of what a test may undo at its end.
            first, others = parted(late, lambda item: canary_of(item)[1], plan)
            items[:] = early + theirs + mixed(first) + mixed(others)

        def pytest_collection_finish(self, session):
            send_plan(send, [identify(item) for item in session.items if canary_of(item)[0] is None])

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_make_collect_report(self, collector):
            """From 8 on pytest lists a folder again for each of its files that it is given, so many canaries took longer to find than to play."""
            result = yield
            report = result.get_result()
            if report.outcome == "passed" and isinstance(collector, getattr(pytest, "Directory", ())):
                found = list(report.result)
                collector.collect = lambda: list(found)

        def pytest_collectreport(self, report):
            if report.outcome == "passed":
                return
            path = os.path.realpath(os.path.join(repository, report.nodeid.split("::")[0]))
            name = files[path]["file"] if path in files else hidden.get(path)
            send({"k": "collect", "id": report.nodeid[:MAX_ID], "file": name, "outcome": "skipped" if report.outcome == "skipped" else "error"})

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session):
            if session.config.option.collectonly:
                return True
            queue = list(session.items)
            say_changed(snapshots[2].compare_helpers() if snapshots[2:] else [])
            item = self.take(queue)
            while item is not None:
                following = self.take(queue)
                self.run(item, following)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
                item = following
            return True

        def take(self, queue):
            while queue:
                item = queue.pop(0)
                one, canary = canary_of(item)
                if one is None or one["place"] != "copy" or canary in plan.get("always", ()):
                    return item
                if runs["real"] == 0.0 or runs["canary"] < max(CANARY_FLOOR_S, CANARY_SHARE * runs["real"]):
                    return item
                send({"k": "left-out", "c": canary})
            return None

        def run(self, item, following):
            one, canary = canary_of(item)
            runs.update(item=item, phases={}, twice=None, parts=[])
            marks.clear()
            marks.calm, marks.test = plan["calm"].get(str(canary), NOWHERE), names_of(item)[0].rpartition(".")[2]
            self.check_code(item)
            item.repr_failure = describing(item.repr_failure)
            started = clock()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            took = clock() - started
            self.check_code(item)
            self.compare(False)
            runs["canary" if one is not None and one["place"] == "copy" else "real"] += took
            outcome = outcome_of(runs["phases"], runs["parts"])
            if runs["twice"] is not None and not repeats:
                say_changed(["two reports of one test"])
                outcome = "error"
            name, parameters = names_of(item)
            record = {"k": "test", "id": identify(item), "outcome": outcome, "file": hidden.get(path_of(item)), "of": name, "with": parameters[:MAX_ID]}
            if one is not None:
                marks.finish(getattr(item, "obj", None), outcome)
                record.update(c=canary, file=one["file"], reached=marks.reached, survived=marks.survived, lied=marks.lied, strayed=marks.strayed)
            marks.is_inside = False
            send(record)

        def check_code(self, item):
            module = getattr(item, "module", None)
            if snapshots[2:]:
                say_changed(snapshots[2].compare(path_of(item), getattr(item, "cls", None), item))
                say_changed(names.compare(path_of(item), getattr(module, "__dict__", None)))

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_load_initial_conftests(self, early_config):
            if not is_rehearsal(plan):
                snapshots.append(TestTexts(list(hidden) + list(files), compile_file(early_config), repository))
            yield

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            # Before a report is made of it: that asks what was raised for its text, which is code under test.
            raised = call.excinfo is not None
            if snapshots:
                say_changed(overlaid(getattr(item, "instance", None), repository))
            result = yield
            report = result.get_result()
            if item is not runs["item"]:
                runs["twice"] = report.when
                return
            # Of a case it is known from here on.
            if report.when == "call" and call.excinfo is not None:
                marks.fell(call.excinfo.tb)
            phase = (report.outcome, raised or call.excinfo is not None, hasattr(report, "wasxfail"))
            before = runs["phases"].get(report.when)
            # Parts of a test are reported as the test is, and may not hide one another.
            runs["phases"][report.when] = phase if before is None or repeats else worse(before, phase)

        def pytest_runtest_logreport(self, report):
            # Parts of a test have reports of their own.
            if type(report).__name__.lower() == "subtestreport" and report.outcome == "failed":
                runs["parts"].append(report.outcome)

    return Reporter()


def describing(describe):
    """To describe a failure, pytest looks at paths while the failed test still holds what it has changed, as `os.name`."""
    def described(*given, **named):
        try:
            return describe(*given, **named)
        except Exception:
            return "failed"

    return described


def rewritten(path, config):
    """As pytest compiles it."""
    from _pytest.assertion import rewrite

    # Before the first conftest the options are known, but not those of the configuration.
    known = getattr(config, "known_args_namespace", None)
    if getattr(known, "assertmode", None) == "plain" or config.getoption("assertmode", "rewrite") != "rewrite":
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True)
    if hasattr(rewrite, "Path"):
        path = rewrite.Path(path)
    else:
        import py

        path = py.path.local(path)
    return rewrite._rewrite_test(path, config)[1]


def identify(item):
    return item.nodeid[:MAX_ID]


def names_of(item):
    """Class and function of a test, and its parameters."""
    cls = getattr(item, "cls", None)
    name = getattr(item, "originalname", None) or item.name.split("[")[0]
    return (cls.__name__ + "." if cls is not None else "") + name, item.name[len(name):]


def is_function_item(item):
    return hasattr(item, "function") or hasattr(item, "_testcase") or type(item).__name__ in ("Function", "TestCaseFunction")


def mixed(items):
    """Canaries by module, those of one module in any order, parameters and classes together as pytest left them."""
    groups = []
    for item in items:
        place = (item.nodeid.split("[")[0], getattr(item, "cls", None))
        if groups and groups[-1][0] == place:
            groups[-1][1].append(item)
        else:
            groups.append((place, [item]))
    chance = random.SystemRandom()
    files = []
    for place, group in groups:
        name = place[0].split("::")[0]
        if not files or files[-1][0] != name:
            files.append((name, []))
        files[-1][1].append(group)
    result = []
    for name, found in files:
        if all(getattr(group[0], "cls", None) is None for group in found):
            chance.shuffle(found)
        result.extend(item for group in found for item in group)
    return result


def is_played(canary, plan):
    return canary is not None and plan["alone"] in (None, canary)


def is_amid(one, plan):
    """Is this file of a rehearsed module played as the module itself is?"""
    return plan["amid"] and one["place"] == "turned"


def parted(late, canary_of, plan):
    """Canaries that run before the others, and those."""
    first = set(plan.get("first", ()))
    return [one for one in late if canary_of(one) in first], [one for one in late if canary_of(one) not in first]


def worse(one, two):
    order = ("failed", "skipped", "passed")
    return min(one[0], two[0], key=order.index), one[1] or two[1], one[2] or two[2]


def outcome_of(phases, parts):
    """Of the raw ends of the three phases and of what the reports made of them: an honest pass is one in both."""
    setup, call, teardown = (phases.get(when) for when in ("setup", "call", "teardown"))
    if setup is None or teardown is None:
        return "error"
    if setup[0] != "passed":
        return ("xfailed" if setup[2] else "skipped") if setup[0] == "skipped" else "error"
    if teardown[0] != "passed" or teardown[1] or call is None:
        return "error"
    outcome, raised, expected = call
    if outcome == "skipped":
        return "xfailed" if expected else "skipped"
    if outcome != "passed":
        return "failed"
    if expected:
        return "xpassed"
    return "failed" if raised or setup[1] or parts else "passed"


# Numbers, and collections of them.
ARITHMETIC = frozenset(["numpy", "pandas", "torch", "decimal", "_decimal", "_pydecimal", "fractions"])
# Of one value, how many of its parts that are no plain ones.
MAX_ALTERED = 2000
FUNCTIONS = (type(near), type(len), type([].append), functools.partial)
# What is compared by what it is, beside plain kinds.
VALUES = (type(None), type, range, slice, bytearray, complex, type(re.compile(""))) + FUNCTIONS
VALUE_MODULES = ARITHMETIC | {"uuid", "pathlib", "datetime", "_datetime", "_pydatetime", "enum", "ipaddress"}
COLLECTIONS = (list, tuple, dict, set, frozenset)
PLAIN_KINDS = (bool, int, float, str, bytes, list, tuple, dict, set, frozenset)


# Kinds that honest exceptions are rarely of besides their own.
OTHER_ERRORS = (TypeError, ValueError, RuntimeError, IndexError, ZeroDivisionError, NotImplementedError, EOFError)
OTHER_WARNINGS = (UnicodeWarning, BytesWarning, SyntaxWarning, ImportWarning)


def unrelated(kinds, expected):
    """Those that are neither above nor below an expected one."""
    return [kind for kind in kinds if not any(issubclass(kind, one) or issubclass(one, kind) for one in expected)]


class Marks(object):
    def __init__(self):
        # Files of the tests, None for helpers beside them.
        self.liars = set()
        # What was altered, with what it was.
        self.pairs = []
        self.flush = self.forget = lambda: None
        self.is_cut_short = lambda function, outcome: False
        self.escape = lambda trace, is_altered: None
        self.clear()
        self.is_inside = False

    def clear(self):
        """Before a test. What was made before belongs to none."""
        self.flush()
        self.forget()
        del self.pairs[:]
        self.reached = self.survived = self.lied = self.strayed = self.is_weighed = False
        self.calm = NOWHERE
        self.expected = ()
        # The name of its function, where that is known.
        self.test = None
        self.is_inside = True

    def finish(self, function, outcome):
        """Behind a test."""
        self.flush()
        self.lied = self.lied or self.is_cut_short(function, outcome)
        self.is_inside = False

    def fell(self, error):
        """A test ends with an error, of which this is the trace."""
        if self.calm == ANYWHERE or (self.calm == BEFORE_IT and not self.reached):
            self.escape(error, self.reached)

    def accuse(self, path):
        """A value of the code under test says what no honest one does. `path` is the file that asked."""
        self.liars.add(path)
        if self.is_inside:
            self.lied = True


def make_helper(plan):
    """What the copies of hidden tests import: marks, and values that no code knows."""
    import types

    marks = Marks()
    reals = [(ast.literal_eval(after), before) for after, before in plan.get("reals", ())]
    turns = turns_of(plan.get("turns", ()))
    fail = AssertionError
    secret = os.urandom(16)
    parts_left = [0]

    def mark(number, value=None):
        if number == 2 and not (marks.expected and is_also(type(sys.exc_info()[1]), marks.expected)):
            marks.survived = True
        if number == 3:
            # Something was raised before anything was compared.
            marks.strayed = marks.strayed or not marks.is_weighed
            marks.is_weighed = False
        if number == 4:
            marks.escape(sys.exc_info()[2], True)
        if number in (0, 2, 3, 4):
            return
        marks.reached = True
        if type(value) in (float, complex) or type(value).__module__.split(".")[0] in ("numpy", "pandas", "decimal"):
            # What is not a number differs from itself.
            raise fail()

    def alter(value, depth=0, chance=None):
        """Another value of the same kind, where one can be made: always the same one, for code may ask for what its caller asks for."""
        try:
            found = altered_value(value, depth, random.Random(secret) if chance is None else chance)
        except Exception:
            found = MISSING
        found = helper.other if found is MISSING else found
        return known(value, found) if depth == 0 else found

    def altered_value(value, depth, chance):
        kind = type(value)
        if kind in (bool, int, float, str, bytes):
            found = [one for one in (near(value, chance), far(value, chance)) if one is not MISSING]
            if found and kind is str and re.match(r"-?\d+(?:\.\d+)?$", value):
                # Whatever it is given to takes numbers alone.
                return found[0]
            return chance.choice(found) if found else MISSING
        parts_left[0] = MAX_ALTERED if depth == 0 else parts_left[0] - 1
        if depth > 3 or parts_left[0] < 0:
            return MISSING
        if depth > 0 and is_looped(value):
            return MISSING
        if kind in (list, tuple):
            parts = list(value)
            # They may be sorted.
            more = chance.randrange(1000, 100000) if parts and all(type(one) in (int, float) for one in parts) else random_word(chance)
            if not parts or chance.random() < 0.3:
                return kind(parts + [more])
            at = chance.randrange(len(parts))
            other = alter(parts[at], depth + 1, chance)
            if type(other) in PLAIN_KINDS and any(type(one) is type(other) and one == other for one in parts):
                # A set of them may be the same.
                return kind(parts + [more])
            parts[at] = other
            return kind(parts)
        if kind is dict:
            parts = dict(value)
            if not parts or chance.random() < 0.3:
                parts[random_word(chance)] = random_word(chance)
            else:
                name = chance.choice(list(parts))
                parts[name] = alter(parts[name], depth + 1, chance)
            return parts
        if kind in (set, frozenset):
            return kind(value | {random_word(chance)})
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return kind._make([alter(one, depth + 1, chance) for one in value])
        module = kind.__module__.split(".")[0]
        enum = sys.modules.get("enum")
        if enum is not None and isinstance(value, enum.Enum):
            others = [one for one in kind if one is not value]
            return chance.choice(others) if others else MISSING
        if module in ARITHMETIC or kind is complex:
            return beyond(value, chance)
        if module in ("datetime", "_datetime", "_pydatetime"):
            return other_time(value, chance)
        found = altered_kind(value, depth, chance)
        if found is not MISSING:
            return found
        # An object of the project or of the tests.
        copy = (types.SimpleNamespace if isinstance(value, types.SimpleNamespace) else object).__new__(kind)
        return copy if is_filled(copy, value, depth, chance) else MISSING

    def is_value(value):
        return type(value) in PLAIN_KINDS or isinstance(value, VALUES) or root_of(type(value)) in VALUE_MODULES

    def is_filled(copy, value, depth, chance):
        """Gives an object all attributes of another one, changed, also those of its attributes, and the plain ones that it shares with its class:
        it may compare nothing else."""
        before = attributes_of(value)
        if depth > 0 and not all(map(is_value, before.values())):
            # What links objects stays itself, for a walk over them may end there only.
            return False
        after = {name: alter(one, depth + 1, chance) for name, one in before.items()}
        for name, one in before.items():
            object.__setattr__(copy, name, one if after[name] is helper.other else after[name])
        if hasattr(copy, "__dict__"):
            shared = {name: one for cls in reversed(mro_of(type(value))) for name, one in dict_of(cls).items()
                      if type(one) in PLAIN_KINDS and not name.startswith("__") and name not in before}
            for name, one in shared.items():
                found = alter(one, depth + 1, chance)
                if found is not helper.other:
                    object.__setattr__(copy, name, found)
        return any(one is not helper.other for one in after.values())

    def altered_kind(value, depth, chance):
        """Of a kind that has its equality from Python: another one of it. Parts of an object may be all that the object compares."""
        if value is None and depth > 0:
            return random_word(chance)
        if isinstance(value, type):
            return helper.kind
        pathlib = sys.modules.get("pathlib")
        if pathlib is not None and isinstance(value, pathlib.PurePath):
            return value / random_word(chance)
        if isinstance(value, FUNCTIONS + (types.MethodType,)):
            return lambda *given, **named: None
        if type(value) is range:
            return range(value.start, value.stop + value.step * chance.randrange(1, 9), value.step)
        if type(value) is slice:
            return slice(value.start, chance.randrange(1000, 100000), value.step)
        if type(value) is bytearray:
            return bytearray(alter(bytes(value), depth + 1, chance))
        if type(value) is type(re.compile("")):
            word = random_word(chance)
            return re.compile(value.pattern + (word if type(value.pattern) is str else word.encode("ascii")), value.flags)
        for base in (collections.OrderedDict, dict, list, set, collections.deque):
            if isinstance(value, base):
                return altered_container(value, base, depth, chance)
        for base in (str, bytes, int, float, tuple, frozenset):
            if isinstance(value, base):
                found = alter(base(base.__getnewargs__(value)[0] if hasattr(base, "__getnewargs__") else value), depth + 1, chance)
                made = base.__new__(type(value), found)
                is_filled(made, value, depth, chance)
                return made
        return MISSING

    def altered_container(value, base, depth, chance):
        """By its own means where it says how it is copied, for it may hold more than its base does; the base's where it holds values alone."""
        is_dict, word = isinstance(value, dict), random_word(chance)
        if hasattr(type(value), "__copy__"):
            found = copy.copy(value)
            if is_dict:
                found[word] = word
            else:
                (found.add if isinstance(value, set) else found.append)(word)
            return found
        if not all(is_value(one) and not is_looped(one) for one in attributes_of(value).values()):
            return MISSING
        made = base.__new__(type(value))
        is_filled(made, value, depth, chance)
        if is_dict:
            for name, one in list(base.items(value)) + [(word, word)]:
                base.__setitem__(made, name, one)
        else:
            for one in list(base.__iter__(value)) + [word]:
                (base.add if base is set else base.append)(made, one)
        return made

    def away(value):
        """So far from it that nothing the code under test makes of the real one happens to equal it."""
        return known(value, alter(value, 0, Far()))

    def part(value, keys, change):
        """A copy of a record with another value for one of its parts."""
        try:
            found = alter_part(value, keys, change)
            is_other = part_of(found, keys) is not part_of(value, keys)
        except Exception:
            is_other = False
        # What has no such part any more fails at the assertion.
        return known(value, found if is_other else helper.other)

    def part_of(value, keys):
        for way, name in keys:
            value = getattr(value, name) if way == "attribute" else value[name]
        return value

    def alter_part(value, keys, change):
        if not keys:
            return change(value)
        (way, name), kind = keys[0], type(value)
        other = alter_part(part_of(value, keys[:1]), keys[1:], change)
        if way == "attribute":
            if isinstance(value, tuple) and hasattr(kind, "_fields"):
                return kind._make([other if field == name else one for field, one in zip(kind._fields, value)])
            found = object.__new__(kind)
            for field, one in attributes_of(value).items():
                object.__setattr__(found, field, one)
            object.__setattr__(found, name, other)
            return found
        found = dict(value) if kind is dict else list(value)
        found[name] = other
        return kind(found) if kind in (dict, list, tuple) else kind._make(found)

    def known(value, other):
        marks.pairs.append((other, value))
        return other

    def before(value):
        """What an expected value was, MISSING where it is none that was altered."""
        for after, one in reversed(marks.pairs):
            if after is value:
                # Code under test may have changed a collection meanwhile, or what the test holds in its place.
                return one if is_rare(value) and type(value) not in COLLECTIONS else MISSING
        try:
            places = [(test, type(value), repr(value)) for test in (marks.test, None)] if type(value) in PLAIN_KINDS else []
            return next((turns[place] for place in places if place in turns), MISSING)
        except Exception:
            return MISSING

    marks.before = before

    def real(value):
        """What a local held before it was altered."""
        for after, before in reversed(marks.pairs):
            if after is value:
                return before
        return next((ast.literal_eval(before) for after, before in reals if type(after) is type(value) and after == value), value)

    def held_too(name, value):
        """The runner holds what it gives to a test under the name of its parameter, and code under test may look there. What the test itself
        holds, and what merely is the same object, may be an input of that code."""
        before, frame = real(value), sys._getframe(2)
        for _ in range(12):
            if frame is None:
                return
            for one in list(frame.f_locals.values()):
                for names in (one, getattr(one, "funcargs", None), getattr(getattr(one, "callspec", None), "params", None)):
                    if type(names) is dict and names.get(name) is before:
                        names[name] = value
            frame = frame.f_back

    class Far(random.Random):
        """Chooses the last of what it is given: what is far, not what is like it."""

        def __init__(self):
            super(Far, self).__init__(secret)

        def choice(self, found):
            return found[-1]

        def random(self):
            return 0.0

    def is_also(kind, expected):
        """Is it a kind of exception that is expected, and besides of one or two others, as honest ones are? Of all of them is none."""
        bases = mro_of(kind)
        others = [one for one in unrelated(OTHER_ERRORS, expected) if one in bases]
        return len(others) < 3 and any(one in bases for one in expected)

    def unlike(expected, number, is_imported=False, is_caught=False):
        """A known kind of exception that is neither above nor below an expected one. None of a project has all others below it."""
        try:
            given = expected if isinstance(expected, tuple) else (expected,)
            if any(issubclass(helper.problem, one) and (is_imported or one not in (Exception, BaseException)) for one in given):
                marks.lied = True
            kinds = OTHER_WARNINGS if any(issubclass(one, Warning) for one in given) else OTHER_ERRORS
            found = unrelated(kinds, given)
            other = found[number % len(found)]
            if is_caught:
                # The mark in the handler looks at what was raised.
                marks.expected = given
                return known(expected, other)

            class Unlike(type):
                def __subclasscheck__(cls, one):
                    return issubclass(one, other) and not is_also(one, given)

            return known(expected, Unlike(other.__name__, (other,), {}))
        except Exception:
            return helper.problem

    class Unraised(object):
        """Marks that the block inside of it has ended without an exception."""

        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            if kind is None:
                mark(2)

    def shift(value):
        """Beyond every tolerance."""
        try:
            return known(value, beyond(value, random.Random(secret)))
        except Exception:
            return alter(value)

    def strange(value):
        """Nothing that what it is looked for in happens to have."""
        if type(value) in (str, bytes):
            word = random_word(random.Random(secret))
            return known(value, word if type(value) is str else word.encode("ascii"))
        return away(value)

    def other_time(value, chance):
        import datetime

        if isinstance(value, datetime.tzinfo):
            return datetime.timezone(datetime.timedelta(hours=chance.randrange(1, 23), minutes=17))
        if type(value) is datetime.time:
            return value.replace(hour=(value.hour + chance.randrange(1, 23)) % 24)
        return value + datetime.timedelta(days=chance.randrange(400, 4000))

    helper = types.ModuleType(plan["helper"])
    kind = type(random_word().capitalize(), (), {})
    helper.__dict__.update(mark=mark, alter=alter, away=away, part=part, strange=strange, real=real, held_too=held_too, shift=shift, unlike=unlike, unraised=Unraised(), kind=kind, other=type(random_word().capitalize(), (), {})(), problem=type(random_word().capitalize(), (Exception,), {}),
                           warning=type(random_word().capitalize(), (UserWarning,), {}))
    sys.modules[plan["helper"]] = helper
    return marks


def is_rare(value):
    """Does nothing else have this value, or be this object, by chance?"""
    if type(value) in (int, float):
        return abs(value) > 1000
    if type(value) in COLLECTIONS:
        return any(map(is_rare, list(value) + (list(value.values()) if type(value) is dict else [])))
    # Code under test may have changed another kind meanwhile.
    return type(value) in (str, bytes) and len(value) > 3


def is_looped(value, path=(), left=None):
    """Does a collection hold itself, as the links of a list do? A walk over an altered one may never end."""
    left = [MAX_ALTERED] if left is None else left
    left[0] -= 1
    if type(value) not in COLLECTIONS or left[0] < 0:
        return False
    parts = value.values() if type(value) is dict else value
    return id(value) in path or len(path) > 50 or any(is_looped(one, path + (id(value),), left) for one in list(parts))


def turns_of(literals):
    """Literals by the test that expects them (None for all of them) and by what they became, without those that two of them became."""
    found = {}
    for test, after, before in literals:
        try:
            after, before = ast.literal_eval(after), ast.literal_eval(before)
        except (ValueError, TypeError, SyntaxError):
            continue
        if not is_rare(after):
            continue
        known = found.setdefault((test, type(after), repr(after)), before)
        if known is not before and (type(known), repr(known)) != (type(before), repr(before)):
            found[test, type(after), repr(after)] = MISSING
    return found


def start_questions(spec, plan, marks):
    """In a rehearsal the files of the tests ask more than they say."""
    repository = spec["repository"]
    name = plan["names"]["questions"]
    hidden = {os.path.realpath(os.path.join(repository, one["file"])) for one in plan["files"]}

    def is_asked(path):
        path = os.path.realpath(path)
        inside = os.path.relpath(path, repository)
        return path in hidden or (is_inside(path, repository) and (is_of_tests(inside) or os.path.basename(path) == "conftest.py"))

    places = {}

    def place_of(code):
        """Is code of the tests, and of the repository? Files are looked at once: each altered assertion fails."""
        name = code.co_filename
        if name not in places:
            places[name] = is_asked(name), is_inside(name, repository)
        return places[name]

    def before_of(expected):
        inner = getattr(expected, "expected", MISSING)
        if inner is MISSING or root_of(type(expected)) != "_pytest":
            return marks.before(expected)
        # An approximation is one of what was expected before, as near.
        before = marks.before(inner)
        return MISSING if before is MISSING else type(expected)(before, rel=expected.rel, abs=expected.abs, nan_ok=expected.nan_ok)

    def weigh(kept, expected):
        """Is what the tests are answered what they expected before that was altered?"""
        before = MISSING if root_of(type(kept)) == "_pytest" else before_of(expected)
        if before is MISSING:
            return False
        # The tests may compare two of their own.
        if any(after is kept for after, _ in marks.pairs) or marks.before(kept) is not MISSING:
            return True
        if not kept == before and not (before != before and kept != kept):
            marks.strayed = True
        return True

    def weigh_near(left, right, check):
        """Is it as near to what the tests expected before that was altered as they ask for?"""
        for kept, expected in ((left, right), (right, left)):
            before = marks.before(expected)
            # What is no plain value may keep what it is compared with.
            if before is not MISSING and marks.before(kept) is MISSING and is_made_of_atoms(kept, 0):
                try:
                    check(kept, before)
                except Exception:
                    marks.strayed = True

    def weigh_found(found, place):
        """Is what the tests looked for, before that was altered, found in what they are answered? Or what they are answered in what they allowed?"""
        before, allowed = marks.before(found), marks.before(place)
        if before is not MISSING and is_made_of_atoms(place, 0):
            marks.strayed = marks.strayed or type(place) in (int, float, complex, bool, type(None)) or before not in place
        elif allowed is not MISSING and is_made_of_atoms(found, 0):
            marks.strayed = marks.strayed or found not in allowed

    def escape(trace, is_altered):
        """Was it raised by what a test calls? In an altered statement a comparison may raise, for it is given a value of another kind, and so may
        a helper of the project that asserts."""
        called, is_begun = [], False
        while trace is not None and len(called) < MAX_FRAMES:
            code, trace = trace.tb_frame.f_code, trace.tb_next
            if place_of(code)[0]:
                is_begun = True
                # What a test gives to the code under test may assert as well.
                called = [] if is_altered else called
            elif is_begun:
                called.append(code)
        inside = [place_of(code)[1] for code in called[:1 if is_altered else None]]
        if any(inside) and not (called[0].co_name in JUDGING or CHECKING.search(called[0].co_name)):
            marks.strayed = True

    marks.escape = escape
    questions = Questions(repository, lambda paths: marks.accuse(next((path for path in paths if path in hidden), None)))
    questions.weigh, questions.weigh_found, questions.weigh_near = weigh, weigh_found, weigh_near
    questions.begin_weighing = lambda: setattr(marks, "is_weighed", True)
    sys.modules[plan["helper"]].questions = questions
    marks.flush, marks.forget, marks.is_cut_short = questions.flush, questions.begun.clear, questions.is_cut_short

    def in_tree(tree, path):
        return questions.in_tree(tree, path, name, plan["helper"]) if is_asked(path) else None

    ASKING[0] = in_tree
    rewrite = sys.modules.get("_pytest.assertion.rewrite")
    if rewrite is not None:
        rewrite_asserts = rewrite.rewrite_asserts

        def rewrite_asked(tree, *rest, **named):
            for path in [one for one in list(rest) + list(named.values()) if isinstance(one, str)][:1]:
                if in_tree(tree, path) is not None:
                    # An altered assertion need not describe itself, and a third of the time goes into rewriting those that do.
                    return None
            return rewrite_asserts(tree, *rest, **named)

        rewrite.rewrite_asserts = rewrite_asked
        # Of files beside the tests: an object that is asked for its text may change.
        rewrite._saferepr = lambda value: ""
        rewrite._call_reprcompare = lambda operators, results, texts, values: texts[-1]

    def say_lies(send):
        """Also those between tests, which are in no record of one."""
        marks.flush()
        for one in plan["files"]:
            if marks.liars & {None, os.path.realpath(os.path.join(repository, one["file"]))}:
                send({"k": "lied", "c": one["keep"][WHOLE]})

    AT_END.append(say_lies)


# What a rehearsal has to say when its tests have ended.
AT_END = []
# The canary of a rehearsed module itself: of tests that no other canary stands for, and of what is asked between tests.
WHOLE = "*"


# ---------------------------------------------------------------- child: unittest and Django


def run_unittest(spec, guard, send, plan):
    import unittest

    top = os.path.join(spec["repository"], top_directory(spec["arguments"]))
    if sys.path[0] != top:
        sys.path.insert(0, top)
    runner = make_runner(spec, guard, send, plan)
    runner.watch()
    files = [one["file"] for one in plan["files"] if one["place"] == "early"] + spec["modules"]
    files += [one["file"] for one in plan["files"] if one["place"] in ("late", "copy")]
    loader = unittest.TestLoader()
    suites = []
    for file in files:
        inside = os.path.relpath(os.path.join(spec["repository"], file), top)
        suites.append(loader.loadTestsFromName(os.path.splitext(inside)[0].replace(os.sep, ".")))
    runner.check_origin({os.path.splitext(os.path.relpath(os.path.join(spec["repository"], file), top))[0].replace(os.sep, "."): file for file in spec["modules"]})
    runner().run(unittest.TestSuite(suites))
    return runner.finish()


def top_directory(arguments):
    """Modules are named from here: `-t`, else the directory of `discover`, else the repository."""
    found = {}
    rest = list(arguments)
    if "discover" not in rest and not {"-s", "--start-directory", "-t", "--top-level-directory"} & set(rest):
        return "."
    while rest:
        word = rest.pop(0)
        for short, long in (("-s", "--start-directory"), ("-t", "--top-level-directory")):
            if word in (short, long) and rest:
                found[short] = rest.pop(0)
            elif word.startswith(long + "="):
                found[short] = word[len(long) + 1:]
    return found.get("-t") or found.get("-s") or "."


def run_django(spec, guard, send, plan):
    """The repository's own `runtests.py` makes settings, applications and databases; its runner of suites is ours."""
    import runpy
    import unittest

    runner = make_runner(spec, guard, send, plan)
    unittest.TextTestRunner = runner
    try:
        # Cases of Django put its adapter in the place of a test that is a coroutine, and it is held against what it was.
        __import__("asgiref.sync")
    except ImportError:
        pass
    runner.watch()
    script = program_of(spec)
    folder = os.path.dirname(script)
    sys.path.insert(0, folder)
    labels = list(spec["labels"]) or [label_of(name) for name in spec["modules"]]
    labels += [label_of(one["file"]) for one in plan["files"] if one["place"] != "turned"]
    sys.argv = [script] + list(spec["arguments"]) + labels
    ended = None
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        ended = error.code
    return runner.finish() or (None if ended in (None, 0, 1, True, False) else "runtests.py ended with code %s" % str(ended)[:100])


def program_of(spec):
    """Of the repository, where one starts the tests; None where a runner of ours does."""
    return os.path.join(spec["repository"], "tests", "runtests.py") if spec["runner"] == "django" else None


def label_of(file):
    parts = os.path.splitext(file)[0].split(os.sep)
    return ".".join(parts[1:] if parts[0] == "tests" else parts)


def make_runner(spec, guard, send, plan):
    """A runner of suites, whose `run` may be called once, with all tests."""
    import unittest

    repository = spec["repository"]
    files = {os.path.join(repository, one["file"]): one for one in plan["files"]}
    hidden = {os.path.join(repository, name): name for name in module_files(spec)}
    state = {"test": None, "marks": [], "finished": False, "real": 0.0, "canary": 0.0}
    marks = make_helper(plan)
    if is_rehearsal(plan):
        start_questions(spec, plan, marks)
    clock = time.monotonic
    focus = focus_of(spec)
    watch = {}
    names = TestNames(hidden)
    seen = set()

    def say_changed(names):
        names = [name for name in names if name not in seen][:50]
        if names:
            seen.update(names)
            send({"k": "changed", "names": [name[:200] for name in names]})

    def path_of(test):
        failed = getattr(test, "_exception", None)
        if failed is not None and type(test).__name__ == "_FailedTest":
            name = test._testMethodName
            for path in list(files) + list(hidden):
                if os.path.splitext(path)[0].replace(os.sep, ".").endswith("." + name):
                    return path
        module = sys.modules.get(type(test).__module__)
        return os.path.realpath(getattr(module, "__file__", None) or "")

    def namespace_of(test):
        return getattr(sys.modules.get(type(test).__module__), "__dict__", None)

    def name_of(test):
        return type(test).__name__ + "." + getattr(test, "_testMethodName", "")

    def canary_of(test):
        """Of a test in a file of canaries."""
        return canary_in(files[path_of(test)], type(test), getattr(test, "_testMethodName", ""), focus)

    def printed(test):
        """What stands before ` ... ok` in the output of the verbose runner, the line of a docstring included."""
        describe = getattr(test, "shortDescription", None)
        line = describe() if describe is not None else None
        return (str(test) + ("\n" + line if line else ""))[:MAX_ID]

    class Result(unittest.TestResult):
        def startTest(self, test):
            super(Result, self).startTest(test)
            if state["test"] is not None:
                say_changed(["a test inside of a test"])
            state.update(test=test, marks=[])
            marks.clear()
            marks.calm = plan["calm"].get(str(canary_of(test)), NOWHERE) if path_of(test) in files else NOWHERE
            marks.test = getattr(test, "_testMethodName", None)

        def stopTest(self, test):
            super(Result, self).stopTest(test)
            if state["test"] is None:
                # Python 3.12.1 does not start what is skipped.
                return
            found, state["test"] = state["marks"], None
            outcome = "error" if not found else worst(found) if len(found) == 1 or "passed" not in found else "error"
            marks.finish(getattr(test, getattr(test, "_testMethodName", ""), None), outcome)
            report(test, outcome)

        def note(self, test, outcome, error=None):
            if state["test"] is None or getattr(test, "test_case", test) is not state["test"]:
                # Fixtures of a class or a module.
                report(test, outcome)
            else:
                state["marks"].append(outcome)
                if error is not None:
                    marks.fell(error[2])

        def addSuccess(self, test):
            self.note(test, "passed")

        def addError(self, test, err):
            super(Result, self).addError(test, err)
            self.note(test, "error", err)

        def addFailure(self, test, err):
            super(Result, self).addFailure(test, err)
            self.note(test, "failed", err)

        def addSkip(self, test, reason):
            super(Result, self).addSkip(test, reason)
            self.note(test, "skipped")

        def addExpectedFailure(self, test, err):
            super(Result, self).addExpectedFailure(test, err)
            self.note(test, "xfailed")

        def addUnexpectedSuccess(self, test):
            super(Result, self).addUnexpectedSuccess(test)
            self.note(test, "xpassed")

        def addSubTest(self, test, subtest, err):
            super(Result, self).addSubTest(test, subtest, err)
            if err is not None:
                self.note(test, "failed" if issubclass(err[0], test.failureException) else "error", err)

        def _exc_info_to_string(self, err, test):
            return ""

    def report(test, outcome):
        one = files.get(path_of(test))
        record = {"k": "test", "id": printed(test), "outcome": outcome, "file": hidden.get(path_of(test)), "of": name_of(test), "with": ""}
        if one is not None:
            canary = canary_of(test)
            record.update(file=one["file"], c=canary, reached=marks.reached, survived=marks.survived, lied=marks.lied, strayed=marks.strayed)
            if canary is None:
                record["k"] = "collect"
        send(record)

    def flatten(suite):
        try:
            tests = list(suite)
        except TypeError:
            return [suite]
        return [test for one in tests for test in flatten(one)]

    class Suite(unittest.TestSuite):
        """Leaves canaries out whose time is over, and looks after each test at what must not change."""

        def __iter__(self):
            for test in list(self._tests):
                one = files.get(path_of(test))
                is_copy = one is not None and one["place"] == "copy"
                if is_copy and state["real"] > 0.0 and state["canary"] >= max(CANARY_FLOOR_S, CANARY_SHARE * state["real"]):
                    canary = canary_of(test)
                    if canary not in plan.get("always", ()):
                        send({"k": "left-out", "c": canary})
                        continue
                say_changed(watch["texts"].compare(path_of(test), type(test), test) + names.compare(path_of(test), namespace_of(test)))
                started = clock()
                yield test
                say_changed(names.compare(path_of(test), namespace_of(test)) + ([] if is_rehearsal(plan) else overlaid(test, repository)))
                state["canary" if is_copy else "real"] += clock() - started
                say_changed(watch["snapshot"].compare(False) + watch["texts"].compare(path_of(test), type(test), test, True) + watch["borrowed"].compare())

        def _removeTestAtIndex(self, index):
            return None

    class Runner(object):
        def __init__(self, *arguments, **options):
            self.resultclass = Result

        def run(self, suite):
            tests = flatten(suite)
            if spec["runner"] == "django":
                self.check_origin({label_of(name): name for name in hidden.values()})
            is_theirs = lambda test: path_of(test) not in files or is_amid(files[path_of(test)], plan)
            theirs = [test for test in tests if is_theirs(test)]
            ours = [test for test in tests if not is_theirs(test)]
            kept = [test for test in ours if is_played(canary_of(test), plan) or type(test).__name__ == "_FailedTest"]
            place = lambda test: files[path_of(test)]["place"]
            early = [test for test in kept if place(test) == "early"]
            first, others = parted([test for test in kept if place(test) != "early"], canary_of, plan)
            if is_rehearsal(plan) and not plan["amid"]:
                theirs = []
            parts = (theirs, first, others)
            cases = getattr(sys.modules.get("django.test"), "TestCase", None)
            if spec["runner"] == "django" and cases is not None:
                # Tests of a case that is rolled back come before those that empty the database, and so do their copies.
                rolled = [[test for test in part if cases in type(test).__mro__] for part in parts]
                rest = [[test for test in part if cases not in type(test).__mro__] for part in parts]
                if rest[0] and rolled[0]:
                    # What they leave in the process reaches tests: as few as can be.
                    optional = [test for test in rolled[2] if place(test) == "copy" and canary_of(test) not in plan.get("always", ())]
                    for test in optional:
                        send({"k": "left-out", "c": canary_of(test)})
                    parts = (rolled[0], rolled[1], [test for test in rolled[2] if test not in optional]) + tuple(rest)
            send_plan(send, [printed(test) for test in theirs])
            result = Result()
            say_changed(watch["texts"].compare_helpers())
            result.startTestRun()
            try:
                Suite(early + [test for part in parts for test in part]).run(result)
            finally:
                result.stopTestRun()
            state["finished"] = True
            return result

        @staticmethod
        def check_origin(names):
            """The folders of a package can be made to lead elsewhere."""
            for name, file in names.items():
                module = sys.modules.get(name)
                path = getattr(module, "__file__", None)
                if path is not None and os.path.realpath(path) != os.path.realpath(os.path.join(repository, file)):
                    say_changed(["%s does not lie where the hidden tests do" % name])

        @staticmethod
        def watch():
            if is_rehearsal(plan):
                # Whatever is changed there, a rehearsed test that passes is one too many.
                watch.update(snapshot=Unwatched, texts=Unwatched, borrowed=Unwatched)
                return
            watch["snapshot"] = Snapshot((Result, Suite, Runner))
            say_changed(from_repository(repository))
            watch["texts"] = TestTexts(list(hidden) + list(files), lambda path: compile(open(path, "rb").read(), path, "exec", dont_inherit=True), repository,
                                       program_of(spec))
            watch["borrowed"] = Borrowed(hidden, repository, plan["helper"])

        @staticmethod
        def finish():
            say_changed(watch["snapshot"].compare(True) + watch["borrowed"].compare(True) + watch["texts"].compare_helpers())
            return None if state["finished"] else "the tests were not run"

    return Runner


if __name__ == "__main__":
    main(sys.argv[1:])
