# What the tools keep between calls, in `top`, `submitted` and `opened`. Nothing is written before the first one is used.
read_tool_state() {
  top=0 submitted=0 opened=
  [ ! -f /.lh/state/tool ] || { read -r top && read -r submitted && IFS= read -r opened; } </.lh/state/tool
}
