// Two sides compared, by the rules of `paceline compare`: a live server is asked, a site on disk does it itself.

import { load } from './data';
import { loadEnvironments, samplesOf, type EnvironmentHead, type SearchIndex } from './model';
import { lastAttempts, loadSession, type SessionData, type SessionRecord } from './session_data';
import type { Side } from './sides';
import { compareSessions, FEWEST_SESSIONS, holm, LEVEL, type Comparison, type Noise, type Verdict } from './stats';

export interface Row extends Omit<Comparison, 'levels' | 'verdict'> {
  case: string;
  variant: string;
  version: number | string;
  metric: string;
  unit: string;
  direction: string;
  verdict: Verdict | 'question';
  before: number;
  after: number;
  /** How many records each side has. */
  starts: [number, number];
  /** Where the noise between sessions is known from, or that half the margin was assumed. */
  between: 'history' | 'sides' | 'assumed';
  /** Why nothing can be said, if a side was disturbed. */
  reason?: string;
  question?: string;
}

/** Metrics that are taken of every run: where a case has others, they are shown, and no verdict unless the suite asks. */
const AUTOMATIC = new Set(['exec_time_s', 'cpu_user_s', 'cpu_system_s', 'peak_memory_bytes', 'mean_memory_bytes', 'gpu_peak_memory_bytes']);

export interface Missing {
  case: string;
  metric?: string;
  why: string;
}

export interface Outcome {
  rows: Row[];
  missing: Missing[];
  /** The two never ran on machines of the same class. */
  unlike?: boolean;
}

type Heads = Map<number, EnvironmentHead>;
export type Noises = Map<string, Noise>;

export async function loadOutcome(a: Side, b: Side, anyway: boolean): Promise<Outcome> {
  const isPlain = [a, b].every((side) => side.variant === null && side.attention === undefined);
  if (document.body.dataset.live === '1' && isPlain) return askServer(a, b, anyway);
  const [sides, heads, noises] = await Promise.all([Promise.all([a, b].map(loadSide)), loadEnvironments(), loadNoises()]);
  return compareSides({ side: a, data: sides[0] }, { side: b, data: sides[1] }, heads, noises, anyway);
}

export const loadSide = (side: Side) => Promise.all(side.sessions.map((one) => loadSession(one.id)));

async function askServer(a: Side, b: Side, anyway: boolean): Promise<Outcome> {
  const ids = (side: Side) => side.sessions.map((one) => one.id).join();
  const answer = await fetch(`compare.json?a=${ids(a)}&b=${ids(b)}${anyway ? '&anyway=1' : ''}`);
  if (answer.status === 404) return { rows: [], missing: [] };
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const found = (await answer.json()) as Outcome;
  // What is infinite is not in the answer.
  return { ...found, rows: found.rows.map((row) => ({ ...row, ratio: row.ratio ?? Infinity, low: row.low ?? -Infinity, high: row.high ?? Infinity, detectable: row.detectable ?? Infinity })) };
}

/** What the history knows of how the sessions of each case differ by themselves. */
export async function loadNoises(): Promise<Noises> {
  const index = await load<SearchIndex>('search');
  const found: Noises = new Map();
  index.trend.forEach(({ metric, unit, noise }, at) => {
    for (const [variant, version, cls, relative, absolute, freedom] of noise ?? []) found.set(idOf(index.case[at], variant, version, metric, unit, cls), { relative, absolute, freedom });
  });
  return found;
}

const idOf = (...parts: (string | number | undefined)[]) => JSON.stringify(parts);
const MEASURED = new Set(['passed', 'requirement_failed']);

interface Given {
  side: Side;
  data: SessionData[];
}

interface Measured {
  key: string;
  case: string;
  record: SessionRecord;
  data: SessionData;
  cls: string;
}

/** The last attempts of a side, by the names that the other side has for them. */
function recordsOf({ side, data }: Given, heads: Heads): Measured[] {
  return data.flatMap((one) =>
    lastAttempts(one.records).flatMap((record): Measured[] => {
      if (record.setup || (side.variant !== null && record.variant !== side.variant)) return [];
      const name = side.attention === undefined ? record.case : withoutAttention(record.case, side.attention);
      if (name === null) return [];
      const variant = side.variant === null ? record.variant : '';
      return [{ key: idOf(name, variant, record.version), case: record.case, record, data: one, cls: heads.get(record.environment)?.[2] ?? '' }];
    }),
  );
}

/** The case of an eval without its attention, by which two of them meet; null for one of another attention. */
function withoutAttention(key: string, attention: string): string | null {
  const told = ['[', ','].map((before) => `${before}attention=${attention}`).find((text) => [',', ']'].some((after) => key.includes(text + after)));
  return told === undefined ? null : key.replace(told, told[0]);
}

export function compareSides(a: Given, b: Given, heads: Heads, noises: Noises, anyway = false): Outcome {
  const all = [recordsOf(a, heads), recordsOf(b, heads)];
  const measured = all.map((several) => several.filter((one) => MEASURED.has(one.record.status)));
  const classes = measured.map((several) => new Set(several.map((one) => one.cls).filter(Boolean)));
  const common = new Set([...classes[0]].filter((name) => classes[1].has(name)));
  const isAnyway = anyway || a.side.variant !== null;
  if (!common.size && classes.every((several) => several.size) && !isAnyway) return { rows: [], missing: [], unlike: true };
  let kept = common.size ? measured.map((several) => several.filter((one) => !one.cls || common.has(one.cls))) : measured;
  let strangers = new Set<string>();
  if (common.size && !isAnyway) [kept, strangers] = caseByCase(kept);
  const [old, fresh] = kept.map(valuesOf);
  const pairs = [...old].flatMap(([id, left]) => (fresh.has(id) ? [[left, fresh.get(id) as Values]] : []));
  const own = new Set([...fresh.values()].filter((one) => !AUTOMATIC.has(one.facts.metric)).map((one) => one.starts[0].of.key));
  const isWatched = pairs.map(([, { facts, starts }]) => !AUTOMATIC.has(facts.metric) || !own.has(starts[0].of.key) || isAsked(facts.metric, starts.at(-1)?.of.record.setting.watch));
  const rows = corrected(pairs.map(([left, right]) => rowOf(left, right, noises)), isWatched).map((row, at) => questioned(row, pairs[at]));
  const size = (one: Row) => Math.abs(Math.log(Math.max(one.ratio, 1e-9)));
  rows.sort((one, other) => Number(!isDecided(one)) - Number(!isDecided(other)) || size(other) - size(one));
  return { rows, missing: missingOf(all, kept, strangers) };
}

export const isDecided = (row: Row) => row.verdict === 'worse' || row.verdict === 'better' || row.verdict === 'question';

/** Each case on machines of one class, that which both have most records of; a case that has none is a stranger. */
function caseByCase(sides: Measured[][]): [Measured[][], Set<string>] {
  const counts = sides.map((several) => {
    const found = new Map<string, Map<string, number>>();
    for (const one of several) {
      const of = found.get(one.key) ?? new Map<string, number>();
      if (one.cls) of.set(one.cls, (of.get(one.cls) ?? 0) + 1);
      found.set(one.key, of);
    }
    return found;
  });
  const chosen = new Map<string, string>();
  const strangers = new Set<string>();
  for (const [key, old] of counts[0]) {
    const fresh = counts[1].get(key);
    if (!fresh?.size || !old.size) continue;
    const least = (name: string) => Math.min(old.get(name) ?? 0, fresh.get(name) ?? 0);
    const both = [...old.keys()].filter((name) => fresh.has(name)).sort((x, y) => least(y) - least(x) || (x < y ? -1 : 1));
    chosen.set(key, both[0] ?? '');
    if (!both.length) strangers.add(key);
  }
  const fits = (one: Measured) => !chosen.has(one.key) || (chosen.get(one.key) !== '' && (!one.cls || one.cls === chosen.get(one.key)));
  return [sides.map((several) => several.filter(fits)), strangers];
}

interface Values {
  facts: Pick<Row, 'case' | 'variant' | 'version' | 'metric' | 'unit' | 'direction'>;
  steady: boolean;
  starts: { samples: Float64Array; of: Measured }[];
}

function valuesOf(several: Measured[]): Map<string, Values> {
  const found = new Map<string, Values>();
  for (const one of several) {
    for (const metric of one.data.metrics) {
      if (!metric.direction || Number.isNaN(metric.values[one.record.place])) continue;
      const samples = samplesOf(metric, one.record.place).filter(Number.isFinite);
      if (!samples.length) continue;
      const id = idOf(one.key, metric.name, metric.unit);
      const [, variant] = JSON.parse(one.key) as string[];
      const facts = { case: one.case, variant, version: one.record.version, metric: metric.name, unit: metric.unit, direction: metric.direction };
      const values = found.get(id) ?? { facts, steady: metric.steady ?? false, starts: [] };
      values.starts.push({ samples, of: one });
      found.set(id, values);
    }
  }
  return found;
}

/** Without the records of disturbed runs, if there are others and the metric hears them. */
function undisturbed(values: Values): Values {
  const kept = values.starts.filter((one) => !one.of.record.disturbed);
  return values.steady || !kept.length ? values : { ...values, starts: kept };
}

function rowOf(before: Values, after: Values, noises: Noises): Row {
  const { facts } = before;
  const [old, fresh] = [before, after].map(undisturbed);
  const disturbed = before.steady ? [] : [old, fresh].flatMap(({ starts }, side) => (starts[0].of.record.disturbed ? [`${'AB'[side]} was disturbed: ${starts[0].of.record.disturbed}`] : []));
  const classes = new Set([...old.starts, ...fresh.starts].map((one) => one.of.cls));
  const heard = [...classes].flatMap((name) => noises.get(idOf(facts.case, facts.variant, facts.version, facts.metric, facts.unit, name)) ?? []);
  const noise = heard.sort((one, other) => other.absolute - one.absolute)[0];
  const starts: [number, number] = [old.starts.length, fresh.starts.length];
  const { levels, ...found } = compareSessions(old.starts.map((one) => one.samples), fresh.starts.map((one) => one.samples), { noise, higherIsBetter: facts.direction === 'higher' });
  const row: Row = { ...facts, ...found, before: levels[0], after: levels[1], starts, between: noise ? 'history' : Math.min(...starts) >= FEWEST_SESSIONS ? 'sides' : 'assumed' };
  return disturbed.length ? { ...row, verdict: 'inconclusive', p: 1, reason: disturbed.join('; ') } : row;
}

const BEYOND_BELIEF = 20;

/** The row; an improvement that no change of a program explains, or of a run that does nothing any more, is a question. */
function questioned(row: Row, pair: Values[]): Row {
  const [before, after] = pair.map((values) => undisturbed(values).starts.at(-1)?.of as Measured);
  const isTicks = row.metric === 'cpu_user_s' || row.metric === 'cpu_system_s';
  const isBeyond = !isTicks && (row.direction === 'higher' ? row.ratio >= BEYOND_BELIEF : row.ratio <= 1 / BEYOND_BELIEF);
  const count = (one: Measured, name: string) => one.data.metrics.find((metric) => metric.work && metric.name === name)?.values[one.record.place];
  const doesNothing = () => before.data.metrics.some((metric) => metric.work && metric.values[before.record.place] > 0 && count(after, metric.name) === 0);
  return isBeyond || (row.verdict === 'better' && doesNothing()) ? { ...row, verdict: 'question', question: 'did it still do the work?' } : row;
}

/** Whether a suite names a metric, or a pattern that it fits. */
function isAsked(metric: string, watch: string[] = []): boolean {
  const escaped = (text: string) => text.replace(/[.+^${}()|\\]/g, '\\$&').replaceAll('*', '.*').replaceAll('?', '.').replaceAll('[!', '[^');
  return watch.some((pattern) => new RegExp(`^${escaped(pattern)}$`, 's').test(metric));
}

/** The rows with verdicts that hold for all together that somebody watches: Holm's correction. */
function corrected(rows: Row[], isWatched: boolean[]): Row[] {
  const tests = rows.map((_, at) => at).filter((at) => rows[at].high < Infinity && !rows[at].reason && isWatched[at]);
  const adjusted = holm(tests.map((at) => rows[at].p));
  const p = new Map(tests.map((at, place) => [at, adjusted[place]]));
  return rows.map((row, at) => {
    const chance = p.get(at) ?? 1;
    const isTooLikely = (row.verdict === 'better' || row.verdict === 'worse') && chance > 1 - LEVEL;
    return { ...row, p: chance, verdict: isTooLikely ? 'inconclusive' : row.verdict };
  });
}

/** The cases that only the baseline has numbers of, with why. */
function missingOf(all: Measured[][], kept: Measured[][], strangers: Set<string>): Missing[] {
  const has = new Set(kept[1].map((one) => one.key));
  const after = new Map(all[1].map((one) => [one.key, one.record]));
  const found = new Map<string, Missing>();
  for (const { key, case: name, record } of all[0]) {
    if (has.has(key) || !MEASURED.has(record.status) || found.has(key)) continue;
    const now = after.get(key);
    const why = strangers.has(key) || (now && MEASURED.has(now.status)) ? 'ran on machines of another class' : now ? now.status.replaceAll('_', ' ') : 'did not run';
    found.set(key, { case: name, why });
  }
  return [...found.values()];
}
