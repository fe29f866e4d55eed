# What one turn hands to the next. Nothing is written before it differs from what `ready` says or from nothing.

# Where the shell's state lies, in `state`, and how many bytes it has, in `state_size`.
read_shell_state() {
  if [ -f /.lh/state.current ]; then
    read -r state_size state </.lh/state.current
    return
  fi
  state=/.lh/state.start state_size=0
  read -r skipped state_size skipped </.lh/ready
}

# What the tools keep between calls, in `top`, `submitted` and `opened`.
read_tool_state() {
  top=0 submitted=0 opened=
  [ ! -f /.lh/state.tool ] || { read -r top && read -r submitted && IFS= read -r opened; } </.lh/state.tool
}
