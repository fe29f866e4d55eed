/** Recognises a refusal of a cluster by the words of its server or of `kubectl`, and tells the operator how to fix it. */

interface Asker {
  /** Recipe keys or variables that name the namespace, and those that set resource requests. */
  namespace: string
  requests: string
  /** The document that lists the permissions of the worker's account. */
  rights: string
  /** Remedies for refusals that only this kind of worker receives. */
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
        'push the image to a registry that the nodes may pull from, or correct trainer.kubernetes.image',
      ],
      [
        /persistentvolumeclaim "[^"]*" not found/,
        'create the claim in the namespace of the job, or correct trainer.kubernetes.claim',
      ],
      [
        /^\d+\/\d+ nodes are available/,
        'nothing if other pods hold what it needs: it starts when they end. Otherwise request what a node has in trainer.kubernetes (kubectl describe nodes), or correct its nodeSelector',
      ],
      [
        /serviceaccount "[^"]*" not found/,
        'create the account in the namespace of the job, or correct trainer.kubernetes.serviceAccount',
      ],
    ],
  },
} as const satisfies Record<string, Asker>

/** Uses the first remedy that matches. @returns the remedy preceded by an arrow; empty if none matches */
export function remedyFor(said: string, worker: keyof typeof ASKERS): string {
  const { namespace, requests, rights, own } = ASKERS[worker]
  const remedies: readonly Remedy[] = [
    ...own,
    [/namespaces? "[^"]*" not found|is being terminated/, `create the namespace, or correct ${namespace}`],
    [/exceeded quota/, `raise the quota of the namespace, or request less in ${requests}`],
    // Applies if the cluster grants a resource only by quotas, which is common for GPUs.
    [
      /insufficient quota to (?:consume|match these scopes)/,
      `create a ResourceQuota in the namespace for the resource that the message names, or request none of it in ${requests}`,
    ],
    // Admission also answers `Forbidden`, although permissions are not the reason.
    [
      /failed quota: .*must specify/,
      `set the resources that the quota of the namespace counts in ${requests}, or let a LimitRange set them`,
    ],
    [
      /(?:minimum|maximum) [\w./-]+ usage per|limit to request ratio per/,
      `request what the LimitRange of the namespace allows in ${requests}, or change it`,
    ],
    [
      /admission webhook "[^"]*" denied|ValidatingAdmissionPolicy '[^']*'.* denied request/,
      'allow these pods in the named admission policy or webhook, or use a namespace that it does not check',
    ],
    [
      /failed calling webhook/,
      'repair the named admission webhook, or use a namespace that it does not check: the cluster refuses all pods until it answers',
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
      /not the Kubernetes API|invalid character '<'/,
      'correct the server in the kubeconfig that KUBECONFIG names, or check for a proxy in between',
    ],
    [
      /wrong version number|packet length too long|HTTP response to HTTPS client/,
      'the address in the kubeconfig that KUBECONFIG names speaks no TLS: correct its port or its scheme',
    ],
    [
      /PEM|no start line|key values mismatch|bad decrypt|failed to find any PEM data|private key does not match/i,
      'a certificate or a key in the kubeconfig that KUBECONFIG names is damaged, or they are no pair: get the file again',
    ],
    [
      /x509|certificate|tls(?! handshake timeout)|self-signed|SSL/i,
      'the cluster and the kubeconfig that KUBECONFIG names do not trust each other: a certificate is from another authority or has expired',
    ],
    [
      /ECONNREFUSED|ENOTFOUND|EHOSTUNREACH|ECONNRESET|ETIMEDOUT|other side closed|aborted due to timeout|bad port|connection refused|no such host|no route to host|i\/o timeout/,
      'the address in the kubeconfig that KUBECONFIG names does not answer',
    ],
  ]
  const found = remedies.find(([pattern]) => pattern.test(said))
  return found === undefined ? '' : ` → ${found[1]}`
}
