// Executions of evals: the score of each sample under each attention, and pairs of them, as `paceline evals compare` makes them.

import { bytes, load, numbers, type Packed } from './data';
import { quantile } from './stats';

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
  seconds: number;
  conditions: string;
  scores: PackedScores;
}

export interface Task {
  benchmark: string;
  subset: string | null;
  samples: string[];
}

export interface EvalsFile {
  tasks: Task[];
  stubs: Stub[];
  missing: number;
}

export const loadEvals = (session: string) => load<EvalsFile>(`evals/${session}`);

export const taskName = (task: Task) => (task.subset ? `${task.benchmark}_${task.subset}` : task.benchmark);

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
  return { pairs: found.map(([before, after]) => pairOf(before, after, b.file.tasks[after.task], resamples)), missing };
}

function sameTask(a: Task, b: Task): boolean {
  return a === b || (a.benchmark === b.benchmark && a.subset === b.subset && a.samples.length === b.samples.length && a.samples.every((name, at) => name === b.samples[at]));
}

function pairOf(before: Stub, after: Stub, task: Task, resamples: number): Pair {
  const scores: [Float64Array, Float64Array] = [scoresOf(before.scores), scoresOf(after.scores)];
  const differences = scores[1].map((score, at) => score - scores[0][at]);
  const [low, high] = bootstrapMean(differences, resamples);
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
    verdict: verdictOf(low, high, after.direction),
    n: differences.length,
    samples: task.samples,
    scores,
    differences,
  };
}

function verdictOf(low: number, high: number, direction: string | null): Pair['verdict'] {
  if (low === 0 && high === 0) return 'same';
  if (!direction || !(low > 0 || high < 0)) return 'inconclusive';
  return low > 0 === (direction === 'higher') ? 'better' : 'worse';
}

const mean = (values: Float64Array) => values.reduce((sum, value) => sum + value, 0) / (values.length || 1);

const MOST_RESAMPLES = 10_000;
const FEWEST_RESAMPLES = 1_000;
/** Of all pairs together, so that a page with very many samples still comes up. */
const MOST_DRAWS = 40_000_000;

/** The interval (95 %) of the mean by drawing the values anew; the same values give the same interval. */
export function bootstrapMean(values: Float64Array, resamples: number): [low: number, high: number] {
  const n = values.length;
  if (!n) return [NaN, NaN];
  const means = new Float64Array(resamples);
  let state = 0x9e3779b9;
  for (let i = 0; i < resamples; i++) {
    let sum = 0;
    for (let j = 0; j < n; j++) {
      // mulberry32
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      sum += values[(((t ^ (t >>> 14)) >>> 0) / 4294967296 * n) | 0];
    }
    means[i] = sum / n;
  }
  means.sort();
  return [quantile(means, 0.025), quantile(means, 0.975)];
}

export interface QualityPoint {
  model: string;
  attention: string;
  /** The mean over tasks of the score's place within its range, 1 being best. */
  quality: number;
  density: number;
  secondsPerSample: number;
}

export function qualityOf(file: EvalsFile): QualityPoint[] {
  const groups = new Map<string, Stub[]>();
  for (const stub of file.stubs) {
    const id = JSON.stringify([stub.model, stub.attention]);
    groups.set(id, [...(groups.get(id) ?? []), stub]);
  }
  return [...groups.values()].map((stubs) => ({
    model: stubs[0].model,
    attention: stubs[0].attention,
    quality: stubs.reduce((sum, stub) => sum + place(stub), 0) / stubs.length,
    density: stubs.reduce((sum, stub) => sum + (stub.density ?? NaN), 0) / stubs.length,
    secondsPerSample: stubs.reduce((sum, stub) => sum + stub.seconds, 0) / (stubs.reduce((sum, stub) => sum + stub.scores.n, 0) || 1),
  }));
}

function place(stub: Stub): number {
  const width = stub.high - stub.low;
  const share = width ? (stub.score - stub.low) / width : 0;
  return stub.direction === 'lower' ? 1 - share : share;
}

/** Those that none beats in both: no less quality at no more cost. */
export function front(points: QualityPoint[], cost: (point: QualityPoint) => number): QualityPoint[] {
  const beats = (one: QualityPoint, other: QualityPoint) => one.quality >= other.quality && cost(one) <= cost(other) && (one.quality > other.quality || cost(one) < cost(other));
  return points.filter((point) => !points.some((other) => other.model === point.model && beats(other, point)));
}
