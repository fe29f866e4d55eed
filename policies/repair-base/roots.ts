import { ROOTS, type RenamedTask } from '../../src/adapters/datasets/synthetic/half-renamed.ts'

const ALL = new Set([...ROOTS.train, ...ROOTS.eval])

/** Roots of a task's names: those that training may replace, and those of package and modules, whose order shows in listings. */
export function rootsOf({ modules, statement }: RenamedTask): { roots: string[]; kept: string[] } {
  const kept = rootsIn(modules.map(({ path }) => path).join('\n'))
  const text = [statement, ...modules.flatMap(({ lines, right }) => [...lines, ...right])].join('\n')
  return { roots: rootsIn(text).filter((root) => !kept.includes(root)), kept }
}

function rootsIn(text: string): string[] {
  const words = text.toLowerCase().match(/[a-z]+/g) ?? []
  return [
    ...new Set(
      words.map((word) => word.slice(0, 4)).filter((root, index) => isStem(words[index] ?? '') && ALL.has(root)),
    ),
  ]
}

/** A root and at most one letter. */
function isStem(word: string): boolean {
  return /^[a-z]{4}[lnrs]?$/.test(word)
}
