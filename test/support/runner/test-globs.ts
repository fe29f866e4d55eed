/** Where `npm test` finds its files. `test-globs.test.ts` reports files elsewhere, which would never run. */
export const TEST_GLOBS = {
  units: ['src/**/*.test.ts', 'policies/**/*.test.ts'],
  system: ['test/**/*.test.ts'],
} as const

/** Resources for one file at a time: files with the same resource run one after another, beside all others. */
export const HOLDERS = {
  /** These files kill its workers and count its suites. */
  stack: [
    'test/integration/{chat-evaluation,ci,deployment,gate-kill,grade-commands,grade-kill,kill,launched-engines,listeners,live-llama-cpp,live-vllm-chat}.test.ts',
    'test/integration/{object-store-run,object-store-train,stack-restart,starting,task-images,temporal-ui,traces}.test.ts',
    'test/integration/{two-stages,whole-run,worker-images,worker-start}.test.ts',
    // Builds into `dist`, like the images of the workers.
    'test/integration/package.test.ts',
  ],
  /** Private engines of a test, each with its daemons, images and networks. */
  engines: ['test/chaos/{bucket,chaos,hosts}.test.ts', 'test/integration/{doctor,leaks,sandbox-disk}.test.ts'],
  /** Private clusters of a test, whose networks have the same addresses. */
  clusters: [
    'test/chaos/pods.test.ts',
    'test/integration/{helm-install,kubernetes-sandbox,kubernetes-trainer}.test.ts',
  ],
  /** One audit at a time runs outside of containers: `run-audit.ts`. */
  audits: ['test/integration/audit-{driver,honest,pythons}.test.ts'],
} as const
