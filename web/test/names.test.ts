import assert from "node:assert/strict";
import { test } from "node:test";
import { entityText, predicateText, relationText, shortName, splitIri, typeText } from "../src/names";

const named = (label: string): { id: string; label: string } => ({ id: label, label });

test("known namespaces have their usual prefix", () => {
  assert.equal(shortName("http://www.wikidata.org/entity/Q90"), "wd:Q90");
  assert.equal(shortName("https://schema.org/Person"), "schema:Person");
  assert.equal(shortName("<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"), "rdf:type");
  assert.equal(shortName("http://dbpedia.org/resource/Caf%C3%A9"), "dbr:Café");
});

test("other namespaces get a prefix of their own", () => {
  assert.equal(shortName("http://example.org/vocab/geo#Lyon"), "geo:Lyon");
  assert.equal(shortName("http://other.example.com/x/geo#Lyon"), "geo2:Lyon");
  assert.equal(shortName("http://example.org/vocab/geo#Paris"), "geo:Paris");
  assert.equal(shortName("http://www.acme-data.org/id/17"), "acme-data:17");
  assert.equal(shortName("http://example.net/things/"), "example:things");
  assert.equal(shortName("urn:fivestar:entity:New%20York"), "fivestar:New York");
});

test("other names stay as they are", () => {
  for (const name of ["Lyon", "America/Argentina/Cordoba", "a:b", "http://", "50% http://x y", "قاهرة"])
    assert.equal(shortName(name), name);
  assert.equal(splitIri("http://example.org"), null);
  assert.equal(shortName("http://example.net/%E0%A4%A"), "example:%E0%A4%A");
});

test("relations read as words", () => {
  assert.equal(relationText(named("in_country")), "in country");
  assert.equal(relationText(named("http://dbpedia.org/ontology/birthPlace")), "birth place");
  assert.equal(relationText(named("/people/person/place_of_birth")), "place of birth");
  assert.equal(relationText(named("_hypernym")), "hypernym");
  assert.equal(relationText(named("concept:agentcontrols")), "agentcontrols");
  assert.equal(relationText(named("___")), "___");
});

test("relations read as verbs where their names are English words", () => {
  const verb = (label: string): string | null => predicateText(named(label));
  assert.equal(verb("in_country"), "is in country");
  assert.equal(verb("neighbour_of"), "is a neighbour of");
  assert.equal(verb("instance_of"), "is an instance of");
  assert.equal(verb("made_of"), "is made of");
  assert.equal(verb("born_in"), "is born in");
  assert.equal(verb("has_capital"), "has capital");
  assert.equal(verb("uses_currency"), "uses currency");
  assert.equal(verb("language_spoken"), "has spoken language");
  assert.equal(verb("birthPlace"), "has birth place");
  assert.equal(verb("depends_on"), "depends on");
  assert.equal(verb("http://www.wikidata.org/prop/direct/P31"), null);
  assert.equal(verb("concept:athleteplaysforteam"), null);
});

test("the middle of a very long name is omitted", () => {
  assert.equal(entityText(named("x".repeat(90))), "x".repeat(90));
  assert.equal(entityText(named(`${"😀".repeat(100)}end`)), `${"😀".repeat(70)} … ${"😀".repeat(14)}end`);
});

test("types read as words where their names are words", () => {
  assert.equal(typeText("time_zone"), "time zone");
  assert.equal(typeText("Ort"), "Ort");
  assert.equal(typeText("/film/film_cut"), "/film/film_cut");
  assert.equal(typeText("http://dbpedia.org/ontology/Place"), "dbo:Place");
});
