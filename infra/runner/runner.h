/* The runner of a sandbox: the container's first process. See README.md. */
#ifndef LH_RUNNER_H
#define LH_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* No user of an image has it (Debian reserves it), and the agent's user namespace has no number for it. */
#define RUNNER_ID 65432

#define MAX_STATE 65536
#define MAX_LISTING 8388608
#define MAX_OUTPUT 67108864
#define MAX_LINE_TEXT 32768
#define MAX_REQUEST (40 << 20)
#define KEPT_OUTPUT (1 << 20)

/* ---- bytes ---- */

struct bytes {
  char *at;
  size_t length, room;
};

void append(struct bytes *to, const void *from, size_t length);
void append_text(struct bytes *to, const char *text);
void append_format(struct bytes *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void drop_front(struct bytes *from, size_t length);
void clear(struct bytes *bytes);
bool equal(const struct bytes *one, const struct bytes *other);
bool read_number(const char *text, long long most, long long *into);

/* ---- jail.c: the user namespace of everything that is not ours ---- */

void become_runner(void);
void make_jail(bool in_pod);
/* In a new process: gives up all that is ours. Ends the process where any of it fails. */
void enter_jail(void);

/* ---- processes.c ---- */

void reap(void);
/* Whether a few more processes may be started. */
bool has_room(void);
/* Ends every process but ours and the one given; 0 spares none. */
void end_others(pid_t spared);
/* Ends what a turn has started and what has left its group: no process of an earlier turn. */
void end_strays(int turn, unsigned long long since);
struct script_look {
  /* A number that stays the same from look to look while the script waits and does nothing else; 0 while it works. */
  unsigned long long trace;
  /* What it has computed since the last look, in milliseconds. */
  long long computed_ms;
};
struct script_look look_at_script(pid_t leader);
/* Before the first look at another script. */
void forget_script(void);
unsigned long long uptime_ticks(void);
long count_oom_kills(void);
extern const char *control_groups;
long long now_ms(void);
void nap_ms(int ms);

/* ---- journal.c: /.lh, where only we may write ---- */

struct record {
  int code;
  char reason[16];
  long long size, wall_ms;
  bool oom_killed;
  long top;
  bool submitted;
  struct bytes opened, state, head, tail;
};

struct claim {
  char hash[80], token[80];
};

enum { CLAIM_NEW, CLAIM_TAKEN, CLAIM_FULL };

extern int home;  /* /.lh */
extern int agent; /* /.lh/agent, which the agent may change at will */
extern char world[128];
extern long long fence;

void open_home(void);
void open_agent_folder(void);
bool has_disk(void);
/* Whether the last write that failed found no room. Files are refused for other reasons too, which the agent can cause: it may hold all
 * open files that the kernel allows. */
bool lacked_room(void);
bool free_disk(void);
void fill_reserve(void);
bool raise_fence(long long to);
bool enter_world(const char *mark);
int take_claim(const char *turn, const struct claim *claim);
/* -1 torn, 0 absent, 1 there */
int read_claim(const char *turn, struct claim *into);
bool read_record(const char *turn, const char *token, struct record *into);
/* False where no room was found until the last of the reserve. `notice` goes behind the output where some had to be given away. */
bool write_record(const char *turn, const char *token, struct record *record, const char *notice, long long most);
int open_output(const char *turn, const char *token, int *reading);
int open_script_output(int *reading);
void drop_output(long long turn);
/* Whole files of ours; false where it is absent or larger. */
bool read_file(int folder, const char *name, size_t most, struct bytes *into);
/* The same of a file that may be larger: no more than its first bytes. */
bool read_start(int folder, const char *name, size_t most, struct bytes *into);
bool write_file(int folder, const char *name, const void *bytes, size_t length, mode_t mode);
void forget_journal(void);

/* ---- streams.c ---- */

struct stream {
  int in, out, control;
  pid_t pid;
  struct bytes received, sent;
  bool is_busy, is_closed, is_guest;
  char id[80];
  /* The state that this stream saw last. */
  struct bytes state;
  struct stream *next;
};

extern struct stream *streams;

struct stream *add_stream(int in, int out, int control, pid_t pid);
void listen_for_streams(void);
void accept_stream(void);
extern int listener;
/* Whether a grading runs here instead of an agent: without a journal, and guests have the image's environment. */
extern bool is_grader;
void close_streams(void);
bool receive(struct stream *stream);
void flush(struct stream *stream);
/* `lh1 ID TEXT`, a line. */
void reply(struct stream *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reply_record(struct stream *stream, const char *turn, const char *token, const struct record *record);
void guest_ended(pid_t pid);

/* ---- work.c: what runs in the jail at our word, one thing at a time ---- */

extern char **image_environment;
void open_journal(void);
/* Once, before anything of the agent's runs. */
void keep_null_device(void);
/* A new description of it, whatever has that name now. */
int open_null_device(int mode);
bool is_working(void);
/* Answers a request or begins its work; false where it has to wait. */
bool answer(struct stream *stream, char *line, size_t length);
/* Something ended or time passed. */
void look_after_work(void);
/* When `look_after_work` should be called next; -1 never. */
int work_patience(void);
void leader_ended(pid_t pid, int status);
void forget_stream(struct stream *stream);
/* Starts a program in the jail on three descriptors. */
pid_t start_in_jail(char *const words[], char *const environment[], int in, int out, int err, const int *further);

/* ---- connect.c ---- */

int connect_to_runner(int count, char **words);

#endif
