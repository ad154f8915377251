"""JSON schemas by a seed, of the kinds that clients send: objects in objects, references (also to themselves),
enumerations, constants, alternatives, bounds, patterns, formats, maps, tuples, and names in several scripts."""

import random

NAMES = ["name", "age", "city", "id", "tags", "price", "email", "größe", "名前", "цена", "is_active", "a-b", "with space",
         'quo"te', "back\\slash", "emoji_😀", "items", "status", "x", "y", "$ref_like", "kind", "note"]
WORDS = ["red", "green", "blue", "low", "high", "café", "東京", "naïve", "a \"quoted\" word", "tab\there", "", "ß", "done"]
PATTERNS = [r"^[A-Z]{2}-[0-9]{3}$", r"^[a-z]+$", r"^\d{4}-\d{2}$", r"^(yes|no|maybe)$", r"^[^,;]{1,12}$", r"^#[0-9a-fA-F]{6}$",
            r"^\w+@\w+\.(com|org)$", r"[0-9]", r"^(\+\d{1,3} )?\d{3} \d{4}$", r"^[a-zäöü ]{2,10}$", r'^"[^"]*"$', r"^\S+$"]
FORMATS = ["date", "time", "date-time", "email", "uuid", "ipv4", "uri", "hostname"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.defs = {}

    def one(self, list_):
        return self.random.choice(list_)

    def chance(self, p):
        return self.random.random() < p

    def names(self, least, most):
        return self.random.sample(NAMES, self.random.randint(least, most))

    def string(self):
        kind = self.random.randrange(8)
        if kind == 0:
            return {"type": "string", "pattern": self.one(PATTERNS)}
        if kind == 1:
            return {"type": "string", "format": self.one(FORMATS)}
        if kind == 2:
            low = self.random.randint(0, 5)
            return {"type": "string", "minLength": low, "maxLength": low + self.random.randint(0, 40)}
        if kind == 3:
            return {"type": "string", "maxLength": self.random.randint(1, 60)}
        if kind == 4:
            return {"type": "string", "minLength": 1, "description": "not empty"}
        return {"type": "string"}

    def number(self):
        kind = self.random.randrange(8)
        low = self.random.randint(-200, 200)
        high = low + self.random.randint(0, 500)
        if kind == 0:
            return {"type": "integer", "minimum": low, "maximum": high}
        if kind == 1:
            return {"type": "number", "minimum": low / 8, "exclusiveMaximum": high / 8 + 0.5}
        if kind == 2:
            return {"type": "integer", "exclusiveMinimum": low}
        if kind == 3:
            return {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
        if kind == 4:
            return {"type": "integer", "maximum": high, "multipleOf": 1}
        if kind == 5:
            return {"type": "integer", "minimum": 0, "maximum": 300, "multipleOf": self.one([3, 7, 25])}
        return {"type": self.one(["integer", "number"])}

    def enumeration(self):
        kind = self.random.randrange(4)
        if kind == 0:
            return {"enum": self.random.sample(WORDS, 4)}
        if kind == 1:
            return {"const": self.one([None, True, 7, -1.5, "constant", ["a", 1], {"k": [None]}])}
        if kind == 2:
            return {"type": "string", "enum": self.random.sample(WORDS, 3)}
        return {"enum": [1, 2.5, "three", None, False]}

    def array(self, depth):
        kind = self.random.randrange(5)
        if kind == 0:
            return {"type": "array", "prefixItems": [self.schema(depth + 1) for _ in range(3)], "items": False, "minItems": 2}
        schema = {"type": "array", "items": self.schema(depth + 1)}
        if kind in (1, 2):
            schema["maxItems"] = self.random.randint(1, 5)
        if kind in (2, 3):
            schema["minItems"] = self.random.randint(0, schema.get("maxItems", 3))
        return schema

    def object(self, depth):
        if self.chance(0.12):
            return {"type": "object", "additionalProperties": self.schema(depth + 2), "minProperties": self.one([0, 1]),
                    "maxProperties": 4}
        if self.chance(0.06):
            return {"type": "object", "patternProperties": {"^[a-z]{1,6}$": self.schema(depth + 2)},
                    "additionalProperties": False, "maxProperties": 3}
        names = self.names(1, 5 if depth else 6)
        schema = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
        required = [name for name in names if self.chance(0.7)]
        self.random.shuffle(required)
        if required or self.chance(0.5):
            schema["required"] = required
        kind = self.random.randrange(5)
        if kind <= 2:
            schema["additionalProperties"] = False
        elif kind == 3:
            schema["additionalProperties"] = self.one([True, {"type": "integer"}, {"type": "string", "maxLength": 8}])
            schema["maxProperties"] = len(names) + 2
        if kind == 0 and len(names) > 1:
            schema["minProperties"] = len(required) + (1 if len(required) < len(names) else 0)
        return schema

    def alternatives(self, depth):
        kind = self.random.randrange(5)
        if kind == 0:
            return {"anyOf": [self.schema(depth + 1), {"type": "null"}]}
        if kind == 1:
            return {"type": self.one([["string", "null"], ["integer", "string"], ["boolean", "number", "null"]])}
        if kind == 2:
            return {"oneOf": [{"type": "object", "properties": {"kind": {"const": kind_}, "value": self.schema(depth + 2)},
                               "required": ["kind", "value"], "additionalProperties": False} for kind_ in ("a", "b", "c")]}
        if kind == 3:
            return {"allOf": [{"type": "object", "properties": {"x": self.number()}, "required": ["x"]},
                              {"properties": {"y": self.schema(depth + 1)}, "required": ["y"]}]}
        return {"anyOf": [self.schema(depth + 1), self.schema(depth + 1)]}

    def reference(self, depth):
        if self.chance(0.5):
            name = self.one(["tree", "Linked List", "node/part"])
            pointer = "#/$defs/" + name.replace("/", "~1").replace(" ", "%20")
            if name not in self.defs:
                self.defs[name] = {"type": "object", "properties": {
                    "value": self.one([{"type": "integer"}, {"type": "string", "maxLength": 10}]),
                    "next": {"anyOf": [{"$ref": pointer}, {"type": "null"}]},
                    "children": {"type": "array", "items": {"$ref": pointer}, "maxItems": 2}},
                    "required": ["value", "next"], "additionalProperties": False}
            return {"$ref": pointer}
        name = f"d{len(self.defs)}"
        self.defs[name] = {"type": "null"}
        self.defs[name] = self.schema(depth + 1)
        return {"$ref": "#/$defs/" + name}

    def schema(self, depth=0):
        if depth >= 4:
            return self.one([self.string, self.number, self.enumeration, lambda: {"type": "boolean"}])()
        kind = self.random.choices(
            ["string", "number", "enum", "boolean", "array", "object", "alternatives", "reference", "any"],
            [3, 3, 2, 1, 2, 3, 1.5, 1, 0.2])[0]
        if depth == 0 and kind in ("string", "number", "enum", "boolean", "any"):
            kind = "object"
        if kind == "boolean":
            return {"type": "boolean"}
        if kind == "any":
            return {}
        if kind == "enum":
            return self.enumeration()
        if kind in ("string", "number"):
            return getattr(self, kind)()
        return getattr(self, kind)(depth)


def schemas(count, seed=1):
    for i in range(count):
        maker = Maker(seed * 100003 + i)
        schema = maker.schema()
        if maker.defs:
            schema = {**schema, "$defs": maker.defs}
        yield schema
