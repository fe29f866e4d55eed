import type { GradingProfile } from '../../contracts/tasks.types.ts'
import { forkProfile } from './fork-4.0.3.ts'
import { rebenchV2Profile } from './rebench-v2.ts'
import type { RunProfile } from './run-profile.ts'
import { swebench41Profile } from './swebench-4.1.ts'
import { swebench5Profile } from './swebench-5.ts'

/** How each harness runs in a container. */
export const RUN_PROFILES: Readonly<Record<GradingProfile, RunProfile>> = {
  'fork-4.0.3': forkProfile,
  'swebench-4.1': swebench41Profile,
  'swebench-5': swebench5Profile,
  'rebench-v2': rebenchV2Profile,
}
