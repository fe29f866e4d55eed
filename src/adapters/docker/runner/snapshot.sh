# Run once by the sandbox's shell: the environment that the first turn finds. root's .bashrc is read here and never
# again, because activating an environment manager in every turn would start an interpreter each time.
# argument: FILE, where it goes; its length goes to the output
unset LH_SNAPSHOT LH_TURN
lh_file=$1
eval "$LH_IMAGE"
if [ -n "${BASH_VERSION-}" ] && [ -f /root/.bashrc ]; then
  # Some of these files return at once unless they see a prompt.
  PS1='$ '
  . /root/.bashrc >/dev/null 2>&1 </dev/null
  unset PS1
fi
eval "$(printf %b "$LH_ENVIRONMENT")"
cd -- "$LH_REPO" || exit 1
umask 022
{
  printf '#' && umask && printf '#' && pwd -P
  unset -v PWD OLDPWD SHLVL _ BASH_ENV ENV LH_REPO LH_IMAGE LH_ENVIRONMENT 2>/dev/null
  export -p || exit 1
  # How much was written, without a process; some runtimes' /proc does not tell.
  read -r lh_word lh_bytes </proc/self/fdinfo/1
  [ "$lh_word" = pos: ] || lh_bytes=-
} >"$lh_file" && echo "$lh_bytes"
