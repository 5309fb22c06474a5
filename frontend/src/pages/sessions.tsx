// All sessions, newest first.

import { useState } from 'preact/hooks';
import { moment, plural, quantity } from '../format';
import type { Running } from '../live';
import { loadSessions, type Overview, type Session } from '../model';
import { go, link } from '../router';
import { plain, Revision, sessionLink, Table } from '../ui';

export function SessionsPage({ overview, running }: { overview: Overview; running: Running[] }) {
  const [sessions, setSessions] = useState(overview.sessions);
  const [chosen, setChosen] = useState<string[]>([]);
  const all = sessions.length >= overview.counts.sessions;
  const loadAll = async () => {
    const last = overview.sessions.reduce((most, session) => Math.max(most, session.number), 0);
    const found = await loadSessions(Array.from({ length: Math.floor(last / 512) + 1 }, (_, shard) => shard * 512));
    setSessions([...found.values()].sort((a, b) => (b.started ?? '').localeCompare(a.started ?? '')));
  };
  const toggle = (id: string) => setChosen((before) => (before.includes(id) ? before.filter((one) => one !== id) : [...before, id].slice(-2)));
  return (
    <>
      <h1>Sessions</h1>
      <div class="bar">
        <button type="button" disabled={chosen.length !== 2} onClick={() => go(link(['compare'], { a: `s:${chosen[0]}`, b: `s:${chosen[1]}` }), true)}>
          Compare the two chosen
        </button>
        {!all && (
          <button type="button" onClick={loadAll}>
            Show all {plural(overview.counts.sessions, 'session')}
          </button>
        )}
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

function SessionName({ session }: { session: Session }) {
  return (
    <>
      <a href={sessionLink(session.id)}>{plain(session.name)}</a> {session.attentions && <span class="tag">evals</span>}
    </>
  );
}

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
