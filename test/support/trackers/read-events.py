"""Reads a folder of event files as TensorBoard does. For each line on stdin it looks again and prints all scalars as JSON:
{tag: [[step, wall_time in seconds, value], ...]}."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={SCALARS: 0})
for _line in sys.stdin:
    events.Reload()
    found = {
        tag: [[one.step, one.wall_time, one.value] for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }
    print(json.dumps(found), flush=True)
