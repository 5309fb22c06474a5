// All sessions, newest first.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { saveCsv, saveJson } from '../export';
import { moment, plural, quantity } from '../format';
import type { Running } from '../live';
import type { Overview, Session } from '../model';
import { choose, chosen as chosenOf, go, link, useQuery, type Route } from '../router';
import { allSessions } from '../sides';
import { plain, Revision, sessionLink, Table, Toggle } from '../ui';

export function SessionsPage({ overview, running, route }: { overview: Overview; running: Running[]; route: Route }) {
  const [query, change] = useQuery(route);
  const [sessions, setSessions] = useState(overview.sessions);
  const chosen = (chosenOf('chosen') ?? '').split(',').filter(Boolean);
  const all = sessions.length >= overview.counts.sessions;
  const wanted = chosenOf('all') === '1';
  const loadAll = async () => setSessions(await allSessions(overview));
  useEffect(() => {
    if (wanted && !all) void loadAll();
  }, [wanted, all]);
  const machines = useMemo(() => new Map(overview.environments.map((row) => [row[0], row[6] || row[5]])), [overview]);
  const machineOf = (one: Session) => [...new Set((one.environments ?? []).map((number) => machines.get(number) ?? ''))].filter(Boolean).join(', ');
  const words = (query.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  // Those that are not there yet may be the ones that are looked for.
  useEffect(() => {
    if (words.length && !all) void loadAll();
  }, [words.length > 0, all]);
  const shown = sessions.filter((one) => {
    const text = [one.name, one.revision, one.branch, one.tool, one.started, machineOf(one)].join(' ').toLowerCase();
    return words.every((word) => text.includes(word)) && (!query.bad || (one.counts?.passed ?? 0) < total(one.counts));
  });
  const toggle = (id: string) => choose({ chosen: (chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id].slice(-2)).join() });
  return (
    <>
      <h1>Sessions</h1>
      <div class="bar">
        <label class="choice wide">
          <span>Filter</span>
          <input type="search" value={query.q ?? ''} placeholder="name, commit, branch, machine, date" onInput={(event) => change({ q: (event.target as HTMLInputElement).value })} />
        </label>
        <Toggle label="Not all passed" on={query.bad === '1'} onChange={(bad) => change({ bad })} />
        <span class="soft" role="status">
          {shown.length < overview.counts.sessions ? `${shown.length.toLocaleString('en')} of ${plural(overview.counts.sessions, 'session')}` : plural(shown.length, 'session')}
        </span>
        <button type="button" disabled={chosen.length !== 2} onClick={() => go(comparison(sessions, chosen), true)}>
          Compare the two chosen
        </button>
        {!all && (
          <button type="button" onClick={() => choose({ all: true })}>
            Show all
          </button>
        )}
        <span class="grow" />
        <span class="downloads">
          <span class="soft">Download</span>
          <button type="button" onClick={() => saveCsv('sessions', HEAD, sessions.map((one) => [one.id, one.name, one.started, one.revision, one.branch, one.counts?.passed ?? 0, total(one.counts), one.seconds, one.tool]))}>
            CSV
          </button>
          <button type="button" onClick={() => saveJson('sessions', sessions)}>
            JSON
          </button>
        </span>
      </div>
      {running.map((one) => (
        <p key={one.id}>
          <span class="pulse" aria-hidden="true" /> <a href={sessionLink(one.id)}>{plain(one.name)}</a> is running: {one.done} of {one.planned}
        </p>
      ))}
      <Table<Session>
        caption="Sessions"
        rows={shown}
        id={(row) => row.id}
        columns={[
          { name: '', show: (row) => <input type="checkbox" aria-label={`Choose ${row.name} for a comparison`} checked={chosen.includes(row.id)} onChange={() => toggle(row.id)} /> },
          { name: 'Session', show: (row) => <SessionName session={row} />, sort: (row) => row.name },
          { name: 'Started', show: (row) => moment(row.started), sort: (row) => row.started ?? '' },
          { name: 'Revision', show: (row) => <Revision revision={row.revision} />, sort: (row) => row.revision ?? '' },
          { name: 'Machine', show: (row) => plain(machineOf(row)), sort: machineOf },
          { name: 'Branch', show: (row) => plain(row.branch ?? ''), sort: (row) => row.branch ?? '' },
          { name: 'Passed', show: (row) => <Counts counts={row.counts} />, sort: (row) => (row.counts?.passed ?? 0) / Math.max(1, total(row.counts)), numeric: true },
          { name: 'Time', show: (row) => quantity(row.seconds, 's'), sort: (row) => row.seconds ?? NaN, numeric: true },
          { name: 'By', show: (row) => plain(row.tool ?? ''), sort: (row) => row.tool ?? '' },
        ]}
      />
    </>
  );
}

/** The older of the two is the baseline, whichever was chosen first. */
function comparison(sessions: Session[], chosen: string[]): string {
  const [b, a] = sessions.filter((one) => chosen.includes(one.id));
  return link(['compare'], { a: `s:${a.id}`, b: `s:${b.id}` });
}

function SessionName({ session }: { session: Session }) {
  return (
    <>
      <a href={sessionLink(session.id)}>{plain(session.name)}</a> {session.attentions && <span class="tag">evals</span>}
    </>
  );
}

const HEAD = ['id', 'name', 'started', 'revision', 'branch', 'passed', 'cases', 'seconds', 'tool'];

const total = (counts: Record<string, number> | undefined) => Object.values(counts ?? {}).reduce((sum, count) => sum + count, 0);

export function Counts({ counts }: { counts?: Record<string, number> }) {
  if (!counts) return null;
  const passed = counts.passed ?? 0;
  const all = total(counts);
  return (
    <span class={passed === all ? 'status good' : 'status bad'}>
      <span aria-hidden="true">{passed === all ? '✓' : '✕'}</span> {passed} / {all}
    </span>
  );
}
