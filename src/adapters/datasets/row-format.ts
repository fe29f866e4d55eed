import type { GradingProfile } from '../../contracts/tasks.types.ts'
import type { RowColumns } from './row-columns.ts'

/**
 * Which harness a row was published for, by the columns that only its data sets have: a script of its own (v5), a language
 * or base image (V2), an installation (v1 and its leaderboard), none of them (classic).
 */
export function rowProfile(columns: RowColumns): GradingProfile {
  if (columns.has('eval_script') || columns.has('eval_type')) return 'swebench-5'
  if (!columns.has('install_config')) return 'swebench-4.1'
  const config = columns.object('install_config') ?? {}
  const isV2 =
    columns.has('language') || Object.hasOwn(config, 'base_image_name') || Object.hasOwn(config, 'log_parsers')
  return isV2 ? 'rebench-v2' : 'fork-4.0.3'
}
