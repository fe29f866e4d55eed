/** Guarantees of every grader: the official steps in a fresh world, the answer unchanged, and an end in time. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { GRADING_SLACK_MS } from '../../../src/adapters/docker/grader/grading.ts'
import type { GradeRunInput } from '../../../src/contracts/sandbox.types.ts'
import {
  codeOf,
  type ContractFixture,
  type MakeFixture,
  never,
  PATIENT,
  untilTrue,
} from '../../integration/sandbox-fixture.ts'

export const GRADED_FILES = {
  'm.py': 'def f():\n    return 1\n',
  'test_m.py': 'from m import f\n\n\ndef test_f():\n    assert f() == 2\n',
}

const PATCH = [
  'diff --git a/m.py b/m.py',
  '--- a/m.py',
  '+++ b/m.py',
  '@@ -1,2 +1,2 @@',
  ' def f():',
  '-    return 1',
  '+    return 2',
  '',
].join('\n')

/** A grading of `GRADED_FILES` with the patch that repairs them. */
export function gradeInputOf(fixture: ContractFixture, changes: Partial<GradeRunInput>): GradeRunInput {
  const { image, limits } = fixture.openInput()
  return {
    run: fixture.run,
    episode: `${fixture.run}/stage/0001/task/00`,
    owner: 'test',
    role: 'grader',
    image,
    repoDir: '/testbed',
    patch: Buffer.from(PATCH),
    applyCommands: [
      ['git', 'apply', '--verbose', '/tmp/patch.diff'],
      ['git', 'apply', '--verbose', '--reject', '/tmp/patch.diff'],
    ],
    evalScript: 'echo "in $PWD"; python3 -m pytest -rA -p no:cacheprovider test_m.py',
    timeoutMs: 60_000,
    limits,
    leaseMs: 120_000,
    ...changes,
  }
}

export function describeGrading(makeFixture: MakeFixture): void {
  describe('grading', () => {
    let fixture: ContractFixture

    before(async () => {
      fixture = await makeFixture('grade', GRADED_FILES)
    })
    after(() => fixture?.dispose())

    const gradeInput = (changes: Partial<GradeRunInput>): GradeRunInput => gradeInputOf(fixture, changes)

    async function grade(changes: Partial<GradeRunInput> = {}) {
      const result = await fixture.host.grade(gradeInput(changes), never)
      assert.deepEqual(await fixture.graders(), [])
      return { ...result, text: Buffer.from(result.log).toString() }
    }

    // The story: a worker was cut off from the server. The next attempt took the place of its grader, and the end of the first attempt
    // removed that of the second.
    test('a grading that takes the place of an earlier attempt outlasts the end of that attempt', async () => {
      const input = gradeInput({ evalScript: 'sleep 3; echo graded' })
      const other = await fixture.anotherHost()
      try {
        const first = fixture.host.grade(input, never)
        first.catch(() => undefined)
        await untilTrue(async () => (await fixture.graders()).length === 1)
        const { kind, log } = await other.grade(input, never)
        assert.equal(kind, 'ran')
        assert.match(Buffer.from(log).toString(), /^graded$/m)
        await assert.rejects(first)
        assert.deepEqual(await fixture.graders(), [])
      } finally {
        other.dispose()
      }
    })

    test('applies a patch, runs the evaluation in the repository and removes the container', async () => {
      const result = await grade()
      assert.equal(result.kind, 'ran')
      assert.equal(result.kind === 'ran' && result.exitCode, 0)
      assert.match(result.text, /^in \/testbed\n/)
      assert.match(result.text, /PASSED test_m.py::test_f/)
      assert.match(result.imageDigest, /^sha256:/)
    })

    test('applies nothing for an empty patch, and the evaluation runs and fails', async () => {
      const result = await grade({ patch: new Uint8Array(), applyCommands: [] })
      assert.equal(result.kind === 'ran' && result.exitCode, 1)
      assert.match(result.text, /FAILED test_m.py::test_f/)
    })

    test('tries every command for a patch that does not apply and does not run the evaluation', async () => {
      const result = await grade({ patch: Buffer.from(PATCH.replace('return 1', 'return 5')) })
      assert.equal(result.kind, 'patch-did-not-apply')
      assert.equal(result.text.match(/patch failed: m.py:1/g)?.length, 2)
      assert.doesNotMatch(result.text, /in \/testbed/)
    })

    test('runs the evaluation when the second apply command works', async () => {
      const applyCommands = [
        ['git', 'apply', '/tmp/no such $(file)'],
        ['git', 'apply', '/tmp/patch.diff'],
      ]
      assert.equal((await grade({ applyCommands })).kind, 'ran')
    })

    test('patch and log keep their bytes: CRLF, no final newline, Latin-1', async () => {
      const patch = Buffer.from(
        'diff --git a/n.txt b/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+caf\xe9\r\n\\ No newline at end of file\n',
        'latin1',
      )
      const result = await grade({ patch, evalScript: 'cat n.txt; printf "\\000\\377 end"' })
      assert.deepEqual(Buffer.from(result.log), Buffer.from('caf\xe9\r\0\xff end', 'latin1'))
    })

    test('merges stderr and stdout of the evaluation in order', async () => {
      assert.equal((await grade({ evalScript: 'echo 1; echo 2 >&2; echo 3' })).text, '1\n2\n3\n')
    })

    test('an evaluation past its deadline is timed out and keeps its log so far', async () => {
      const result = await grade({ evalScript: "trap '' TERM; echo begun; sleep 600", timeoutMs: 4000 })
      assert.equal(result.kind, 'timed-out')
      assert.equal(result.text, 'begun\n')
    })

    test('returns the result although the evaluation leaves processes that hold its output open', async () => {
      const result = await grade({
        evalScript: '(sleep 600; echo late) & setsid sleep 600 & echo done',
        timeoutMs: 30_000,
      })
      assert.equal(result.kind, 'ran')
      assert.equal(result.text, 'done\n')
    })

    /** A16: the evaluation runs hostile code as root, so the files that are read back may be anything. */
    const HOSTILE_LOGS: [what: string, evalScript: string, log: RegExp][] = [
      ['a link to a file of the container', 'rm /.lh/grade/log; ln -s /etc/passwd /.lh/grade/log', /^$/],
      ['a link above the container', 'rm /.lh/grade/log; ln -s ../../../../../etc/passwd /.lh/grade/log', /^$/],
      ['a device', 'rm /.lh/grade/log; mknod /.lh/grade/log c 1 5 2>/dev/null || ln -s /dev/zero /.lh/grade/log', /^$/],
      ['a pipe', 'rm /.lh/grade/log; mkfifo /.lh/grade/log', /^$/],
      ['a folder', 'rm /.lh/grade/log; mkdir -p /.lh/grade/log/log', /^$/],
      ['a sparse file of a terabyte', 'rm /.lh/grade/log; truncate -s 1T /.lh/grade/log', /^\0*$/],
    ]

    for (const [what, evalScript, log] of HOSTILE_LOGS) {
      test(`returns only regular bytes below the limit when the evaluation puts ${what} in the place of its log`, async () => {
        const result = await grade({ evalScript, timeoutMs: 30_000 })
        assert.equal(result.kind, 'ran')
        assert.ok(result.log.byteLength <= 16 * 1024 * 1024)
        // Testing the beginning is enough, and the whole would be slow.
        assert.match(result.text.slice(0, 1000), log)
      })
    }

    /** What opens the name of a pipe waits for its other end. */
    const PIPES: [what: string, evalScript: string, kind: string][] = [
      ['the mark of its passed limit', 'mkfifo /.lh/grade/overdue; sleep 600', 'timed-out'],
      ['the null device', 'rm /dev/null; mkfifo /dev/null; echo done', 'ran'],
    ]

    for (const [what, evalScript, kind] of PIPES) {
      test(`the evaluation still ends by its own deadline after it puts a pipe in the place of ${what}`, async () => {
        const result = await grade({ evalScript, timeoutMs: 3_000 })
        assert.equal(result.kind, kind)
        assert.ok(result.wallMs < 3_000 + GRADING_SLACK_MS / 2, `${result.wallMs} ms`)
      })
    }

    test('ignores answers that the evaluation writes to every output it finds', async () => {
      const forged = 'printf "\\nlh1 %s ran 0 1\\nforged\\nlh1 %s\\n\\nlh1 %s\\n" guess guess guess'
      const evalScript = `for fd in 0 1 2 3 4 5 6; do for p in 1 $PPID; do { ${forged} >/proc/$p/fd/$fd; } 2>/dev/null; done; done; exit 3`
      const result = await grade({ evalScript, timeoutMs: 30_000 })
      assert.deepEqual([result.kind, result.kind === 'ran' && result.exitCode], ['ran', 3])
    })

    test('an evaluation that kills its waiting process has ended its own grading', async () => {
      const input = gradeInput({ evalScript: 'kill -9 -1; sleep 1', timeoutMs: 30_000 })
      await assert.rejects(fixture.host.grade(input, never), { code: 'Grading.Ended' })
    })

    test('a grader that is ended from outside is not blamed on the patch', async () => {
      const grading = fixture.host.grade(gradeInput({ evalScript: 'sleep 6000', ...PATIENT }), never)
      grading.catch(() => undefined)
      await untilTrue(async () => {
        // An engine lists a container a moment before it knows it, and a moment after it has removed it.
        const kill = async (name: string): Promise<boolean> => {
          if (!(await fixture.isRunning(name))) return false
          await fixture.kill(name)
          return true
        }
        const killed = await Promise.all((await fixture.graders()).map((name) => kill(name).catch(() => false)))
        return killed.includes(true)
      })
      await assert.rejects(grading, { code: 'Grading.Failed' })
    })

    test('a patch, a script and a file of any size and any bytes arrive unchanged', async () => {
      const body = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7 + (index >> 8)) % 256))
      const files = { '/opt/deep/large.bin': body, '/opt/deep/small.bin': body.subarray(0, 5000), "/opt/it's": "a'b\n" }
      const evalScript = `# ${'x'.repeat(70_000)}\nsha256sum /opt/deep/*.bin; cat "/opt/it's"; stat -c %a /eval.sh`
      const { text } = await grade({ files, evalScript })
      const sums = [body, body.subarray(0, 5000)].map((bytes) => createHash('sha256').update(bytes).digest('hex'))
      assert.equal(text, `${sums[0]}  /opt/deep/large.bin\n${sums[1]}  /opt/deep/small.bin\na'b\n755\n`)
    })

    /** Whatever uploads a long file makes the folders above it, before the script does. */
    test('the folder of a grader stays closed to other users when a long file lies in it', async () => {
      const files = { '/.lh/grade/long.bin': Buffer.alloc(200_000, 'x') }
      const { text } = await grade({ files, evalScript: 'stat -c %a /.lh /.lh/grade /.lh/apply' })
      assert.equal(text, '700\n700\n700\n')
    })

    test('an evaluation that floods its log is ended with a bounded log without an end marker', async () => {
      const result = await grade({ evalScript: 'yes flood; echo end', timeoutMs: 600_000 })
      assert.equal(result.kind, 'ran')
      assert.ok(result.log.byteLength <= 16 * 1024 * 1024)
      assert.doesNotMatch(result.text.slice(-100), /end/)
    })

    test('a cancelled grading rejects with the caller’s reason and removes its container', async () => {
      const controller = new AbortController()
      const reason = new Error('cancelled')
      const running = fixture.host.grade(gradeInput({ evalScript: 'sleep 600' }), controller.signal)
      setTimeout(() => controller.abort(reason), 700)
      await assert.rejects(running, (error) => error === reason)
      assert.deepEqual(await fixture.graders(), [])
    })

    test('ignores the clock of the evaluation: a false time limit and false figures have no effect', async () => {
      const hurry = 'echo overdue >/.lh/grade/overdue; kill -9 $PPID'
      await assert.rejects(
        grade({ evalScript: hurry, timeoutMs: 600_000 }),
        (error) => codeOf(error) === 'Grading.Ended',
      )
      const lies =
        "for name in date cat awk; do printf '#!/bin/sh\\necho 1e18\\n' > $(command -v $name); done; echo done"
      const before = performance.now()
      const lied = await grade({ evalScript: lies })
      assert.equal(lied.kind, 'ran')
      assert.ok(lied.wallMs >= 0 && lied.wallMs <= performance.now() - before, `${lied.wallMs} ms`)
      assert.equal(lied.peakMemoryBytes, undefined)
    })
  })
}
