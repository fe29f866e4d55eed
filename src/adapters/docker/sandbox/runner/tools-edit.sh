# Part of tools.sh: the two tools that change files. Untouched bytes stay as they are, line endings included.

edit_usage() {
  fail 'Usage: edit [--file PATH] START:END TEXT'
}

edit() {
  if [ "${1-}" = --file ]; then
    [ $# -ge 2 ] || edit_usage
    use_file "$2"
    shift 2
  else
    need_open
  fi
  [ $# -eq 1 ] || [ $# -eq 2 ] || edit_usage
  start=${1%%:*} end=${1#*:}
  [ "$start:$end" = "$1" ] && is_line "$start" && is_line "$end" || edit_usage
  # Without TEXT it must come on stdin; the terminal of a turn is /dev/null.
  if [ $# -eq 1 ] && [ -c /proc/self/fd/0 ]; then edit_usage; fi
  count_lines
  # An empty file has no line, but one place to write.
  [ "$total" -gt 0 ] || total=1
  if ! in_file "$start" || ! in_file "$end"; then
    fail "Error: lines $start:$end are out of range: the file has $total lines."
  fi
  [ "$start" -le "$end" ] || fail "Error: line $start comes after line $end."
  begin_change
  {
    head -n $((start - 1)) "$target"
    if [ $# -eq 1 ]; then
      cat
    elif [ -n "$2" ]; then
      printf '%s' "$2"
      case $2 in *'
') ;; *) echo ;; esac
    fi
    tail -n +$((end + 1)) "$target"
  } >"$draft"
  end_change
  echo 'File updated. Check indentation and repeated lines.'
  open_at "$start"
}

replace() {
  all=0
  if [ "${1-}" = --replace-all ]; then
    all=1
    shift
  fi
  [ $# -eq 2 ] && [ -n "$1" ] || fail 'Usage: replace [--replace-all] SEARCH REPLACE'
  need_open
  begin_change
  counts=$draft.counts
  LH_SEARCH=$1 LH_REPLACE=$2 LH_COUNTS=$counts awk -v all="$all" -v complete="$(has_final_newline)" '
    function text(low, high, middle) {
      if (low == high) return line[low]
      middle = int((low + high) / 2)
      return text(low, middle) "\n" text(middle + 1, high)
    }
    function lines(string) { return gsub(/\n/, "\n", string) }
    { line[NR] = $0 }
    END {
      # No printf: its buffer is small in some versions.
      ORS = ""
      search = ENVIRON["LH_SEARCH"]
      with = ENVIRON["LH_REPLACE"]
      rest = (NR ? text(1, NR) : "") (complete ? "\n" : "")
      while ((at = index(rest, search)) > 0) {
        if (!found) first = 1 + lines(substr(rest, 1, at - 1))
        if (!found || all) print substr(rest, 1, at - 1) with
        else print substr(rest, 1, at + length(search) - 1)
        found++
        rest = substr(rest, at + length(search))
      }
      print rest
      print (found + 0) " " (first + 0) "\n" >ENVIRON["LH_COUNTS"]
    }' <"$target" >"$draft"
  read -r found first <"$counts"
  rm -f "$counts"
  if [ "$found" -eq 0 ]; then
    rm -f "$draft"
    fail 'Error: the search text is not in the file.'
  fi
  if [ "$found" -gt 1 ] && [ "$all" -eq 0 ]; then
    rm -f "$draft"
    fail "Error: the search text is there $found times. Make it longer or use --replace-all."
  fi
  end_change
  echo 'File updated. Check indentation and repeated lines.'
  open_at "$first"
}

has_final_newline() {
  if [ -s "$target" ] && [ "$(tail -c 1 "$target" | wc -l)" -eq 1 ]; then echo 1; else echo 0; fi
}

# A draft beside the file with its mode and owner; a link is followed, so that it stays a link.
begin_change() {
  target=$path
  if [ -L "$path" ]; then target=$(readlink -f -- "$path"); fi
  draft=${target%/*}/.${target##*/}.lh-draft
  cp -p -- "$target" "$draft" 2>/dev/null || fail "Error: cannot write beside $(shown_path)."
}

end_change() {
  mv -f -- "$draft" "$target"
}
