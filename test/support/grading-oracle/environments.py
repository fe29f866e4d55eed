"""Prints how swebench 4.1.0 makes the environment of each Python repository, as JSON: environments.py SITE_PACKAGES REPO…

{"version", "sha256", "requirementFiles", "environmentFiles", "repositories": {repo: {version: spec}}}; the hash is over the
package's files of constants, in the order of their names.
"""

import hashlib
import importlib
import importlib.metadata
import json
import pathlib
import sys
import types

folder = pathlib.Path(sys.argv[1])
for name in ["swebench", "swebench.harness"]:
    package = types.ModuleType(name)
    package.__path__ = [str(folder.joinpath(*name.split(".")))]
    sys.modules[name] = package

constants = importlib.import_module("swebench.harness.constants")
digest = hashlib.sha256()
for file in sorted((folder / "swebench" / "harness" / "constants").glob("*.py")):
    digest.update(file.read_bytes())
specs = constants.MAP_REPO_VERSION_TO_SPECS
kept = ("python", "packages", "pip_packages", "pre_install", "install")
repositories = [repo for repo in sys.argv[2:] if repo in specs and constants.MAP_REPO_TO_EXT[repo] == "py"]
print(
    json.dumps(
        {
            "version": importlib.metadata.version("swebench"),
            "sha256": digest.hexdigest(),
            "requirementFiles": {
                repo: files for repo, files in constants.MAP_REPO_TO_REQS_PATHS.items() if repo in repositories
            },
            "environmentFiles": {
                repo: files for repo, files in constants.MAP_REPO_TO_ENV_YML_PATHS.items() if repo in repositories
            },
            "repositories": {
                repo: {
                    version: {key: spec[key] for key in kept if key in spec}
                    for version, spec in specs[repo].items()
                    if "test_cmd" in spec
                }
                for repo in repositories
            },
        }
    )
)
