# Sourced by the runner: what must exist before the first turn. Done once; asked again it only reports.

programs='awk cat cp env git grep head mkdir mv rm setsid sleep tail wc'

init() {
  if [ ! -f /.lh/ready ]; then prepare || return; fi
  read -r commit </.lh/ready
  read -r state </.lh/state/current
  { read -r top && read -r submitted && IFS= read -r open; } </.lh/state/tool
  set -- $(wc -c <"$state")
  echo "lh1 ready $commit $top $submitted $1"
  printf '%s\n' "$open"
  cat "$state"
}

prepare() {
  [ -f /.lh/state/start ] || prepare_shell || return
  commit=$(git -c 'safe.directory=*' -C "$LH_REPO" rev-parse --verify HEAD 2>/dev/null)
  if [ -z "$commit" ]; then
    echo "lh1 unsuitable repository $LH_REPO"
    return 1
  fi
  echo /.lh/state/start >/.lh/state/current
  printf '0\n0\n\n' >/.lh/state/tool
  echo "$commit" >/.lh/ready.tmp
  mv /.lh/ready.tmp /.lh/ready
}

prepare_shell() {
  for program in $programs; do
    if ! command -v "$program" >/dev/null; then
      echo "lh1 unsuitable program $program"
      return 1
    fi
  done
  mkdir -p /.lh/turns /.lh/state /.lh/in
  # Not part of the upload: a second attempt to open the sandbox must never lower it.
  [ -f /.lh/fence ] || echo 0 >/.lh/fence
  shell=$(command -v bash) && name=bash || shell=$(command -v sh) name=sh
  # bash reads the command byte for byte without a process; other shells need one.
  # shellcheck disable=SC2016
  case $name in
    bash) read_command='IFS= read -r -d "" lh_command <"$lh_dir/cmd"' ;;
    *) read_command='lh_command=$(cat "$lh_dir/cmd")' ;;
  esac
  {
    echo "LH_SHELL='$shell' LH_SHELL_NAME=$name LH_SETSID='$(command -v setsid)' LH_SLEEP='$(command -v sleep)'"
    echo "LH_ENTRY='. /.lh/bin/command.sh; $read_command; eval \"\$lh_command\"'"
  } >/.lh/programs
  LH_REPO=$LH_REPO "$shell" -c '. /.lh/bin/snapshot.sh' "$name" /.lh/state/start.tmp &&
    mv /.lh/state/start.tmp /.lh/state/start && return
  echo "lh1 unsuitable shell $shell"
  return 1
}

# Another repository and an empty journal, for a sandbox that is used for one task after another. The archive follows
# the request line: `read` takes a pipe byte by byte and GNU head no more than it was told, so nothing is lost between.
# reset BYTES
reset() {
  sweep
  # The directory itself stays: it may be somebody's working directory.
  rm -rf "$LH_REPO"/* "$LH_REPO"/.[!.]* "$LH_REPO"/..?* /.lh/turns/* /.lh/ready
  echo 0 >/.lh/fence
  head -c "$1" | tar --no-same-owner -xf - -C "$LH_REPO"
  init
}
