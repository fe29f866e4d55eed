import { describeProcesses } from '../support/sandbox-contract/processes.ts'
import { createSandboxFixture } from './sandbox-fixture.ts'

describeProcesses(createSandboxFixture)
