# A partial clone has Git fetch what is missing, by a program that the repository's configuration names. Versions before 2.45 do not
# know the first variable. In the second a listed name is allowed as that of a helper too, even an empty one; no program is called
# `git-remote-/`.
export GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=/
# The commit of the start is what it was, whatever the repository says in its place.
export GIT_NO_REPLACE_OBJECTS=1

# git with everything neutralised that the repository's configuration or the agent could use to bend a diff.
plain_git() {
  GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0 \
    git --git-dir="$LH_REPO/.git" --work-tree="$LH_REPO" --no-pager \
    -c 'safe.directory=*' -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.autocrlf=false \
    -c core.safecrlf=false -c core.attributesFile=/dev/null -c core.excludesFile=/dev/null -c core.quotePath=true \
    -c advice.addEmbeddedRepo=false -c diff.suppressBlankEmpty=false -c diff.algorithm=default "$@"
}

diff_options='--binary -O/dev/null --no-color --no-ext-diff --no-textconv --no-renames --src-prefix=a/ --dst-prefix=b/
 --unified=3 --inter-hunk-context=0 --ignore-submodules=none --submodule=short'

# A private index and object store: the repository stays as the agent left it. A sparse checkout would keep files outside of it as they
# were.
private_git() {
  GIT_INDEX_FILE=$work/index GIT_OBJECT_DIRECTORY=$work/objects \
    GIT_ALTERNATE_OBJECT_DIRECTORIES=$LH_REPO/.git/objects plain_git -c core.sparseCheckout=false -c index.sparse=false "$@"
}

# A repository without a commit inside the repository cannot be added, and must not cost the rest. What Git says goes to
# `$work/errors`.
add_all() {
  private_git add -A . && return
  grep -q 'does not have a commit checked out' "$work/errors" || return 1
  private_git add -A --ignore-errors . || :
}
