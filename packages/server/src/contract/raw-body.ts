// Bodies of media types other than JSON: responses that the server sends unchanged, and files that clients upload.

/** Text, bytes, or a stream of both, such as a Readable or an async generator; a stream is read as it is sent. */
export type RawBody = string | Uint8Array | AsyncIterable<string | Uint8Array>;

/** A body with its media type, for responses that declare several types. */
export class TypedBody<Type extends string = string, Body = RawBody> {
  /** As the contract declares it, or a type in a range that it declares. */
  readonly mediaType: Type;
  /** The content; of JSON, the value. */
  readonly body: Body;

  constructor(mediaType: Type, body: Body) {
    this.mediaType = mediaType;
    this.body = body;
  }
}

/** A file in a form (multipart/form-data). */
export class UploadedFile {
  /** The content. */
  readonly bytes: Uint8Array;
  /** The media type that the client names, or `application/octet-stream`. The content may be something else. */
  readonly mediaType: string;
  /** The name that the client gives it, without folders. Never use it as a path: names may be equal, or reserved. */
  readonly filename: string | undefined;

  constructor(bytes: Uint8Array, mediaType = 'application/octet-stream', filename?: string) {
    this.bytes = bytes;
    this.mediaType = mediaType;
    this.filename = filename;
  }
}
