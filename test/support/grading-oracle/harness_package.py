"""Makes an official harness importable: without what its packages import and grading containers never calls, and offline."""

import pathlib
import sys
import types

STUBS = {
    "datasets": ["Dataset", "load_dataset", "load_from_disk"],
    "dotenv": ["load_dotenv"],
    "swebench.task.repo": ["asset_path", "load_task_repo"],
    "swebench.harness.modal_eval": ["run_instances_modal", "validate_modal_credentials"],
}


def open_package(folder: pathlib.Path) -> None:
    """Makes `swebench.*` importable without running the packages' own `__init__`, which import everything."""
    for name in [
        "swebench",
        "swebench.harness",
        "swebench.harness.test_spec",
        "swebench.image_builder",
        "swebench.task",
    ]:
        path = folder.joinpath(*name.split("."))
        if path.is_dir():
            package = types.ModuleType(name)
            package.__path__ = [str(path)]
            sys.modules[name] = package
    for name, members in STUBS.items():
        module = types.ModuleType(name)
        for member in members:
            setattr(module, member, lambda *_, **__: None)
        sys.modules[name] = module


def without_network() -> None:
    """Nothing is fetched, and containers have no network; what others have may vanish while it is listed."""
    import requests
    from docker.errors import ImageNotFound
    from docker.models.containers import ContainerCollection
    from docker.models.images import ImageCollection

    requests.get = lambda *_, **__: types.SimpleNamespace(status_code=200, text="")
    create = ContainerCollection.create
    ContainerCollection.create = lambda self, *args, **options: create(self, *args, network_mode="none", **options)
    listed = ContainerCollection.list
    ContainerCollection.list = lambda self, **options: listed(self, ignore_removed=True, **options)

    def images(self, **options):
        found = []
        for entry in self.client.api.images(**options):
            try:
                found.append(self.get(entry["Id"]))
            except ImageNotFound:
                continue
        return found

    ImageCollection.list = images
