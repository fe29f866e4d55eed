import type { ChatFormat, ChatFormatName } from '../contracts/policy.types.ts'

/**
 * Tool output and issue texts may spell the tokens that separate turns in a chat format, and so forge a turn: a tokenizer turns the
 * spelling into the token. A backslash after the first character breaks the spelling and keeps it readable.
 */
export type Defuse = (text: string) => string

export interface DefuseOptions {
  /** Added tokens of the policy's own tokenizer, if it is known: see `readAddedTokens`. */
  tokens?: readonly string[]
}

/** Takes time linear in the text, for any number of tokens. */
export function createDefuse({ tokens = [] }: DefuseOptions = {}): Defuse {
  const all = [...FIXED_TOKENS, ...tokens]
  const trie = buildTrie(all)
  const single = all.filter((token) => Array.from(fold(token)).length < 2)
  const mayStart = startsOf(trie)
  return (text) => {
    let found = single.reduce((left, token) => left.replaceAll(token, spellOut(token)), text)
    // A policy may have a token with a backslash, so a broken text is checked again.
    for (let round = 0; round < ROUNDS && mayStart.test(found); round++) {
      const broken = breakTokens(found, trie)
      if (broken === found) break
      found = broken
    }
    return found
  }
}

/**
 * The tokens of a `tokenizer.json` that could forge a turn: every special token, and added tokens in brackets. Other added words and
 * runs of spaces are not part of a chat format.
 */
export function readAddedTokens(tokenizerJson: string): string[] {
  const { added_tokens: added } = JSON.parse(tokenizerJson) as { added_tokens?: unknown }
  if (!Array.isArray(added)) return []
  return added.flatMap((entry: { content?: unknown; special?: unknown } | null) => {
    const { content, special } = entry ?? {}
    if (typeof content !== 'string' || content.trim() === '') return []
    return special === true || /^[<[].+[>\]]$/s.test(fold(content)) ? [content] : []
  })
}

// Templates of Llama 2 and Mistral; control tokens of Llama, Mistral, Gemma, GLM, Kimi, InternLM, Cohere, Baichuan, Nemotron, Falcon,
// MiniMax and Qwen; markers of code models. Names between bars (ChatML, Llama 3 and 4, Phi, GLM, Kimi, DeepSeek, harmony, EXAONE) are
// found by their form.
const FIXED_TOKENS: readonly string[] = [
  ...around('<', '>', [
    ['s', '/s', 'unk', 'pad', 'bos', 'eos', 'cls', 'sep', 'eod', 'sop', 'eop', 'eot', 'start_of_turn', 'end_of_turn'],
    ['think', '/think', 'tool_call', '/tool_call', 'tool_response', '/tool_response', 'tool_calls', '/tool_calls'],
    ['start_function_call', 'end_function_call', 'start_function_response', 'end_function_response'],
    ['start_function_declaration', 'end_function_declaration', 'escape', 'start_of_image', 'end_of_image'],
    ['function_call', '/function_call', 'arg_key', '/arg_key', 'arg_value', '/arg_value', '<SYS>', '</SYS>'],
    ['fim_prefix', 'fim_middle', 'fim_suffix', 'fim_pad', 'repo_name', 'reponame', 'file_sep', 'gh_stars'],
    ['issue_start', 'issue_comment', 'issue_closed', 'jupyter_start', 'jupyter_text', 'jupyter_code', 'jupyter_output'],
    ['commit_before', 'commit_msg', 'commit_after', 'empty_output', 'extra_id_0', 'extra_id_1', 'endoftext', 'EOT'],
    ['seed:bos', 'seed:eos', 'seed:tool_call', '/seed:tool_call', 'seed:think', '/seed:think'],
    ['minimax:tool_call', '/minimax:tool_call', 'beginning_of_sentence', 'end_of_sentence', 'end_of_document'],
    ['BOS_TOKEN', 'EOS_TOKEN', 'MASK_TOKEN', 'EOP_TOKEN', 'PAD', 'UNK', 'CLS', 'SEP', 'reserved_106', 'reserved_107'],
    ['SPECIAL_10', 'SPECIAL_11', 'SPECIAL_12'],
  ]),
  ...around('[', ']', [
    ['INST', '/INST', 'SYSTEM_PROMPT', '/SYSTEM_PROMPT', 'AVAILABLE_TOOLS', '/AVAILABLE_TOOLS', 'TOOL_CALLS'],
    ['/TOOL_CALLS', 'TOOL_RESULTS', '/TOOL_RESULTS', 'TOOL_CONTENT', 'CALL_ID', 'ARGS', 'THINK', '/THINK'],
    ['MODEL_SETTINGS', '/MODEL_SETTINGS', 'IMG', 'IMG_BREAK', 'IMG_END', 'AUDIO', 'BEGIN_AUDIO', 'TRANSCRIBE'],
    ['PREFIX', 'MIDDLE', 'SUFFIX', 'gMASK', 'sMASK', 'MASK', 'CLS', 'SEP', 'PAD', 'UNK', 'BOS', 'EOS', 'EOT', 'EOM'],
  ]),
  ...around('>>', '<<', [['TITLE', 'ABSTRACT', 'INTRODUCTION', 'SUMMARY', 'COMMENT', 'ANSWER', 'QUESTION', 'DOMAIN']]),
  ']~!b[',
  ']~b]',
  '[e~[',
]

function around(open: string, close: string, names: string[][]): string[] {
  return names.flat().map((name) => open + name + close)
}

const ROUNDS = 4
/** Longest text between bars that is treated as a name. */
const LONGEST_NAME = 64

interface Trie {
  next: Map<string, Trie>
  isEnd: boolean
}

/** Matches every text that may contain a token; most texts do not match and skip the pass. */
function startsOf(trie: Trie): RegExp {
  const starts = [...trie.next.keys()]
    .filter((unit) => unit >= ' ' && unit <= '~')
    .map((unit) => unit.replace(/[\\\]^-]/, String.raw`\$&`))
  return new RegExp(String.raw`[^\n\r\t -~]|[<${starts.join('')}]`, 'u')
}

/** A token of one character cannot be split, so its code point replaces it. */
function spellOut(token: string): string {
  return Array.from(token)
    .map((point) => String.raw`\u{${(point.codePointAt(0) as number).toString(16)}}`)
    .join('')
}

function buildTrie(tokens: readonly string[]): Trie {
  const root: Trie = { next: new Map(), isEnd: false }
  for (const token of tokens) {
    let node = root
    for (const unit of fold(token)) {
      const child: Trie = node.next.get(unit) ?? { next: new Map(), isEnd: false }
      node.next.set(unit, child)
      node = child
    }
    // Tokens of one unit are spelled out instead.
    node.isEnd = node.isEnd || Array.from(fold(token)).length > 1
  }
  return root
}

/**
 * Normalises text as the most lenient tokenizer would: compatibility forms become plain characters, invisible ones are removed. Works
 * per code point, so that each position in the result belongs to one in the text.
 */
function fold(text: string): string {
  let folded = ''
  for (const point of text) folded += foldPoint(point)
  return folded
}

function foldPoint(point: string): string {
  const code = point.charCodeAt(0)
  if (code < 0x7f) return code >= 0x20 || code === 9 || code === 10 || code === 13 ? point : ''
  return /[\p{Default_Ignorable_Code_Point}\p{Cc}]/u.test(point) ? '' : point.normalize('NFKC')
}

function breakTokens(text: string, trie: Trie): string {
  const points = Array.from(text)
  const units: string[] = []
  /** Index of each code point's first unit. */
  const begins: number[] = []
  for (const point of points) {
    begins.push(units.length)
    units.push(...Array.from(foldPoint(point)))
  }
  const broken = new Set<number>()
  for (let at = 0; at < units.length; at++) {
    if (spellsName(units, at) || spellsToken(units, at, trie)) broken.add(at)
  }
  if (broken.size === 0) return text
  return points
    .map((point, i) => {
      const from = begins[i] as number
      const own = units.slice(from, begins[i + 1] ?? units.length)
      if (!own.some((_, k) => broken.has(from + k))) return point
      // A code point that folds to several units is replaced by them, because a backslash cannot go inside it.
      return own.length === 1
        ? `${point}\\`
        : own.map((unit, k) => (broken.has(from + k) ? `${unit}\\` : unit)).join('')
    })
    .join('')
}

function spellsToken(units: readonly string[], at: number, trie: Trie): boolean {
  let node: Trie | undefined = trie
  // No token goes on with a missing unit, so the loop ends with the text.
  for (let i = at; node !== undefined; i++) {
    node = node.next.get(units[i] ?? '')
    if (node?.isEnd === true) return true
  }
  return false
}

/**
 * `<|name|>`, `<|name>` and `<name|>`, with any name of limited length. `[|name|]` with a plain name only, because some languages
 * write lists in these brackets.
 */
function spellsName(units: readonly string[], at: number): boolean {
  const close = CLOSES[units[at] ?? '']
  if (close === undefined) return false
  const hasBar = units[at + 1] === '|'
  const isAngle = close === '>'
  if (!isAngle && !hasBar) return false
  const start = at + (hasBar ? 2 : 1)
  let isPlain = true
  for (let i = start; i < units.length && i <= start + LONGEST_NAME; i++) {
    const unit = units[i] as string
    if (unit === units[at]) return false
    if (unit === close) return isAngle && hasBar && isPlain && i > start
    if (unit === '|') return i > start && units[i + 1] === close && (isPlain || (isAngle && hasBar))
    if (!/[\w:/-]/.test(unit)) isPlain = false
  }
  return false
}

const CLOSES: Readonly<Record<string, string>> = { '<': '>', '[': ']' }

/**
 * Renders messages as text; no other code does. A trajectory is one growing list of token ids: the first prompt, then samples and
 * deltas in turn. Sampled ids are appended unchanged. Only prompt and deltas are tokenised, and both begin and end at special tokens,
 * so tokenising them alone equals tokenising them in context.
 */
interface FirstPromptInput {
  format: ChatFormat
  systemPrompt: string
  /** Statement and prompt line (observation.ts, `firstMessage`). */
  firstMessage: string
  /** Breaks spellings of special tokens. @default the known tokens of all formats */
  defuse?: Defuse
}

const defuseKnown = createDefuse()

export function renderFirstPrompt({
  format,
  systemPrompt,
  firstMessage,
  defuse = defuseKnown,
}: FirstPromptInput): string {
  return (
    format.start +
    format.message('system', systemPrompt) +
    format.message('user', defuse(firstMessage)) +
    format.assistantHeader
  )
}

interface DeltaInput {
  format: ChatFormat
  /** Whether the policy sampled its end-of-turn token. If the reply was cut off, the token is added here as context. */
  endedTurn: boolean
  observation: string
  /** As in the first prompt. */
  defuse?: Defuse
}

export function renderDelta({ format, endedTurn, observation, defuse = defuseKnown }: DeltaInput): string {
  return (
    (endedTurn ? '' : format.endOfTurn) +
    format.afterTurn +
    format.message('user', defuse(observation)) +
    format.assistantHeader
  )
}

/** The format of Qwen and of the demo's policy. The policy samples the end of turn, but not the newline after it. */
export const chatml: ChatFormat = {
  name: 'chatml',
  start: '',
  message: (role, text) => `<|im_start|>${role}\n${text}<|im_end|>\n`,
  assistantHeader: '<|im_start|>assistant\n',
  endOfTurn: '<|im_end|>',
  afterTurn: '\n',
}

/** The format of Llama 3 and later. Its templates trim messages and may put the date before the system prompt; this renderer does
 *  neither. */
const llama3: ChatFormat = {
  name: 'llama3',
  start: '<|begin_of_text|>',
  message: (role, text) => `<|start_header_id|>${role}<|end_header_id|>\n\n${text}<|eot_id|>`,
  assistantHeader: '<|start_header_id|>assistant<|end_header_id|>\n\n',
  endOfTurn: '<|eot_id|>',
  afterTurn: '',
}

export const chatFormats: Readonly<Record<ChatFormatName, ChatFormat>> = { chatml, llama3 }
