// Comparison of two sets of measurements, as `paceline compare` does it: see docs/statistics.md.

export interface Comparison {
  verdict: 'better' | 'worse' | 'same' | 'inconclusive';
  ratio: number;
  low: number;
  high: number;
  /** The levels that the ratio is of. */
  levels: [number, number];
}

interface Estimate {
  mean: number;
  error2: number;
  freedom: number;
}

const TRIM = 0.1;
const TRIMMED_FROM = 10;
const CORRELATED_FROM = 10;

export function median(values: ArrayLike<number>): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

export function quantile(sorted: ArrayLike<number>, share: number): number {
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  const high = Math.ceil(at);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

function sum(values: ArrayLike<number>): number {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i];
  return total;
}

function inflation(values: Float64Array): number {
  const count = values.length;
  if (count < CORRELATED_FROM) return 1;
  const mean = sum(values) / count;
  const centred = values.map((value) => value - mean);
  const scatter = sum(centred.map((value) => value * value));
  if (scatter === 0) return 1;
  let lagged = 0;
  for (let i = 1; i < count; i++) lagged += centred[i] * centred[i - 1];
  const correlation = Math.min(Math.max(lagged / scatter + 1 / count, 0), 0.95);
  return correlation > 2 / Math.sqrt(count) ? (1 + correlation) / (1 - correlation) : 1;
}

function estimate(values: Float64Array): Estimate {
  const count = values.length;
  if (count === 1) return { mean: values[0], error2: Infinity, freedom: 1 };
  const cut = count >= TRIMMED_FROM ? Math.floor(TRIM * count) : 0;
  const kept = Float64Array.from(values).sort().slice(cut, count - cut);
  const [low, high] = [kept[0], kept[kept.length - 1]];
  const clipped = values.map((value) => Math.min(Math.max(value, low), high));
  const centre = sum(clipped) / count;
  const scatter = sum(clipped.map((value) => (value - centre) ** 2));
  const error2 = scatter / (kept.length * (kept.length - 1));
  return { mean: sum(kept) / kept.length, error2: error2 * inflation(clipped), freedom: kept.length - 1 };
}

function difference(old: Float64Array, fresh: Float64Array): Estimate {
  const [before, after] = [estimate(old), estimate(fresh)];
  const error2 = before.error2 + after.error2;
  const parts = error2 ? before.error2 ** 2 / before.freedom + after.error2 ** 2 / after.freedom : 0;
  const freedom = parts ? error2 ** 2 / parts : before.freedom + after.freedom;
  return { mean: after.mean - before.mean, error2, freedom: Math.max(Number.isNaN(freedom) ? 1 : freedom, 1) };
}

const known = new Map<number, number>();

/** What lies outside of an interval on each side; as `paceline.judge.comparison` has it, whose level is 96 %. */
const TAIL = 0.02;

/** The quantile of Student's t that an interval reaches to. */
export function tQuantile(freedom: number): number {
  if (freedom <= 1) return 15.894544844;
  let found = known.get(freedom);
  if (found === undefined) known.set(freedom, (found = search(freedom, TAIL)));
  return found;
}

/** What lies outside on each side of an interval (95 %) from drawing few values anew, which is a little too narrow. */
export function bootstrapTail(count: number): number {
  const reach = search(count - 1, 0.025) * Math.sqrt(count / (count - 1));
  // The tail of the normal distribution (Abramowitz and Stegun, 26.2.17).
  const t = 1 / (1 + 0.2316419 * reach);
  const series = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return (Math.exp((-reach * reach) / 2) / Math.sqrt(2 * Math.PI)) * series;
}

function search(freedom: number, tail: number): number {
  let low = 0;
  let high = 64;
  for (let i = 0; i < 80; i++) {
    const middle = (low + high) / 2;
    if (tTail(middle, freedom) > tail) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

function tTail(t: number, freedom: number): number {
  return 0.5 * incompleteBeta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

function logGamma(x: number): number {
  const c = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 0.001208650973866179, -0.000005395239384953];
  let y = x;
  const tmp = x + 5.5 - (x + 0.5) * Math.log(x + 5.5);
  let series = 1.000000000190015;
  for (const one of c) series += one / ++y;
  return -tmp + Math.log((2.5066282746310005 * series) / x);
}

function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x));
  return x < (a + 1) / (a + b + 2) ? (front * fraction(x, a, b)) / a : 1 - (front * fraction(1 - x, b, a)) / b;
}

function fraction(x: number, a: number, b: number): number {
  let c = 1;
  let d = 1 / guarded(1 - ((a + b) * x) / (a + 1));
  let h = d;
  for (let m = 1; m <= 300; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    h *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    h *= d * c;
    if (Math.abs(d * c - 1) < 1e-12) break;
  }
  return h;
}

const guarded = (value: number) => (Math.abs(value) < 1e-300 ? 1e-300 : value);

function width(found: Estimate): number {
  return Number.isFinite(found.error2) ? tQuantile(found.freedom) * Math.sqrt(found.error2) : Infinity;
}

/** Sessions whose noise is not known are taken to differ by half the margin before anything is called different. */
export const doubtOf = (sessions: [number, number], margin = 0.03) => (Math.log1p(margin) / 2) ** 2 * (1 / sessions[0] + 1 / sessions[1]);

/** Each side: one number a start. `doubt` is a squared error that may be there. */
export function compare(old: Float64Array, fresh: Float64Array, higherIsBetter: boolean, margin = 0.03, doubt = 0): Comparison {
  const positive = old.every((value) => value > 0) && fresh.every((value) => value > 0);
  let result: [number, number, number];
  let levels: [number, number];
  if (positive) {
    const found = difference(old.map(Math.log), fresh.map(Math.log));
    const reach = width(found);
    result = [Math.exp(found.mean), Math.exp(found.mean - reach), Math.exp(found.mean + reach)];
    levels = [Math.exp(estimate(old.map(Math.log)).mean), Math.exp(estimate(fresh.map(Math.log)).mean)];
  } else {
    const size = (old.some((value) => value < 0) && old.some((value) => value > 0) ? sum(old.map(Math.abs)) / old.length : Math.abs(estimate(old).mean)) || 1;
    const found = difference(old.map((value) => value / size), fresh.map((value) => value / size));
    const reach = width(found);
    result = [1 + found.mean, 1 + found.mean - reach, 1 + found.mean + reach];
    levels = [estimate(old).mean, estimate(fresh).mean];
  }
  const [ratio, low, high] = result;
  let verdict: Comparison['verdict'] = 'inconclusive';
  const beyond = ratio !== 1 && (ratio >= 1 + margin || ratio <= 1 / (1 + margin));
  // A difference that may be as small as a third of the margin is not called one.
  const least = 1 + margin / 3;
  const spread = Math.hypot(ratio > 1 ? ratio - low : high - ratio, tQuantile(30) * Math.sqrt(doubt) * Math.abs(ratio));
  if (beyond && (ratio > 1 ? ratio - spread > least : ratio + spread < 1 / least)) verdict = ratio > 1 === higherIsBetter ? 'better' : 'worse';
  else if (low > 1 / (1 + margin) && high < 1 + margin) verdict = 'same';
  return { verdict, ratio, low, high, levels };
}
