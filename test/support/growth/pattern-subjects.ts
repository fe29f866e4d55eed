import { hostileTexts } from './hostile-texts.ts'
import type { Subject } from './measure-growth.ts'
import { patternsIn } from './source-patterns.ts'

/** Where text of agents, tests, policies, servers and rows is read. */
const FOREIGN_TEXT_READERS = [
  'src/grading',
  'src/scaffold',
  'src/domain/command-signs.ts',
  'src/domain/log-exceptions.ts',
  'src/domain/hidden-names.ts',
  'src/report/official',
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
