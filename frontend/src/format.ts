// Numbers, times and names as people read them.

const BYTE_UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function digits(value: number, count = 4): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1000 && size < 1e15) return Math.round(value).toLocaleString('en');
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(2);
  return String(Number(value.toPrecision(count)));
}

function seconds(value: number, count: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0 s';
  if (size < 1e-6) return `${digits(value * 1e9, count)} ns`;
  if (size < 1e-3) return `${digits(value * 1e6, count)} µs`;
  if (size < 1) return `${digits(value * 1e3, count)} ms`;
  if (size < 120) return `${digits(value, count)} s`;
  const total = Math.round(size);
  const sign = value < 0 ? '-' : '';
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor(total / 60) % 60];
  return hours ? `${sign}${hours}h ${String(minutes).padStart(2, '0')}m` : `${sign}${minutes}m ${String(total % 60).padStart(2, '0')}s`;
}

function size(value: number, count: number): string {
  let power = 0;
  let rest = value;
  while (Math.abs(rest) >= 1024 && power < BYTE_UNITS.length - 1) {
    rest /= 1024;
    power++;
  }
  return `${digits(rest, count)} ${BYTE_UNITS[power]}`;
}

export function quantity(value: number | null | undefined, unit?: string, count?: number): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (unit === 's') return seconds(value, count ?? 3);
  if (unit === 'bytes') return size(value, count ?? 3);
  return unit ? `${digits(value, count)} ${unit}` : digits(value, count);
}

/** Numbers beside an axis: with as many digits as it takes to tell them apart. */
export function ticks(values: (number | null)[], unit?: string): string[] {
  const labels = (count?: number) => values.map((value) => (value === null ? '' : quantity(value, unit, count)));
  const differ = (found: string[]) => new Set(found).size === found.length;
  return [3, 4, 5, 6, 7, 8, 9].map(labels).find(differ) ?? labels();
}

export function percent(effect: number | null | undefined): string {
  if (effect === null || effect === undefined || !Number.isFinite(effect)) return '–';
  const value = effect * 100;
  const shown = Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
  return `${value > 0 ? '+' : value < 0 ? '−' : ''}${shown.replace('-', '')} %`;
}

export function ratio(value: number): string {
  return Number.isFinite(value) ? `${value.toFixed(value >= 10 ? 1 : 3)}×` : '–';
}

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
  return days < 60 ? `${Math.round(days)} days ago` : `${Math.round(days / 30.4)} months ago`;
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
