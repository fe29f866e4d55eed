# Room on the disk for the journal, also when the agent or the host has used it up: files of ours that are given away one by one,
# each enough for a turn, and written anew when there is room.
disk_reserve='1 2 3 4 5 6 7 8'

# Whether a turn's records fit, a page or two each. Asked only when the last piece is gone: some file systems flush a file that is cut
# off and written anew, which costs more than a turn.
has_disk() {
  [ ! -s /.lh/reserve.8 ] || return 0
  { printf '%032768d' 0 >/.lh/probe; } 2>/dev/null
  disk=$?
  : >/.lh/probe
  return "$disk"
}

# Gives away one piece. Fails where none is left.
free_disk() {
  for piece in $disk_reserve; do
    if [ -s "/.lh/reserve.$piece" ]; then
      : >"/.lh/reserve.$piece"
      return
    fi
  done
  return 1
}

# By `printf` alone: 64 kB a piece cost no process.
fill_reserve() {
  # Each turn writes it anew, in place.
  [ -f /.lh/state.saved ] || echo . >/.lh/state.saved
  # Never over what another runner has written meanwhile.
  set -C
  { echo '- .' >/.lh/world; } 2>/dev/null
  set +C
  for piece in $disk_reserve; do
    if [ -s "/.lh/reserve.$piece" ]; then continue; fi
    { printf '%065536d' 0 >"/.lh/reserve.$piece"; } 2>/dev/null || : >"/.lh/reserve.$piece"
    if [ ! -s "/.lh/reserve.$piece" ]; then return; fi
  done
}
