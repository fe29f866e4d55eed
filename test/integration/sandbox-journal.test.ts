import { describeJournal } from '../support/sandbox-contract/journal.ts'
import { createSandboxFixture } from './sandbox-fixture.ts'

describeJournal(createSandboxFixture, { canRestart: true })
