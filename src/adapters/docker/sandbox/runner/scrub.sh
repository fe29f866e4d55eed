#!/bin/sh
# Takes everything out of a repository that its HEAD does not need: an agent must not find the repair in other branches,
# tags, remotes, stashes, notes, logs or lost objects. HEAD, its branch, the index and the working tree stay as they are.
# Then proves it, by listing objects and never by dates. Exit: 0 clean; 3 no repository; 4 something is left, said on stderr.
# usage: scrub.sh REPOSITORY
cd "$1" 2>/dev/null || exit 3
unset GIT_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0 HOME=/
# No transport of a partial clone: why these values, says git.sh.
export GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=/

plain_git() {
  git -c 'safe.directory=*' -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c gc.writeCommitGraph=false "$@"
}

git_dir=$(plain_git rev-parse --absolute-git-dir 2>/dev/null) || exit 3
plain_git rev-parse -q --verify 'HEAD^{commit}' >/dev/null || exit 3
# A worktree of another repository has its objects and refs elsewhere: nothing here could be proven.
[ "$(plain_git rev-parse --git-common-dir)" -ef "$git_dir" ] || exit 3

head_ref=$(plain_git symbolic-ref -q HEAD)
plain_git for-each-ref --format='%(refname)' | while IFS= read -r ref; do
  [ "$ref" = "$head_ref" ] || plain_git update-ref --no-deref -d "$ref"
done
# Broken or hidden ones that the listing leaves out.
for ref in $(cd "$git_dir" && find refs -type f -o -type l); do
  [ "$ref" = "$head_ref" ] || rm -f "$git_dir/$ref"
done

# Addresses and keys of remotes, and what includes more settings.
plain_git config --local --name-only --list 2>/dev/null | grep -iE '^(remote|branch|submodule|url|http|https|credential|include|includeif)\.' |
  while IFS= read -r key; do plain_git config --local --unset-all "$key"; done

# Objects borrowed from elsewhere are copied first, while the way to them is still known.
rm -f "$git_dir"/objects/pack/*.keep "$git_dir"/objects/pack/*.bitmap "$git_dir"/objects/pack/multi-pack-index*
rm -rf "$git_dir"/objects/info/commit-graph "$git_dir"/objects/info/commit-graphs
rm -rf "$git_dir"/logs "$git_dir"/worktrees "$git_dir"/modules "$git_dir"/refs/original "$git_dir"/lost-found \
  "$git_dir"/rebase-merge "$git_dir"/rebase-apply "$git_dir"/sequencer "$git_dir"/info/grafts "$git_dir"/svn
for name in FETCH_HEAD ORIG_HEAD MERGE_HEAD MERGE_MSG MERGE_MODE AUTO_MERGE CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG \
  BISECT_START BISECT_NAMES BISECT_EXPECTED_REV REBASE_HEAD COMMIT_EDITMSG SQUASH_MSG; do
  rm -f "$git_dir/$name"
done
# What is left of submodules points to where their repositories were.
plain_git ls-files --stage | sed -n 's/^160000 [^	]*	//p' | while IFS= read -r module; do rm -rf "./$module/.git"; done

if ! { plain_git repack -a -d -q && rm -f "$git_dir/objects/info/alternates" && plain_git prune --expire=now &&
  plain_git prune-packed -q; }; then
  echo "the objects could not be packed anew" >&2
  exit 4
fi
# Loose objects in packs that repack left for later.
rm -f "$git_dir"/objects/pack/*.mtimes

work=$(mktemp -d) || exit 4
plain_git cat-file --batch-all-objects --unordered --batch-check='%(objecttype) %(objectname)' >"$work/objects" || exit 4
plain_git rev-list HEAD >"$work/ancestors" || exit 4
sed -n 's/^commit //p' "$work/objects" | sort >"$work/commits"
sort "$work/ancestors" | comm -23 "$work/commits" - >"$work/strangers"
plain_git for-each-ref --format='%(refname)' | grep -vxF -e "${head_ref:-no branch}" >"$work/refs"
plain_git fsck --connectivity-only --no-reflogs --unreachable --dangling --no-progress >"$work/fsck" 2>&1 || echo "fsck failed" >>"$work/fsck"
grep '^tag ' "$work/objects" >"$work/tags"
plain_git remote >"$work/remotes"
left=
for list in strangers refs fsck tags remotes; do
  [ -s "$work/$list" ] && left="$left $list: $(head -n 1 "$work/$list")"
done
[ -e "$git_dir/objects/info/alternates" ] && left="$left alternates"
rm -rf "$work"
[ -z "$left" ] && exit 0
echo "left after the scrub:$left" >&2
exit 4
