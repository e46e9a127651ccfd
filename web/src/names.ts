/** Names as people read them: IRIs as prefix:local, relations as words of a sentence. */
import type { Named } from "./api";

const W3 = "http://www.w3.org";
/** Prefixes that people know, by namespace without its scheme. */
const PREFIXES = new Map(
  Object.entries({
    rdf: `${W3}/1999/02/22-rdf-syntax-ns#`,
    rdfs: `${W3}/2000/01/rdf-schema#`,
    owl: `${W3}/2002/07/owl#`,
    xsd: `${W3}/2001/XMLSchema#`,
    skos: `${W3}/2004/02/skos/core#`,
    prov: `${W3}/ns/prov#`,
    foaf: "http://xmlns.com/foaf/0.1/",
    dc: "http://purl.org/dc/elements/1.1/",
    dcterms: "http://purl.org/dc/terms/",
    schema: "http://schema.org/",
    obo: "http://purl.obolibrary.org/obo/",
    wd: "http://www.wikidata.org/entity/",
    wdt: "http://www.wikidata.org/prop/direct/",
    dbr: "http://dbpedia.org/resource/",
    dbo: "http://dbpedia.org/ontology/",
    dbp: "http://dbpedia.org/property/",
    yago: "http://yago-knowledge.org/resource/",
    geonames: "http://sws.geonames.org/",
  }).map(([prefix, namespace]) => [withoutScheme(namespace), prefix]),
);
const IRI = /^<?((?:[a-z][a-z0-9+.-]*:\/\/|urn:)[^\s<>"]+)>?$/i;
/** Segments that say nothing about a namespace. */
const GENERIC = new Set(["id", "entity", "entities", "resource", "page", "wiki", "data", "item", "terms", "ns", "www"]);
const WORD = /^[a-z][a-z0-9_-]{0,15}$/i;

/** Prefixes in use, so that two namespaces never share one. */
const given = new Map<string, string>(PREFIXES);

function withoutScheme(iri: string): string {
  return iri.replace(/^[a-z][a-z0-9+.-]*:\/\//i, "");
}

/** An IRI as namespace and local part; null for other names. */
export function splitIri(name: string): { namespace: string; local: string } | null {
  const iri = IRI.exec(name)?.[1];
  if (iri === undefined) return null;
  const bare = iri.replace(/[/#]$/, "");
  const end = Math.max(bare.lastIndexOf("/"), bare.lastIndexOf("#"), /^urn:/i.test(bare) ? bare.lastIndexOf(":") : -1);
  const local = bare.slice(end + 1);
  const namespace = bare.slice(0, end + 1);
  return local === "" || namespace.endsWith("://") ? null : { namespace, local };
}

function prefixOf(namespace: string): string {
  const key = withoutScheme(namespace);
  const known = given.get(key);
  if (known !== undefined) return known;
  const segments = key.split(/[/#:]/).filter((segment) => segment !== "");
  const path = segments.slice(1).reverse();
  // The longest label of the host, without its top-level domain: example of www.example.org.
  const host = (segments[0] ?? "").split(".").slice(0, -1);
  const own = host.filter((label) => !GENERIC.has(label)).sort((a, b) => b.length - a.length)[0];
  const found = path.find((segment) => WORD.test(segment) && !GENERIC.has(segment.toLowerCase()));
  const base = (found ?? own ?? segments[0] ?? "ns").toLowerCase();
  const used = new Set(given.values());
  let prefix = base;
  for (let number = 2; used.has(prefix); number += 1) prefix = `${base}${number}`;
  given.set(key, prefix);
  return prefix;
}

/** A name, an IRI as prefix:local. */
export function shortName(name: string): string {
  const iri = splitIri(name);
  return iri === null ? name : `${prefixOf(iri.namespace)}:${decoded(iri.local)}`;
}

/** A type as words: time_zone as "time zone", an IRI as prefix:local. */
export function typeText(name: string): string {
  const short = shortName(name);
  return /^[\p{L}_]+$/u.test(short) ? short.replace(/_+/g, " ").trim() : short;
}

function decoded(local: string): string {
  try {
    return decodeURIComponent(local);
  } catch {
    return local;
  }
}

const LONGEST_NAME = 90;

/** The text shown for an entity; the middle of a very long name is omitted. */
export function entityText({ label }: Named): string {
  const text = shortName(label);
  // By characters, so that none is cut in two.
  const characters = Array.from(text);
  if (characters.length <= LONGEST_NAME) return text;
  return `${characters.slice(0, LONGEST_NAME - 20).join("")} … ${characters.slice(-17).join("")}`;
}

/** A relation as words: in_country, birthPlace and /people/person/birth_place as a person writes them. */
export function relationText({ label }: Named): string {
  const iri = splitIri(label);
  const local = iri === null ? label.replace(/^.*[/#]/, "").replace(/^[a-z]+:/i, "") : decoded(iri.local);
  const words = local
    .replace(/([a-z])([A-Z])(?=[a-z])/g, (_, end: string, start: string) => `${end} ${start.toLowerCase()}`)
    .replace(/[_\s]+/g, " ")
    .trim();
  return words === "" ? label : words;
}

const PREPOSITIONS = new Set("in on at of by to from with for near under within as".split(" "));
const AUXILIARIES = new Set("is has was are have had can does did".split(" "));
const PARTICIPLE = /(ed|en|ade|own)$/;
const LONGEST_WORD = 15;

/**
 * A relation as the verb of a sentence between head and tail: "is in country", "has capital". Null if its name is
 * not made of a few English words.
 */
export function predicateText(relation: Named): string | null {
  const text = relationText(relation);
  const words = text.split(" ");
  const [first, last] = [words[0] ?? "", words.at(-1) ?? ""];
  if (!/^[a-z ]+$/.test(text) || words.length > 5 || words.some((word) => word.length > LONGEST_WORD)) return null;
  if (AUXILIARIES.has(first) || /[a-z]{2}[^s]s$/.test(first)) return text;
  const isNoun = words.length === 2 && last === "of" && !PARTICIPLE.test(first);
  if (isNoun) return `is ${/^[aeiou]/.test(first) ? "an" : "a"} ${text}`;
  if (PREPOSITIONS.has(first) || PREPOSITIONS.has(last)) return `is ${text}`;
  if (words.length === 2 && PARTICIPLE.test(last)) return `has ${last} ${first}`;
  return `has ${text}`;
}
