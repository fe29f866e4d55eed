#!/bin/sh
# Main process of a sandbox: the dead-man switch. It ends, and the container with it, after ROUNDS rounds of SECONDS
# in which nobody renewed the lease. It counts rounds instead of reading a clock, so a clock jump reaps nothing.
# usage: lease.sh SECONDS ROUNDS
echo "$$" >/.lh/lease.pid
previous=
missed=0
while [ "$missed" -lt "$2" ]; do
  sleep "$1"
  lease=
  read -r lease </.lh/lease
  if [ "$lease" = "$previous" ]; then
    missed=$((missed + 1))
  else
    missed=0
    previous=$lease
  fi
done
