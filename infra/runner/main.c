/* usage: runner init SECONDS ROUNDS [pod|grader]   the first process of a sandbox, or of a pod that grades
 *        runner connect               a later worker's way to it, started by the engine
 *        runner enter WORD …          runs a program as commands run
 *        runner counts FOLDER         what it reads of a kernel's control groups there */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runner.h"

extern char **environ;

/* The dead-man switch: so many rounds without a request, and the sandbox ends. It counts rounds instead of reading a clock, so a
 * clock that jumps ends nothing. Nothing inside the sandbox can ask. */
static long long round_ms, next_round;
static long rounds, missed;

static void count_rounds(void) {
  long long now = now_ms();
  if (now < next_round) return;
  next_round = now + round_ms;
  missed = is_working() ? 0 : missed + 1;
  if (missed >= rounds) _exit(0);
}

static void answer_requests(void) {
  for (struct stream *stream = streams; stream != NULL; stream = stream->next) {
    while (!stream->is_busy && !stream->is_closed && !stream->is_guest && stream->sent.length == 0) {
      char *end = stream->received.length == 0 ? NULL : memchr(stream->received.at, '\n', stream->received.length);
      if (end == NULL) break;
      size_t length = (size_t)(end - stream->received.at);
      missed = 0;
      if (!answer(stream, stream->received.at, length)) break;
      drop_front(&stream->received, length + 1);
      if (stream->received.length == 0) clear(&stream->received);
    }
  }
}

/* A kubelet tells every container where its API server is: no part of an image, and another place in another cluster. */
static void forget_cluster(void) {
  char **kept = environ;
  for (char **at = environ; *at != NULL; at += 1)
    if (strncmp(*at, "KUBERNETES_", strlen("KUBERNETES_")) != 0) *kept++ = *at;
  *kept = NULL;
}

static int serve(const char *seconds, const char *count, bool in_pod, bool for_grading) {
  long long number;
  if (getpid() != 1 || !read_number(seconds, 3600, &number) || number == 0 || !read_number(count, 1000000, (long long *)&rounds)) {
    dprintf(2, "longhaul runner: expected to be the first process, with SECONDS and ROUNDS\n");
    return 64;
  }
  round_ms = number * 1000;
  next_round = now_ms() + round_ms;
  if (in_pod) forget_cluster();
  image_environment = environ;
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, NULL);
  signal(SIGPIPE, SIG_IGN);
  keep_null_device();
  become_runner();
  make_jail(in_pod);
  /* The script of a grading has the journal's place for itself, and nothing asks for turns. */
  is_grader = for_grading;
  if (!is_grader) open_journal();
  listen_for_streams();
  add_stream(0, 1, -1, -1);
  int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  for (;;) {
    struct pollfd polled[64] = {{signals, POLLIN, 0}, {listener, POLLIN, 0}};
    struct stream *at[64];
    nfds_t used = 2;
    for (struct stream *stream = streams; stream != NULL && used < 62; stream = stream->next) {
      at[used] = stream;
      short events = (short)(stream->sent.length > 0 ? POLLOUT : 0);
      polled[used++] = (struct pollfd){stream->in, stream->is_guest ? 0 : POLLIN, 0};
      at[used] = stream;
      polled[used++] = (struct pollfd){events != 0 ? stream->out : -1, events, 0};
    }
    long long until_round = next_round - now_ms();
    int patience = work_patience();
    if (patience < 0 || patience > until_round) patience = until_round < 0 ? 0 : (int)until_round;
    if (poll(polled, used, patience) < 0 && errno != EINTR) return 77;
    struct signalfd_siginfo facts;
    while (read(signals, &facts, sizeof facts) > 0) continue;
    reap();
    look_after_work();
    for (nfds_t i = 2; i < used; i += 1) {
      if (polled[i].revents == 0) continue;
      if (polled[i].fd == at[i]->out && (polled[i].events & POLLOUT) != 0) flush(at[i]);
      else if (!at[i]->is_guest) receive(at[i]);
    }
    if ((polled[1].revents & POLLIN) != 0) accept_stream();
    answer_requests();
    close_streams();
    count_rounds();
  }
}

int main(int count, char **words) {
  if (count == 4 && strcmp(words[1], "init") == 0) return serve(words[2], words[3], false, false);
  if (count == 5 && strcmp(words[1], "init") == 0 && strcmp(words[4], "pod") == 0) return serve(words[2], words[3], true, false);
  if (count == 5 && strcmp(words[1], "init") == 0 && strcmp(words[4], "grader") == 0) return serve(words[2], words[3], true, true);
  if (count == 2 && strcmp(words[1], "connect") == 0) return connect_to_runner(0, NULL);
  if (count > 2 && strcmp(words[1], "enter") == 0) return connect_to_runner(count - 2, words + 2);
  if (count == 3 && strcmp(words[1], "counts") == 0) {
    control_groups = words[2];
    printf("%s\n%ld\n", has_room() ? "room" : "full", count_oom_kills());
    return 0;
  }
  dprintf(2, "usage: runner init SECONDS ROUNDS [pod|grader] | connect | enter WORD ... | counts FOLDER\n");
  return 64;
}
