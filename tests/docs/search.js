// Print the pages that the search of built docs finds for each query, best first, as JSON:
//   node search.js FOLDER QUERY...
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, ...queries] = process.argv.slice(2);
const nothing = () => null;
const scope = vm.createContext({
  URLSearchParams,
  DOCUMENTATION_OPTIONS: { FILE_SUFFIX: ".html", LINK_SUFFIX: ".html", BUILDER: "html" },
  SPHINX_HIGHLIGHT_ENABLED: false,
  document: { getElementById: nothing, querySelector: nothing, addEventListener: nothing },
  localStorage: { setItem: nothing, removeItem: nothing },
  _: (words) => words,
  _ready: nothing,
  queries,
});
scope.window = scope;
for (const name of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"]) {
  vm.runInContext(fs.readFileSync(path.join(folder, name), "utf8"), scope);
}
// The last result is the best one, and its first item is the name of the page.
const script = `queries.map((query) => [
  query, Search._performSearch(...Search._parseQuery(query)).map((found) => found[0]).reverse(),
])`;
console.log(JSON.stringify(Object.fromEntries(vm.runInContext(script, scope))));
