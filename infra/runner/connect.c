/* What the engine starts beside the runner: hands its input and output to the runner and waits until they are not needed any more.
 * It comes as our own user, which nothing else in the container can be: the engine starts it so. A kubelet cannot choose a user and
 * starts it as root, which it gives up before anything else. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runner.h"

int connect_to_runner(int count, char **words) {
  if (getuid() == 0 && (setgroups(0, NULL) != 0 || setresgid(RUNNER_ID, RUNNER_ID, RUNNER_ID) != 0 ||
                        setresuid(RUNNER_ID, RUNNER_ID, RUNNER_ID) != 0)) {
    perror("longhaul runner: user");
    return 78;
  }
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path + 1, "longhaul-runner", strlen("longhaul-runner"));
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen("longhaul-runner"));
  int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  int tries = 100;
  /* The runner of a container that starts again is not there at once. */
  while (connection >= 0 && connect(connection, (struct sockaddr *)&address, length) != 0) {
    if (errno != ECONNREFUSED || tries-- == 0) {
      perror("longhaul runner: connect");
      return 73;
    }
    nap_ms(20);
  }
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid != 1) {
    dprintf(2, "longhaul runner: something else answers in its place\n");
    return 74;
  }
  static char text[60000];
  size_t used = 0;
  text[used++] = count == 0 ? 'c' : 'e';
  for (int i = 0; i < count; i += 1) {
    size_t word = strlen(words[i]) + 1;
    if (used + word + 2 > sizeof text) return 75;
    memcpy(text + used, words[i], word);
    used += word;
  }
  text[used++] = 0;
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(3 * sizeof(int))];
  } control = {0};
  struct iovec part = {text, used};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(3 * sizeof(int));
  memcpy(CMSG_DATA(header), (int[]){0, 1, 2}, 3 * sizeof(int));
  if (sendmsg(connection, &message, 0) < 0) return 76;
  char byte;
  while (read(connection, &byte, 1) > 0) continue;
  return 0;
}
