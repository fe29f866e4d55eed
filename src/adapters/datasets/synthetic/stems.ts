import { createHash } from 'node:crypto'

/**
 * Names of the family `half-renamed`: invented stems of two syllables, so that a policy has to copy every one of them letter by letter
 * and cannot know any. Training and evaluation use separate stems.
 */
const ONSETS = 'bdfgklmnprstvz'.split('')
const VOWELS = 'aeiou'.split('')
export const ENDINGS = ['', 'l', 'n', 'r', 's']

/** Excluded roots: words of Python, of its library and of the scaffold's texts, and offensive words. */
const LEFT_OUT = new Set(
  [
    'bare base begi bise dago data date dele deli demo done dune fago file fina fine five fuka gave give gone goto kike kimi late leve like line live made make mode modu mole more move name nazi neve node none nose note nume page',
    'pane pape pedo peni pipe poli pure puta rape rate redo rene repo role rule ruse safe same sane save sele sema side sita site size sodo some sore supe sure take tape tele time tito toke tone tota tube tune vagi vari vote zero',
  ].flatMap((words) => words.split(' ')),
)

const SYLLABLES = ONSETS.flatMap((onset) => VOWELS.map((vowel) => onset + vowel))

export type Split = 'train' | 'eval'

/** All roots of each split, in order; each root belongs to one split. */
export const ROOTS: Readonly<Record<Split, readonly string[]>> = rootsBySplit()

/** A quarter of all roots is reserved for evaluation. A stem belongs to its root's split, so no name of one split contains a name of
 *  the other. */
function rootsBySplit(): Record<Split, string[]> {
  const roots: Record<Split, string[]> = { train: [], eval: [] }
  for (const first of SYLLABLES) {
    for (const second of SYLLABLES) {
      const root = first + second
      if (first === second || LEFT_OUT.has(root)) continue
      const [byte = 0] = createHash('sha256').update(`stem ${root}`).digest()
      roots[byte % 4 === 0 ? 'eval' : 'train'].push(root)
    }
  }
  return roots
}
