import { describeReplay } from '../support/sandbox-contract/replay.ts'
import { createSandboxFixture } from './sandbox-fixture.ts'

describeReplay(createSandboxFixture)
