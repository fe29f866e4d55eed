/** The programs of a Kubernetes cluster, built once for each state of the lock files in `infra/kubernetes-server` into the user cache. */
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { withDirectoryLock } from '../../../src/platform/directory-lock.ts'
import { runCommand } from '../../../src/platform/run-command.ts'
import { packageFile, stackPaths } from '../../../src/stack/paths.ts'
import { findGo, moduleKey } from '../../../src/stack/setup/go-build.ts'
import { findProgram, isRoot } from '../../../src/stack/setup/system-packages.ts'

const MODULE = packageFile('infra/kubernetes-server')
const PLUGINS = 'github.com/containernetworking/plugins/plugins'
/** Ours first: all programs of Kubernetes in one. */
const PACKAGES = ['.', './pause', `${PLUGINS}/ipam/host-local`, `${PLUGINS}/main/loopback`, `${PLUGINS}/main/ptp`]
const NAMES = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kubectl']
/** An empty Go cache and a busy machine. */
const BUILD_MS = 2 * 3_600_000
/** Debian's containerd is a dependency of its Docker engine, which the set-up installs. */
const SYSTEM = ['containerd', 'ctr', 'runc', 'unshare', 'openssl', 'tar']

/** The folder of the programs, or the reason why no cluster can run here. Building them takes too long for a test: it is asked for. */
export async function findKubernetes({ build = false } = {}): Promise<{ programs: string } | { reason: string }> {
  const no = (why: string) => ({ reason: `a Kubernetes cluster cannot run here: ${why}` })
  if (!isRoot()) return no('a kubelet needs root')
  const missing = SYSTEM.filter((name) => findProgram(name) === null)
  if (missing.length > 0) return no(`there is no ${missing.join(', no ')}`)
  const folder = join(stackPaths().cacheDir, 'kubernetes', await moduleKey({ module: MODULE, revision: '2' }))
  if (existsSync(folder)) return { programs: folder }
  if (!build) return no('its programs are not built: node test/support/kubernetes/programs.ts')
  const context = { log: console.error, saw: () => undefined, signal: new AbortController().signal }
  const go = await findGo({ module: MODULE, context })
  if (!go.usable) return no(go.reason)
  await mkdir(join(folder, '..'), { recursive: true })
  return withDirectoryLock({ path: `${folder}.lock`, timeoutMs: BUILD_MS }, async () => {
    if (existsSync(folder)) return { programs: folder }
    const temporary = `${folder}.new`
    await rm(temporary, { recursive: true, force: true })
    await mkdir(temporary)
    const flags = ['-mod=readonly', '-buildvcs=false', '-trimpath', '-ldflags', await linkerFlags()]
    const { exitCode, tail } = await runCommand({
      command: 'nice',
      args: ['-n', '15', go.path, 'build', ...flags, '-o', `${temporary}/`, ...PACKAGES],
      cwd: MODULE,
      // Without C: the process of a pod stands alone in its image.
      env: { ...process.env, GOWORK: 'off', GOFLAGS: '', CGO_ENABLED: '0' },
      timeoutMs: BUILD_MS,
    })
    if (exitCode !== 0) {
      await rm(temporary, { recursive: true, force: true })
      return no(`it cannot be built (${tail.split('\n').at(-1)})`)
    }
    for (const name of NAMES) await symlink('kubernetes-server', join(temporary, name))
    await rename(temporary, folder)
    return { programs: folder }
  })
}

/** As the release's own build has them: what asks a server for its version, Helm for one, gets that of the lock file. */
async function linkerFlags(): Promise<string> {
  const requirements = await readFile(join(MODULE, 'go.mod'), 'utf8')
  const [, version, minor] = /^\tk8s\.io\/kubernetes (v1\.(\d+)\.\d+)$/m.exec(requirements) ?? []
  if (version === undefined) throw new Error(`Expected k8s.io/kubernetes v1.N.N in ${MODULE}/go.mod`)
  const variables = { gitVersion: version, gitMajor: '1', gitMinor: minor }
  const assignments = ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((name) =>
    Object.entries(variables).map(([variable, value]) => `-X ${name}.${variable}=${value}`),
  )
  return ['-s -w', ...assignments].join(' ')
}

if (import.meta.main) {
  const found = await findKubernetes({ build: true })
  console.log('programs' in found ? found.programs : found.reason)
  if ('reason' in found) process.exitCode = 1
}
