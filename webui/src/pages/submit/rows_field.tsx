/** A list of rows: pasted, or of a file that the browser reads. */

import { SelectField } from "../../ui/field";
import { attempt } from "../../ui/toast";
import { type RowsKind, rowsKindOf, type Source } from "./many";

/** The largest file that is read; the daemon has the same bound. */
const FILE_BYTES_MAX = 16 << 20;
const KINDS: readonly { value: RowsKind; words: string }[] = [
  { value: "csv", words: "CSV with a header" },
  { value: "jsonl", words: "JSON lines" },
  { value: "txt", words: "Text: each line is {line}" },
];

export function RowsField(props: { source: Source; set: (changes: Partial<Source>) => void }) {
  const { source, set } = props;
  const choose = (file: File | undefined) =>
    attempt(async () => {
      if (!file) return undefined;
      if (file.size > FILE_BYTES_MAX) throw new Error(`${file.name}: more than ${FILE_BYTES_MAX >> 20} MiB`);
      const rows = await file.text();
      set({ rows, file: file.name, rowsKind: rowsKindOf(file.name) ?? source.rowsKind });
      return undefined;
    });
  return (
    <>
      <label class="wide">
        Rows; each is a job
        <textarea
          name="rows"
          rows={6}
          spellcheck={false}
          placeholder={"lr,seed\n0.1,1\n0.01,2"}
          value={source.rows}
          onInput={(event) => set({ rows: event.currentTarget.value, file: "" })}
        />
      </label>
      <div class="options">
        <SelectField
          label="The rows are"
          name="rows_kind"
          options={KINDS}
          value={source.rowsKind}
          onChange={(kind) => set({ rowsKind: kind as RowsKind })}
        />
        <label>
          From a file
          <input
            type="file"
            accept=".csv,.jsonl,.ndjson,.txt"
            onChange={(event) => void choose(event.currentTarget.files?.[0])}
          />
        </label>
      </div>
    </>
  );
}
