#!/bin/sh
# Main process of a grading container: applies the patch, runs the evaluation, writes log and result, and ends. With it
# ends every process of the container, so nothing needs to be killed and no deadline depends on the outside.
# usage: grade.sh SECONDS
cd "$(cat /.lh/repository)" || exit 1
. /.lh/bin/clock.sh

# finish KIND EXIT_CODE
finish() {
  lh_now
  echo "$1 $2 $(((now - started) * 10))" >/.lh/grade/result.tmp
  mv /.lh/grade/result.tmp /.lh/grade/result
  exit 0
}

lh_now
started=$now
# One command a line, already quoted: the first that succeeds applies the patch. The file is empty for an empty patch.
if [ -s /.lh/apply ]; then
  applied=no
  while IFS= read -r command; do
    if eval "$command" </dev/null >>/.lh/grade/log 2>&1; then
      applied=yes
      break
    fi
  done </.lh/apply
  [ "$applied" = yes ] || finish did-not-apply 1
fi

: >/.lh/grade/log
# Kept open: the evaluation may put something else in the place of the name.
exec 3</.lh/grade/log
/bin/bash -c '/bin/bash /eval.sh 2>&1' </dev/null >>/.lh/grade/log 2>&1 3<&- &
evaluation=$!
(
  left=$1
  while [ "$left" -gt 0 ]; do
    if [ "$left" -gt 2 ]; then nap=2; else nap=$left; fi
    sleep "$nap"
    left=$((left - nap))
    # A flood ends here: its log has no end marker, so it proves nothing, and the disk is everybody's.
    size=$(ls -lnL /proc/self/fd/3 | awk '{ print $5 }')
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
