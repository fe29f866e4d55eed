# The work of the agent as a patch, byte for byte: the patch to the output, and to descriptor 3 how many files it leaves behind, or why
# there is none. Runs as commands run, after all of them have ended.
# usage: capture.sh MODE START_COMMIT

# What the agent added by force or committed is its work, although a rule ignores it. A path that cannot be added must not cost the rest.
add_tracked() {
  plain_git ls-files -z -c -i --exclude-standard >"$work/tracked" &&
    private_git update-index -z --add --remove --stdin <"$work/tracked" || :
}

take_patch() {
  private_git read-tree "$2" && add_all || return 1
  add_tracked
  # shellcheck disable=SC2086
  private_git diff --cached $diff_options --name-only "$2" >"$work/all" &&
    plain_git diff $diff_options --name-only >"$work/unstaged" || return 1
  # No line in common is grep's way of an error; only 2 is one.
  lost=$(grep -vxFc -f "$work/unstaged" "$work/all") || [ $? -eq 1 ] || return 1
  # shellcheck disable=SC2086
  if [ "$1" = all ]; then
    private_git diff --cached --full-index $diff_options "$2"
  else
    plain_git diff $diff_options
  fi
}

work=/.lh/agent/capture
rm -rf "$work"
mkdir -p "$work/objects"
if cd "$LH_REPO" && take_patch "$1" "$2" 2>"$work/errors" 3>&-; then
  echo "$lost" >&3
else
  tail -n 1 "$work/errors" >&3
  exit 1
fi
