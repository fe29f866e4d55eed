# The runner's supervisor: one process for the life of the runner, in a session of its own, so that a turn outlives the
# runner, the stream behind that and the worker behind that. Starting one for each turn would cost as much as the turn.

# Sets `supervisor` and `supervisor_start`; empty where none can be started.
need_supervisor() {
  # A dead child of ours keeps its pid but has no files.
  if [ -n "$supervisor" ] && [ -e "/proc/$supervisor/fd/0" ]; then return; fi
  supervisor=
  [ -f /.lh/ready ] && start_supervisor
}

start_supervisor() {
  # A turn of another runner may have filled the sandbox, and ends within seconds.
  patience=60
  until has_room || [ "$patience" -eq 0 ]; do await_moment; done
  has_room || sweep
  read_ready
  pipes=/.lh/pipes.$$
  if [ -e "$pipes.watch" ]; then rm -f "$pipes.requests" "$pipes.answers" "$pipes.watch"; fi
  mkfifo "$pipes.requests" "$pipes.answers" "$pipes.watch" || return
  # Opened for both directions nothing blocks. The supervisor gets one end of each: when either of the two dies, the
  # other reads the end of the pipe.
  exec 3<>"$pipes.requests" 4<>"$pipes.answers" 5<"$pipes.answers" 6<"$pipes.requests"
  find_keeper
  LH_SUPERVISOR=$supervisor_script setsid /bin/sh -c 'eval "$LH_SUPERVISOR"' supervisor \
    "$pipes.watch" "$shell_name" "$shell" "1 $keeper $parent $$" <&6 >&4 2>/dev/null 3>&- 4>&- 5>&- 6>&- &
  supervisor=$!
  exec 4>&- 6<&-
  if read -r answer <&5; then start_of "$supervisor"; else start=; fi
  rm -f "$pipes.requests" "$pipes.answers" "$pipes.watch"
  supervisor_start=$start
  [ -n "$start" ] || supervisor=
}
