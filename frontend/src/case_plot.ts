// From a case's records to what its chart shows: which lines there are, in which order, what changed where.

import type { Change, Level, Line, Plot } from './chart';
import { day, percent } from './format';
import { samplesOf, type CaseData, type Column, type EnvironmentHead, type Finding, type Session } from './model';
import { median } from './stats';
import { LINES } from './theme';

export interface Drawn {
  data: CaseData;
  column: Column;
  /** The case's records in the order they are drawn. */
  places: Int32Array;
}

export interface CasePlot extends Plot {
  /** For each point of the chart its case and its record there. */
  points: { drawn: Drawn; place: number }[];
  groups: { label: string; colour: string; dashed: boolean; count: number }[];
}

export interface Shown {
  sessions: Map<number, Session>;
  environments: Map<number, EnvironmentHead>;
  time: boolean;
  band: boolean;
}

const MOST_LINES = 16;

export function makePlot(drawn: Drawn[], shown: Shown): CasePlot {
  const points = drawn.flatMap((one) => [...one.places].map((place) => ({ drawn: one, place })));
  if (drawn.length > 1 || shown.time) points.sort((a, b) => timeOf(a) - timeOf(b));
  const x = Float64Array.from(points, (point, at) => (shown.time ? timeOf(point) : at));
  const names = groupNames(drawn, points, shown);
  const kept = [...new Set(names)].slice(0, MOST_LINES);
  const lines = kept.map((label, at) => lineOf(label, at, points, names, shown.band && kept.length <= 4));
  const first = drawn[0];
  const findings = first ? first.data.findings.filter((finding) => finding.metric === first.column.name) : [];
  const changes = findings.map((finding) => changeOf(finding, points, x, shown)).filter((one): one is Change => one !== null);
  return {
    x,
    lines,
    points,
    unit: first?.column.unit ?? '',
    failures: points.flatMap((point, at) => (isFine(point) ? [] : [{ x: x[at], value: finite(point.drawn.column.values[point.place]) }])),
    changes,
    epochs: epochsOf(first?.data, points, x),
    levels: drawn.length === 1 ? levelsOf(lines, changes, x) : [],
    label: labelOf(points, shown),
    isTime: shown.time,
    groups: lines.map((line) => ({ label: line.label, colour: line.colour, dashed: line.dashed ?? false, count: line.values.filter((value) => value !== null).length })),
  };
}

type PointOf = { drawn: Drawn; place: number };

const timeOf = (point: PointOf) => point.drawn.data.time[point.place];
const finite = (value: number) => (Number.isNaN(value) ? null : value);

function isFine(point: PointOf): boolean {
  const status = point.drawn.data.status[point.place];
  return status === 'passed' || status === 'skipped';
}

/** What tells a point's line from the others: its case, version, variant and class of machines, as far as they differ. */
function groupNames(drawn: Drawn[], points: PointOf[], shown: Shown): string[] {
  const head = (point: PointOf) => shown.environments.get(point.drawn.data.environment[point.place]);
  const kind = (point: PointOf) => point.drawn.data.kinds[point.drawn.data.kind[point.place]];
  const differ = (pick: (point: PointOf) => string | undefined) => new Set(points.map(pick)).size > 1;
  const facts: ((point: PointOf) => string)[] = [];
  if (drawn.length > 1) facts.push((point) => paramsOf(point.drawn.data));
  if (differ((point) => kind(point)?.variant)) facts.push((point) => kind(point)?.variant || 'no variant');
  if (differ((point) => kind(point)?.version)) facts.push((point) => `version ${kind(point)?.version}`);
  if (differ((point) => head(point)?.[2])) {
    const hosts = new Map<string, string>();
    for (const point of points) {
      const row = head(point);
      if (row && !hosts.has(row[2])) hosts.set(row[2], row[5] || row[2].slice(0, 8) || 'unknown machine');
    }
    const several = new Set(hosts.values()).size < hosts.size;
    facts.push((point) => {
      const cls = head(point)?.[2] ?? '';
      return `${hosts.get(cls)}${several ? ` (${cls.slice(0, 6)})` : ''}`;
    });
  }
  const one = drawn[0]?.column.name ?? '';
  return points.map((point) => facts.map((fact) => fact(point)).join(', ') || one);
}

function paramsOf(data: CaseData): string {
  const bracket = data.key.indexOf('[');
  return bracket < 0 ? data.key : data.key.slice(bracket + 1, -1);
}

function lineOf(label: string, at: number, points: PointOf[], names: string[], band: boolean): Line {
  const values = points.map((point, i) => (names[i] === label && isDrawn(point) ? finite(point.drawn.column.values[point.place]) : null));
  const line: Line = { label, colour: LINES[at % LINES.length], dashed: at >= LINES.length, values };
  if (!band || !points.some((point) => point.drawn.column.starts)) return line;
  const low: (number | null)[] = [];
  const high: (number | null)[] = [];
  values.forEach((value, i) => {
    const samples = value === null ? [] : samplesOf(points[i].drawn.column, points[i].place);
    let [least, most] = [Infinity, -Infinity];
    for (const sample of samples) {
      if (sample < least) least = sample;
      if (sample > most) most = sample;
    }
    low.push(value === null ? null : least);
    high.push(value === null ? null : most);
  });
  return { ...line, low, high };
}

/** A run that failed may have left a number half-way; it is marked, and not joined to the line. */
function isDrawn(point: PointOf): boolean {
  const status = point.drawn.data.status[point.place];
  return status === 'passed' || status === 'requirement_failed';
}

function changeOf(finding: Finding, points: PointOf[], x: Float64Array, shown: Shown): Change | null {
  const at = (id: string | undefined, name: string | undefined) =>
    points.findIndex((point) => {
      const session = shown.sessions.get(point.drawn.data.session[point.place]);
      return session !== undefined && (id ? session.id === id : session.name === name);
    });
  const to = at(finding.first_bad?.session_id, finding.first_bad?.session);
  if (to < 0) return null;
  const from = at(finding.last_good?.session_id, finding.last_good?.session);
  const sign = (finding.effect ?? 0) > 0 ? '▲' : '▼';
  return { from: from < 0 ? x[to] : x[from], to: x[to], verdict: finding.verdict, label: `${sign} ${percent(finding.effect)}` };
}

function epochsOf(data: CaseData | undefined, points: PointOf[], x: Float64Array): { x: number; label: string }[] {
  return (data?.epochs ?? []).flatMap((epoch) => {
    const time = new Date(epoch.at).getTime();
    const at = points.findIndex((point) => timeOf(point) >= time);
    return at < 0 ? [] : [{ x: at > 0 ? (x[at - 1] + x[at]) / 2 : x[0], label: epoch.why }];
  });
}

const MOST_LEVELS_FROM = 20000;

/** The median of each stretch between changes. */
function levelsOf(lines: Line[], changes: Change[], x: Float64Array): Level[] {
  if (!changes.length || x.length > MOST_LEVELS_FROM) return [];
  const bounds = [-Infinity, ...changes.map((change) => change.to).sort((a, b) => a - b), Infinity];
  return lines.flatMap((line) =>
    bounds.slice(0, -1).flatMap((begin, at) => {
      const places = line.values.map((_, i) => i).filter((i) => line.values[i] !== null && x[i] >= begin && x[i] < bounds[at + 1]);
      if (places.length < 2) return [];
      const value = median(places.map((i) => line.values[i] as number));
      return [{ from: x[places[0]], to: x[places[places.length - 1]], value, colour: line.colour }];
    }),
  );
}

function labelOf(points: PointOf[], shown: Shown): (x: number) => string {
  if (shown.time) return (x) => day(x);
  return (x) => {
    const point = points[x];
    return point ? day(timeOf(point)) : '';
  };
}
