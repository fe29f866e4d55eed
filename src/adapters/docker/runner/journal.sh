# The turn journal in /.lh/turns. TURN is the claim, with the command behind its first line; TURN.TOKEN.out, .state, .done are
# what came of it. Each file is written once, without a process; a claim's line and done end in a lone `.`: what lacks it was torn
# and counts as absent. As few files as will do: a new one costs up to a millisecond where the host removes many sandboxes.
#
# /.lh/world names the last turn that this container has begun, as TURN.TOKEN. Tokens are random and each turn was checked against
# the one before it, so this one name stands for all turns that made the container what it is.

# Ends the output of a turn; see read_output.
end_mark=$(printf '\036')

# turn TURN FENCE TOKEN TIMEOUT_MS MAX_BYTES COMMAND_HASH AFTER COMMAND
# AFTER is the turn that the command must find done, as TURN.TOKEN, or - for the first.
turn() {
  fence=0
  [ ! -f /.lh/fence ] || read -r fence </.lh/fence
  if [ "$2" -lt "$fence" ]; then
    echo "lh1 fenced $fence"
    return
  fi
  dir=/.lh/turns/$1.$3
  # What is claimed already is answered by the journal, whatever came after it.
  if [ ! -f "/.lh/turns/$1" ] && ! follows "$7"; then
    echo "lh1 behind $world"
    return
  fi
  if [ ! -f "$dir.done" ] && ! has_disk; then
    echo 'lh1 full'
    return
  fi
  [ "$2" -eq "$fence" ] || raise_fence "$2"
  need_supervisor
  if [ -z "$supervisor" ]; then
    echo "lh1 lost no-supervisor"
    return
  fi
  command=/.lh/turns/$1 text=$8
  if [ "$8" = @ ]; then command=/.lh/turns/$3.in text=; fi
  if claim "/.lh/turns/$1" "$6 $3 $supervisor $supervisor_start ." "$text"; then
    if ! enter_world "$1.$3"; then
      rm -f "/.lh/turns/$1"
      echo 'lh1 full'
      return
    fi
    run_turn "$1" "$3" "$4" "$command"
  elif [ "$claimed" = full ]; then
    # Nothing ran, a part of a command must not: the turn may be claimed again when there is room.
    rm -f "/.lh/turns/$1"
    echo 'lh1 full'
    return
  else
    await_turn "/.lh/turns/$1" "$6" "$3" || return
  fi
  reply_turn "$5"
}

# Whether this container holds the turns up to AFTER and none beyond, each of them done. Leaves what it does hold in `world`.
# follows AFTER
follows() {
  world=-
  [ ! -f /.lh/world ] || read -r world end </.lh/world
  [ "$1" = "$world" ] && { [ "$1" = - ] || [ -f "/.lh/turns/$1.done" ]; }
}

# In place: the file is made once, and a full disk still has room for it. enter_world TURN.TOKEN
enter_world() {
  { echo "$1 ." 1<>/.lh/world; } 2>/dev/null || { free_disk && { echo "$1 ." 1<>/.lh/world; } 2>/dev/null; }
}

raise_fence() {
  echo "$1" >"/.lh/fence.$$" && mv -f "/.lh/fence.$$" /.lh/fence
}

# An exclusive create: it succeeds once, whoever asks and how often. `claimed` is mine, taken, or full: created by us, but the
# text found no room. claim FILE LINE ESCAPED_TEXT
claim() {
  claimed=taken
  set -C
  { if printf '%s\n%b' "$2" "$3"; then claimed=mine; else claimed=full; fi >"$1"; } 2>/dev/null
  set +C
  if [ "$claimed" = full ] && free_disk && { printf '%s\n%b' "$2" "$3" >"$1"; } 2>/dev/null; then claimed=mine; fi
  [ "$claimed" = mine ]
}

# run_turn TURN TOKEN TIMEOUT_MS COMMAND_FILE
run_turn() {
  drop_old_output "/.lh/turns/$(($1 - 3))"
  echo "$1 $2 $3 $4" >&3
  # The supervisor's death ends this as well: nobody else holds the other end.
  read -r answer <&5
}

# Earlier turns are committed when the next one comes; two are kept. drop_old_output CLAIM
drop_old_output() {
  [ -f "$1" ] || return
  read -r old_hash old_token old_rest <"$1"
  if [ -f "$1.$old_token.big" ] && has_room; then rm -f "$1.$old_token.big" "$1.$old_token.out"; fi
}

# Start time of a process in `start`, empty when it is gone: a reused pid has another one.
start_of() {
  start=
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return
  # The name in parentheses may hold anything, also spaces; state and numbers follow the last one.
  set -- ${line##*)}
  [ "$1" = Z ] || start=${20}
}

# Waits for a turn that another runner or an earlier request started. await_turn CLAIM COMMAND_HASH TOKEN
await_turn() {
  patience=40
  until read_claim "$1"; do
    if [ "$patience" -eq 0 ]; then
      echo "lh1 lost claimed"
      return 1
    fi
    await_moment
  done
  if [ "$claim_token" != "$3" ]; then
    echo "lh1 conflict token"
    return 1
  fi
  if [ "$claim_hash" != "$2" ]; then
    echo "lh1 conflict command"
    return 1
  fi
  # A supervisor under load may take its time to begin; one at work has the output open.
  patience=200
  until read_done; do
    start_of "$claim_supervisor"
    # It may have finished between the two looks.
    if [ "$start" != "$claim_start" ] && ! read_done; then
      echo "lh1 lost interrupted"
      return 1
    fi
    if [ "$patience" -eq 0 ] && ! read_done; then
      echo "lh1 lost unrecorded"
      return 1
    fi
    if [ -e "/proc/$claim_supervisor/fd/7" ]; then patience=200; fi
    await_moment
  done
}

# A twentieth of a second, less patience.
await_moment() {
  patience=$((patience - 1))
  pause 5
}

read_claim() {
  end=
  { read -r claim_hash claim_token claim_supervisor claim_start end <"$1"; } 2>/dev/null
  [ "$end" = . ]
}

read_done() {
  [ -f "$dir.done" ] || return 1
  end=
  {
    read -r code reason size state_size wall_ms oom top submitted
    IFS= read -r state
    IFS= read -r opened
    read -r end
  } <"$dir.done"
  [ "$end" = . ]
}

# reply_turn MAX_BYTES. A short answer leaves in one write and without a process, as nearly all do.
reply_turn() {
  if ! read_done; then
    echo "lh1 lost supervisor"
    return
  fi
  if [ ! -f "$dir.out" ]; then
    echo "lh1 lost output-dropped"
    return
  fi
  if [ "$size" -gt "$1" ]; then head=$(($1 / 2)) tail=$(($1 - $1 / 2)); else head=$size tail=0; fi
  # The state that this connection saw last is not sent again.
  sent_size=$state_size
  [ "$state" != "$sent_state" ] || sent_size='='
  sent_state=$state
  header="lh1 done $code $reason $size $wall_ms $oom $top $submitted $sent_size $head $tail$newline$opened$newline"
  if [ "$sent_size" != '=' ] && read_state "$state" "$state_size"; then
    header=$header$text
    sent_size='='
  fi
  if [ "$sent_size" = '=' ] && [ "$tail" -eq 0 ] && read_output "$dir.out" "$head"; then
    printf %s "$header$text"
    return
  fi
  printf %s "$header"
  [ "$sent_size" = '=' ] || head -c "$sent_size" "$state"
  # Output that a background process adds later is not part of the turn: every cut is counted from the front.
  [ "$head" -eq 0 ] || head -c "$head" "$dir.out"
  [ "$tail" -eq 0 ] || tail -c +$((size - tail + 1)) "$dir.out" | head -c "$tail"
}

# A short state in `text`; fails for a long one. read_state FILE BYTES
read_state() {
  text=
  [ "$2" -le 4096 ] || return 1
  while IFS= read -r line; do
    text=$text$line$newline
  done <"$1"
  [ ${#text} -eq "$2" ]
}

# Short output in `text`. The supervisor put the mark behind it, so the last line always ends. Fails where the length
# differs, for the shell drops NULs. read_output FILE BYTES
read_output() {
  text=
  [ "$2" -gt 0 ] || return 0
  [ "$2" -le 2048 ] || return 1
  while IFS= read -r line; do
    case $line in
      *"$end_mark")
        text=$text${line%"$end_mark"}
        break
        ;;
    esac
    text=$text$line$newline
    [ ${#text} -le "$2" ] || return 1
  done <"$1"
  [ ${#text} -eq "$2" ]
}
