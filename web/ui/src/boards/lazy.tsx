// The editor of panels and variables. Its code, with that of the text editor, is loaded when
// somebody edits.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ErrorBox } from "../parts/error";
import type { EditProps } from "./edit";

export function Edit(props: EditProps) {
  const [content, setContent] = useState<{ Show: ComponentType<EditProps> } | Error | null>(null);
  useEffect(() => void import("./edit").then((m) => setContent({ Show: m.Edit }), setContent), []);
  if (content === null) return null;
  if (content instanceof Error) return <ErrorBox error={content} />;
  return <content.Show {...props} />;
}
