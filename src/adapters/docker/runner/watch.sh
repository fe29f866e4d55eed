# The supervisor's watcher: ends turns that pass their deadline or write without end, and keeps the lease while one runs.
# One process for all turns, asleep in `read` between them; it looks twice a second, so a deadline is late by that much.

# A line for each turn on stdin: DIRECTORY TURN LEADER START DEADLINE, times in hundredths of a second of uptime.
watch_turns() {
  while read -r dir turn child started deadline; do
    watch_turn
  done
  return 0
}

watch_turn() {
  crowded=0
  until [ -f "$dir.done" ]; do
    lh_now
    left=$((deadline - now))
    if [ "$left" -le 0 ]; then
      end_turn timeout
      return
    fi
    wait_and_look || return
    if [ -f "$dir.done" ]; then return; fi
    lh_now
    lh_renew
  done
}

# Fails where it has ended the turn.
wait_and_look() {
  if has_room; then
    crowded=0
    if [ "$left" -ge 50 ]; then nap 50; else nap $((left + 1)); fi
    if has_room && [ "$(wc -c <"$dir.out")" -gt 67108864 ]; then
      end_turn output-limit
      return 1
    fi
    return
  fi
  # Many programs meet the limit for a moment and go on with fewer processes. Who stays there a second gets no further.
  [ "$crowded" -ne 0 ] || crowded=$now
  if [ $((now - crowded)) -ge 100 ]; then
    end_turn process-limit
    return 1
  fi
  pause 10
}

# The watcher's last act, where it could not start a process although there seemed to be room: without one it can still end the turn.
watch_crowded() {
  if [ -f "$dir.done" ]; then return; fi
  end_turn process-limit
}

end_turn() {
  echo "$1" >"$dir.reason"
  stopped=
  if [ "$1" = process-limit ] || ! has_room; then
    # Without room there is no waiting for a good end, and who stands still starts no other.
    kill -s STOP -- -1 2>/dev/null
    stopped=all
  else
    kill -s TERM -- "-$child" 2>/dev/null
  fi
  grace=50
  while [ -z "$stopped" ] && [ "$grace" -gt 0 ] && kill -s 0 -- "-$child" 2>/dev/null; do
    pause 10
    grace=$((grace - 1))
  done
  kill -s KILL -- "-$child" 2>/dev/null
  passes=20
  while [ "$passes" -gt 0 ] && kill_strays; do
    passes=$((passes - 1))
  done
  [ -z "$stopped" ] || kill -s CONT -- -1 2>/dev/null
  : >"$dir.ended"
}

# What left the group: started since the turn began, and its environment has the mark of this turn or no mark at all.
# Succeeds where it killed one. A process of an earlier turn has the mark of that one, ours have an empty one, and those
# that the engine started beside us have no parent here.
kill_strays() {
  killed=1
  for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    { read -r line <"$process/stat"; } 2>/dev/null || continue
    set -- ${line##*)}
    case $1 in Z | X) continue ;; esac
    if [ "$2" -eq 0 ] || [ "${20}" -lt "$started" ]; then continue; fi
    read_mark "$process"
    case $mark in
      "-$turn-" | '') kill -s KILL "$pid" 2>/dev/null && killed=0 ;;
    esac
  done
  return "$killed"
}

# The shell drops the NULs between variables, so they come as one word; a value may hold line breaks.
read_mark() {
  mark=
  {
    while IFS= read -r line || [ -n "$line" ]; do
      case $line in
        *LH_TURN=-*)
          mark=${line##*LH_TURN=-}
          case $mark in
            [0-9]*-*) mark=-${mark%%-*}- ;;
            *) mark=- ;;
          esac
          return
          ;;
      esac
    done <"$1/environ"
  } 2>/dev/null
}
