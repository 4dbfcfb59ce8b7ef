// Response bodies of media types other than JSON, which handlers return and the server sends as they are.

/** Text, bytes, or a stream of both, such as a Readable or an async generator; a stream is read as it is sent. */
export type RawBody = string | Uint8Array | AsyncIterable<string | Uint8Array>;

/** A body with its media type, for responses that declare several types. */
export class TypedBody<Type extends string = string, Body = RawBody> {
  /** The media type of the response. */
  readonly mediaType: Type;
  /** What is sent. */
  readonly body: Body;

  /**
   * @param mediaType - As the contract declares it, or a type in a range that it declares.
   * @param body - What is sent; of JSON, the value.
   */
  constructor(mediaType: Type, body: Body) {
    this.mediaType = mediaType;
    this.body = body;
  }
}
