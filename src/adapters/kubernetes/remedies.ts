/** What a refusal of a cluster says, in the words of its server or of `kubectl`, and what its reader can do about it. */

interface Asker {
  /** Recipe keys or variables that name the namespace, and what is asked for in it. */
  namespace: string
  requests: string
  /** The document that lists the rights of its account. */
  rights: string
  /** What only this asker is refused for. */
  own: readonly Remedy[]
}

type Remedy = readonly [said: RegExp, remedy: string]

const ASKERS = {
  sandbox: {
    namespace: 'LONGHAUL_KUBERNETES_NAMESPACE',
    requests: 'sandbox.request and sandbox.limits',
    rights: 'docs/cluster.md',
    own: [
      [
        /violates PodSecurity/,
        'let the namespace enforce the pod security standard baseline: a sandbox needs the capabilities that docs/cluster.md lists',
      ],
    ],
  },
  trainer: {
    namespace: 'trainer.kubernetes.namespace',
    requests: 'trainer.kubernetes',
    rights: 'docs/training-jobs.md',
    own: [
      [
        /resource type "jobset|no matches for kind "JobSet"/,
        'install JobSet on the cluster, or train on one node (trainer.nodes: 1)',
      ],
      [
        /localhost:8080|no configuration has been provided|current-context/,
        'set KUBECONFIG of the trainer worker to a file that names the cluster',
      ],
      [
        /^(?:ErrImage|ImagePullBackOff|InvalidImageName)/,
        'push the image where the nodes may pull it, or correct trainer.kubernetes.image',
      ],
      [
        /persistentvolumeclaim "[^"]*" not found/,
        'make the claim in the namespace of the job, or correct trainer.kubernetes.claim',
      ],
      [
        /serviceaccount "[^"]*" not found/,
        'make the account in the namespace of the job, or correct trainer.kubernetes.serviceAccount',
      ],
    ],
  },
} as const satisfies Record<string, Asker>

/** The first that fits counts. @returns with an arrow before it; empty where nothing more can be said */
export function remedyFor(said: string, worker: keyof typeof ASKERS): string {
  const { namespace, requests, rights, own } = ASKERS[worker]
  const remedies: readonly Remedy[] = [
    ...own,
    [/namespaces? "[^"]*" not found|is being terminated/, `create the namespace, or correct ${namespace}`],
    [/exceeded quota/, `raise the quota of the namespace, or ask for less in ${requests}`],
    // Where the cluster hands a resource out by quotas alone, as it often does with GPUs.
    [
      /insufficient quota to (?:consume|match these scopes)/,
      `have a ResourceQuota made in the namespace for what the message names, or ask for none of it in ${requests}`,
    ],
    // Admission refuses as `Forbidden` too, which is no matter of rights.
    [
      /failed quota: .*must specify/,
      `set what the quota of the namespace counts in ${requests}, or let a LimitRange do it`,
    ],
    [
      /(?:minimum|maximum) [\w./-]+ usage per|limit to request ratio per/,
      `ask for what the LimitRange of the namespace allows in ${requests}, or change it`,
    ],
    [
      /admission webhook "[^"]*" denied|ValidatingAdmissionPolicy '[^']*'.* denied request/,
      'let the named admission policy or webhook pass these pods, or use a namespace that it does not look at',
    ],
    [
      /failed calling webhook/,
      'mend the named admission webhook, or use a namespace that it does not look at: the cluster refuses all pods until it answers',
    ],
    [
      /^(?!.*is forbidden: (?!User )).*\(Forbidden\)/s,
      `give the account of the ${worker} worker the rights that ${rights} lists, in this namespace`,
    ],
    [
      /\(Unauthorized\)|must be logged in|provide credentials/,
      `the credentials of the ${worker} worker are wrong or have expired: renew the kubeconfig that KUBECONFIG names`,
    ],
    [
      /x509|certificate|tls(?! handshake timeout)|self-signed|SSL/i,
      'the cluster and the kubeconfig that KUBECONFIG names do not trust each other: a certificate is of another authority or has expired',
    ],
    [
      /ECONNREFUSED|ENOTFOUND|EHOSTUNREACH|connection refused|no such host|no route to host/,
      'the address in the kubeconfig that KUBECONFIG names does not answer',
    ],
  ]
  const found = remedies.find(([pattern]) => pattern.test(said))
  return found === undefined ? '' : ` → ${found[1]}`
}
