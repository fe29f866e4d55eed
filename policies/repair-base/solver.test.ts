import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { randomFrom } from '../../src/adapters/datasets/synthetic/compose.ts'
import { synthesizeTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { parseReply } from '../../src/scaffold/observation.ts'
import { blocksOf, solveRepair } from './solver.ts'

const taskAt = (index: number) => synthesizeTask({ family: 'half-renamed', seed: 3, split: 'train', index })

/** What the commands that change files do, on a folder; the real tools play them when demonstrations are made. */
function apply(folder: string, open: string, command: string): void {
  const write = (path: string, change: (text: string) => string): void =>
    writeFileSync(join(folder, path), change(readFileSync(join(folder, path), 'utf8')))
  const [, from = '', to = '', text = ''] = /^edit (\d+):(\d+) << 'EOF'\n([\s\S]*)\nEOF$/.exec(command) ?? []
  if (from !== '') {
    write(open, (before) => {
      const lines = before.split('\n')
      lines.splice(Number(from) - 1, Number(to) - Number(from) + 1, ...text.split('\n'))
      return lines.join('\n')
    })
  }
  const [, search = '', by = ''] = /^replace --replace-all (\S+) (\S+)$/.exec(command) ?? []
  if (search !== '') write(open, (before) => before.replaceAll(search, by))
  if (/^(sed|git checkout) /.test(command)) execFileSync('sh', ['-c', command], { cwd: folder, stdio: 'ignore' })
}

test('every path ends with the gold patch and a submission within 20 turns, including wrong turns', async () => {
  const ways = new Set<string>()
  let mistakes = 0
  for (let index = 0; index < 24; index += 1) {
    const { composed, row, repoTar } = taskAt(index)
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-solver-'))
    try {
      execFileSync('tar', ['-x', '--no-same-owner', '-C', folder], { input: await repoTar() })
      let open = ''
      let last = ''
      let turns = 0
      for (const { reply, isMistake } of solveRepair({
        task: composed,
        random: randomFrom(`solver ${index}`),
        detours: 0.3,
      })) {
        const { command } = parseReply(reply)
        assert.ok(command !== null, reply)
        if (command.startsWith('open ')) open = command.slice(5)
        ways.add(command.split(' ')[0] ?? '')
        if (!isMistake || command.startsWith('edit')) apply(folder, open, command)
        mistakes += isMistake ? 1 : 0
        last = command
        turns += 1
      }
      assert.equal(last, 'submit')
      assert.ok(turns <= 20, `${turns} turns`)
      assert.equal(execFileSync('git', ['diff'], { cwd: folder, encoding: 'utf8' }), row.patch)
    } finally {
      rmSync(folder, { recursive: true })
    }
  }
  assert.deepEqual([...ways].toSorted(), ['edit', 'git', 'open', 'python3', 'replace', 'sed', 'submit'])
  assert.ok(mistakes > 4)
})

test('without detours no turn is a mistake, and the same random numbers give the same episode', () => {
  const play = () => [...solveRepair({ task: taskAt(1).composed, random: randomFrom('same'), detours: 0 })]
  assert.deepEqual(play(), play())
  assert.ok(play().every(({ isMistake }) => !isMistake))
})

test('adjacent lines form one block', () => {
  assert.deepEqual(blocksOf([1, 4, 5, 9]), [
    [1, 1],
    [4, 5],
    [9, 9],
  ])
})
