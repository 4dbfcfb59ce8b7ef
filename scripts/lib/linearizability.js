// Checks that the operations on one register took effect one after the other: a search for linearizations (Wing and
// Gong), which follows the responses in their order and remembers what it has seen (Lowe, "Testing for linearizability").

/**
 * What a register does; the act `read` changes nothing. A state and an outcome are texts; null is the state of a document
 * that does not exist.
 * @template {{ act: string }} Operation
 * @typedef {(state: State, operation: Operation) => { outcome: string, state: State }} Apply
 */
/** @typedef {string | null} State */

/**
 * A request on its way, or one whose outcome nobody knows.
 * @template {{ act: string }} Operation
 * @typedef {{ number: number, operation: Operation, outcome: string | undefined }} Request
 */

/**
 * What the responses so far permit: the state, and the requests that may still take effect.
 * @template {{ act: string }} Operation
 * @typedef {{ state: State, left: ReadonlySet<Request<Operation>> }} Possibility
 */

/** An event of a history. @template {{ act: string }} Operation @typedef {{ begins: boolean, request: Request<Operation> }} Event */

/**
 * The history of a register. Requests overlap as they like; one without a known outcome may have taken effect, or may do
 * so at any later time. What is settled is forgotten, but for the possibilities that it leaves.
 * @template {{ act: string }} Operation
 */
export class Register {
  /** What was wrong, if the responses contradict each other. @type {string | undefined} */
  fault;
  #apply;
  /** @type {Possibility<Operation>[]} */
  #possible;
  /** The events since no request was on its way. @type {Event<Operation>[]} */
  #events = [];
  #onTheirWay = 0;
  /** The number of requests that have ended since then without a known outcome. */
  #unknown = 0;
  #begun = 0;

  /** @param {Apply<Operation>} apply @param {State} state - The first one. */
  constructor(apply, state) {
    this.#apply = apply;
    this.#possible = [{ state, left: new Set() }];
  }

  /** A request begins. @param {Operation} operation @returns {Request<Operation>} */
  begin(operation) {
    /** @type {Request<Operation>} */
    const request = { number: this.#begun++, operation, outcome: undefined };
    this.#events.push({ begins: true, request });
    this.#onTheirWay++;
    return request;
  }

  /**
   * A request has ended.
   * @param {Request<Operation>} request
   * @param {string | undefined} outcome - Undefined if it is unknown.
   */
  end(request, outcome) {
    request.outcome = outcome;
    if (outcome !== undefined) this.#events.push({ begins: false, request });
    else this.#unknown++;
    this.#settle();
  }

  /** A request has ended that certainly had no effect. @param {Request<Operation>} request */
  withdraw(request) {
    this.#events = this.#events.filter((event) => event.request !== request);
    this.#settle();
  }

  /** Whether a request that begins and ends now could have an outcome. @param {Operation} operation @param {string} outcome */
  permits(operation, outcome) {
    /** @type {Request<Operation>} */
    const request = { number: this.#begun, operation, outcome };
    const events = [...this.#events, { begins: true, request }, { begins: false, request }];
    return this.#follow(events).failed === undefined;
  }

  /** The state, if it is certain. @returns {State | undefined} */
  get state() {
    const [first, ...others] = this.#possible;
    const isCertain = others.length === 0 && first?.left.size === 0 && this.#onTheirWay === 0;
    return isCertain ? first.state : undefined;
  }

  /** The number of requests that may still take effect, though nobody waits for them. */
  get unsettled() {
    return this.#unknown + Math.max(0, ...this.#possible.map(({ left }) => left.size));
  }

  #settle() {
    this.#onTheirWay--;
    if (this.#onTheirWay > 0 || this.fault !== undefined) return;
    const { possible, failed } = this.#follow(this.#events);
    if (failed !== undefined) this.fault = this.#explain(failed);
    this.#possible = possible;
    this.#events = [];
    this.#unknown = 0;
  }

  /** @param {Request<Operation>} failed */
  #explain(failed) {
    const events = this.#events.map(
      ({ begins, request }) => `${begins ? 'begins' : 'ends'} ${textOf(request)}`,
    );
    const known = this.#possible.map(
      ({ state, left }) => `${state}${left.size > 0 ? ` and ${left.size} open` : ''}`,
    );
    return `no order explains ${textOf(failed)}; before it: ${known.join(' or ')}; then: ${events.join('; ')}`;
  }

  /**
   * Follows events in their order.
   * @param {readonly Event<Operation>[]} events
   * @returns {{ possible: Possibility<Operation>[], failed?: Request<Operation> }} What is possible afterwards, and the
   *   request whose response no order explains.
   */
  #follow(events) {
    let possible = this.#possible;
    for (const { begins, request } of events) {
      possible = begins
        ? possible.map(({ state, left }) => this.#withoutReads(state, new Set([...left, request])))
        : this.#ordersUntil(possible, request);
      if (possible.length === 0) return { possible, failed: request };
    }
    return { possible };
  }

  /**
   * All that is possible once a request has taken effect, after any of the others.
   * @param {readonly Possibility<Operation>[]} before
   * @param {Request<Operation>} request
   */
  #ordersUntil(before, request) {
    const found = new Map(before.map((one) => [keyOf(one), one]));
    // This visits what it adds, too.
    for (const one of found.values())
      if (one.left.has(request)) for (const next of this.#successors(one)) found.set(keyOf(next), next);
    return [...found.values()].filter(({ left }) => !left.has(request));
  }

  /** What is possible after one more request. @param {Possibility<Operation>} from */
  #successors({ state, left }) {
    return [...left].flatMap((request) => {
      const next = this.#apply(state, request.operation);
      const fits = request.outcome === undefined ? next.state !== state : next.outcome === request.outcome;
      if (!fits) return [];
      const others = new Set(left);
      others.delete(request);
      return this.#withoutReads(next.state, others);
    });
  }

  /**
   * Takes out the reads that fit: for what follows, it does not matter when they took place.
   * @param {State} state
   * @param {ReadonlySet<Request<Operation>>} left
   */
  #withoutReads(state, left) {
    const fits = (/** @type {Request<Operation>} */ { operation, outcome }) =>
      operation.act === 'read' && this.#apply(state, operation).outcome === outcome;
    return { state, left: new Set([...left].filter((request) => !fits(request))) };
  }
}

/** @param {Request<{ act: string }>} request */
function textOf({ operation, outcome }) {
  return `${JSON.stringify(operation)} → ${outcome ?? 'unknown'}`;
}

/** Returns a text that distinguishes possibilities. @param {Possibility<{ act: string }>} possibility */
function keyOf({ state, left }) {
  return `${[...left].map(({ number }) => number).join()} ${state}`;
}
