"""Restrictions on the YAML of manifests, each with its message."""

from odfbuild.values import dataclass

MAX_DEPTH = 100
MAX_ALIASED = 100_000


@dataclass(frozen=True, slots=True)
class YamlRule:
    """One rule; {text} in its words stands for what the file says."""

    code: str
    what: str
    why: str
    fix: str


DUPLICATE_KEY = YamlRule(
    "duplicate-key",
    "the key '{text}' is given twice",
    "one of the two values would be silently lost",
    "keep one of the two",
)
KEY_NOT_TEXT = YamlRule(
    "yaml-key",
    "the key '{text}' is not text",
    "YAML 1.2 reads it as a number, a truth value or null, and every key here is a name",
    'put it in quotes: "{text}"',
)
COLLECTION_KEY = YamlRule(
    "yaml-key",
    "a list or a mapping is in the place of a key",
    "every key here is a name",
    "quote it if it is a text; a value that starts with { or [ needs quotes, too",
)
ALIAS_KEY = YamlRule(
    "yaml-key",
    "the alias {text} is in the place of a key",
    "keys are names and must be written out, so that they can be searched",
    "write the key itself",
)
MERGE_KEY = YamlRule(
    "yaml-merge-key",
    "the merge key << is not supported",
    "it belongs to YAML 1.1; manifests are read as YAML 1.2, which has none",
    "write out the merged keys",
)
TAG = YamlRule(
    "yaml-tag",
    "the tag {text} is not supported",
    "a manifest holds plain texts, numbers, lists and mappings only",
    "remove the tag; to make a text of a number, put it in quotes",
)
INCLUDED_KEY = YamlRule(
    "yaml-tag",
    "an included file is in the place of a key",
    "keys are names and must be written out, so that they can be searched",
    "write the key itself",
)
UNKNOWN_ALIAS = YamlRule(
    "yaml-alias",
    "no anchor is set for the alias {text}",
    "an alias repeats a value that was marked with & above it, in the same document",
    "set the anchor first; put the value in quotes if its * is text",
)
ENDLESS_ALIAS = YamlRule(
    "yaml-alias",
    "the alias {text} is inside of the value that it repeats",
    "the value would be infinite",
    "write the value out",
)
TOO_MANY_ALIASED = YamlRule(
    "yaml-alias",
    f"the aliases of this file repeat more than {MAX_ALIASED} values",
    "a small file could use up all memory that way",
    "write the values out, or split the file",
)
TOO_DEEP = YamlRule(
    "yaml-depth",
    f"lists and mappings are nested more than {MAX_DEPTH} deep",
    "no manifest needs this, and such a file could exhaust memory",
    "check for a bracket that was repeated by mistake",
)
