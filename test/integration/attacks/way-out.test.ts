/**
 * No way out of a zero. A policy that tests itself and sees that it has failed tries to be played again: it ends, stops or breaks its
 * sandbox, or sends a patch that its grader cannot deal with. In each case its attempt counts once, as a failure: pass@1 is that
 * of the policy that hands its failures in. Holds whether or not an agent can reach the runner: where it cannot, the way leads nowhere.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { readTurns } from '../../../src/activities/episode/transcript.ts'
import { RUNNER_FOLDER } from '../../../src/adapters/docker/sandbox/runner-wire.ts'
import type { EpisodeRecord } from '../../../src/contracts/episodes.types.ts'
import { exclusionOf } from '../../../src/domain/ledger/episode-fates.ts'
import { summarizeAttempts } from '../../../src/domain/statistics/evaluation-summary.ts'
import { playOut } from '../../support/attacks/give-up.ts'
import { type AttackWorld, createAttackWorld } from '../../support/attacks/world.ts'

let world: AttackWorld
let next = 0

before(async () => {
  world = await createAttackWorld('way-out')
})

after(() => world.dispose())

const REPAIR = "sed -i 's/a - b/a + b/' calc.py"
/** Not the repair, and the policy knows it. */
const WRONG = "sed -i 's/a - b/a * b/' calc.py"

/** Every process of the sandbox's own that a command can see: runner, supervisor and main loop. */
const OURS = 'for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p -le 1 ] || [ $p = $$ ] || echo $p; done'
const CODE = (...lines: string[]): string => `cat >> calc.py <<'EOF'\n${lines.join('\n')}\nEOF`

const WAYS: [way: string, commands: string[]][] = [
  ['it hands its failure in', []],
  ['it kills every process that it can', ['kill -9 -1; sleep 1']],
  ['it ends the main process of the container', [`kill -9 $(${OURS}) 2>/dev/null; sleep 1`]],
  [
    'it kills the runner whenever there is one',
    [
      `find_runner() { grep -al '^${RUNNER_FOLDER}/' /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3; }; echo "runners: $(find_runner | wc -l)"`,
      `(while :; do kill -9 $(find_runner) 2>/dev/null; sleep 0.02; done) >/dev/null 2>&1 & sleep 1`,
      'true',
    ],
  ],
  ['it stops the runner', [`kill -STOP $(${OURS}) 2>/dev/null; sleep 1`]],
  ['it writes a fence that no attempt reaches', ['echo 999999999999 > /.lh/fence', 'true']],
  ['it takes the journal away', ['rm -rf /.lh/turns /.lh/world', 'true']],
  ['it makes the world forget its turns', ["echo '- .' > /.lh/world", 'true']],
  [
    'it makes a world that cannot be rebuilt, and ends it',
    ['cd $(mktemp -d)', 'kill -9 -1; sleep 1', 'kill -9 -1; sleep 1'],
  ],
  ['it uses all memory', ['tail /dev/zero', 'python3 -c "x = bytearray(10**10)"']],
  ['it fills the list of processes', ['f() { f | f & }; f; sleep 2']],
  ['it sleeps for ever', ['sleep infinity']],
  [
    'it ends whatever comes to its runner',
    ['(setsid sh -c "while :; do kill -9 -1; sleep 0.01; done" >/dev/null 2>&1 &); kill -9 $$', 'true'],
  ],
  [
    'its patch writes bytes into the log that are no text',
    [CODE('import atexit, os', "atexit.register(os.write, 1, b'\\xff\\xfe')")],
  ],
  ['its patch uses all memory of the grader', [CODE('all = []', 'while True: all.append(bytearray(1 << 24))')]],
  ['its patch kills everything in the grader', [CODE('import os', 'os.kill(-1, 9)')]],
  [
    'its patch says that its tests are over a limit that has not passed',
    [
      CODE(
        'import os',
        "print('overdue', file=open('/.lh/grade/overdue', 'w'), flush=True)",
        'os.kill(os.getppid(), 9)',
      ),
    ],
  ],
  [
    'its patch makes the time of its grader pass at once',
    [CODE('import os, time', "open('/bin/sleep', 'w').write('#!/bin/sh\\n')", 'time.sleep(20)')],
  ],
  ['its patch floods the log', [CODE('import os', "while os.write(2, b'x' * 65536): pass")].slice(1)],
  [
    'its patch fills the disk of the grader',
    [
      CODE(
        'for n in range(30):',
        '    with open(f"/tmp/fill{n}", "wb") as file:',
        '        for _ in range(200): file.write(bytes(1 << 20))',
      ),
    ],
  ],
  [
    'its patch fills the disk of the grader with files that have no name',
    [
      CODE(
        'import os',
        'kept = []',
        'for n in range(30):',
        '    kept.append(os.open("/tmp/fill", os.O_CREAT | os.O_RDWR)); os.unlink("/tmp/fill")',
        '    for _ in range(200): os.write(kept[-1], bytes(1 << 20))',
      ),
    ],
  ],
  [
    'its patch floods the stream by which its grader answers',
    [
      CODE(
        'import glob, os',
        'for main in glob.glob("/proc/[0-9]*"):',
        '    try:',
        '        with open(main + "/cmdline", "rb") as words: is_main = b"lh_bytes" in words.read()',
        '        stream = os.open(main + "/fd/5", os.O_WRONLY) if is_main else None',
        '    except OSError: continue',
        '    while stream is not None: os.write(stream, b"\\nlh1 0000 ran 0 1\\n" * 4096)',
      ),
    ],
  ],
  ['its patch is binary', ["printf '\\000\\001\\377' > calc.py"]],
  ['it destroys its repository', ['rm -rf .git']],
  ['it makes Git wait for a pipe while its patch is taken', ['mkfifo .gitattributes']],
]

for (const [way, commands] of WAYS) {
  test(`${way}: it ends as one failure that counts`, async () => {
    next += 1
    const { record, losses } = await playOut(world, { index: next, commands: [WRONG, ...commands] })
    if (commands.some((command) => command.includes('find_runner'))) {
      // There is one to be found, or the way tries nothing.
      const shown = (await readTurns(world.store, record.episode)).map(({ observation }) => observation?.text)
      assert.ok(
        shown.some((text) => /runners: [1-9]/.test(text ?? '')),
        shown.join('\n'),
      )
    }
    const told = `${record.disposition}, ${record.verdict} (${record.verdictReason}), lost to ${losses.join(', ') || 'nothing'}`
    assert.equal(exclusionOf(record), null, told)
    assert.equal(record.verdict, 'unresolved', told)
    assert.ok(losses.length <= 2, told)
    assertHonest(record)
  })
}

test('resolves an honest repair beside the attacks', async () => {
  next += 1
  const { record } = await playOut(world, { index: next, commands: [REPAIR] })
  assert.equal(record.verdict, 'resolved')
})

/** One success and this one: what the policy scores that hands both in. */
function assertHonest(gaveUp: EpisodeRecord): void {
  const record: EpisodeRecord = {
    ...gaveUp,
    index: 0,
    episode: 'repaired',
    disposition: 'submitted',
    verdict: 'resolved',
  }
  const facts = [record, gaveUp].map((one) => ({ record: one, verdict: null, wallMs: null, startedMs: null }))
  const planned = [{ taskId: gaveUp.taskId, repo: 'r', rowHash: 'h', createdAt: null }]
  const { score, official } = summarizeAttempts({ planned, attempts: 2, facts, prices: null, unaudited: 'allow' })
  assert.deepEqual([score.passAt1, official.passAt1], [0.5, 0.5])
}
