import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { ignoreGone } from '../../../src/adapters/docker/engine/engine-errors.ts'
import { identify, signalProcess } from '../../../src/platform/processes.ts'

export async function killContainer({ engine, name }: { engine: Engine; name: string }): Promise<void> {
  await engine.docker.getContainer(name).kill({ signal: 'SIGKILL' }).catch(ignoreGone)
}

/** Memory of each hog, far below what the kernel adds to the score of the container's own processes, which it must kill first. */
const HOG_MIB = 64

/**
 * The whole container runs out of memory: harness processes join its memory group and allocate its entire limit. Sandboxes are marked
 * to be killed first, so every process of the container dies before the harness's, its first process last. That process is stopped
 * beforehand: otherwise it would report a command that was killed a moment earlier, which counts as the policy's own use of memory.
 */
export async function hogMemory({ engine, name }: { engine: Engine; name: string }): Promise<void> {
  const facts = await engine.docker
    .getContainer(name)
    .inspect()
    .catch((error: unknown) => {
      ignoreGone(error)
      return null
    })
  if (facts === null || !facts.State.Running) return
  const first = identify(facts.State.Pid)
  const group = memoryGroupOf(facts.State.Pid)
  signalProcess(first, 'SIGSTOP')
  const count = Math.ceil((facts.HostConfig.Memory ?? 0) / (HOG_MIB * 2 ** 20)) + 2
  const hogs = Array.from({ length: count }, () => startHog(group))
  await Promise.all(hogs.map((hog) => new Promise((resolve) => hog.once('exit', resolve))))
  signalProcess(first, 'SIGCONT')
}

function memoryGroupOf(pid: number): string {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n')
  const pathOf = (pattern: RegExp): string | undefined =>
    lines.map((line) => pattern.exec(line)?.[1]).find((path) => path)
  const [own, unified] = [pathOf(/^\d+:[\w,]*\bmemory\b[\w,]*:(.*)$/), pathOf(/^0::(.*)$/)]
  const candidates = [`/sys/fs/cgroup/memory${own ?? ''}`, `/sys/fs/cgroup${unified ?? ''}`]
  const found = candidates.find((path) => existsSync(`${path}/cgroup.procs`))
  if (found === undefined) throw new Error(`Expected a memory group of process ${pid} in ${candidates.join(' or ')}`)
  return found
}

/** `tail` keeps its input in memory until the input ends. */
function startHog(group: string): ChildProcess {
  const script = `echo $$ >${group}/cgroup.procs && { head -c ${HOG_MIB * 2 ** 20} /dev/zero; sleep 3; } | tail -n 1 >/dev/null`
  return spawn('/bin/sh', ['-c', script], { stdio: 'ignore' })
}
