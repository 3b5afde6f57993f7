/**
 * What is done about many edges before dagre sees them.
 *
 * Lines that share a trunk. What is read again and again further down (a mask by every layer, a feature by every later
 * block) costs dagre one chain of invisible nodes per reader, which is most of its time, and a bundle of lines to look
 * at. With junctions on the way all readers hang on one line; and so do all producers of what is collected at the end.
 *
 *     a → b, a → c, a → d, a → e    becomes    a → b, a → 1, 1 → c, 1 → 2, 2 → d, 2 → 3, 3 → e
 *
 * Where nearly everything is read by everything after it (the blocks of a DenseNet), an edge that other edges imply says
 * nothing about the order: it is left to lanes beside the boxes.
 */

const LEAST = 4; // distinct ranks among the readers of a box
const DENSE = { edges: 60, each: 3 }; // more edges than this, and more for each box

/**
 * @param {number} count of boxes
 * @param {[number, number][]} edges between them
 * @returns {{junctions: number, edges: [number, number][], paths: Map<string, [number, number][]>}} edges to lay out
 *   (junctions are numbered from `count` on), and for each edge that was given those that it follows
 */
export function trunks(count, edges) {
  const rank = ranks(count, edges);
  const made = { junctions: 0, edges: [], paths: new Map() };
  const rest = hang(edges, ([from]) => from, ([, to]) => rank[to], false, count, made);
  const last = hang(rest, ([, to]) => to, ([from]) => -rank[from], true, count, made);
  for (const edge of last) {
    made.edges.push(edge);
    made.paths.set(edge.join(">"), [edge]);
  }
  return made;
}

/**
 * Hang the edges of every box that has many, at many distances, on a trunk: down from what is read, or up from what reads.
 * @returns {[number, number][]} the edges of the other boxes
 */
function hang(edges, box, distance, upward, count, made) {
  const turned = (near, far) => (upward ? [far, near] : [near, far]);
  const rest = [];
  for (const [start, mine] of grouped(edges, box)) {
    const levels = [...grouped(mine, distance)].sort(([a], [b]) => a - b);
    if (levels.length < LEAST) {
      rest.push(...mine);
      continue;
    }
    const trunk = [];
    let at = start;
    levels.forEach(([, level], i) => {
      for (const edge of level) {
        const end = turned(at, upward ? edge[0] : edge[1]);
        made.edges.push(end);
        made.paths.set(edge.join(">"), upward ? [end, ...[...trunk].reverse()] : [...trunk, end]);
      }
      if (i === levels.length - 1) return;
      const junction = count + made.junctions;
      made.junctions += 1;
      trunk.push(turned(at, junction));
      made.edges.push(turned(at, junction));
      at = junction;
    });
  }
  return rest;
}

/**
 * Edges to lay out, and those for the lanes.
 * @returns {{kept: [number, number][], aside: [number, number][]}}
 */
export function thin(count, edges) {
  if (edges.length <= DENSE.edges || edges.length <= DENSE.each * count) return { kept: edges, aside: [] };
  const rank = ranks(count, edges);
  const down = edges.filter(([from, to]) => rank[from] < rank[to]);
  const after = grouped(down, ([from]) => from);
  const reached = new Array(count).fill(0n); // as bits
  const lowestFirst = Array.from({ length: count }, (_, i) => i).sort((a, b) => rank[b] - rank[a]);
  for (const box of lowestFirst) for (const [, to] of after.get(box) ?? []) reached[box] |= (1n << BigInt(to)) | reached[to];
  const implied = ([from, to]) => (after.get(from) ?? []).some(([, other]) => other !== to && (reached[other] >> BigInt(to)) & 1n);
  const aside = new Set(down.filter(implied));
  return { kept: edges.filter((edge) => !aside.has(edge)), aside: [...aside] };
}

function grouped(list, key) {
  const found = new Map();
  for (const one of list) {
    const name = key(one);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(one);
  }
  return found;
}

/** The longest way to each box from the top, edges that close a circle left out. */
function ranks(count, edges) {
  const before = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) before[to].push(from);
  const found = new Array(count).fill(-1);
  const rank = (box) => {
    if (found[box] < 0) {
      found[box] = 0; // while on the way: whoever comes back here closes a circle
      found[box] = before[box].reduce((most, one) => Math.max(most, rank(one) + 1), 0);
    }
    return found[box];
  };
  for (let box = 0; box < count; box += 1) rank(box);
  return found;
}
