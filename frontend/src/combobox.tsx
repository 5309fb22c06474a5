// A box to type in that offers what fits: one for search, one for each side of a comparison.

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Option } from './sides';

interface Props {
  label: string;
  /** What is chosen, as people read it. */
  text: string;
  placeholder?: string;
  find: (typed: string) => { shown: Option[]; total: number };
  onChoose: (option: Option) => void;
  /** Enter, with nothing of the list chosen. */
  onEnter?: (typed: string) => void;
  onFocus?: () => void;
  input?: { current: HTMLInputElement | null };
}

export function Combobox({ label, text, placeholder, find, onChoose, onEnter, onFocus, input }: Props) {
  const id = useId();
  const [typed, setTyped] = useState<string | null>(null);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const own = useRef<HTMLInputElement>(null);
  const box = input ?? own;
  const list = useRef<HTMLUListElement>(null);
  const { shown, total } = open ? find(typed ?? '') : { shown: [], total: 0 };
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const close = () => {
    setOpen(false);
    setAt(-1);
    setTyped(null);
  };
  const choose = (option: Option) => {
    close();
    box.current?.blur();
    onChoose(option);
  };
  const keys: Record<string, () => void> = {
    ArrowDown: () => (open ? setAt(Math.min(shown.length - 1, at + 1)) : setOpen(true)),
    ArrowUp: () => setAt(Math.max(-1, at - 1)),
    Escape: () => {
      close();
      box.current?.blur();
    },
    Enter: () => {
      if (shown[at]) return choose(shown[at]);
      if (onEnter) {
        const told = typed ?? '';
        close();
        onEnter(told);
      } else if (typed?.trim() && shown[0]) choose(shown[0]);
    },
  };
  const isOpen = open && (shown.length > 0 || Boolean(typed?.trim()));
  return (
    <div class="combobox">
      <input
        ref={box}
        type="text"
        role="combobox"
        aria-label={label}
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && at >= 0 ? `${id}-${at}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={typed ?? text}
        onFocus={(event) => {
          onFocus?.();
          setOpen(true);
          (event.target as HTMLInputElement).select();
        }}
        onBlur={close}
        onInput={(event) => {
          setTyped((event.target as HTMLInputElement).value);
          setOpen(true);
          setAt(-1);
        }}
        onKeyDown={(event) => {
          if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
          event.preventDefault();
          event.stopPropagation();
          keys[event.key]();
        }}
      />
      {isOpen && (
        <div class="offers">
          <ul id={id} ref={list} role="listbox" aria-label={label}>
            {shown.map((option, place) => (
              <li
                key={option.kind + option.value}
                id={`${id}-${place}`}
                role="option"
                aria-selected={place === at}
                onMouseDown={(event) => {
                  event.preventDefault();
                  choose(option);
                }}
                onMouseMove={() => place !== at && setAt(place)}
              >
                <span class="kind">{option.kind}</span> <span class="offer">{option.text}</span> {option.hint && <span class="soft">{option.hint}</span>}
              </li>
            ))}
          </ul>
          <p class="soft" role="status">
            {!shown.length ? 'Nothing has that name.' : total > shown.length ? `${shown.length} of ${total.toLocaleString('en')}: type to see others` : ''}
          </p>
        </div>
      )}
    </div>
  );
}
