// Reads an OpenAPI document: its operations, and schemas as lists of fields.

const METHODS = ["get", "post", "put", "patch", "delete"];
const MAX_DEPTH = 6;  // of fields in fields

export class OpenApi {
  constructor(document) {
    this.document = document;
  }

  resolve(node) {
    let found = node;
    for (let hops = 0; found?.$ref && hops < 10; hops++)
      found = found.$ref.slice(2).split("/").reduce((at, name) => at?.[name], this.document);
    return found || {};
  }

  // [{tag: {name, description}, operations: [{method, path, id, ...}]}]: every operation once, under its first tag.
  groups() {
    const groups = (this.document.tags || []).map((tag) => ({tag, operations: []}));
    const other = {tag: {name: "Other", description: ""}, operations: []};
    for (const [path, methods] of Object.entries(this.document.paths))
      for (const method of METHODS.filter((name) => methods[name])) {
        const what = methods[method];
        const group = groups.find((one) => one.tag.name === what.tags?.[0]) || other;
        group.operations.push({...what, method, path, id: what.operationId || `${method}_${path.replace(/\W+/g, "_")}`,
          parameters: (what.parameters || []).map((one) => this.resolve(one))});
      }
    return [...groups, other].filter((group) => group.operations.length);
  }

  bodySchema(operation) {
    return this.resolve(operation.requestBody).content?.["application/json"]?.schema ?? null;
  }

  // [{status, description, types: [...], schema or null}], successes first.
  answers(operation) {
    return Object.entries(operation.responses).map(([status, node]) => {
      const response = this.resolve(node), content = Object.entries(response.content || {});
      return {status, description: response.description || "", types: content.map(([type]) => type),
        schema: content.find(([, one]) => one.schema)?.[1].schema ?? null};
    });
  }

  // A schema together with those it is made of.
  merged(schema) {
    const whole = this.resolve(schema);
    const parts = (whole.allOf || []).map((part) => this.merged(part));
    return {...whole, properties: Object.assign({}, ...parts.map((part) => part.properties), whole.properties),
      required: [...parts.flatMap((part) => part.required), ...(whole.required || [])]};
  }

  typeOf(schema) {
    const whole = this.resolve(schema);
    if ("const" in whole) return JSON.stringify(whole.const);
    if (whole.enum) return whole.enum.map((value) => JSON.stringify(value)).join(" or ");
    const choices = whole.anyOf || whole.oneOf;
    if (choices) return [...new Set(choices.map((one) => this.typeOf(one)))].join(" or ");
    if (whole.type === "array" && whole.items) return `array of ${this.typeOf(whole.items)}`;
    const types = [].concat(whole.type || (whole.properties || whole.allOf ? "object" : "any"));
    return types.join(" or ");
  }

  limitsOf(schema) {
    const {minimum, maximum, minLength, maxLength, maxItems} = this.resolve(schema);
    if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
    if (minimum !== undefined) return `at least ${minimum}`;
    if (maximum !== undefined) return `at most ${maximum}`;
    if (maxLength !== undefined) return `at most ${maxLength} characters`;
    if (maxItems !== undefined) return `at most ${maxItems}`;
    return minLength === 1 ? "not empty" : "";
  }

  // [{name, type, limits, required, description, fallback, fields}]. seen: schemas that these are inside of, which are not shown again.
  fields(schema, seen = []) {
    let whole = this.merged(schema);
    if (whole.type === "array" && whole.items) whole = this.merged(whole.items);
    const inside = [...seen, this.resolve(schema)];
    const own = Object.entries(whole.properties).map(([name, node]) => {
      const field = this.resolve(node);
      const deeper = inside.length <= MAX_DEPTH && !inside.includes(field) && !inside.includes(this.resolve(field.items));
      return {name, type: this.typeOf(field), limits: this.limitsOf(field), required: whole.required.includes(name),
        description: field.description || "", fallback: field.default, fields: deeper ? this.fields(field, inside) : []};
    });
    const choices = (whole.anyOf || whole.oneOf || []).map((one) => this.resolve(one));
    if (own.length || inside.length > MAX_DEPTH) return own;
    const known = new Set();
    return choices.filter((one) => !inside.includes(one)).flatMap((one) => this.fields(one, inside))
      .filter((field) => !known.has(field.name) && known.add(field.name));
  }
}
