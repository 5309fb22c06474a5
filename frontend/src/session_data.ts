// The file of a session, and its records put together from it.

import { load, numbers, type Packed } from './data';
import { joinMetrics, STATUS, type Column, type EnvironmentHead, type PackedMetric, type Session } from './model';

export interface SessionPage {
  session: Session;
  directory: string;
  n: number;
  case: string[];
  variant: Record<string, string>;
  version: Packed;
  disturbed?: Record<string, string>;
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
  watch?: string[];
  details?: Record<string, unknown>;
}

export interface SessionRecord {
  place: number;
  case: string;
  variant: string;
  /** The same number for the same version of the case. */
  version: number;
  /** What disturbed its runs; empty if nothing did. */
  disturbed: string;
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
  const [setting, attempt, source, version] = [page.setting, page.attempt, page.source, page.version].map((packed) => numbers(packed, n));
  const setups = new Set(page.setup);
  const files = new Set(page.files);
  const records = page.case.map((name, i) => ({
    place: i,
    case: name,
    variant: page.variant[i] ?? '',
    version: version[i],
    disturbed: page.disturbed?.[i] ?? '',
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
  return { session: page.session, directory: page.directory, records, metrics: joinMetrics([{ n, metrics: page.metrics }], n), attentions: page.attentions ?? [], running: page.running ?? [], environments: page.environments };
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
