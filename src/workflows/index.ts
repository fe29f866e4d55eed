/** Workflow types, as they appear in the Temporal UI. */
export { trainAgent } from './train-agent.ts'
export { rejectionFineTune } from './rejection-fine-tune.ts'
export { reinforce } from './reinforce.ts'
export { rollout } from './rollout.ts'
export { promptGroup } from './prompt-group.ts'
export { episode } from './episode.ts'
export { evaluate } from './evaluate.ts'
export { gateTasks } from './gate-tasks.ts'
