# First words of the process behind an exec: the runner gets an empty environment, so that no turn needs a process to get
# rid of the image's. What the image sets is kept for the first snapshot. The scripts come with the exec and not from
# the container's disk, where the agent could change them.
lh_runner=$LH_RUNNER lh_supervisor=$LH_SUPERVISOR lh_command=$LH_COMMAND lh_tools=$LH_TOOLS lh_snapshot=$LH_SNAPSHOT
unset LH_RUNNER LH_SUPERVISOR LH_COMMAND LH_TOOLS LH_SNAPSHOT
if [ ! -d /.lh/turns ]; then mkdir -p -m 700 /.lh /.lh/turns; fi
exec env -i PATH="$PATH" LH_TURN=- LH_RUNNER="$lh_runner" LH_SUPERVISOR="$lh_supervisor" LH_COMMAND="$lh_command" \
  LH_TOOLS="$lh_tools" LH_SNAPSHOT="$lh_snapshot" LH_IMAGE="$(export -p)" /bin/sh -c 'eval "$LH_RUNNER"' runner "$@"
