// Bounds the time that a pattern takes on any text: Node.js matches by backtracking, which can hold the event loop.
// A text is followed through all ways in which the engine could read it. The greatest number of ways at one character
// is the factor by which matching is slower than reading; where it has no bound, there is a text that takes very long.
import { maxParts, readPattern, type PatternPart } from './pattern-parts.js';

/** What matching a pattern takes at worst. */
export interface Effort {
  /** The number of steps for each character of any text, at most; Infinity if it is too great or has no bound. */
  readonly steps: number;
  /** Whether that holds only for texts within the maximum length. */
  readonly isWithin?: boolean;
  /** If the steps are Infinity: a text that takes long, unless none was found. */
  readonly slow?: SlowText | undefined;
}

/** A text that takes long to match. */
export interface SlowText {
  /** For a person to read. */
  readonly text: string;
  /** The steps that it takes, if there is a maximum length. */
  readonly steps: number;
  /** Whether texts of this kind take very long although they are short: the steps double with every repetition. */
  readonly isEndless: boolean;
}

/** The maximum number of checks in one body, of about a microsecond each before V8 has optimized them. */
export const maxChecks = 30_000;
/** How many steps take as long as a check. */
export const stepsPerCheck = 1_000;
/** The greatest number of steps that are accepted: longer texts also count as more checks. */
const maxSteps = 5_000;
/** The greatest number of steps of one text whose length is limited: of those in a body, with room for others. */
const maxStepsWithin = maxChecks * stepsPerCheck * 0.9;
/** Bounds the time that looking at a pattern takes, and at all texts within a length. */
const [maxWork, maxWorkWithin] = [4_000_000, 400_000_000];
/** The length of the texts that are shown, unless a short one takes so many steps. */
const [shownLength, endless] = [100_000, 1e9];

const efforts = new Map<string, Effort>();

/**
 * @param pattern - Must be valid with the u flag (ECMA-262 section 22.2.1).
 * @param maxLength - The greatest number of characters of the texts that are matched.
 */
export function effortOf(pattern: string, maxLength = Infinity): Effort {
  const key = `${maxLength} ${pattern}`;
  let effort = efforts.get(key);
  if (effort === undefined) efforts.set(key, (effort = findEffort(pattern, maxLength)));
  return effort;
}

function findEffort(pattern: string, maxLength: number): Effort {
  try {
    return new Machine(pattern).effort(maxLength);
  } catch (error) {
    if (error instanceof TooLarge) return { steps: Infinity };
    throw error;
  }
}

/** Between two characters, there are too many ways to read nothing. */
class TooLarge extends Error {}

/** In how many ways the engine may have read a text, by the node that it compares with the next character. */
type Ways = ReadonlyMap<number, number>;
const none: Ways = new Map();
/** A character that stands for all that match the same atoms, and whether it matches each of them. */
interface Letter {
  readonly text: string;
  readonly matches: readonly boolean[];
}
/** The letters of a text that takes long, of which some are repeated. */
interface Repeated {
  readonly before: readonly Letter[];
  readonly unit: readonly Letter[];
  readonly end: Letter;
  /** The power of the length with which the steps grow. */
  readonly degree: number;
}
/** A text, as its last letter and the text before it, and its ways. */
interface Followed {
  readonly ways: Ways;
  readonly steps: number;
  readonly letter?: Letter;
  readonly before?: Followed;
}

/** A pattern as a graph: a node with an atom matches a character, any other nothing; then one of the next follows. */
class Machine {
  readonly #atoms: string[] = [];
  readonly #atomOf: (number | undefined)[] = [];
  readonly #next: number[][] = [];
  /** The node where all has matched. */
  readonly #match = this.#node([]);
  /** The nodes that stand for ^. */
  readonly #starts = new Set<number>();
  /** The nodes that repeat the first of the next. */
  readonly #loops = new Set<number>();
  /** The ways after each node that has an atom. */
  readonly #after = new Map<number, Ways>();
  readonly #letters: readonly Letter[];
  /** The ways before the first character, and those that a match which starts later adds. */
  readonly #first: Ways;
  readonly #later: Ways;
  #work = 0;

  constructor(pattern: string) {
    const start = this.#add(readPattern(pattern), this.#match);
    this.#letters = lettersOf(pattern, this.#atoms);
    this.#first = this.#reach(start, true);
    this.#later = this.#reach(start, false);
  }

  /** Follows all texts; if there are too many, only one whose characters match everything, which has more ways. */
  effort(maxLength: number): Effort {
    const letters = this.#letters.filter((one) => !this.#letters.some((other) => isLess(one, other)));
    const found = this.#explore(letters);
    if (found.isAll && found.most.steps <= maxSteps) return { steps: found.most.steps };
    const any = this.#explore([{ text: '', matches: this.#atoms.map(() => true) }]);
    if (any.isAll && any.most.steps <= maxSteps) return { steps: any.most.steps };
    const steps = this.#stepsWithin(maxLength, letters);
    if (steps < Infinity) return { steps, isWithin: true };
    return { steps, slow: this.#slowText(found.most, maxLength) };
  }

  /**
   * Follows all texts up to a length. Those after which the same nodes are compared are one text, which has the most ways
   * to each node.
   * @returns The number of steps for each character, at most; Infinity if a text takes too many.
   */
  #stepsWithin(maxLength: number, letters: readonly Letter[]): number {
    const states = [{ read: this.#first, start: 0 }];
    const known = new Map([[keyOf(this.#first), states[0]!]]);
    const moves: { start: number; later: Float64Array; additions: number[] }[] = [];
    let [size, work] = [this.#first.size, 0];
    for (const { read, start } of states) {
      for (const letter of letters) {
        const after = this.#read(read, letter);
        let state = known.get(keyOf(after));
        if (state === undefined) {
          known.set(keyOf(after), (state = { read: after, start: size }));
          states.push(state);
          size += after.size;
        }
        const nodes = [...state.read.keys()];
        const additions = [...read.keys()].flatMap((node, i) =>
          [...this.#from(node, letter)].flatMap(([next, times]) => [start + i, nodes.indexOf(next), times]),
        );
        const later = Float64Array.from(nodes, (node) => this.#later.get(node) ?? 0);
        moves.push({ start: state.start, later, additions });
        work += nodes.length + additions.length;
      }
      if (work * maxLength > maxWorkWithin) return Infinity;
    }
    const after = new Float64Array(this.#next.length);
    let total = 0;
    let ways = new Float64Array(size);
    ways.set([...this.#first.values()]);
    for (let length = 0; ; length++) {
      total += Math.max(...states.map(({ read, start }) => sum(ways.subarray(start, start + read.size))));
      if (total > maxStepsWithin) return Infinity;
      if (length >= maxLength) return total / (length + 1);
      const next = ways.slice();
      for (const { start, later, additions } of moves) {
        after.set(later);
        for (let i = 0; i < additions.length; i += 3)
          after[additions[i + 1]!]! += ways[additions[i]!]! * additions[i + 2]!;
        for (let i = 0; i < later.length; i++) if (after[i]! > next[start + i]!) next[start + i] = after[i]!;
      }
      ways = next;
    }
  }

  /** Follows texts, those with the most ways first, until one has too many ways, or there are no others. */
  #explore(letters: readonly Letter[]): { most: Followed; isAll: boolean } {
    this.#work = 0;
    let most: Followed = { ways: this.#first, steps: stepsOf(this.#first) };
    const known = new Map<string, Ways[]>();
    const open: Followed[][] = [];
    for (let before: Followed | undefined = most; before !== undefined; before = takeLast(open)) {
      if (before.steps > most.steps) most = before;
      if (most.steps > maxSteps || this.#work > maxWork) return { most, isAll: false };
      for (const letter of letters) {
        const ways = this.#read(before.ways, letter);
        const key = keyOf(ways);
        const others = known.get(key) ?? [];
        this.#work += others.length * ways.size;
        // Whatever follows has no more ways than after the other text.
        if (others.some((other) => isWithin(ways, other))) continue;
        known.set(key, [...others.filter((other) => !isWithin(other, ways)), ways]);
        const steps = stepsOf(ways);
        (open[Math.min(steps, maxSteps + 1)] ??= []).push({ ways, steps, letter, before });
      }
    }
    return { most, isAll: true };
  }

  #read(before: Ways, letter: Letter): Ways {
    const ways = new Map(this.#later);
    for (const [node, count] of before) {
      const after = this.#from(node, letter);
      this.#work += after.size;
      for (const [next, times] of after) ways.set(next, (ways.get(next) ?? 0) + count * times);
    }
    this.#work += before.size + ways.size;
    return ways;
  }

  /** The ways from a node to the next characters, if it matches a letter. */
  #from(node: number, { matches }: Letter): Ways {
    const atom = this.#atomOf[node];
    if (atom === undefined || !matches[atom]!) return none;
    let after = this.#after.get(node);
    if (after === undefined) this.#after.set(node, (after = this.#reach(this.#next[node]![0]!, false)));
    return after;
  }

  /** The ways from a node to the next characters. A repetition of nothing ends, as it does in the engine. */
  #reach(start: number, isStart: boolean): Ways {
    const ways = new Map<number, number>();
    /** The repetitions that have begun again, and matched nothing since. */
    const within = new Set<number>();
    let visited = 0;
    const visit = (node: number) => {
      if (within.has(node) || (this.#starts.has(node) && !isStart)) return;
      if (++visited > maxParts) throw new TooLarge();
      const next = this.#next[node]!;
      if (this.#atomOf[node] !== undefined || node === this.#match) {
        ways.set(node, (ways.get(node) ?? 0) + 1);
        return;
      }
      next.forEach((one, i) => {
        const isRepeating = i === 0 && this.#loops.has(node);
        if (isRepeating) within.add(node);
        visit(one);
        if (isRepeating) within.delete(node);
      });
    };
    visit(start);
    return ways;
  }

  /** Finds a text that takes long: it repeats a part of the given one, and ends so that the pattern does not match. */
  #slowText(followed: Followed, maxLength: number): SlowText | undefined {
    const read: Letter[] = [];
    for (let one = followed; one.letter !== undefined; one = one.before!) read.unshift(one.letter);
    // The first one is the simplest; with a maximum length, more steps count.
    const slack = maxLength < Infinity ? 1 / 20 : 1 / 4;
    // A first character that matches nothing keeps an anchored alternative from matching.
    for (const first of [[], ...this.#letters.map((letter) => [letter])]) {
      let best: Repeated | undefined;
      for (let start = 0; start < Math.min(read.length, 16); start++) {
        for (let length = 1; length <= Math.min(read.length - start, 20); length++) {
          const found = this.#repeat([...first, ...read.slice(0, start)], read.slice(start, start + length));
          if (found !== undefined && found.degree > (best?.degree ?? 0) + slack) best = found;
        }
      }
      if (best !== undefined) return this.#write(best, maxLength);
    }
    return undefined;
  }

  /** How fast the steps grow with the number of repetitions, unless the pattern matches or they do not grow. */
  #repeat(before: readonly Letter[], unit: readonly Letter[]): Repeated | undefined {
    this.#work = 0;
    let ways = this.#first;
    let [steps, times, half] = [0, 0, 0];
    for (const letter of before) {
      ways = this.#read(ways, letter);
      if (ways.has(this.#match)) return undefined;
    }
    for (; times < 40 && steps < endless && this.#work < maxWork / 200; times++) {
      for (const letter of unit) {
        ways = this.#read(ways, letter);
        if (ways.has(this.#match)) return undefined;
        steps += stepsOf(ways);
      }
      if (times === 20) half = stepsOf(ways);
    }
    const isEndless = steps >= endless;
    if (!isEndless && (half === 0 || stepsOf(ways) <= half)) return undefined;
    const end = this.#letters.reduce((a, b) =>
      this.#stepsAfter(ways, b) < this.#stepsAfter(ways, a) ? b : a,
    );
    const degree = isEndless ? Infinity : Math.log(steps) / Math.log(before.length + times * unit.length);
    return { before, unit, end, degree };
  }

  #write({ before, unit, end, degree }: Repeated, maxLength: number): SlowText {
    const isEndless = degree === Infinity;
    const length = Math.min(shownLength, maxLength - 1) - before.length;
    const count = Math.min(isEndless ? 100 : Infinity, Math.floor(length / unit.length));
    let [ways, steps] = [this.#first, 0];
    const counted = maxLength < Infinity ? before.length + count * unit.length : 0;
    for (let i = 0; i < counted && steps < endless; i++) {
      ways = this.#read(ways, before[i] ?? unit[(i - before.length) % unit.length]!);
      steps += stepsOf(ways);
    }
    const [first, repeated, last] = [before, unit, [end]].map((letters) =>
      JSON.stringify(letters.map(({ text }) => text).join('')),
    );
    const text = `${before.length > 0 ? `${first}, then ` : ''}${repeated} ${count} times, then ${last}`;
    return { text, steps, isEndless };
  }

  #stepsAfter(ways: Ways, letter: Letter): number {
    return stepsOf(this.#read(ways, letter));
  }

  /** Adds the nodes of a part before the node that follows it, and returns the first. */
  #add(part: PatternPart, next: number): number {
    switch (part.kind) {
      case 'atom':
        return this.#node([next], part.atom);
      case 'sequence':
        return part.parts.reduceRight((after, one) => this.#add(one, after), next);
      case 'choice':
        return this.#node(part.parts.map((one) => this.#add(one, next)));
      case 'look':
        // Where it begins, it is one way more; where it ends, that way is left.
        return this.#node([this.#add(part.part, this.#node([])), next]);
      case 'start':
        this.#starts.add(this.#node([next]));
        return this.#next.length - 1;
      case 'end':
        // No way of reading the next character goes on here.
        return this.#node([]);
      case 'repetition': {
        const { min, max } = part;
        let node = next;
        if (max === Infinity) {
          node = this.#node([next]);
          this.#loops.add(node);
          this.#next[node]!.unshift(this.#add(part.part, node));
        } else for (let i = min; i < max; i++) node = this.#node([this.#add(part.part, node), next]);
        for (let i = 0; i < min; i++) node = this.#add(part.part, node);
        return node;
      }
    }
  }

  #node(next: number[], atom?: string): number {
    if (atom !== undefined && !this.#atoms.includes(atom)) this.#atoms.push(atom);
    this.#atomOf.push(atom === undefined ? undefined : this.#atoms.indexOf(atom));
    return this.#next.push(next) - 1;
  }
}

function stepsOf(ways: Ways): number {
  return sum(ways.values());
}

function sum(counts: Iterable<number>): number {
  let total = 0;
  for (const count of counts) total += count;
  return total;
}

/** A text that is the same for ways to the same nodes. */
function keyOf(ways: Ways): string {
  return [...ways.keys()].sort((a, b) => a - b).join();
}

/** Whether one has no more ways than the other, by the same nodes. */
function isWithin(one: Ways, other: Ways): boolean {
  for (const [node, count] of one) if (count > other.get(node)!) return false;
  return true;
}

function takeLast(open: Followed[][]): Followed | undefined {
  while (open.length > 0) {
    const followed = open.at(-1)?.pop();
    if (followed !== undefined) return followed;
    open.pop();
  }
  return undefined;
}

/** Whether all atoms that a letter matches match another one too: then its ways are among those of the other. */
function isLess(one: Letter, other: Letter): boolean {
  return one !== other && one.matches.every((isMatch, atom) => !isMatch || other.matches[atom]!);
}

/** Letters for all characters, of which no two match the same atoms. */
function lettersOf(pattern: string, atoms: readonly string[]): Letter[] {
  const escapes = [...pattern.matchAll(/\\(?:u\{([\da-fA-F]+)\}|u([\da-fA-F]{4})|x([\da-fA-F]{2}))/gu)];
  const codes = [
    // Beyond ASCII, only these are in \s, and none in \d and \w.
    ...[0xa0, 0x1680, 0x2000, 0x2028, 0x202f, 0x205f, 0x3000, 0xfeff, 0xe4, 0x1f600],
    ...escapes.map(([, long, short, byte]) => parseInt(long ?? short ?? byte!, 16)),
    ...Array.from(pattern, (char) => char.codePointAt(0)!),
  ].flatMap((code) => [code, code - 1, code + 1]);
  const ascii = ['a', '0', 'A', '!', ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code))];
  const others = codes
    .filter((code) => code >= 128 && code < 0x110000)
    .map((code) => String.fromCodePoint(code));
  const tests = atoms.map((atom) => ({
    regExp: new RegExp(`^${atom}$`, 'u'),
    isProperty: /\\[pP]/.test(atom),
  }));
  const letters = new Map<string, Letter>();
  for (const text of [...ascii, ...others]) {
    // No table of the properties of Unicode: one character stands for those of all properties.
    const matches = tests.map(({ regExp, isProperty }) => (isProperty && text > '\x7f') || regExp.test(text));
    const key = matches.join();
    if (!letters.has(key)) letters.set(key, { text, matches });
  }
  return [...letters.values()];
}
