/* The streams that requests come by: the container's own input and output, and one for each connection of a later worker. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runner.h"

#define MAX_STREAMS 16
/* In the name space of this network, which no other container shares. */
#define SOCKET_NAME "longhaul-runner"

struct stream *streams;
int listener = -1;
bool is_grader;

static socklen_t socket_address(struct sockaddr_un *into) {
  memset(into, 0, sizeof *into);
  into->sun_family = AF_UNIX;
  memcpy(into->sun_path + 1, SOCKET_NAME, strlen(SOCKET_NAME));
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(SOCKET_NAME));
}

struct stream *add_stream(int in, int out, int control, pid_t pid) {
  struct stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) abort();
  stream->in = in;
  stream->out = out;
  stream->control = control;
  stream->pid = pid;
  fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
  fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
  stream->next = streams;
  streams = stream;
  return stream;
}

void listen_for_streams(void) {
  struct sockaddr_un address;
  socklen_t length = socket_address(&address);
  listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 64) == 0) return;
  dprintf(2, "longhaul runner: socket: %s\n", strerror(errno));
  _exit(72);
}

static int count_streams(void) {
  int count = 0;
  for (struct stream *stream = streams; stream != NULL; stream = stream->next) count += !stream->is_closed;
  return count;
}

/* `connect` offers its descriptors; `enter WORD …` wants a program on them, in the jail. */
static void take_offer(int connection, pid_t pid) {
  static char text[65536];
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(3 * sizeof(int))];
  } control;
  struct iovec part = {text, sizeof text - 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  /* It sends before anything else, so it is there or soon: a second at most, of a program of ours. */
  struct timeval second = {1, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  ssize_t length = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  struct cmsghdr *header = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (header == NULL || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(3 * sizeof(int))) {
    close(connection);
    return;
  }
  int files[3];
  memcpy(files, CMSG_DATA(header), sizeof files);
  text[length] = 0;
  if (text[0] == 'c' && count_streams() < MAX_STREAMS) {
    close(files[2]);
    add_stream(files[0], files[1], connection, pid);
    return;
  }
  char *words[16];
  int count = 0;
  for (size_t at = 1; at < (size_t)length && text[at] != 0 && count < 15; at += strlen(text + at) + 1) words[count++] = text + at;
  words[count] = NULL;
  char *const marked[] = {"LH_TURN=-", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
  /* Official steps run with what the image says, as the first process of a container would. */
  char *const *environment = is_grader ? image_environment : marked;
  pid_t child = text[0] == 'e' && count > 0 ? start_in_jail(words, environment, files[0], files[1], files[2], NULL) : -1;
  for (int i = 0; i < 3; i += 1) close(files[i]);
  if (child < 0) {
    close(connection);
    return;
  }
  struct stream *stream = add_stream(open_null_device(O_RDONLY), open_null_device(O_WRONLY), connection, pid);
  stream->is_guest = true;
  snprintf(stream->id, sizeof stream->id, "%d", child);
}

void accept_stream(void) {
  int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (connection < 0) return;
  struct ucred peer;
  socklen_t length = sizeof peer;
  /* Every process in the container can connect; only one that the engine started can have this user. */
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != RUNNER_ID) {
    close(connection);
    return;
  }
  take_offer(connection, peer.pid);
}

void guest_ended(pid_t pid) {
  for (struct stream *stream = streams; stream != NULL; stream = stream->next)
    if (stream->is_guest && atoi(stream->id) == pid) stream->is_closed = true;
}

void close_streams(void) {
  for (struct stream **at = &streams; *at != NULL;) {
    struct stream *stream = *at;
    if (!stream->is_closed) {
      at = &stream->next;
      continue;
    }
    *at = stream->next;
    forget_stream(stream);
    close(stream->in);
    close(stream->out);
    if (stream->control >= 0) close(stream->control);
    free(stream->received.at);
    free(stream->sent.at);
    free(stream->state.at);
    free(stream);
  }
}

bool receive(struct stream *stream) {
  static char part[65536];
  ssize_t length = read(stream->in, part, sizeof part);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (length <= 0 || stream->received.length + (size_t)length > MAX_REQUEST) {
    stream->is_closed = true;
    return false;
  }
  append(&stream->received, part, (size_t)length);
  return true;
}

void flush(struct stream *stream) {
  while (stream->sent.length > 0) {
    ssize_t length = write(stream->out, stream->sent.at, stream->sent.length);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) return;
    if (length <= 0) {
      stream->is_closed = true;
      return;
    }
    drop_front(&stream->sent, (size_t)length);
  }
  clear(&stream->sent);
}

void reply(struct stream *stream, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  append_format(&stream->sent, "lh1 %s %s\n", stream->id, text);
  stream->is_busy = false;
  flush(stream);
}

void reply_record(struct stream *stream, const char *turn, const char *token, const struct record *record) {
  char state[32] = "=";
  /* The state that this stream saw last is not sent again. */
  bool is_same = stream->state.length > 0 && equal(&stream->state, &record->state);
  if (!is_same) snprintf(state, sizeof state, "%zu", record->state.length);
  append_format(&stream->sent, "lh1 %s done %d %s %lld %lld %d %ld %d %s %zu %zu %s.%s\n", stream->id, record->code,
                record->reason, record->size, record->wall_ms, record->oom_killed, record->top, record->submitted, state,
                record->head.length, record->tail.length, turn, token);
  append(&stream->sent, record->opened.at, record->opened.length);
  append_text(&stream->sent, "\n");
  if (!is_same) {
    append(&stream->sent, record->state.at, record->state.length);
    stream->state.length = 0;
    append(&stream->state, record->state.at, record->state.length);
  }
  append(&stream->sent, record->head.at, record->head.length);
  append(&stream->sent, record->tail.at, record->tail.length);
  stream->is_busy = false;
  flush(stream);
}
