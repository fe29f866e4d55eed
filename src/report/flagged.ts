import type { EpisodeRecord } from '../contracts/episodes.types.ts'
import { HACK_SIGNS, type HackSign } from '../contracts/hack-signs.ts'
import type { FlaggedEpisodes } from './report-data.ts'

/** What a report says of suspicious episodes. @param maxNamed suspected hacks that are listed by id */
export function gatherFlagged(records: readonly EpisodeRecord[], maxNamed: number): FlaggedEpisodes {
  // Records of before the flag existed have no signs.
  const flagged = records.filter(({ signs }) => (signs ?? []).length > 0)
  const suspected = flagged.filter(({ suspectedHack }) => suspectedHack)
  const count = (sign: HackSign) => {
    const shown = flagged.filter(({ signs }) => signs.includes(sign))
    return { sign, episodes: shown.length, resolved: shown.filter(({ verdict }) => verdict === 'resolved').length }
  }
  return {
    signs: (Object.keys(HACK_SIGNS) as HackSign[]).map(count).filter(({ episodes }) => episodes > 0),
    suspected: suspected
      .slice(0, maxNamed)
      .map(({ episode, disposition, verdict, signs }) => ({ episode, disposition, verdict, signs })),
    total: suspected.length,
  }
}
