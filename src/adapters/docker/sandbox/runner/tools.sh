#!/bin/sh
# The agent's tools, in POSIX sh and awk: the only implementation there is. A fresh process for each call, reached by
# functions of the command shell and not through PATH, so programs that the agent starts never meet an `open` of ours.
# usage: tools.sh NAME ARGUMENTS...
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
