# Part of tools.sh: the open file, its window, and how both are kept between calls.

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
