# What must exist before the first turn. Done once; asked again it only reports.

programs='awk cat cp env git grep head mkdir mkfifo mv rm setsid sleep tail wc'

# init [REPOSITORY SETTINGS ENVIRONMENT], each escaped for `printf %b`. A runner of a later worker asks without them.
init() {
  if [ ! -s /.lh/ready ]; then prepare "$@" || return; fi
  read_ready
  read_shell_state
  read_tool_state
  sent_state=
  header="lh1 ready $commit $top $submitted $state_size$newline$opened$newline"
  if read_state "$state" "$state_size"; then
    printf %s "$header$text"
    return
  fi
  printf %s "$header"
  head -c "$state_size" "$state"
}

# All that a later runner needs to know, and the mark that the sandbox is prepared. One file: each costs.
read_ready() {
  { read -r commit size shell_name shell && IFS= read -r LH_REPO; } </.lh/ready
}

prepare() {
  if [ $# -lt 3 ] || [ -z "$3" ]; then
    echo "lh1 lost unprepared"
    return 1
  fi
  for program in $programs; do
    if ! command -v "$program" >/dev/null; then
      echo "lh1 unsuitable program $program"
      return 1
    fi
  done
  LH_REPO=$(printf %b "$1") size=-
  # Two may open a sandbox at the same moment: the later one must not set back what turns of the first have changed.
  start_of "$$"
  if ! claim /.lh/preparing "$$ $start ." '' && await_preparation; then return; fi
  [ "$3" = - ] || prepare_files "$2" "$3" || return
  find_commit
  if [ -z "$commit" ]; then
    echo "lh1 unsuitable repository $LH_REPO"
    return 1
  fi
  [ "$size" != - ] || size=$(wc -c </.lh/state.start)
  # The worker takes no longer state.
  if [ "$size" -gt 65536 ]; then
    echo "lh1 unsuitable environment-of-$((size))-bytes"
    return 1
  fi
  printf '%s\n' "$commit $((size)) $shell_name $shell" "$LH_REPO" >/.lh/ready
}

# In `commit`, by builtins where the repository is a plain one; git knows all others.
find_commit() {
  commit='' branch=''
  { read -r commit branch <"$LH_REPO/.git/HEAD"; } 2>/dev/null
  if [ "$commit" = ref: ]; then
    commit=
    { read -r commit <"$LH_REPO/.git/$branch"; } 2>/dev/null
  fi
  case $commit in
    *[!0-9a-f]*) ;;
    *) [ ${#commit} -ne 40 ] || return ;;
  esac
  commit=$(git -c 'safe.directory=*' -C "$LH_REPO" rev-parse --verify HEAD 2>/dev/null)
}

# Fails where who prepares is gone, or this runner itself tried before.
await_preparation() {
  patience=200
  until [ -s /.lh/ready ]; do
    end=
    read -r preparer preparer_start end </.lh/preparing
    start_of "$preparer"
    if [ "$preparer" = "$$" ] || { [ "$end" = . ] && [ "$start" != "$preparer_start" ]; }; then return 1; fi
    [ "$patience" -gt 0 ] || return 1
    await_moment
  done
}

prepare_files() {
  # The engine writes this file only where it manages the network, and tests open sockets on `localhost`.
  [ -s /etc/hosts ] ||
    printf '127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n' >/etc/hosts
  shell=$(command -v bash) && shell_name=bash || shell=$(command -v sh) shell_name=sh
  # The other files while that shell is at work.
  size=$(
    LH_REPO=$LH_REPO LH_IMAGE=$image_environment LH_ENVIRONMENT=$2 LH_SNAPSHOT=$snapshot_script \
      "$shell" -c 'eval "$LH_SNAPSHOT"' "$shell_name" /.lh/state.start &
    printf '%s\n' "$command_script" >/.lh/command.sh
    printf '%s\n' "$tools_script" >/.lh/tools.sh
    printf %b "$1" >/.lh/settings
    wait "$!"
  ) && return
  echo "lh1 unsuitable shell $shell"
  return 1
}

# Another repository and an empty journal, for a sandbox that is used for one task after another. The archive follows
# the request line: `read` takes a pipe byte by byte and GNU head no more than it was told, so nothing is lost between.
# reset BYTES
reset() {
  sweep
  # The directory itself stays: it may be somebody's working directory.
  rm -rf "$LH_REPO"/* "$LH_REPO"/.[!.]* "$LH_REPO"/..?* /.lh/turns/* /.lh/ready /.lh/preparing \
    /.lh/fence /.lh/world /.lh/state.current /.lh/state.tool /.lh/state.saved
  head -c "$1" | tar --no-same-owner -xf - -C "$LH_REPO"
  init "$LH_REPO" - -
}
