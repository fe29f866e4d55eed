#!/bin/sh
# Main process of a grading container: applies the patch, runs the evaluation, writes log and result, and ends. With it
# ends every process of the container, so nothing needs to be killed and no deadline depends on the outside.
# usage: grade.sh SECONDS
cd "$(cat /.lh/repository)" || exit 1
. /.lh/bin/clock.sh

# finish KIND EXIT_CODE
finish() {
  lh_now
  # Of the whole container: cgroup v2 where the kernel keeps it (5.19), v1; else nothing.
  peak=$(cat /sys/fs/cgroup/memory.peak 2>/dev/null || cat /sys/fs/cgroup/memory/memory.max_usage_in_bytes 2>/dev/null)
  echo "$1 $2 $(((now - started) * 10)) $peak" >/.lh/grade/result.tmp
  mv /.lh/grade/result.tmp /.lh/grade/result
  exit 0
}

# run FILE: the command that the file holds, already quoted
run() {
  if [ -f /.lh/apart ]; then
    eval "$(cat "$1")" </dev/null >>/.lh/grade/log 2>>/.lh/grade/errors
  else
    eval "$(cat "$1")" </dev/null >>/.lh/grade/log 2>&1
  fi
}

. /.lh/environment
lh_now
started=$now
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
: >>/.lh/grade/errors
# Kept open: the evaluation may put something else in the place of the names.
exec 3</.lh/grade/log 4</.lh/grade/errors
if [ -f /.lh/apart ]; then
  /bin/bash -c "$(cat /eval.sh)" </dev/null >>/.lh/grade/log 2>>/.lh/grade/errors 3<&- 4<&- &
else
  /bin/bash -c '/bin/bash /eval.sh 2>&1' </dev/null >>/.lh/grade/log 2>&1 3<&- 4<&- &
fi
evaluation=$!
(
  left=$1
  while [ "$left" -gt 0 ]; do
    if [ "$left" -gt 2 ]; then nap=2; else nap=$left; fi
    sleep "$nap"
    left=$((left - nap))
    # A flood ends here: its log has no end marker, so it proves nothing, and the disk is everybody's.
    size=$(ls -lnL /proc/self/fd/3 /proc/self/fd/4 | awk '{ sum += $5 } END { print sum }')
    if [ "$size" -gt 67108864 ]; then kill -s KILL "$evaluation"; exit; fi
  done
  # By a file and not by a signal alone: the evaluation may end by itself at the same moment.
  : >/.lh/grade/overdue
  kill -s KILL "$evaluation"
) </dev/null >/dev/null 2>&1 &
wait "$evaluation"
code=$?
if [ -f /.lh/grade/overdue ]; then finish timed-out "$code"; fi
finish ran "$code"
