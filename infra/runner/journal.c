/* The turn journal in /.lh/turns. TURN is the claim; TURN.TOKEN.out takes the output, TURN.TOKEN.done is what came of it. A claim's
 * line and done end in a mark: what lacks it was torn and counts as absent. As few files as will do: a new one costs up to a
 * millisecond where the host removes many sandboxes.
 *
 * /.lh/world names the last turn that this container has begun, as TURN.TOKEN. Tokens are random and each turn was checked against the
 * one before it, so this one name stands for all turns that made the container what it is. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner.h"

#define PIECES 8
#define PIECE_BYTES 65536

int home = -1;
int agent = -1;
char world[128] = "-";
long long fence;

static int turns = -1;
/* Why a write failed, as errno. */
static int refused_by;

static void fail(const char *what) {
  dprintf(2, "longhaul runner: %s: %s\n", what, strerror(errno));
  _exit(71);
}

static int open_folder(int parent, const char *name, mode_t mode) {
  if (mkdirat(parent, name, mode) != 0 && errno != EEXIST) fail(name);
  int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) fail(name);
  return folder;
}

/* The agent may give another folder this name, and a container may start again: only one of ours is believed. */
static void require_ours(int folder, const char *name) {
  struct stat facts;
  if (fstat(folder, &facts) == 0 && facts.st_uid == RUNNER_ID) return;
  errno = EPERM;
  fail(name);
}

void open_home(void) {
  umask(0);
  home = open_folder(AT_FDCWD, "/.lh", 0711);
  require_ours(home, "/.lh belongs to another user");
  turns = open_folder(home, "turns", 0700);
  require_ours(turns, "/.lh/turns belongs to another user");
  umask(077);
  struct bytes text = {0};
  if (read_file(home, "fence", 64, &text)) fence = atoll(text.at);
  clear(&text);
  if (read_file(home, "world", sizeof world - 1, &text)) {
    size_t length = strcspn(text.at, " \n");
    /* Torn: equal to nothing that is asked for. */
    if (text.at[length] != ' ' || length >= sizeof world) strcpy(world, "?");
    else snprintf(world, sizeof world, "%.*s", (int)length, text.at);
  }
  clear(&text);
  open_agent_folder();
}

void open_agent_folder(void) {
  agent = openat(home, "agent", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (agent >= 0) return;
  agent = open_folder(home, "agent", 0700);
  if (fchown(agent, 0, 0) != 0) fail("/.lh/agent");
}

/* Of ours and of the agent's: never through a link, never waiting for the other end of a pipe. */
static bool read_bytes(int folder, const char *name, size_t most, bool may_be_larger, struct bytes *into) {
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat facts;
  bool is_whole = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
  into->length = 0;
  while (is_whole) {
    char part[16384];
    ssize_t length = read(file, part, sizeof part);
    if (length < 0) is_whole = false;
    if (length <= 0) break;
    append(into, part, (size_t)length);
    if (into->length <= most) continue;
    is_whole = may_be_larger;
    into->length = most;
    break;
  }
  close(file);
  if (is_whole) append(into, "", 0);
  return is_whole;
}

bool read_file(int folder, const char *name, size_t most, struct bytes *into) {
  return read_bytes(folder, name, most, false, into);
}

bool read_start(int folder, const char *name, size_t most, struct bytes *into) {
  return read_bytes(folder, name, most, true, into);
}

static bool write_all(int file, const char *from, size_t length) {
  while (length > 0) {
    ssize_t part = write(file, from, length);
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) {
      refused_by = errno;
      return false;
    }
    from += part;
    length -= (size_t)part;
  }
  return true;
}

/* Opens a file of ours to write; a refusal is noted. */
static int open_noting(int folder, const char *name, int flags, mode_t mode) {
  int file = openat(folder, name, flags | O_CLOEXEC, mode);
  if (file < 0) refused_by = errno;
  return file;
}

/* In place, without cutting the file off first: that needs no room on a disk that is full. */
bool write_file(int folder, const char *name, const void *bytes, size_t length, mode_t mode) {
  int file = open_noting(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode);
  if (file < 0) return false;
  bool is_written = write_all(file, bytes, length);
  close(file);
  return is_written;
}

static void piece_name(char *into, size_t room, int piece) { snprintf(into, room, "reserve.%d", piece); }

static off_t size_of(int folder, const char *name) {
  struct stat facts;
  return fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 ? facts.st_size : 0;
}

static bool cut_off(int folder, const char *name) {
  int file = openat(folder, name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
  if (file >= 0) close(file);
  return file >= 0;
}

bool lacked_room(void) { return refused_by == ENOSPC || refused_by == EDQUOT; }

/* Whether a turn's records fit, a page or two each. Asked only when the last piece is gone. */
bool has_disk(void) {
  char name[32];
  piece_name(name, sizeof name, PIECES);
  if (size_of(home, name) > 0 || size_of(home, "ready") == 0) return true;
  static const char page[32768];
  bool fits = write_file(home, "probe", page, sizeof page, 0600);
  cut_off(home, "probe");
  return fits;
}

/* After a write that failed: gives away one piece. False where none is left, or where room is not what was lacking. */
bool free_disk(void) {
  if (!lacked_room()) return false;
  for (int piece = 1; piece <= PIECES; piece += 1) {
    char name[32];
    piece_name(name, sizeof name, piece);
    if (size_of(home, name) > 0 && cut_off(home, name)) return true;
  }
  return false;
}

void fill_reserve(void) {
  char name[32];
  piece_name(name, sizeof name, 1);
  if (size_of(home, name) > 0) return;
  static char block[PIECE_BYTES];
  memset(block, '0', sizeof block);
  if (size_of(home, "world") == 0) write_file(home, "world", "- .\n", 4, 0600);
  for (int piece = 1; piece <= PIECES; piece += 1) {
    piece_name(name, sizeof name, piece);
    if (size_of(home, name) >= PIECE_BYTES) continue;
    if (write_file(home, name, block, sizeof block, 0600)) continue;
    cut_off(home, name);
    return;
  }
}

bool raise_fence(long long to) {
  if (to == fence) return true;
  char text[40];
  /* Of one length, so that what lies there never leaves a digit behind. */
  int length = snprintf(text, sizeof text, "%020lld\n", to);
  while (!write_file(home, "fence", text, (size_t)length, 0600))
    if (!free_disk()) return false;
  fence = to;
  return true;
}

bool enter_world(const char *mark) {
  char text[160];
  int length = snprintf(text, sizeof text, "%s .\n", mark);
  while (!write_file(home, "world", text, (size_t)length, 0600))
    if (!free_disk()) return false;
  snprintf(world, sizeof world, "%s", mark);
  return true;
}

/* An exclusive create: it succeeds once. */
int take_claim(const char *turn, const struct claim *claim) {
  for (;;) {
    int file = open_noting(turns, turn, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0 && errno == EEXIST) return CLAIM_TAKEN;
    char text[256];
    int length = snprintf(text, sizeof text, "%s %s .\n", claim->hash, claim->token);
    bool is_written = file >= 0 && write_all(file, text, (size_t)length);
    if (file >= 0) close(file);
    if (is_written) return CLAIM_NEW;
    /* Nothing ran, so the turn may be claimed again when there is room. */
    if (file >= 0) unlinkat(turns, turn, 0);
    if (!free_disk()) return CLAIM_FULL;
  }
}

int read_claim(const char *turn, struct claim *into) {
  struct bytes text = {0};
  int found = size_of(turns, turn) > 0 || faccessat(turns, turn, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? -1 : 0;
  if (found != 0 && read_file(turns, turn, 255, &text)) {
    char end[4] = "";
    if (sscanf(text.at, "%79s %79s %3s", into->hash, into->token, end) == 3 && strcmp(end, ".") == 0) found = 1;
  }
  clear(&text);
  free(text.at);
  return found;
}

static void record_name(char *into, size_t room, const char *turn, const char *token, const char *kind) {
  snprintf(into, room, "%s.%s.%s", turn, token, kind);
}

static bool is_reason(const char *word) {
  static const char *const reasons[] = {"exit", "signal", "timeout", "output-limit", "process-limit"};
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i += 1)
    if (strcmp(word, reasons[i]) == 0) return true;
  return false;
}

bool read_record(const char *turn, const char *token, struct record *into) {
  char name[200];
  record_name(name, sizeof name, turn, token, "done");
  struct bytes text = {0};
  bool is_whole = false;
  if (read_file(turns, name, 64 << 20, &text)) {
    long long state, head, tail;
    int oom, submitted, used = 0;
    int count = sscanf(text.at, "%d %15s %lld %lld %d %ld %d %lld %lld %lld%n", &into->code, into->reason, &into->size,
                       &into->wall_ms, &oom, &into->top, &submitted, &state, &head, &tail, &used);
    char *open_file = text.at + used + 1;
    char *end = count == 10 && text.at[used] == '\n' ? strchr(open_file, '\n') : NULL;
    if (end != NULL && is_reason(into->reason) && state >= 0 && head >= 0 && tail >= 0 &&
        (size_t)(end + 1 - text.at) + (size_t)(state + head + tail) + 3 == text.length &&
        memcmp(text.at + text.length - 3, "\n.\n", 3) == 0) {
      into->oom_killed = oom != 0;
      into->submitted = submitted != 0;
      into->opened.length = into->state.length = into->head.length = into->tail.length = 0;
      append(&into->opened, open_file, (size_t)(end - open_file));
      append(&into->state, end + 1, (size_t)state);
      append(&into->head, end + 1 + state, (size_t)head);
      append(&into->tail, end + 1 + state + head, (size_t)tail);
      is_whole = true;
    }
  }
  clear(&text);
  free(text.at);
  return is_whole;
}

/* Behind what was written, as if the command had said it. */
static void add_notice(struct record *record, const char *notice, long long most) {
  size_t length = strlen(notice);
  record->size += (long long)length;
  struct bytes *last = record->tail.length > 0 || record->size > most ? &record->tail : &record->head;
  append(last, notice, length);
  size_t over = record->head.length + record->tail.length;
  over = over > (size_t)most ? over - (size_t)most : 0;
  if (over == 0) return;
  /* From the front of what stands there, so that the notice stays whole. */
  if (last == &record->tail && over <= record->tail.length) drop_front(&record->tail, over);
  else if (over <= record->head.length) record->head.length -= over;
}

bool write_record(const char *turn, const char *token, struct record *record, const char *notice, long long most) {
  char name[200];
  record_name(name, sizeof name, turn, token, "done");
  bool is_told = false, is_written = false;
  for (;;) {
    struct bytes text = {0};
    append_format(&text, "%d %s %lld %lld %d %ld %d %zu %zu %zu\n", record->code, record->reason, record->size,
                  record->wall_ms, record->oom_killed, record->top, record->submitted, record->state.length,
                  record->head.length, record->tail.length);
    append(&text, record->opened.at, record->opened.length);
    append_text(&text, "\n");
    append(&text, record->state.at, record->state.length);
    append(&text, record->head.at, record->head.length);
    append(&text, record->tail.at, record->tail.length);
    append_text(&text, "\n.\n");
    int file = open_noting(turns, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    is_written = file >= 0 && write_all(file, text.at, text.length);
    if (file >= 0) close(file);
    free(text.at);
    if (is_written) break;
    cut_off(turns, name);
    if (!free_disk()) break;
    /* The disk is full: earlier writers failed as well. */
    if (!is_told) add_notice(record, notice, most);
    is_told = true;
  }
  return is_written;
}

/* A command may open its own output by name (/dev/stdout), so the file belongs to root of the commands' namespace. */
int open_output(const char *turn, const char *token, int *reading) {
  char name[200];
  record_name(name, sizeof name, turn, token, "out");
  int file = -1;
  do file = open_noting(turns, name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW, 0600);
  while (file < 0 && free_disk());
  if (file < 0 || fchown(file, 0, 0) != 0) return -1;
  *reading = openat(turns, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  return file;
}

/* Of a script. It belongs to root of the commands' namespace too, so it is a new file each time and its folder is closed to commands: a
 * process of theirs could otherwise hold a lease on it, and we would wait in `open` for as long as the kernel lets leases break. */
int open_script_output(int *reading) {
  unlinkat(turns, "output", 0);
  int file = openat(turns, "output", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  *reading = openat(turns, "output", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file >= 0 && fchown(file, 0, 0) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

/* Earlier turns are committed when the next one comes; two large ones are kept. */
void drop_output(long long turn) {
  char number[32], name[200];
  struct claim claim;
  if (turn < 0) return;
  snprintf(number, sizeof number, "%lld", turn);
  if (read_claim(number, &claim) != 1) return;
  record_name(name, sizeof name, number, claim.token, "out");
  if (size_of(turns, name) > KEPT_OUTPUT) unlinkat(turns, name, 0);
}

void forget_journal(void) {
  DIR *folder = fdopendir(openat(home, "turns", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder != NULL) {
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
      if (entry->d_name[0] != '.') unlinkat(turns, entry->d_name, 0);
    closedir(folder);
  }
  unlinkat(home, "ready", 0);
  unlinkat(home, "fence", 0);
  unlinkat(home, "world", 0);
  fence = 0;
  strcpy(world, "-");
}
