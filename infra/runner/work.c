/* What is done for a request: turns of the agent, and the scripts of ours that prepare a sandbox and read its repository. All of it runs in
 * the jail, one thing at a time; we wait for nothing but the clock and the death of children. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"

#define SCRIPTS "/.lh-runner/"
#define GRACE_MS 5000
#define LOOK_MS 250
#define CROWDED_MS 1000
#define GIT_MS 150000
/* What a worker of an earlier version does not say. */
#define GIT_CPU_MS 60000
/* Looks, not time: a machine that was stopped has not looked. Twenty seconds in a row, and a minute in all. */
#define BLOCKED_LOOKS 80
#define MAX_WAITED_LOOKS 240
#define MAX_STATE_FILE (8 << 20)
#define MAX_FENCE 1000000000000

enum kind { NOTHING, PREPARING, TURN, CAPTURE, TREE, RESET };

static struct {
  enum kind kind;
  pid_t leader;
  bool has_ended, is_ending;
  int status, output, reading, said;
  long long started, deadline, looked, crowded, computed_ms, most_cpu_ms;
  unsigned long long ticks, trace;
  int still, waited;
  char reason[16], turn[24];
  struct claim claim;
  long long most;
  long oom_kills;
} work = {.output = -1, .reading = -1, .said = -1};

/* What the next turn finds, and what the last one left. */
static struct record current;
static struct {
  bool is_ready;
  char commit[80], shell_name[8], shell[128], repository[1024];
  struct bytes state;
} sandbox;

char **image_environment;

bool is_working(void) { return work.kind != NOTHING; }

/* ---- the null device ---- */

static int null_device = -1;

/* Commands may put a pipe in its place, and an `open` of ours by that name would wait for the other end for ever. */
void keep_null_device(void) {
  null_device = open("/dev/null", O_RDWR | O_CLOEXEC);
  struct stat facts;
  if (null_device >= 0 && fstat(null_device, &facts) == 0 && S_ISCHR(facts.st_mode)) return;
  if (null_device >= 0) errno = ENODEV;
  dprintf(2, "longhaul runner: /dev/null: %s\n", strerror(errno));
  _exit(71);
}

int open_null_device(int mode) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", null_device);
  return open(path, mode | O_CLOEXEC);
}

/* ---- starting things in the jail ---- */

pid_t start_in_jail(char *const words[], char *const environment[], int in, int out, int err, const int *further) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  setsid();
  /* Until exec this is a copy of the runner: other processes must not trace it, even where the kernel's settings would let them. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  enter_jail();
  /* Out of the way first: a source may have the number of a target. */
  int files[8], targets[8], count = 0;
  const int first[] = {in, out, err};
  for (int i = 0; i < 3; i += 1) {
    files[count] = fcntl(first[i], F_DUPFD_CLOEXEC, 32);
    targets[count++] = i;
  }
  for (; further != NULL && *further >= 0 && count < 8; further += 2) {
    files[count] = fcntl(further[0], F_DUPFD_CLOEXEC, 32);
    targets[count++] = further[1];
  }
  for (int i = 0; i < count; i += 1)
    if (files[i] < 0 || dup2(files[i], targets[i]) < 0) _exit(126);
  if (chdir("/") != 0) _exit(126);
  umask(022);
  execve(words[0], words, environment);
  _exit(127);
}

static int in_memory(const void *text, size_t length) {
  int file = memfd_create("longhaul", MFD_CLOEXEC);
  if (file >= 0 && length > 0 && (write(file, text, length) != (ssize_t)length || lseek(file, 0, SEEK_SET) != 0)) {
    close(file);
    return -1;
  }
  return file;
}

static void close_file(int *file) {
  if (*file >= 0) close(*file);
  *file = -1;
}

static const char *variable(const char *name) {
  size_t length = strlen(name);
  for (char **at = image_environment; *at != NULL; at += 1)
    if (strncmp(*at, name, length) == 0 && (*at)[length] == '=') return *at + length + 1;
  return NULL;
}

static const char *search_path(void) {
  const char *path = variable("PATH");
  return path != NULL && *path != 0 ? path : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

static bool find_program(const char *name, char *into, size_t room) {
  for (const char *at = search_path(); *at != 0;) {
    size_t length = strcspn(at, ":");
    int written = snprintf(into, room, "%.*s/%s", (int)length, at, name);
    struct stat facts;
    if (*at == '/' && written > 0 && (size_t)written < room && stat(into, &facts) == 0 && S_ISREG(facts.st_mode) &&
        (facts.st_mode & 0111) != 0)
      return true;
    at += length;
    if (*at == ':') at += 1;
  }
  return false;
}

/* ---- the state that a shell leaves ---- */

/* Whether these bytes are a state: `#umask`, `#directory`, then what restores the environment. */
static bool is_state(const struct bytes *text) {
  if (text->length < 4 || text->at[0] != '#' || memchr(text->at, 0, text->length) != NULL) return false;
  size_t digits = strspn(text->at + 1, "01234567");
  const char *second = text->at + 1 + digits;
  return digits > 0 && digits < 6 && second[0] == '\n' && second[1] == '#' && strchr(second + 1, '\n') != NULL;
}

/* What the shell of this turn has written: its bytes, 0 where it wrote none or not all. The agent may have written anything there. */
static long long take_state(const char *turn, struct bytes *into) {
  struct bytes text = {0};
  long long length = 0;
  into->length = 0;
  /* Each shell writes over what lies there, so the rest of an earlier state stays behind it, however large that was. */
  if (read_start(agent, "state", MAX_STATE_FILE, &text)) {
    char mark[40];
    int size = snprintf(mark, sizeof mark, "%s\n", turn);
    char *end = memchr(text.at, 0, text.length);
    if (end != NULL && (size_t)(text.at + text.length - end - 1) >= (size_t)size && memcmp(end + 1, mark, (size_t)size) == 0) {
      text.length = (size_t)(end - text.at);
      if (is_state(&text)) {
        length = (long long)text.length;
        if (length <= MAX_STATE) append(into, text.at, text.length);
      }
    }
  }
  free(text.at);
  return length;
}

/* What the tools keep between calls: first line of the window, whether it was submitted, the open file. */
static void take_tool_state(struct record *into) {
  struct bytes text = {0};
  into->top = 0;
  into->submitted = false;
  into->opened.length = 0;
  if (read_file(agent, "state.tool", MAX_LINE_TEXT, &text)) {
    char *second = strchr(text.at, '\n');
    char *third = second == NULL ? NULL : strchr(second + 1, '\n');
    char *end = third == NULL ? NULL : strchr(third + 1, '\n');
    long long top = 0;
    if (end != NULL) {
      *second = *third = 0;
      if (read_number(text.at, 1000000000, &top) && end - third - 1 < 4096) {
        into->top = (long)top;
        into->submitted = strcmp(second + 1, "1") == 0;
        append(&into->opened, third + 1, (size_t)(end - third - 1));
      }
    }
  }
  append(&into->opened, "", 0);
  free(text.at);
}

/* ---- one thing at a time ---- */

static void tell_waiting(void (*how)(struct stream *)) {
  for (struct stream *stream = streams; stream != NULL; stream = stream->next)
    if (stream->is_busy && !stream->is_closed) how(stream);
}

static const char *told;

static void tell(struct stream *stream) { reply(stream, "%s", told); }

static void end_work(const char *answer_to_all) {
  close_file(&work.output);
  close_file(&work.reading);
  close_file(&work.said);
  work.kind = NOTHING;
  if (answer_to_all == NULL) return;
  told = answer_to_all;
  tell_waiting(tell);
}

void leader_ended(pid_t pid, int status) {
  if (work.kind == NOTHING || pid != work.leader) return;
  work.has_ended = true;
  work.status = status;
}

/* The stream has no reader any more; work that has begun continues. */
void forget_stream(struct stream *stream) { (void)stream; }

static void begin(enum kind kind, long long timeout_ms) {
  work.kind = kind;
  work.has_ended = work.is_ending = false;
  work.reason[0] = 0;
  work.leader = -1;
  work.started = work.looked = now_ms();
  work.crowded = 0;
  work.trace = 0;
  work.still = work.waited = 0;
  work.computed_ms = 0;
  forget_script();
  work.ticks = uptime_ticks();
  work.deadline = work.started + timeout_ms;
}

/* Runs a script of ours: small words come by descriptor 3, all else by its output. */
static bool run_script(enum kind kind, const char *script, char *const arguments[], char *const environment[], int in) {
  begin(kind, GIT_MS);
  work.output = open_script_output(&work.reading);
  work.said = in_memory(NULL, 0);
  int null = open_null_device(O_RDWR);
  if (work.output < 0 || work.reading < 0 || work.said < 0 || null < 0) {
    if (null >= 0) close(null);
    return false;
  }
  char path[64];
  snprintf(path, sizeof path, SCRIPTS "%s", script);
  char *words[12] = {"/bin/sh", path};
  for (int i = 0; i < 8 && arguments[i] != NULL; i += 1) words[2 + i] = arguments[i];
  const int further[] = {work.said, 3, -1};
  work.leader = start_in_jail(words, environment, in >= 0 ? in : null, work.output, null, further);
  close(null);
  return work.leader > 0;
}

static void script_environment(char *into[], char room[3][1400]) {
  snprintf(room[0], 1400, "PATH=%.1300s", search_path());
  snprintf(room[1], 1400, "LH_REPO=%s", sandbox.repository);
  into[0] = room[0];
  into[1] = room[1];
  into[2] = "HOME=/root";
  into[3] = "LH_TURN=-";
  into[4] = NULL;
}

/* The first line that the script said, without what would break a line of ours. */
static void hear(char *into, size_t room) {
  ssize_t length = work.said < 0 ? 0 : pread(work.said, into, room - 1, 0);
  into[length > 0 ? length : 0] = 0;
  into[strcspn(into, "\n")] = 0;
  for (char *at = into; *at != 0; at += 1)
    if (*at < ' ' || *at > '~') *at = '?';
}

static long long size_of_output(void) {
  struct stat facts;
  return work.reading >= 0 && fstat(work.reading, &facts) == 0 ? facts.st_size : 0;
}

static bool read_output(off_t from, size_t length, struct bytes *into) {
  into->length = 0;
  while (into->length < length) {
    char part[65536];
    size_t wanted = length - into->length < sizeof part ? length - into->length : sizeof part;
    ssize_t got = pread(work.reading, part, wanted, from + (off_t)into->length);
    if (got <= 0) break;
    append(into, part, (size_t)got);
  }
  return into->length == length;
}

/* ---- preparing ---- */

static bool write_for_agent(const char *name, const void *text, size_t length) {
  return write_file(agent, name, text, length, 0600) && fchownat(agent, name, 0, 0, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool write_ready(void) {
  struct bytes text = {0};
  append_format(&text, "%s %s %s %zu\n%s\n", sandbox.commit, sandbox.shell_name, sandbox.shell, sandbox.state.length,
                sandbox.repository);
  append(&text, sandbox.state.at, sandbox.state.length);
  append_text(&text, "\n.\n");
  bool is_written = write_file(home, "ready", text.at, text.length, 0600);
  free(text.at);
  return is_written;
}

static void start_anew(void) {
  current.state.length = 0;
  append(&current.state, sandbox.state.at, sandbox.state.length);
  take_tool_state(&current);
}

static void read_ready(void) {
  struct bytes text = {0};
  size_t length = 0;
  int used = 0;
  if (read_file(home, "ready", MAX_STATE + 4096, &text) &&
      sscanf(text.at, "%79s %7s %127s %zu\n%1023[^\n]\n%n", sandbox.commit, sandbox.shell_name, sandbox.shell, &length,
             sandbox.repository, &used) == 5 &&
      (size_t)used + length + 3 == text.length && strcmp(text.at + used + length, "\n.\n") == 0) {
    sandbox.state.length = 0;
    append(&sandbox.state, text.at + used, length);
    sandbox.is_ready = true;
    start_anew();
    char turn[128];
    snprintf(turn, sizeof turn, "%s", world);
    char *token = strchr(turn, '.');
    if (token != NULL) {
      *token = 0;
      if (!read_record(turn, token + 1, &current)) start_anew();
    }
  }
  free(text.at);
}

void open_journal(void) {
  open_home();
  read_ready();
}

static void tell_ready(struct stream *stream) {
  append_format(&stream->sent, "lh1 %s ready %s %ld %d %zu\n", stream->id, sandbox.commit, current.top, current.submitted,
                current.state.length);
  append(&stream->sent, current.opened.at, current.opened.length);
  append_text(&stream->sent, "\n");
  append(&stream->sent, current.state.at, current.state.length);
  stream->state.length = 0;
  append(&stream->state, current.state.at, current.state.length);
  stream->is_busy = false;
  flush(stream);
}

static bool starts_with(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static void prepare(struct stream *stream, const char *repository, const struct bytes *settings, struct bytes *environment) {
  static const char *const needed[] = {"awk", "cat", "cp", "git", "grep", "head", "mv", "rm", "sh", "tail", "wc"};
  char path[256];
  for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i += 1) {
    if (find_program(needed[i], path, sizeof path)) continue;
    reply(stream, "unsuitable program %s", needed[i]);
    return;
  }
  bool has_bash = find_program("bash", sandbox.shell, sizeof sandbox.shell);
  if (!has_bash) find_program("sh", sandbox.shell, sizeof sandbox.shell);
  strcpy(sandbox.shell_name, has_bash ? "bash" : "sh");
  snprintf(sandbox.repository, sizeof sandbox.repository, "%s", repository);
  struct stat facts;
  /* The engine writes this file only where it manages the network, and tests open sockets on `localhost`. */
  if (stat("/etc/hosts", &facts) != 0 || facts.st_size == 0) {
    static const char hosts[] = "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n";
    write_file(AT_FDCWD, "/etc/hosts", hosts, sizeof hosts - 1, 0644);
    if (fchownat(AT_FDCWD, "/etc/hosts", 0, 0, AT_SYMLINK_NOFOLLOW) != 0 || chmod("/etc/hosts", 0644) != 0) errno = 0;
  }
  static const char room_for_state[4096];
  if (!write_for_agent("settings", settings->at, settings->length) ||
      !write_for_agent("state", room_for_state, sizeof room_for_state)) {
    reply(stream, "full");
    return;
  }
  char *variables[256];
  char own[2][1400];
  int count = 0;
  for (char **at = image_environment; *at != NULL && count < 250; at += 1)
    if (!starts_with(*at, "LH_")) variables[count++] = *at;
  snprintf(own[0], sizeof own[0], "LH_REPO=%s", sandbox.repository);
  variables[count++] = own[0];
  struct bytes text = {0};
  append_text(&text, "LH_ENVIRONMENT=");
  append(&text, environment->at, environment->length);
  variables[count++] = text.at;
  variables[count] = NULL;
  begin(PREPARING, GIT_MS);
  work.said = in_memory(NULL, 0);
  int null = open_null_device(O_RDWR);
  const int further[] = {work.said, 3, -1};
  char *const words[] = {sandbox.shell, SCRIPTS "snapshot.sh", NULL};
  work.leader = start_in_jail(words, variables, null, null, null, further);
  close(null);
  free(text.at);
  stream->is_busy = true;
  if (work.leader < 0) end_work("lost no-process");
}

static bool is_commit(const char *text) {
  size_t length = strspn(text, "0123456789abcdef");
  return text[length] == 0 && (length == 40 || length == 64);
}

static void finish_preparation(void) {
  char answer_text[1200];
  bool is_whole = WIFEXITED(work.status) && WEXITSTATUS(work.status) == 0;
  long long length = is_whole ? take_state("start", &sandbox.state) : 0;
  hear(sandbox.commit, sizeof sandbox.commit);
  if (length > MAX_STATE) {
    snprintf(answer_text, sizeof answer_text, "unsuitable environment-of-%lld-bytes", length);
    end_work(answer_text);
  } else if (length == 0) {
    snprintf(answer_text, sizeof answer_text, "unsuitable shell %s", sandbox.shell);
    end_work(answer_text);
  } else if (!is_commit(sandbox.commit)) {
    snprintf(answer_text, sizeof answer_text, "unsuitable repository %s", sandbox.repository);
    end_work(answer_text);
  } else if (!write_ready()) {
    end_work("full");
  } else {
    sandbox.is_ready = true;
    start_anew();
    end_work(NULL);
    tell_waiting(tell_ready);
  }
}

static void finish_reset(void) {
  char commit[80];
  hear(commit, sizeof commit);
  forget_journal();
  if (!is_commit(commit)) {
    end_work("lost reset");
    return;
  }
  strcpy(sandbox.commit, commit);
  if (!write_ready()) {
    end_work("full");
    return;
  }
  start_anew();
  end_work(NULL);
  tell_waiting(tell_ready);
}

/* ---- turns ---- */

static bool follows(const char *after) {
  if (strcmp(after, world) != 0) return false;
  if (strcmp(after, "-") == 0) return true;
  char turn[128];
  snprintf(turn, sizeof turn, "%s", after);
  char *token = strchr(turn, '.');
  if (token == NULL) return false;
  *token = 0;
  struct record found = {0};
  bool is_done = read_record(turn, token + 1, &found);
  free(found.opened.at);
  free(found.state.at);
  free(found.head.at);
  free(found.tail.at);
  return is_done;
}

static void say(const char *notice) {
  if (work.output >= 0 && write(work.output, notice, strlen(notice)) < 0) errno = 0;
}

/* Ends what the agent has left running where so few processes more can be started that the next turn could not be. */
static void make_room(const char *when) {
  if (has_room()) return;
  end_others(work.has_ended ? 0 : work.leader);
  for (int patience = 40; patience > 0 && !has_room(); patience -= 1) {
    nap_ms(50);
    reap();
  }
  char notice[160];
  snprintf(notice, sizeof notice, "Notice: the sandbox can hold no more processes; those in the background %s were ended.\n", when);
  say(notice);
}

static void finish_turn(void);

static void start_turn(const struct bytes *command) {
  begin(TURN, 0);
  work.leader = 0;
  work.oom_kills = count_oom_kills();
  work.output = open_output(work.turn, work.claim.token, &work.reading);
  make_room("before the command");
  char umask_text[16], home_text[] = "HOME=/root", path[1400], shell[160], mark[40];
  size_t digits = strspn(current.state.at + 1, "01234567");
  snprintf(umask_text, sizeof umask_text, "%.*s", (int)digits, current.state.at + 1);
  const char *folder = current.state.at + 1 + digits + 2;
  char *place = strndup(folder, strcspn(folder, "\n"));
  snprintf(path, sizeof path, "PATH=%.1300s", search_path());
  snprintf(shell, sizeof shell, "SHELL=%s", sandbox.shell);
  snprintf(mark, sizeof mark, "LH_TURN=-%s-", work.turn);
  bool is_bash = strcmp(sandbox.shell_name, "bash") == 0;
  /* bash reads its command byte for byte without a process; other shells need one. By `eval`, so that messages say `bash: line 1:`. */
  char *entry = is_bash ? ". " SCRIPTS "command.sh; IFS= read -r -d \"\" lh_command <&9; exec 8<&- 9<&-; eval \"$lh_command\""
                        : ". " SCRIPTS "command.sh; lh_command=$(cat <&9); exec 8<&- 9<&-; eval \"$lh_command\"";
  char *const words[] = {sandbox.shell, "-c", entry, sandbox.shell_name, work.turn, umask_text, place, NULL};
  char *const environment[] = {home_text, path, shell, mark, NULL};
  int null = open_null_device(O_RDONLY);
  int state = in_memory(current.state.at, current.state.length);
  int text = in_memory(command->at, command->length);
  const int further[] = {state, 8, text, 9, -1};
  work.leader = work.output < 0 || state < 0 || text < 0
                    ? -1
                    : start_in_jail(words, environment, null, work.output, work.output, further);
  close_file(&null);
  close_file(&state);
  close_file(&text);
  free(place);
  if (work.leader > 0) return;
  work.has_ended = true;
  work.status = 254 << 8;
  strcpy(work.reason, "process-limit");
  finish_turn();
}

static void finish_turn(void) {
  struct record record = {0};
  for (int patience = 1000; patience > 0 && !work.has_ended; patience -= 1) {
    nap_ms(5);
    reap();
  }
  record.code = WIFSIGNALED(work.status) ? 128 + WTERMSIG(work.status) : WEXITSTATUS(work.status);
  if (work.reason[0] != 0) strcpy(record.reason, work.reason);
  else strcpy(record.reason, WIFSIGNALED(work.status) ? "signal" : "exit");
  record.wall_ms = now_ms() - work.started;
  long long length = take_state(work.turn, &record.state);
  if (length > MAX_STATE) {
    char notice[200];
    snprintf(notice, sizeof notice,
             "Notice: the shell's environment and directory take %lld bytes; at most %d are kept, so those before this command stay.\n",
             length, MAX_STATE);
    say(notice);
  }
  if (record.state.length == 0) append(&record.state, current.state.at, current.state.length);
  make_room("after it");
  take_tool_state(&record);
  record.oom_killed = count_oom_kills() > work.oom_kills;
  record.size = size_of_output();
  size_t head = (size_t)record.size, tail = 0;
  if (record.size > work.most) {
    head = (size_t)(work.most / 2);
    tail = (size_t)(work.most - work.most / 2);
  }
  read_output(0, head, &record.head);
  if (tail > 0) read_output((off_t)(record.size - (long long)tail), tail, &record.tail);
  bool is_written = write_record(work.turn, work.claim.token, &record,
                                 "Notice: no space is left on the sandbox's disk, so output may be missing.\n", work.most);
  struct record old = current;
  current = record;
  free(old.opened.at);
  free(old.state.at);
  free(old.head.at);
  free(old.tail.at);
  if (!is_written) {
    end_work("lost unrecorded");
    return;
  }
  end_work(NULL);
  for (struct stream *stream = streams; stream != NULL; stream = stream->next)
    if (stream->is_busy && !stream->is_closed) reply_record(stream, work.turn, work.claim.token, &current);
  free(current.head.at);
  free(current.tail.at);
  memset(&current.head, 0, sizeof current.head);
  memset(&current.tail, 0, sizeof current.tail);
}

static void stop_turn(const char *reason) {
  strcpy(work.reason, reason);
  work.is_ending = true;
  if (strcmp(reason, "process-limit") != 0 && has_room()) {
    kill(-work.leader, SIGTERM);
    work.deadline = now_ms() + GRACE_MS;
    return;
  }
  /* Without room there is no time for a graceful end, and a stopped process starts no other. */
  kill(-1, SIGSTOP);
  kill(-work.leader, SIGKILL);
  end_strays(atoi(work.turn), work.ticks);
  kill(-1, SIGCONT);
  finish_turn();
}

static void look_after_turn(void) {
  long long now = now_ms();
  if (work.is_ending) {
    if (now < work.deadline && kill(-work.leader, 0) == 0) return;
    kill(-work.leader, SIGKILL);
    end_strays(atoi(work.turn), work.ticks);
    finish_turn();
    return;
  }
  if (work.has_ended) {
    finish_turn();
    return;
  }
  if (now >= work.deadline) {
    stop_turn("timeout");
    return;
  }
  if (now - work.looked < LOOK_MS) return;
  work.looked = now;
  if (size_of_output() > MAX_OUTPUT) {
    stop_turn("output-limit");
    return;
  }
  /* Many programs meet the limit for a moment and go on with fewer processes. A command that stays there for a second is ended. */
  if (has_room()) work.crowded = 0;
  else if (work.crowded == 0) work.crowded = now;
  else if (now - work.crowded >= CROWDED_MS) stop_turn("process-limit");
}

/* ---- reading the repository ---- */

static void tell_with_body(const char *kind, const char *rest, const struct bytes *body, const struct bytes *more) {
  for (struct stream *stream = streams; stream != NULL; stream = stream->next) {
    if (!stream->is_busy || stream->is_closed) continue;
    append_format(&stream->sent, "lh1 %s %s %zu%s\n", stream->id, kind, body->length + (more == NULL ? 0 : more->length), rest);
    append(&stream->sent, body->at, body->length);
    if (more != NULL) append(&stream->sent, more->at, more->length);
    stream->is_busy = false;
    flush(stream);
  }
}

/* Git needs room. Where there is next to none, its failure says nothing of the agent, and the worker finds out who has filled the disk. */
static bool is_disk_full(void) {
  struct statvfs disk;
  if (fstatvfs(home, &disk) != 0) return false;
  return (unsigned long long)disk.f_bavail * disk.f_frsize < 64ULL << 20 || (disk.f_files > 0 && disk.f_favail < 1024);
}

static void finish_capture(void) {
  /* Git runs filters of the agent's own `.gitattributes`; what they have started ends before the patch is read. */
  end_others(0);
  char words[600], text[700];
  hear(words, sizeof words);
  long long size = size_of_output(), lost = 0;
  struct bytes patch = {0};
  if (work.reason[0] != 0) {
    snprintf(text, sizeof text, "uncaptured %s", work.reason);
    end_work(text);
  } else if (!WIFEXITED(work.status) || WEXITSTATUS(work.status) != 0) {
    if (is_disk_full()) strcpy(text, "full");
    else snprintf(text, sizeof text, "uncaptured %s", words[0] == 0 ? "git was ended" : words);
    end_work(text);
  } else if (size > work.most) {
    snprintf(text, sizeof text, "uncaptured patch-too-large %lld", size);
    end_work(text);
  } else if (!read_number(words, 1000000000, &lost) || !read_output(0, (size_t)size, &patch)) {
    end_work("uncaptured no patch was made");
  } else {
    snprintf(text, sizeof text, " %lld", lost);
    tell_with_body("patch", text, &patch, NULL);
    end_work(NULL);
  }
  free(patch.at);
}

static void finish_tree(void) {
  struct bytes listing = {0};
  long long size = size_of_output();
  if (work.reason[0] != 0 || size > MAX_LISTING || !read_output(0, (size_t)size, &listing)) {
    listing.length = 0;
    append_text(&listing, "unreadable\n");
  }
  tell_with_body("tree", "", &listing, &current.state);
  end_work(NULL);
  free(listing.at);
}

/* `blocked`: Git waits for a pipe or a filter of the agent's and does nothing else. `cpu-limit`: what is called Git computes, as patterns
 * and files of the agent's or another program in its place can have it do. A slow machine is no reason: Git waits for a processor or a disk
 * then, and is not charged for it. NULL where it may go on. */
static const char *reason_to_end(void) {
  struct script_look look = look_at_script(work.leader);
  bool is_waiting = look.trace != 0 && look.trace == work.trace;
  work.still = is_waiting ? work.still + 1 : 0;
  work.waited += is_waiting;
  work.trace = look.trace;
  work.computed_ms += look.computed_ms;
  if (work.still >= BLOCKED_LOOKS || work.waited >= MAX_WAITED_LOOKS) return "blocked";
  return work.computed_ms >= work.most_cpu_ms ? "cpu-limit" : NULL;
}

static void look_after_script(void) {
  long long now = now_ms();
  if (!work.has_ended && work.reason[0] == 0) {
    if (now >= work.deadline) strcpy(work.reason, "timed-out");
    else if (now - work.looked >= LOOK_MS) {
      work.looked = now;
      if (size_of_output() > MAX_OUTPUT) strcpy(work.reason, "too-large");
      else if (work.kind == CAPTURE || work.kind == TREE) {
        const char *reason = reason_to_end();
        if (reason != NULL) strcpy(work.reason, reason);
      }
    }
    if (work.reason[0] == 0) return;
    end_others(0);
    for (int patience = 200; patience > 0 && !work.has_ended; patience -= 1) {
      nap_ms(5);
      reap();
    }
  }
  switch (work.kind) {
    case PREPARING: finish_preparation(); break;
    case CAPTURE: finish_capture(); break;
    case TREE: finish_tree(); break;
    default: finish_reset(); break;
  }
}

void look_after_work(void) {
  if (work.kind == NOTHING) return;
  if (work.kind == TURN) look_after_turn();
  else look_after_script();
  if (work.kind == NOTHING && sandbox.is_ready) fill_reserve();
}

int work_patience(void) {
  if (work.kind == NOTHING) return -1;
  if (work.has_ended) return 0;
  if (work.is_ending) return 50;
  long long left = work.deadline - now_ms();
  return left < 0 ? 0 : left < LOOK_MS ? (int)left + 1 : LOOK_MS;
}

/* ---- requests ---- */

/* Printable bytes stand for themselves, all others as `\0ooo`. */
static void unescape(const char *text, struct bytes *into) {
  into->length = 0;
  while (*text != 0) {
    size_t plain = strcspn(text, "\\");
    append(into, text, plain);
    text += plain;
    if (text[0] != '\\') break;
    if (text[1] != '0' || strspn(text + 2, "01234567") < 3) {
      text += 1;
      continue;
    }
    char byte = (char)((text[2] - '0') * 64 + (text[3] - '0') * 8 + (text[4] - '0'));
    append(into, &byte, 1);
    text += 5;
  }
  append(into, "", 0);
}

static bool is_word(const char *text, size_t most) {
  size_t length = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-");
  return length > 0 && text[length] == 0 && length <= most;
}

static bool is_fenced(struct stream *stream, long long asked_fence) {
  if (asked_fence < fence) {
    reply(stream, "fenced %lld", fence);
    return true;
  }
  return false;
}

static bool answer_turn(struct stream *stream, char *words[], int count) {
  long long turn, asked_fence, timeout_ms, most;
  if (count < 9 || !read_number(words[1], 1000000000, &turn) || !read_number(words[2], MAX_FENCE, &asked_fence) ||
      !is_word(words[3], 64) || !read_number(words[4], 1000000000, &timeout_ms) || !read_number(words[5], 16 << 20, &most) ||
      !is_word(words[6], 64)) {
    reply(stream, "error malformed-turn");
    return true;
  }
  if (is_fenced(stream, asked_fence)) return true;
  if (!sandbox.is_ready) {
    reply(stream, "lost unprepared");
    return true;
  }
  struct claim claim, found;
  snprintf(claim.hash, sizeof claim.hash, "%s", words[6]);
  snprintf(claim.token, sizeof claim.token, "%s", words[3]);
  bool is_running = work.kind == TURN && strcmp(work.turn, words[1]) == 0;
  if (work.kind != NOTHING && !is_running) return false;
  int has_claim = read_claim(words[1], &found);
  if (has_claim == 0 && !follows(words[7])) {
    reply(stream, "behind %s", world);
    return true;
  }
  if (has_claim != 0) {
    struct record record = {0};
    if (has_claim < 0) reply(stream, "lost claimed");
    else if (strcmp(found.token, claim.token) != 0) reply(stream, "conflict token");
    else if (strcmp(found.hash, claim.hash) != 0) reply(stream, "conflict command");
    else if (is_running) stream->is_busy = true;
    else if (!read_record(words[1], claim.token, &record)) reply(stream, "lost interrupted");
    else reply_record(stream, words[1], claim.token, &record);
    free(record.opened.at);
    free(record.state.at);
    free(record.head.at);
    free(record.tail.at);
    if (!raise_fence(asked_fence)) errno = 0;
    return true;
  }
  if (!has_disk() || !raise_fence(asked_fence) || take_claim(words[1], &claim) != CLAIM_NEW) {
    reply(stream, lacked_room() ? "full" : "lost unclaimed");
    return true;
  }
  char mark[128];
  snprintf(mark, sizeof mark, "%.24s.%.64s", words[1], claim.token);
  enter_world(mark);
  drop_output(turn - 3);
  snprintf(work.turn, sizeof work.turn, "%lld", turn);
  work.claim = claim;
  work.most = most;
  struct bytes command = {0};
  unescape(words[8], &command);
  stream->is_busy = true;
  start_turn(&command);
  if (work.kind == TURN) work.deadline = work.started + timeout_ms;
  free(command.at);
  return true;
}

/* What Git may compute for a request, the word at its end. */
static long long most_cpu_ms(char *words[], int count, int at) {
  long long most;
  return count > at && read_number(words[at], GIT_MS, &most) ? most : GIT_CPU_MS;
}

static bool answer_capture(struct stream *stream, char *words[], int count) {
  if (work.kind != NOTHING) return false;
  long long most;
  if (count < 5 || !is_word(words[1], 16) || !is_commit(words[2]) || !read_number(words[3], MAX_OUTPUT, &most)) {
    reply(stream, "error malformed-capture");
    return true;
  }
  if (!follows(words[4])) {
    reply(stream, "behind %s", world);
    return true;
  }
  end_others(0);
  char room[3][1400], *environment[8];
  script_environment(environment, room);
  char *const arguments[] = {words[1], words[2], NULL};
  work.most = most;
  work.most_cpu_ms = most_cpu_ms(words, count, 5);
  stream->is_busy = true;
  if (!run_script(CAPTURE, "capture.sh", arguments, environment, -1))
    end_work(is_disk_full() ? "full" : "uncaptured git cannot be started");
  return true;
}

static bool answer_tree(struct stream *stream, char *words[], int count) {
  if (work.kind != NOTHING) return false;
  if (count < 3 || !is_commit(words[1])) {
    reply(stream, "error malformed-tree");
    return true;
  }
  if (!follows(words[2])) {
    reply(stream, "behind %s", world);
    return true;
  }
  /* An agent that left no room for git gets no say in whether its work can be compared. */
  if (!has_room()) end_others(0);
  char room[3][1400], *environment[8];
  script_environment(environment, room);
  char *const arguments[] = {words[1], NULL};
  work.most_cpu_ms = most_cpu_ms(words, count, 3);
  stream->is_busy = true;
  if (run_script(TREE, "tree.sh", arguments, environment, -1)) return true;
  /* Without room for its output a listing says nothing of the tree, and must not become the record of it. */
  if (is_disk_full()) {
    end_work("full");
    return true;
  }
  strcpy(work.reason, "not-started");
  finish_tree();
  return true;
}

static bool answer_init(struct stream *stream, char *words[], int count) {
  if (sandbox.is_ready && work.kind != RESET) {
    long long asked_fence;
    if (count == 2 && read_number(words[1], MAX_FENCE, &asked_fence)) {
      if (is_fenced(stream, asked_fence)) return true;
      /* A full disk keeps nothing of it, and refuses the next turn of any attempt. */
      if (!raise_fence(asked_fence)) errno = 0;
    }
    tell_ready(stream);
    return true;
  }
  if (work.kind != NOTHING) return false;
  if (count < 4) {
    reply(stream, "lost unprepared");
    return true;
  }
  struct bytes repository = {0}, settings = {0}, environment = {0};
  unescape(words[1], &repository);
  unescape(words[2], &settings);
  unescape(words[3], &environment);
  if (repository.length == 0 || repository.length >= sizeof sandbox.repository || strchr(repository.at, '\n') != NULL)
    reply(stream, "unsuitable repository");
  else prepare(stream, repository.at, &settings, &environment);
  free(repository.at);
  free(settings.at);
  free(environment.at);
  return true;
}

/* Another repository and an empty journal. Its archive follows the line. */
static bool answer_reset(struct stream *stream, char *words[], int count, size_t line) {
  long long length;
  if (work.kind != NOTHING) return false;
  if (count < 2 || !read_number(words[1], MAX_REQUEST / 2, &length)) {
    reply(stream, "error malformed-reset");
    return true;
  }
  if (stream->received.length < line + (size_t)length) return false;
  end_others(0);
  int archive = in_memory(stream->received.at + line, (size_t)length);
  char room[3][1400], *environment[8];
  script_environment(environment, room);
  char *const arguments[] = {NULL};
  stream->is_busy = true;
  if (archive < 0 || !run_script(RESET, "reset.sh", arguments, environment, archive)) end_work("lost reset");
  close_file(&archive);
  drop_front(&stream->received, (size_t)length);
  return true;
}

/* ID VERB [WORD …], without the end of the line. The id comes back with the answer. */
bool answer(struct stream *stream, char *line, size_t length) {
  char *copy = strndup(line, length), *rest = copy, *words[16];
  int count = 0;
  for (char *word; count < 12 && (word = strsep(&rest, " ")) != NULL;) words[count++] = word;
  bool is_answered = true;
  if (count < 2 || !is_word(words[0], 40)) {
    strcpy(stream->id, "-");
    reply(stream, "error no-request");
  } else {
    snprintf(stream->id, sizeof stream->id, "%s", words[0]);
    if (strcmp(words[1], "init") == 0) is_answered = answer_init(stream, words + 1, count - 1);
    else if (strcmp(words[1], "turn") == 0) is_answered = answer_turn(stream, words + 1, count - 1);
    else if (strcmp(words[1], "capture") == 0) is_answered = answer_capture(stream, words + 1, count - 1);
    else if (strcmp(words[1], "tree") == 0) is_answered = answer_tree(stream, words + 1, count - 1);
    else if (strcmp(words[1], "reset") == 0) is_answered = answer_reset(stream, words + 1, count - 1, length + 1);
    else reply(stream, "error unknown-request");
  }
  free(copy);
  return is_answered;
}
