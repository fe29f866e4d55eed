"""Writes one run with the package `wandb`, offline, into a folder of its own.

argv: the path of a JSON job (`WandbJob` of wandb.ts). Each row has its number, so that a file that is uploaded again, with more
rows, has every earlier row at its place. Exit code 3: this interpreter has no package `wandb`.
"""

import json
import sys

try:
    import wandb
except ModuleNotFoundError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

with open(sys.argv[1], encoding="utf-8") as file:
    job = json.load(file)

run = wandb.init(
    mode="offline",
    dir=job["folder"],
    entity=job["entity"],
    project=job["project"],
    id=job["id"],
    name=job["name"],
    config=job["config"],
    # The machine that writes the file is not the one that trained.
    settings=wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        silent=True,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    ),
)
# Evaluations of older policies come after newer ones: curves are drawn over the step, not over the number of the row.
run.define_metric("step")
run.define_metric("*", step_metric="step")
for number, row in enumerate(job["rows"]):
    run.log({**row["values"], "step": row["step"], "_timestamp": row["at"]}, step=number)
run.finish()
