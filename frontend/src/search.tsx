// The search in the head of each page: it offers cases, sessions, commits and tags while one types.

import { useEffect, useRef, useState } from 'preact/hooks';
import { Combobox } from './combobox';
import { load } from './data';
import { plain, quantity } from './format';
import type { Overview, SearchIndex } from './model';
import { go, link } from './router';
import { allSessions, findOptions, optionsOf, type Option } from './sides';
import { caseLink, sessionLink } from './ui';

const KINDS: [kind: string, most: number][] = [
  ['case', 10],
  ['tag', 4],
  ['session', 5],
  ['commit', 5],
];

async function loadOptions(overview: Overview): Promise<Option[]> {
  const [index, sessions] = await Promise.all([load<SearchIndex>('search'), allSessions(overview, 'heads')]);
  const cases = index.case.map((name, at): Option => {
    const { values, unit, metric } = index.trend[at] ?? {};
    const words = [metric && quantity(values?.at(-1), unit), ...index.tags[at].map((tag) => index.tag_names[tag])];
    return { value: `c:${name}`, kind: 'case', text: plain(name), hint: words.filter(Boolean).map((word) => plain(String(word))).join(' · ') };
  });
  return [...cases, ...optionsOf({ sessions, tags: overview.tags }).filter((one) => KINDS.some(([kind]) => kind === one.kind))];
}

function addressOf({ kind, value }: Option): string {
  const rest = value.slice(2);
  if (kind === 'case') return caseLink(rest);
  if (kind === 'session') return sessionLink(rest);
  return kind === 'commit' ? link(['sessions'], { q: rest }) : link(['compare'], { b: value });
}

export function Search({ overview }: { overview?: Overview }) {
  const [options, setOptions] = useState<Option[] | null>(null);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const writing = event.target instanceof HTMLElement && event.target.closest('input, textarea, select, dialog');
      if (event.key !== '/' || writing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      box.current?.focus();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  useEffect(() => setOptions(null), [overview]);
  const find = (typed: string) => {
    if (!typed.trim() || !options) return { shown: [], total: 0 };
    const each = KINDS.map(([kind, most]) => ({ ...findOptions(options.filter((one) => one.kind === kind), typed), most }));
    return { shown: each.flatMap(({ shown, most }) => shown.filter((one) => one.kind !== 'date').slice(0, most)), total: each.reduce((sum, { total }) => sum + total, 0) };
  };
  return (
    <div role="search" class="search">
      <Combobox
        input={box}
        label="Search cases, sessions, commits and tags"
        placeholder="Search cases, sessions, commits, tags  ( / )"
        text=""
        find={find}
        onFocus={() => overview && !options && void loadOptions(overview).then(setOptions, () => undefined)}
        onChoose={(option) => go(addressOf(option), true)}
        onEnter={(typed) => go(link(['cases'], { q: typed }), true)}
      />
    </div>
  );
}
