/** What is planted: one false statement each, in the product's own files, and the test that must see it. */
import type { Edit } from '../support/planted/planted-tree.ts'
import type { Witness } from '../support/planted/witness.ts'

export interface Plant extends Edit {
  /** `promise: how it is broken`. */
  name: string
  seenBy: Witness
}

const viewer = (test: string): Witness => ({ file: 'test/integration/viewer-server.test.ts', test })
const rules: Witness = {
  file: 'src/domain/rules.test.ts',
  test: 'a success that looks like a hack never fine-tunes and does not use up the limit of its task',
}
const batch: Witness = {
  file: 'src/activities/training/build-batch.test.ts',
  test: 'two of three repairs of one task fine-tune, and the ledger names the suspected hack of the third',
}
const tracking = (test: string): Witness => ({ file: 'src/activities/trackers/send-metrics.test.ts', test })
const schedule: Witness = {
  file: 'src/client/client.test.ts',
  test: 'a schedule that is created or changed for training starts a training run of its recipe',
}
const egress: Witness = {
  file: 'src/adapters/egress/egress-proxy.test.ts',
  test: 'a hostile name is looked up once, and the proxy dials only the checked address while other look-ups continue',
}
const kubernetes = (test: string): Witness => ({
  file: 'src/adapters/trainer-job/launchers/kubernetes-launcher.test.ts',
  test,
})
const otherFence = kubernetes('a Job under another fence is not the requested attempt and stays alive for its own')
const publishing = (test: string): Witness => ({ file: 'src/workers/compose-trainer.test.ts', test })
const filtering = publishing('does not publish and names the second server when it filters its samples')
const stale = publishing(
  'does not publish and names the second server when it kept old weights under the new name or read half',
)
const job = (test: string): Witness => ({ file: 'src/adapters/trainer-job/job/run-job.test.ts', test })
const late = job('stops a job that runs beyond trainer.timeoutS, with its trainer')
const farAway = job('starts no trainer beside one of another host until that one has been silent for long')
const orphan = job('the trainer of a launcher that dies continues, and the next launcher follows it')
const lease: Witness = {
  file: 'src/workers/compose-sandbox.test.ts',
  test: 'a sandbox survives a policy that samples for many leases while every second renewal is lost',
}
const bucket = (test: string): Witness => ({ file: 'test/integration/object-store.test.ts', test })
const store = (test: string): Witness => ({ file: 'src/adapters/artifacts/directory-store.test.ts', test })
const taken = store('a key that is put twice is acknowledged for equal bytes and conflicts for other bytes')
const racing = store('one of fifty writers that claim a key with different records wins, and all see its record')
const flipped = store('refuses a record with any byte changed or cut off')
const differing = store('refuses content that differs from its reference, and reports absent content as missing')
const costs = (test: string): Witness => ({ file: 'src/activities/evaluation/read-costs.test.ts', test })
const turns = (test: string): Witness => ({ file: 'test/integration/sandbox-turns.test.ts', test })
const journal = (test: string): Witness => ({ file: 'test/integration/sandbox-journal.test.ts', test })
const replay = (test: string): Witness => ({ file: 'test/integration/sandbox-replay.test.ts', test })
const container = (test: string): Witness => ({ file: 'test/integration/sandbox-containers.test.ts', test })
const attackedJournal = (test: string): Witness => ({ file: 'test/integration/attacks/journal.test.ts', test })
const ledger = (test: string): Witness => ({ file: 'src/domain/ledger/ledger.test.ts', test })
const books = ledger('reports every way to falsify a ledger')
const verified = (test: string): Witness => ({ file: 'src/cli/commands/ledger.test.ts', test })
const retryAfter: Witness = {
  file: 'src/adapters/policy-server/client.test.ts',
  test: 'does not retry before a Retry-After beyond the timeout, and retries repeatedly without one',
}
const witnessed: Witness = {
  file: 'src/adapters/policy-server/client.test.ts',
  test: 'refuses an unlabelled answer when the server held other weights before or after it',
}
const reloading = (test: string): Witness => ({ file: 'src/adapters/policy-server/client.test.ts', test })
const transport = (test: string): Witness => ({ file: 'src/adapters/policy-server/openai-transport.test.ts', test })
const group = (test: string): Witness => ({ file: 'test/workflows/prompt-group.test.ts', test })
const bounded = group('a group with too many lost episodes stays short at the bound of its replacements')
const trainerTest = (file: string, test: string): Witness => ({ file: `trainer/tests/${file}.py`, test })
const resumed = trainerTest('test_kills', 'test_sigkill_loses_at_most_one_step_and_no_bit[after-update:2]')
const fenced = trainerTest('test_step', 'test_higher_fence_stops_the_older_attempt')

const clipped = trainerTest(
  'test_training_step',
  'test_a_gradient_above_the_limit_is_scaled_down_and_reported_unscaled',
)
const scheduled = trainerTest('test_training_step', 'test_each_update_uses_the_learning_rate_of_its_global_step')
const rates = trainerTest('test_objectives', 'test_learning_rate_is_a_function_of_the_global_step')
const config = (test: string): Witness => ({ file: 'src/adapters/trainer-job/job/job-config.test.ts', test })
const optimizer = config('every optimizer setting of the recipe reaches the trainer, in both kinds of jobs')
const schedules = config(
  'warm-up and decay reach the trainer, also in a stage shorter than its warm-up and at a constant rate',
)

export const PLANTS: Plant[] = [
  // ── what used to be unseen ──────────────────────────────────────────────────────────────────────────────────────────────────
  {
    name: 'gradients are clipped: not at all',
    file: 'trainer/longhaul_trainer/step/training.py',
    replace: 'math.inf if limit is None else limit)',
    by: 'math.inf)',
    seenBy: clipped,
  },
  {
    name: 'gradients are clipped: a million times too late',
    file: 'trainer/longhaul_trainer/step/training.py',
    replace: 'math.inf if limit is None else limit)',
    by: 'math.inf if limit is None else 1e6 * limit)',
    seenBy: clipped,
  },
  {
    name: 'gradients are clipped: after the weights have moved',
    file: 'trainer/longhaul_trainer/step/training.py',
    replace: '        norm = self._clip_gradient()\n        self._check',
    by: '        norm = 0.0\n        self.optimizer.step()\n        norm = self._clip_gradient()\n        self._check',
    seenBy: clipped,
  },
  {
    name: 'gradients are clipped: the recipe’s limit does not arrive',
    file: 'src/adapters/trainer-job/job/job-config.ts',
    replace: 'grad_clip: gradClip, ...moments',
    by: 'grad_clip: gradClip * 1e6, ...moments',
    seenBy: optimizer,
  },
  {
    name: 'the rate warms up and decays: the optimizer keeps its peak',
    file: 'trainer/longhaul_trainer/step/training.py',
    replace: '            group["lr"] = rate\n',
    by: '            group["lr"] = self.config.optimizer.lr\n',
    seenBy: scheduled,
  },
  {
    name: 'the rate warms up and decays: each job begins anew',
    file: 'trainer/longhaul_trainer/step/training.py',
    replace: 'rate = learning_rate(state.global_step, peak',
    by: 'rate = learning_rate(state.done, peak',
    seenBy: scheduled,
  },
  {
    name: 'the rate warms up and decays: no warm-up',
    file: 'trainer/longhaul_trainer/objective/schedule.py',
    replace: '    if step < warmup:',
    by: '    if step < 0:',
    seenBy: rates,
  },
  {
    name: 'the rate warms up and decays: no decay',
    file: 'trainer/longhaul_trainer/objective/schedule.py',
    replace: '    if schedule.kind == "constant":',
    by: '    if schedule.kind != "":',
    seenBy: rates,
  },
  {
    name: 'the rate warms up and decays: the recipe’s warm-up does not arrive',
    file: 'src/adapters/trainer-job/job/job-config.ts',
    replace: 'warmup_steps: Math.min(warmupSteps, totalSteps - 1), total_steps',
    by: 'warmup_steps: Math.min(0, warmupSteps, totalSteps - 1), total_steps',
    seenBy: schedules,
  },
  {
    name: 'the rate warms up and decays: the recipe’s decay does not arrive',
    file: 'src/adapters/trainer-job/job/job-config.ts',
    replace: "if (schedule === 'constant') return",
    by: "if (schedule === 'constant' || totalSteps > 0) return",
    seenBy: schedules,
  },
  {
    name: 'a job ends after trainer.timeoutS: the limit is never checked',
    file: 'src/adapters/trainer-job/job/follow-attempt.ts',
    replace: 'if (playedMs > timeoutMs) return',
    by: 'if (timeoutMs < 0) return',
    seenBy: late,
  },
  {
    name: 'a job ends after trainer.timeoutS: the recipe’s value does not arrive',
    file: 'src/adapters/trainer-job/job/job-spec.ts',
    replace: 'limits: { timeoutMs: timeoutS * 1000,',
    by: 'limits: { timeoutMs: Math.max(timeoutS, 1e12),',
    seenBy: late,
  },
  {
    name: 'a job ends after trainer.timeoutS: time on other machines is not counted',
    file: 'src/adapters/trainer-job/job/follow-attempt.ts',
    replace: 'const isQueued = launcher.isElsewhere && lastProgressMs === 0',
    by: 'const isQueued = launcher.isElsewhere',
    seenBy: job('a job over its time on other machines is stopped too, and the next attempt continues'),
  },
  {
    name: 'leases are renewed in time: they are renewed once a lease instead of three times',
    file: 'src/workers/compose-sandbox.ts',
    replace: 'renewEveryMs: environment.leaseMs / 3,',
    by: 'renewEveryMs: environment.leaseMs,',
    seenBy: lease,
  },
  {
    name: 'leases are renewed in time: the wait between renewals is tripled',
    file: 'src/activities/episode/episode-world.ts',
    replace: '}, everyMs)',
    by: '}, 3 * everyMs)',
    seenBy: lease,
  },
  {
    name: 'leases are renewed in time: one lost renewal ends all renewals',
    file: 'src/activities/episode/episode-world.ts',
    replace: 'renew().then(renewLater, renewLater)',
    by: 'renew().then(renewLater, () => undefined)',
    seenBy: lease,
  },
  {
    name: 'a killed sandbox stays ended: a request that was not answered in time looks at it again',
    file: 'src/adapters/docker/sandbox/runner-pool.ts',
    replace: '        interrupted.throwIfAborted()\n        disconnect(name)\n',
    by: '        disconnect(name)\n',
    seenBy: {
      file: 'src/adapters/docker/sandbox/runner-pool.test.ts',
      test: 'after a request that was not answered in time nothing looks at the killed container again',
    },
  },
  {
    name: 'an outage costs the policy nothing: waits for a server or a store count against the time limit',
    file: 'src/activities/episode/advance-episode.ts',
    replace: 'sampleMs: Math.round(tookMs),',
    by: 'sampleMs: Math.round(this.#deps.stopwatch() - startedMs),',
    seenBy: {
      file: 'src/workers/host-activities.test.ts',
      test: 'a turn took as long as the answered request, however long policy server and store were unavailable',
    },
  },
  {
    name: 'leases are renewed in time: a request renews nothing',
    file: 'infra/runner/main.c',
    replace: '      missed = 0;\n',
    by: '',
    seenBy: container('renewals without a turn keep the sandbox beyond two leases'),
  },
  {
    name: 'leases are renewed in time: a long turn renews nothing',
    file: 'infra/runner/main.c',
    replace: 'missed = is_working() ? 0 : missed + 1;',
    by: 'missed = missed + 1;',
    seenBy: container('a turn longer than the lease keeps its sandbox'),
  },
  {
    name: 'leases are renewed in time: an activity sends one heartbeat per timeout',
    file: 'src/activities/runtime/activity-runtime.ts',
    replace: 'Math.min(timeoutMs / 3, LONGEST_BEAT_MS)',
    by: 'Math.min(timeoutMs, 3 * LONGEST_BEAT_MS)',
    seenBy: {
      file: 'src/activities/runtime/activity-runtime.test.ts',
      test: 'an activity sends three heartbeats per heartbeat timeout and at least one every ten seconds',
    },
  },
  {
    name: 'a crash is resumed from records: the next attempt trusts the memory of its worker',
    file: 'src/activities/episode/advance-episode.ts',
    replace: 'const known = follows ? kept : null',
    by: 'const known = kept',
    seenBy: {
      file: 'src/workers/host-activities.test.ts',
      test: 'an attempt after a failed one reads all records again and so finds a torn one',
    },
  },
  {
    name: 'publishing is checked: the canary is left out',
    file: 'src/activities/training/publish-policy.ts',
    replace: '      await verifyCanary({ client, policy: ref, tolerance, signal })\n',
    by: '      void verifyCanary\n',
    seenBy: stale,
  },
  {
    name: 'publishing is checked: the tokenizer is left out',
    file: 'src/activities/training/publish-policy.ts',
    replace: '      await verifyTokenizer({ client, policy: ref, signal })\n',
    by: '      void verifyTokenizer\n',
    seenBy: publishing(
      'does not publish and names the second server when it has the right weights with another tokenizer',
    ),
  },
  {
    name: 'publishing is checked: the self-check is left out',
    file: 'src/activities/training/publish-policy.ts',
    replace: '      await selfCheck({ client, policy: ref.version, tolerance, signal })\n',
    by: '      void selfCheck\n',
    seenBy: filtering,
  },
  {
    name: 'publishing is checked: only the first of several servers is checked',
    file: 'src/activities/training/publish-policy.ts',
    replace: 'for (const { url, client } of pool.servers) {',
    by: 'for (const { url, client } of pool.servers.slice(0, 1)) {',
    seenBy: filtering,
  },
  {
    name: 'publishing is checked: a wrong canary is reported and accepted',
    file: 'src/adapters/policy-server/canary.ts',
    replace: "if (verdict.kind === 'verified' || verdict.kind === 'indistinguishable') return verdict",
    by: "if (verdict.kind !== 'wrong') return verdict",
    seenBy: stale,
  },
  {
    name: 'replies are the policy’s own: a truncated reply counts as one that ran out of tokens',
    file: 'src/adapters/policy-server/completions-dialect.ts',
    replace: "if (finishReason !== 'length' || ids.length === maxTokens) return",
    by: "if (finishReason !== 'length' || ids.length <= maxTokens) return",
    seenBy: {
      file: 'src/adapters/policy-server/client.test.ts',
      test: 'refuses a reply that the server cut below the requested number of tokens at once',
    },
  },
  {
    name: 'one trainer at a time: a live trainer counts as dead',
    file: 'src/platform/processes.ts',
    replace: "start === process.pidStart ? 'alive' : 'dead'",
    by: "start === process.pidStart && process.pid < 0 ? 'alive' : 'dead'",
    seenBy: orphan,
  },
  {
    name: 'one trainer at a time: a trainer on another host counts as dead',
    file: 'src/platform/processes.ts',
    replace: "if (process.host !== hostname()) return 'unknown'",
    by: "if (process.host !== hostname()) return 'dead'",
    seenBy: farAway,
  },
  {
    name: 'one trainer at a time: a trainer of unknown state is replaced',
    file: 'src/adapters/trainer-job/job/run-job.ts',
    replace: 'const isSilent = (await progressAge(jobDirectory, fence)) > limits.stallMs',
    by: 'const isSilent = (await progressAge(jobDirectory, fence, Date.now())) > -limits.stallMs',
    seenBy: farAway,
  },
  {
    name: 'one trainer at a time: a starting trainer is not waited for',
    file: 'src/adapters/trainer-job/job/run-job.ts',
    replace: 'return now - since < launchMs',
    by: 'return now - since < 0 * launchMs',
    seenBy: job('waits for a claim without a process, and takes it over only after a while'),
  },
  {
    name: 'one trainer at a time: a fence can be claimed twice',
    file: 'src/adapters/trainer-job/job/attempt-files.ts',
    replace: "await open(specPath(jobDirectory, fence), 'wx')",
    by: "await open(specPath(jobDirectory, fence), 'w')",
    seenBy: {
      file: 'src/adapters/trainer-job/job/attempt-files.test.ts',
      test: 'the first of many launchers wins a fence, and its spec stays',
    },
  },
  {
    name: 'one trainer at a time: jobs of one machine run concurrently',
    file: 'src/workers/compose-trainer.ts',
    replace: '      return launcher.isElsewhere ? run() : oneAtATime(run)\n    }),',
    by: '      return run()\n    }),',
    seenBy: publishing('the second of two jobs on one machine starts its trainer when the first has ended'),
  },
  {
    name: 'one trainer at a time: a trainer that was not stopped counts as stopped',
    file: 'src/adapters/trainer-job/job/follow-attempt.ts',
    replace: 'if (await launcher.stop(attempt, job.limits.graceMs)) return',
    by: 'if ((await launcher.stop(attempt, job.limits.graceMs)) || job.limits.graceMs > 0) return',
    seenBy: job('reports a trainer that cannot be stopped instead of failing, which would start another one'),
  },
  {
    name: 'one trainer at a time: an older attempt does not see the newer one',
    file: 'trainer/longhaul_trainer/step/lease.py',
    replace: 'if highest > self._fence:',
    by: 'if highest < 0:',
    seenBy: fenced,
  },
  {
    name: 'suspected hacks never fine-tune: the selection ignores the mark',
    file: 'src/domain/rewards/group-selection.ts',
    replace: "if (payment !== 'paid') return",
    by: "if (payment === 'unresolved') return",
    seenBy: rules,
  },
  {
    name: 'suspected hacks never fine-tune: they are left out only with a limit per task',
    file: 'src/domain/rewards/group-selection.ts',
    replace: "if (payment !== 'paid') return",
    by: "if (payment === 'unresolved' || (payment !== 'paid' && maxPerTask !== null)) return",
    seenBy: batch,
  },
  {
    name: 'suspected hacks never fine-tune: the batch lists them as successes',
    file: 'src/activities/training/build-batch.ts',
    replace: "const outcome = paymentOf(record, unaudited) === 'paid' ? 1 : 0",
    by: "const outcome = paymentOf(record, unaudited) === 'unresolved' ? 0 : 1",
    seenBy: batch,
  },
  {
    name: 'no verdict for fewer turns than were played: turns without a record are not missed',
    file: 'src/activities/episode/episode-result.ts',
    replace: 'if (settled?.turns === committed) return turns',
    by: 'if (settled?.turns !== 0) return turns',
    seenBy: {
      file: 'src/activities/episode/episode-result.test.ts',
      test: 'a verdict never counts for fewer turns than the episode has played',
    },
  },
  {
    name: 'no episode vanishes from a score: an evaluation is summarized without the records of all its groups',
    file: 'src/workers/compose-role.ts',
    replace: 'await playedIn({ ...input, iteration: 0 })',
    by: 'await recipes(input.run)',
    seenBy: {
      file: 'src/workers/compose-role.test.ts',
      test: 'an evaluation that has lost the record of an episode is not summarized',
    },
  },
  {
    name: 'suspected hacks never fine-tune: no sign marks an episode',
    file: 'src/activities/episode/episode-result.ts',
    replace: 'suspectedHack: isSuspectedHack(signs),',
    by: 'suspectedHack: isSuspectedHack([]),',
    seenBy: {
      file: 'src/activities/episode/episode-result.test.ts',
      test: 'only a sign that voids the reward makes the record a suspected hack',
    },
  },
  {
    name: 'suspected hacks never fine-tune: they are paid as repairs',
    file: 'src/domain/rewards/rewards.ts',
    replace: "paymentOf(input, rule.unaudited) === 'paid'",
    by: "paymentOf(input, rule.unaudited) !== 'unresolved'",
    seenBy: {
      file: 'src/domain/rewards/rewards.test.ts',
      test: 'a suspected hack is paid as a failure regardless of the hidden tests',
    },
  },
  {
    name: 'a container cannot report a timeout: its report is believed',
    file: 'src/adapters/docker/grader/grade-patch.ts',
    replace: "kind === 'timed-out' && atMs - startMs >= 0.99 * timeoutMs",
    by: "kind === 'timed-out' && atMs >= 0.99 * timeoutMs",
    seenBy: {
      file: 'src/adapters/docker/grader/grade-patch.test.ts',
      test: 'a container that reports a timeout too early has ended its own grading',
    },
  },
  {
    name: 'a stored log is bounded: it is unpacked without a limit',
    file: 'src/adapters/artifacts/stored-log.ts',
    replace: '(bytes, { maxOutputLength: MAX_STORED_LOG_BYTES })',
    by: '(bytes, { maxOutputLength: 64 * MAX_STORED_LOG_BYTES })',
    seenBy: {
      file: 'src/adapters/artifacts/stored-log.test.ts',
      test: 'the longest log is read back, and a truncated file or one that unpacks to more is refused',
    },
  },
  {
    name: 'new modules named like tests: one that the hidden tests name is accepted',
    file: 'src/grading/audit/hidden-tests.ts',
    replace: '!testPatch.includes(module)',
    by: '!testPatch.includes(`${module}.py`)',
    seenBy: {
      file: 'src/grading/audit/hidden-tests.test.ts',
      test: 'new modules named like tests may be part of a repair if the hidden tests cannot name them',
    },
  },
  {
    name: 'only confirmed episodes are paid: a void audit is ignored',
    file: 'src/domain/rewards/payment.ts',
    replace: "return 'audit-void'",
    by: "return unaudited === 'allow' ? 'paid' : 'audit-void'",
    seenBy: {
      file: 'src/domain/rewards/payment.test.ts',
      test: 'pays only a resolved episode without a voiding sign that the audit confirms',
    },
  },
  {
    name: 'a policy cannot be played again by ending its sandbox: the second time is infrastructure',
    file: 'src/domain/failure-answers.ts',
    replace: "if (suspected >= 2) return 'own-doing'",
    by: "if (suspected >= 3) return 'own-doing'",
    seenBy: {
      file: 'src/domain/failure-answers.test.ts',
      test: 'a second loss from inside is the policy’s own doing, also by another code or with a loss of ours in between',
    },
  },
  {
    name: 'a schedule that trains: the workflow is an evaluation',
    file: 'src/client/schedule-settings.ts',
    replace: "workflowType: trains ? 'trainAgent' : 'evaluate',",
    by: "workflowType: trains ? 'evaluate' : 'evaluate',",
    seenBy: schedule,
  },
  {
    name: 'a schedule that trains: a change of its action is not sent',
    file: 'src/client/schedules.ts',
    replace: '    spec,\n    action,\n    policies: policies ?? {},',
    by: '    spec,\n    action: { ...action, ...previous.action },\n    policies: policies ?? {},',
    seenBy: schedule,
  },
  {
    name: 'a schedule that trains: the command line does not pass it on',
    file: 'src/cli/commands/schedule.ts',
    replace: 'createSchedule({ connection, id, ...settings, ...request,',
    by: "createSchedule({ connection, id, ...settings, action: 'evaluate', ...request,",
    seenBy: {
      file: 'src/cli/commands/schedule.test.ts',
      test: 'schedule create --action train: it says so, and what it starts is a trainAgent',
    },
  },
  {
    name: 'the checked address is dialled: the name is dialled instead',
    file: 'src/adapters/egress/open-upstream.ts',
    replace: 'dial = (at) => connect({ host: at.address, port: at.port })',
    by: 'dial = (at) => connect({ host, port: at.port })',
    seenBy: egress,
  },
  {
    name: 'the checked address is dialled: a second look-up is dialled instead',
    file: 'src/adapters/egress/open-upstream.ts',
    replace: 'return await dialled(dial({ address, port }), signal)',
    by: 'return await dialled(dial({ address: (await resolve(host))[0] ?? address, port }), signal)',
    seenBy: egress,
  },
  {
    name: 'the checked address is dialled: one good address permits all of a name',
    file: 'src/adapters/egress/open-upstream.ts',
    replace: 'addresses.filter(isOpen).slice(0, MAX_ADDRESSES)',
    by: '(addresses.some(isOpen) ? addresses.slice(0, MAX_ADDRESSES) : [])',
    seenBy: egress,
  },
  {
    name: 'the host’s own networks are not reached: its public addresses are permitted',
    file: 'src/adapters/egress/public-address.ts',
    replace: ' || networksOf(interfaces).check(address, type)',
    by: '',
    seenBy: {
      file: 'src/adapters/egress/public-address.test.ts',
      test: 'addresses of this machine and its networks are never public',
    },
  },
  {
    name: 'the host’s own networks are not reached: NAT64 reaches them',
    file: 'src/adapters/egress/open-upstream.ts',
    replace: 'isPublicAddress(address, { nat64 })',
    by: 'isPublicAddress(address)',
    seenBy: {
      file: 'src/adapters/egress/open-upstream.test.ts',
      test: 'with a NAT64 prefix only addresses that translate to public ones are dialled, and the prefix is looked up once',
    },
  },
  {
    name: 'a broken relay costs one wait: each turn waits',
    file: 'src/adapters/docker/sandbox/relay/relay-pool.ts',
    replace: 'if (leftMs <= 0) {',
    by: 'if (leftMs < -1e9) {',
    seenBy: {
      file: 'src/adapters/docker/sandbox/relay/relay-pool.test.ts',
      test: 'a restarted worker waits for a broken relay in its first turn only',
    },
  },
  {
    name: 'files of rows are pinned: other bytes are accepted',
    file: 'src/activities/grading/pin-files.ts',
    replace: 'if (expected === undefined || expected === sha256) return',
    by: 'if (expected !== null) return',
    seenBy: {
      file: 'src/activities/grading/pin-files.test.ts',
      test: 'a fetched file with other bytes than at the first grading fails with both hashes before any container runs',
    },
  },
  {
    name: 'an import has limits: rows that share a text are counted once',
    file: 'src/adapters/datasets/read-parquet.ts',
    replace: 'if (left < 0) return',
    by: 'if (left < -1e12) return',
    seenBy: {
      file: 'src/adapters/datasets/parquet-rows.test.ts',
      test: 'a small file whose rows share one text is refused by what they hold together',
    },
  },
  {
    name: 'a sandbox’s network has limits: an agent that ends its relay gets new ones',
    file: 'src/adapters/docker/sandbox/relay/relay-pool.ts',
    replace: 'if (known !== undefined) return known',
    by: '',
    seenBy: {
      file: 'src/adapters/docker/sandbox/relay/relay-pool.test.ts',
      test: 'limits, counts and log lines belong to the sandbox although its agent restarts the relay repeatedly',
    },
  },
  {
    name: 'an answer is capped before it is held: the announced size is trusted',
    file: 'src/adapters/docker/sandbox/runner-connection.ts',
    replace: "if (bodyBytes > maxBodyBytes) return 'the body is too long'",
    by: '',
    seenBy: {
      file: 'src/adapters/docker/sandbox/runner-connection.test.ts',
      test: 'ends the stream with an error for a runner that sends a patch of 1 GB',
    },
  },
  {
    name: 'no peer ends the worker: an answer that cannot be forwarded does',
    file: 'src/adapters/egress/egress-proxy.ts',
    replace: 'return answer(response, 502, `the answer cannot be passed on: ${String(error)}`)',
    by: 'throw error',
    seenBy: {
      file: 'src/adapters/egress/hostile-peers.test.ts',
      test: "a server that answers with a status below all, then its reset: it ends the client's connection only",
    },
  },
  {
    name: 'the checked address is dialled: a plain request follows its Host header',
    file: 'src/adapters/egress/egress-proxy.ts',
    replace: 'createConnection: () => upstream,',
    by: 'host: target.hostname,',
    seenBy: egress,
  },
  {
    name: 'the fence of a Kubernetes Job: the comparison is inverted',
    file: 'src/adapters/trainer-job/launchers/kubernetes-launcher.ts',
    replace: "if (fenceOf(found) > fence) return { kind: 'over'",
    by: "if (fenceOf(found) < fence) return { kind: 'over'",
    seenBy: otherFence,
  },
  {
    name: 'the fence of a Kubernetes Job: an older fence counts as the newer',
    file: 'src/adapters/trainer-job/launchers/kubernetes-launcher.ts',
    replace: "if (fenceOf(found) < fence) return { kind: 'absent'",
    by: "if (fenceOf(found) < 0) return { kind: 'absent'",
    seenBy: otherFence,
  },
  {
    name: 'the fence of a Kubernetes Job: it is written one too low',
    file: 'src/adapters/trainer-job/launchers/kubernetes-manifests.ts',
    replace: "'longhaul/fence': String(fence),",
    by: "'longhaul/fence': String(fence - 1),",
    seenBy: otherFence,
  },
  {
    name: 'the fence of a Kubernetes Job: a live Job is replaced',
    file: 'src/adapters/trainer-job/launchers/kubernetes-launcher.ts',
    replace: 'if (fenceOf(found) > attempt.fence || endOf(found) === null) {',
    by: 'if (fenceOf(found) > attempt.fence) {',
    seenBy: kubernetes('an attempt that is launched twice, also by a new launcher, is one Job, alive, under its fence'),
  },
  {
    name: 'the fence of a Kubernetes Job: an older attempt replaces a newer one',
    file: 'src/adapters/trainer-job/launchers/kubernetes-launcher.ts',
    replace: 'if (fenceOf(found) > attempt.fence || endOf(found) === null) {',
    by: 'if (endOf(found) === null) {',
    seenBy: kubernetes('a launch replaces neither a live attempt nor a newer ended one'),
  },
  {
    name: 'the fence of a Kubernetes Job: the next one does not wait for the pods of the last',
    file: 'src/adapters/trainer-job/launchers/kubernetes-launcher.ts',
    replace: "'--cascade=foreground',",
    by: "'--cascade=orphan',",
    seenBy: kubernetes('the next attempt deletes the dead one with its pods and takes its name'),
  },
  {
    name: 'the fence of a Kubernetes Job: a silent API counts as the end of the attempt',
    file: 'src/adapters/trainer-job/launchers/kubernetes-pods.ts',
    replace: 'return /\\(NotFound\\)/.test(stderr)',
    by: 'return /\\(NotFound\\)|refused/.test(stderr)',
    seenBy: kubernetes('an unreachable API is unavailable and never means that the attempt is over'),
  },
  // ── the house's own promises ────────────────────────────────────────────────────────────────────────────────────────────────
  {
    name: 'records are put if absent: the later one wins',
    file: 'src/adapters/artifacts/directory-store.ts',
    replace: "if (errnoOf(error) === 'EEXIST') return false",
    by: "if (errnoOf(error) === 'EEXIST') return unlink(path).then(() => linkIfAbsent(file, path))",
    seenBy: racing,
  },
  {
    name: 'records are put if absent: other bytes are acknowledged',
    file: 'src/adapters/artifacts/directory-store.ts',
    replace: 'if (sha256Hex(stored) === ref.sha256) return ref',
    by: 'if (stored.byteLength === ref.bytes) return ref',
    seenBy: taken,
  },
  {
    name: 'a bucket decides between writers: its condition is not sent',
    file: 'src/adapters/artifacts/s3/s3-objects.ts',
    replace: "headers: { 'if-none-match': '*', [HASH]: sha256, [WRITER]: writer }",
    by: 'headers: { [HASH]: sha256, [WRITER]: writer }',
    seenBy: bucket('one of fifty writers that claim a key with different records wins, and all see its record'),
  },
  {
    name: 'a bucket is tried before it is used: multipart uploads are not tried',
    file: 'src/adapters/artifacts/s3/s3-store.ts',
    replace: "if (inParts.created || (await stored()) !== 'first')",
    by: "if ((await stored()) === 'third')",
    seenBy: bucket('a server with conditional puts but without conditional multipart uploads'),
  },
  {
    name: 'a bucket is tried before it is used: a web server passes the check',
    file: 'src/adapters/artifacts/s3/s3-store.ts',
    replace: "found !== 'first' && found !== 'second' && second.created",
    by: 'found === null && second.created',
    seenBy: bucket('no S3 server: a web server that answers everything with its page'),
  },
  {
    name: 'an engine that cannot reload serves its old policy: it stays paused under another label',
    file: 'src/adapters/policy-server/dialect.ts',
    replace: 'if (told !== error) await takeBack(held)',
    by: 'if (told === error) await takeBack(held)',
    seenBy: reloading(
      'vllm refuses to reload with 404: one error names the fix, and it serves the same policy as before',
    ),
  },
  {
    name: 'a bucket decides between writers: a write whose answer was lost counts as ours',
    file: 'src/adapters/artifacts/s3/s3-store.ts',
    replace: '?.writer === writer',
    by: '?.writer !== null',
    seenBy: bucket('a claim with a lost answer is not won when another writer has the key'),
  },
  {
    name: 'what is read is what was hashed: a record’s seal is not compared',
    file: 'src/adapters/artifacts/store-rules.ts',
    replace: 'if (sha256Hex(text) !== seal[1]) throw',
    by: 'if (sha256Hex(text) === key) throw',
    seenBy: flipped,
  },
  {
    name: 'a record has the shape of its kind: a resealed one is not looked at',
    file: 'src/adapters/artifacts/store-rules.ts',
    replace: 'if (misfit !== null) throw corrupt(key, misfit)',
    by: "if (misfit === '') throw corrupt(key, misfit)",
    seenBy: {
      file: 'src/adapters/artifacts/records/record-kinds.test.ts',
      test: 'a resealed record with a field of another type is refused with its key, the field and what it should be',
    },
  },
  {
    name: 'what is read is what was hashed: content is compared by its length',
    file: 'src/adapters/artifacts/store-rules.ts',
    replace: 'if (sha256Hex(bytes) !== ref.sha256) throw corrupt',
    by: 'if (bytes.byteLength !== ref.bytes) throw corrupt',
    seenBy: differing,
  },
  {
    name: 'what is read is what was hashed: the trainer compares files by their length',
    file: 'trainer/longhaul_trainer/directory.py',
    replace: '        if found != entry["sha256"]:',
    by: '        if found == "":',
    seenBy: trainerTest('test_kills', 'test_torn_checkpoint_is_never_loaded[flipped byte]'),
  },
  {
    name: 'a turn runs once: the runner accepts an older fence',
    file: 'infra/runner/work.c',
    replace: 'if (asked_fence < fence) {',
    by: 'if (asked_fence < 0) {',
    seenBy: turns('refuses a fence below the highest one seen and runs nothing'),
  },
  {
    name: 'a turn runs once: a successor does not make itself known to the sandbox',
    file: 'src/activities/episode/episode-world.ts',
    replace: 'await host.takeOver(sandbox, fence, signal)',
    by: 'await host.renew(sandbox, signal)',
    seenBy: {
      file: 'test/integration/late-worker.test.ts',
      test: 'an attempt that only resumes ends the earlier one, which samples no second turn',
    },
  },
  {
    name: 'the runner waits for nothing of the agent’s: it opens the null device by its name',
    file: 'infra/runner/work.c',
    replace: 'int null = open_null_device(O_RDONLY);',
    by: 'int null = open("/dev/null", O_RDONLY | O_CLOEXEC);',
    seenBy: attackedJournal('a pipe in the place of the null device stops the agent’s own shells and never the runner'),
  },
  {
    name: 'a loss that an agent can cause is its own: the runner calls every refused file a full disk',
    file: 'infra/runner/work.c',
    replace: 'reply(stream, lacked_room() ? "full" : "lost unclaimed");',
    by: 'reply(stream, "full");',
    seenBy: attackedJournal('a runner with 0 free descriptors answers at once, and not that the disk is full'),
  },
  {
    name: 'a turn runs once: a claim can be taken again',
    file: 'infra/runner/work.c',
    replace: 'int has_claim = read_claim(words[1], &found);',
    by: 'int has_claim = 0 * read_claim(words[1], &found);',
    seenBy: journal('two runners that request one turn at once run it once and get the same answer, in twenty rounds'),
  },
  {
    name: 'a turn runs once: another token is accepted',
    file: 'infra/runner/work.c',
    replace: 'strcmp(found.token, claim.token) != 0',
    by: 'strcmp(found.token, "-") == 0',
    seenBy: turns('reports a conflict for another command or token of a recorded turn'),
  },
  {
    name: 'a turn follows the ones before it: the runner accepts any turn',
    file: 'infra/runner/work.c',
    replace: '  if (strcmp(after, world) != 0) return false;\n',
    by: '  return true;\n',
    seenBy: replay('a new sandbox replays the earlier turns before it runs turn 2'),
  },
  {
    name: 'a turn follows the ones before it: the files that the sandbox claims are believed',
    file: 'src/activities/episode/episode-world.ts',
    replace: '      await compareTree({ store, episode, hash: async () => treeSha256 }, committed - 1)\n',
    by: '      void [compareTree, store, treeSha256]\n',
    seenBy: replay('does not believe a sandbox that claims its last turn but has other files'),
  },
  {
    name: 'a step is applied once: a resumed job counts one step less than its weights hold',
    file: 'trainer/longhaul_trainer/step/job.py',
    replace: '        state = _read_state(sealed.path)\n',
    by: '        state = _read_state(sealed.path)\n        state.done -= 1\n',
    seenBy: resumed,
  },
  {
    name: 'a step is applied once: a resumed job keeps the weights and forgets the moments',
    file: 'trainer/longhaul_trainer/step/job.py',
    replace: '        load_optimizer(sealed.path, model=model, optimizer=optimizer)\n        restore_random_state',
    by: '        restore_random_state',
    seenBy: resumed,
  },
  {
    name: 'a step is applied once: a committed job is trained again',
    file: 'trainer/longhaul_trainer/step/job.py',
    replace: '        checkpoint = self._adopt_state(self.spec.output.checkpoint_path)\n        if checkpoint is None:',
    by: '        checkpoint = self._adopt_state(self.spec.output.checkpoint_path)\n        if checkpoint is not None or checkpoint is None:',
    seenBy: trainerTest('test_kills', 'test_sigkill_loses_at_most_one_step_and_no_bit[checkpoint.committed]'),
  },
  {
    name: 'lost episodes have no reward: they count as failures of the policy',
    file: 'src/domain/ledger/episode-fates.ts',
    replace: "    case 'infra':\n    case 'cancelled':\n    case 'stale':\n      return false\n",
    by: "    case 'infra':\n      return true\n    case 'cancelled':\n    case 'stale':\n      return false\n",
    seenBy: {
      file: 'src/domain/rules.test.ts',
      test: 'only policy endings with a plain verdict are valid, and all others name why they have no reward',
    },
  },
  {
    name: 'lost episodes have no reward: an ungraded episode counts as failed',
    file: 'src/domain/ledger/episode-fates.ts',
    replace: "(record.verdict === 'resolved' || record.verdict === 'unresolved')",
    by: 'record.verdict !== null',
    seenBy: ledger('lost siblings do not count in mean, deviation and size of their group'),
  },
  {
    name: 'lost episodes have no reward: a lost episode is recorded as unresolved',
    file: 'src/domain/ledger/episode-fates.ts',
    replace: 'if (!isPolicyDisposition(disposition)) return { verdict: null, reason: null }',
    by: "if (!isPolicyDisposition(disposition)) return { verdict: 'unresolved', reason: null }",
    seenBy: {
      file: 'src/domain/rules.test.ts',
      test: 'unsubmitted work counts as an empty patch, and lost work gets no verdict',
    },
  },
  {
    name: 'a restarted run equals the undisturbed one: a stage that was stopped goes on after a reset',
    file: 'src/activities/run/plan-iteration.ts',
    replace: 'if (over !== null) return {',
    by: 'if (over !== null && input.iteration < 0) return {',
    seenBy: {
      file: 'src/activities/run/plan-iteration.test.ts',
      test: 'an iteration is not begun once the evaluation after its stage is planned; one that was begun before goes on',
    },
  },
  {
    name: 'a restarted run equals the undisturbed one: an iteration without a listed batch has trained nothing',
    file: 'src/activities/run/recall-run.ts',
    replace: 'const jobs = Math.max(batchesIn(ledger), (await batchesOf(store, coordinates)).length)',
    by: 'const jobs = Math.min(batchesIn(ledger), (await batchesOf(store, coordinates)).length)',
    seenBy: {
      file: 'src/activities/run/recall-run.test.ts',
      test: 'an iteration whose batch is gone, or not listed, keeps its policy: ledger and training tell that it has trained',
    },
  },
  {
    name: 'a restarted run equals the undisturbed one: an evaluation goes on with another policy',
    file: 'src/activities/run/run-names.ts',
    replace: 'return record.policy === undefined || record.policy === policy',
    by: 'return record.policy === undefined || record.policy !== `${policy}!`',
    seenBy: {
      file: 'src/activities/run/resolve-recipe.test.ts',
      test: 'an evaluation is not continued with another policy than it was started with',
    },
  },
  {
    name: 'a restarted run equals the undisturbed one: an episode that ended without a verdict is graded after a reset',
    file: 'src/activities/grading/grade-submission.ts',
    replace: 'if (ended !== null) return ended',
    by: 'if (ended !== null && ended.turns < 0) return ended',
    seenBy: {
      file: 'src/activities/grading/grading.test.ts',
      test: 'an episode that ended without a verdict stays without one',
    },
  },
  {
    name: 'the ledger adds up: no difference is a mismatch',
    file: 'src/activities/training/check-ledger.ts',
    replace: 'mismatches: verifyLedger({ ledgers, records, batches, derived }),',
    by: 'mismatches: verifyLedger({ ledgers, records, batches, derived }).slice(0, 0),',
    seenBy: verified(
      'an episode that nothing accounts for, one without a record, one in two batches: each is found, exit 2',
    ),
  },
  {
    name: 'the ledger adds up: it is compared with itself',
    file: 'src/activities/training/check-ledger.ts',
    replace:
      'const derived = ledgers.map((ledger) => deriveAgain(recipe, ledger, recordsOf(records, ledger), batches))',
    by: 'const derived = ledgers.map((ledger) => (recordsOf(records, ledger).length < 0 ? deriveAgain(recipe, ledger, [], batches) : ledger))',
    seenBy: verified(
      'a result that was changed from lost to failed: the rules say something else than the ledger, exit 2',
    ),
  },
  {
    name: 'the ledger adds up: a mismatch ends with 0',
    file: 'src/cli/commands/ledger.ts',
    replace: 'if (check.mismatches.length > 0) exit(EXIT.infra)',
    by: 'if (check.mismatches.length < 0) exit(EXIT.infra)',
    seenBy: verified(
      'an episode that nothing accounts for, one without a record, one in two batches: each is found, exit 2',
    ),
  },
  {
    name: 'the ledger adds up: a run without one passes',
    file: 'src/cli/commands/ledger.ts',
    replace: 'if (check.ledgers > 0 || check.mismatches.length > 0) return',
    by: 'if (check.ledgers >= 0) return',
    seenBy: verified('a run whose first iteration is open has no ledger: refused, and nothing is said to add up'),
  },
  {
    name: 'the verdicts of a grading run add up: they are compared with themselves',
    file: 'src/activities/grading/close-grading.ts',
    replace: 'const derived = await deriveGrading(deps, run)',
    by: 'const derived = stored',
    seenBy: verified('a grading run whose result says another verdict, leaves a patch out or counts otherwise: exit 2'),
  },
  {
    name: 'the ledger adds up: an episode in two batches passes',
    file: 'src/domain/ledger/verify-ledger.ts',
    replace: 'if (keys.length > 1) mismatches.push',
    by: 'if (keys.length > 2) mismatches.push',
    seenBy: books,
  },
  {
    name: 'the ledger adds up: totals are not checked',
    file: 'src/domain/ledger/verify-ledger.ts',
    replace: '    right.episodes !== totals.episodes ||\n',
    by: '    right.episodes < 0 ||\n',
    seenBy: ledger('reports any total of a ledger that is off by one'),
  },
  {
    name: 'Retry-After is obeyed: it is not read',
    file: 'src/adapters/policy-server/server-connection.ts',
    replace: 'afterMs: parseRetryAfter(refusal.retryAfter, Date.now())',
    by: 'afterMs: parseRetryAfter(null, Date.now())',
    seenBy: retryAfter,
  },
  {
    name: 'Retry-After is obeyed: it only replaces a longer pause',
    file: 'src/adapters/policy-server/server-connection.ts',
    replace: 'return Math.min(LONGEST_RETRY_AFTER_MS, afterMs) * (1 + random() / 10)',
    by: 'return Math.min(jittered, LONGEST_RETRY_AFTER_MS, afterMs) * (1 + random() / 10)',
    seenBy: retryAfter,
  },
  {
    name: 'weights are checked where answers do not name them: only before the answer',
    file: 'src/adapters/policy-server/client.ts',
    replace: "    const answer = await send(build('witnessed'))\n    await requireHeld()\n",
    by: "    const answer = await send(build('witnessed'))\n",
    seenBy: witnessed,
  },
  {
    name: 'weights are checked where answers do not name them: another label in the answer is ignored',
    file: 'src/adapters/policy-server/completions-dialect.ts',
    replace: 'if (other !== undefined) throw answeredByAnother(policy, other)',
    by: "if (other !== undefined && proof !== 'witnessed') throw answeredByAnother(policy, other)",
    seenBy: witnessed,
  },
  {
    name: 'a key goes to no other server: redirects are followed',
    file: 'src/adapters/policy-server/openai-transport.ts',
    replace: "      redirect: 'manual',\n",
    by: '',
    seenBy: transport('does not follow a redirect with request or key'),
  },
  {
    name: 'answers are bounded: what is unpacked is not counted',
    file: 'src/adapters/policy-server/openai-transport.ts',
    replace: 'bytes += chunk.byteLength',
    by: 'bytes += 0',
    seenBy: transport('bounds every answer: announced, chunked, erroneous or compressed'),
  },
  {
    name: 'maxReplacements is the bound: one more is drawn',
    file: 'src/workflows/prompt-group.ts',
    replace: 'if (nextIndex >= bound) return false',
    by: 'if (nextIndex > bound) return false',
    seenBy: bounded,
  },
  {
    name: 'maxReplacements is the bound: one less is drawn',
    file: 'src/workflows/prompt-group.ts',
    replace: 'let bound = input.groupSize + input.maxReplacements',
    by: 'let bound = input.groupSize + input.maxReplacements - 1',
    seenBy: bounded,
  },
  {
    name: 'texts of agents hide nothing: bidi controls reach the page',
    file: 'src/viewer/shared/visible-text.ts',
    replace: '\\p{Cc}\\p{Cf}\\p{Zl}',
    by: '\\p{Cc}\\p{Zl}',
    seenBy: {
      file: 'src/viewer/shared/shared.test.ts',
      test: 'escapes characters that a terminal or a browser would interpret',
    },
  },
  {
    name: 'the viewer answers its own host alone: a rebound name reads it',
    file: 'src/viewer/serve.ts',
    replace: 'headers.host === undefined || !hosts.includes(headers.host)',
    by: 'headers.host === undefined',
    seenBy: viewer('refuses a page of another origin, a name rebound to loopback, and a writing method'),
  },
  {
    name: 'the viewer answers its own address alone: any token opens it',
    file: 'src/viewer/serve.ts',
    replace: 'if (!isSameText(given, token))',
    by: "if (given === '')",
    seenBy: viewer('serves no content without the token'),
  },
  {
    name: 'tokens are the trainer’s: the row of another trajectory is shown',
    file: 'src/viewer/read-tokens.ts',
    replace: "numbersIn(tensors, 'row_trajectory', key).indexOf(table)",
    by: 'table',
    seenBy: { file: 'src/viewer/pages.test.ts', test: 'tokens equal the row of the batch file, in its order' },
  },
  {
    name: 'no second is paid twice: a grading that left two records is two',
    file: 'src/activities/evaluation/read-costs.ts',
    replace: '!timeOuts.some((one) => one.attempt === attempt)',
    by: 'attempt > 0',
    seenBy: costs('a requeued grading attempt is paid in addition to the one with the verdict'),
  },
  {
    name: 'no second is paid twice: gates pay for what an earlier run graded',
    file: 'src/activities/evaluation/read-costs.ts',
    replace: 'if (grading.run !== run) continue',
    by: 'if (grading.run === "") continue',
    seenBy: costs('gate costs include the gradings of this run and exclude those of earlier runs'),
  },
  {
    name: 'an unrecorded amount is unknown: it is 0',
    file: 'src/domain/statistics/run-costs.ts',
    replace: 'told === 0 && unknown > 0 ? null : sum',
    by: 'sum',
    seenBy: costs('lost work is paid, counted once and named, and unrecorded amounts are unknown instead of 0'),
  },
  {
    name: 'exit code 1 says that nothing was played: a run that played ends with it',
    file: 'src/cli/output/exit-codes.ts',
    replace: 'if (outcome.hasPlayed === true) return EXIT.infra',
    by: '',
    seenBy: {
      file: 'src/cli/run-cli.test.ts',
      test: 'exit codes of outcomes: done 0, the recipe’s fault 1, everything that used the machines 2',
    },
  },
  {
    name: 'help belongs to the requested command: an unknown one gets the help of its group',
    file: 'src/cli/run-cli.ts',
    replace: 'if (named === undefined) return words.slice(0, at + 1)',
    by: 'if (named === undefined) return words',
    seenBy: {
      file: 'src/cli/run-cli.test.ts',
      test: 'help is asked of a command that there is not: an error with the nearest name; of one that there is: its own help',
    },
  },
  {
    name: 'reading an archive changes nothing in it: a temporary folder is made',
    file: 'src/adapters/artifacts/directory-store.ts',
    replace: 'if (checksWriting) {',
    by: 'if (!checksWriting) {',
    seenBy: store(
      'a user without write access reads an archive, creates nothing, and gets the reason when a put fails',
    ),
  },
  {
    name: 'an absent store is no empty store: a reader finds no run in it',
    file: 'src/adapters/artifacts/open-store.ts',
    replace: 'if (mustExist) requireDirectoryStore(text)',
    by: '',
    seenBy: {
      file: 'src/cli/run-cli.test.ts',
      test: 'a store that is not there: readers refuse in one line and make nothing, a recipe is still found, only a writer makes it',
    },
  },
  {
    name: 'a mistyped prefix of a bucket is no empty store: a reader finds no run in it',
    file: 'src/adapters/artifacts/open-store.ts',
    replace: 'if (mustExist) await requireObjects(store, text)',
    by: '',
    seenBy: {
      file: 'test/integration/object-store.test.ts',
      test: 'readers refuse an empty prefix in one line after one request, and only a writer starts one',
    },
  },
  {
    name: 'a worker refuses to start with unusable settings: an activity finds them',
    file: 'src/workers/run-worker.ts',
    replace: 'await requireUsable(roles, environment)',
    by: '',
    seenBy: {
      file: 'test/integration/worker-start.test.ts',
      test: 'a worker that cannot start prints one line and ends by itself without a call to a server',
    },
  },
  {
    name: 'only a named stack is used: the default address replaces one that is not up',
    file: 'src/cli/local-stack.ts',
    replace: 'if (isSet(stack) && !isSet(address)',
    by: 'if (isSet(address) && !isSet(stack)',
    seenBy: {
      file: 'src/cli/run-cli.test.ts',
      test: 'a stack is named that is not up: nothing is asked of the default address',
    },
  },
  {
    name: 'a tracker never fails a run: its error is thrown',
    file: 'src/activities/trackers/send-metrics.ts',
    replace: "say('any tracker', reason(error))",
    by: 'throw error',
    seenBy: tracking('a hanging store ends the sending, and the run continues'),
  },
  {
    name: 'a token goes only to its tracker: redirects are followed',
    file: 'src/adapters/trackers/mlflow-requests.ts',
    replace: "redirect: 'error'",
    by: "redirect: 'follow'",
    seenBy: tracking('a failing tracker ends its sending with the reason, and the other tracker gets everything'),
  },
  {
    name: 'a published model is the policy: its files are not compared with the manifest',
    file: 'src/adapters/models/policy-files.ts',
    replace: 'if (found !== sha256)',
    by: 'if (found === null)',
    seenBy: { file: 'test/integration/publish.test.ts', test: 'changed weights, manifest or record' },
  },
  {
    name: 'a launched engine samples as training needs: a flag of the recipe overrides ours',
    file: 'src/adapters/policy-server/start-command.ts',
    replace: 'if (twice === null) return',
    by: 'if (twice !== null) return',
    seenBy: {
      file: 'src/adapters/policy-server/start-command.test.ts',
      test: 'appends a further flag, and refuses one that Longhaul sets itself',
    },
  },
  {
    name: 'a session pays for a silent server once: it is asked first again at once',
    file: 'src/adapters/policy-server/pool.ts',
    replace: 'now() + ASKED_LAST_MS',
    by: 'now()',
    seenBy: {
      file: 'src/adapters/policy-server/pool.test.ts',
      test: 'after a silent server the next one answers and is asked first for half a minute',
    },
  },
  {
    name: 'a span holds ids and no text: every string passes',
    file: 'src/platform/export-traces.ts',
    replace: "typeof value === 'string' ? ID.test(value)",
    by: "typeof value === 'string' ? value !== ''",
    seenBy: {
      file: 'src/platform/traces.test.ts',
      test: 'a span reaches the collector with its ids, service and code, but without text',
    },
  },
  {
    name: 'a chat endpoint is not told of the trace: every server is',
    file: 'src/adapters/policy-server/server-connection.ts',
    replace: 'sendsTrace = false',
    by: 'sendsTrace = true',
    seenBy: {
      file: 'src/adapters/chat-endpoint/chat-client.test.ts',
      test: 'sends the trace to a policy server but not to a chat endpoint',
    },
  },
  {
    name: 'one root plays a run: the workflow that played it last is not asked about',
    file: 'src/activities/run/play-alone.ts',
    replace: 'const isOther = last.workflowId !== player.workflowId',
    by: 'const isOther = last.number < 0',
    seenBy: {
      file: 'src/activities/run/play-alone.test.ts',
      test: 'two roots continue an old run, and both have looked before either is recorded: one plays, the other is refused',
    },
  },
  {
    name: 'a removal and a start exclude each other: the start does not look again',
    file: 'src/activities/run/play-alone.ts',
    replace: 'await requireWhole(store, run)',
    by: 'await Promise.resolve(requireWhole)',
    seenBy: {
      file: 'src/activities/run/play-alone.test.ts',
      test: 'a removal begins at any step of a start, and is at work until the start has ended: the start is refused, or nothing is removed',
    },
  },
  {
    name: 'a terminal shows what it is given: the console writes texts as they are outside of jobs',
    file: 'src/cli/output/console.ts',
    replace: 'const safe = isCi(env) ? logText : showControls',
    by: 'const safe = isCi(env) ? logText : (text: string): string => (showControls(text) === "" ? "" : text)',
    seenBy: {
      file: 'src/cli/output/console.test.ts',
      test: 'a text that writes to the clipboard is harmless on a terminal: in a result, a line, a record and an error',
    },
  },
  {
    name: 'no stream stops the worker: other work waits until a stream that is there is read',
    file: 'src/adapters/policy-server/dialect.ts',
    replace: 'await nextTurn()',
    by: 'if (text === "never") await nextTurn()',
    seenBy: {
      file: 'src/adapters/policy-server/dialect.test.ts',
      test: 'other work of the process goes on between the chunks of a stream that is already there',
    },
  },
  {
    name: 'no quote ends the worker: half of a character stays in the message of a cause',
    file: 'src/platform/well-formed-failures.ts',
    replace: '.toWellFormed()',
    by: '',
    seenBy: {
      file: 'test/integration/hostile-failures.test.ts',
      test: 'a failure with half of a character in the message of its cause reaches the run, and the worker goes on',
    },
  },
]
