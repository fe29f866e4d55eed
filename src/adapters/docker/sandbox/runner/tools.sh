#!/bin/sh
# The agent's tools, in POSIX sh and awk: the only implementation there is. A fresh process for each call, reached by
# functions of the command shell and not through PATH, so programs that the agent starts never meet an `open` of ours.
# usage: tools.sh NAME ARGUMENTS...
#
# What the tools keep between calls, in `top`, `submitted` and `opened`.
read_tool_state() {
  top=0 submitted=0 opened=
  [ ! -f /.lh/agent/state.tool ] || { read -r top && read -r submitted && IFS= read -r opened; } </.lh/agent/state.tool
}

# The open file, its window, and how both are kept between calls.

load_state() {
  read_tool_state
  path=$opened
}

save_state() {
  printf '%s\n%s\n%s\n' "$top" "$submitted" "$opened" >/.lh/agent/state.tool.tmp
  mv /.lh/agent/state.tool.tmp /.lh/agent/state.tool
}

is_line() {
  case $1 in '' | *[!0-9]* | 0?* | ??????????*) return 1 ;; esac
}

# Real directory, name as typed: a link in the tree is shown under its own name. Result in `path`.
resolve() {
  case $1 in
    */*) directory=${1%/*}/ ;;
    *) directory=. ;;
  esac
  directory=$(cd -- "$directory" 2>/dev/null && pwd -P) || fail "Error: the directory of $1 does not exist."
  path=${directory%/}/${1##*/}
  case $path in
    *'
'*) fail 'Error: names with a line break cannot be opened.' ;;
  esac
}

use_file() {
  if [ -d "$1" ]; then fail "Error: $1 is a directory. Use ls to look into it."; fi
  if [ ! -f "$1" ]; then fail "File $1 not found"; fi
  resolve "$1"
}

need_open() {
  [ -n "$opened" ] || fail 'No file is open. Open one first: open FILE'
  path=$opened
  [ -f "$path" ] || fail "File $(shown_path) not found"
}

shown_path() {
  case $LH_PATHS:$path in
    "relative:$LH_REPO"/*) printf '%s' "${path#"$LH_REPO"/}" ;;
    *) printf '%s' "$path" ;;
  esac
}

count_lines() {
  total=$(awk 'END { print NR }' <"$path")
}

in_file() {
  [ "$1" -ge 1 ] && [ "$1" -le "$total" ]
}

# First line of a window that shows LINE, with a sixth of the window above it; small windows keep two lines above.
top_for() {
  above=$((LH_WINDOW / 6 - 1))
  least=$((LH_WINDOW / 4 < 2 ? LH_WINDOW / 4 : 2))
  [ "$above" -ge "$least" ] || above=$least
  top=$(($1 - above))
}

open_at() {
  opened=$path
  count_lines
  top_for "$1"
  show_window
}

resume_window() {
  count_lines
  show_window
}

move_window() {
  count_lines
  top=$((top + $1))
  show_window
}

# Keeps the window inside the file, remembers it and prints it.
show_window() {
  last_top=$((total - LH_WINDOW + 1))
  [ "$top" -le "$last_top" ] || top=$last_top
  [ "$top" -ge 1 ] || top=1
  save_state
  awk -v top="$top" -v size="$LH_WINDOW" -v total="$total" -v head="[File: $(escaped_path) ($total lines total)]" '
    BEGIN {
      print head
      if (top > 1) print "(" top - 1 " more lines above)"
    }
    NR >= top + size { exit }
    NR >= top { print NR ":" $0 }
    END { if (total >= top + size) print "(" total - top - size + 1 " more lines below)" }' <"$path"
}

# awk reads escapes in values given by -v.
escaped_path() {
  shown_path | awk '{ gsub(/\\/, "\\\\\\\\"); print }'
}

# The two tools that change files. Untouched bytes stay as they are, line endings included.

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

LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
. /.lh/agent/settings

fail() {
  printf '%s\n' "$*"
  exit 1
}

create() {
  [ $# -eq 1 ] && [ -n "$1" ] || fail 'Usage: create FILENAME'
  resolve "$1"
  if [ -e "$path" ] || [ -L "$path" ]; then fail "Error: $1 already exists. Use open and edit to change it."; fi
  { echo >"$path"; } 2>/dev/null || fail "Error: cannot create $1."
  open_at 1
}

open() {
  case $# in
    0)
      need_open
      resume_window
      return
      ;;
    1 | 2) ;;
    *) fail 'Usage: open [FILE] [LINE_NUMBER]' ;;
  esac
  use_file "$1"
  [ $# -eq 1 ] || is_line "$2" || fail 'Usage: open [FILE] [LINE_NUMBER]'
  line=${2:-1}
  count_lines
  if [ $# -eq 2 ] && ! in_file "$line"; then
    echo "Line $line is out of range: the file has $total lines."
    [ "$line" -gt "$total" ] && line=$total
    [ "$line" -ge 1 ] || line=1
  fi
  open_at "$line"
}

goto() {
  [ $# -eq 1 ] && is_line "$1" || fail 'Usage: goto LINE_NUMBER'
  need_open
  count_lines
  in_file "$1" || fail "Error: line $1 is out of range: the file has $total lines."
  open_at "$1"
}

scroll_down() {
  [ $# -eq 0 ] || fail 'Usage: scroll_down'
  need_open
  move_window $((LH_WINDOW - LH_OVERLAP))
}

scroll_up() {
  [ $# -eq 0 ] || fail 'Usage: scroll_up'
  need_open
  move_window $((LH_OVERLAP - LH_WINDOW))
}

search_file() {
  [ $# -eq 1 ] || [ $# -eq 2 ] || fail 'Usage: search_file SEARCH_TERM [FILE]'
  [ -n "$1" ] || fail 'Usage: search_file SEARCH_TERM [FILE]'
  if [ $# -eq 2 ]; then use_file "$2"; else need_open; fi
  LH_SEARCH=$1 awk -v shown="$(shown_path)" '
    BEGIN { term = ENVIRON["LH_SEARCH"] }
    index($0, term) { found++; if (found <= 100) line[found] = NR ":" $0 }
    END {
      if (!found) { print "No matches in " shown "."; exit }
      print found (found == 1 ? " match in " : " matches in ") shown ":"
      for (i = 1; i <= found && i <= 100; i++) print line[i]
      if (found > 100) print "(" found - 100 " more matches)"
    }' <"$path"
}

submit() {
  [ $# -eq 0 ] || fail 'Usage: submit'
  submitted=1
  save_state
  echo 'Submitted.'
}

load_state
tool=$1
shift
"$tool" "$@"
