# Whether a few more processes may be started. The limit is the container's, so an agent can use it up for us too, and a shell
# that cannot start a process ends: asked before we start one.
has_room() {
  limit=max used=0
  for counters in /sys/fs/cgroup/pids /sys/fs/cgroup; do
    [ -r "$counters/pids.max" ] || continue
    # Some runtimes do not tell.
    { read -r limit <"$counters/pids.max" && read -r used <"$counters/pids.current"; } 2>/dev/null || limit=max
    break
  done
  [ "$limit" = max ] || [ $((limit - used)) -ge 6 ]
}

# Waits for so many hundredths of a second, without a process where there is no room for one.
pause() {
  if has_room; then
    nap "$1"
    return
  fi
  lh_now
  pause_end=$((now + $1))
  while [ "$now" -lt "$pause_end" ]; do lh_now; done
}

# Fractions of a second where this `sleep` knows them, else whole seconds.
nap() {
  fraction=0$1
  sleep "0.${fraction#"${fraction%??}"}" 2>/dev/null || sleep 1
}

# Ends every process but those in `kept` and, with `guests` set, those that the engine started beside us. Stopped first: who stands
# still starts no other.
end_others() {
  kill -s STOP -- -1 2>/dev/null
  passes=40
  while kill_others && [ "$passes" -gt 0 ]; do
    passes=$((passes - 1))
    pause 5
  done
  kill -s CONT -- -1 2>/dev/null
}

# Succeeds while there is one left. A dead one that waits for its parent needs no second death.
kill_others() {
  alive=1
  for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    case $kept in *" $pid "*) continue ;; esac
    { read -r line <"$process/stat"; } 2>/dev/null || continue
    set -- ${line##*)}
    case $1 in Z | X) continue ;; esac
    if [ -n "$guests" ] && [ "$2" -eq 0 ]; then continue; fi
    kill -s KILL "$pid" 2>/dev/null
    alive=0
  done
  return "$alive"
}
