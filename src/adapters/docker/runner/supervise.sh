# The supervisor of all turns of one runner. A line on stdin asks for a turn (TURN TOKEN TIMEOUT_MS COMMAND_FILE), a line
# on stdout says that its result is written. The command has a session and a process group of its own.
# arguments: WATCH_PIPE SHELL_NAME SHELL KEPT, the processes that are the sandbox's own
watch_pipe=$1 shell_name=$2 shell=$3 own=$4
unset LH_SUPERVISOR
umask 077
end_mark=$(printf '\036')

# The command stands behind the first line. bash reads it byte for byte without a process; other shells need one.
# shellcheck disable=SC2016
case $shell_name in
  bash) entry='{ read -r lh_command; IFS= read -r -d "" lh_command; } <"$lh_file"' ;;
  *) entry='{ read -r lh_command; lh_command=$(cat); } <"$lh_file"' ;;
esac
# By `eval` in a `-c` shell, so that messages say `bash: line 1:` and never where the command is stored.
# shellcheck disable=SC2016
entry='. /.lh/command.sh; '$entry'; eval "$lh_command"'

start_watcher() {
  # By the open pipe, for its name is gone: the reading end alone, so that a watcher sees when its supervisor dies.
  exec 9</proc/self/fd/8
  # By `exec`, for redirections of a function leave copies of what they replace: nobody else may hold our pipes.
  (exec <&9 >/dev/null 8>&- 9>&- && trap watch_crowded EXIT && watch_turns && trap - EXIT) &
  watcher=$!
  exec 9<&-
}

# Kills by the memory limit so far, in `kills`: cgroup v2 and v1 write them in the same form.
count_oom_kills() {
  kills=0
  for counter in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$counter" ] || continue
    while read -r name value; do
      [ "$name" = oom_kill ] && kills=$value
    done <"$counter"
    return
  done
}

run() {
  dir=/.lh/turns/$turn.$token
  count_oom_kills
  kills_before=$kills
  read_shell_state
  lh_now
  started=$now
  exec 7>>"$dir.out"
  make_room 'before the command'
  # A shell that cannot start a process ends here: that is a result as well.
  trap fail_to_start EXIT
  # bash would look the user up for each that is not set.
  HOME=/root SHELL=$shell LH_TURN=-$turn- setsid "$shell" -c "$entry" "$shell_name" "$dir" "$command_file" "$state" \
    </dev/null >&7 2>&7 7>&- 8>&- &
  child=$!
  trap - EXIT
  echo "$dir $turn $child $started $((started + (timeout_ms + 9) / 10))" >&8
  wait "$child"
  code=$?
  reason=exit
  await_end
  lh_now
  # The exit trap leaves its mark unless a signal or exec took the shell away.
  owner='' word='' bytes='' end=''
  read -r owner word bytes end </.lh/state.saved
  if [ "$owner" = "$token" ]; then
    adopt_state
  elif [ -f "$dir.state" ]; then
    tell_full
  elif [ "$code" -gt 128 ] && [ "$reason" = exit ]; then
    reason=signal
  fi
  make_room 'after it'
  record
}

# Ends what the agent has left running where so few processes more can be started that the next turn could not be. make_room WHEN
make_room() {
  if has_room; then return; fi
  kept=" $own $$ $watcher " guests=spared
  end_others
  # The dead count until somebody has noticed.
  patience=40
  until has_room || [ "$patience" -eq 0 ]; do
    patience=$((patience - 1))
    pause 5
  done
  echo "Notice: the sandbox can hold no more processes; those in the background $1 were ended." >&7
}

# One write: a reader sees the whole of it or misses its last line.
write_done() {
  { printf '%s\n%s\n%s\n.\n' \
    "$code $reason $size $state_size $(((now - started) * 10)) $((kills > kills_before)) $top $submitted" \
    "$state" "$opened" 1<>"$dir.done"; } 2>/dev/null
}

fail_to_start() {
  code=254 reason=process-limit
  record
  echo "$turn"
}

record() {
  # Room for the result, before the output is counted: where the agent has filled the disk, this is the first to find none.
  until { printf '%s' - >"$dir.done"; } 2>/dev/null; do tell_full || break; done
  measure_output
  count_oom_kills
  read_tool_state
  until write_done; do free_disk || break; done
  # Open as long as a turn is at work: that is how a second runner tells a long one from one that left no result.
  exec 7>&-
}

# Where the watcher ended the turn, the leader is gone but its group may not be: the watcher says when it is.
await_end() {
  [ -f "$dir.reason" ] || return
  read -r reason <"$dir.reason"
  patience=300
  while [ ! -f "$dir.ended" ] && [ "$patience" -gt 0 ] && [ -e "/proc/$watcher/fd/0" ]; do
    pause 10
    patience=$((patience - 1))
  done
}

# What must be written found no room, so whatever wrote before found none either.
tell_full() {
  free_disk && echo "Notice: no space is left on the sandbox's disk, so output may be missing." >&7
}

# What the turn's shell saved becomes the state of the next one, unless it is the same.
adopt_state() {
  if [ "$end" != . ]; then
    tell_full
    return
  fi
  [ "$word" != same ] || return
  # By the agent's own shell, so it may be anything.
  case $bytes in
    '' | *[!0-9]* | ?????????*) bytes=$(wc -c <"$dir.state") ;;
  esac
  # The worker refuses a longer one, so the turns to come would be lost with it.
  if [ "$bytes" -gt 65536 ]; then
    echo "Notice: the shell's environment and directory take $((bytes)) bytes; at most 65536 are kept, so those before this command stay." >&7
    return
  fi
  state=$dir.state
  state_size=$bytes
  # Half a line would lose the state of all turns.
  until { echo "$((state_size)) $state" >/.lh/state.current; } 2>/dev/null; do free_disk || break; done
}

# Bytes of output in `size`. The mark goes to the end of the file through the descriptor that knows how far that is, so
# no process is needed to count, also when somebody wrote through another one.
measure_output() {
  marked=0
  printf '%s\n' "$end_mark" >&7 && marked=2
  read -r word size </proc/self/fdinfo/7
  # Some runtimes' /proc does not tell.
  [ "$word" = pos: ] || size=$(wc -c <"$dir.out")
  size=$((size - marked))
  [ "$size" -le 1048576 ] || : >"$dir.big"
}

exec 8<>"$watch_pipe"
start_watcher
echo "$watcher"
while read -r turn token timeout_ms command_file; do
  # It may have been killed from inside; without it no deadline holds.
  [ -e "/proc/$watcher/fd/0" ] || start_watcher
  run
  echo "$turn"
done
