# Another repository, from an archive on the input. Says its commit on descriptor 3.
# The directory itself stays: it may be the working directory of a process.
rm -rf "$LH_REPO"/* "$LH_REPO"/.[!.]* "$LH_REPO"/..?* /.lh/agent/state.tool /.lh/agent/tree /.lh/agent/capture
tar --no-same-owner -xf - -C "$LH_REPO" && git -c 'safe.directory=*' -C "$LH_REPO" rev-parse --verify HEAD >&3
