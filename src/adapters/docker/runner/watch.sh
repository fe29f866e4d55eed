# The supervisor's watcher: ends turns that pass their deadline or write without end, and keeps the lease while one runs.
# One process for all turns, asleep in `read` between them; it looks twice a second, so a deadline is late by that much.

# A line for each turn on stdin: DIRECTORY TURN LEADER START DEADLINE, times in hundredths of a second of uptime.
watch_turns() {
  while read -r dir turn child started deadline; do
    watch_turn
  done
}

watch_turn() {
  until [ -f "$dir.done" ]; do
    lh_now
    left=$((deadline - now))
    if [ "$left" -le 0 ]; then
      end_turn timeout
      return
    fi
    if [ "$left" -ge 50 ]; then nap 0.5; else nap "0.$((left / 10 + 1))"; fi
    if [ -f "$dir.done" ]; then return; fi
    lh_now
    echo "$now" >/.lh/lease
    if [ "$(wc -c <"$dir.out")" -gt 67108864 ]; then
      end_turn output-limit
      return
    fi
  done
}

# Fractions of a second where this `sleep` knows them, else whole seconds.
nap() {
  sleep "$1" 2>/dev/null || sleep 1
}

end_turn() {
  echo "$1" >"$dir.reason"
  kill -s TERM -- "-$child" 2>/dev/null
  grace=50
  while [ "$grace" -gt 0 ] && kill -s 0 -- "-$child" 2>/dev/null; do
    nap 0.1
    grace=$((grace - 1))
  done
  kill -s KILL -- "-$child" 2>/dev/null
  passes=20
  while [ "$passes" -gt 0 ] && kill_strays; do
    passes=$((passes - 1))
  done
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
