"""Reads an export with the program that it is made for and prints what that saw, as JSON."""

import json
import sys
from pathlib import Path


def read_atif(root: Path) -> object:
    """Harbor's own validator over every trajectory, and its models' view of each."""
    from harbor.models.trajectories import Trajectory
    from harbor.utils.trajectory_validator import TrajectoryValidator

    seen = {}
    for path in sorted(root.rglob("trajectory.json")):
        validator = TrajectoryValidator()
        errors = [] if validator.validate(path) else validator.errors
        text = path.read_text(encoding="utf-8")
        kept = None if errors else Trajectory.model_validate_json(text).to_json_dict()
        # Nothing of the document is lost on its way through the models.
        same = kept == json.loads(text)
        seen[str(path.relative_to(root).parent)] = {"errors": errors, "same": same, "document": kept}
    return seen


def read_datasets(root: Path) -> object:
    """As `load_dataset` does it for a local directory."""
    from datasets import load_dataset

    splits = load_dataset(str(root))
    return {
        name: {"features": {key: str(value) for key, value in split.features.items()}, "rows": list(split)}
        for name, split in splits.items()
    }


def read_parquet(path: Path) -> object:
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return {
        "types": {field.name: str(field.type) for field in table.schema},
        "metadata": {key: value for key, value in metadata.items() if key.startswith("longhaul.")},
        "rows": table.to_pylist(),
    }


READERS = {"atif": read_atif, "datasets": read_datasets, "parquet": read_parquet}
print(json.dumps(READERS[sys.argv[1]](Path(sys.argv[2])), default=str))
