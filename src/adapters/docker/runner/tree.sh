# What a turn can leave behind, as text that is equal for equal trees. Every file that differs from
# the start commit with mode and blob id, committed or not, sorted by path; then umask, directory and environment. Commit
# ids are left out: they hold times.

# tree START_COMMIT AFTER
tree() {
  if ! follows "$2"; then
    echo "lh1 behind $world"
    return
  fi
  # An agent that left no room for git gets no say in whether its work can be compared.
  has_room || sweep
  work=/.lh/tree
  mkdir -p "$work/objects"
  read_shell_state
  # The index stays from one time to the next, so that git reads only the files that have changed since.
  { list_tree "$1" 2>/dev/null || echo unreadable; } >"$work/listing"
  # The worker takes no more; a hash of the listing is as equal as the listing itself.
  set -- $(wc -c <"$work/listing")
  if [ "$1" -gt 8388608 ]; then
    git hash-object --no-filters "$work/listing" >"$work/hash"
    mv -f "$work/hash" "$work/listing"
  fi
  head -c "$state_size" "$state" >>"$work/listing"
  set -- $(wc -c <"$work/listing")
  echo "lh1 tree $1"
  cat "$work/listing"
}

list_tree() (
  cd "$LH_REPO" || exit
  [ -f "$work/index" ] || private_git read-tree "$1" || exit
  private_git add -A . && private_git diff --cached --raw --no-abbrev --no-renames --no-ext-diff "$1"
)
