# What a turn can leave behind, as text that is equal for equal trees. Every file that differs from
# the start commit with mode and blob id, committed or not, sorted by path. Commit
# ids are left out: they hold times.
# Umask, directory and environment are the runner's to add. Runs as commands run.
# usage: tree.sh START_COMMIT

list_tree() (
  cd "$LH_REPO" || exit
  [ -f "$work/index" ] || private_git read-tree "$1" || exit
  add_all && private_git diff --cached --raw --no-abbrev --no-renames --no-ext-diff "$1"
)

work=/.lh/agent/tree
mkdir -p "$work/objects"
# The index stays from one time to the next, so that git reads only the files that have changed since.
{ list_tree "$1" 2>"$work/errors" || echo unreadable; } >"$work/listing"
# The worker takes no more; a hash of the listing is as equal as the listing itself.
set -- $(wc -c <"$work/listing")
if [ "$1" -gt 8388608 ]; then git hash-object --no-filters "$work/listing"; else cat "$work/listing"; fi
