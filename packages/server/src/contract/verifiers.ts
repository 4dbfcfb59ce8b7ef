// Derives the verifiers' types from a contract's generated types, so that one that is missing or unknown does not compile.

/** The caller that a credential identifies, and the scopes that it grants. */
export interface Verified {
  /**
   * Identifies the caller within the scheme: 1 to 255 characters, none of them a control character. For handlers
   * and in the store, the server puts the name of the scheme before it, so that callers of different schemes differ.
   */
  readonly subject: string;
  /** The scopes of the service that it grants, none by default; others are ignored. */
  readonly scopes?: readonly string[] | undefined;
  /** When it expires, in milliseconds since the epoch; undefined if it does not. */
  readonly expiresAt?: number | undefined;
}

/** A user name and password (RFC 7617). */
export interface BasicCredential {
  /** Without a colon, which separates it from the password. */
  readonly username: string;
  /** As it was sent, in UTF-8. */
  readonly password: string;
}

/** The kind of a security scheme: its type, or for `http` its scheme if that is `basic` or `bearer`. */
export type SchemeKind = 'apiKey' | 'basic' | 'bearer' | 'http' | 'oauth2' | 'openIdConnect';

/**
 * Verifies a credential of a security scheme: the user name and password of `basic`; the key of `apiKey`; the bearer
 * token of `bearer`, `oauth2` and `openIdConnect`; what follows the name of another scheme in the header Authorization.
 * Neither is empty. What it returns is used for up to three seconds.
 * @param signal - Aborts when the server no longer waits, after five seconds.
 * @returns Undefined if the credential is not valid; the response is 401. Whatever it throws, the response is 503.
 */
export type Verify<Kind extends SchemeKind> = (
  credential: Kind extends 'basic' ? BasicCredential : string,
  signal: AbortSignal,
) => Promise<Verified | undefined> | Verified | undefined;

/**
 * The verifier of access tokens that is built in. An API key may have a prefix before the token, in any case: with
 * `{ builtIn: { prefix: 'Token ' } }`, the header of the key `Authorization` is `Authorization: Token ACCESS_TOKEN`.
 */
export type BuiltIn<Kind extends SchemeKind> = Kind extends 'basic'
  ? never
  : 'built-in' | (Kind extends 'apiKey' ? { readonly builtIn: { readonly prefix: string } } : never);

type KindOf<Schemes, Name extends keyof Schemes> = NonNullable<Schemes[Name]> & SchemeKind;
type BearerOf<Schemes> = {
  [Name in keyof Schemes]-?: KindOf<Schemes, Name> extends 'bearer' ? Name : never;
}[keyof Schemes];
type OnlyOf<Names, All = Names> = Names extends unknown ? ([All] extends [Names] ? Names : never) : never;

type VerifiersOf<Schemes> = {
  readonly [Name in keyof Schemes]: Verify<KindOf<Schemes, Name>> | BuiltIn<KindOf<Schemes, Name>>;
};

/**
 * The verifiers of a contract's security schemes, by their names. The built-in one serves the only scheme of type `http`
 * and scheme `bearer`, unless another one is given; otherwise, write `built-in` for the one that it is to serve.
 * @typeParam Schemes - `securitySchemes` of the contract's generated types.
 */
export type Verifiers<Schemes> = Omit<VerifiersOf<Schemes>, OnlyOf<BearerOf<Schemes>>> &
  Partial<Pick<VerifiersOf<Schemes>, OnlyOf<BearerOf<Schemes>>>>;

/** The verifiers of any contract. */
export type AnyVerifiers = Readonly<Partial<Record<string, Verify<never> | BuiltIn<'apiKey'>>>>;
