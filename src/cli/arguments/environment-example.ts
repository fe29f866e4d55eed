/** The variables that users may set, by topic, for `.env.example`; a test compares them with the variables that the code reads. */

interface Variable {
  name: string
  /** One line. */
  says: string
  /** An example value; empty for a secret. */
  example: string
}

interface Topic {
  title: string
  variables: readonly Variable[]
}

const variable = (name: string, example: string, says: string): Variable => ({ name, example, says })

export const ENVIRONMENT: readonly Topic[] = [
  {
    title: 'Temporal: without any of these, the local stack of longhaul up',
    variables: [
      variable('TEMPORAL_ADDRESS', 'temporal.example.org:7233', 'server of runs, workers and commands'),
      variable('TEMPORAL_NAMESPACE', 'default', 'namespace on it'),
      variable('TEMPORAL_API_KEY', '', 'key of Temporal Cloud; switches TLS on'),
      variable('TEMPORAL_TLS', 'true', 'TLS without an API key'),
      variable('TEMPORAL_TLS_SERVER_CA_CERT_PATH', '/etc/longhaul/ca.pem', 'authority of the server’s certificate'),
      variable('TEMPORAL_TLS_SERVER_NAME', 'temporal.internal', 'name in the server’s certificate'),
      variable('TEMPORAL_TLS_CLIENT_CERT_PATH', '/etc/longhaul/client.pem', 'certificate of this client'),
      variable('TEMPORAL_TLS_CLIENT_KEY_PATH', '/etc/longhaul/client.key', 'its key'),
      variable('TEMPORAL_PROFILE', 'prod', 'a profile of Temporal’s own file instead of the variables above'),
      variable('TEMPORAL_CONFIG_FILE', '/etc/longhaul/temporal.toml', 'that file, where it lies elsewhere'),
      variable('LONGHAUL_UI_URL', 'https://temporal.example.org', 'Temporal’s UI, for links to runs'),
      variable('LONGHAUL_CODEC_KEYS', '/etc/longhaul/codec-keys', 'file of the keys that encrypt payloads'),
      variable('LONGHAUL_CODEC_TOKEN', '', 'token of longhaul codec-server beyond the loopback'),
      variable('LONGHAUL_BUILD_ID', '2026-11-23-1a2b3c4', 'build of a control worker (longhaul deployment)'),
      variable('TEMPORAL_CLI_PATH', '/usr/local/bin/temporal', 'a Temporal CLI for the local stack’s server'),
      variable('PGPASSWORD', '', 'password of longhaul up --temporal postgres://…'),
    ],
  },
  {
    title: 'Artifacts: records, batches and policies',
    variables: [
      variable('LONGHAUL_ARTIFACTS', 's3://lab-records/longhaul', 'directory, or bucket and prefix'),
      variable('AWS_ENDPOINT_URL_S3', 'https://s3.example.org', 'another server than Amazon’s (or AWS_ENDPOINT_URL)'),
      variable('AWS_ENDPOINT_URL', 'https://s3.example.org', 'the same for all of AWS’s services'),
      variable('AWS_REGION', 'eu-west-1', 'region of the bucket (or AWS_DEFAULT_REGION)'),
      variable('AWS_DEFAULT_REGION', 'eu-west-1', 'the same, where AWS_REGION says nothing'),
      variable('AWS_PROFILE', '', 'profile of the AWS files that has them'),
      variable('AWS_ACCESS_KEY_ID', '', 'credentials, where no role or profile gives them'),
      variable('AWS_SECRET_ACCESS_KEY', '', 'the secret of that key'),
      variable('LONGHAUL_WEIGHTS', '/data/weights', 'where policies of a bucket are cached'),
      variable('LONGHAUL_WEIGHTS_GIB', '200', 'size limit of that cache'),
      variable('LONGHAUL_STORE_PATIENCE_S', '3600', 'seconds that an activity waits for an unavailable or full store'),
    ],
  },
  {
    title: 'Sandboxes',
    variables: [
      variable('DOCKER_HOST', 'unix:///var/run/docker.sock', 'this container engine and no other'),
      variable('LONGHAUL_HOST_ID', 'sandbox-7', 'stable name of this sandbox host'),
      variable('LONGHAUL_SANDBOXES', 'pods', 'sandboxes are pods of the cluster of KUBECONFIG (docs/cluster.md)'),
      variable('LONGHAUL_GRADERS', 'pods', 'graders are pods too, and the worker needs no engine'),
      variable('LONGHAUL_KUBERNETES_NAMESPACE', 'sandboxes', 'where these pods are'),
      variable(
        'LONGHAUL_KUBERNETES_SECCOMP',
        'longhaul/runner.json',
        'where the nodes keep the profile of system calls',
      ),
      variable('LONGHAUL_SANDBOX_CPUS', '16', 'processors that all sandboxes together may request'),
      variable('LONGHAUL_SANDBOX_MEMORY_GIB', '64', 'the same of memory'),
      variable('LONGHAUL_SANDBOX_RUNTIME', 'runsc', 'OCI runtime of the containers'),
      variable('LONGHAUL_LEASE_S', '600', 'seconds until a sandbox or launched engine ends without a lease renewal'),
      variable('LONGHAUL_MIN_FREE_GIB', '10', 'below this much free disk, unused images are removed'),
      variable('LONGHAUL_PYTHONS', '/opt/pythons', 'directories of Pythons that task images are built with'),
    ],
  },
  {
    title: 'Policies, training, data sets',
    variables: [
      variable('LONGHAUL_POLICY_URL', 'http://gpu-1:8000', 'policy server of recipes that name none'),
      variable('LONGHAUL_POLICY_API_KEY', '', 'its key'),
      variable('LONGHAUL_ENGINES', '/var/lib/longhaul/engines', 'directory on each host that tracks launched engines'),
      variable('LONGHAUL_PYTHON', '/opt/longhaul/bin/python', 'Python with the trainer’s packages'),
      variable('LONGHAUL_BASE_PYTHON', '/usr/bin/python3.11', 'Python from which that environment is created'),
      variable(
        'LONGHAUL_WANDB_PYTHON',
        '/opt/wandb/bin/python',
        'Python with the package wandb, for trackers of kind wandb',
      ),
      variable('LONGHAUL_HUB_URL', 'https://hub.example.org', 'another hub of data sets and models'),
      variable(
        'LONGHAUL_ASSET_HOSTS',
        'assets.example.org',
        'hosts of private networks that rows of data sets may name files of',
      ),
      variable('LONGHAUL_IMPORT_MAX_GIB', '2', 'largest unpacked size of the rows of a Parquet data set'),
      variable('HF_TOKEN', '', 'token of the hub, for models that need one'),
    ],
  },
  {
    title: 'This machine and its monitoring',
    variables: [
      variable('LONGHAUL_STACK', 'default', 'name of the local stack; several run side by side'),
      variable('LONGHAUL_HOME', '/data/longhaul', 'where stacks keep their data'),
      variable('LONGHAUL_CACHE', '/data/longhaul-cache', 'data that can be recreated'),
      variable('LONGHAUL_RECIPES', './recipes', 'directories with more recipes, separated by ":"'),
      variable('LONGHAUL_COMPLETION_MS', '3000', 'how long the Tab key waits for names from a server; 900 by default'),
      variable('LONGHAUL_VIEWER_URL', 'https://viewer.example.org/', 'where people read trajectories'),
      variable('LONGHAUL_METRICS_ADDRESS', '127.0.0.1:9464', 'where Prometheus reads a worker’s metrics'),
      variable('LONGHAUL_HEALTH_ADDRESS', '0.0.0.0:9470', 'where an orchestrator asks a worker /live and /ready'),
      variable('LONGHAUL_METRICS_OTLP', 'http://collector:4317', 'or a collector that they are sent to'),
      variable('OTEL_EXPORTER_OTLP_ENDPOINT', 'http://collector:4318', 'a collector that traces are sent to'),
      variable('OTEL_EXPORTER_OTLP_HEADERS', 'authorization=KEY', 'sent along with them'),
      variable('OTEL_TRACES_SAMPLER', 'parentbased_traceidratio', 'which runs are traced; all by default'),
      variable('OTEL_TRACES_SAMPLER_ARG', '0.1', 'share of them'),
      variable('LONGHAUL_ALARM_URL', '', 'receiver of alarms, as schedules.yaml names it'),
      variable('LONGHAUL_ALARM_SECRET', '', 'key that alarms are signed with'),
      variable('LONGHAUL_ALARM_HOSTS', 'hooks.internal', 'receivers of alarms inside of private networks'),
      variable('LONGHAUL_DEBUG', '1', 'errors with stack traces'),
    ],
  },
  {
    title: 'A CI system other than GitHub Actions and GitLab, which set such variables themselves',
    variables: [
      variable('LONGHAUL_COMMIT', '0123456789abcdef0123456789abcdef01234567', 'commit that is evaluated'),
      variable('LONGHAUL_PIPELINE', '4711', 'id of the pipeline, whose jobs share a run'),
      variable('LONGHAUL_JOB', 'evaluate', 'name of the job, for the record'),
      variable('LONGHAUL_JOB_URL', 'https://ci.example.org/jobs/4711', 'its page'),
    ],
  },
]

/** Every line is a comment: as it is, the file sets nothing. */
export function environmentExample(): string {
  return [
    '# Every variable of Longhaul that a person sets. Longhaul reads no file of variables by itself: copy this one to .env, uncomment what',
    '# you need, keep it out of the repository, and start with  set -a; . ./.env; set +a',
    ...ENVIRONMENT.flatMap(({ title, variables }) => [
      '',
      `# ${title}`,
      ...variables.map(({ name, example, says }) => `# ${name}=${example} # ${says}`),
    ]),
    '',
  ].join('\n')
}
