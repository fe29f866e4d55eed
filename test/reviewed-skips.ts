/**
 * The tests that may be skipped, each with the fact about the machine that it needs. Any other skip fails `npm test`. What
 * `npm test` itself provides (the stack, the Temporal server, the Python environment) is no reason to skip anything and never
 * stands here. A new entry says why the test cannot run there and where it does; `reviewed-skips.test.ts` finds the stale ones.
 */
export interface ReviewedSkip {
  file: string
  /** Titles of tests or suites, or a pattern of titles that a file makes from a table; names of functions in Python. */
  tests: readonly string[] | RegExp
  /** What the test gives as its reason. */
  reason: RegExp
  /** Why a run may pass without it. */
  why: string
}

const FETCHED_ONCE = 'the first run on a machine fetches what it needs from a registry; CI has one'
const NO_CHECKOUT =
  'the harness is no package: a checkout is named by hand, the committed result of its bench names its hash'
const NEEDS_ROOT = 'only root may mount a file system; CI is root'
const LONG = 'longer than a commit may wait for: npm run test:trainer -- --full runs it'
const NO_KUBECTL = /^kubectl is not installed$/
const WITHOUT_KUBECTL = 'who runs no jobs on Kubernetes needs no kubectl; CI has it'
const NO_NAMESPACES = /^needs unshare, ip and leave to make namespaces$/
const WITHOUT_NAMESPACES =
  'some kernels let only root make namespaces, and iproute2 is no part of a set-up; CI has both'
const NO_PID_NAMESPACES = /^needs unshare and leave to make namespaces$/
const SOURCE = /^LONGHAUL_(?:FORK|REBENCH_V2)_SOURCE names no checkout/
const NO_CLUSTER = /^a Kubernetes cluster cannot run here: /
const NO_HELM = /^there is no Helm here: /
const NO_S3_SERVER = /^the S3 server cannot be built: /
const WITHOUT_S3_SERVER =
  'the server of the tests is built from Go modules, which needs Go and, once, a module proxy; CI has both'
const NO_TEMPORAL_SERVER = /^Temporal on PostgreSQL cannot be tested: /
const NO_HARNESS = /^the official harnesses cannot be installed here: /

export const REVIEWED_SKIPS: readonly ReviewedSkip[] = [
  {
    file: 'src/platform/directory-lock.test.ts',
    tests: ['a process with ids of its own, as in a container, keeps its lock'],
    reason: NO_PID_NAMESPACES,
    why: 'some kernels let only root make namespaces; CI is root',
  },
  {
    file: 'test/integration/helm-chart.test.ts',
    tests: ['the chart'],
    reason: NO_HELM,
    why: 'Helm is built from Go modules for minutes, on request, where the machine has none; .ci/run asks for it',
  },
  {
    file: 'test/integration/helm-chart.test.ts',
    tests: ['objects of KEDA have only fields that its definitions know'],
    reason: /^the definitions of KEDA cannot be fetched: /,
    why: FETCHED_ONCE,
  },
  {
    file: 'test/integration/helm-chart.test.ts',
    tests: /: the Kubernetes API knows each object and all of its fields$/,
    reason: /^Go is not installed$/,
    why: 'the API’s own types are a Go program; CI has Go',
  },
  {
    file: 'test/integration/postgres-temporal.test.ts',
    tests: ['Temporal on PostgreSQL', 'Temporal on an external PostgreSQL'],
    reason: NO_TEMPORAL_SERVER,
    why: 'the server is built from Go modules and runs on a PostgreSQL of the system, which one machine needs neither of; CI has both',
  },
  {
    file: 'test/integration/audit-pythons.test.ts',
    tests: ['an audit under other Pythons', 'Django agrees with honest tests alone'],
    reason: /^this host has no Python of |^needs root: the audit gives it up$/,
    why: 'the trainer’s own Python plays all attacks in any run; others are what a machine happens to have',
  },
  {
    file: 'test/integration/audit-pythons.test.ts',
    tests: /with honest tests alone$/,
    reason: /^pytest cannot be fetched here$/,
    why: FETCHED_ONCE,
  },
  {
    file: 'test/integration/object-store.test.ts',
    tests: [
      'artifact store: s3',
      'an S3 store whose server misbehaves',
      'objects of several parts',
      'a check of the bucket before a worker uses it',
      'stored objects are readable without Longhaul and equal the files of a directory store',
    ],
    reason: NO_S3_SERVER,
    why: WITHOUT_S3_SERVER,
  },
  {
    file: 'test/integration/object-store-run.test.ts',
    tests: ['an evaluation on a bucket'],
    reason: NO_S3_SERVER,
    why: WITHOUT_S3_SERVER,
  },
  {
    file: 'test/integration/publish.test.ts',
    tests: ['a policy in a bucket'],
    reason: NO_S3_SERVER,
    why: WITHOUT_S3_SERVER,
  },
  {
    file: 'test/integration/exports.test.ts',
    tests: ['exports of a bucket'],
    reason: NO_S3_SERVER,
    why: WITHOUT_S3_SERVER,
  },
  {
    file: 'test/integration/exports.test.ts',
    tests: ['exports and their readers'],
    reason: /^the readers of exports cannot be installed here: /,
    why: FETCHED_ONCE,
  },
  {
    file: 'test/integration/trackers.test.ts',
    tests: ['MLflow', 'TensorBoard', 'Weights & Biases'],
    reason: /^the packages of trackers cannot be installed here: /,
    why: FETCHED_ONCE,
  },
  {
    file: 'test/integration/metrics.test.ts',
    tests: ['the shipped rules', 'Prometheus scrapes it and finds the SDK metrics that the dashboard uses'],
    reason: /^Prometheus is neither on PATH nor a package of this system: /,
    why: 'metrics need no Prometheus on the machine of the worker; CI has Debian packages',
  },
  {
    file: 'trainer/tests/test_adapter.py',
    tests: ['test_peft_on_the_base_computes_the_same_as_the_policy'],
    reason: /LONGHAUL_PEFT_PACKAGE names no folder with the package peft$/,
    why: FETCHED_ONCE,
  },
  {
    file: 'trainer/tests/test_import_gguf.py',
    tests: /^/,
    reason: /LONGHAUL_GGUF_PACKAGE names no folder with the package gguf$/,
    why: FETCHED_ONCE,
  },
  {
    file: 'test/integration/attacks/kernel-stock.test.ts',
    tests: ['stock of the kernel'],
    reason: /^needs root: only root may count what containers keep in the kernel$/,
    why: 'without root the worker cannot watch either, as docs/security.md says; CI is root',
  },
  {
    file: 'test/integration/audit-driver.test.ts',
    tests: ['an audit of hidden tests'],
    reason: /^needs root: the audit gives it up$/,
    why: 'only root may become another user; CI is root',
  },
  {
    file: 'test/integration/audit-honest.test.ts',
    tests: ['an audit of honest tests'],
    reason: /^needs root: the audit gives it up$/,
    why: 'only root may become another user; CI is root',
  },
  {
    file: 'test/integration/grading-differential.test.ts',
    tests: [
      'fork-4.0.3: damaged logs are graded as the harness grades them',
      'rebench-v2: damaged logs are graded as the harness grades them',
    ],
    reason: SOURCE,
    why: NO_CHECKOUT,
  },
  {
    file: 'test/integration/grading-scripts.test.ts',
    tests: [
      'fork-4.0.3: scripts equal the harness’s with an installation, without one, and for a repository with its own rule',
    ],
    reason: SOURCE,
    why: NO_CHECKOUT,
  },
  {
    file: 'test/integration/grading-scripts.test.ts',
    tests: [
      'swebench-4.1: scripts equal the harness’s for every repository and version it knows',
      'swebench-5: scripts of rows equal the harness’s, with and without binary files',
      'the committed test commands equal those of the package',
    ],
    reason: NO_HARNESS,
    why: FETCHED_ONCE,
  },
  {
    file: 'test/integration/grading-containers.test.ts',
    tests: [
      'swebench-4.1: every kind of patch is reported like the harness reports it',
      'swebench-5: every kind of patch is reported like the harness reports it',
    ],
    reason: NO_HARNESS,
    why: FETCHED_ONCE,
  },
  {
    file: 'test/integration/task-images.test.ts',
    tests: [
      'a built image is found again, holds no later commit or password, and its task passes the gate',
      'names a Python that the host lacks, with what the host has and how to install it',
      'names a commit that the mirror lacks, with the command that fetches it',
      'names a missing mirror, with the accepted names',
      'a failing installation shows its last lines and leaves no image',
      'names a base image without git',
    ],
    reason: /^no Python of uv, pyenv or conda on this host$/,
    why: 'a build copies a Python of the host, which a plain machine need not have; CI has pyenv',
  },
  {
    file: 'test/integration/server-packages.test.ts',
    tests: ['vLLM', 'SGLang', 'start commands'],
    reason: /^the packages cannot be installed here: |^vLLM and SGLang are packaged for Linux only$/,
    why: FETCHED_ONCE,
  },
  {
    file: 'test/integration/lying-vllm.test.ts',
    tests: ['a vLLM server that misreports'],
    reason: /^vLLM without a GPU needs an x86-64 processor|^vLLM for processors cannot be installed here: /,
    why: `its kernels are for AVX2 alone; elsewhere ${FETCHED_ONCE}`,
  },
  {
    file: 'test/integration/live-vllm.test.ts',
    tests: ['a running vLLM'],
    reason: /^vLLM without a GPU needs an x86-64 processor|^vLLM for processors cannot be installed here: /,
    why: `its kernels are for AVX2 alone; elsewhere ${FETCHED_ONCE}`,
  },
  {
    file: 'test/integration/live-vllm-chat.test.ts',
    tests: ['the chat route of a running vLLM'],
    reason: /^vLLM without a GPU needs an x86-64 processor|^vLLM for processors cannot be installed here: /,
    why: `its kernels are for AVX2 alone; elsewhere ${FETCHED_ONCE}`,
  },
  {
    file: 'test/integration/live-llama-cpp.test.ts',
    tests: ['a running llama.cpp'],
    reason: /^llama\.cpp’s package needs an x86-64 processor|^llama\.cpp cannot be installed here: /,
    why: `its package is compiled for AVX2; elsewhere ${FETCHED_ONCE}`,
  },
  {
    file: 'test/integration/sandbox-images.test.ts',
    tests: ['an image with only busybox gives an error that names git, and works once git is there'],
    reason: /^no busybox-static to be had here$/,
    why: FETCHED_ONCE,
  },
  {
    file: 'src/adapters/trainer-job/launchers/slurm-launcher.test.ts',
    tests: ['slurm launcher'],
    reason: /^slurmd needs root$|^Slurm is not installed and its packages cannot be had: /,
    why: 'Slurm is no part of a set-up; its Debian packages are fetched where they can be, as in CI',
  },
  {
    file: 'src/adapters/trainer-job/launchers/kubernetes-manifests.test.ts',
    tests: ['the types of Kubernetes and JobSet know every field of a manifest'],
    reason: /^Go is not installed$/,
    why: 'a machine whose Temporal program is already built needs no Go; CI has it',
  },
  {
    file: 'src/adapters/trainer-job/launchers/kubernetes-launcher.test.ts',
    tests: ['kubernetes launcher'],
    reason: NO_KUBECTL,
    why: WITHOUT_KUBECTL,
  },
  {
    file: 'test/integration/kubernetes-sandbox.test.ts',
    tests: ['sandboxes as pods'],
    reason: NO_CLUSTER,
    why: 'its programs are a long build from Go modules that is asked for by hand: node test/support/kubernetes/programs.ts; it also needs root and containerd',
  },
  {
    file: 'test/chaos/pods.test.ts',
    tests: ['an evaluation in pods'],
    reason: new RegExp(`${NO_CLUSTER.source}|^needs root and a Docker engine to start$`),
    why: 'a Kubernetes is a long build from Go modules that is asked for by hand and by .ci/run; it also needs root and containerd',
  },
  {
    file: 'test/integration/helm-install.test.ts',
    tests: ['the chart on a cluster'],
    reason: new RegExp(`${NO_CLUSTER.source}|${NO_HELM.source}`),
    why: 'a Kubernetes and Helm are long builds from Go modules that are asked for by hand and by .ci/run; a Kubernetes also needs root and containerd',
  },
  {
    file: 'test/integration/kubernetes-trainer.test.ts',
    tests: ['training jobs on Kubernetes'],
    reason: NO_CLUSTER,
    why: 'its programs are a long build from Go modules that is asked for by hand: node test/support/kubernetes/programs.ts; it also needs root and containerd',
  },
  {
    file: 'src/adapters/egress/egress-proxy.test.ts',
    tests: [
      'a hostile name is looked up once, and the proxy dials only the checked address while other look-ups continue',
    ],
    reason: NO_NAMESPACES,
    why: WITHOUT_NAMESPACES,
  },
  {
    file: 'test/planted/planted.test.ts',
    tests: /^the fence of a Kubernetes Job: /,
    reason: NO_KUBECTL,
    why: WITHOUT_KUBECTL,
  },
  {
    file: 'test/planted/planted.test.ts',
    tests: /^the checked address is dialled: /,
    reason: NO_NAMESPACES,
    why: WITHOUT_NAMESPACES,
  },
  {
    file: 'test/chaos/bucket.test.ts',
    tests: /: the records equal those of the run without faults$/,
    reason: /^needs root and a Docker engine to start$/,
    why: 'faults strike an engine of their own, which only root may start; CI is root',
  },
  {
    file: 'test/chaos/bucket.test.ts',
    tests: /: the records equal those of the run without faults$/,
    reason: NO_S3_SERVER,
    why: WITHOUT_S3_SERVER,
  },
  {
    file: 'test/chaos/chaos.test.ts',
    tests: /: the records equal those of the run without faults, as far as the fault allows$/,
    reason: /^needs root and a Docker engine to start$/,
    why: 'faults strike an engine of their own, which only root may start; CI is root',
  },
  {
    file: 'test/integration/doctor.test.ts',
    tests: ['--fix builds a missing sandbox image, and a second run finds nothing to fix'],
    reason: /^needs root and a Docker engine to start$/,
    why: 'the image is missing in an engine of its own, which only root may start; CI is root',
  },
  {
    file: 'src/cli/run-cli.test.ts',
    tests: [
      'a disk without room: one line names the file, and nothing of it is left',
      'a result that is a mount of its own, as a file that a container was given: its content is replaced',
    ],
    reason: /^needs root: mounts a file system$/,
    why: NEEDS_ROOT,
  },
  {
    file: 'test/support/runner/run-test-files.test.ts',
    tests: ['a mount that a test leaves is removed and reported as a failure of the run'],
    reason: /^needs root: mounts a file system$/,
    why: NEEDS_ROOT,
  },
  {
    file: 'test/integration/stalls.test.ts',
    tests: ['names the store and the key of a file that never answers'],
    reason: /^needs root: mounts a file system$|^this kernel has no FUSE$/,
    why: 'only a file system that stops answering makes a call for a plain file wait; CI is root and has FUSE',
  },
  {
    file: 'test/integration/full-disks.test.ts',
    tests: ['a full disk of the store is Artifact.OutOfDisk, is retried, leaves no partial file, and is reported'],
    reason: /^needs root: mounts a file system$/,
    why: NEEDS_ROOT,
  },
  {
    file: 'test/integration/sandbox-disk.test.ts',
    tests: [
      'an agent that fills the disk ends its turn with a result that says so, and the next turn frees it',
      'turns on a full host fail by name after a while, and continue when there is room again',
    ],
    reason: /^needs root: mounts a file system and starts an engine$/,
    why: NEEDS_ROOT,
  },
  {
    file: 'trainer/tests/test_plan.py',
    tests: ['test_bench_without_a_gpu_says_so'],
    reason: /^there is a GPU$/,
    why: 'on a machine with a GPU there is nothing to refuse',
  },
  {
    file: 'trainer/tests/test_first_forward.py',
    tests: ['test_ranks_that_share_rows_or_batch_give_the_same_bits'],
    reason: /^deselected, marked slow$/,
    why: LONG,
  },
  {
    file: 'trainer/tests/test_kills.py',
    tests: ['test_full_disk_is_73_and_leaves_no_partial_output'],
    reason: /^mounting a small disk needs root$/,
    why: NEEDS_ROOT,
  },
  {
    file: 'trainer/tests/test_kills.py',
    tests: ['test_sigkill_loses_at_most_one_step_and_no_bit', 'test_sigterm_at_every_phase_leaves_a_resumable_job'],
    reason: /^deselected, marked slow$/,
    why: LONG,
  },
  {
    file: 'trainer/tests/test_simulate.py',
    tests: ['test_the_planner_is_within_a_tenth_of_the_simulated_peak_of_every_shipped_recipe'],
    reason: /^deselected, marked slow$/,
    why: LONG,
  },
  {
    file: 'trainer/tests/test_plan.py',
    tests: ['test_chunked_head_peaks_below_the_plain_one_and_grows_linearly_with_tokens'],
    reason: /^deselected, marked slow$/,
    why: LONG,
  },
  {
    file: 'trainer/tests/test_rank_jobs.py',
    tests: [
      'test_two_ranks_killed_at_any_point_resume_to_the_same_bytes',
      'test_signal_to_one_rank_stops_both_with_75',
    ],
    reason: /^deselected, marked slow$/,
    why: LONG,
  },
  {
    file: 'trainer/tests/test_rank_kills.py',
    tests: [
      'test_killed_ranks_lose_at_most_one_step_and_no_bit',
      'test_a_stalled_rank_is_detected_and_named_and_cannot_commit_later',
    ],
    reason: /^deselected, marked slow$/,
    why: LONG,
  },
  {
    file: 'trainer/tests/test_step_process.py',
    tests: ['test_two_concurrent_attempts_commit_once'],
    reason: /^deselected, marked slow$/,
    why: LONG,
  },
]
