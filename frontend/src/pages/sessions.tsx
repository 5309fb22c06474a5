// All sessions, newest first.

import { useEffect, useState } from 'preact/hooks';
import { saveCsv, saveJson } from '../export';
import { moment, plural, quantity } from '../format';
import type { Running } from '../live';
import { loadSessions, type Overview, type Session } from '../model';
import { choose, chosen as chosenOf, go, link } from '../router';
import { plain, Revision, sessionLink, Table } from '../ui';

export function SessionsPage({ overview, running }: { overview: Overview; running: Running[] }) {
  const [sessions, setSessions] = useState(overview.sessions);
  const chosen = (chosenOf('chosen') ?? '').split(',').filter(Boolean);
  const all = sessions.length >= overview.counts.sessions;
  const wanted = chosenOf('all') === '1';
  const loadAll = async () => {
    const last = overview.sessions.reduce((most, session) => Math.max(most, session.number), 0);
    const found = await loadSessions(Array.from({ length: Math.floor(last / 512) + 1 }, (_, shard) => shard * 512));
    setSessions([...found.values()].sort((a, b) => (b.started ?? '').localeCompare(a.started ?? '')));
  };
  useEffect(() => {
    if (wanted && !all) void loadAll();
  }, [wanted, all]);
  const toggle = (id: string) => choose({ chosen: (chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id].slice(-2)).join() });
  return (
    <>
      <h1>Sessions</h1>
      <div class="bar">
        <button type="button" disabled={chosen.length !== 2} onClick={() => go(comparison(sessions, chosen), true)}>
          Compare the two chosen
        </button>
        {!all && (
          <button type="button" onClick={() => choose({ all: true })}>
            Show all {plural(overview.counts.sessions, 'session')}
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
        rows={sessions}
        id={(row) => row.id}
        columns={[
          { name: '', show: (row) => <input type="checkbox" aria-label={`Choose ${row.name} for a comparison`} checked={chosen.includes(row.id)} onChange={() => toggle(row.id)} /> },
          { name: 'Session', show: (row) => <SessionName session={row} />, sort: (row) => row.name },
          { name: 'Started', show: (row) => moment(row.started), sort: (row) => row.started ?? '' },
          { name: 'Revision', show: (row) => <Revision revision={row.revision} />, sort: (row) => row.revision ?? '' },
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
