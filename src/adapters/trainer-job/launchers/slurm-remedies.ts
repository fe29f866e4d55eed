/** Recognises what Slurm says about a job, in its tools' words or as a job's state and reason, and tells the operator how to fix it. */

type Remedy = readonly [said: RegExp, remedy: string]

/** What `sbatch`, `squeue` and `scancel` print. Causes that name a key of the recipe come first. */
const REFUSALS: readonly Remedy[] = [
  [/invalid partition|partition name/i, 'correct trainer.slurm.partition (sinfo lists the partitions)'],
  [
    /partition not available|partition .*(?:inactive|drain|down)/i,
    'the partition takes no jobs now: choose another in trainer.slurm.partition, or ask who runs the cluster',
  ],
  [
    /invalid account|account\/partition combination/i,
    'correct trainer.slurm.account, or use a partition that it may use (sacctmgr show associations user=$USER)',
  ],
  [/invalid qos/i, 'correct trainer.slurm.qos (sacctmgr show qos)'],
  [
    /violates accounting|policy .*limit/i,
    'the account or QOS allows no such job now: wait for its other jobs, ask for less, or correct trainer.slurm.account and trainer.slurm.qos',
  ],
  [
    /generic resource|\bgres\b/i,
    'correct trainer.slurm.gpusPerNode: the nodes of the partition have no such resource (sinfo --format="%P %G")',
  ],
  [/memory specification/i, 'lower trainer.slurm.memory to what a node of the partition has (sinfo --format="%P %m")'],
  [
    /time limit|--time\b/i,
    'lower trainer.timeoutS to what the partition allows, or choose another in trainer.slurm.partition (sinfo --format="%P %l")',
  ],
  [
    /node configuration|node count|more processors|cpu count|partition configuration/i,
    'the partition has no such nodes: lower trainer.nodes, gpusPerNode, cpusPerTask or memory of trainer.slurm, or choose another partition',
  ],
  [
    /feature|constraint|reservation|unrecognized option|invalid option|unknown option|requires an argument/i,
    'correct trainer.slurm.extra',
  ],
  [
    /not permitted|permission denied|access denied|invalid user/i,
    'let the user of the trainer worker submit jobs to this partition, or choose another in trainer.slurm.partition',
  ],
  [
    /munge|authentication|zero bytes/i,
    'munge must run on the machine of the trainer worker, with the key of the cluster and a correct clock',
  ],
  [
    /slurm\.conf|configuration (?:file|source)|ClusterName|s_p_parse_file/i,
    'install the slurm.conf of the cluster on the machine of the trainer worker, or set SLURM_CONF',
  ],
  [
    /unable to contact|connect failure|socket timed out|connection refused|no route|resolve/i,
    'check that the controller runs and that the trainer worker reaches it (scontrol ping); a running job continues meanwhile',
  ],
]

/** Reasons of a pending job. */
const REASONS: readonly Remedy[] = [
  [/^(?:Priority|Resources|None|Cleaning)$/, 'nothing: it starts when other jobs have ended'],
  [/^Dependency$/, 'nothing: it starts when the previous attempt is gone'],
  [/^JobHeld|held/, 'release it (scontrol release JOB): a person or the site holds it'],
  [/^BeginTime$/, 'nothing before its begin; trainer.slurm.extra or the site sets one'],
  [/TimeLimit|WallDuration|MaxWall/, 'lower trainer.timeoutS, or choose a partition or QOS with a longer limit'],
  [
    /^(?:Partition(?:Down|Inactive)|ReqNodeNotAvail|NodeDown|Nodes required)/,
    'its nodes are down, drained or reserved: ask who runs the cluster (sinfo -R says why), or choose another trainer.slurm.partition',
  ],
  [/^Reserv/, 'correct the reservation in trainer.slurm.extra, or wait for its begin'],
  [
    /^(?:PartitionConfig|PartitionNodeLimit|BadConstraints)$/,
    'the partition has no such nodes: lower trainer.nodes, gpusPerNode, cpusPerTask or memory of trainer.slurm, correct trainer.slurm.extra, or choose another partition',
  ],
  [/^(?:InvalidAccount|AccountNotAllowed)$/, 'correct trainer.slurm.account'],
  [/^(?:InvalidQOS|QOSNotAllowed)$/, 'correct trainer.slurm.qos'],
  [
    /PerJob|^QOSMin/,
    'the account or QOS allows no job of this size: ask for less in trainer.slurm, or correct trainer.slurm.account and trainer.slurm.qos',
  ],
  [/^(?:QOS|Assoc|Max|Account)/, 'nothing: it starts when other jobs of this account or QOS have ended'],
  [/^Licenses$/, 'nothing: it starts when a license is free'],
  [/^DependencyNeverSatisfied$/, 'correct trainer.slurm.extra'],
]

/** With these reasons no end of another job helps. Downed nodes and held jobs are left in the queue, because their operators act on
 *  them. */
const NEVER =
  /^(?:PartitionConfig|PartitionNodeLimit|PartitionTimeLimit|BadConstraints|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|DependencyNeverSatisfied|ReservationDeleted|QOSMin\w*|(?:QOS|Assoc|Max)\w*PerJob\w*)$/

/** How jobs end that leave no report of the trainer. */
const ENDS: readonly Remedy[] = [
  [
    /OUT_OF_MEMORY/,
    'raise trainer.slurm.memory, or lower trainer.maxTokensPerMicro: the job used more memory than Slurm gave it',
  ],
  [/TIMEOUT|DEADLINE/, 'it reached its time limit: raise trainer.timeoutS'],
  [/NODE_FAIL|BOOT_FAIL/, 'a node was lost; the next attempt continues from the last step (sinfo -R says why)'],
  [/PREEMPTED/, 'another job took its nodes; the next attempt continues from the last step'],
  [
    /CANCELLED/,
    'somebody cancelled the job with scancel; the next attempt continues from the last step. To stop the run: longhaul run stop',
  ],
  [
    /JobLaunchFailure|launch failed/i,
    'a node could not start it: the artifacts, the interpreter and this package must be on a file system that every node mounts at the same path',
  ],
  [
    /BadConstraints/,
    'the partition has no such nodes: lower trainer.nodes, gpusPerNode, cpusPerTask or memory of trainer.slurm, or correct trainer.slurm.extra',
  ],
]

/** @returns the remedy for what a tool printed, preceded by an arrow; empty if none matches */
export function remedyForRefusal(said: string): string {
  return first(REFUSALS, said)
}

/** @returns the reason of a pending job, with its remedy, and whether waiting cannot help */
export function explainPending(reason: string, slurmJob: string): { why: string; isHopeless: boolean } {
  const known = reason === '' ? 'no reason yet' : reason
  const remedy = first(REASONS, reason).replace('JOB', slurmJob)
  return { why: `job ${slurmJob} is pending in Slurm: ${known}${remedy}`, isHopeless: NEVER.test(reason) }
}

/** @param ended the state and the reason, as `squeue` or `sacct` gives them */
export function remedyForEnd(ended: string): string {
  return first(ENDS, ended)
}

function first(remedies: readonly Remedy[], said: string): string {
  const found = remedies.find(([pattern]) => pattern.test(said))
  return found === undefined ? '' : ` → ${found[1]}`
}
