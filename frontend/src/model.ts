// What pages show: types of the data files, and records put together from them.

import { fileId, list, load, numbers, type Packed } from './data';

export interface Session {
  number: number;
  id: string;
  name: string;
  kind?: string;
  started?: string;
  revision?: string;
  branch?: string;
  committed?: string;
  tool?: string;
  ci?: string;
  place?: number;
  counts?: Record<string, number>;
  seconds?: number;
  environments?: number[];
  health?: Record<string, number>;
  variants?: string[];
  attentions?: string[];
}

export interface Place {
  revision?: string;
  session?: string;
  session_id?: string;
  time?: string;
  environment?: string;
  committed?: string;
}

export interface Suspect {
  kind: string;
  [name: string]: unknown;
}

export interface Finding {
  id: string;
  incident?: string;
  case: string;
  metric: string;
  variant?: string;
  version?: string;
  environment_class?: string;
  unit?: string;
  verdict: string;
  kind?: string;
  stage?: string;
  culprit?: Suspect;
  question?: string;
  effect?: number;
  low?: number;
  high?: number;
  p_value?: number;
  last_good?: Place;
  first_bad?: Place;
  at_time?: string;
  fixed_at?: string;
  suspects?: Suspect[];
  state?: string;
  said?: { state: string; why: string; who: string; at: string } | null;
  series_name?: string;
  ended?: string;
  message?: string;
}

/** What may be the cause of a change, or is: its words come from the program, with what a link to it needs. */
export interface Cause {
  kind: string;
  text: string;
  revision?: string;
  author?: string;
  subject?: string;
  time?: string;
  probability?: number;
  runs?: number;
  from?: string;
  to?: string;
  count?: number;
  /** How many others there are. */
  more?: number;
}

export type Kind = 'worse' | 'question' | 'stopped' | 'better' | 'acknowledged' | 'ended' | 'closed';

/** An incident in a list: its most urgent finding speaks for all of them. */
export interface Incident {
  id: string;
  kind: Kind;
  when?: string;
  case: string;
  metric: string;
  unit?: string;
  name?: string;
  finding: string;
  change: string;
  verdict: string;
  state: string;
  stage: string;
  ended?: string;
  question?: string;
  effect?: number;
  low?: number;
  high?: number;
  p_value?: number;
  series: number;
  cases: number;
  past?: boolean;
  cause?: Cause;
  owner?: string;
  machines?: string[];
  suites?: string[];
  tags?: string[];
  branch?: string;
  values?: number[];
  at?: number;
}

export interface IncidentFile extends Incident {
  suspects: Cause[];
  culprit: Cause | null;
  findings: Finding[];
  /** What the bisection tried, if its files are within reach. */
  bisection?: { revision: string; title: string; values: number[]; mean: number | null; reason: string; probability: number | null }[];
}

export type EnvironmentHead = [number: number, id: string, cls: string, python: string, platform: string, host: string, name: string];

export interface LastRow {
  case: string;
  variant: string;
  status: string;
  seconds: number | null;
  metric: string;
  unit: string;
  direction: string;
  value: number | null;
  reason: string;
  spark?: number[];
}

export interface BrokenCase {
  case: string;
  machine: string;
  variant?: string;
  suite?: string;
  tags?: string[];
  owner?: string;
  strip?: string;
  runs?: number;
  first_bad?: Session;
  last_good?: Session | null;
}

/** Cases that do not pass for one reason. */
export interface BrokenGroup {
  status: string;
  reason: string;
  cases: BrokenCase[];
}

export interface Tag {
  name: string;
  time: string;
  revision: string;
}

/** How many incidents there are of each kind, and how many cases do not pass; the command line says the same. */
export type Totals = Record<'open' | 'open_findings' | 'recent' | 'past' | 'question' | 'stopped' | 'better' | 'acknowledged' | 'ended' | 'closed' | 'incidents' | 'broken', number>;

export interface Overview {
  title: string;
  made_at: string;
  version: string;
  newest: string;
  forge: string;
  counts: { cases: number; sessions: number; records: number };
  totals: Totals;
  incidents: Incident[];
  broken: BrokenGroup[];
  tags: Tag[];
  sessions: Session[];
  unsearched: number;
  last: { session: Session; rows: LastRow[]; more: number } | null;
  environments: EnvironmentHead[];
}

export const loadIncident = (id: string) => load<IncidentFile>(`incident/${fileId(id)}`);

export interface PackedMetric {
  name: string;
  unit: string;
  direction: string;
  values: Packed;
  counts?: Packed;
  samples?: Packed;
  steady?: boolean;
  work?: boolean;
}

interface PackedRecords {
  n: number;
  session: Packed;
  time: Packed;
  status: string;
  environment: Packed;
  kind: Packed;
  attempt: Packed;
  source: Packed;
  revision: Record<string, string>;
  reason: Record<string, string>;
  metrics: PackedMetric[];
}

interface CaseFile {
  case: string;
  entry: string;
  params: Record<string, unknown>;
  kinds: { version: string; variant: string }[];
  epochs: { at: string; why: string }[];
  findings: Finding[];
  names: SeriesName[];
  restless?: Restless[];
  records: PackedRecords;
}

/** A series of a case in words. */
export interface SeriesName {
  variant: string;
  version: string;
  class: string;
  name: string;
  newest: string;
}

/** A series whose level moves by itself, and by how much within a week. */
export interface Restless {
  variant: string;
  version: string;
  class: string;
  metric: string;
  unit: string;
  unrest: number;
}

/** A metric's values in the order of the records they belong to; samples of record i are [starts[i], starts[i+1]). */
export interface Column {
  name: string;
  unit: string;
  direction: string;
  values: Float64Array;
  starts: Int32Array | null;
  samples: Float64Array;
  /** Whether it is the same however busy the machine is; whether it counts what a run did. */
  steady?: boolean;
  work?: boolean;
}

export interface CaseData {
  key: string;
  entry: string;
  params: Record<string, unknown>;
  kinds: { version: string; variant: string }[];
  epochs: { at: string; why: string }[];
  findings: Finding[];
  names: SeriesName[];
  restless: Restless[];
  n: number;
  session: Float64Array;
  time: Float64Array;
  status: string[];
  environment: Float64Array;
  kind: Float64Array;
  attempt: Float64Array;
  source: Float64Array;
  revision: Map<number, string>;
  reason: Map<number, string>;
  metrics: Column[];
}

export const STATUS: Record<string, string> = {
  p: 'passed',
  f: 'failed',
  r: 'requirement_failed',
  t: 'timeout',
  l: 'launch_error',
  e: 'infra_error',
  s: 'skipped',
  i: 'interrupted',
};

export async function loadCase(key: string): Promise<CaseData> {
  const name = `case/${fileId(key)}`;
  const [file, old] = await Promise.all([load<CaseFile>(name), load<PackedRecords>(`${name}-old`)]);
  return join(file, old.n ? [old, file.records] : [file.records]);
}

function join(file: CaseFile, parts: PackedRecords[]): CaseData {
  const n = parts.reduce((sum, part) => sum + part.n, 0);
  const column = (pick: (part: PackedRecords) => Packed) => {
    const out = new Float64Array(n);
    let at = 0;
    for (const part of parts) {
      out.set(numbers(pick(part), part.n), at);
      at += part.n;
    }
    return out;
  };
  const texts = (pick: (part: PackedRecords) => Record<string, string>) => {
    const out = new Map<number, string>();
    let at = 0;
    for (const part of parts) {
      for (const [place, text] of Object.entries(pick(part))) out.set(at + Number(place), text);
      at += part.n;
    }
    return out;
  };
  return {
    key: file.case,
    entry: file.entry,
    params: file.params,
    kinds: file.kinds,
    epochs: file.epochs,
    findings: file.findings,
    names: file.names,
    restless: file.restless ?? [],
    n,
    session: column((part) => part.session),
    time: column((part) => part.time),
    status: parts.flatMap((part) => [...part.status].map((letter) => STATUS[letter])),
    environment: column((part) => part.environment),
    kind: column((part) => part.kind),
    attempt: column((part) => part.attempt),
    source: column((part) => part.source),
    revision: texts((part) => part.revision),
    reason: texts((part) => part.reason),
    metrics: joinMetrics(parts, n),
  };
}

interface Part {
  packed: PackedMetric;
  n: number;
  at: number;
}

/** A column that is decoded when somebody looks: a page of a case shows one of many. */
class LazyColumn implements Column {
  readonly name: string;
  readonly unit: string;
  direction = '';
  readonly steady: boolean;
  readonly work: boolean;
  readonly parts: Part[] = [];
  private made?: Pick<Column, 'values' | 'starts' | 'samples'>;

  constructor(
    packed: PackedMetric,
    private readonly n: number,
  ) {
    this.name = packed.name;
    this.unit = packed.unit;
    this.steady = packed.steady ?? false;
    this.work = packed.work ?? false;
  }

  get values(): Float64Array {
    return this.decoded.values;
  }

  get starts(): Int32Array | null {
    return this.decoded.starts;
  }

  get samples(): Float64Array {
    return this.decoded.samples;
  }

  private get decoded() {
    this.made ??= decode(this.parts, this.n);
    return this.made;
  }
}

export function joinMetrics(parts: Pick<PackedRecords, 'n' | 'metrics'>[], n: number): Column[] {
  const found = new Map<string, LazyColumn>();
  let at = 0;
  for (const part of parts) {
    for (const packed of part.metrics) {
      const id = JSON.stringify([packed.name, packed.unit]);
      const metric = found.get(id) ?? new LazyColumn(packed, n);
      found.set(id, metric);
      metric.direction = packed.direction || metric.direction;
      metric.parts.push({ packed, n: part.n, at });
    }
    at += part.n;
  }
  return [...found.values()];
}

function decode(parts: Part[], n: number): Pick<Column, 'values' | 'starts' | 'samples'> {
  const values = new Float64Array(n).fill(NaN);
  const each: (Float64Array | null)[] = [];
  for (const { packed, n: count, at } of parts) {
    values.set(numbers(packed.values, count), at);
    if (packed.samples !== undefined) spread(each, packed, count, at);
  }
  if (!each.length) return { values, starts: null, samples: new Float64Array(0) };
  const starts = new Int32Array(n + 1);
  for (let i = 0; i < n; i++) starts[i + 1] = starts[i] + (each[i]?.length ?? 0);
  const samples = new Float64Array(starts[n]);
  for (let i = 0; i < n; i++) if (each[i]) samples.set(each[i] as Float64Array, starts[i]);
  return { values, starts, samples };
}

function spread(each: (Float64Array | null)[], packed: PackedMetric, n: number, at: number): void {
  const counts = numbers(packed.counts, n);
  let total = 0;
  for (const count of counts) total += count;
  const all = typeof packed.samples === 'number' ? new Float64Array(total).fill(packed.samples) : list(packed.samples);
  let from = 0;
  for (let i = 0; i < n; i++) {
    if (counts[i] > 1) each[at + i] = all.subarray(from, from + counts[i]);
    from += counts[i];
  }
}

export function samplesOf(column: Column, place: number): Float64Array {
  if (column.starts) {
    const found = column.samples.subarray(column.starts[place], column.starts[place + 1]);
    if (found.length) return found;
  }
  const value = column.values[place];
  return Number.isNaN(value) ? new Float64Array(0) : new Float64Array([value]);
}

const SHARD = 512;
const MOST_PRELOADED = 6;

/** Begin to load what nearly every page of a case needs, before it is known which sessions it has. */
export function preloadSessions(newest: Session[]): void {
  const last = newest.reduce((most, session) => Math.max(most, session.number), 0);
  const shards = Math.floor(last / SHARD) + 1;
  if (newest.length && shards <= MOST_PRELOADED) void loadSessions(Array.from({ length: shards }, (_, shard) => shard * SHARD), 'heads').catch(() => undefined);
}

/** The sessions of these numbers; `heads` have no summaries. */
export async function loadSessions(wanted: Iterable<number>, kind: 'sessions' | 'heads' = 'sessions'): Promise<Map<number, Session>> {
  const shards = new Set<number>();
  for (const number of wanted) shards.add(Math.floor(number / SHARD));
  const found = new Map<number, Session>();
  for (const part of await Promise.all([...shards].map((shard) => load<Session[]>(`${kind}/${shard}`)))) {
    for (const session of part) found.set(session.number, session);
  }
  return found;
}

export async function loadEnvironments(): Promise<Map<number, EnvironmentHead>> {
  const heads = (await load<Overview>('overview')).environments;
  return new Map(heads.map((head) => [head[0], head]));
}

/** The places of the records to draw, in commit order where all are known to git, else in time order.
 *  An attempt that was repeated is kept, and not drawn. */
export function ordered(data: CaseData, sessions: Map<number, Session>): Int32Array {
  const last = new Map<string, number>();
  for (let i = 0; i < data.n; i++) {
    const id = `${data.session[i]}/${data.kind[i]}`;
    const known = last.get(id);
    if (known === undefined || data.attempt[known] <= data.attempt[i]) last.set(id, i);
  }
  const places = Int32Array.from(last.values());
  const commit = (i: number) => sessions.get(data.session[i])?.place;
  const known = places.every((i) => commit(i) !== undefined);
  const key = new Float64Array(data.n);
  for (const i of places) key[i] = known ? (commit(i) as number) : data.time[i];
  return places.sort((a, b) => key[a] - key[b] || data.time[a] - data.time[b] || a - b);
}

const OF_EVERY_RUN = new Set(['exec_time_s', 'cpu_user_s', 'cpu_system_s', 'peak_memory_bytes', 'mean_memory_bytes', 'gpu_peak_memory_bytes', 'exit_code', 'returncode']);

/** The metric to show where there is room for one: the benchmark's own first that can be judged. */
export function primary<M extends { name: string; direction: string }>(metrics: M[]): M | undefined {
  const judged = metrics.filter((metric) => metric.direction);
  return (
    judged.find((metric) => !OF_EVERY_RUN.has(metric.name)) ??
    judged.find((metric) => metric.name === 'exec_time_s') ??
    judged[0] ??
    metrics[0]
  );
}

/** The main metric of a case in the series that it ran in last. */
export interface Trend {
  metric?: string;
  unit?: string;
  direction?: string;
  values?: (number | null)[];
  /** What is known of the noise of its series, that of `values` first: variant, mark of the version, class of machines. */
  noise?: [variant: string, version: number, cls: string, relative: number | null, absolute: number, freedom: number][];
}

export interface SearchIndex {
  case: string[];
  trend: Trend[];
  records: number[];
  status: string;
  last: string[];
  metrics: number[][];
  tags: number[][];
  metric_names: string[];
  tag_names: string[];
}
