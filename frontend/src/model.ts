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
  spark?: { values: number[]; sessions: string[]; unit?: string; direction?: string };
}

export type EnvironmentHead = [number: number, id: string, cls: string, python: string, platform: string, host: string];

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

export interface Broken {
  case: string;
  status: string;
  reason: string;
  strip: string;
  runs: number;
  first_bad: Session;
  last_good: Session | null;
}

export interface Overview {
  title: string;
  made_at: string;
  version: string;
  counts: { cases: number; sessions: number; records: number };
  sessions: Session[];
  findings: Finding[];
  more_findings: number;
  unsearched: number;
  broken: Broken[];
  last: { session: Session; rows: LastRow[]; more: number } | null;
  environments: EnvironmentHead[];
}

interface PackedMetric {
  name: string;
  unit: string;
  direction: string;
  values: Packed;
  counts?: Packed;
  samples?: Packed;
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
  records: PackedRecords;
}

/** A metric's values in the order of the records they belong to; samples of record i are [starts[i], starts[i+1]). */
export interface Column {
  name: string;
  unit: string;
  direction: string;
  values: Float64Array;
  starts: Int32Array | null;
  samples: Float64Array;
}

export interface CaseData {
  key: string;
  entry: string;
  params: Record<string, unknown>;
  kinds: { version: string; variant: string }[];
  epochs: { at: string; why: string }[];
  findings: Finding[];
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
  readonly parts: Part[] = [];
  private made?: Pick<Column, 'values' | 'starts' | 'samples'>;

  constructor(
    packed: PackedMetric,
    private readonly n: number,
  ) {
    this.name = packed.name;
    this.unit = packed.unit;
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

function joinMetrics(parts: PackedRecords[], n: number): Column[] {
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

export interface SessionPage {
  session: Session;
  directory: string;
  n: number;
  case: string[];
  variant: Record<string, string>;
  setup: number[];
  status: string;
  time: Packed;
  seconds: Packed;
  environment: Packed;
  setting: Packed;
  attempt: Packed;
  source: Packed;
  reason: Record<string, string>;
  outcome: Record<string, Outcome>;
  settings: Record<string, Setting>;
  metrics: PackedMetric[];
  files: number[];
  attentions?: string[];
  running?: { case: string; started: string }[];
  /** Of a session that runs: it is not in the history yet, and numbers its environments by itself. */
  environments?: EnvironmentHead[];
}

export interface Check {
  metric: string;
  kind: string;
  bound: unknown;
  actual: unknown;
  margin: number | null;
  ok: boolean;
  severity: string;
  reason?: string;
}

export interface Outcome {
  timings_s?: Record<string, number>;
  warnings?: string[];
  requirements?: Check[];
  returncode?: number | null;
  details?: Record<string, unknown>;
}

export interface Setting {
  command?: string[];
  params?: Record<string, unknown>;
  artifacts?: string[];
  tags?: string[];
  details?: Record<string, unknown>;
}

export interface SessionRecord {
  place: number;
  case: string;
  variant: string;
  setup: boolean;
  status: string;
  time: number;
  seconds: number;
  environment: number;
  attempt: number;
  source: number;
  reason: string;
  outcome: Outcome;
  setting: Setting;
  files: boolean;
}

export interface SessionData {
  session: Session;
  directory: string;
  records: SessionRecord[];
  metrics: Column[];
  attentions: string[];
  running: { case: string; started: string }[];
  environments?: EnvironmentHead[];
}

export async function loadSession(id: string, fresh = false): Promise<SessionData> {
  const page = await load<SessionPage>(`session/${id}`, fresh);
  const n = page.n;
  const [time, seconds, environment] = [numbers(page.time, n), numbers(page.seconds, n), numbers(page.environment, n)];
  const [setting, attempt, source] = [numbers(page.setting, n), numbers(page.attempt, n), numbers(page.source, n)];
  const setups = new Set(page.setup);
  const files = new Set(page.files);
  const records = page.case.map((name, i) => ({
    place: i,
    case: name,
    variant: page.variant[i] ?? '',
    setup: setups.has(i),
    status: STATUS[page.status[i]],
    time: time[i],
    seconds: seconds[i],
    environment: environment[i],
    attempt: attempt[i],
    source: source[i],
    reason: page.reason[i] ?? '',
    outcome: page.outcome[i] ?? {},
    setting: page.settings[setting[i]] ?? {},
    files: files.has(i),
  }));
  const packed = { n, metrics: page.metrics } as PackedRecords;
  return { session: page.session, directory: page.directory, records, metrics: joinMetrics([packed], n), attentions: page.attentions ?? [], running: page.running ?? [], environments: page.environments };
}

/** Of each case the last attempt. */
export function lastAttempts(records: SessionRecord[]): SessionRecord[] {
  const last = new Map<string, SessionRecord>();
  for (const record of records) {
    const id = `${record.setup}/${record.case}/${record.variant}`;
    const known = last.get(id);
    if (!known || known.attempt <= record.attempt) last.set(id, record);
  }
  return [...last.values()];
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

export interface SearchIndex {
  case: string[];
  records: number[];
  status: string;
  last: string[];
  metrics: number[][];
  tags: number[][];
  metric_names: string[];
  tag_names: string[];
}
