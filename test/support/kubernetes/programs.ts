/** The programs of a Kubernetes cluster, built into the user cache once for each state of the lock files in
 *  `infra/kubernetes-server`. */
import { readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { packageFile } from '../../../src/stack/paths.ts'
import { findProgram, isRoot } from '../../../src/stack/setup/system-packages.ts'
import { findGoPrograms } from '../go-programs.ts'

const MODULE = packageFile('infra/kubernetes-server')
const PLUGINS = 'github.com/containernetworking/plugins/plugins'
/** The module itself first: all programs of Kubernetes in one. */
const PACKAGES = ['.', './pause', `${PLUGINS}/ipam/host-local`, `${PLUGINS}/main/loopback`, `${PLUGINS}/main/ptp`]
const NAMES = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kubectl']
/** Debian's containerd is a dependency of its Docker engine, which the set-up installs. */
const SYSTEM = ['containerd', 'ctr', 'runc', 'unshare', 'openssl', 'tar']

/** The folder of the programs, or why no cluster can run here. Building them takes too long for a test, so only `build` does it. */
export async function findKubernetes({ build = false } = {}): Promise<{ programs: string } | { reason: string }> {
  const no = (why: string) => ({ reason: `a Kubernetes cluster cannot run here: ${why}` })
  if (!isRoot()) return no('a kubelet needs root')
  // Programs are built before the set-up has installed those that run them.
  const missing = build ? [] : SYSTEM.filter((name) => findProgram(name) === null)
  if (missing.length > 0) return no(`there is no ${missing.join(', no ')}`)
  const found = await findGoPrograms({
    what: 'Kubernetes',
    module: MODULE,
    revision: '2',
    commands: PACKAGES,
    linkerFlags: await versionFlags(),
    target: (key) => join('kubernetes', key),
    complete: async (folder) => {
      for (const name of NAMES) await symlink('kubernetes-server', join(folder, name))
    },
    builtBy: build ? null : 'node test/support/kubernetes/programs.ts',
  })
  return 'path' in found ? { programs: found.path } : no(found.reason)
}

/** Flags as in the release's own build: clients that query a server's version, such as Helm, get that of the lock file. */
async function versionFlags(): Promise<string> {
  const requirements = await readFile(join(MODULE, 'go.mod'), 'utf8')
  const [, version, minor] = /^\tk8s\.io\/kubernetes (v1\.(\d+)\.\d+)$/m.exec(requirements) ?? []
  if (version === undefined) throw new Error(`Expected k8s.io/kubernetes v1.N.N in ${MODULE}/go.mod`)
  const variables = { gitVersion: version, gitMajor: '1', gitMinor: minor }
  const assignments = ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((name) =>
    Object.entries(variables).map(([variable, value]) => `-X ${name}.${variable}=${value}`),
  )
  return assignments.join(' ')
}

if (import.meta.main) {
  const found = await findKubernetes({ build: true })
  console.log('programs' in found ? found.programs : found.reason)
  if ('reason' in found) process.exitCode = 1
}
