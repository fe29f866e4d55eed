#!/bin/sh
# The resident runner: one request a line on stdin, one framed reply on stdout. It keeps nothing in memory between
# requests, so a second one started after a broken stream gives the same answers from the journal.
#
# Reply: `lh1 KIND …` on one line; for init and turn a line with the open file, then as many bytes as the numbers say.
umask 077
cd /
. /.lh/bin/clock.sh
. /.lh/bin/sweep.sh
. /.lh/bin/journal.sh
. /.lh/bin/prepare.sh
. /.lh/bin/capture.sh
. /.lh/settings

while IFS=' ' read -r verb first second third fourth fifth sixth seventh; do
  lh_now
  # Any request is a sign of life; the time makes each renewal differ from the one before.
  echo "$now" >/.lh/lease
  case $verb in
    init) init ;;
    turn) turn "$first" "$second" "$third" "$fourth" "$fifth" "$sixth" "$seventh" ;;
    capture) capture "$first" "$second" "$third" ;;
    reset) reset "$first" ;;
    *) echo "lh1 error unknown-request" ;;
  esac
done
