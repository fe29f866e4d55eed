"""Lays the audited tree into the repository, has its tests run, and takes everything back.

arguments: REPOSITORY, FOLDER (`changes` of Git, the index `tested`, `spec.json` with @UID@, `audit.py` packed)
The answer of `audit.py` goes to standard output as it is. Started with `-I -S -B`, before any code of the patch has run.

exit code:  0 it answered · 9 this Python is too old, nothing was done · 10 the tree cannot be laid in · 11 it did not answer
"""

import base64
import os
import signal
import stat
import sys
import time
import zlib

if sys.version_info < (3, 6):
    sys.exit(9)

MAX_ANSWER_BYTES = 16 * 1024 * 1024
# Beyond the limit that audit.py keeps itself.
SLACK_S = 60


class DoesNotFit(Exception):
    pass


class Tree:
    """Every step is noted before it is made, so that taking back needs nothing else."""

    def __init__(self, repository, folder):
        self.repository = os.fsencode(repository)
        self.folder = os.fsencode(folder)
        self.moved = []  # (path, where it is kept)
        self.placed = []
        self.made = []  # folders
        self.modes = []  # (path, mode before)

    def place(self):
        os.mkdir(os.path.join(self.folder, b"saved"), 0o700)
        changes = read_changes(os.path.join(self.folder, b"changes"))
        present = [path for path, mode in changes if mode not in (b"000000", b"160000")]
        self.keep_interpreter(changes)
        self.extract(present)
        for path, _ in changes:
            self.set_aside(path)
        for path in present:
            self.lay(path)

    def keep_interpreter(self, changes):
        """An environment inside the repository is what root starts next: no patch may change it."""
        top = os.path.realpath(self.repository)
        for prefix in {sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(sys.executable))}:
            inside = os.path.relpath(os.path.realpath(os.fsencode(prefix)), top) + b"/"
            touched = [path for path, _ in changes if (path + b"/").startswith(inside)]
            if inside != b"./" and touched:
                raise DoesNotFit("%r belongs to the interpreter of the task" % touched[0])

    def extract(self, paths):
        """Of the index, whose attributes are those of the image: a patch must not choose how tests are written down."""
        listed = os.path.join(self.folder, b"listed")
        with open(listed, "wb") as file:
            file.write(b"".join(path + b"\0" for path in paths))
        environment = {
            b"PATH": os.environb.get(b"PATH", b""),
            b"GIT_CONFIG_NOSYSTEM": b"1",
            b"GIT_CONFIG_GLOBAL": b"/dev/null",
            b"GIT_ATTR_NOSYSTEM": b"1",
            b"GIT_DIR": os.path.join(self.folder, b"git"),
            b"GIT_WORK_TREE": os.path.join(self.folder, b"empty"),
            b"GIT_INDEX_FILE": os.path.join(self.folder, b"tested"),
        }
        prefix = b"--prefix=" + os.path.join(self.folder, b"tree/")
        command = [b"git", b"-c", b"core.bare=false", b"checkout-index", b"-q", b"-z", b"--stdin", prefix]
        if spawn(command, environment, listed, os.path.join(self.folder, b"empty")) != 0:
            raise DoesNotFit("git could not write the tree")

    def set_aside(self, path):
        full = os.path.join(self.repository, path)
        if not self.has_real_parents(path) or not os.path.lexists(full):
            return
        kept = os.path.join(self.folder, b"saved", b"%d" % len(self.moved))
        self.moved.append((full, kept))
        try:
            os.rename(full, kept)
        except OSError as error:
            self.moved.pop()
            raise DoesNotFit("%r cannot be moved: %s" % (path, error))

    def lay(self, path):
        full = os.path.join(self.repository, path)
        parents = path.split(b"/")[:-1]
        folder = self.repository
        for name in parents:
            folder = os.path.join(folder, name)
            if not os.path.lexists(folder):
                self.made.append(folder)
                os.mkdir(folder, 0o755)
            elif os.path.islink(folder) or not os.path.isdir(folder):
                raise DoesNotFit("%r lies behind something that is no folder" % path)
        self.placed.append(full)
        os.rename(os.path.join(self.folder, b"tree", path), full)

    def has_real_parents(self, path):
        folder = self.repository
        for name in path.split(b"/")[:-1]:
            folder = os.path.join(folder, name)
            if os.path.islink(folder):
                raise DoesNotFit("%r lies behind a link" % path)
            if not os.path.isdir(folder):
                return False
        return True

    def guard(self):
        """A world-writable file would let a test rewrite the next one; a folder that only root may enter would hide its modules."""
        found = os.path.join(self.folder, b"open")
        command = [b"find", self.repository, b"-xdev", b"!", b"-type", b"l", b"-perm", b"-002", b"-print0"]
        spawn(command, os.environb, None, b"/", found)
        with open(found, "rb") as file:
            for path in file.read().split(b"\0")[:-1]:
                self.change_mode(path, lambda mode: mode & ~0o002)
        tops = [self.repository] + [os.fsencode(path) for path in {sys.executable, sys.prefix, sys.base_prefix}]
        for top in tops:
            for path in {top, os.path.realpath(top)}:
                while True:
                    path = os.path.dirname(path)
                    self.change_mode(path, open_folder)
                    if path == b"/":
                        break

    def change_mode(self, path, change):
        before = stat.S_IMODE(os.lstat(path).st_mode)
        after = change(before)
        if after != before and not os.path.islink(path):
            self.modes.append((path, before))
            os.chmod(path, after)

    def take_back(self):
        for path, mode in reversed(self.modes):
            os.chmod(path, mode)
        for path in reversed(self.placed):
            remove(path)
        for path in reversed(self.made):
            remove(path)
        for path, kept in reversed(self.moved):
            if os.path.lexists(path):
                remove(path)
            os.rename(kept, path)


def open_folder(mode):
    """May be passed through by all; where all may write, only owners may rename."""
    return mode | 0o001 | (stat.S_ISVTX if mode & 0o002 else 0)


def read_changes(path):
    with open(path, "rb") as file:
        words = file.read().split(b"\0")
    return [(words[at + 1], words[at].split(b" ")[1]) for at in range(0, len(words) - 1, 2)]


def remove(path):
    if os.path.islink(path) or not os.path.isdir(path):
        if os.path.lexists(path):
            os.unlink(path)
    else:
        spawn([b"rm", b"-rf", b"--", path], os.environb, None, b"/")


def spawn(command, environment, input_path, folder, output_path=None):
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(input_path or b"/dev/null", os.O_RDONLY), 0)
            os.dup2(os.open(output_path or b"/dev/null", os.O_WRONLY | os.O_CREAT, 0o600), 1)
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        finally:
            os._exit(127)
    return os.waitpid(child, 0)[1]


def run_audit(folder, uid):
    """What `audit.py` wrote, and whether it ended well."""
    with open(os.path.join(folder, "spec.json")) as file:
        spec = file.read().replace('"@UID@"', str(uid))
    with open(os.path.join(folder, "spec.json"), "w") as file:
        file.write(spec)
    unpack(os.path.join(folder, "audit.py"))
    limit_s = float(spec.split('"timeout_s":')[1].split(",")[0].split("}")[0]) + SLACK_S
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            # Of everything in this container it and its children are the first to end where memory does.
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("900")
            os.dup2(writing, 1)
            os.closerange(3, 64)
            program = [sys.executable, "-I", "-S", "-B", os.path.join(folder, "audit.py")]
            os.execv(sys.executable, program + [os.path.join(folder, "spec.json")])
        finally:
            os._exit(127)
    os.close(writing)
    os.set_blocking(reading, False)
    answer = bytearray()
    ends = time.monotonic() + limit_s
    status = None
    pause = 0.001
    while True:
        read = drain(reading, answer)
        if status is not None and not read:
            break
        if len(answer) > MAX_ANSWER_BYTES or time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            sys.stderr.write("audit.py was ended: it said too much or took too long\n")
            return bytes(answer), False
        if status is None:
            ended, code = os.waitpid(child, os.WNOHANG)
            if ended != 0:
                status = code
                continue
        if not read:
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
    if status != 0:
        sys.stderr.write("audit.py ended with status %d\n" % status)
    return bytes(answer), status == 0


def unpack(path):
    with open(path, "rb") as file:
        text = zlib.decompress(base64.b85decode(file.read()))
    with open(path, "wb") as file:
        file.write(text)


def drain(reading, answer):
    try:
        chunk = os.read(reading, 65536)
    except BlockingIOError:
        return False
    answer.extend(chunk)
    return bool(chunk)


def unused_id(repository):
    """Of no account: files that belong to it are left by tests."""
    used = {b"%d" % os.lstat(os.path.join(repository, name)).st_uid for name in [""] + os.listdir(repository)}
    for path in ("/etc/passwd", "/etc/group"):
        try:
            with open(path, "rb") as file:
                used.update(line.split(b":")[2] for line in file if line.count(b":") > 2)
        except OSError:
            pass
    while True:
        number = 61000 + int.from_bytes(os.urandom(2), "big") % 4000
        if b"%d" % number not in used and not processes_of(number):
            return number


def sweep(uid, repository):
    """Files that the tests left where all may write, and in the repository where `audit.py` was ended before it took them away."""
    own = [b"find", os.fsencode(repository), b"-xdev", b"-user", b"%d" % uid, b"-exec", b"rm", b"-rf", b"--", b"{}", b"+"]
    spawn(own, os.environb, None, b"/")
    folders = [path for path in (b"/tmp", b"/var/tmp", b"/dev/shm", b"/dev/mqueue", b"/run/lock") if os.path.isdir(path)]
    command = [b"find"] + folders + [b"-xdev", b"-mindepth", b"1", b"-maxdepth", b"1", b"-user", b"%d" % uid]
    spawn(command + [b"-exec", b"rm", b"-rf", b"--", b"{}", b"+"], os.environb, None, b"/")


def is_outside(path, repository):
    """Programs that root starts here are the image's: a patch may bring others of the same name."""
    top = os.path.realpath(repository)
    return os.path.isabs(path) and not (os.path.realpath(path) + "/").startswith(top + "/")


def main():
    repository, folder = sys.argv[1:]
    os.umask(0o022)
    os.environ["PATH"] = ":".join(path for path in os.environ.get("PATH", os.defpath).split(":") if is_outside(path, repository))
    tree = Tree(repository, folder)
    uid = unused_id(repository)
    code = 10
    answer = b""
    try:
        tree.place()
        tree.guard()
        answer, ended = run_audit(folder, uid)
        code = 0 if ended else 11
    except DoesNotFit as error:
        sys.stderr.write("%s\n" % error)
    finally:
        end_all(uid, uid)
        sweep(uid, repository)
        tree.take_back()
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
