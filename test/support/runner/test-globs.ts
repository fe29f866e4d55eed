/** Where `npm test` finds its files; what `test-globs.test.ts` finds elsewhere would never run. */
export const TEST_GLOBS = {
  units: ['src/**/*.test.ts', 'policies/**/*.test.ts'],
  system: ['test/**/*.test.ts'],
} as const

/** What one file at a time may use: files that hold the same run one after another, beside all others. */
export const HOLDERS = {
  /** Its workers are killed and its suites are counted. */
  stack: [
    'test/integration/{chat-evaluation,ci,deployment,gate-kill,grade-commands,grade-kill,kill,launched-engines,listeners,live-llama-cpp,live-vllm-chat}.test.ts',
    'test/integration/{object-store-run,object-store-train,stack-restart,starting,task-images,temporal-ui,traces}.test.ts',
    'test/integration/{two-stages,whole-run,worker-images,worker-start}.test.ts',
    // Builds into `dist`, as the images of the workers do.
    'test/integration/package.test.ts',
  ],
  /** Engines of a test's own, each with its daemons, images and networks. */
  engines: ['test/chaos/{bucket,chaos,hosts}.test.ts', 'test/integration/{doctor,leaks,sandbox-disk}.test.ts'],
  /** Clusters of a test's own, whose networks have the same addresses. */
  clusters: [
    'test/chaos/pods.test.ts',
    'test/integration/{helm-install,kubernetes-sandbox,kubernetes-trainer}.test.ts',
  ],
  /** One audit at a time runs outside of containers: `run-audit.ts`. */
  audits: ['test/integration/audit-{driver,pythons}.test.ts'],
} as const
