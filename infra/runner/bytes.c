#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static void make_room_for(struct bytes *bytes, size_t more) {
  if (bytes->length + more + 1 <= bytes->room) return;
  size_t room = bytes->room == 0 ? 256 : bytes->room;
  while (room < bytes->length + more + 1) room *= 2;
  char *at = realloc(bytes->at, room);
  if (at == NULL) abort();
  bytes->at = at;
  bytes->room = room;
}

void append(struct bytes *to, const void *from, size_t length) {
  make_room_for(to, length);
  if (length > 0) memcpy(to->at + to->length, from, length);
  to->length += length;
  to->at[to->length] = 0;
}

void append_text(struct bytes *to, const char *text) { append(to, text, strlen(text)); }

void append_format(struct bytes *to, const char *format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  append(to, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

void drop_front(struct bytes *from, size_t length) {
  from->length -= length;
  memmove(from->at, from->at + length, from->length);
}

/* Large ones go back to the system: what an agent can make us hold for a moment must not stay ours. */
void clear(struct bytes *bytes) {
  bytes->length = 0;
  if (bytes->room > (1 << 17)) {
    free(bytes->at);
    bytes->at = NULL;
    bytes->room = 0;
  }
}

bool equal(const struct bytes *one, const struct bytes *other) {
  return one->length == other->length && (one->length == 0 || memcmp(one->at, other->at, one->length) == 0);
}

bool read_number(const char *text, long long most, long long *into) {
  if (*text == 0 || strlen(text) > 18 || strspn(text, "0123456789") != strlen(text)) return false;
  *into = atoll(text);
  return *into <= most;
}
