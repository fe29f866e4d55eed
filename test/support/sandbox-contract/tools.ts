import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'

import { runnerScripts } from '../../../src/adapters/docker/sandbox/runner-files.ts'
import {
  type Player,
  type ContractFixture,
  type MakeFixture,
  createPlayer,
  never,
} from '../../integration/sandbox-fixture.ts'

export function describeTools(makeFixture: MakeFixture): void {
  describe('tools of a sandbox', () => {
    const numbered = (count: number): string =>
      Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('')

    let fixture: ContractFixture
    let player: Player

    before(async () => {
      fixture = await makeFixture('tools', {
        'pkg/ten.py': numbered(10),
        'pkg/thousand.txt': numbered(1000),
        'pkg/dos.txt': 'a\r\nb\r\nc\r\n',
        'pkg/open-end.txt': 'a\nb',
        'pkg/empty.txt': '',
        'pkg/awkward [1] \\n.txt': 'x\n',
        'pkg/script.sh': '#!/bin/sh\necho hi\n',
      })
      player = createPlayer(fixture.host, await fixture.host.open(fixture.openInput(), never))
    })

    after(() => fixture.dispose())

    test('every tool for the open file fails and says so when no file is open', async () => {
      for (const command of [
        'goto 1',
        'scroll_down',
        'scroll_up',
        'open',
        'edit 1:1 x',
        'replace a b',
        'search_file a',
      ]) {
        const { text, exitCode } = await player.play(command)
        assert.equal(text, 'No file is open. Open one first: open FILE\n', command)
        assert.equal(exitCode, 1)
      }
    })

    test('open shows the top of the file, or a window around the given line', async () => {
      const top = await player.play('open pkg/ten.py')
      assert.equal(
        top.text,
        '[File: pkg/ten.py (10 lines total)]\n1:line 1\n2:line 2\n3:line 3\n4:line 4\n5:line 5\n6:line 6\n7:line 7\n8:line 8\n(2 more lines below)\n',
      )
      assert.equal(top.state.openFile, '/testbed/pkg/ten.py')
      assert.equal(top.state.windowTop, 1)
      const bottom = await player.play('open pkg/ten.py 10')
      assert.match(
        bottom.text,
        /^\[File: pkg\/ten.py \(10 lines total\)\]\n\(2 more lines above\)\n3:line 3\n(.*\n)*10:line 10\n$/,
      )
      const reopened = await player.play('cd pkg; open')
      assert.equal(reopened.text, bottom.text)
      await player.play('cd /testbed')
    })

    test('open fails for a missing file, a directory, a line outside the file and an invalid argument', async () => {
      assert.equal((await player.play('open nope.py')).text, 'File nope.py not found\n')
      assert.equal((await player.play('open pkg')).text, 'Error: pkg is a directory. Use ls to look into it.\n')
      const beyond = await player.play('open pkg/ten.py 99')
      assert.match(beyond.text, /^Line 99 is out of range: the file has 10 lines\.\n\[File: pkg\/ten.py/)
      assert.match(beyond.text, /10:line 10\n$/)
      assert.equal((await player.play('open pkg/ten.py x')).text, 'Usage: open [FILE] [LINE_NUMBER]\n')
      assert.equal((await player.play('open a b c')).text, 'Usage: open [FILE] [LINE_NUMBER]\n')
    })

    test('goto and scroll move the window with the overlap of the profile', async () => {
      await player.play('open pkg/thousand.txt')
      const middle = await player.play('goto 500')
      assert.match(
        middle.text,
        /\(497 more lines above\)\n498:line 498\n(.*\n)*505:line 505\n\(495 more lines below\)\n$/,
      )
      assert.equal((await player.play('scroll_down')).state.windowTop, 504)
      assert.equal((await player.play('scroll_up')).state.windowTop, 498)
      assert.equal(
        (await player.play('goto 1001')).text,
        'Error: line 1001 is out of range: the file has 1000 lines.\n',
      )
      assert.equal((await player.play('goto 0')).text, 'Error: line 0 is out of range: the file has 1000 lines.\n')
      assert.equal((await player.play('goto ten')).text, 'Usage: goto LINE_NUMBER\n')
      assert.equal((await player.play('goto 1000')).state.windowTop, 993)
      assert.equal((await player.play('scroll_down')).state.windowTop, 993)
    })

    test('a profile with a window of 100 lines shows 568 to 667 for goto 583 of 1,000 and scrolls by 98', async () => {
      const tools = { windowLines: 100, windowOverlap: 2, pathForm: 'absolute' } as const
      const other = createPlayer(
        fixture.host,
        await fixture.host.open(fixture.openInput({ placement: 2, tools }), never),
      )
      await other.play('open pkg/thousand.txt')
      const { text, state } = await other.play('goto 583')
      assert.match(
        text,
        /^\[File: \/testbed\/pkg\/thousand.txt \(1000 lines total\)\]\n\(567 more lines above\)\n568:line 568\n/,
      )
      assert.match(text, /\n667:line 667\n\(333 more lines below\)\n$/)
      assert.equal(state.windowTop, 568)
      assert.equal((await other.play('scroll_down')).state.windowTop, 666)
      await fixture.host.close(other.sandbox)
    })

    test('create opens a file with one empty line and leaves an existing file as it is', async () => {
      const { text, state } = await player.play('create pkg/new.py')
      assert.equal(text, '[File: pkg/new.py (1 lines total)]\n1:\n')
      assert.equal(state.openFile, '/testbed/pkg/new.py')
      const exists = await player.play('create pkg/ten.py; sed 1q pkg/ten.py')
      assert.equal(exists.text, 'Error: pkg/ten.py already exists. Use open and edit to change it.\nline 1\n')
      assert.equal((await player.play('create no/dir.py')).text, 'Error: the directory of no/dir.py does not exist.\n')
    })

    test('edit takes literal text as argument, heredoc or --file, and prints one line and the window', async () => {
      await player.play('open pkg/ten.py')
      const one = await player.play(`edit 3:4 "    \\$x = 'a\\\\n'"`)
      assert.match(
        one.text,
        /^File updated\. Check indentation and repeated lines\.\n\[File: pkg\/ten.py \(9 lines total\)\]\n/,
      )
      assert.match(one.text, /\n2:line 2\n3: {4}\$x = 'a\\n'\n4:line 5\n/)
      const many = await player.play('edit 1:1 << \'EOF\'\n\tif "$x":\n\n        pass\\\nEOF\n')
      assert.match(many.text, /\n1:\tif "\$x":\n2:\n3: {8}pass\\\n4:line 2\n/)
      const file = await player.play("edit --file pkg/new.py 1:1 'print(1)'")
      assert.match(file.text, /\[File: pkg\/new.py \(1 lines total\)\]\n1:print\(1\)\n$/)
      assert.equal(file.state.openFile, '/testbed/pkg/new.py')
      assert.equal((await player.play('cat pkg/new.py')).text, 'print(1)\n')
    })

    test('edit with an empty text removes the lines', async () => {
      await player.play("create pkg/three.txt; edit 1:1 << 'EOF'\na\nb\nc\nEOF")
      assert.match((await player.play("edit 2:2 ''")).text, /\(2 lines total\)\]\n1:a\n2:c\n$/)
    })

    test('edit with an invalid range or without text fails and leaves the file unchanged', async () => {
      await player.play('open pkg/ten.py; md5sum pkg/ten.py > /tmp/before')
      const usage = 'Usage: edit [--file PATH] START:END TEXT\n'
      assert.equal(
        (await player.play('edit 3:99 x')).text,
        'Error: lines 3:99 are out of range: the file has 11 lines.\n',
      )
      assert.equal(
        (await player.play('edit 0:1 x')).text,
        'Error: lines 0:1 are out of range: the file has 11 lines.\n',
      )
      assert.equal((await player.play('edit 5:4 x')).text, 'Error: line 5 comes after line 4.\n')
      assert.equal((await player.play('edit 5 x')).text, usage)
      assert.equal((await player.play('edit 1:1')).text, usage)
      assert.equal((await player.play('edit 1:1 a b')).text, usage)
      assert.equal((await player.play('edit --file nope 1:1 a')).text, 'File nope not found\n')
      assert.equal((await player.play('md5sum -c --quiet /tmp/before && ls -A pkg | grep draft')).text, '')
    })

    test('edit keeps line endings, a missing final newline, the mode and links', async () => {
      await player.play('edit --file pkg/dos.txt 2:2 B')
      assert.equal((await player.play('cat pkg/dos.txt')).text, 'a\r\nB\nc\r\n')
      await player.play('edit --file pkg/open-end.txt 1:1 A')
      assert.equal((await player.play('cat pkg/open-end.txt')).text, 'A\nb')
      await player.play('chmod 751 pkg/script.sh; ln -s script.sh pkg/link.sh; edit --file pkg/link.sh 2:2 "echo ho"')
      assert.equal(
        (await player.play('stat -c %a pkg/script.sh; readlink pkg/link.sh; sh pkg/script.sh')).text,
        '751\nscript.sh\nho\n',
      )
      assert.match((await player.play('edit --file pkg/empty.txt 1:1 first')).text, /\(1 lines total\)\]\n1:first\n$/)
    })

    test('replace changes one, all or several lines, or fails without a change', async () => {
      await player.play("create pkg/r.txt; edit 1:1 << 'EOF'\nx = a.b + a.b\ny = a.b\n\\1 & $z\nEOF")
      const ambiguous = await player.play("replace 'a.b' c")
      assert.equal(ambiguous.text, 'Error: the search text is there 3 times. Make it longer or use --replace-all.\n')
      assert.equal((await player.play('replace axb c')).text, 'Error: the search text is not in the file.\n')
      const once = await player.play("replace 'y = a.b' 'y = \\1&'")
      assert.match(
        once.text,
        /^File updated\. Check indentation and repeated lines\.\n\[File: pkg\/r.txt \(3 lines total\)\]\n1:x = a.b \+ a.b\n2:y = \\1&\n3:\\1 & \$z\n$/,
      )
      await player.play("replace --replace-all 'a.b' 'aa.bb'")
      await player.play("replace $'bb\\ny' $'bb\\nnew\\ny'")
      assert.equal((await player.play('cat pkg/r.txt')).text, 'x = aa.bb + aa.bb\nnew\ny = \\1&\n\\1 & $z\n')
      assert.equal((await player.play('replace a')).text, 'Usage: replace [--replace-all] SEARCH REPLACE\n')
      await player.play("open pkg/open-end.txt; replace b 'b c'")
      assert.equal((await player.play('cat pkg/open-end.txt')).text, 'A\nb c')
    })

    test('search_file finds literal text in the open or named file, at most a hundred lines', async () => {
      const { text } = await player.play('open pkg/thousand.txt > /dev/null; search_file "line 99"')
      assert.match(text, /^11 matches in pkg\/thousand.txt:\n99:line 99\n990:line 990\n/)
      assert.equal((await player.play('search_file "line .*" pkg/ten.py')).text, 'No matches in pkg/ten.py.\n')
      assert.equal(
        (await player.play("search_file '\\1' pkg/r.txt")).text,
        '2 matches in pkg/r.txt:\n3:y = \\1&\n4:\\1 & $z\n',
      )
      const many = await player.play('search_file line')
      assert.match(many.text, /^1000 matches in/)
      assert.match(many.text, /\n100:line 100\n\(900 more matches\)\n$/)
    })

    test('handles names with blanks, brackets and a backslash; a file outside the repository is shown absolute', async () => {
      assert.equal(
        (await player.play(String.raw`open 'pkg/awkward [1] \n.txt'`)).text,
        '[File: pkg/awkward [1] \\n.txt (1 lines total)]\n1:x\n',
      )
      const { text } = await player.play('echo hi > /tmp/out.txt; open /tmp/out.txt')
      assert.equal(text, '[File: /tmp/out.txt (1 lines total)]\n1:hi\n')
    })

    test('tools work in pipelines, subshells, under set -eu, with another IFS and a broken PATH', async () => {
      const { text, state } = await player.play('set -eu; IFS=:; PATH=/nowhere; (open pkg/ten.py) | /usr/bin/head -n 1')
      assert.equal(text, '[File: pkg/ten.py (11 lines total)]\n')
      assert.equal(state.openFile, '/testbed/pkg/ten.py')
      await player.play('PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin')
    })

    test('reports that the open file was deleted', async () => {
      await player.play('create pkg/brief.txt; rm pkg/brief.txt')
      assert.equal((await player.play('scroll_down')).text, 'File pkg/brief.txt not found\n')
    })

    test('submit prints a short confirmation and sets the state', async () => {
      assert.equal((await player.play('submit now')).text, 'Usage: submit\n')
      const { text, state } = await player.play('submit')
      assert.equal(text, 'Submitted.\n')
      assert.equal(state.submitted, true)
    })

    test('both shells of the sandbox can parse its scripts', async () => {
      const texts = Object.values(await runnerScripts())
      assert.equal(texts.length, 6)
      for (const text of texts) {
        const command = `cat > /tmp/script << 'END OF SCRIPT'\n${text}\nEND OF SCRIPT\ndash -n /tmp/script && bash --posix -n /tmp/script`
        const result = await player.play(command)
        assert.equal(result.text, '')
        assert.equal(result.exitCode, 0)
      }
    })
  })
}
