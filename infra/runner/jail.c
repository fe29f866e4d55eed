/* Processes of the agent run in a user namespace of their own. Root there has every user and group of the image and the
 * capabilities of the container. The one exception is the runner's user, which the namespace does not map: no process there
 * can signal, trace or slow down the runner, nor change its files, as any user.
 * In a pod, which always has a network, they have a network namespace of their own too, with nothing but loopback. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"

static int jail = -1, network = -1;

static void fail(const char *what) {
  dprintf(2, "longhaul runner: %s: %s\n", what, strerror(errno));
  _exit(70);
}

static void set_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets) != 0) fail("capget");
  for (int half = 0; half < 2; half += 1) {
    sets[half].effective = sets[half].permitted;
    sets[half].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, sets) != 0) fail("capset");
}

void become_runner(void) {
  if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) fail("keep capabilities");
  if (setgroups(0, NULL) != 0 || setresgid(RUNNER_ID, RUNNER_ID, RUNNER_ID) != 0) fail("group of the runner");
  if (setresuid(RUNNER_ID, RUNNER_ID, RUNNER_ID) != 0) fail("user of the runner");
  set_capabilities();
  /* The runner's files below /proc must belong to the runner. No other process can become this user. */
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) fail("dumpable");
}

/* Maps all ids that this container may use except the runner's. On an engine with user-namespace remapping that is not every id. */
static void write_map(pid_t pid, const char *which) {
  char path[64], line[128], text[4096] = "";
  snprintf(path, sizeof path, "/proc/self/%s", which);
  FILE *known = fopen(path, "re");
  if (known == NULL) fail(path);
  while (fgets(line, sizeof line, known) != NULL) {
    unsigned long long first, outside, count;
    if (sscanf(line, "%llu %llu %llu", &first, &outside, &count) != 3 || count == 0) continue;
    unsigned long long end = first + count;
    const unsigned long long parts[2][2] = {
        {first, end < RUNNER_ID ? end : RUNNER_ID},
        {first > RUNNER_ID + 1ULL ? first : RUNNER_ID + 1ULL, end},
    };
    for (int part = 0; part < 2; part += 1) {
      if (parts[part][0] >= parts[part][1]) continue;
      size_t used = strlen(text);
      snprintf(text + used, sizeof text - used, "%llu %llu %llu\n", parts[part][0], parts[part][0],
               parts[part][1] - parts[part][0]);
    }
  }
  fclose(known);
  snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text)) fail(path);
  close(file);
}

static void raise_loopback(void) {
  struct ifreq request = {.ifr_name = "lo"};
  int door = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (door < 0 || ioctl(door, SIOCGIFFLAGS, &request) != 0) fail("loopback");
  request.ifr_flags |= IFF_UP;
  if (ioctl(door, SIOCSIFFLAGS, &request) != 0) fail("loopback");
  close(door);
}

void make_jail(bool in_pod) {
  int begun[2], mapped[2];
  char byte = 0, path[64];
  if (pipe2(begun, O_CLOEXEC) != 0 || pipe2(mapped, O_CLOEXEC) != 0) fail("pipe");
  pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    if (unshare(CLONE_NEWUSER | (in_pod ? CLONE_NEWNET : 0)) != 0) fail("this kernel or engine refuses a user namespace");
    if (in_pod) raise_loopback();
    if (write(begun[1], &byte, 1) != 1) _exit(70);
    /* Until the file of the namespace is open. */
    close(mapped[1]);
    if (read(mapped[0], &byte, 1) < 0) _exit(70);
    _exit(0);
  }
  close(begun[1]);
  if (read(begun[0], &byte, 1) != 1) {
    waitpid(pid, NULL, 0);
    _exit(70);
  }
  write_map(pid, "uid_map");
  write_map(pid, "gid_map");
  snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
  jail = open(path, O_RDONLY | O_CLOEXEC);
  if (jail < 0) fail(path);
  snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
  if (in_pod && (network = open(path, O_RDONLY | O_CLOEXEC)) < 0) fail(path);
  close(begun[0]);
  close(mapped[0]);
  close(mapped[1]);
  waitpid(pid, NULL, 0);
}

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#define OTHER_ARCH AUDIT_ARCH_I386
#define OTHER_UNSHARE 310
#define OTHER_SETNS 346
#define NUMBER_MASK 0xbfffffff /* x32 has the same numbers with this bit */
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#define OTHER_ARCH AUDIT_ARCH_ARM
#define OTHER_UNSHARE 337
#define OTHER_SETNS 375
#define NUMBER_MASK 0xffffffff
#else
#error "no such architecture yet"
#endif

/* The engine's profile lets these two through, for us alone. */
static void forbid_namespaces(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OTHER_ARCH, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, NUMBER_MASK),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 3, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OTHER_UNSHARE, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OTHER_SETNS, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no new privileges");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) fail("filter of system calls");
}

/* What an engine limits for a container, and a kubelet cannot. */
static void limit_files(void) {
  const struct rlimit files = {4096, 4096}, cores = {0, 0};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setrlimit(RLIMIT_CORE, &cores) != 0) fail("limits of commands");
}

void enter_jail(void) {
  static const int kept[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_SETUID, CAP_SETGID, CAP_KILL};
  if (setns(jail, CLONE_NEWUSER) != 0) fail("the namespace of commands");
  if (network >= 0 && setns(network, CLONE_NEWNET) != 0) fail("the network of commands");
  if (network >= 0) limit_files();
  if (setresgid(0, 0, 0) != 0 || setgroups(0, NULL) != 0 || setresuid(0, 0, 0) != 0) fail("root of commands");
  for (int capability = 0; capability < 64; capability += 1) {
    bool is_kept = false;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i += 1) is_kept = is_kept || kept[i] == capability;
    if (is_kept || prctl(PR_CAPBSET_READ, capability, 0, 0, 0) <= 0) continue;
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) fail("capabilities of commands");
  }
  /* Memory that runs out ends them before us. */
  int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    if (write(score, "600", 3) != 3) errno = 0;
    close(score);
  }
  forbid_namespaces();
}
