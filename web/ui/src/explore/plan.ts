// What EXPLAIN ANALYZE says, as a tree.

export interface Step {
  text: string;
  children: Step[];
}

/** Reads the tree that lines draw with ├── and └──. */
export function treeOf(lines: string[]): Step[] {
  const root: Step = { text: "", children: [] };
  const path: Step[] = [root];
  for (const line of lines) {
    const found = /^((?:[│ ] {3}|\s{4})*)[├└]── (.*)$/.exec(line.replace(/\u00a0/g, " "));
    if (found === null) continue;
    const depth = found[1]!.length / 4 + 1;
    const step = { text: found[2]!, children: [] };
    path[Math.min(depth, path.length) - 1]!.children.push(step);
    path.length = Math.min(depth, path.length);
    path.push(step);
  }
  return root.children;
}
