# Ends every process but the container's own: its first one, the lease loop, this runner and its parent, which tells when
# it ends. Which those are is asked of the kernel, for whatever lies on the disk may have been changed from inside.
sweep() {
  find_keeper
  # While everybody stands still nobody can fork.
  kill -s STOP -- -1 2>/dev/null
  passes=40
  while kill_others && [ "$passes" -gt 0 ]; do
    passes=$((passes - 1))
    sleep 0.05 2>/dev/null || sleep 1
  done
  for pid in "$keeper" "$parent"; do
    [ "$pid" -le 1 ] || kill -s CONT "$pid"
  done
}

# The lease loop is the first process itself, or its eldest child: any other child is an orphan of a later process.
find_keeper() {
  read -r line <"/proc/$$/stat"
  set -- ${line##*)}
  parent=$2
  keeper=1
  if [ "$first_process" = loop ]; then return; fi
  eldest=
  for process in /proc/[0-9]*; do
    { read -r line <"$process/stat"; } 2>/dev/null || continue
    set -- ${line##*)}
    [ "$2" -eq 1 ] || continue
    if [ -z "$eldest" ] || [ "${20}" -lt "$eldest" ]; then eldest=${20} keeper=${process#/proc/}; fi
  done
}

# Succeeds while there is one left. A dead one that waits for its parent needs no second death.
kill_others() {
  alive=1
  for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    case $pid in 1 | "$keeper" | "$parent" | "$$") continue ;; esac
    { read -r line <"$process/stat"; } 2>/dev/null || continue
    set -- ${line##*)}
    case $1 in Z | X) continue ;; esac
    kill -s KILL "$pid" 2>/dev/null
    alive=0
  done
  return "$alive"
}
