/** The answer of a path, by the OpenAPI document: a request for anything else does not compile. */

import type { paths } from "./schema";

type Method = "get" | "post";
/** The paths of the document that have a method; the others are files of the page. */
type Known<M extends Method> = {
  [P in keyof paths]: P extends `/v1/${string}` ? (paths[P] extends Record<M, object> ? P : never) : never;
}[keyof paths];
type Json<T> = T extends { responses: { 200: { content: { "application/json": infer A } } } } ? A : unknown;

/** The parts of a path between its slashes. */
type Parts<P extends string> = P extends `${infer First}/${infer Rest}` ? [First, ...Parts<Rest>] : [P];
/** Whether the parts of a request fit those of a described path; `{name}` fits any part. */
type Fits<Q, P> = Q extends [infer First, ...infer Rest]
  ? P extends [infer Known, ...infer Others]
    ? Known extends `{${string}}`
      ? Fits<Rest, Others>
      : First extends Known
        ? Fits<Rest, Others>
        : false
    : false
  : P extends []
    ? true
    : false;
type Described<M extends Method, Q extends string> =
  Q extends Known<M> ? Q : { [P in Known<M>]: Fits<Parts<Q>, Parts<P>> extends true ? P : never }[Known<M>];

/** The type of the answer to a request. */
export type Answer<M extends Method, Q extends string> =
  Described<M, Q> extends infer P extends Known<M> ? (paths[P] extends Record<M, infer O> ? Json<O> : never) : never;

/** A path that the document has, or never. */
export type Asked<M extends Method, Q extends string> = [Described<M, Q>] extends [never] ? never : Q;
