/** Recognises why an image could not be pulled by the words of registries, engines and kubelets, and tells the operator how to fix it. */
import { LonghaulError } from '../../../contracts/errors.ts'
import type { FailureCode } from '../../../contracts/failure-codes.ts'

/** Who pulls: the engine of a sandbox host, or the kubelets of a cluster. */
type Puller = 'engine' | 'node'

interface Cause {
  said: RegExp
  code: FailureCode
  explain: Readonly<Record<Puller, string>>
}

const same = (text: string): Record<Puller, string> => ({ engine: text, node: text })

const LOGIN: Readonly<Record<Puller, string>> = {
  engine:
    'Longhaul sends no credentials, so pull it on each sandbox host (docker login, then docker pull); a token that expired during a pull needs a new login',
  node: 'give the default account of the namespace an imagePullSecret, or renew its token',
}

/** The first match counts. Hub registries answer `denied` also for a name that does not exist, so that comes before the refusals. */
const CAUSES: readonly Cause[] = [
  {
    said: /no space left on device|disk quota exceeded/i,
    code: 'Sandbox.OutOfDisk',
    explain: same('The disk of images is full: free space there (docker system df), or lower the number of images'),
  },
  {
    said: /no matching manifest|no match for platform|does not match the specified platform/i,
    code: 'Sandbox.ImageMissing',
    explain: same(
      'The image has no build for linux/amd64: name another image in the row, or make one with longhaul images build SUITE',
    ),
  },
  {
    said: /repository does not exist|pull access denied|access denied|name unknown/i,
    code: 'Sandbox.ImageMissing',
    explain: {
      engine: `The registry does not have the image, or hides it without a login. longhaul images build SUITE makes it from the repository’s history. If the registry is private: ${LOGIN.engine}`,
      node: `The registry does not have the image, or hides it without a login: push it there, or ${LOGIN.node}`,
    },
  },
  {
    said: /toomanyrequests|rate limit|\b429\b/i,
    code: 'Sandbox.PullFailed',
    explain: {
      engine:
        'The registry limits pulls: wait, pull it on each sandbox host after docker login, or set a mirror (registry-mirrors of the engine)',
      node: 'The registry limits pulls: wait, give the default account of the namespace an imagePullSecret, or set a mirror on the nodes',
    },
  },
  {
    said: /unauthorized|authentication required|incorrect username|no basic auth|denied|forbidden|\b40[13]\b/i,
    code: 'Sandbox.PullFailed',
    explain: {
      engine: `The registry refuses the image: ${LOGIN.engine}`,
      node: `The registry refuses the image: ${LOGIN.node}`,
    },
  },
  {
    said: /not found|manifest unknown|does not exist|InvalidImageName/i,
    code: 'Sandbox.ImageMissing',
    explain: {
      engine:
        'The registry does not have the image; longhaul images build SUITE makes it from the repository’s history',
      node: 'The cluster has no such image: push it to a registry that the nodes reach',
    },
  },
  {
    said: /gave HTTP response to HTTPS client|first record does not look like a TLS handshake/i,
    code: 'Sandbox.PullFailed',
    explain: {
      engine:
        'The registry speaks HTTP without TLS: correct its port, or list it in insecure-registries of the engine (daemon.json)',
      node: 'The registry speaks HTTP without TLS: correct its port, or allow that in the settings of the nodes’ containerd',
    },
  },
  {
    said: /x509|certificate|tls:/i,
    code: 'Sandbox.PullFailed',
    explain: {
      engine:
        'The engine does not trust the registry’s certificate: renew it, or put its authority into /etc/docker/certs.d/REGISTRY/ca.crt on each sandbox host; a wrong clock has the same effect',
      node: 'The node does not trust the registry’s certificate: renew it, or give its authority to containerd on each node; a wrong clock has the same effect',
    },
  },
  {
    said: /invalid character|unmarshal|unexpected end of JSON|content-type/i,
    code: 'Sandbox.PullFailed',
    explain: same(
      'What answers is no registry: correct the image’s name, or look for a proxy or a login page in between',
    ),
  },
  {
    said: /failed to register layer|verification failed|digest|unexpected EOF|corrupt|invalid checksum|gzip:|blob unknown|unknown blob/i,
    code: 'Sandbox.PullFailed',
    explain: same(
      'The registry sent damaged or incomplete layers: another try pulls them again; if it repeats, push the image anew',
    ),
  },
  {
    said: /no such host|connection refused|i\/o timeout|no route to host|network is unreachable|connection reset|timeout|EOF/i,
    code: 'Sandbox.PullFailed',
    explain: {
      engine:
        'The engine does not reach the registry: check the name, the network and the proxy of the engine (docker info)',
      node: 'The node does not reach the registry: check the name and the network of the nodes',
    },
  },
  {
    said: /\b5\d\d\b/,
    code: 'Sandbox.PullFailed',
    explain: same('The registry itself fails: try again later'),
  },
]

const UNKNOWN: Readonly<Record<Puller, string>> = {
  engine: 'The image could not be pulled',
  node: 'The image could not be pulled by the node',
}

export interface PullFailureInput {
  image: string
  /** Words of whoever pulled. */
  reason: string
  by: Puller
  cause?: unknown
}

/** @returns `Sandbox.ImageMissing` if another try cannot help, `Sandbox.OutOfDisk`, or `Sandbox.PullFailed` */
export function pullFailure({ image, reason, by, cause }: PullFailureInput): LonghaulError {
  // The engine wraps every refusal of a registry into an error of its own.
  const said = reason.replace(/\(HTTP code \d+\) [a-z ]+ - /i, '')
  const known = CAUSES.find((one) => one.said.test(said))
  return new LonghaulError({
    code: known?.code ?? 'Sandbox.PullFailed',
    message: (known?.explain ?? UNKNOWN)[by],
    details: { image, reason: reason.slice(0, 300) },
    cause,
  })
}
