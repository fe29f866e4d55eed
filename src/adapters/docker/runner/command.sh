# Sourced by the fresh shell of every turn, before the command: restores what earlier turns left and saves it at exit.
# The command itself runs by `eval` in a `-c` shell, so that messages say `bash: line 1:` and never where it is stored.
lh_save() {
  trap - EXIT
  set +eu
  {
    printf '#' && umask && printf '#' && { pwd -P 2>/dev/null || printf '%s\n' "$PWD"; }
    unset -v PWD OLDPWD SHLVL _ BASH_ENV ENV LH_TURN 2>/dev/null
    export -p
  } >"$lh_dir/state" 2>/dev/null && : >"$lh_dir/saved"
}

lh_start() {
  read -r lh_state </.lh/state/current
  { read -r lh_umask && IFS= read -r lh_cwd; } <"$lh_state"
  umask "${lh_umask#?}"
}

lh_enter() {
  cd -- "${lh_cwd#?}" 2>/dev/null && return
  cd -- "$LH_REPO" || cd /
  echo "Notice: the directory ${lh_cwd#?} is gone; this command runs in $(pwd)."
}

create() { /bin/sh /.lh/bin/tools.sh create "$@"; }
edit() { /bin/sh /.lh/bin/tools.sh edit "$@"; }
goto() { /bin/sh /.lh/bin/tools.sh goto "$@"; }
open() { /bin/sh /.lh/bin/tools.sh open "$@"; }
replace() { /bin/sh /.lh/bin/tools.sh replace "$@"; }
scroll_down() { /bin/sh /.lh/bin/tools.sh scroll_down "$@"; }
scroll_up() { /bin/sh /.lh/bin/tools.sh scroll_up "$@"; }
search_file() { /bin/sh /.lh/bin/tools.sh search_file "$@"; }
submit() { /bin/sh /.lh/bin/tools.sh submit "$@"; }

# The only argument is the directory of the turn; the command itself gets none.
lh_dir=$1
shift
. /.lh/settings
lh_start
# At top level: inside a function bash would make the restored variables local.
. "$lh_state"
lh_enter
trap lh_save EXIT
