#!/bin/sh
# Starts the runner with an empty environment, so that no turn needs a process to get rid of the image's. What the image
# sets is kept for the first snapshot.
[ -f /.lh/image-environment ] || export -p >/.lh/image-environment
exec env -i PATH="$PATH" /bin/sh /.lh/bin/runner.sh
