// Scales and their round numbers: one way for every drawing.

const NICE = [1, 2, 2.5, 5, 10];

/** About so many round numbers from low to high; those of bytes are round in powers of two. */
export function niceTicks(low: number, high: number, count: number, unit = ''): number[] {
  const raw = (high - low) / Math.max(1, count);
  if (!(raw > 0) || !Number.isFinite(raw)) return [low];
  const power = unit === 'bytes' && raw >= 1 ? 2 ** Math.floor(Math.log2(raw)) : 10 ** Math.floor(Math.log10(raw));
  const step = power * ((unit === 'bytes' && raw >= 1 ? [1, 2] : NICE).find((one) => one * power >= raw * 0.999) ?? 10);
  const out: number[] = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9 && out.length < 200; at++) out.push(at * step);
  return out;
}

/** Powers of ten, with twos and fives between them where there is room. */
export function logTicks(low: number, high: number, count: number): number[] {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  for (const parts of [[1, 2, 5], [1, 3], [1]]) {
    const found: number[] = [];
    for (let power = from; power <= to; power++) for (const part of parts) found.push(part * 10 ** power);
    const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    if (inside.length <= count * 1.6 || parts.length === 1) return inside.length > 1 ? inside : niceTicks(low, high, count);
  }
  return [];
}

export interface Scale {
  low: number;
  high: number;
  /** From 0 at the low end to 1 at the high one. */
  share: (value: number) => number;
  value: (share: number) => number;
  ticks: (count: number, unit?: string) => number[];
}

export function scaleOf(low: number, high: number, log = false): Scale {
  const of = log ? Math.log : (value: number) => value;
  const [from, span] = [of(low), of(high) - of(low) || 1];
  return {
    low,
    high,
    share: (value) => (of(value) - from) / span,
    value: (share) => (log ? Math.exp(from + share * span) : from + share * span),
    ticks: (count, unit) => (log ? logTicks(low, high, count) : niceTicks(low, high, count, unit)),
  };
}
