"""The formats that a recipe (docs/convert.md) gives to matrices."""
import fnmatch


def format_of(recipe, module):
    """-> bits, group: those of the first rule that matches and has bits, or the default's."""
    for rule in recipe["rules"]:
        if "bits" in rule and fnmatch.fnmatchcase(module, rule["match"]):
            return rule["bits"], rule["group"]
    return recipe["default"]["bits"], recipe["default"]["group"]
