#!/bin/sh
# Says whether a repository stands where a task says: at its commit, or one commit above it (images of SWE-bench's harness add
# an empty one at build time). Prints HEAD. Exit: 0 it does; 3 no repository; 5 it lacks the commit; 6 it stands elsewhere.
# usage: check-repository.sh REPOSITORY COMMIT
cd "$1" 2>/dev/null || exit 3
unset GIT_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0 HOME=/
# No transport of a partial clone: why these values, says git.sh.
export GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=/

plain_git() {
  git -c 'safe.directory=*' -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@"
}

# Not a repository that this directory merely lies in.
[ "$(plain_git rev-parse --show-toplevel 2>/dev/null)" -ef . ] || exit 3
plain_git rev-parse -q --verify 'HEAD^{commit}' || exit 3
base=$(plain_git rev-parse -q --verify "$2^{commit}") || exit 5
plain_git merge-base --is-ancestor "$base" HEAD || exit 6
[ "$(plain_git rev-list --count "$base..HEAD")" -le 1 ] || exit 6
