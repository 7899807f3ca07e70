"use strict";
// Text is set as text, never as markup.
function el(name, facts, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(facts || {})) node[key] = value;
  node.append(...children.filter((one) => one !== null && one !== undefined));
  return node;
}

function resolve(doc, schema) {
  const ref = schema && schema.$ref;
  return ref ? doc.components.schemas[ref.split("/").pop()] : schema;
}

function kind(doc, schema) {
  if (!schema) return "";
  if (schema.$ref) {
    const found = resolve(doc, schema);
    return found.enum ? found.enum.map((one) => JSON.stringify(one)).join(" | ") : schema.$ref.split("/").pop();
  }
  if (schema.anyOf) return schema.anyOf.map((one) => kind(doc, one)).join(" | ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.type === "array") return "list of " + kind(doc, schema.items);
  return schema.format || schema.type || "any JSON";
}

function limits(schema) {
  const names = ["minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "maxItems", "pattern", "default"];
  return names.filter((name) => schema[name] !== undefined && schema[name] !== null)
    .map((name) => name + " " + JSON.stringify(schema[name])).join(", ");
}

function row(doc, name, schema, required, words) {
  return el("tr", {},
    el("td", {}, el("code", { textContent: name + (required ? " *" : "") })),
    el("td", {}, el("code", { textContent: kind(doc, schema) })),
    el("td", { textContent: [words || schema.description, limits(schema)].filter(Boolean).join(" · ") }));
}

function fields(doc, schema) {
  const found = resolve(doc, schema);
  if (!found || !found.properties) return el("p", {}, el("code", { textContent: kind(doc, schema) }));
  const required = found.required || [];
  return el("table", {}, ...Object.entries(found.properties).map(
    ([name, one]) => row(doc, name, one, required.includes(name))));
}

function operation(doc, path, method, it) {
  const body = el("div", {});
  if (it.description) body.append(el("p", { textContent: it.description }));
  if (it["x-required-scope"]) body.append(el("p", { className: "note", textContent: "needs the scope " + it["x-required-scope"] }));
  if (it.parameters) {
    body.append(el("h3", { textContent: "Parameters" }), el("table", {}, ...it.parameters.map(
      (one) => row(doc, one.name, one.schema, one.required, [one.in, one.description].filter(Boolean).join(": ")))));
  }
  if (it.requestBody) {
    body.append(el("h3", { textContent: "Body" }), fields(doc, it.requestBody.content["application/json"].schema));
  }
  for (const [status, answer] of Object.entries(it.responses)) {
    body.append(el("h3", { textContent: status + " " + answer.description }));
    const content = Object.entries(answer.content || {})[0];
    if (content && content[0] === "application/json") body.append(fields(doc, content[1].schema));
  }
  return el("details", { id: it.operationId },
    el("summary", {},
      el("span", { className: "method", textContent: method.toUpperCase() }),
      el("code", { className: "path", textContent: path }),
      el("span", { className: "note", textContent: it.summary })),
    body);
}

async function show() {
  const page = document.getElementById("page");
  const doc = await (await fetch("openapi.json")).json();
  const nodes = [
    el("h1", { textContent: doc.info.title + " " + doc.info.version }),
    el("p", { className: "note", textContent: doc.info.description + " The document: " },
      el("a", { href: "openapi.json", textContent: "openapi.json" })),
  ];
  for (const tag of doc.tags) {
    nodes.push(el("h2", { textContent: tag.name }), el("p", { className: "note", textContent: tag.description }));
    for (const [path, methods] of Object.entries(doc.paths))
      for (const [method, it] of Object.entries(methods))
        if (it.tags.includes(tag.name)) nodes.push(operation(doc, path, method, it));
  }
  page.replaceChildren(...nodes);
}

show().catch((error) => { document.getElementById("page").textContent = "Cannot show the document: " + error; });
