# What the tools keep between calls, in `top`, `submitted` and `opened`.
read_tool_state() {
  top=0 submitted=0 opened=
  [ ! -f /.lh/agent/state.tool ] || { read -r top && read -r submitted && IFS= read -r opened; } </.lh/agent/state.tool
}
