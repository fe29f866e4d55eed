# Ends every process of a user. `tree.py` and `audit.py` begin with this text: the one ends what the other has left where it was ended
# itself. Syntax and library of Python 3.6.
import os
import signal
import time


def processes_of(uid):
    """Those that run: zombies hold nothing, and their parents may be others'. The state is that of the first thread, which may end alone."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            # A process may be named in bytes that are no text.
            with open("/proc/" + name + "/status", "rb") as file:
                lines = file.read().split(b"\n")
        except OSError:
            continue
        ids = next((line.split()[1:] for line in lines if line.startswith(b"Uid:")), [])
        state = next((line.split()[1] for line in lines if line.startswith(b"State:")), b"Z")
        threads = next((line.split()[1] for line in lines if line.startswith(b"Threads:")), b"1")
        if b"%d" % uid in ids and (state not in (b"Z", b"X") or threads not in (b"0", b"1")):
            found.append(int(name))
    return found


def end_all(uid, gid):
    """A process of that user ends all others of it at once; where none can be made any more they are ended one by one. What is forked
    between two looks is found by the next."""
    for attempt in range(500):
        try:
            child = os.fork()
        except OSError:
            for sign in (signal.SIGSTOP, signal.SIGKILL):
                for process in processes_of(uid):
                    try:
                        os.kill(process, sign)
                    except OSError:
                        pass
        else:
            if child == 0:
                try:
                    os.setgroups([])
                    os.setresgid(gid, gid, gid)
                    os.setresuid(uid, uid, uid)
                    os.kill(-1, signal.SIGKILL)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
        if not processes_of(uid):
            return
        time.sleep(0.005 if attempt < 20 else 0.02)
    raise RuntimeError("processes of user %d could not be ended" % uid)


