// Comparison of two sides, as `paceline.judge.comparison` does it: the same steps with the same numbers, so that a site
// without a server says what `paceline compare` says. A test holds the two against each other. See docs/statistics.md.

export type Verdict = 'better' | 'worse' | 'same' | 'inconclusive';

export interface Comparison {
  verdict: Verdict;
  ratio: number;
  low: number;
  high: number;
  /** The relative change that measurements like these show in four of five cases. */
  detectable: number;
  p: number;
  /** The levels that the ratio is of. */
  levels: [number, number];
}

/** How sessions differ by themselves: the standard deviation of their levels, with its degrees of freedom. */
export interface Noise {
  relative: number | null;
  absolute: number;
  freedom: number;
}

interface Estimate {
  mean: number;
  error2: number;
  freedom: number;
}

export const LEVEL = 0.96; // 95 % are promised; the rest is spare for noise that is not normal
export const MARGIN = 0.03;
export const FEWEST_SESSIONS = 3;
const [TRIM, TRIMMED_FROM, CORRELATED_FROM] = [0.1, 10, 10];
const [REACH, POWER] = [0.98, 0.8] as const; // of each side of the interval, and of what is to be seen
const [NOTHING, NEGLIGIBLE, ASSUMED, LOUDER, NORMAL_FROM] = [1e-9, 1 / 3, 1 / 2, 4, 1e5];

export function median(values: ArrayLike<number>): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

export function quantile(sorted: ArrayLike<number>, share: number): number {
  const at = (sorted.length - 1) * share;
  const [low, high] = [Math.floor(at), Math.ceil(at)];
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

function sum(values: ArrayLike<number>): number {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i];
  return total;
}

const mean = (values: ArrayLike<number>) => sum(values) / values.length;

function joined(parts: Float64Array[]): Float64Array {
  const out = new Float64Array(parts.reduce((total, part) => total + part.length, 0));
  parts.reduce((at, part) => (out.set(part, at), at + part.length), 0);
  return out;
}

/** How much larger the variance of the mean is when neighbours are alike, as under drift. */
function inflation(values: Float64Array): number {
  const count = values.length;
  if (count < CORRELATED_FROM) return 1;
  const centre = mean(values);
  const rest = values.map((value) => value - centre);
  const total = sum(rest.map((value) => value * value));
  let lagged = 0;
  for (let i = 1; i < count; i++) lagged += rest[i] * rest[i - 1];
  const correlation = Math.min(Math.max(total ? lagged / total + 1 / count : 0, 0), 0.95);
  return correlation > 2 / Math.sqrt(count) ? (1 + correlation) / (1 - correlation) : 1;
}

/** A trimmed mean and its error by Yuen's method; correlated neighbours make it less sure. */
function estimate(values: Float64Array): Estimate {
  const count = values.length;
  if (count === 1) return { mean: values[0], error2: Infinity, freedom: 1 };
  const cut = count >= TRIMMED_FROM ? Math.floor(TRIM * count) : 0;
  const kept = Float64Array.from(values).sort().slice(cut, count - cut);
  const [low, high] = [kept[0], kept[kept.length - 1]];
  const clipped = values.map((value) => Math.min(Math.max(value, low), high));
  const centre = mean(clipped);
  const scatter = sum(clipped.map((value) => (value - centre) ** 2));
  return { mean: mean(kept), error2: (scatter / (kept.length * (kept.length - 1))) * inflation(clipped), freedom: kept.length - 1 };
}

/** Welch and Satterthwaite: the two sides may be differently noisy. */
function differenceOf(before: Estimate, after: Estimate): Estimate {
  const error2 = before.error2 + after.error2;
  const parts = error2 ? before.error2 ** 2 / before.freedom + after.error2 ** 2 / after.freedom : 0;
  const freedom = parts ? error2 ** 2 / parts : before.freedom + after.freedom;
  return { mean: after.mean - before.mean, error2, freedom: Number.isNaN(freedom) ? 1 : Math.max(freedom, 1) };
}

/** The error of a difference of sessions that vary by the noise, as far as those compared say nothing else. */
function withKnownNoise(sides: Estimate[][], deviation: number, known: number): Estimate {
  const means = sides.map((side) => side.map((one) => one.mean));
  const scatter = sum(means.map((side) => sum(side.map((value) => (value - mean(side)) ** 2))));
  let freedom = known + sum(means.map((side) => side.length - 1));
  const variance = (deviation ** 2 * known + scatter) / freedom;
  let error2 = 0;
  for (const side of sides) {
    const within = mean(side.map((one) => one.error2));
    const isLouder = Number.isFinite(within) && within > LOUDER * variance;
    error2 += (isLouder ? within : variance) / side.length;
    if (isLouder) freedom = Math.min(freedom, sum(side.map((one) => one.freedom)));
  }
  return { mean: 0, error2, freedom };
}

/** The same with an error that is known for sure beside the one that was measured. */
function withDoubt(difference: Estimate, doubt: number): Estimate {
  const { error2 } = difference;
  if (!doubt || !Number.isFinite(error2)) return difference;
  const freedom = error2 ? difference.freedom * (1 + doubt / error2) ** 2 : NORMAL_FROM;
  return { ...difference, error2: error2 + doubt, freedom: Math.min(freedom, NORMAL_FROM) };
}

/** Half the width of the interval, and the difference that is called one with the usual power. */
function reachOf(difference: Estimate, margin: number): [half: number, seen: number] {
  if (difference.error2 === Infinity) return [Infinity, Infinity];
  const error = Math.sqrt(difference.error2);
  const half = studentQuantile(REACH, difference.freedom) * error;
  return [half, Math.max(margin, NEGLIGIBLE * margin + half) + studentQuantile(POWER, difference.freedom) * error];
}

/** The chance of a difference so far beyond the least that matters, on either side. */
function chanceOf(difference: Estimate, least: number): number {
  const beyond = Math.abs(difference.mean) - least;
  if (beyond <= 0 || difference.error2 === Infinity) return 1;
  const error = Math.sqrt(difference.error2);
  return error ? Math.min(1, 2 * studentTail(beyond / error, difference.freedom)) : 0;
}

const exp = (value: number) => (value === Infinity ? Infinity : Math.exp(Math.min(Math.max(value, -700), 700)));

interface Options {
  noise?: Noise | null;
  higherIsBetter?: boolean;
  margin?: number;
}

/** Each side is given by its sessions, and each of these by its samples, which share that session's luck. */
export function compareSessions(baseline: Float64Array[], candidate: Float64Array[], { noise, higherIsBetter = false, margin = MARGIN }: Options = {}): Comparison {
  const [old, fresh] = [joined(baseline), joined(candidate)];
  const isLog = old.every((value) => value > 0) && fresh.every((value) => value > 0);
  const scaled = (values: Float64Array) => (isLog ? values.map(Math.log) : values);
  const sides = [baseline, candidate].map((side) => side.map((one) => estimate(scaled(one))));
  const [before, after] = sides.map((side) => estimate(Float64Array.from(side, (one) => one.mean)));
  const largest = Math.max(...[old, fresh].map((side) => side.reduce((most, value) => Math.max(most, Math.abs(value)), 0))) || 1;
  // Of values on both sides of zero the mean says nothing about their size.
  const isMixed = old.some((value) => value < 0) && old.some((value) => value > 0);
  const size = isLog ? 1 : Math.max(isMixed ? mean(old.map(Math.abs)) : Math.abs(before.mean), NOTHING * largest);
  const spread = noise ? (isLog ? noise.relative : noise.absolute) : null;
  let doubt = 0;
  let difference: Estimate;
  if (noise && spread !== null) difference = withKnownNoise(sides, spread, noise.freedom);
  else if (Math.min(baseline.length, candidate.length) >= FEWEST_SESSIONS) difference = differenceOf(before, after);
  else {
    doubt = (ASSUMED * Math.log1p(margin) * size) ** 2 * (1 / baseline.length + 1 / candidate.length);
    difference = differenceOf(estimate(scaled(old)), estimate(scaled(fresh)));
  }
  difference = { ...difference, mean: after.mean - before.mean };
  return judged(before.mean, difference, doubt, { isLog, size, higherIsBetter, margin });
}

function judged(baseline: number, difference: Estimate, doubt: number, { isLog, size, higherIsBetter, margin }: { isLog: boolean; size: number; higherIsBetter: boolean; margin: number }): Comparison {
  const relevant = isLog ? Math.log1p(margin) : margin * size;
  const doubtful = withDoubt(difference, doubt);
  const [reach] = reachOf(difference, relevant);
  const [, seen] = reachOf(doubtful, relevant);
  const shift = difference.mean;
  const low = isLog ? exp(shift - reach) : 1 + (shift - reach) / size;
  const high = isLog ? exp(shift + reach) : 1 + (shift + reach) / size;
  const ratio = isLog ? Math.min(Math.max(exp(shift), low), high) : 1 + shift / size;
  const levels: [number, number] = isLog ? [exp(baseline), exp(baseline + shift)] : [baseline, baseline + shift];
  const detectable = isLog ? Math.expm1(Math.min(seen, 700)) : seen / size;
  const p = chanceOf(doubtful, NEGLIGIBLE * relevant);
  const verdict = verdictOf(ratio, low, high, higherIsBetter, margin);
  return { verdict: verdict !== 'same' && p > 1 - LEVEL ? 'inconclusive' : verdict, ratio, low, high, detectable, p, levels };
}

/** What an interval says: beyond the margin and surely not nothing, within the margin, or neither. */
function verdictOf(ratio: number, low: number, high: number, higherIsBetter: boolean, margin: number): Verdict {
  const least = 1 + NEGLIGIBLE * margin;
  const isBeyond = ratio !== 1 && (ratio >= 1 + margin || ratio <= 1 / (1 + margin));
  if (isBeyond && (low > least || high < 1 / least)) return ratio > 1 === higherIsBetter ? 'better' : 'worse';
  return low > 1 / (1 + margin) && high < 1 + margin ? 'same' : 'inconclusive';
}

/** Each p-value after Holm's correction for all of them. */
export function holm(values: number[]): number[] {
  const order = values.map((_, at) => at).sort((a, b) => values[a] - values[b] || a - b);
  const adjusted = new Array<number>(values.length).fill(1);
  let most = 0;
  order.forEach((place, rank) => {
    most = Math.max(most, Math.min(1, (values.length - rank) * values[place]));
    adjusted[place] = most;
  });
  return adjusted;
}

/** The spread of results that nothing changed in between, and the smallest change that three new ones would show. */
export function noiseOf(values: Float64Array): { spread: number; detectable: number } | null {
  if (values.length < FEWEST || !values.every((value) => value > 0)) return null;
  const { error2, freedom } = estimate(values.map(Math.log));
  const one2 = error2 * (freedom + 1);
  const reach = (studentQuantile(REACH, freedom) + studentQuantile(POWER, freedom)) * Math.sqrt(one2 * (1 / values.length + 1 / NEW));
  return { spread: Math.expm1(Math.sqrt(one2)), detectable: Math.max(Math.expm1(reach), SMALLEST) };
}

const [FEWEST, NEW, SMALLEST] = [6, 3, 0.005];
/** The spread from which on a series is called noisy. */
export const LOUD = 0.05;

/** What lies outside on each side of an interval (95 %) from drawing few values anew, which is a little too narrow. */
export function bootstrapTail(count: number): number {
  return studentTail(studentQuantile(0.975, count - 1) * Math.sqrt(count / (count - 1)), Infinity);
}

function logGamma(x: number): number {
  let [shifted, below] = [x, 0];
  for (; shifted < 12; shifted++) below += Math.log(shifted);
  const inverse2 = 1 / (shifted * shifted);
  const series = [1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12].reduce((total, term) => total * inverse2 + term, 0) / shifted;
  return (shifted - 0.5) * Math.log(shifted) - shifted + 0.5 * Math.log(2 * Math.PI) + series - below;
}

/** The chance of Student's t above a positive value; of many degrees of freedom, that of the normal distribution. */
function studentTail(t: number, freedom: number): number {
  const many = Math.min(freedom, 1e9);
  const [square, a, b] = [t * t, many / 2, 0.5];
  const x = many / (many + square);
  if (x <= 0 || t <= 0) return t <= 0 ? 0.5 : 0;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) - a * Math.log1p(square / many) + b * Math.log(square / (many + square)));
  return x < (a + 1) / (a + b + 2) ? (front * fraction(x, a, b)) / a / 2 : (1 - (front * fraction(1 - x, b, a)) / b) / 2;
}

/** The continued fraction of the incomplete beta function, by Lentz's method. */
function fraction(x: number, a: number, b: number): number {
  let c = 1;
  let d = 1 / (1 - ((a + b) * x) / (a + 1) || 1e-300);
  let found = d;
  for (let m = 1; m < 500; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    for (const step of [even, odd]) {
      d = 1 / (1 + step * d || 1e-300);
      c = 1 + step / c || 1e-300;
      found *= d * c;
    }
    if (Math.abs(d * c - 1) < 1e-13) break;
  }
  return found;
}

/** Where the normal distribution has so much below. */
const NORMAL = { 0.8: -0.8416212335729142, 0.975: -1.9599639845400545, 0.98: -2.0537489106318225 };

/** Student's t for a probability (G. W. Hill, 1970; exact for 1 and 2 degrees of freedom). */
function studentQuantile(probability: keyof typeof NORMAL, freedom: number): number {
  const tail = 2 * (1 - probability);
  if (freedom <= 1) return 1 / Math.tan((tail * Math.PI) / 2);
  if (freedom === 2) return Math.sqrt(2 / (tail * (2 - tail)) - 2);
  const a = 1 / (freedom - 0.5);
  const b = 48 / (a * a);
  let c = (((20700 * a) / b - 98) * a - 16) * a + 96.36;
  const d = ((94.5 / (b + c) - 3) / b + 1) * Math.sqrt((a * Math.PI) / 2) * freedom;
  let y = (d * tail) ** (2 / freedom);
  if (y > 0.05 + a) {
    const x = NORMAL[probability];
    y = x * x;
    if (freedom < 5) c += 0.3 * (freedom - 4.5) * (x + 0.6);
    c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
    y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x;
    y = Math.expm1(a * y * y);
  } else {
    const slope = 1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3) + 0.5 / (freedom + 4);
    y = ((slope * y - 1) * (freedom + 1)) / (freedom + 2) + 1 / y;
  }
  return Math.sqrt(freedom * y);
}
