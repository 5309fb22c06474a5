// What the sides of a comparison can be: a tag, a branch, a commit, a date, a session, an arm, an attention.

import { day, moment, plain, short } from './format';
import { loadSessions, type EnvironmentHead, type Overview, type Session, type Tag } from './model';

export const MOST_SESSIONS = 24;
const MOST_TRIALS = 200;

export interface Side {
  /** As the address has it. */
  text: string;
  name: string;
  sessions: Session[];
  /** How many sessions more there are of it. */
  more: number;
  /** Of an arm of an A/B test, its name. */
  variant: string | null;
  /** Of an execution of evals, the attention that it is about. */
  attention?: string;
}

/** All that sides are made from; sessions with the newest first. */
export interface Known {
  sessions: Session[];
  tags: Tag[];
}

export async function loadKnown(overview: Overview): Promise<Known> {
  return { sessions: await allSessions(overview), tags: overview.tags };
}

export async function allSessions(overview: Overview, kind: 'sessions' | 'heads' = 'sessions'): Promise<Session[]> {
  if (overview.counts.sessions <= overview.sessions.length) return overview.sessions;
  const last = overview.sessions.reduce((most, session) => Math.max(most, session.number), 0);
  const found = await loadSessions(Array.from({ length: Math.floor(last / 512) + 1 }, (_, shard) => shard * 512), kind);
  return [...found.values()].sort((x, y) => (y.started ?? '').localeCompare(x.started ?? ''));
}

const isNight = (one: Session) => one.kind !== 'ab';
const dateOf = (one: Session) => one.committed ?? one.started ?? '';
const ofRevision = (sessions: Session[], start: string) => sessions.filter((one) => isNight(one) && start && one.revision?.startsWith(start));

/** All sessions of the revision that the newest of some sessions has, as `paceline compare` takes a branch. */
function newestRevision(several: Session[]): Session[] {
  const newest = several.reduce<Session | undefined>((best, one) => (!best || dateOf(one) > dateOf(best) ? one : best), undefined);
  if (!newest) return [];
  return newest.revision ? several.filter((one) => one.revision === newest.revision) : [newest];
}

export function sideOf(text: string, known: Known): Side {
  const { sessions } = known;
  const [kind, rest] = [text.slice(0, 2), text.slice(2)];
  const side = (name: string, found: Session[], more: Partial<Side> = {}, most = MOST_SESSIONS): Side => ({ text, name, sessions: found.slice(0, most), more: Math.max(0, found.length - most), variant: null, ...more });
  if (kind === 't:') return side(rest, ofRevision(sessions, known.tags.find((tag) => tag.name === rest)?.revision ?? ''));
  if (kind === 'b:') return side(`branch ${rest}`, newestRevision(sessions.filter((one) => isNight(one) && one.branch === rest)));
  if (kind === 'r:') return side(short(rest), ofRevision(sessions, rest));
  if (kind === 'd:') return side(`up to ${rest}`, newestRevision(sessions.filter((one) => isNight(one) && dateOf(one).slice(0, rest.length) <= rest)));
  if (kind === 'v:') {
    const [experiment, arm] = twoOf(rest);
    return side(`arm ${arm} of ${experiment}`, sessions.filter((one) => experimentOf(one) === experiment && one.variants?.includes(arm)), { variant: arm }, MOST_TRIALS);
  }
  if (kind === 'e:') {
    const [id, attention] = twoOf(rest);
    const found = sessions.filter((one) => one.id === id);
    return side(`attention ${attention} of ${found[0]?.name ?? ''}`, found, { attention });
  }
  const found = sessions.filter((one) => one.id === rest);
  return side(found[0]?.name ?? text, found);
}

export function twoOf(text: string): [string, string] {
  try {
    const found: unknown = JSON.parse(text);
    if (Array.isArray(found)) return [String(found[0]), String(found[1])];
  } catch {
    // an address that somebody wrote by hand
  }
  return ['', ''];
}

const experimentOf = (one: Session) => (one.kind === 'ab' && one.name.includes('/') ? one.name.slice(0, one.name.lastIndexOf('/')) : one.name);
export const armSide = (experiment: string, arm: string) => `v:${JSON.stringify([experiment, arm])}`;
export const attentionSide = (session: string, name: string) => `e:${JSON.stringify([session, name])}`;

/** A/B tests with their arms, in the order they came up: the first that ran is the baseline more often than not. */
export function experimentsOf(sessions: Session[]): [name: string, arms: string[]][] {
  const found = new Map<string, Set<string>>();
  for (const one of [...sessions].reverse()) {
    if (one.kind !== 'ab' && (one.variants?.length ?? 0) < 2) continue;
    const arms = found.get(experimentOf(one)) ?? new Set<string>();
    one.variants?.forEach((arm) => arms.add(arm));
    found.set(experimentOf(one), arms);
  }
  return [...found].map(([name, arms]) => [name, [...arms]]);
}

type Heads = Map<number, EnvironmentHead>;

export const classesOf = (sessions: Session[], heads: Heads) => new Set(sessions.flatMap((one) => (one.environments ?? []).map((number) => heads.get(number)?.[2] ?? '')));

/** The newest session before the candidate that can be held against it: of its sort, its machines and its variants. */
export function likeliest(known: Known, candidate: Side, heads: Heads): string {
  const first = candidate.sessions[0];
  const tags = known.tags.filter((tag) => tag.time < dateOf(first ?? {})).sort((a, b) => b.time.localeCompare(a.time));
  if (candidate.text.startsWith('t:') && tags.length) return `t:${tags.find((tag) => tag.name !== candidate.name)?.name ?? ''}`;
  const rank = (one: Session) => one.place ?? -1;
  const [machines, variants] = [classesOf(candidate.sessions, heads), candidate.sessions.flatMap((one) => one.variants ?? [])];
  const tests: ((one: Session) => boolean)[] = [
    (one) => Boolean(one.attentions) === Boolean(first?.attentions) && one.kind === first?.kind,
    (one) => [...classesOf([one], heads)].some((name) => machines.has(name)),
    (one) => !variants.length || (one.variants ?? []).some((name) => variants.includes(name)),
    (one) => one.branch === first?.branch,
  ];
  const others = known.sessions.filter((one) => !candidate.sessions.includes(one));
  const earlier = others.filter((one) => (rank(one) >= 0 && first ? rank(one) < rank(first) : (one.started ?? '') < (first?.started ?? '')));
  earlier.sort((a, b) => rank(b) - rank(a) || (b.started ?? '').localeCompare(a.started ?? ''));
  for (let count = tests.length; count > 0; count--) {
    const found = earlier.find((one) => tests.slice(0, count).every((test) => test(one)));
    if (found) return `s:${found.id}`;
  }
  return `s:${(earlier[0] ?? others[0] ?? first)?.id ?? ''}`;
}

export interface Option {
  value: string;
  text: string;
  kind: string;
  hint?: string;
}

/** All that can be chosen, what people mean most often first. */
export function optionsOf({ sessions, tags }: Known): Option[] {
  const unique = (values: (string | undefined)[]) => [...new Set(values.filter((value): value is string => Boolean(value)))];
  const nights = sessions.filter(isNight);
  const revisions = new Map<string, Session>();
  for (const one of nights) if (one.revision && !revisions.has(one.revision)) revisions.set(one.revision, one);
  const commits = [...revisions.values()].sort((a, b) => dateOf(b).localeCompare(dateOf(a)));
  return [
    ...[...tags].sort((a, b) => b.time.localeCompare(a.time)).map((tag): Option => ({ value: `t:${tag.name}`, kind: 'tag', text: plain(tag.name), hint: `${day(tag.time)} · ${short(tag.revision)}` })),
    ...unique(nights.map((one) => one.branch)).map((branch): Option => ({ value: `b:${branch}`, kind: 'branch', text: plain(branch), hint: 'its newest commit' })),
    ...experimentsOf(sessions).flatMap(([name, arms]) => arms.map((arm): Option => ({ value: armSide(name, arm), kind: 'arm', text: plain(arm), hint: plain(name) }))),
    ...nights.flatMap((one) => (one.attentions ?? []).map((name): Option => ({ value: attentionSide(one.id, name), kind: 'attention', text: plain(name), hint: plain(one.name) }))),
    ...nights.map((one): Option => ({ value: `s:${one.id}`, kind: 'session', text: plain(one.name), hint: moment(one.started) })),
    ...commits.map((one): Option => ({ value: `r:${one.revision}`, kind: 'commit', text: short(one.revision), hint: `${day(dateOf(one))}${one.branch ? ` · ${plain(one.branch)}` : ''}` })),
  ];
}

const A_DATE = /^\d{4}(-\d\d(-\d\d)?)?$/;
const MOST_OF_A_KIND = 6;
const MOST_SHOWN = 30;

/** Those that have all the words; as long as nothing is typed, some of each kind. */
export function findOptions(options: Option[], typed: string): { shown: Option[]; total: number } {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) {
    const counts = new Map<string, number>();
    const some = options.filter((one) => {
      counts.set(one.kind, (counts.get(one.kind) ?? 0) + 1);
      return (counts.get(one.kind) as number) <= MOST_OF_A_KIND;
    });
    return { shown: some, total: options.length };
  }
  const found = options.filter((one) => {
    const text = `${one.kind} ${one.text} ${one.hint ?? ''} ${one.value.slice(2)}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const exact = (one: Option) => Number(one.text.toLowerCase() === words[0]) + Number(one.text.toLowerCase().startsWith(words[0]));
  found.sort((a, b) => exact(b) - exact(a));
  const date: Option[] = A_DATE.test(typed.trim()) ? [{ value: `d:${typed.trim()}`, kind: 'date', text: typed.trim(), hint: 'the newest commit up to then' }] : [];
  return { shown: [...date, ...found].slice(0, MOST_SHOWN), total: found.length + date.length };
}

export const nameOf = (side: Side) => plain(side.name);
