// Subjects that belong to no caller, for documents of all of them.
import { isSubject } from '../storage/core/tokens.js';

/**
 * Returns the subject of documents that no caller owns, such as those that a public operation reads, or that callers
 * write under rules of the handlers. No credentials give this subject: it begins with a tab, which is not in the subject
 * of an access token; that of an identity provider's token begins with the issuer's URL, and that of a verifier with a
 * line break.
 * @param name - A constant of the service, of 1 to 255 characters without control characters. Other names give other
 *   subjects.
 * @throws TypeError if it cannot be a name.
 * @example
 * const posts = new Documents<string, Post>(collection(definition), { id: true, text: true });
 * const listPosts = () => posts.list(shared('posts'));
 */
export function shared(name: string): string {
  if (!isSubject(name))
    throw new TypeError('a shared subject has 1 to 255 characters and no control characters');
  return `\t${name}`;
}
