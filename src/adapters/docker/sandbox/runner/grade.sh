# Rest of the main process of a grading container, behind `lh_mark=… lh_linger=…` and what makes the files: applies the patch, runs the
# evaluation, sends result and log, and ends. With it ends every process of the container, so no deadline depends on the outside.
# argument: SECONDS
exec 5>&1 </dev/null >/dev/null 2>&1
cd "$(cat /.lh/repository)" || exit 1

# finish KIND EXIT_CODE: writes the answer to the attached stream. The evaluation could write there as well, so it is killed first,
# and it never learns the mark.
finish() {
  # Of the whole container: cgroup v2 where the kernel keeps it (5.19), v1; else nothing.
  peak=$(cat /sys/fs/cgroup/memory.peak || cat /sys/fs/cgroup/memory/memory.max_usage_in_bytes)
  kill -s KILL -- -1
  {
    printf '\nlh1 %s %s %s %s\n' "$lh_mark" "$1" "$2" "$peak"
    head -c 16777216 <&3
    printf '\nlh1 %s\n' "$lh_mark"
    head -c 16777216 <&4
    printf '\nlh1 %s\n' "$lh_mark"
  } >&5
  if [ "$lh_linger" -gt 0 ]; then sleep "$lh_linger"; fi
  exit 0
}

# run FILE: the command that the file holds, already quoted
run() {
  if [ -f /.lh/apart ]; then
    eval "$(cat "$1")" >>/.lh/grade/log 2>>/.lh/grade/errors 3<&- 4<&- 5>&- 6>&-
  else
    eval "$(cat "$1")" >>/.lh/grade/log 2>&1 3<&- 4<&- 5>&- 6>&-
  fi
}

: >/.lh/grade/log
: >/.lh/grade/errors
# Open from here on: the evaluation may put something else in the place of the names, and a pipe there would hold who opens it.
exec 3</.lh/grade/log 4</.lh/grade/errors 6>/.lh/grade/overdue
. /.lh/environment
# The first attempt that succeeds applies the patch. Without any there is none to apply.
code=0
for attempt in /.lh/apply/*; do
  [ -f "$attempt" ] || continue
  if [ "$attempt" != /.lh/apply/00 ] && [ -f /.lh/reset ]; then run /.lh/reset; fi
  run "$attempt"
  code=$?
  [ "$code" -ne 0 ] || break
done
if [ "$code" -ne 0 ] && [ -f /.lh/last-check ] && run /.lh/last-check; then code=0; fi
[ "$code" -eq 0 ] || finish did-not-apply "$code"

# Where the streams stay apart, applying the patch is a part of the log.
[ -f /.lh/apart ] || : >/.lh/grade/log
if [ -f /.lh/apart ]; then
  /bin/bash -c "$(cat /eval.sh)" >>/.lh/grade/log 2>>/.lh/grade/errors 3<&- 4<&- 5>&- 6>&- &
else
  /bin/bash -c '/bin/bash /eval.sh 2>&1' >>/.lh/grade/log 2>&1 3<&- 4<&- 5>&- 6>&- &
fi
evaluation=$!
(
  left=$1
  while [ "$left" -gt 0 ]; do
    if [ "$left" -gt 2 ]; then nap=2; else nap=$left; fi
    sleep "$nap"
    left=$((left - nap))
    # A flood ends here: its log has no end marker, so it proves nothing, and all sandboxes share the disk.
    size=$(ls -lnL /proc/self/fd/3 /proc/self/fd/4 | awk '{ sum += $5 } END { print sum }')
    if [ "$size" -gt 16777216 ]; then kill -s KILL "$evaluation"; exit; fi
  done
  # By a file and not by a signal alone: the evaluation may end by itself at the same moment.
  echo overdue >&6
  kill -s KILL "$evaluation"
) 5>&- &
wait "$evaluation"
code=$?
if [ -s /proc/self/fd/6 ]; then finish timed-out "$code"; fi
finish ran "$code"
