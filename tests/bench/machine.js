// What the numbers depend on besides the code: the machine, its load, and the CPU time and memory of processes (Linux).
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { arch, cpus, loadavg, platform, release, totalmem } from 'node:os';

/** Flags of the CPU that change the speed of what is measured. */
const interesting =
  /^(ssse3|avx|avx2|fma|f16c|avx_vnni|avx512f|avx512bw|avx512vl|avx512_vnni|asimd|asimddp|i8mm|sve)$/;

/** @param {string} path @returns {string} '' where there is none */
function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/**
 * @typedef {object} Machine
 * @property {string} cpu model
 * @property {number} cores
 * @property {string[]} flags
 * @property {number} memoryBytes
 * @property {string} system
 *
 * @returns {Machine}
 */
export function describeMachine() {
  const info = read('/proc/cpuinfo');
  const flags = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(info)?.[1].split(' ') ?? [];
  const [first] = cpus();
  return {
    cpu: first?.model.trim() || arch(),
    cores: cpus().length,
    flags: flags.filter((flag) => interesting.test(flag)),
    memoryBytes: totalmem(),
    system: `${platform()} ${release()} ${arch()}`,
  };
}

/** Name for files: the CPU and the cores, such as amd-epyc-2. @param {Machine} machine */
export function machineName({ cpu, cores }) {
  const words = cpu
    .toLowerCase()
    .replace(/\((r|tm)\)|@.*|processor|cpu|core\b/g, ' ')
    .match(/[a-z0-9.]+/g);
  return [...(words ?? ['cpu']), cores].join('-');
}

/**
 * CPU time of the whole machine since it started, in ticks summed over its cores.
 * @param {string} [text] of /proc/stat
 * @returns {{ busy: number, steal: number, total: number }}
 */
export function cpuTicks(text = read('/proc/stat')) {
  // user nice system idle iowait irq softirq steal; what follows is contained in user
  const ticks = text.split('\n', 1)[0].trim().split(/\s+/).slice(1, 9).map(Number);
  const [, , , idle = 0, iowait = 0, , , steal = 0] = ticks;
  const total = ticks.reduce((sum, n) => sum + n, 0);
  return { busy: total - idle - iowait - steal, steal, total };
}

/** Shares of the machine's cores that were busy and stolen between two readings.
 * @param {ReturnType<typeof cpuTicks>} before @param {ReturnType<typeof cpuTicks>} after */
export function cpuShares(before, after) {
  const total = Math.max(1, after.total - before.total);
  return { busy: (after.busy - before.busy) / total, steal: (after.steal - before.steal) / total };
}

/** Share of the cores in use while the bench itself does nothing. @param {number} ms to look */
export async function foreignLoad(ms) {
  const before = cpuTicks();
  await new Promise((resolve) => setTimeout(resolve, ms));
  return cpuShares(before, cpuTicks()).busy;
}

/** @returns {number} over the last minute */
export const loadAverage = () => loadavg()[0];

/** CPU time of all threads of a process that live now, in ms. @param {number} pid */
export function processCpuMs(pid) {
  let ns = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    ns += Number(read(`/proc/${pid}/task/${task}/schedstat`).split(' ')[0] || 0);
  }
  return ns / 1e6;
}

/** Largest resident memory of a process so far, in bytes. @param {number} pid */
export function peakResident(pid) {
  const kilobytes = /^VmHWM:\s*(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1];
  return Number(kilobytes ?? 0) * 1024;
}

/** Processes below one, at any depth, whose command line holds a word. @param {number} pid @param {string} word */
export function childrenOf(pid, word) {
  /** @type {Map<number, number>} */
  const parents = new Map();
  for (const name of readdirSync('/proc')) {
    const parent = /\) \S (\d+)/.exec(read(`/proc/${name}/stat`))?.[1];
    if (parent) parents.set(Number(name), Number(parent));
  }
  const isBelow = (/** @type {number | undefined} */ child) => {
    while (child && child !== pid) child = parents.get(child);
    return child === pid;
  };
  return [...parents.keys()].filter(
    (child) => child !== pid && isBelow(child) && read(`/proc/${child}/cmdline`).includes(word),
  );
}

/** First line of what a program says to --version. @param {string} program @param {string[]} [args] */
export function versionOf(program, args = ['--version']) {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .trim()
      .split('\n')[0];
  } catch {
    return 'unknown';
  }
}
