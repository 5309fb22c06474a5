// What somebody says about an incident or a finding: stored by a live server, or a command to copy.

import { useEffect, useRef, useState } from 'preact/hooks';
import { CopyButton } from './ui';

const STATES: [state: string, text: string, hint: string][] = [
  ['acknowledged', 'Acknowledge', 'known, somebody looks at it'],
  ['expected', 'Expected', 'meant to be so'],
  ['fixed', 'Fixed', 'repaired'],
  ['false', 'No change', 'nothing changed there'],
  ['new', 'Open again', 'nobody has answered it'],
];
const NEED_A_REASON = new Set(['expected', 'false']);

/** Quoted for a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

export const commandOf = (id: string, state: string, why: string) => `paceline verdict ${id} ${state}${why.trim() || NEED_A_REASON.has(state) ? ` --why ${quoted(why.trim() || 'why it is so')}` : ''}`;

export function Answer({ id, state }: { id: string; state: string }) {
  const [open, setOpen] = useState(false);
  return (
    <div class="answer">
      <button type="button" aria-haspopup="dialog" aria-label={`Answer ${id}`} onClick={() => setOpen(true)}>
        Answer
      </button>
      {open && <Dialog id={id} state={state} onClose={() => setOpen(false)} />}
    </div>
  );
}

function Dialog({ id, state, onClose }: { id: string; state: string; onClose: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const [chosen, setChosen] = useState(state === 'acknowledged' ? 'expected' : 'acknowledged');
  const [why, setWhy] = useState('');
  const [said, setSaid] = useState('');
  const token = document.body.dataset.token;
  useEffect(() => box.current?.showModal(), []);
  const send = async () => {
    try {
      const answer = await fetch('verdict', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Paceline-Token': token ?? '' }, body: JSON.stringify({ id, state: chosen, why }) });
      if (!answer.ok) return setSaid(await answer.text());
      onClose();
    } catch {
      setSaid('The server has gone: start it again, or use the command.');
    }
  };
  return (
    <dialog ref={box} aria-label={`Answer ${id}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (token) void send();
        }}
      >
        <fieldset>
          <legend>What is it?</legend>
          {STATES.filter(([name]) => name !== state).map(([name, text, hint]) => (
            <label key={name}>
              <input type="radio" name="state" checked={chosen === name} onChange={() => setChosen(name)} /> <b>{text}</b> <span class="soft">{hint}</span>
            </label>
          ))}
        </fieldset>
        <label class="why">
          Why{NEED_A_REASON.has(chosen) ? ', which others will ask' : ' (may be empty)'}
          <input type="text" value={why} maxLength={1000} onInput={(event) => setWhy((event.target as HTMLInputElement).value)} />
        </label>
        {!token && <p class="soft">This site only shows the history. Where its database is:</p>}
        <div class="command">
          <code>{commandOf(id, chosen, why)}</code> <CopyButton text={() => commandOf(id, chosen, why)} label="Copy" />
        </div>
        {said && (
          <p class="warning" role="alert">
            {said}
          </p>
        )}
        <div class="bar">
          {token && (
            <button type="submit" class="primary" disabled={NEED_A_REASON.has(chosen) && !why.trim()}>
              Store it
            </button>
          )}
          <button type="button" onClick={() => box.current?.close()}>
            Close
          </button>
        </div>
      </form>
    </dialog>
  );
}
