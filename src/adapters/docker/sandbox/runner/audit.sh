# Main process of an auditing container, behind `lh_mark=… lh_linger=…` and what makes the files: what Git makes of the patch, and the hidden
# tests by a runner of ours, as a user who reaches neither this process nor its answer. No code of the patch runs as root here.
exec 5>&1 </dev/null >/dev/null 2>&1
cd "$(cat /.lh/repository)" || exit 1

audit_work=/.lh/audit

# Git over a repository of ours that borrows the image's objects: bare and without a branch, so that no attributes, hooks or
# settings of any repository have a say. The index is `$index`.
audit_git() {
  env -i PATH="$PATH" HOME=/nonexistent LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 \
    GIT_NO_REPLACE_OBJECTS=1 GIT_DIR=$audit_work/git GIT_INDEX_FILE="$audit_work/$index" \
    git --no-pager -c core.attributesFile=/dev/null -c core.quotePath=true -c diff.suppressBlankEmpty=false \
    -c diff.algorithm=default "$@"
}

# The repository of ours, and in `base` the tree that patches are made against.
open_audit() {
  facts=$(git -c 'safe.directory=*' rev-parse --git-path objects 'HEAD^{tree}') || return
  base=${facts##*"$newline"}
  objects=${facts%"$newline"*}
  case $objects in
    /*) ;;
    *) objects=$PWD/$objects ;;
  esac
  mkdir -p $audit_work/git/objects/info $audit_work/git/refs $audit_work/empty &&
    echo 'ref: refs/heads/none' >$audit_work/git/HEAD &&
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = true\n' >$audit_work/git/config &&
    printf '%s\n' "$objects" >$audit_work/git/objects/info/alternates
}

# The patch, as the capture would have made it of the tree that it leads to.
make_canonical() {
  index=patched
  audit_git read-tree "$base" &&
    audit_git apply --cached --whitespace=nowarn "$1" &&
    patched=$(audit_git write-tree) &&
    audit_git diff-tree -r -p --binary --full-index -O/dev/null --no-color --no-ext-diff --no-textconv --no-renames \
      --src-prefix=a/ --dst-prefix=b/ --unified=3 --inter-hunk-context=0 --ignore-submodules=none --submodule=short \
      "$base" "$patched" >$audit_work/canonical
}

# Of the new files that are named like tests those whose name is no word of the commit, in `admitted` as words for `git apply`.
admit_additions() {
  admitted=
  [ -f $audit_work/additions ] || return 0
  while read -r path; do
    name=${path##*/}
    audit_git grep -qwF -e "${name%.py}" "$base" --
    case $? in
      0) ;;
      1) admitted="$admitted --include=$path" ;;
      *) return 1 ;;
    esac
  done <$audit_work/additions
}

# The tree that is tested: what the patch changes beside the tests and what steers them, and the hidden tests.
make_tested() {
  index=tested
  admit_additions || return
  # The first word that fits a path decides.
  eval "set -- \"$1\" $admitted $(cat $audit_work/limits)"
  patch=$1
  shift
  audit_git read-tree "$base" &&
    audit_git apply --cached --whitespace=nowarn "$@" "$patch" || return
  # Rows of SWE-rebench-V2 have patches that only its own options take.
  audit_git apply --cached --whitespace=nowarn $audit_work/test.diff ||
    audit_git apply --cached --whitespace=nowarn --recount --ignore-space-change $audit_work/test.diff || return
  tested=$(audit_git write-tree) &&
    audit_git diff-tree -r -z --raw --full-index --no-renames "$base" "$tested" >$audit_work/changes
}

# The Python that the task's own command would run, in `interpreter`.
find_interpreter() {
  testbed=/opt/miniconda3/envs/testbed/bin
  if [ -d $testbed ]; then PATH=$testbed:$PATH; fi
  program=$(command -v "$1") || program=
  case $1 in
    python*) interpreter=$program ;;
    *)
      read -r line <"$program"
      interpreter=${line#??}
      # Installers write a shell line where the path is long.
      case $line in
        '#!/'*python*) ;;
        *) interpreter=${program%/*}/python ;;
      esac
      # Of projects that keep their environment beside the code.
      [ -x "$interpreter" ] || interpreter=$PWD/.venv/bin/python
      [ -x "$interpreter" ] || interpreter=$(command -v python3 || command -v python)
      ;;
  esac
  [ -n "$interpreter" ]
}

test_audited() {
  find_interpreter "$(cat $audit_work/interpreter)" || return 9
  PATH=$PATH "$interpreter" -I -S -B $audit_work/tree.py "$PWD" $audit_work
}

# audit PATCH
audit() {
  newline='
'
  : >$audit_work/canonical
  : >$audit_work/result
  : >$audit_work/errors
  kind=read
  if ! { open_audit && make_canonical "$1"; } 2>>$audit_work/errors; then
    kind=does-not-apply
    : >$audit_work/canonical
  elif [ -f $audit_work/limits ]; then
    if ! make_tested "$1" 2>>$audit_work/errors; then
      kind=tests-do-not-apply
    else
      (test_audited) 5>&- >$audit_work/result 2>>$audit_work/errors
      case $? in
        0) kind=tested ;;
        # No Python, or one that is too old.
        9) kind=untestable ;;
        10) kind=does-not-fit ;;
        11) kind=failed ;;
        # Something ended it: without an answer the attempt is repeated.
        *) exit 1 ;;
      esac
    fi
  fi
  kill -s KILL -- -1
  {
    printf '\nlh1 %s %s\n' "$lh_mark" "$kind"
    head -c 16777216 <$audit_work/canonical
    printf '\nlh1 %s\n' "$lh_mark"
    head -c 16777216 <$audit_work/result
    printf '\nlh1 %s\n' "$lh_mark"
    tail -c 2000 <$audit_work/errors
    printf '\nlh1 %s\n' "$lh_mark"
  } >&5
  if [ "$lh_linger" -gt 0 ]; then sleep "$lh_linger"; fi
}

audit "$(cat $audit_work/patch)"
