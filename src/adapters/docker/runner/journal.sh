# Sourced by the runner: the turn journal. /.lh/turns/TURN.TOKEN/ holds cmd, meta, out, state, done.

# turn TURN FENCE TOKEN TIMEOUT_MS MAX_BYTES COMMAND_HASH COMMAND
turn() {
  read -r fence </.lh/fence
  if [ "$2" -lt "$fence" ]; then
    echo "lh1 fenced $fence"
    return
  fi
  [ "$2" -eq "$fence" ] || echo "$2" >/.lh/fence
  dir=/.lh/turns/$1.$3
  for other in /.lh/turns/"$1".*; do
    if [ "$other" != "$dir" ] && [ -d "$other" ]; then
      echo "lh1 conflict token"
      return
    fi
  done
  # mkdir is the claim: it succeeds once, whoever asks and how often.
  if mkdir "$dir" 2>/dev/null; then
    run_turn "$1" "$3" "$4" "$6" "$7"
  else
    await_turn "$6" || return
  fi
  reply_turn "$5"
}

# run_turn TURN TOKEN TIMEOUT_MS COMMAND_HASH COMMAND
run_turn() {
  if [ "$5" = @ ]; then mv "/.lh/in/$2" "$dir/cmd"; else printf %b "$5" >"$dir/cmd"; fi
  drop_old_outputs "$1"
  . /.lh/programs
  "$LH_SETSID" /bin/sh /.lh/bin/supervise.sh "$dir" "$1" "$3" </dev/null >/dev/null 2>&1 &
  supervisor=$!
  start_of "$supervisor"
  echo "$4 $supervisor $start" >"$dir/meta"
  wait "$supervisor"
}

# Earlier turns are committed when the next one comes; two are kept.
drop_old_outputs() {
  for big in /.lh/turns/*/big; do
    [ -f "$big" ] || continue
    old=${big#/.lh/turns/}
    [ "${old%%.*}" -lt $(($1 - 2)) ] && rm -f "$big" "${big%/big}/out"
  done
}

# Start time of a process in `start`, empty when it is gone: a reused pid has another one.
start_of() {
  start=
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return
  # The name in parentheses may hold anything, also spaces; state and numbers follow the last one.
  set -- ${line##*)}
  [ "$1" = Z ] || start=${20}
}

# Waits for a turn that an earlier request started. await_turn COMMAND_HASH
await_turn() {
  patience=40
  until [ -s "$dir/meta" ]; do
    patience=$((patience - 1))
    if [ "$patience" -eq 0 ]; then
      echo "lh1 lost claimed"
      return 1
    fi
    sleep 0.05 2>/dev/null || sleep 1
  done
  read -r hash supervisor started <"$dir/meta"
  if [ "$hash" != "$1" ]; then
    echo "lh1 conflict command"
    return 1
  fi
  while [ ! -f "$dir/done" ]; do
    start_of "$supervisor"
    if [ "$start" != "$started" ]; then
      # It may have finished between the two looks.
      [ -f "$dir/done" ] && break
      echo "lh1 lost interrupted"
      return 1
    fi
    sleep 0.05 2>/dev/null || sleep 1
  done
}

# reply_turn MAX_BYTES
reply_turn() {
  if [ ! -f "$dir/done" ]; then
    echo "lh1 lost supervisor"
    return
  fi
  {
    read -r code reason size state_size wall_ms oom top submitted
    IFS= read -r state
    IFS= read -r open
  } <"$dir/done"
  if [ "$size" -gt "$1" ]; then head=$(($1 / 2)) tail=$(($1 - $1 / 2)); else head=$size tail=0; fi
  # Output that a background process adds later is not part of the turn: every cut is counted from the front.
  echo "lh1 done $code $reason $size $wall_ms $oom $top $submitted $state_size $head $tail"
  printf '%s\n' "$open"
  print_state "$state" "$state_size"
  [ "$head" -eq 0 ] || head -c "$head" "$dir/out"
  [ "$tail" -eq 0 ] || tail -c +$((size - tail + 1)) "$dir/out" | head -c "$tail"
}

# print_state FILE BYTES. A short one line by line without a process, as nearly all are.
print_state() {
  if [ "$2" -gt 8192 ]; then
    cat "$1"
    return
  fi
  while IFS= read -r line; do
    printf '%s\n' "$line"
  done <"$1"
}
