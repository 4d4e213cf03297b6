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
    "of two values for one key, one would be lost without a word",
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
    "a list or a mapping stands where a key should be",
    "every key here is a name",
    "quote it if it is meant as text; a value that starts with { or [ needs quotes, too",
)
ALIAS_KEY = YamlRule(
    "yaml-key",
    "the alias {text} stands where a key should be",
    "keys are names and are written out, so that they can be found",
    "write the key itself",
)
MERGE_KEY = YamlRule(
    "yaml-merge-key",
    "the merge key << is not supported",
    "it belongs to YAML 1.1; manifests are read as YAML 1.2, which has none",
    "write the merged keys out",
)
TAG = YamlRule(
    "yaml-tag",
    "the tag {text} is not supported",
    "a manifest holds plain texts, numbers, lists and mappings only",
    "remove the tag; to make a text of a number, put it in quotes",
)
INCLUDED_KEY = YamlRule(
    "yaml-tag",
    "an included file stands where a key should be",
    "keys are names and are written out, so that they can be found",
    "write the key itself",
)
UNKNOWN_ALIAS = YamlRule(
    "yaml-alias",
    "no anchor is set for the alias {text}",
    "an alias repeats a value that was marked with & above it, in the same document",
    "set the anchor first; put the value in quotes if its * is meant as text",
)
ENDLESS_ALIAS = YamlRule(
    "yaml-alias",
    "the alias {text} stands inside of what it repeats",
    "the value would have no end",
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
    "no manifest needs that, and such a file could exhaust the reader",
    "check for a bracket that was repeated by mistake",
)
