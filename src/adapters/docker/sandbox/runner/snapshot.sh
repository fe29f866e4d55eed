# Run once by the sandbox's shell: the environment that the first turn finds. root's .bashrc is read here and never
# again, because activating an environment manager in every turn would start an interpreter each time.
# Says the commit of the repository on descriptor 3.
unset LH_TURN
if [ -n "${BASH_VERSION-}" ] && [ -f /root/.bashrc ]; then
  # Some of these files return at once unless they see a prompt.
  PS1='$ '
  . /root/.bashrc >/dev/null 2>&1 </dev/null 3>&-
  unset PS1
fi
eval "$LH_ENVIRONMENT"
cd -- "$LH_REPO" || exit 1
umask 022

# By builtins where the repository is a plain one; git knows all others.
lh_commit='' lh_branch=''
{ read -r lh_commit lh_branch <.git/HEAD; } 2>/dev/null
if [ "$lh_commit" = ref: ]; then
  lh_commit=
  { read -r lh_commit <".git/$lh_branch"; } 2>/dev/null
fi
case $lh_commit in
  *[!0-9a-f]* | '') lh_commit= ;;
  *) [ ${#lh_commit} -eq 40 ] || lh_commit= ;;
esac
[ -n "$lh_commit" ] || lh_commit=$(git -c 'safe.directory=*' rev-parse --verify HEAD 2>/dev/null)
echo "$lh_commit" >&3
unset -v lh_commit lh_branch
{
  printf '#' && umask && printf '#' && pwd -P
  unset -v PWD OLDPWD SHLVL _ BASH_ENV ENV LH_REPO LH_ENVIRONMENT 2>/dev/null
  export -p && printf '\0start\n'
} 1<>/.lh/agent/state
