# Ends every process but the container's own: its first one, the lease loop, this runner and its parent, which tells when
# it ends. Which those are is asked of the kernel, for whatever lies on the disk may have been changed from inside.
sweep() {
  # The lease loop's sleep ends with the others, so that its next look comes at once: it must find a sign of life.
  lh_now
  lh_renew
  renewed=$now
  find_keeper
  kept=" 1 $keeper $parent $$ " guests=
  end_others
}

# The lease loop is the first process itself, or its eldest child: any other child is an orphan of a later process.
find_keeper() {
  read -r line <"/proc/$$/stat"
  set -- ${line##*)}
  parent=$2
  keeper=1
  if [ "$first_process" = loop ]; then return; fi
  eldest=
  for process in /proc/[0-9]*; do
    { read -r line <"$process/stat"; } 2>/dev/null || continue
    set -- ${line##*)}
    [ "$2" -eq 1 ] || continue
    if [ -z "$eldest" ] || [ "${20}" -lt "$eldest" ]; then eldest=${20} keeper=${process#/proc/}; fi
  done
}
