import { readFileSync } from 'node:fs';
import { buildId } from '../../dist/build-id.js';
import { HeadlightError } from '../errors.js';
import { UsageError } from './args.js';
import { help } from './help.js';

/** Commands and where they are; each file is read when it is needed. @type {Record<string, () => Promise<(argv: string[]) => Promise<number>>>} */
const COMMANDS = {
  chat: async () => (await import('./chat.js')).chatCommand,
  eval: async () => (await import('./eval.js')).evalCommand,
  tokenize: async () => (await import('./text.js')).tokenizeCommand,
  detokenize: async () => (await import('./text.js')).detokenizeCommand,
  template: async () => (await import('./text.js')).templateCommand,
  sample: async () => (await import('./text.js')).sampleCommand,
  inspect: async () => (await import('./inspect.js')).inspectCommand,
};

/**
 * @param {string[]} argv
 * @returns {Promise<number>} 0; 1 when the input is at fault; 2 for wrong usage
 */
async function run(argv) {
  const [name, ...rest] = argv;
  if (name === undefined) throw new UsageError('which command?');
  if (name === 'help' || name === '--help' || name === '-h') {
    process.stdout.write(help(rest[0]));
    return 0;
  }
  if (name === '--version' || name === '-V') {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    process.stdout.write(`headlight ${version}, build ${buildId}\n`);
    return 0;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) throw new UsageError(`there is no command "${name}"`);
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(help(name));
    return 0;
  }
  return (await command())(rest);
}

/**
 * Runs the command line and ends the process; errors are one line.
 * @param {string[]} argv after node and the script
 */
export async function main(argv) {
  // A reader that has enough (head, for one) is no error.
  process.stdout.on('error', () => process.exit(0));
  let code = 1;
  try {
    code = await run(argv);
  } catch (error) {
    const oneLine = String(error instanceof Error ? error.message : error).replace(/\s*\n\s*/g, ' ');
    if (error instanceof UsageError) {
      process.stderr.write(`headlight: ${oneLine}; \`headlight help\` lists what there is\n`);
      code = 2;
    } else {
      const known = error instanceof HeadlightError;
      process.stderr.write(`headlight: ${known ? '' : 'internal error: '}${oneLine}\n`);
    }
  }
  // Threads of the engine would keep the process alive.
  process.exit(code);
}
