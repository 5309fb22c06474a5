// Executions of evals: the score of each sample under each attention, and pairs of them, as `paceline evals compare` makes them.

import { bytes, load, numbers, type Packed } from './data';
import { bootstrapTail, quantile } from './stats';

interface PackedScores {
  n: number;
  /** Where few different scores occur: these, and for each sample which of them. */
  k?: number;
  of?: Packed;
  b?: string;
  all?: Packed;
}

export interface Stub {
  model: string;
  attention: string;
  task: number;
  metric: string;
  direction: string | null;
  low: number;
  high: number;
  score: number;
  density: number | null;
  rows: string;
  conditions: string;
  scores: PackedScores;
}

export interface Task {
  /** With what its rows are, where they are not the benchmark's own. */
  name: string;
  benchmark: string;
  subset: string | null;
  samples: string[];
  /** Which of them belong together, as those of one document; missing where none do. */
  groups?: number[];
}

export interface EvalsFile {
  tasks: Task[];
  stubs: Stub[];
  points: QualityPoint[];
  /** Why a model has no point. */
  refused: string[];
  missing: number;
}

export const loadEvals = (session: string) => load<EvalsFile>(`evals/${session}`);

export const taskName = (task: Task) => task.name;

function scoresOf(packed: PackedScores): Float64Array {
  if (packed.b === undefined) return numbers(packed.all, packed.n);
  const levels = numbers(packed.of, packed.k ?? 0);
  return Float64Array.from(new Uint8Array(bytes(packed.b)), (place) => levels[place]);
}

export interface Pair {
  id: string;
  model: string;
  task: string;
  metric: string;
  direction: string | null;
  before: number;
  after: number;
  density: number | null;
  difference: number;
  low: number;
  high: number;
  verdict: 'better' | 'worse' | 'same' | 'inconclusive';
  n: number;
  samples: string[];
  scores: [Float64Array, Float64Array];
  differences: Float64Array;
  /** The differences of the samples that belong together, summed. */
  sums: number[];
}

export interface EvalSide {
  file: EvalsFile;
  attention: string;
}

/** Every model and task that both sides asked the same samples under the same conditions; the rest are named. */
export function pairsOf(a: EvalSide, b: EvalSide): { pairs: Pair[]; missing: string[] } {
  const ofSide = (side: EvalSide) => side.file.stubs.filter((stub) => stub.attention === side.attention);
  const found: [Stub, Stub][] = [];
  const missing: string[] = [];
  for (const stub of ofSide(b)) {
    const task = b.file.tasks[stub.task];
    const other = ofSide(a).find((one) => one.conditions === stub.conditions && one.model === stub.model && sameTask(a.file.tasks[one.task], task));
    if (other) found.push([other, stub]);
    else missing.push(`${stub.model} ${taskName(task)}`);
  }
  const draws = found.reduce((sum, [, stub]) => sum + stub.scores.n, 0) || 1;
  const resamples = Math.round(Math.min(MOST_RESAMPLES, Math.max(FEWEST_RESAMPLES, MOST_DRAWS / draws)));
  const pairs = found.map(([before, after]) => pairOf(before, after, b.file.tasks[after.task], resamples));
  return { pairs: corrected(pairs), missing };
}

function sameTask(a: Task, b: Task): boolean {
  return a === b || (a.benchmark === b.benchmark && a.subset === b.subset && a.samples.length === b.samples.length && a.samples.every((name, at) => name === b.samples[at]));
}

function pairOf(before: Stub, after: Stub, task: Task, resamples: number): Pair {
  const scores: [Float64Array, Float64Array] = [scoresOf(before.scores), scoresOf(after.scores)];
  const differences = scores[1].map((score, at) => score - scores[0][at]);
  const sums = sumsOf(differences, task.groups);
  const sizes = sumsOf(differences.map(() => 1), task.groups);
  const [low, high] = sums.length > 1 ? bootstrapMean(sums, sizes, resamples) : [before.low - before.high, before.high - before.low];
  return {
    id: `${after.model}/${taskName(task)}`,
    model: after.model,
    task: taskName(task),
    metric: after.metric,
    direction: after.direction,
    before: before.score,
    after: after.score,
    density: after.density,
    difference: mean(differences),
    low,
    high,
    verdict: verdictOf(mean(differences), after.direction),
    sums,
    n: differences.length,
    samples: task.samples,
    scores,
    differences,
  };
}

function verdictOf(difference: number, direction: string | null): Pair['verdict'] {
  if (!difference) return 'same';
  if (!direction) return 'inconclusive';
  return difference > 0 === (direction === 'higher') ? 'better' : 'worse';
}

function sumsOf(differences: Float64Array, groups?: number[]): number[] {
  if (!groups) return [...differences];
  const found = new Map<number, number>();
  groups.forEach((group, at) => found.set(group, (found.get(group) ?? 0) + differences[at]));
  return [...found.values()];
}

const RATE = 0.05;
const MOST_EXACT = 14;
const EXCHANGES = 20_000;

/** Verdicts that hold for all pairs together, by Holm's rule; as `paceline.evals.comparison` has it. */
function corrected(pairs: Pair[]): Pair[] {
  const fewest = Math.ceil(Math.log2((2 * Math.max(pairs.length, 1)) / RATE));
  const tested = pairs.map((pair) => ({ pair, p: exchangeTest(pair.sums) })).sort((x, y) => x.p - y.p);
  let most = 0;
  tested.forEach(({ pair, p }, rank) => {
    most = Math.max(most, p * (pairs.length - rank));
    const isNothing = pair.low === 0 && pair.high === 0;
    if (pair.sums.length < fewest || (most > RATE && !isNothing)) pair.verdict = 'inconclusive';
  });
  return pairs;
}

/** How probable so large a sum is if each part might as well have the other sign. */
export function exchangeTest(sums: number[]): number {
  const parts = sums.filter(Boolean);
  if (!parts.length) return 1;
  const size = parts.reduce((sum, one) => sum + Math.abs(one), 0);
  const least = Math.abs(parts.reduce((sum, one) => sum + one, 0)) - 1e-6 * size;
  const isExact = parts.length <= MOST_EXACT;
  const turns = isExact ? 2 ** parts.length : EXCHANGES;
  const random = mulberry();
  let hits = 0;
  for (let turn = 0; turn < turns; turn++) {
    let sum = 0;
    for (let i = 0; i < parts.length; i++) sum += (isExact ? (turn >> i) & 1 : random() < 0.5) ? parts[i] : -parts[i];
    if (Math.abs(sum) >= least) hits++;
  }
  return isExact ? hits / turns : (hits + 1) / (turns + 1);
}

function mulberry(): () => number {
  let state = 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const mean = (values: Float64Array) => values.reduce((sum, value) => sum + value, 0) / (values.length || 1);

const MOST_RESAMPLES = 10_000;
const FEWEST_RESAMPLES = 1_000;
/** Of all pairs together, so that a page with very many samples still comes up. */
const MOST_DRAWS = 40_000_000;

/** The interval (95 %) of the mean by drawing the values anew; the same values give the same interval. */
export function bootstrapMean(sums: number[], sizes: number[], resamples: number): [low: number, high: number] {
  const n = sums.length;
  if (!n) return [NaN, NaN];
  const means = new Float64Array(resamples);
  const random = mulberry();
  for (let i = 0; i < resamples; i++) {
    let sum = 0;
    let size = 0;
    for (let j = 0; j < n; j++) {
      const drawn = (random() * n) | 0;
      sum += sums[drawn];
      size += sizes[drawn];
    }
    means[i] = sum / size;
  }
  means.sort();
  const tail = bootstrapTail(n);
  return [quantile(means, tail), quantile(means, 1 - tail)];
}

/** Quality and cost of an attention of a model, as `paceline evals plot` draws them. */
export interface QualityPoint {
  model: string;
  attention: string;
  /** The mean over tasks of the score's place within its range, 1 being best. */
  quality: number;
  /** Its interval (95 %), where it is known. */
  low: number | null;
  high: number | null;
  density: number | null;
  /** Of generating, a sample. */
  seconds: number | null;
  on_front: boolean;
  on_time_front: boolean;
  source: string;
}
