# Sourced by the fresh shell of every turn, before the command: restores what earlier turns left and saves it at exit.
# The command itself runs by `eval` in a `-c` shell, so that messages say `bash: line 1:` and never where it came from.

lh_save() {
  trap - EXIT
  set +eu
  unset -f printf umask pwd 2>/dev/null
  # In place, so that it needs no room on a disk that is full. The turn's number ends it: a part of it counts as none.
  {
    printf '#' && umask && printf '#' && { pwd -P 2>/dev/null || printf '%s\n' "$PWD"; }
    unset -v PWD OLDPWD SHLVL _ BASH_ENV ENV LH_TURN 2>/dev/null
    export -p && printf '\0%s\n' "$lh_turn"
  } 1<>/.lh/agent/state 2>/dev/null
}

lh_enter() {
  cd -- "$lh_cwd" 2>/dev/null && return
  . /.lh/agent/settings
  cd -- "$LH_REPO" || cd /
  echo "Notice: the directory $lh_cwd is gone; this command runs in $(pwd)."
}

create() { /bin/sh /.lh-runner/tools.sh create "$@"; }
edit() { /bin/sh /.lh-runner/tools.sh edit "$@"; }
goto() { /bin/sh /.lh-runner/tools.sh goto "$@"; }
open() { /bin/sh /.lh-runner/tools.sh open "$@"; }
replace() { /bin/sh /.lh-runner/tools.sh replace "$@"; }
scroll_down() { /bin/sh /.lh-runner/tools.sh scroll_down "$@"; }
scroll_up() { /bin/sh /.lh-runner/tools.sh scroll_up "$@"; }
search_file() { /bin/sh /.lh-runner/tools.sh search_file "$@"; }
submit() { /bin/sh /.lh-runner/tools.sh submit "$@"; }

# The arguments are the turn, the umask and the directory; the command itself gets none. Descriptor 8 has the state.
lh_turn=$1 lh_umask=$2 lh_cwd=$3
shift 3
umask "$lh_umask"
# At top level: inside a function bash would make the restored variables local.
if [ -n "${BASH_VERSION-}" ]; then
  IFS= read -r -d '' lh_old <&8
  # bash was told these two, so that it need not look them up; it would not have exported them.
  export -n HOME SHELL
else
  lh_old=$(cat <&8)
  unset HOME SHELL
fi
eval "$lh_old"
unset lh_old
lh_enter
trap lh_save EXIT
