/**
 * The commands of schedulers as shell scripts over a folder, for what no real scheduler does on demand: a command that hangs between
 * its request and its answer. Nothing is run; a job is a file with its state. `slurm.ts` starts the real scheduler.
 */
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface FakeCluster {
  /** For `PATH`. */
  path: string
  /** How often a command was called. */
  calls(tool: string): Promise<number>
  /** The tool's n-th call waits before it does anything; other calls overtake it. */
  hold(tool: string, call: number): Promise<void>
  release(tool: string): Promise<void>
  /** Id of each job, its name with comment or labels, and its state. */
  jobs(): Promise<{ id: string; text: string; state: string }[]>
  setState(id: string, state: string): Promise<void>
  /** Sets the pods of every Job in Kubernetes. */
  setPods(pods: object[]): Promise<void>
}

/** Counts the call, then waits while it is held. */
const ENTER = `#!/bin/sh
root=__ROOT__
tool=\${0##*/}
# Questions for pods and events do not count; without pods of the test this cluster refuses them.
case "$2" in
pods | events)
  [ "$2" = pods ] && cat "$root/pods" 2>/dev/null && exit 0
  echo 'Error from server (Forbidden)' >&2
  exit 1
  ;;
esac
until mkdir "$root/lock" 2>/dev/null; do sleep 0.01; done
call=$(($(cat "$root/calls.$tool" 2>/dev/null || echo 0) + 1))
echo "$call" >"$root/calls.$tool"
rmdir "$root/lock"
while [ "$call" = "$(cat "$root/hold.$tool" 2>/dev/null)" ]; do sleep 0.02; done
`

const TOOLS: Record<string, string> = {
  sbatch: `
script=$(cat)
name=$(printf '%s\\n' "$script" | sed -n 's/^#SBATCH --job-name=//p')
comment=$(printf '%s\\n' "$script" | sed -n 's/^#SBATCH --comment=//p')
until mkdir "$root/lock" 2>/dev/null; do sleep 0.01; done
id=$(($(ls "$root/jobs" | wc -l) + 1))
mkdir "$root/jobs/$id"
rmdir "$root/lock"
printf '%s\\n' "$name" >"$root/jobs/$id/name"
printf '%s\\n' "$comment" >"$root/jobs/$id/text"
printf '%s\\n' "$script" >"$root/jobs/$id/script"
echo PENDING >"$root/jobs/$id/state"
echo "$id"
`,
  squeue: `
for word in "$@"; do
  case $word in
  --name=*) wanted=\${word#--name=} ;;
  --jobs=*) id=\${word#--jobs=} ;;
  esac
done
if [ -n "$id" ]; then
  [ -d "$root/jobs/$id" ] || { echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }
  cat "$root/jobs/$id/state"
  exit
fi
for job in "$root"/jobs/*; do
  [ -f "$job/state" ] && [ "$(cat "$job/name")" = "$wanted" ] && echo "\${job##*/}|$(cat "$job/text")"
done
exit 0
`,
  scancel: `
for word in "$@"; do id=$word; done
[ -d "$root/jobs/$id" ] && echo CANCELLED >"$root/jobs/$id/state"
exit 0
`,
  sacct: 'exit 1\n',
  kubectl: `
for word in "$@"; do
  case $word in
  job.batch/*) name=\${word#job.batch/} ;;
  esac
done
case $1 in
get)
  [ -d "$root/jobs/$name" ] || { echo 'Error from server (NotFound): jobs.batch not found' >&2; exit 1; }
  conditions=
  [ "$(cat "$root/jobs/$name/state")" = RUNNING ] || conditions='{"type":"Failed","status":"True"}'
  printf '{"metadata":{"labels":{"longhaul/fence":"%s"}},"status":{"conditions":[%s]}}\\n' "$(cat "$root/jobs/$name/text")" "$conditions"
  ;;
create)
  manifest=$(cat)
  case $manifest in *'"kind":"NetworkPolicy"'*) exit 0 ;; esac
  name=$(printf '%s' "$manifest" | sed -n 's/.*"metadata":{"name":"\\([^"]*\\)".*/\\1/p' | head -n 1)
  fence=$(printf '%s' "$manifest" | grep -o '"longhaul/fence":"[0-9]*"' | head -n 1 | grep -o '[0-9]*')
  mkdir "$root/jobs/$name" 2>/dev/null || { echo 'Error from server (AlreadyExists)' >&2; exit 1; }
  echo "$fence" >"$root/jobs/$name/text"
  echo RUNNING >"$root/jobs/$name/state"
  ;;
delete) [ -z "$name" ] || rm -rf "$root/jobs/$name" ;;
esac
`,
}

export async function startFakeCluster(root: string): Promise<FakeCluster> {
  const bin = join(root, 'bin')
  await mkdir(bin, { recursive: true })
  await mkdir(join(root, 'jobs'))
  for (const [tool, text] of Object.entries(TOOLS)) {
    await writeFile(join(bin, tool), ENTER.replace('__ROOT__', root) + text)
    await chmod(join(bin, tool), 0o755)
  }
  const word = async (...path: string[]): Promise<string> =>
    (await readFile(join(root, ...path), 'utf8').catch(() => '')).trim()
  return {
    path: `${bin}${delimiter}${process.env['PATH']}`,
    calls: async (tool) => Number(await word(`calls.${tool}`)),
    hold: (tool, call) => writeFile(join(root, `hold.${tool}`), String(call)),
    release: (tool) => rm(join(root, `hold.${tool}`), { force: true }),
    async jobs() {
      const ids = (await readdir(join(root, 'jobs'))).toSorted()
      return Promise.all(
        ids.map(async (id) => ({ id, text: await word('jobs', id, 'text'), state: await word('jobs', id, 'state') })),
      )
    },
    setState: (id, state) => writeFile(join(root, 'jobs', id, 'state'), `${state}\n`),
    setPods: (pods) => writeFile(join(root, 'pods'), JSON.stringify({ items: pods })),
  }
}

/** Polls until the condition holds; the test's own limit ends an endless wait. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(10)
}
