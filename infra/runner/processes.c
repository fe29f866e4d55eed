#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runner.h"

long long now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

void nap_ms(int ms) {
  struct timespec time = {ms / 1000, (ms % 1000) * 1000000L};
  nanosleep(&time, NULL);
}

/* As /proc/PID/stat counts it. */
unsigned long long uptime_ticks(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (unsigned long long)time.tv_sec * 100 + (unsigned long long)time.tv_nsec / 10000000;
}

void reap(void) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    leader_ended(pid, status);
    guest_ended(pid);
  }
}

/* The first number of a small file; -1 where there is none, as for `max`. */
static long read_counter(const char *path) {
  char text[32];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return -1;
  text[length] = 0;
  return text[0] >= '0' && text[0] <= '9' ? atol(text) : -1;
}

const char *control_groups = "/sys/fs/cgroup";

bool has_room(void) {
  static const char *const folders[] = {"/pids", ""};
  for (int i = 0; i < 2; i += 1) {
    char path[512];
    snprintf(path, sizeof path, "%s%s/pids.max", control_groups, folders[i]);
    if (access(path, R_OK) != 0) continue;
    long limit = read_counter(path);
    snprintf(path, sizeof path, "%s%s/pids.current", control_groups, folders[i]);
    long used = read_counter(path);
    return limit < 0 || used < 0 || limit - used >= 6;
  }
  return true;
}

/* Kills by the memory limit so far: both versions of control groups write them in the same form. */
long count_oom_kills(void) {
  static const char *const counters[] = {"/memory.events", "/memory/memory.oom_control"};
  for (int i = 0; i < 2; i += 1) {
    char text[512], path[512];
    snprintf(path, sizeof path, "%s%s", control_groups, counters[i]);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    const char *found = strstr(text, "oom_kill ");
    return found == NULL ? 0 : atol(found + strlen("oom_kill "));
  }
  return 0;
}

struct process {
  char state;
  pid_t parent;
  int threads;
  unsigned long long start, ticks;
  bool is_git;
};

static bool read_stat(const char *path, struct process *into) {
  char text[1024];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = 0;
  /* The name in parentheses may hold anything. */
  const char *name = strchr(text, '('), *rest = strrchr(text, ')');
  if (name == NULL || rest == NULL) return false;
  into->is_git = rest - name == 4 && strncmp(name, "(git", 4) == 0;
  unsigned long long user, system;
  if (sscanf(rest + 2, "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %d %*d %llu", &into->state,
             &into->parent, &user, &system, &into->threads, &into->start) != 6)
    return false;
  into->ticks = user + system;
  return true;
}

static bool look_at(pid_t pid, struct process *into) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  return read_stat(path, into);
}

/* The state is that of the first thread. Where only that one has ended, the kernel shows a zombie whose other threads go on. */
static bool is_dead(const struct process *process) {
  return process->threads <= 1 && (process->state == 'Z' || process->state == 'X');
}

static bool is_connection(pid_t pid) {
  for (const struct stream *stream = streams; stream != NULL; stream = stream->next)
    if (stream->pid == pid && !stream->is_closed) return true;
  return false;
}

/* How many were left to end. */
static int end_all_but(pid_t spared) {
  int found = 0;
  DIR *folder = opendir("/proc");
  if (folder == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    pid_t pid = (pid_t)atoi(entry->d_name);
    struct process process;
    if (pid <= 1 || pid == spared || is_connection(pid) || !look_at(pid, &process) || is_dead(&process)) continue;
    kill(pid, SIGKILL);
    found += 1;
  }
  closedir(folder);
  return found;
}

/* Stopped first: a stopped process starts no other. */
void end_others(pid_t spared) {
  kill(-1, SIGSTOP);
  for (int passes = 0; passes < 60 && end_all_but(spared) > 0; passes += 1) {
    nap_ms(passes < 10 ? 2 : 50);
    reap();
  }
  reap();
  kill(-1, SIGCONT);
}

/* The mark of a process in its environment: the turn's number, -1 for ours, -2 for none. */
static int mark_of(pid_t pid) {
  static char text[131072];
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/environ", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -2;
  size_t length = 0;
  for (ssize_t part; length < sizeof text - 1; length += (size_t)part) {
    part = read(file, text + length, sizeof text - 1 - length);
    if (part <= 0) break;
  }
  close(file);
  text[length] = 0;
  for (size_t at = 0; at < length; at += strlen(text + at) + 1) {
    if (strncmp(text + at, "LH_TURN=-", 9) != 0) continue;
    const char *mark = text + at + 9;
    return *mark >= '0' && *mark <= '9' ? atoi(mark) : -1;
  }
  return -2;
}

void end_strays(int turn, unsigned long long since) {
  for (int passes = 0; passes < 20; passes += 1) {
    int found = 0;
    DIR *folder = opendir("/proc");
    if (folder == NULL) return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
      pid_t pid = (pid_t)atoi(entry->d_name);
      struct process process;
      if (pid <= 1 || is_connection(pid) || !look_at(pid, &process) || is_dead(&process)) continue;
      /* Processes that the engine started beside the runner have no parent here. */
      if (process.parent == 0 || process.start < since) continue;
      int mark = mark_of(pid);
      if (mark != turn && mark != -2) continue;
      kill(pid, SIGKILL);
      found += 1;
    }
    closedir(folder);
    if (found == 0) return;
    nap_ms(1);
    reap();
  }
}

/* Whether a thread of it computes, waits for a processor or waits for a disk. */
static bool is_busy(pid_t pid) {
  char path[48 + sizeof(((struct dirent *)0)->d_name)];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *folder = opendir(path);
  if (folder == NULL) return false;
  bool is_found = false;
  for (struct dirent *entry; !is_found && (entry = readdir(folder)) != NULL;) {
    struct process thread;
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", pid, entry->d_name);
    is_found = entry->d_name[0] != '.' && read_stat(path, &thread) && strchr("RD", thread.state) != NULL;
  }
  closedir(folder);
  return is_found;
}

/* What a process of a script had computed at the last look. */
struct spent {
  pid_t pid;
  unsigned long long start, ticks;
};

enum { MOST_SEEN = 4096 };

static struct spent spent[MOST_SEEN];
static int spent_count;

void forget_script(void) { spent_count = 0; }

/* What a process has computed that the last look did not see. */
static unsigned long long new_ticks(pid_t pid, const struct process *process) {
  for (int i = 0; i < spent_count; i += 1)
    if (spent[i].pid == pid && spent[i].start == process->start) return process->ticks - spent[i].ticks;
  return process->ticks;
}

/* The script is its first process, what that starts, and the Git that Git starts. Other children of Git are filters of the agent: their
 * work is not the script's, which waits for them. */
struct script_look look_at_script(pid_t leader) {
  static struct {
    pid_t pid;
    bool is_own;
    struct process process;
  } all[MOST_SEEN];
  struct script_look look = {0, 0};
  int count = 0;
  DIR *folder = opendir("/proc");
  if (folder == NULL) return look;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL && count < MOST_SEEN;) {
    all[count].pid = (pid_t)atoi(entry->d_name);
    all[count].is_own = all[count].pid == leader;
    if (all[count].pid > 1 && look_at(all[count].pid, &all[count].process) && !is_dead(&all[count].process)) count += 1;
  }
  closedir(folder);
  for (bool is_growing = true; is_growing;) {
    is_growing = false;
    for (int child = 0; child < count; child += 1)
      for (int parent = 0; parent < count && !all[child].is_own; parent += 1) {
        bool is_started = all[parent].is_own && all[parent].pid == all[child].process.parent;
        if (!is_started || (all[parent].pid != leader && !all[child].process.is_git)) continue;
        all[child].is_own = is_growing = true;
      }
  }
  unsigned long long ticks = 0;
  bool is_working = false;
  for (int i = 0; i < count; i += 1) {
    if (!all[i].is_own) continue;
    ticks += new_ticks(all[i].pid, &all[i].process);
    is_working = is_working || is_busy(all[i].pid);
    look.trace += (unsigned long long)all[i].pid * 1000003 + all[i].process.ticks;
  }
  spent_count = 0;
  for (int i = 0; i < count; i += 1)
    if (all[i].is_own) spent[spent_count++] = (struct spent){all[i].pid, all[i].process.start, all[i].process.ticks};
  if (is_working) look.trace = 0;
  look.computed_ms = (long long)ticks * 1000 / sysconf(_SC_CLK_TCK);
  return look;
}
