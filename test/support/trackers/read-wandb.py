"""Reads a `.wandb` file by the package's own messages and prints it as JSON (`WandbFile` of packages.ts).

The file is a log of records in blocks of 32 KiB, as LevelDB writes them, after seven bytes of its own.
"""

import json
import struct
import sys
import zlib

from wandb.proto import wandb_internal_pb2 as messages

BLOCK = 32768
FULL, FIRST, LAST = 1, 2, 4


def records(data: bytes):
    assert data[:7] == b":W&B\xe1\xbe\x00", data[:7]
    at, parts = 7, []
    while at < len(data):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left
            continue
        crc, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part = data[at + 7 : at + 7 + length]
        assert len(part) == length, "the file is cut"
        assert zlib.crc32(part, zlib.crc32(bytes([kind]))) & 0xFFFFFFFF == crc, f"wrong checksum at {at}"
        at += 7 + length
        parts = [part] if kind in (FULL, FIRST) else [*parts, part]
        if kind in (FULL, LAST):
            record = messages.Record()
            record.ParseFromString(b"".join(parts))
            yield record


def named(item) -> str:
    return item.key or ".".join(item.nested_key)


found = {"run": None, "config": {}, "metrics": {}, "history": [], "isEnded": False}
with open(sys.argv[1], "rb") as file:
    for record in records(file.read()):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = record.run
            found["run"] = {name: getattr(run, name) for name in ("run_id", "project", "entity", "display_name")}
            found["config"] = {named(one): json.loads(one.value_json) for one in run.config.update}
        elif kind == "metric":
            found["metrics"][record.metric.name or record.metric.glob_name] = record.metric.step_metric
        elif kind == "history":
            values = {named(one): json.loads(one.value_json) for one in record.history.item}
            found["history"].append({"values": values, "step": record.history.step.num})
        elif kind == "exit":
            found["isEnded"] = True
print(json.dumps(found))
