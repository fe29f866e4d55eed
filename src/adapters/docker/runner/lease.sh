# Main process of a sandbox: the dead-man switch. It ends, and the container with it, after ROUNDS rounds of SECONDS
# in which nobody renewed the lease. It counts rounds instead of reading a clock, so a clock jump reaps nothing.
# arguments: SECONDS ROUNDS
previous=
missed=0
while [ "$missed" -lt "$2" ]; do
  LH_TURN=- sleep "$1"
  lease=
  { read -r lease </.lh/lease; } 2>/dev/null
  if [ "$lease" = "$previous" ]; then
    missed=$((missed + 1))
  else
    missed=0
    previous=$lease
  fi
done
