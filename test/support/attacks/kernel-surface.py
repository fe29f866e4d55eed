"""Tries what a sandbox must forbid (the attack list's kernel surface) and prints one line each: `name errno-or-allowed`."""

import ctypes
import errno
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)
CLONE = {"mount": 0x20000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}
# x86-64 numbers; arm64 shares none of them.
SYSCALLS = {
    "keyctl": (250, 0, -3, 1),
    "add_key": (248, b"user", b"a", b"b", 1, -3),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "io_uring_setup": (425, 1, 0),
    "userfaultfd": (323, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "init_module": (175, 0, 0, b""),
    "open_by_handle_at": (304, -100, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, b"/x", 0),
    "settimeofday": (164, ctypes.create_string_buffer(16), 0),
    "pivot_root": (155, b"/", b"/"),
    "setns": (308, 0, 0),
    "chroot": (161, b"/tmp"),
    "iopl": (172, 3),
    "process_vm_writev": (311, 1, 0, 0, 0, 0, 0),
    "move_pages": (279, 1, 0, 0, 0, 0, 0),
    "mount_setattr": (442, -100, b"/", 0, 0, 0),
    "fsopen": (430, b"tmpfs", 0),
}


def say(name, code):
    print(name, "allowed" if code == 0 else errno.errorcode.get(code, code))


def attempt(name, action):
    try:
        action()
    except OSError as error:
        say(name, error.errno)
    else:
        say(name, 0)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def call(*arguments):
    if libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]) < 0:
        raise OSError(ctypes.get_errno(), "")


for kind, flag in CLONE.items():
    attempt(f"unshare_{kind}", lambda flag=flag: call(272, flag))
attempt("mount_tmpfs", lambda: call(165, b"x", b"/mnt", b"tmpfs", 0, 0))
attempt("mount_proc", lambda: call(165, b"proc", b"/mnt", b"proc", 0, 0))
attempt("umount_proc", lambda: call(166, b"/proc/sys", 2))
attempt("remount_cgroup", lambda: call(165, b"x", b"/sys/fs/cgroup", b"", 32, 0))
for name, arguments in SYSCALLS.items():
    attempt(name, lambda arguments=arguments: call(*arguments))
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/panic_on_oom", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
    attempt(f"write {path}", lambda path=path: write(path, "x"))
for folder in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"):
    for file in ("release_agent", "memory.limit_in_bytes", "memory.max", "pids.max", "cgroup.procs"):
        if os.path.exists(f"{folder}/{file}"):
            attempt(f"write {folder}/{file}", lambda path=f"{folder}/{file}": write(path, "1"))
for path in ("/proc/kcore", "/proc/keys", "/dev/mem", "/dev/kmsg"):
    attempt(f"read {path}", lambda path=path: (os.stat(path).st_rdev == os.makedev(1, 3)) or open(path, "rb").read(1) or None)
attempt("mknod_disk", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(8, 0)))
attempt("raw_socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet_socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))
attempt("netlink_route_write", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 1)))
attempt("renice", lambda: os.nice(-5))
attempt("oom_score_adj", lambda: write("/proc/self/oom_score_adj", "-1000"))
