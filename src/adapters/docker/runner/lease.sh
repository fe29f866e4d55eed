# Main process of a sandbox. It starts the first runner on the container's own input and output, which saves the exec. The
# scripts come first, after a line with their length; the stream stays open when the runner dies, so its end is told.
# Then it is the dead-man switch: it ends, and the container with it, after ROUNDS rounds of SECONDS in which nobody
# renewed the lease. It counts rounds instead of reading a clock, so a clock jump reaps nothing.
# arguments: SECONDS ROUNDS
exec 3<&0 4>&1 </dev/null
{
  read -r lh_bytes && (eval "$(head -c "$lh_bytes")")
  echo 'lh1 ended'
} <&3 3<&- 4>&- &
speaker=$!
exec 3<&- >/dev/null 2>&1
previous=
missed=0
while [ "$missed" -lt "$2" ]; do
  LH_TURN=- sleep "$1" 4>&-
  # Killed together with the shell that would tell its end, the runner leaves a stream that the engine holds open.
  if [ -n "$speaker" ] && ! kill -s 0 "$speaker" 2>/dev/null; then
    echo 'lh1 ended' >&4
    exec 4>&-
    speaker=
  fi
  lease=
  { read -r lease </.lh/lease; } 2>/dev/null
  if [ "$lease" = "$previous" ]; then
    missed=$((missed + 1))
  else
    missed=0
    previous=$lease
  fi
done
