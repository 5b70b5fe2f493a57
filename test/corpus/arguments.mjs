// Makes arguments for verbs by a generator of JSON Schema that is not ours, and has another
// validator accept them. It reads a list of {name, schema} from the standard input. It writes a
// list of {name, args}: at most two objects each, one with the required members only and one with
// optional ones too. What the generator cannot make, or makes wrong, is left out.
import { readFileSync } from "node:fs";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { define, generateSync } from "json-schema-faker";

// No text is empty, because prism takes an empty parameter for a missing one.
const always = { maxDepth: 6, minLength: 1 };
const settings = [
  { ...always, seed: 7, maxDefaultItems: 2, optionalsProbability: 0 },
  { ...always, seed: 11, maxDefaultItems: 2, optionalsProbability: 0.5 },
  { ...always, seed: 13, maxDefaultItems: 1, optionalsProbability: 0.15 },
];

// The generator does not know the encoding, and the validator does not check it.
define("contentEncoding", (encoding) => (encoding === "base64" ? "Y29ycHVz" : encoding));

function accepts(schema) {
  try {
    const ajv = new Ajv({ strict: false, logger: false, validateFormats: true });
    addFormats(ajv);
    return ajv.compile(schema);
  } catch {
    return () => false;
  }
}

function argumentsOf(schema) {
  const valid = accepts(schema);
  const made = new Map();
  for (const setting of settings) {
    try {
      const value = generateSync(schema, setting);
      if (valid(value)) made.set(JSON.stringify(value), value);
    } catch {
      // Counted by the test: the verb has fewer arguments.
    }
  }
  return [...made.values()].slice(0, 2);
}

const asked = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(asked.map(({ name, schema }) => ({ name, args: argumentsOf(schema) }))));
