import { hostileTexts } from './hostile-texts.ts'
import type { Subject } from './measure-growth.ts'
import { patternsIn } from './source-patterns.ts'

/** Sources that read text of agents, tests, policies, servers and rows. */
const FOREIGN_TEXT_READERS = [
  'src/grading',
  'src/scaffold',
  'src/domain/gates/command-signs.ts',
  'src/grading/gate-log.ts',
  'src/domain/gates/suite-filters.ts',
  'src/report/official',
  'src/report/html-page.ts',
  'src/report/comparison-tables.ts',
  'src/adapters/chat-endpoint',
  'src/adapters/datasets/normalize-row.ts',
  'src/adapters/datasets/normalize-row.ts',
  'src/adapters/egress',
  'src/adapters/policy-server',
  'src/domain/allowed-hosts.ts',
  'src/domain/gates/suite-overlap.ts',
]

export async function subjects(): Promise<Subject[]> {
  return (await patternsIn(FOREIGN_TEXT_READERS)).map(({ file, source, flags }) => {
    const every = new RegExp(source, flags.includes('g') ? flags : `${flags}g`)
    return {
      name: `${file} /${source}/${flags}`,
      texts: () => hostileTexts(every),
      run: (text) => void text.replaceAll(every, ''),
    }
  })
}
