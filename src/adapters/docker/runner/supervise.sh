#!/bin/sh
# Supervises one turn and writes its result. It is alone in its session, so it outlives the runner that started it, the
# stream behind that and the worker behind that; the command has a session and a process group of its own.
# usage: supervise.sh DIRECTORY TURN TIMEOUT_MS
. /.lh/bin/clock.sh
. /.lh/settings
. /.lh/programs

dir=$1 turn=$2 timeout_cs=$((($3 + 9) / 10))
max_output=67108864

oom_kills() {
  kills=0
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] || continue
    while read -r name value; do
      [ "$name" = oom_kill ] && kills=$value
    done <"$file"
    return
  done
}

# Fractions of a second where this `sleep` knows them, else whole seconds.
nap() {
  "$LH_SLEEP" "$1" 2>/dev/null || "$LH_SLEEP" 1
}

end_group() {
  echo "$1" >"$dir/reason"
  kill -s TERM -- "-$child" 2>/dev/null
  grace=50
  while [ "$grace" -gt 0 ] && kill -s 0 -- "-$child" 2>/dev/null; do
    nap 0.1
    grace=$((grace - 1))
  done
  kill -s KILL -- "-$child" 2>/dev/null
  # What left the group still carries the mark of the turn in its environment.
  for environ in $(grep -lzx "LH_TURN=$turn" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${environ#/proc/}
    kill -s KILL "${pid%/environ}" 2>/dev/null
  done
}

watch_turn() {
  deadline=$((started + timeout_cs))
  while :; do
    lh_now
    left=$((deadline - now))
    [ "$left" -gt 0 ] || break
    if [ "$left" -ge 50 ]; then nap 0.5; else nap "0.$((left / 10 + 1))"; fi
    echo "$now" >/.lh/lease
    size=$(wc -c <"$dir/out")
    if [ "$size" -gt "$max_output" ]; then
      end_group output-limit
      return
    fi
  done
  end_group timeout
}

oom_kills
kills_before=$kills
lh_now
started=$now
: >"$dir/out"
LH_TURN=$turn "$LH_SETSID" "$LH_SHELL" -c "$LH_ENTRY" "$LH_SHELL_NAME" "$dir" \
  </dev/null >>"$dir/out" 2>&1 &
child=$!
watch_turn </dev/null >/dev/null 2>&1 &
watcher=$!
wait "$child"
code=$?
lh_now
wall_ms=$(((now - started) * 10))

reason=exit
if [ -f "$dir/reason" ]; then
  # The leader is gone but its group may not be: the watcher ends when it is.
  wait "$watcher"
  read -r reason <"$dir/reason"
  lh_now
  wall_ms=$(((now - started) * 10))
else
  kill "$watcher" 2>/dev/null
  # The exit trap leaves its mark unless a signal or exec took the shell away.
  [ "$code" -gt 128 ] && [ ! -f "$dir/saved" ] && reason=signal
fi
[ -f "$dir/saved" ] && echo "$dir/state" >/.lh/state/current
read -r state </.lh/state/current

oom_kills
oom=$((kills > kills_before))
set -- $(wc -c "$dir/out" "$state")
[ "$1" -gt 1048576 ] && : >"$dir/big"

{ read -r top && read -r submitted && IFS= read -r open; } </.lh/state/tool
{
  echo "$code $reason $1 $3 $wall_ms $oom $top $submitted"
  echo "$state"
  printf '%s\n' "$open"
} >"$dir/done.tmp"
mv "$dir/done.tmp" "$dir/done"
