// Numbers, times and names as people read them.

const BYTE_UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const TIMES: [string, number][] = [
  ['ns', 1e9],
  ['µs', 1e6],
  ['ms', 1e3],
];
const MANY_TIMES = 9.995;

const rounded = (value: number, count: number) => Number(value.toPrecision(count));

/** At most that many significant digits; the rules are those of `paceline.numbers`, and so are the texts. */
function digits(value: number, count = 3): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value < 0 ? '-inf' : 'inf';
  if (value === 0) return '0';
  const near = rounded(value, count);
  if (Math.abs(value) < 1e-9 || Math.abs(value) >= 1e15) return String(near);
  const decimals = Math.max(0, count - 1 - Number(near.toExponential().split('e')[1]));
  const isAll = Math.abs(near - value) <= 1e-9 * Math.abs(value);
  return near.toLocaleString('en', { minimumFractionDigits: isAll ? 0 : decimals, maximumFractionDigits: decimals });
}

/** A whole number has all its digits. */
const number = (value: number, count?: number) => (Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toLocaleString('en') : digits(value, count));

function seconds(value: number, count = 3): string {
  if (!Number.isFinite(value) || value === 0) return `${digits(value)} s`;
  const size = Math.abs(value);
  for (const [unit, factor] of TIMES) if (rounded(size * factor, 3) < 1000) return `${digits(value * factor, count)} ${unit}`;
  if (size < 119.5) return `${digits(value, count)} s`;
  const sign = value < 0 ? '-' : '';
  const total = size >= 7199.5 ? Math.round(size / 60) * 60 : Math.round(size);
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor(total / 60) % 60];
  if (hours >= 2) return `${sign}${hours}h ${two(minutes)}m`;
  return `${sign}${hours ? `${hours}h ${two(minutes)}m` : `${minutes}m`} ${two(total % 60)}s`;
}

function size(value: number, count?: number): string {
  if (Math.abs(value) < 1023.5) return `${number(value, count)} bytes`;
  let power = 0;
  let rest = value;
  while (Number.isFinite(rest) && Math.abs(rounded(rest, 3)) >= 1000 && power < BYTE_UNITS.length - 1) {
    rest /= 1024;
    power++;
  }
  return `${digits(rest, count)} ${BYTE_UNITS[power]}`;
}

export function quantity(value: number | null | undefined, unit?: string, count?: number): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (unit === 's') return seconds(value, count);
  if (unit === 'bytes') return size(value, count);
  return unit ? `${number(value, count)} ${unit}` : number(value, count);
}

export const signed = (value: number) => (Number.isFinite(value) ? `${value > 0 ? '+' : ''}${digits(value)}` : '–');

/** Numbers beside an axis: with as many digits as it takes to tell them apart. */
export function ticks(values: (number | null)[], unit?: string): string[] {
  const labels = (count?: number) => values.map((value) => (value === null ? '' : quantity(value, unit, count)));
  const differ = (found: string[]) => new Set(found).size === found.length;
  return [3, 4, 5, 6, 7, 8, 9].map(labels).find(differ) ?? labels();
}

/** A share of one: `3.2 %`. */
export function share(part: number, count = 3): string {
  if (part !== 0 && Math.abs(part) < 1e-4) return `${part < 0 ? '> -' : '< '}0.01 %`;
  return `${digits(part * 100, count)} %`;
}

/** A relative change: `+3.2 %`, and from tenfold on `×12`. */
export function percent(effect: number | null | undefined): string {
  if (effect === null || effect === undefined || !Number.isFinite(effect)) return '–';
  if (effect >= MANY_TIMES) return ratio(effect + 1);
  return effect < 1e-4 ? share(effect) : `+${share(effect)}`;
}

/** A test's p, which is never 0. */
export const p = (value: number) => (value < 0.001 ? 'p < 0.001' : `p ${digits(value, 2)}`);

export const ratio = (value: number) => (Number.isFinite(value) ? `×${digits(value)}` : '–');

const two = (value: number) => String(value).padStart(2, '0');

export function day(time: string | number | undefined): string {
  const date = time === undefined || time === '' ? null : new Date(time);
  if (!date || Number.isNaN(date.getTime())) return '–';
  return `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
}

export function moment(time: string | number | undefined): string {
  const date = time === undefined || time === '' ? null : new Date(time);
  if (!date || Number.isNaN(date.getTime())) return '–';
  return `${day(time)} ${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
}

export function ago(time: string | undefined, now: string | number = Date.now()): string {
  const then = new Date(time ?? '').getTime();
  const days = (new Date(now).getTime() - then) / 86400000;
  if (!Number.isFinite(days)) return '';
  if (days < 0.04) return 'just now';
  if (days < 1.5) return `${Math.max(1, Math.round(days * 24))} h ago`;
  if (days < 60) return `${Math.round(days)} days ago`;
  return days < 730 ? `${Math.round(days / 30.4)} months ago` : `${Math.round(days / 365.25)} years ago`;
}

export const short = (revision: string | undefined) => (revision ?? '').slice(0, 9);

export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

export const words = (status: string) => status.replaceAll('_', ' ');

/** Text of any origin on a page: bidirectional tricks and control characters are made visible. */
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
}
