import { Command } from 'commander'
import { packageVersion } from '../platform/package-version.ts'

const EXIT_CODES = `
Exit codes: 0 done; 1 usage or configuration, nothing was started; 2 infrastructure, nothing or too little was graded;
            3 a threshold was missed; 4 a regression is proven; 130 interrupted (the run goes on, unless it was cancelled).

A run is durable: Ctrl-C leaves it running. Results go to stdout, progress to stderr.
`

/** `longhaul` without its commands. */
export function createRootCommand(): Command {
  return new Command('longhaul')
    .description('train and evaluate software-engineering agents with reinforcement learning, durably on Temporal')
    .version(packageVersion())
    .showHelpAfterError('(add --help for the options)')
    .addHelpText('after', EXIT_CODES)
}
