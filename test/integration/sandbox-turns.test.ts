import { describeTurns } from '../support/sandbox-contract/turns.ts'
import { createSandboxFixture } from './sandbox-fixture.ts'

describeTurns(createSandboxFixture)
