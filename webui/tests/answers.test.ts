import { expect, expectTypeOf, test } from "vitest";
import type { Answer } from "../src/api/answers";
import type { get, post } from "../src/api/client";
import type { components } from "../src/api/schema";

type Schemas = components["schemas"];

test("a path has the answer of the OpenAPI document", () => {
  expectTypeOf<Answer<"get", "/v1/jobs/window">>().toEqualTypeOf<Schemas["Window"]>();
  expectTypeOf<Answer<"get", `/v1/jobs/${number}`>>().toEqualTypeOf<Schemas["OneJob"]>();
  expectTypeOf<Answer<"get", `/v1/jobs/${number}/log/lines`>>().toEqualTypeOf<Schemas["LogLines"]>();
  expectTypeOf<Answer<"post", "/v1/pause" | "/v1/resume">>().toEqualTypeOf<Schemas["PausedNotes"]>();
});

test("what the document does not have does not compile", () => {
  const unused = (asks: { get: typeof get; post: typeof post }) => {
    // @ts-expect-error: there is no such route
    void asks.get("/v1/nosuch");
    // @ts-expect-error: the route has another method
    void asks.get("/v1/pause");
    // @ts-expect-error: a job has no such part
    void asks.get(`/v1/jobs/${42}/nosuch`);
    void asks.get(`/v1/jobs/${42}/submission`);
  };
  expect(unused).toBeTypeOf("function");
});
