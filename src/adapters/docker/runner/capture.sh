# The work of the agent as a patch, byte for byte.

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

# A private index and object store: the repository stays as the agent left it.
private_git() {
  GIT_INDEX_FILE=$work/index GIT_OBJECT_DIRECTORY=$work/objects \
    GIT_ALTERNATE_OBJECT_DIRECTORIES=$LH_REPO/.git/objects plain_git "$@"
}

# capture MODE START_COMMIT MAX_BYTES AFTER
capture() {
  if ! follows "$4"; then
    echo "lh1 behind $world"
    return
  fi
  sweep
  work=/.lh/capture
  rm -rf "$work"
  mkdir -p "$work/objects"
  cd "$LH_REPO" && take_patch "$1" "$2" 2>"$work/errors"
  failed=$?
  cd /
  # Git runs filters of the agent's own `.gitattributes`; what they have started ends before the patch is read.
  sweep
  if [ "$failed" -ne 0 ]; then
    echo "lh1 uncaptured $(tail -n 1 "$work/errors")"
    return
  fi
  set -- "$3" $(wc -c <"$work/patch")
  if [ "$2" -gt "$1" ]; then
    echo "lh1 uncaptured patch-too-large $2"
    return
  fi
  echo "lh1 patch $2 $lost"
  cat "$work/patch"
}

# A repository without a commit inside the repository cannot be added, and must not cost the rest of the work.
add_all() {
  private_git add -A . && return
  grep -q 'does not have a commit checked out' "$work/errors" || return 1
  private_git add -A --ignore-errors . || :
}

take_patch() {
  private_git read-tree "$2" && add_all || return 1
  # shellcheck disable=SC2086
  private_git diff --cached $diff_options --name-only "$2" >"$work/all" &&
    plain_git diff $diff_options --name-only >"$work/unstaged" || return 1
  # No line in common is grep's way of an error; only 2 is one.
  lost=$(grep -vxFc -f "$work/unstaged" "$work/all") || [ $? -eq 1 ] || return 1
  # shellcheck disable=SC2086
  if [ "$1" = all ]; then
    private_git diff --cached --full-index $diff_options "$2" >"$work/patch"
  else
    plain_git diff $diff_options >"$work/patch"
  fi
}
