# Sourced by the fresh shell of every turn, before the command: restores what earlier turns left and saves it at exit.
# The command itself runs by `eval` in a `-c` shell, so that messages say `bash: line 1:` and never where it is stored.

# There is no room for the state: a file without the mark beside it says so.
lh_full() {
  : >"$lh_dir.state"
  return 1
}

lh_save() {
  trap - EXIT
  set +eu
  unset -f printf umask pwd read echo 2>/dev/null
  lh_word='' lh_bytes='' lh_new=''
  # bash can read back what it wrote, up to the NUL: where nothing changed, one file serves all turns.
  if [ -n "${BASH_VERSION-}" ]; then lh_file=/.lh/state.scratch; else lh_file=$lh_dir.state; fi
  {
    printf '#' && umask && printf '#' && { pwd -P 2>/dev/null || printf '%s\n' "$PWD"; }
    unset -v PWD OLDPWD SHLVL _ BASH_ENV ENV LH_TURN 2>/dev/null
    export -p || lh_full || return
    # How much was written so far, without a process; some runtimes' /proc does not tell.
    read -r lh_word lh_bytes </proc/self/fdinfo/1
    [ "$lh_word" = pos: ] || lh_bytes=-
    [ -z "${BASH_VERSION-}" ] || printf '\0' || lh_full || return
  } 1<>"$lh_file" 2>/dev/null
  lh_word=new
  if [ -n "${BASH_VERSION-}" ]; then
    IFS= read -r -d '' lh_new <"$lh_file"
    if [ "$lh_new" = "$lh_old" ]; then lh_word=same; else printf %s "$lh_new" >"$lh_dir.state" || return; fi
  fi
  # In place of what the turn before wrote: a file of its own for each turn would cost more than all the rest here.
  echo "${lh_dir##*.} $lh_word $lh_bytes ." 1<>/.lh/state.saved
}

lh_enter() {
  cd -- "${lh_cwd#?}" 2>/dev/null && return
  . /.lh/settings
  cd -- "$LH_REPO" || cd /
  echo "Notice: the directory ${lh_cwd#?} is gone; this command runs in $(pwd)."
}

create() { /bin/sh /.lh/tools.sh create "$@"; }
edit() { /bin/sh /.lh/tools.sh edit "$@"; }
goto() { /bin/sh /.lh/tools.sh goto "$@"; }
open() { /bin/sh /.lh/tools.sh open "$@"; }
replace() { /bin/sh /.lh/tools.sh replace "$@"; }
scroll_down() { /bin/sh /.lh/tools.sh scroll_down "$@"; }
scroll_up() { /bin/sh /.lh/tools.sh scroll_up "$@"; }
search_file() { /bin/sh /.lh/tools.sh search_file "$@"; }
submit() { /bin/sh /.lh/tools.sh submit "$@"; }

# The arguments are where the turn's files begin, the command and the state; the command itself gets none.
lh_dir=$1 lh_file=$2 lh_state=$3
shift 3
{ read -r lh_umask && IFS= read -r lh_cwd; } <"$lh_state"
umask "${lh_umask#?}"
# At top level: inside a function bash would make the restored variables local.
if [ -n "${BASH_VERSION-}" ]; then
  IFS= read -r -d '' lh_old <"$lh_state"
  # bash was told these two, so that it need not look them up; it would not have exported them.
  export -n HOME SHELL
  eval "$lh_old"
else
  unset HOME SHELL
  . "$lh_state"
fi
lh_enter
trap lh_save EXIT
