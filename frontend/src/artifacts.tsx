// The files that a run left: a link to each that the site has, the names of the others.

import { plural, quantity } from './format';
import { Fold, plain } from './ui';

export interface RunFile {
  name: string;
  bytes: number;
  /** Where it can be had. */
  at?: string;
  /** All of it is on the page. */
  shown?: boolean;
  /** It cannot be had: too large to be searched for secrets. */
  too_large?: boolean;
}

const OURS = /^artifacts(\/[0-9a-f]{1,32}){2,3}\.(?<ending>txt|png|jpg|gif|bin)$/;

export function FileList({ files, named, directory }: { files: RunFile[]; named: string[]; directory: string }) {
  if (!files.length) return <Named names={named} />;
  return (
    <Fold name="files" title={`${plural(files.length, 'file')} of this run`}>
      <ul class="files">
        {files.map((file) => (
          <li key={file.name}>
            <File file={file} /> <span class="soft">{quantity(file.bytes, 'bytes')}</span>
          </li>
        ))}
      </ul>
      <p class="soft">
        in <code>{plain(directory)}</code>
      </p>
    </Fold>
  );
}

/** Text and pictures open, all else is kept; no file is opened as something that could run. */
function File({ file }: { file: RunFile }) {
  const name = plain(file.name);
  const ending = OURS.exec(file.at ?? '')?.groups?.ending;
  if (!ending)
    return (
      <>
        <code>{name}</code> {file.shown && <span class="soft">above as the output,</span>}
        {file.too_large && <span class="soft">too large to be copied,</span>}
      </>
    );
  const own = (file.name.split('/').pop() ?? '').replace(/[^\w.=,+-]+/g, '_');
  const keep = (text: string) => (
    <a href={file.at} download={own} aria-label={`Download ${name}`}>
      {text}
    </a>
  );
  if (ending === 'bin') return <code>{keep(name)}</code>;
  return (
    <>
      <code>
        <a href={file.at} target="_blank" rel="noopener noreferrer">
          {name}
        </a>
      </code>{' '}
      {keep('download')}
    </>
  );
}

/** What the run said it left, where its files are not at hand. */
function Named({ names }: { names: string[] }) {
  if (!names.length) return null;
  return (
    <Fold name="files" title={plural(names.length, 'artifact')}>
      <ul class="files">
        {names.map((name) => (
          <li key={name}>
            <code>{plain(name)}</code>
          </li>
        ))}
      </ul>
    </Fold>
  );
}
