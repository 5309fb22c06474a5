// What the first page is narrowed down to: since when, and by machine, suite, tag, branch and owner; all in the address.

import type { BrokenCase, BrokenGroup, Incident, Overview, Tag, Totals } from './model';

export const FACETS = ['machine', 'suite', 'tag', 'branch', 'owner'] as const;
export type Facet = (typeof FACETS)[number];

export type Chosen = Partial<Record<Facet | 'since', string>>;

const DAYS: Record<string, number> = { d: 1, w: 7, m: 30, y: 365 };
export const AGES: [value: string, text: string][] = [
  ['7d', 'last week'],
  ['30d', 'last 30 days'],
  ['90d', 'last 90 days'],
  ['1y', 'last year'],
];

export const chosenOf = (query: Record<string, string>): Chosen => Object.fromEntries(['since', ...FACETS].flatMap((name) => (query[name] ? [[name, query[name]]] : [])));
export const isNarrowed = (chosen: Chosen) => Object.keys(chosen).length > 0;

/** The time that "since" means: so many days before the newest result, a tag, or a date. */
export function sinceTime(text: string | undefined, overview: { newest: string; tags: Tag[] }): string {
  if (!text) return '';
  const tag = overview.tags.find((one) => one.name === text);
  if (tag) return tag.time;
  const age = /^(\d{1,4})([dwmy])$/.exec(text);
  if (!age) return /^\d{4}-\d\d-\d\d/.test(text) ? text : '';
  const newest = new Date(overview.newest).getTime();
  return Number.isNaN(newest) ? '' : new Date(newest - Number(age[1]) * DAYS[age[2]] * 86400000).toISOString();
}

const VALUES: Record<Facet, (one: Incident) => string[]> = {
  machine: (one) => one.machines ?? [],
  suite: (one) => one.suites ?? [],
  tag: (one) => one.tags ?? [],
  branch: (one) => (one.branch ? [one.branch] : []),
  owner: (one) => (one.owner ? [one.owner] : []),
};

const OF_BROKEN: Record<Facet, (one: BrokenCase) => string[]> = {
  machine: (one) => [one.machine],
  suite: (one) => (one.suite ? [one.suite] : []),
  tag: (one) => one.tags ?? [],
  branch: (one) => (one.first_bad?.branch ? [one.first_bad.branch] : []),
  owner: (one) => (one.owner ? [one.owner] : []),
};

/** What there is to choose from: a facet with one value for all tells nothing. */
export function choicesOf(overview: Overview): [facet: Facet, values: string[]][] {
  return FACETS.map((facet): [Facet, string[]] => {
    const found = new Set(overview.incidents.flatMap(VALUES[facet]));
    for (const group of overview.broken) for (const one of group.cases) OF_BROKEN[facet](one).forEach((value) => found.add(value));
    found.delete('');
    return [facet, [...found].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))];
  }).filter(([, values]) => values.length > 1);
}

export interface Narrowed {
  incidents: Incident[];
  broken: BrokenGroup[];
  totals: Totals;
}

/** What is left; every number on the page is counted from it. Without a choice the history's own numbers count. */
export function narrow(overview: Overview, chosen: Chosen): Narrowed {
  if (!isNarrowed(chosen)) return overview;
  const since = sinceTime(chosen.since, overview);
  const fits = <One>(one: One, values: Record<Facet, (one: One) => string[]>) => FACETS.every((facet) => !chosen[facet] || values[facet](one).includes(chosen[facet]));
  const incidents = overview.incidents.filter((one) => (one.when ?? '') >= since && fits(one, VALUES));
  const broken = overview.broken
    .map((group) => ({ ...group, cases: group.cases.filter((one) => (one.first_bad?.started ?? '') >= since && fits(one, OF_BROKEN)) }))
    .filter((group) => group.cases.length);
  return { incidents, broken, totals: count(incidents, broken, overview.newest) };
}

const RECENT_DAYS = 30;

/** As `paceline.findings.ranking` counts; findings are not known one by one here, series are. */
function count(incidents: Incident[], broken: BrokenGroup[], newest: string): Totals {
  const totals: Totals = { open: 0, open_findings: 0, recent: 0, past: 0, question: 0, stopped: 0, better: 0, acknowledged: 0, ended: 0, closed: 0, incidents: incidents.length, broken: 0 };
  const recent = new Date(new Date(newest).getTime() - RECENT_DAYS * 86400000).toISOString();
  for (const one of incidents) {
    if (one.kind !== 'worse') {
      totals[one.kind]++;
      continue;
    }
    totals.open++;
    totals.open_findings += one.series;
    totals.recent += Number((one.when ?? '') >= recent);
    totals.past += Number(Boolean(one.past));
  }
  totals.broken = new Set(broken.flatMap((group) => group.cases.map((one) => one.case))).size;
  return totals;
}
