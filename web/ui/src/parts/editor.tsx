// A text editor for queries. It lives in a shadow root: there its styles are objects,
// which the Content-Security-Policy allows, and not elements, which it does not.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting, type Language } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

export interface EditorProps {
  /** The text. The editor takes it when it begins and when revision changes. */
  value: string;
  revision: number;
  onChange: (value: string) => void;
  /** Called for Ctrl+Enter. */
  onRun: () => void;
  language: Language;
  complete: CompletionSource;
  /** A place in the text that is wrong, and why. */
  mistake?: { from: number; to: number; message: string } | null;
  label: string;
  hint: string;
  /** Gets the function that writes a text at the cursor. */
  writer?: { current: (text: string) => void };
}

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--keyword)", fontWeight: "600" },
    { tag: tags.function(tags.variableName), color: "var(--function)" },
    { tag: [tags.string, tags.regexp], color: "var(--string)" },
    { tag: tags.number, color: "var(--number)" },
    { tag: tags.macroName, color: "var(--macro)", fontStyle: "italic" },
    { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
    { tag: [tags.operator, tags.modifier], color: "var(--faint)" },
  ]),
);

const look = EditorView.theme({
  "&": { background: "var(--back)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px", font: "14px/1.5 var(--mono)" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "inherit", maxHeight: "40vh", minHeight: "4.5em" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--selection)" },
  ".cm-tooltip": { background: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { background: "var(--accent)", color: "var(--on-accent)" },
});

export function Editor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const language = useRef(new Compartment()).current;
  const now = useRef(props);
  now.current = props;

  useEffect(() => {
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
    const v = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: props.value,
        extensions: [
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          EditorView.lineWrapping,
          language.of(props.language),
          colours,
          look,
          placeholder(props.hint),
          autocompletion({ override: [(context) => now.current.complete(context)] }),
          keymap.of([
            { key: "Mod-Enter", run: () => (now.current.onRun(), true) },
            ...closeBracketsKeymap,
            ...completionKeymap,
            ...historyKeymap,
            ...defaultKeymap,
          ]),
          EditorView.contentAttributes.of({ "aria-label": props.label, spellcheck: "false" }),
          EditorView.updateListener.of((u) => u.docChanged && now.current.onChange(u.state.doc.toString())),
        ],
      }),
    });
    view.current = v;
    if (props.writer) props.writer.current = (text) => {
      v.dispatch(v.state.replaceSelection(text));
      v.focus();
    };
    return () => v.destroy();
  }, []);
  useEffect(() => {
    const v = view.current!;
    if (v.state.doc.toString() !== props.value) v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: props.value } });
  }, [props.revision]);
  useEffect(() => view.current!.dispatch({ effects: language.reconfigure(props.language) }), [props.language]);
  useEffect(() => {
    const v = view.current!;
    const m = props.mistake;
    const end = v.state.doc.length;
    v.dispatch(setDiagnostics(v.state, m ? [{ from: Math.min(m.from, end), to: Math.min(m.to, end), severity: "error", message: m.message }] : []));
  }, [props.mistake]);
  return <div ref={host} class="editor" />;
}
